//! Bulk changes over MCP: shown first, confirmed by a person with their number, run as a job whose progress can be read.

use cardinal_tests::{Host, User, eventually, unique};
use serde_json::{Value, json};

use super::mcp_confirmation::{APPROVALS, approval_path, asked, decide, text};
use super::mcp_sessions::echo;

const TOOL: &str = "cards_bulk_update";
const SCOPES: [&str; 3] = ["mcp:use", "cards:write", "jobs:write"];

async fn ask(user: &User, tool: &str, arguments: &Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    let answer = user.mcp(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await;
    assert_eq!(answer.status, 200, "{answer}");
    answer.json()
}

async fn call(user: &User, tool: &str, arguments: &Value) -> Value {
    ask(user, tool, arguments).await["result"].take()
}

#[track_caller]
fn answered(result: &Value) -> Value {
    assert_ne!(result["isError"], true, "{result}");
    result["structuredContent"].clone()
}

#[track_caller]
fn refused(result: &Value, code: &str) {
    assert!(result["isError"] == true && text(result).starts_with(code), "{code}: {result}");
}

/// Demands that a call waits for a person; gives the approval's path.
#[track_caller]
fn waits(result: &Value) -> String {
    refused(result, "confirmation_required");
    let id = result["_meta"]["cardinal/confirmation"]["approval_id"].as_str().unwrap_or_else(|| panic!("{result}"));
    format!("{APPROVALS}/{id}")
}

/// What waits for a person and names `word` in its arguments.
async fn pending(person: &User, word: &str) -> Vec<Value> {
    let page = person.get(&format!("{APPROVALS}?limit=200")).await.expect(200);
    let mut all = page["items"].as_array().unwrap().clone();
    all.retain(|approval| approval["arguments"].to_string().contains(word));
    all
}

/// Cards whose titles are `word`, numbered from 1; gives their ids.
async fn seed(owner: &User, word: &str, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 1..=count {
        let card = json!({"title": word, "sku": format!("{word}/{number}")});
        let made = owner.post("/v1/admin/master-cards", &card).await.expect(201);
        ids.push(made["item"]["id"].as_str().unwrap().to_owned());
    }
    ids
}

async fn statuses(owner: &User, ids: &[String]) -> Vec<Value> {
    let mut statuses = Vec::new();
    for id in ids {
        statuses.push(owner.read_card(id).await["status"].clone());
    }
    statuses
}

/// The job as the tool shows it, as soon as it is over.
async fn over(user: &User, id: &Value) -> Value {
    eventually("the job is over", async || {
        let job = answered(&call(user, "jobs_get", &json!({"id": id})).await)["item"].take();
        (!["queued", "running"].contains(&job["state"].as_str()?)).then_some(job)
    })
    .await
}

#[tokio::test]
async fn it_shows_first_what_it_would_do_and_changes_nothing() {
    let host = Host::settings().plugins(echo()).start().await;
    let owner = host.owner().await;
    let (agent, word) = (owner.key(&SCOPES).await, unique("bulk"));
    let ids = seed(owner, &word, 7).await;
    let filter = json!({"q": word});
    let shown = answered(&call(&agent, TOOL, &json!({"action": "archive", "filter": filter})).await);
    assert_eq!(
        (&shown["dry_run"], &shown["count"], &shown["missing"]),
        (&json!(true), &json!(7), &json!(0)),
        "{shown}"
    );
    assert!(shown["note"].as_str().unwrap().contains("`expected_count: 7`"), "{shown}");
    let sample = shown["sample"].as_array().unwrap();
    assert_eq!(sample.len(), 5, "{shown}");
    for card in sample {
        assert_eq!(card["changes"], json!([{"pointer": "/status", "before": "draft", "after": "archived"}]), "{shown}");
    }
    // What is so already would not change, and what is not there is said.
    owner.patch(&format!("/v1/admin/master-cards/{}", ids[0]), &json!({"status": "active"})).await.expect(200);
    let some = json!({"action": "activate", "ids": [ids[0], ids[0], uuid::Uuid::now_v7()], "dry_run": true});
    let shown = answered(&call(&agent, TOOL, &some).await);
    assert_eq!((&shown["count"], &shown["missing"]), (&json!(2), &json!(1)), "{shown}");
    assert_eq!(shown["sample"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(shown["sample"][0]["changes"], json!([]), "{shown}");
    let note = json!({"key": "a/b", "note": "n"});
    owner.post(&format!("/v1/admin/plugins/echo/enrich/{}", ids[1]), &note).await.expect(200);
    let source = json!({"action": "remove_source", "source_key": "echo:a/b", "ids": ids[1..3]});
    let shown = answered(&call(&agent, TOOL, &source).await);
    let changes: Vec<&Value> = shown["sample"].as_array().unwrap().iter().map(|card| &card["changes"]).collect();
    let removed = json!([{"pointer": "/attributes/sources/echo:a~1b", "before": {"kind": "echo"}}]);
    assert_eq!(changes, [&removed, &json!([])], "{shown}");
    let deleted = answered(&call(&agent, TOOL, &json!({"action": "delete", "ids": [ids[1]]})).await);
    let whole = json!([{"pointer": "", "before": {"title": word, "sku": format!("{word}/2"), "status": "draft"}}]);
    assert_eq!(deleted["sample"][0]["changes"], whole, "{deleted}");
    assert_eq!(statuses(owner, &ids[1..]).await, vec![json!("draft"); 6]);
    for named in [&word, &ids[0], &ids[1]] {
        assert!(pending(owner, named).await.is_empty(), "nobody is asked about what changes nothing");
    }
}

#[tokio::test]
async fn it_sets_and_removes_an_attribute_of_each() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (agent, word) = (owner.key(&SCOPES).await, unique("bulk"));
    let ids = seed(owner, &word, 2).await;
    let path = format!("/v1/admin/master-cards/{}", ids[0]);
    let season = json!({"attributes": {"a/b": "summer", "n": 18_446_744_073_709_551_615_u64}});
    owner.patch(&path, &season).await.expect(200);
    let changes = async |action: &Value| {
        let mut wanted = action.clone();
        wanted["ids"] = json!(ids);
        let shown = answered(&call(&agent, TOOL, &wanted).await);
        let mut all: Vec<Value> =
            shown["sample"].as_array().unwrap().iter().map(|card| card["changes"].clone()).collect();
        all.sort_by_key(|changes| changes[0].get("before").is_none());
        json!(all)
    };
    let set = json!({"action": "set_attribute", "key": "a/b", "value": ["winter"]});
    let (at, after) = ("/attributes/a~1b", json!(["winter"]));
    let shown = json!([[{"pointer": at, "before": "summer", "after": after}], [{"pointer": at, "after": after}]]);
    assert_eq!(changes(&set).await, shown);
    let remove = json!({"action": "remove_attribute", "key": "n"});
    let shown = json!([[{"pointer": "/attributes/n", "before": 18_446_744_073_709_551_615_u64}], []]);
    assert_eq!(changes(&remove).await, shown);

    let wrong = [
        (json!({"action": "set_attribute", "key": "a/b"}), "\n/value: "),
        (json!({"action": "set_attribute", "key": "sources", "value": {}}), "\n/key: "),
        (json!({"action": "remove_attribute"}), "\n/key: "),
        (json!({"action": "archive", "key": "n"}), "\n/key: "),
    ];
    for (mut wanted, place) in wrong {
        wanted["ids"] = json!(ids);
        let result = call(&agent, TOOL, &wanted).await;
        assert!(result["isError"] == true && text(&result).contains(place), "{result}");
    }
    // A number that would be rounded is refused, not altered.
    let arguments = r#"{"action":"set_attribute","key":"n","value":[0.10000000000000000000001],"filter":{}}"#;
    let message = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{TOOL}","arguments":{arguments}}}}}"#
    );
    let answer = host.client().bearer(&agent.token).call(http::Method::POST, "/api").body("application/json", message);
    let result = answer.header("accept", "application/json").send().await.expect(200)["result"].clone();
    assert!(result["isError"] == true && text(&result).contains("/value/0: "), "{result}");

    let mut run = set.clone();
    for (name, value) in [("ids", json!(ids)), ("dry_run", json!(false)), ("expected_count", json!(2))] {
        run[name] = value;
    }
    let approval = waits(&call(&agent, TOOL, &run).await);
    let item = owner.get(&approval).await.expect(200)["item"].clone();
    let added = json!({"pointer": format!("/{word}~12{at}"), "after": after});
    assert!(item["difference"]["changes"].as_array().unwrap().contains(&added), "{item}");
    decide(owner, &approval, "approve").await.expect(200);
    let started = answered(&call(&agent, TOOL, &run).await);
    let job = over(&agent, &started["item"]["id"]).await;
    assert_eq!((&job["state"], &job["done"]), (&json!("done"), &json!(2)), "{job}");
    for id in &ids {
        assert_eq!(owner.read_card(id).await["attributes"]["a/b"], after);
    }
}

#[tokio::test]
async fn a_person_confirms_it_and_it_becomes_a_job() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (agent, word) = (owner.key(&SCOPES).await, unique("bulk"));
    let ids = seed(owner, &word, 3).await;
    let run = json!({"action": "archive", "filter": {"q": word}, "dry_run": false, "expected_count": 3});
    let approval = waits(&call(&agent, TOOL, &run).await);
    let item = owner.get(&approval).await.expect(200)["item"].clone();
    assert_eq!((&item["difference"]["count"], &item["arguments"]), (&json!(3), &run), "{item}");
    let changes = item["difference"]["changes"].as_array().unwrap();
    let first = json!({"pointer": format!("/{word}~11/status"), "before": "draft", "after": "archived"});
    assert!(changes.len() == 3 && changes.contains(&first), "{item}");
    assert_eq!(statuses(owner, &ids).await, vec![json!("draft"); 3]);
    // What was approved is this call and no other.
    decide(owner, &approval, "approve").await.expect(200);
    for (name, value) in [("action", json!("delete")), ("filter", json!({"q": &word[..word.len() - 1]}))] {
        let mut other = run.clone();
        other[name] = value;
        assert_ne!(waits(&call(&agent, TOOL, &other).await), approval);
    }
    let started = answered(&call(&agent, TOOL, &run).await);
    assert_eq!((&started["dry_run"], &started["count"]), (&json!(false), &json!(3)), "{started}");
    let id = &started["item"]["id"];
    let job = over(&agent, id).await;
    assert_eq!((&job["state"], &job["done"], &job["failed"]), (&json!("done"), &json!(3), &json!(0)), "{job}");
    assert_eq!(statuses(owner, &ids).await, vec![json!("archived"); 3]);
    assert_ne!(waits(&call(&agent, TOOL, &run).await), approval, "an approval is good once");
    let lines = owner.get(&format!("/v1/admin/audit?action=job.start&target={}", id.as_str().unwrap())).await;
    let lines = lines.expect(200);
    assert_eq!(
        (&lines["items"][0]["actor"]["kind"], &lines["items"][0]["detail"]["total"]),
        (&json!("api_key"), &json!(3))
    );
    // The admin API shows the same job.
    let same = owner.get(&format!("/v1/admin/jobs/{}", id.as_str().unwrap())).await.expect(200);
    assert_eq!(same["item"], job);
}

#[tokio::test]
async fn a_number_that_has_moved_runs_nothing() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (agent, word) = (owner.key(&SCOPES).await, unique("bulk"));
    let mut ids = seed(owner, &word, 2).await;
    let run =
        |count: i64| json!({"action": "activate", "filter": {"q": word}, "dry_run": false, "expected_count": count});
    for wrong in [1, 3, 0] {
        refused(&call(&agent, TOOL, &run(wrong)).await, "count-moved");
    }
    assert!(pending(owner, &word).await.is_empty(), "nobody is asked about what would not run");
    let approval = waits(&call(&agent, TOOL, &run(2)).await);
    decide(owner, &approval, "approve").await.expect(200);
    let more = json!({"title": word, "sku": unique("more")});
    let more = owner.post("/v1/admin/master-cards", &more).await.expect(201)["item"]["id"].as_str().unwrap().to_owned();
    refused(&call(&agent, TOOL, &run(2)).await, "count-moved");
    ids.push(more.clone());
    assert_eq!(statuses(owner, &ids).await, vec![json!("draft"); 3]);
    assert_eq!(owner.get(&approval).await.expect(200)["item"]["state"], "approved", "it was not used");
    // When the number is the one that was confirmed, the call runs, as it was confirmed.
    owner.delete(&format!("/v1/admin/master-cards/{more}")).await.expect(204);
    let job = over(&agent, &answered(&call(&agent, TOOL, &run(2)).await)["item"]["id"]).await;
    assert_eq!(job["state"], "done", "{job}");
    assert_eq!(statuses(owner, &ids[..2]).await, vec![json!("active"); 2]);
}

#[tokio::test]
async fn what_was_confirmed_for_some_cards_runs_on_no_others() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (agent, word) = (owner.key(&SCOPES).await, unique("bulk"));
    let mut ids = seed(owner, &word, 2).await;
    let run = json!({"action": "delete", "filter": {"q": word}, "dry_run": false, "expected_count": 2});
    let approval = approval_path(&asked(owner, &run, call(&agent, TOOL, &run)).await);
    decide(owner, &approval, "approve").await.expect(200);
    // As many cards as before, and others.
    owner.delete(&format!("/v1/admin/master-cards/{}", ids.remove(0))).await.expect(204);
    let other = json!({"title": word, "sku": unique("other")});
    let other = owner.post("/v1/admin/master-cards", &other).await.expect(201)["item"]["id"].take();
    ids.push(other.as_str().unwrap().to_owned());
    refused(&call(&agent, TOOL, &run).await, "confirmation_void: the cards have changed");
    assert_eq!(owner.get(&approval).await.expect(200)["item"]["state"], "void");
    assert_eq!(statuses(owner, &ids).await, vec![json!("draft"); 2]);
    // A question that waits is void as well, and the next one is about the cards of now.
    let approval = approval_path(&asked(owner, &run, call(&agent, TOOL, &run)).await);
    owner.delete(&format!("/v1/admin/master-cards/{}", ids.remove(0))).await.expect(204);
    let again = json!({"title": word, "sku": unique("again")});
    let again = owner.post("/v1/admin/master-cards", &again).await.expect(201)["item"]["id"].take();
    refused(&call(&agent, TOOL, &run).await, "confirmation_void");
    decide(owner, &approval, "approve").await.refused(409, "conflict");
    let approval = approval_path(&asked(owner, &run, call(&agent, TOOL, &run)).await);
    decide(owner, &approval, "approve").await.expect(200);
    let job = over(&agent, &answered(&call(&agent, TOOL, &run).await)["item"]["id"]).await;
    assert_eq!((&job["state"], &job["done"]), (&json!("done"), &json!(2)), "{job}");
    owner.get(&format!("/v1/admin/master-cards/{}", again.as_str().unwrap())).await.refused(404, "not-found");
}

#[tokio::test]
async fn what_makes_no_sense_or_is_not_allowed_asks_nobody() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (agent, word) = (owner.key(&SCOPES).await, unique("bulk"));
    let ids = seed(owner, &word, 1).await;
    let many: Vec<String> = (0..1_001).map(|_| uuid::Uuid::now_v7().to_string()).collect();
    let wrong = [
        (json!({"action": "archive", "ids": ids, "dry_run": false}), "/expected_count"),
        (json!({"action": "archive", "ids": ids, "dry_run": false, "expected_count": -1}), "/expected_count"),
        (json!({"action": "archive", "ids": ids, "dry_run": "false"}), "/dry_run"),
        (json!({"action": "archive", "ids": ids, "dry_run": null}), "/dry_run"),
        (json!({"action": "archive"}), "/ids"),
        (json!({"action": "archive", "ids": ids, "filter": {}}), "/ids"),
        (json!({"action": "archive", "ids": []}), "/ids"),
        (json!({"action": "archive", "ids": many}), "/ids"),
        (json!({"action": "archive", "ids": ["x"]}), "/ids/0"),
        (json!({"action": "archive", "filter": {"status": "lost"}}), "/filter/status"),
        (json!({"action": "archive", "filter": {"deleted": "true"}}), "deleted"),
        (json!({"action": "archive", "filter": {"updated_since": "yesterday"}}), "/filter"),
        (json!({"action": "purge", "ids": ids}), "/action"),
        (json!({"action": "plugin_tool", "ids": ids}), "/action"),
        (json!({"action": "remove_source", "ids": ids}), "\n/source_key: "),
        (json!({"action": "archive", "source_key": "x", "ids": ids}), "\n/source_key: "),
        (json!({"action": "archive", "ids": ids, "confirm": true}), "confirm"),
    ];
    for (arguments, names) in wrong {
        let result = call(&agent, TOOL, &arguments).await;
        assert!(result["isError"] == true && text(&result).contains(names), "{arguments}: {result}");
    }
    let run = json!({"action": "delete", "ids": ids, "dry_run": false, "expected_count": 1});
    // Who may start jobs and not write cards.
    let starter = owner.key(&["mcp:use", "cards:read", "jobs:write"]).await;
    refused(&call(&starter, TOOL, &run).await, "insufficient-scope");
    // Who may write cards and not start jobs.
    let writer = owner.key(&["mcp:use", "cards:write"]).await;
    assert_eq!(ask(&writer, TOOL, &run).await["error"]["code"], -32602);
    assert_eq!(ask(&writer, "jobs_get", &json!({"id": ids[0]})).await["error"]["code"], -32602);
    for forged in
        [&*uuid::Uuid::now_v7().to_string(), &ids[0], "", "x", "../jobs", "00000000-0000-0000-0000-000000000000"]
    {
        refused(&call(&agent, "jobs_get", &json!({"id": forged})).await, "not-found");
    }
    assert!(pending(owner, &ids[0]).await.is_empty());
    assert_eq!(statuses(owner, &ids).await, [json!("draft")]);
}

#[tokio::test]
async fn without_a_person_it_still_needs_its_number_and_no_read_only_connection_has_it() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let word = unique("bulk");
    let ids = seed(owner, &word, 2).await;
    let unattended = owner.key(&["mcp:use", "cards:write", "jobs:write", "mcp:unattended"]).await;
    let run =
        |count: i64| json!({"action": "archive", "filter": {"q": word}, "dry_run": false, "expected_count": count});
    refused(&call(&unattended, TOOL, &run(5)).await, "count-moved");
    let job = over(&unattended, &answered(&call(&unattended, TOOL, &run(2)).await)["item"]["id"]).await;
    assert_eq!((&job["state"], statuses(owner, &ids).await), (&json!("done"), vec![json!("archived"); 2]), "{job}");
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let listed = unattended.call(http::Method::POST, "/api?readonly=true").json(&message).header("accept", "*/*");
    let listed = listed.send().await.json()["result"]["tools"].take();
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"cards_export") && names.contains(&"jobs_get") && !names.contains(&TOOL), "{names:?}");
}
