//! Each official SDK's client, started and stopped many times with one key, as scripts do: none is ever refused.

use std::process::Command;

use cardinal_tests::{Host, printed_json, repository, run};
use serde_json::Value;

use super::mcp_python::python;
use super::mcp_sessions::echo;

/// More than a caller may have in memory.
const SOME: u32 = 40;
const HUNDRED: u32 = 100;

/// Starts this client so many times against a host of its own; `arguments` come after the endpoint's address.
async fn runs(mut client: Command, arguments: &[&str], times: u32) -> Value {
    let host = Host::settings().plugins(echo()).start().await;
    let key = host.owner().await.unlimited().await;
    client.arg(format!("{}/api", host.url())).args(arguments).env("CARDINAL_API_KEY", key.token());
    let output = run(client).await;
    let answer = printed_json(&output);
    assert!(output.status.success(), "{output:?}");
    assert!(answer["runs"] == times && answer["tools"].as_u64() > Some(0), "{answer}");
    answer
}

fn node(file: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(repository().join("tests/clients").join(file));
    command
}

fn python_client(version: &str) -> Option<Command> {
    let mut command = Command::new(python(version)?);
    command.arg(repository().join("tests/clients/python/client.py"));
    Some(command)
}

#[tokio::test]
async fn the_first_typescript_client() {
    runs(node("mcp.mjs"), &["again", &HUNDRED.to_string()], HUNDRED).await;
}

#[tokio::test]
async fn the_second_typescript_client_in_both_eras() {
    for (mode, revision) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let answer = runs(node("mcp2.mjs"), &["again", &HUNDRED.to_string(), mode], HUNDRED).await;
        assert_eq!(answer["revision"], revision);
    }
}

/// A start of these takes several times as long.
async fn python_clients(times: u32) {
    for (version, mode, revision) in
        [("1", "auto", "2025-11-25"), ("2", "auto", "2026-07-28"), ("2", "legacy", "2025-11-25")]
    {
        let Some(client) = python_client(version) else { continue };
        assert_eq!(runs(client, &[mode, &times.to_string()], times).await["revision"], revision);
    }
}

#[tokio::test]
async fn the_python_clients_in_both_eras_some_times() {
    python_clients(SOME).await;
}

#[tokio::test]
#[ignore = "long: scripts/test --long"]
async fn the_python_clients_in_both_eras() {
    python_clients(HUNDRED).await;
}
