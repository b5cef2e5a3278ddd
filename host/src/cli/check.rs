use std::{fmt::Write as _, io::Write as _, process::ExitCode};

use anyhow::Context as _;
use semver::Version;

use super::{
    client::{Client, RequestError},
    exit_code,
    text::plain,
};
use crate::check::{self, HostState, Report, running::Answers};
use cardinal_base::config::{Config, Settings};
use cardinal_observe::log::Log;
use cardinal_serve::check::finding::{Finding, Severity};

/// Check the host: settings, database and plugins
///
/// Works beside a running host, which it asks, and with the host stopped, when a private PostgreSQL is started for as
/// long as the check takes. Nothing is changed: no plugin is activated, no schema.sql is run, and what is tried in the
/// database is rolled back. Exits 0 when nothing is wrong, 1 when something is; warnings alone are 0 unless --strict.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal check
  cardinal check --json | jq -r '.findings[] | select(.severity == \"error\") | .code'
  cardinal check --core-version 2.0.0
      and which plugins core 2.0.0 would refuse")]
pub(super) struct Args {
    /// Print everything that was found as JSON
    #[arg(long)]
    json: bool,
    /// Exit 1 for warnings, too
    #[arg(long)]
    strict: bool,
    /// Judge the plugins by this version of the core, too
    #[arg(long, value_name = "VERSION", value_parser = core_version)]
    core_version: Option<Version>,
    #[command(flatten)]
    settings: Settings,
}

/// A version of the core on the command line.
pub(super) fn core_version(text: &str) -> Result<Version, &'static str> {
    Version::parse(text).map_err(|_| "a version of the core has three numbers: 2.0.0")
}

pub(super) fn run(args: &Args) -> ExitCode {
    match look(args) {
        Ok(report) => {
            let bad = !report.ok || (args.strict && report.counts.warning > 0);
            if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(error) => exit_code(Err(error)),
    }
}

fn look(args: &Args) -> anyhow::Result<Report> {
    let report = match Config::read(&args.settings) {
        Err(bad) => Report::from_settings_error(&bad),
        Ok(config) => {
            Log::start_silent(&config.observe)?;
            let runtime = crate::cli::runtime()?;
            runtime.block_on(async {
                let answers = match HostState::new(&config) {
                    HostState::Running => Some(ask(&config).await.map_err(|failure| failure.to_string())),
                    _ => None,
                };
                check::check(&config, args.core_version.as_ref(), answers).await
            })
        }
    };
    let text = if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { describe(&report) };
    std::io::stdout().write_all(text.as_bytes()).context("writing to standard output")?;
    Ok(report)
}

/// The host on this machine, which needs no key for it.
async fn ask(config: &Config) -> Result<Answers, RequestError> {
    let client = Client::local(&config.paths.data_dir);
    let system = client.get("/v1/admin/system").await?;
    let mut registry = client.get("/v1/admin/plugin-registry").await?;
    let mut registry = match registry["items"].take() {
        serde_json::Value::Array(items) => items,
        _ => Vec::new(),
    };
    for item in registry.iter_mut().filter(|item| item["state"] == "active") {
        let path = format!("/v1/admin/plugin-registry/{}/settings", item["name"].as_str().unwrap_or_default());
        // A plugin without settings has none to tell.
        if let Ok(mut settings) = client.get(&path).await {
            item["settings_schema"] = settings["schema"].take();
        }
    }
    Ok(Answers { system, registry })
}

fn describe(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        text.push_str(&finding_text(finding));
    }
    let host = match report.host {
        HostState::Running => "the host is running",
        HostState::Stopped => "the host is stopped",
        HostState::Unknown => "nothing else can be checked with these settings",
    };
    let (errors, warnings) = (report.counts.error, report.counts.warning);
    let _ = writeln!(text, "\n{errors} errors, {warnings} warnings; {host}.");
    text
}

/// One finding in lines for people, as the checks print it.
pub(super) fn finding_text(finding: &Finding) -> String {
    let mut text = String::new();
    let severity = match finding.severity {
        Severity::Ok => "ok     ",
        Severity::Warning => "WARNING",
        Severity::Error => "ERROR  ",
    };
    let code = match &finding.cause {
        Some(cause) => format!("{} ({cause})", finding.code),
        None => finding.code.to_owned(),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{severity} {code:<24} {}: {}", plain(&finding.subject), plain(&finding.message));
    let more = [("found", &finding.found), ("expected", &finding.expected), ("to do", &finding.fix)];
    for (what, value) in more {
        if let Some(value) = value {
            let _ = writeln!(text, "          {what:<9} {}", plain(value));
        }
    }
    text
}
