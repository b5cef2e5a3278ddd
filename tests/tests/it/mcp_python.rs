//! The official Python clients, as `scripts/test` installs them: the first version, and the second in both eras.

use std::{path::PathBuf, process::Command};

use cardinal_tests::{Host, Package, PluginsFolder, printed_json, repository, run};
use serde_json::{Value, json};

/// The Python of a virtual environment with this version; none where PyPI could not be reached.
pub(super) fn python(version: &str) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    let folder = target.join(format!("mcp-python-{version}"));
    let is_installed = folder.join("installed.txt").exists();
    if !is_installed {
        eprintln!(
            "skipped: the Python client {version} of MCP is not in {}; scripts/test installs it",
            folder.display()
        );
    }
    is_installed.then(|| folder.join("bin/python"))
}

/// What the client prints that walks through the endpoint.
async fn walk(version: &str, mode: &str) -> Option<Value> {
    let python = python(version)?;
    let plugins = PluginsFolder::default().with("conformance", &Package::fixture("conformance"));
    let host = Host::settings().plugins(plugins).start().await;
    let key = host.owner().await.key(&["mcp:use", "plugin:conformance:read"]).await;
    let mut command = Command::new(python);
    command.arg(repository().join("tests/clients/python/client.py")).args([&format!("{}/api", host.url()), mode]);
    command.env("CARDINAL_API_KEY", key.token());
    Some(printed_json(&run(command).await))
}

fn check(answer: &Value, revision: &str) {
    assert_eq!(answer["revision"], revision, "{answer}");
    assert!(answer["tools"].to_string().contains("plugin_conformance_test_simple_text"), "{answer}");
    let progress = json!([[0.0, 100.0, "Begun"], [50.0, 100.0, "Half done"], [100.0, 100.0, "Done"]]);
    assert_eq!(answer["progress"], progress, "{answer}");
    assert_eq!(answer["image"]["content"][0]["mimeType"], "image/png", "{answer}");
    assert_ne!(answer["header"]["isError"], true, "{answer}");
    assert!(answer["wrong"]["isError"] == true && answer["wrong"].to_string().contains("/region"), "{answer}");
    assert!(answer["unknown"]["error"].as_str().unwrap().contains("plugin_conformance_nothing"), "{answer}");
}

#[tokio::test]
async fn the_first_version_lists_and_calls() {
    if let Some(answer) = walk("1", "").await {
        check(&answer, "2025-11-25");
    }
}

#[tokio::test]
async fn the_second_version_lists_and_calls_in_both_eras() {
    for (mode, revision) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        if let Some(answer) = walk("2", mode).await {
            check(&answer, revision);
        }
    }
}
