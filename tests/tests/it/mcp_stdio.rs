//! `cardinal mcp stdio`: clients that start a program and speak over its standard input and output.

use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use cardinal_tests::{Host, Package, PluginsFolder, cardinal_program, eventually, repository};
use serde_json::{Value, json};
use tokio::io::AsyncBufReadExt;

use super::mcp_sessions::kill_worker;

fn echo() -> Package {
    Package::fixture("echo").manifest(|manifest| {
        let sleep = json!({"name": "plugin_echo_sleep", "description": "Takes its time.", "handler": "sleep"});
        manifest["mcp"]["tools"].as_array_mut().unwrap().push(sleep);
    })
}

fn both() -> PluginsFolder {
    PluginsFolder::default().with("echo", &echo()).with("conformance", &Package::fixture("conformance"))
}

/// A file with this key.
fn key_file(host: &Host, key: &str) -> PathBuf {
    let file = host.data().with_file_name("key");
    std::fs::write(&file, format!("{key}\n")).unwrap();
    file
}

/// Runs the command with these lines as its input.
async fn speak(arguments: Vec<String>, lines: String) -> Output {
    let mut command = Command::new(cardinal_program());
    command.args(["mcp", "stdio"]).args(arguments).env_remove("CARDINAL_API_KEY");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let spoken = move || {
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    tokio::task::spawn_blocking(spoken).await.unwrap()
}

fn messages(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn request(id: Value, method: &str, params: Value) -> String {
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

async fn the_official_client_of(era: &'static str) {
    let host = Host::settings().plugins(both()).start().await;
    let key = host.owner().await.key(&["mcp:use", "plugin:*:read"]).await;
    let mut command = tokio::process::Command::new("node");
    command.arg(repository().join("tests/clients/stdio.mjs")).arg(era).arg(cardinal_program()).args(["mcp", "stdio"]);
    command.args(["--url", &host.url(), "--tools", "plugin_*", "--key-file"]).arg(key_file(&host, key.token()));
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut printed = tokio::io::BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(printed.next_line().await.unwrap().as_deref(), Some("waiting"));
    if era == "legacy" {
        // The stream of the host's messages outlives the worker.
        kill_worker(&host);
        host.ready_again().await;
        let owner = host.owner().await;
        eventually("the new worker has looked at its plugins", async || {
            owner.get("/v1/admin/plugins").await.text().contains("conformance").then_some(())
        })
        .await;
    }
    host.plugins().remove("conformance");
    let answer = printed.next_line().await.unwrap().unwrap_or_default();
    let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
    assert!(child.wait().await.unwrap().success(), "{answer}");
    let tools = answer["tools"].as_array().unwrap();
    assert!(tools.len() > 10 && tools.iter().all(|name| name.as_str().unwrap().starts_with("plugin_")), "{answer}");
    assert_eq!(answer["progress"][2], json!({"done": 100, "total": 100, "message": "Done"}), "{answer}");
    assert_ne!(answer["header"]["isError"], true, "{answer}");
    assert_eq!(answer["unknown"]["code"], -32602, "{answer}");
    assert!(answer["cancelled"]["message"].as_str().unwrap().contains("enough"), "{answer}");
    assert_eq!(answer["several"][2]["structuredContent"], json!({"n": 3}), "{answer}");
    assert_eq!(answer["changed"], true, "{answer}");
}

#[tokio::test]
async fn the_official_client_of_the_sessions() {
    the_official_client_of("legacy").await;
}

#[tokio::test]
async fn the_official_client_of_the_newest_revision() {
    the_official_client_of("newest").await;
}

#[tokio::test]
async fn each_line_is_answered_and_nothing_else_is_written() {
    let host = Host::settings().plugins(both()).start().await;
    let key = host.owner().await.key(&["mcp:use", "plugin:echo:read", "cards:write"]).await;
    let arguments = |more: &[&str]| -> Vec<String> {
        let file = key_file(&host, key.token());
        let common = ["--url".to_owned(), host.url(), "--key-file".to_owned(), file.to_str().unwrap().to_owned()];
        common.into_iter().chain(more.iter().map(|word| (*word).to_owned())).collect()
    };
    let call = |arguments: Value| json!({"name": "plugin_echo_repeat", "arguments": arguments});
    let exact = "{\"jsonrpc\":\"2.0\",\"id\":\"exact\",\"method\":\"tools/call\",\"params\":{\"name\":\"plugin_echo_repeat\",\"arguments\":{\"n\":18446744073709551616.25}}}\n";
    let lines = [
        "no message\r\n\n".to_owned(),
        "[]\n".to_owned(),
        format!("{}\n", "x".repeat(2 << 20)),
        request(json!(1), "tools/call", call(json!({"text": "zwei\nZeilen\u{2028}"}))),
        exact.to_owned(),
        json!({"jsonrpc": "2.0", "method": "notifications/nothing"}).to_string() + "\n",
        // The last line has no end.
        request(json!(2), "ping", json!({})).trim_end().to_owned(),
    ];
    let output = speak(arguments(&[]), lines.concat()).await;
    assert!(output.status.success(), "{output:?}");
    let answers = messages(&output);
    let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap_or_else(|| panic!("{answers:?}"));
    assert_eq!(answers.len(), 6, "{answers:?}");
    assert_eq!(of(json!(1))["result"]["structuredContent"]["text"], "zwei\nZeilen\u{2028}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("{\"n\":18446744073709551616.25}"), "every digit");
    assert_eq!(of(json!(2))["result"], json!({}));
    let faults: Vec<&Value> =
        answers.iter().filter(|answer| answer["id"].is_null()).map(|answer| &answer["error"]["code"]).collect();
    assert_eq!(faults, [&json!(-32700), &json!(-32600), &json!(-32700)]);
    // What the command takes away, and a name that is not there.
    let list = request(json!(1), "tools/list", json!({}));
    let narrow = speak(arguments(&["--readonly", "--tools", "cards_*,plugin_echo_s*"]), list.clone()).await;
    let narrow = messages(&narrow);
    let listed: Vec<&Value> =
        narrow[0]["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(
        listed,
        ["cards_export", "cards_get", "cards_history", "cards_search", "plugin_echo_say", "plugin_echo_sleep"]
    );
    let unknown = messages(&speak(arguments(&["--tools", "cards_gte"]), list).await);
    assert!(unknown[0]["error"]["message"].as_str().unwrap().contains("Did you mean `cards_get`"), "{unknown:?}");
}

#[tokio::test]
async fn a_host_that_refuses_or_is_away_is_an_error_of_the_request() {
    let host = Host::settings().plugins(both()).start().await;
    let ping = request(json!("p"), "ping", json!({}));
    let at =
        |url: &str, file: &PathBuf| ["--url", url, "--key-file", file.to_str().unwrap()].map(str::to_owned).to_vec();
    let (wrong, right) = (key_file(&host, "mpk_wrong"), host.owner().await.key(&["mcp:use"]).await);
    let refused = messages(&speak(at(&host.url(), &wrong), ping.clone()).await);
    assert_eq!((&refused[0]["id"], &refused[0]["error"]["data"]["status"]), (&json!("p"), &json!(401)), "{refused:?}");
    assert_eq!(refused[0]["error"]["data"]["code"], "invalid-token");
    let away = messages(&speak(at("http://127.0.0.1:1", &wrong), ping.clone()).await);
    assert!(away[0]["error"]["message"].as_str().unwrap().contains("cannot be reached"), "{away:?}");
    // A key is never an argument, and on the host's own machine none is needed.
    let typed = Command::new(cardinal_program()).args(["mcp", "stdio", right.token()]).output().unwrap();
    assert_eq!(typed.status.code(), Some(64));
    let data = host.data().to_str().unwrap().to_owned();
    let local = messages(&speak(vec!["--data-dir".to_owned(), data], ping).await);
    assert_eq!(local[0]["result"], json!({}), "{local:?}");
}
