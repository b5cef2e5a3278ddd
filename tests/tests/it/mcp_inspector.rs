//! The official MCP inspector, strict: it refuses schemas of tools that some client or provider of models would not
//! take.

use std::{path::Path, process::Command};

use cardinal_tests::{Host, PluginsFolder, printed_json, repository, run};

use super::mcp_conformance::node;

const LAUNCHER: &str =
    "tests/clients/inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js";

/// One command of the inspector; `home` is where it keeps what it likes to keep.
fn inspector(host: &Host, key: &str, home: &Path) -> Option<Command> {
    let Some(node) = node() else {
        eprintln!("skipped: the inspector needs a newer Node, which is not to be had for this machine");
        return None;
    };
    let mut command = Command::new(node);
    command.arg(repository().join(LAUNCHER)).arg("--cli").arg(format!("{}/api", host.url()));
    command.args(["--transport", "http", "--header", &format!("Authorization: Bearer {key}")]);
    command.env("HOME", home);
    Some(command)
}

#[tokio::test]
async fn the_strict_inspector_takes_every_tool_of_the_core_and_the_bundled_plugins() {
    let host = Host::settings().plugins(PluginsFolder::bundled()).start().await;
    let key = host.owner().await.key(&["*"]).await;
    let home = tempfile::tempdir().unwrap();
    let Some(mut list) = inspector(&host, key.token(), home.path()) else { return };
    let listed = run({
        list.args(["--method", "tools/list", "--strict"]);
        list
    })
    .await;
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let answer = printed_json(&listed);
    let names: Vec<&str> =
        answer["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    for name in ["cards_bulk_update", "jobs_get", "plugin_supplier_preview", "plugin_gallery_list"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let Some(mut call) = inspector(&host, key.token(), home.path()) else { return };
    call.args(["--method", "tools/call", "--tool-name", "cards_search", "--tool-arg", "limit=1"]);
    let called = run(call).await;
    assert!(called.status.success(), "{}", String::from_utf8_lossy(&called.stderr));
    assert!(printed_json(&called)["structuredContent"]["items"].is_array());
}
