//! What a host makes of its plugins, and what an operator has it do with one of them.

use std::{io::Write as _, process::ExitCode};

use anyhow::Context as _;
use http::Method;
use serde_json::Value;

use crate::cli::{client::Client, table::table, text::plain};
use cardinal_base::config::ClientSettings;

pub(super) const REGISTRY: &str = "/v1/admin/plugin-registry";

/// List a host's plugins, and what became of each
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal plugin list
  cardinal plugin list --json | jq -r '.items[] | select(.state != \"active\") | .name'
  CARDINAL_API_KEY=mpk_... cardinal plugin list --url https://shop.example.com")]
pub(super) struct List {
    /// Print everything that the host tells as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    host: ClientSettings,
}

/// Which plugin a command is about.
#[derive(Debug, clap::Args)]
pub(super) struct PluginArgs {
    /// Name of the plugin
    name: String,
    /// Print what the host tells of the plugin then as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    host: ClientSettings,
}

/// What an operator has a host do with one plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PluginCommand {
    Enable,
    Disable,
    Reload,
    Rollback,
    Release,
}

impl PluginCommand {
    const fn path(self) -> &'static str {
        match self {
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Reload => "reload",
            Self::Rollback => "rollback",
            Self::Release => "release",
        }
    }

    /// Whether the plugin is as the operator wants it now.
    fn is_fulfilled(self, item: &Value) -> bool {
        match self {
            Self::Disable => item["state"] == "disabled",
            // The files that lie there may be refused while the older version, which was asked for, serves.
            Self::Rollback => item["state"] == "active",
            Self::Enable | Self::Reload | Self::Release => item["state"] == "active" && item["refusal"].is_null(),
        }
    }
}

pub(super) fn list(args: &List) -> anyhow::Result<()> {
    let registry = block_on(async { Ok(Client::new(&args.host.read()?)?.get(REGISTRY).await?) })?;
    let text = if args.json {
        serde_json::to_string_pretty(&registry)? + "\n"
    } else {
        let items = registry["items"].as_array().into_iter().flatten();
        let lines: Vec<[String; 5]> = items.map(line).collect();
        table(["NAME", "VERSION", "STATE", "PACKAGE", "WHY"], &lines)
    };
    std::io::stdout().write_all(text.as_bytes()).context("writing to standard output")
}

/// A plugin's name as part of a path, as it is typed; what has no place there, no plugin is called.
pub(super) fn escaped(name: &str) -> String {
    url::form_urlencoded::byte_serialize(name.as_bytes()).collect()
}

pub(super) fn run(args: &PluginArgs, command: PluginCommand) -> anyhow::Result<ExitCode> {
    let path = format!("{REGISTRY}/{}/{}", escaped(&args.name), command.path());
    let answer = block_on(async { Ok(Client::new(&args.host.read()?)?.ask(Method::POST, &path, None).await?) })?;
    let item = &answer["item"];
    let text = if args.json { serde_json::to_string_pretty(&answer)? + "\n" } else { describe(item) };
    std::io::stdout().write_all(text.as_bytes()).context("writing to standard output")?;
    Ok(if command.is_fulfilled(item) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn line(item: &Value) -> [String; 5] {
    let text = |member: &str| item[member].as_str().unwrap_or_default().to_owned();
    [text("name"), text("version"), text("state"), text("package"), why(item)]
}

/// What keeps the plugin, or its newest files, from serving; else what it is warned about.
fn why(item: &Value) -> String {
    let refusal = &item["refusal"];
    match (refusal["code"].as_str(), item["reason"].as_str()) {
        (Some(code), _) => format!("{code}: {}", refusal["reason"].as_str().unwrap_or_default()),
        (None, Some(reason)) => reason.to_owned(),
        (None, None) => item["warnings"][0].as_str().unwrap_or_default().to_owned(),
    }
}

/// The plugin in words: state, and why it is not what was wanted.
pub(super) fn describe(item: &Value) -> String {
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    let mut text_lines = format!("{} {} is {}\n", text(&item["name"]), text(&item["version"]), text(&item["state"]));
    let refusal = &item["refusal"];
    let lines = [
        ("why", plain(&why(item))),
        ("expected", text(&refusal["expected"])),
        ("found", text(&refusal["found"])),
        ("to do", text(&refusal["fix"])),
    ];
    for (what, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
        text_lines.push_str(&format!("  {what:<9} {value}\n"));
    }
    text_lines
}

pub(super) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = crate::cli::runtime()?;
    runtime.block_on(work)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_asked_for_has_come_true_or_not() {
        let at = |state: &str| json!({"name": "a", "state": state, "refusal": null});
        assert!(
            PluginCommand::Disable.is_fulfilled(&at("disabled")) && !PluginCommand::Disable.is_fulfilled(&at("active"))
        );
        assert!(
            PluginCommand::Enable.is_fulfilled(&at("active")) && !PluginCommand::Enable.is_fulfilled(&at("refused"))
        );
        let behind = json!({"state": "active", "refusal": {"code": "bad-manifest"}});
        assert!(!PluginCommand::Reload.is_fulfilled(&behind) && PluginCommand::Rollback.is_fulfilled(&behind));
    }

    #[test]
    fn a_refusal_is_told_with_what_to_do() {
        let item = json!({"name": "a\u{7}", "version": "1.0.0", "state": "refused",
            "refusal": {"code": "bad-manifest", "reason": "No.", "expected": "x", "found": "y", "fix": "Do z."}});
        let text_lines = describe(&item);
        assert_eq!(
            text_lines,
            "a\\u{7} 1.0.0 is refused\n  why       bad-manifest: No.\n  expected  x\n  found     y\n  to do     Do z.\n"
        );
    }
}
