//! Libraries that earlier builds made are served without being built again.
#![cfg(target_arch = "x86_64")]

use cardinal_tests::{Host, Pages, PluginsFolder, User, eventually, repository};
use http::Method;
use serde_json::{Value, json};

use super::mcp_sessions::read_up_to;

/// Of the plugin API, with a library of each fixture (`tests/stored/README.md`).
const VERSIONS: [&str; 1] = ["1.0.0-dev"];
const ECHO: &str = "/v1/admin/plugins/echo";
const JOBS: &str = "/v1/admin/jobs";

/// The library by itself: it carries the manifest, schema and frontend that its build had.
fn stored(name: &str, version: &str) -> PluginsFolder {
    let packed = repository().join(format!("tests/stored/{name}-{version}-x86_64.so.zst"));
    let library = zstd::decode_all(&*std::fs::read(packed).unwrap()).unwrap();
    PluginsFolder::default().with_library(name, &library)
}

#[tokio::test]
async fn libraries_of_earlier_builds_are_served() {
    for version in VERSIONS {
        let host = Host::settings().plugins(stored("quick", version)).start().await;
        let owner = host.owner().await;
        let route = |path: &str| format!("/v1/admin/plugins/quick/{path}");
        assert_eq!(
            owner.get(&route("hello")).await.expect(200),
            json!({"message": "hello", "number": 42}),
            "{version}"
        );
        assert_eq!(owner.get(&route("query")).await.expect(200)["number"], 42, "{version}: a row of its own database");
        let card = owner.card("Chair").await;
        let enrich = route(&format!("enrich/{}", card["id"].as_str().unwrap()));
        assert_eq!(owner.post(&enrich, &json!({})).await.expect(200)["version"], 2, "{version}: a source of the card");
    }
}

/// `echo` goes through most functions of the host and its extensions, and gives and takes streams.
#[tokio::test]
async fn libraries_of_earlier_builds_find_all_that_they_use() {
    for version in VERSIONS {
        let settings = Host::settings().plugins(stored("echo", version));
        let host = settings.set("PLUGIN_NETWORKS", "echo=127.0.0.1").start().await;
        let owner = host.owner().await;
        let plugin = host.plugin("echo").await;
        assert_eq!((&plugin["name"], &plugin["state"]), (&json!("echo"), &json!("active")), "{version}: {plugin}");
        assert!(plugin["budgets"]["memory_bytes"].as_u64() > Some(0), "{version}: it counts its memory: {plugin}");
        calls_are_answered(owner).await;
        cards_are_read_and_written(owner).await;
        the_database_answers(owner).await;
        notifications_come(owner).await;
        jobs_run_and_are_cancelled(owner).await;
        other_servers_answer(owner).await;
        the_tool_answers(owner).await;
        host.stop().await;
    }
}

async fn calls_are_answered(owner: &User) {
    let hello = owner.get(&format!("{ECHO}/hello")).await.expect(200);
    assert_eq!(hello, json!({"greeting": "hello", "plugin": "echo", "version": "1.0.0"}));
    let body = json!({"a": [1, "ü", null]});
    assert_eq!(owner.post(&format!("{ECHO}/echo"), &body).await.expect(200), body);
    assert_eq!(owner.get(&format!("{ECHO}/stream?pieces=3")).await.text(), "0\n1\n2\n");
    let upload = owner.call(Method::POST, &format!("{ECHO}/upload")).body("text/plain", "a".repeat(200_000));
    assert_eq!(upload.send().await.expect(200)["bytes"], 200_000);
    owner.get(&format!("{ECHO}/teapot")).await.refused(418, "teapot");
    owner.get(&format!("{ECHO}/panic-poll")).await.refused(500, "plugin-panicked");
    let user = owner.get(&format!("{ECHO}/user")).await.expect(200);
    assert_eq!((&user["user"]["id"], &user["service_user"]["kind"]), (&json!(owner.id), &json!("plugin")), "{user}");
    for place in ["task", "thread"] {
        let own = owner.get(&format!("{ECHO}/{place}")).await.expect(200);
        assert_eq!(own["service_user"], user["service_user"], "from a {place} of its own");
    }
    let logs = owner.get("/v1/admin/plugin-registry/echo/logs").await.expect(200).to_string();
    assert!(logs.contains("echo is ready") && logs.contains("in a poll"), "{logs}");
}

async fn cards_are_read_and_written(owner: &User) {
    let events = async |query: &str| owner.get(&format!("{ECHO}/events?{query}")).await.expect(200);
    let begin = events("").await["cursor"].clone();
    let card = owner.card("Lamp").await["id"].as_str().unwrap().to_owned();
    let enrich = format!("{ECHO}/enrich/{card}");
    assert_eq!(owner.post(&enrich, &json!({"note": "x"})).await.expect(200)["version"], 2);
    let read = owner.get(&format!("{ECHO}/card/{card}")).await.expect(200);
    assert_eq!((&read["card"]["title"], &read["card"]["version"]), (&json!("Lamp"), &json!(2)), "{read}");
    let listed = owner.get(&format!("{ECHO}/cards")).await.expect(200);
    assert!(listed["items"].as_array().unwrap().iter().any(|item| item["id"] == card), "{listed}");
    assert_eq!(owner.delete(&format!("{ECHO}/source/{card}")).await.expect(200)["version"], 3);
    eventually("the card's events", async || {
        let page = events(&format!("after={begin}&own=true&wait=true")).await;
        let of_card = page["items"].as_array().unwrap().iter().filter(|event| event["card_id"] == card);
        (of_card.count() == 3).then_some(())
    })
    .await;
}

async fn the_database_answers(owner: &User) {
    let copy = owner.call(Method::POST, &format!("{ECHO}/db/copy")).body("text/plain", "one\ntwo\nthree\n");
    assert_eq!(copy.send().await.expect(200), json!({"copied": 3, "table": "one\ntwo\nthree\n"}));
    assert_eq!(owner.post(&format!("{ECHO}/db/notes"), &json!({"text": "four"})).await.expect(201)["id"], 4);
    assert_eq!(owner.post(&format!("{ECHO}/db/rollback"), &json!({})).await.expect(200)["left"], 0);
    let notes = owner.get(&format!("{ECHO}/db/notes")).await.expect(200);
    assert_eq!((&notes["items"][3]["text"], &notes["items"][4]), (&json!("four"), &Value::Null), "{notes}");
    let login = owner.get(&format!("{ECHO}/db/login")).await.expect(200);
    assert!(login["user"].as_str().unwrap().ends_with("_p_echo") && login["has_password"] == true, "{login}");
    let rows = async |query: &str| owner.get(&format!("{ECHO}/db/rows?{query}")).await.expect(200);
    assert_eq!(rows("rows=1000").await, json!({"sum": 500_500, "count": 1000}));
    assert_eq!(rows("rows=100000&take=10").await, json!({"sum": 55, "count": 10}), "dropped before its end");
    owner.get(&format!("{ECHO}/db/error")).await.refused(409, "conflict");
}

async fn notifications_come(owner: &User) {
    let listen = format!("{ECHO}/db/notifications?channel=orders");
    let mut stream = owner.call(Method::GET, &listen).open(None).await.unwrap().into_body();
    read_up_to(&mut stream, "listening\n").await;
    let news = json!({"channel": "orders", "payload": "news"});
    owner.post(&format!("{ECHO}/db/notify"), &news).await.expect(204);
    assert_eq!(read_up_to(&mut stream, "\n").await, "news\n");
}

async fn jobs_run_and_are_cancelled(owner: &User) {
    let start = async |args: Value| {
        let started = owner.post(&format!("{ECHO}/jobs"), &args).await.expect(202);
        format!("{JOBS}/{}", started["id"].as_str().unwrap())
    };
    let until = async |job: &str, wanted: (&str, u64)| {
        eventually(&format!("the job is {wanted:?}"), async || {
            let item = owner.get(job).await.expect(200)["item"].take();
            (item["state"] == wanted.0 && item["done"] == wanted.1).then_some(item)
        })
        .await
    };
    let item = until(&start(json!({"to": 4, "saves": true})).await, ("done", 4)).await;
    assert_eq!((&item["failed"], &item["message"]), (&json!(2), &json!("Counted to 3")), "{item}");
    let held = start(json!({"to": 3, "hold_at": 1})).await;
    until(&held, ("running", 1)).await;
    owner.post(&format!("{held}/cancel"), &json!({})).await.expect(202);
    until(&held, ("cancelled", 1)).await;
}

async fn other_servers_answer(owner: &User) {
    let pages = Pages::serve([("/page", "<p>there</p>".to_owned())]).await;
    let page = json!({"url": pages.url("/page")});
    let answer = owner.post(&format!("{ECHO}/ask"), &page).await.expect(200);
    assert_eq!((&answer["status"], &answer["body"]), (&json!(200), &json!("<p>there</p>")), "{answer}");
    let body = owner.post(&format!("{ECHO}/ask/whole"), &page).await;
    assert_eq!(body.text(), "<p>there</p>", "as a stream");
    let refused = json!({"url": "http://169.254.169.254/"});
    let answer = owner.post(&format!("{ECHO}/ask"), &refused).await.expect(200);
    assert_eq!(answer["failure"], "address-refused", "{answer}");
}

async fn the_tool_answers(owner: &User) {
    let meta = json!({"progressToken": 7});
    let params = json!({"name": "plugin_echo_say", "arguments": {"text": "hello"}, "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let answer = owner.mcp(&call).await;
    let messages: Vec<Value> = answer
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter_map(|text| serde_json::from_str(text).ok())
        .collect();
    let progress = &messages[0]["params"];
    assert_eq!((&progress["progressToken"], &progress["message"]), (&json!(7), &json!("Half of it")), "{answer}");
    let result = &messages[1]["result"];
    assert_eq!(result["structuredContent"], json!({"said": "hello", "is_tool": true}), "{result}");
}
