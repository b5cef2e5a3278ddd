//! What a host makes of its plugins, and what an operator has it do with one of them.

use std::{io::Write as _, process::ExitCode};

use anyhow::Context as _;
use http::Method;
use serde_json::Value;

use crate::cli::{client::Client, table::table, text::plain};
use cardinal_base::config::ClientSettings;

pub(super) const REGISTRY: &str = "/v1/admin/plugin-registry";
/// Of a hash.
const SHOWN_DIGITS: usize = 12;

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
        let lines: Vec<[String; 6]> = items.map(line).collect();
        table(["NAME", "VERSION", "STATE", "PACKAGE", "SHA256", "WHY"], &lines)
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

fn line(item: &Value) -> [String; 6] {
    let text = |member: &str| item[member].as_str().unwrap_or_default().to_owned();
    [text("name"), text("version"), text("state"), text("package"), short_hash(&item["sha256"]), why(item)]
}

/// Enough of a hash to tell packages of the same version from each other.
fn short_hash(sha256: &Value) -> String {
    sha256.as_str().unwrap_or_default().chars().take(SHOWN_DIGITS).collect()
}

/// What keeps the plugin, or its newest files, from serving.
fn why(item: &Value) -> String {
    let refusal = &item["refusal"];
    match refusal["code"].as_str() {
        Some(code) => format!("{code}: {}", refusal["reason"].as_str().unwrap_or_default()),
        None => item["reason"].as_str().unwrap_or_default().to_owned(),
    }
}

/// The plugin in words: state, which package serves, and why it is not what was wanted.
pub(super) fn describe(item: &Value) -> String {
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    let package = |package: &Value| match package["sha256"].is_string() {
        true => format!("{} with sha256 {}", text(&package["version"]), plain(&short_hash(&package["sha256"]))),
        false => String::new(),
    };
    let mut described = format!("{} {} is {}\n", text(&item["name"]), text(&item["version"]), text(&item["state"]));
    if item["state"] == "active" {
        described.push_str(&detail("serves", &package(item)));
        described.push_str(&detail("in folder", &package(&item["pending"])));
    }
    described.push_str(&reasons(item));
    let warnings = item["warnings"].as_array().into_iter().flatten();
    described.extend(warnings.map(|warning| detail("note", &text(warning))));
    described
}

/// Why it is not what was wanted, and what to do; nothing when all is well.
pub(super) fn reasons(item: &Value) -> String {
    let refusal = &item["refusal"];
    let text = |name: &str| plain(refusal[name].as_str().unwrap_or_default());
    let lines =
        [("why", plain(&why(item))), ("expected", text("expected")), ("found", text("found")), ("to do", text("fix"))];
    lines.iter().map(|(what, value)| detail(what, value)).collect()
}

/// A line below the first one; nothing without a value.
fn detail(what: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("  {what:<9} {value}\n") }
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

    #[test]
    fn a_healthy_plugin_has_no_why_and_says_which_package_serves() {
        let item = json!({"name": "notes", "version": "1.0.0", "state": "active", "package": "notes.so",
            "sha256": "0123456789abcdef", "refusal": null, "reason": null, "pending": null,
            "warnings": ["The plugin's files have changed."]});
        assert_eq!(line(&item), ["notes", "1.0.0", "active", "notes.so", "0123456789ab", ""]);
        assert_eq!(
            describe(&item),
            "notes 1.0.0 is active\n  serves    1.0.0 with sha256 0123456789ab\n  \
             note      The plugin's files have changed.\n"
        );
    }

    #[test]
    fn after_a_rollback_both_packages_are_told() {
        let item = json!({"name": "notes", "version": "1.0.0", "state": "active", "sha256": "0123456789abcdef",
            "pending": {"version": "1.0.0", "sha256": "fedcba9876543210"},
            "refusal": {"code": "rolled-back", "reason": "No.", "fix": "`cardinal plugin reload notes`."}});
        let text = describe(&item);
        let places = ["serves    1.0.0 with sha256 0123456789ab", "in folder 1.0.0 with sha256 fedcba987654"];
        assert!(places.iter().all(|place| text.contains(place)), "{text}");
        assert!(text.contains("why       rolled-back: No.") && text.contains("to do     `cardinal"), "{text}");
    }
}
