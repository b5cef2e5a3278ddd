//! Contract 4: bulk actions as durable jobs. Frozen picks, progress, failures, cancelling, rights, and what a killed
//! worker leaves behind.

use cardinal_tests::{Host, Package, PluginsFolder, User, eventually, unique};
use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const JOBS: &str = "/v1/admin/jobs";

/// Cards made by PostgreSQL itself: titles begin with `word`. By their ids they are older than those of other tests, which
/// look for what is new.
async fn seed(host: &Host, word: &str, count: i32) {
    let sql = "INSERT INTO public.master_cards (id, title, sku) \
               SELECT ('00000000' || right(gen_random_uuid()::text, 28))::uuid, $1 || ' ' || n, $1 || '-' || n \
               FROM generate_series(1, $2) AS n";
    host.database().await.execute(sql, &[&word, &count]).await.unwrap();
}

async fn number(host: &Host, sql: &str, word: &str) -> i64 {
    host.database().await.query_one(sql, &[&word]).await.unwrap().get(0)
}

/// The job as soon as it is over. A worker that is being started again is waited for.
pub(super) async fn over(user: &User, id: &str) -> Value {
    eventually("the job is over", async || {
        let answer = user.call(Method::GET, &format!("{JOBS}/{id}")).try_send().await.ok()?;
        let job = (answer.status == 200).then(|| answer.json()["item"].clone())?;
        (!["queued", "running"].contains(&job["state"].as_str()?)).then_some(job)
    })
    .await
}

pub(super) async fn start(user: &User, body: Value) -> String {
    let answer = user.post(JOBS, &body).await;
    let item = answer.expect(202)["item"].clone();
    let id = item["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("location"), Some(format!("{JOBS}/{id}").as_str()));
    id
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn cards_are_changed_by_their_ids_and_unknown_ones_are_failures_of_the_job() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (a, b) = (owner.card("One").await, owner.card("Two").await);
    let (a, b) = (a["id"].as_str().unwrap(), b["id"].as_str().unwrap());
    let stranger = uuid::Uuid::now_v7();
    let id = start(owner, json!({"action": "archive", "ids": [a, b, stranger, a]})).await;
    let job = over(owner, &id).await;
    assert_eq!(
        (&job["state"], &job["done"], &job["failed"], &job["total"]),
        (&json!("done"), &json!(2), &json!(1), &json!(3))
    );
    assert_eq!((&job["errors"][0]["id"], &job["errors"][0]["code"]), (&json!(stranger), &json!("not-found")), "{job}");
    assert_eq!((&job["counts"]["changed"], &job["started_by"]["id"]), (&json!(2), &json!(owner.id)), "{job}");
    assert!(job["rate_per_second"].as_f64().unwrap() > 0.0, "{job}");
    let lines = owner.get(&format!("{JOBS}/{id}/errors")).await;
    assert_eq!((lines.status.as_u16(), lines.text().lines().count()), (200, 1), "{lines}");
    let listed = owner.get(JOBS).await.expect(200)["items"].as_array().unwrap().clone();
    let listed = listed.iter().find(|listed| listed["id"] == id.as_str()).unwrap();
    assert_eq!((&listed["errors"], &listed["errors_url"]), (&job["errors"], &job["errors_url"]), "{listed}");
    let card = owner.read_card(a).await;
    assert_eq!((&card["status"], &card["version"]), (&json!("archived"), &json!(2)));
    let history = owner.get(&format!("/v1/admin/master-cards/{a}/history")).await.expect(200);
    assert_eq!(
        (&history["items"][0]["change"]["job"], &history["items"][0]["actor"]["id"]),
        (&json!(id), &json!(owner.id))
    );
    // What is as it should be stays as it is.
    let again = over(owner, &start(owner, json!({"action": "archive", "ids": [a]})).await).await;
    assert_eq!((&again["counts"]["unchanged"], &owner.read_card(a).await["version"]), (&json!(1), &json!(2)));
    over(owner, &start(owner, json!({"action": "draft", "ids": [a]})).await).await;
    assert_eq!(owner.read_card(a).await["status"], "draft");
    let gone = over(owner, &start(owner, json!({"action": "delete", "ids": [b]})).await).await;
    assert_eq!(gone["state"], "done");
    owner.get(&format!("/v1/admin/master-cards/{b}")).await.refused(404, "not-found");
}

#[tokio::test]
async fn what_matches_is_frozen_and_must_be_as_much_as_expected() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let word = unique("frozen");
    seed(&host, &word, 2_500).await;
    let wanted =
        |count: i64| json!({"action": "activate", "filter": {"q": word, "status": "draft"}, "expected_count": count});
    let moved = owner.post(JOBS, &wanted(2_499)).await;
    assert_eq!(moved.refused(409, "count-moved")["current_count"], 2_500);
    let id = start(owner, wanted(2_500)).await;
    // Matches, and came too late.
    let late =
        owner.post("/v1/admin/master-cards", &json!({"title": format!("{word} late"), "sku": unique("late")})).await;
    let job = over(owner, &id).await;
    assert_eq!((&job["done"], &job["total"], &job["failed"]), (&json!(2_500), &json!(2_500), &json!(0)), "{job}");
    assert_eq!(owner.read_card(late.expect(201)["item"]["id"].as_str().unwrap()).await["status"], "draft");
    // Nobody matches, and that is fine.
    let nobody = over(
        owner,
        &start(owner, json!({"action": "delete", "filter": {"q": unique("nobody")}, "expected_count": 0})).await,
    )
    .await;
    assert_eq!((&nobody["state"], &nobody["total"]), (&json!("done"), &json!(0)));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_field_by_field() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let id = uuid::Uuid::now_v7();
    for (body, pointer) in [
        (json!({"ids": [id]}), "/action"),
        (json!({"action": "explode", "ids": [id]}), "/action"),
        (json!({"action": "archive"}), "/ids"),
        (json!({"action": "archive", "ids": [id], "filter": {}}), "/ids"),
        (json!({"action": "archive", "ids": []}), "/ids"),
        (json!({"action": "archive", "ids": ["x"]}), "/ids/0"),
        (json!({"action": "archive", "filter": {"colour": "red"}}), "/filter/colour"),
        (json!({"action": "archive", "filter": {"status": "lost"}}), "/filter"),
        (json!({"action": "archive", "ids": [id], "args": {"x": 1}}), "/args/x"),
        (json!({"action": "archive", "ids": [id], "expected_count": -1}), "/expected_count"),
        (json!({"action": "remove_source", "ids": [id]}), "/args/source_key"),
        (json!({"action": "set_attribute", "ids": [id], "args": {"value": 1}}), "/args/key"),
        (json!({"action": "set_attribute", "ids": [id], "args": {"key": "sources", "value": {}}}), "/args/key"),
        (json!({"action": "set_attribute", "ids": [id], "args": {"key": "x"}}), "/args/value"),
        (json!({"action": "set_attribute", "ids": [id], "args": {"key": "x", "value": null}}), "/args/value"),
        (json!({"action": "set_attribute", "ids": [id], "args": {"key": "x", "value": "\u{0}"}}), "/args/value"),
        (
            json!({"action": "set_attribute", "ids": [id], "args": {"key": "x", "value": "x".repeat(65_536)}}),
            "/args/value",
        ),
        (json!({"action": "remove_attribute", "ids": [id], "args": {"key": "x", "value": 1}}), "/args/value"),
        (json!({"action": "plugin_tool", "ids": [id], "dry_run": true}), "/dry_run"),
        (json!({"action": "plugin_job", "plugin": "x", "name": "y", "dry_run": true}), "/dry_run"),
        (json!({"action": "plugin_tool", "ids": [id]}), "/args/tool"),
        (json!({"action": "plugin_tool", "ids": [id], "args": {"tool": ["x"]}}), "/args/tool"),
        (json!({"action": "plugin_tool", "ids": [id], "args": {"tool": "x", "arguments": []}}), "/args/arguments"),
        (json!({"action": "delete", "filter": {}}), "/expected_count"),
        (json!({"action": "archive", "filter": {"q": "x"}, "expected_count": null}), "/expected_count"),
        (json!({"action": "plugin_tool", "ids": [id], "args": {"tool": "plugin_nobody_x"}}), "/args/tool"),
        (json!({"action": "archive", "ids": [id], "when": "now"}), "/when"),
    ] {
        let problem = owner.post(JOBS, &body).await.refused(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}: {problem}");
    }
    owner.get(&format!("{JOBS}?state=lost")).await.refused(400, "invalid-request");
    owner.get(&format!("{JOBS}?colour=red")).await.refused(400, "invalid-request");
    owner.get(&format!("{JOBS}/not-an-id")).await.refused(404, "not-found");
}

#[tokio::test]
async fn an_action_needs_its_own_scope_too_and_jobs_are_their_starters() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.card("Mine").await;
    let body = json!({"action": "archive", "ids": [card["id"]]});
    let problem =
        owner.key(&["jobs:write", "cards:read"]).await.post(JOBS, &body).await.refused(403, "insufficient-scope");
    assert_eq!(problem["required_scope"], "cards:write");
    let key = owner.key(&["jobs:write", "cards:write"]).await;
    let id = start(&key, body).await;
    over(&key, &id).await;
    let other = owner.key(&["cards:write"]).await;
    let path = format!("{JOBS}/{id}");
    other.get(&path).await.refused(403, "insufficient-scope");
    other.get(&format!("{path}/errors")).await.refused(403, "insufficient-scope");
    other.call(Method::POST, &format!("{path}/cancel")).send().await.refused(403, "insufficient-scope");
    let reader = owner.key(&["jobs:read"]).await;
    reader.get(&path).await.expect(200);
    reader.call(Method::POST, &format!("{path}/cancel")).send().await.refused(403, "insufficient-scope");
    let over = key.call(Method::POST, &format!("{path}/cancel")).send().await;
    over.refused(409, "conflict");
    let page = reader.get(&format!("{JOBS}?limit=1&action=archive&state=done")).await.expect(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 1, "{page}");
    let listed = reader.get(&format!("{JOBS}?limit=200")).await.expect(200);
    assert!(listed["items"].as_array().unwrap().iter().any(|job| job["id"] == json!(id)), "{listed}");
}

#[tokio::test]
async fn a_job_is_cancelled_between_two_steps() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    seed(&host, "stop", 30_000).await;
    let id = start(owner, json!({"action": "archive", "filter": {"q": "stop"}, "expected_count": 30_000})).await;
    let cancelled = owner.call(Method::POST, &format!("{JOBS}/{id}/cancel")).send().await;
    assert!(cancelled.expect(202)["item"]["id"] == json!(id), "{cancelled}");
    let job = over(owner, &id).await;
    assert_eq!(job["state"], "cancelled", "{job}");
    let archived = number(
        &host,
        "SELECT count(*) FROM public.master_cards WHERE status = 'archived' AND title LIKE $1 || '%'",
        "stop",
    )
    .await;
    assert_eq!(job["done"].as_i64().unwrap(), archived, "what is counted is what was done: {job}");
    assert!(archived < 30_000, "{job}");
}

#[tokio::test]
async fn a_killed_worker_loses_and_repeats_nothing() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    seed(&host, "kill", 20_000).await;
    let id = start(owner, json!({"action": "archive", "filter": {"q": "kill"}, "expected_count": 20_000})).await;
    for _ in 0..3 {
        let before = owner.get(&format!("{JOBS}/{id}")).await.expect(200)["item"]["done"].as_i64().unwrap();
        eventually("the job goes on", async || {
            let answer = owner.call(Method::GET, &format!("{JOBS}/{id}")).try_send().await.ok()?;
            (answer.status == 200 && answer.json()["item"]["done"].as_i64()? > before).then_some(())
        })
        .await;
        let worker = host.worker_pid();
        kill(worker);
        eventually("another worker serves", async || {
            let answer = owner.call(Method::GET, "/readyz").try_send().await.ok()?;
            (answer.status == 200 && host.worker_pid() != worker).then_some(())
        })
        .await;
    }
    let job = over(owner, &id).await;
    assert_eq!((&job["state"], &job["done"], &job["failed"]), (&json!("done"), &json!(20_000), &json!(0)), "{job}");
    let twice = "SELECT count(*) FROM public.master_cards WHERE title LIKE $1 || '%' AND (status <> 'archived' OR version <> 2)";
    assert_eq!(number(&host, twice, "kill").await, 0);
    let lines = "SELECT count(*) FROM public.card_history h JOIN public.master_cards c ON c.id = h.card_id WHERE c.title LIKE $1 || '%'";
    assert_eq!(number(&host, lines, "kill").await, 20_000);
}

#[tokio::test]
async fn a_host_that_is_stopped_hands_its_jobs_over() {
    let host = Host::settings().start().await;
    seed(&host, "drain", 20_000).await;
    let id =
        start(host.owner().await, json!({"action": "archive", "filter": {"q": "drain"}, "expected_count": 20_000}))
            .await;
    let token = host.owner().await.token.clone();
    let host = host.restart(|settings| settings).await;
    let job: Value = eventually("the job is over", async || {
        let job = host.client().bearer(&token).get(&format!("{JOBS}/{id}")).await.expect(200)["item"].clone();
        (job["state"] == "done").then_some(job)
    })
    .await;
    assert_eq!((&job["done"], &job["failed"]), (&json!(20_000), &json!(0)), "{job}");
}

#[tokio::test]
async fn another_host_takes_over_and_hears_of_a_cancel() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    seed(&host, "pair", 60_000).await;
    let beside = host.beside().start().await;
    // A login is good on the host that it was made on, a key on both.
    let other = beside.client().bearer(&owner.key(&["jobs:write"]).await.token);
    let id = start(owner, json!({"action": "archive", "filter": {"q": "pair"}, "expected_count": 60_000})).await;
    let begun = std::time::Instant::now();
    other.call(Method::POST, &format!("{JOBS}/{id}/cancel")).send().await.expect(202);
    let job = over(owner, &id).await;
    assert_eq!(job["state"], "cancelled", "{job}");
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn rights_are_asked_for_again_at_every_step() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    seed(&host, "rights", 30_000).await;
    let key = owner.make_key(json!({"name": "short-lived", "scopes": ["jobs:write", "cards:write"]})).await;
    let client = host.client().bearer(key["key"].as_str().unwrap());
    let started = client
        .post(JOBS, &json!({"action": "archive", "filter": {"q": "rights"}, "expected_count": 30_000}))
        .await
        .expect(202);
    owner.delete(&format!("/v1/admin/api-keys/{}", key["item"]["id"].as_str().unwrap())).await.expect(204);
    let job = over(owner, started["item"]["id"].as_str().unwrap()).await;
    assert_eq!(job["state"], "failed", "{job}");
    assert!(job["reason"].as_str().unwrap().contains("may no longer"), "{job}");
    assert!(job["done"].as_i64().unwrap() < 30_000, "{job}");
}

#[tokio::test]
async fn a_tool_runs_on_every_card_with_the_starters_rights() {
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await;
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.push(owner.card(&format!("Tool {n}")).await["id"].clone());
    }
    let stranger = json!(uuid::Uuid::now_v7());
    let args = json!({"tool": "plugin_echo_enrich", "arguments": {"note": "from a job"}});
    let mut wanted = ids.clone();
    wanted.push(stranger.clone());
    let body = json!({"action": "plugin_tool", "ids": wanted, "args": args});
    let lacking = owner.key(&["jobs:write", "cards:write"]).await.post(JOBS, &body).await;
    assert_eq!(lacking.refused(403, "insufficient-scope")["required_scope"], "plugin:echo:write");
    let unconfirmed = owner.key(&["jobs:write", "plugin:echo:write"]).await.post(JOBS, &body).await;
    assert_eq!(unconfirmed.refused(403, "insufficient-scope")["required_scope"], "mcp:unattended");
    let wrong = json!({"action": "plugin_tool", "ids": wanted, "args": {"tool": "plugin_echo_enrich", "arguments": {"nope": 1}}});
    assert_eq!(
        owner.post(JOBS, &wrong).await.refused(422, "validation-failed")["errors"][0]["pointer"],
        "/args/arguments"
    );
    let job = over(owner, &start(owner, body).await).await;
    assert_eq!((&job["state"], &job["done"], &job["failed"]), (&json!("done"), &json!(10), &json!(1)), "{job}");
    assert_eq!(job["errors"][0]["id"], stranger, "{job}");
    for id in &ids {
        let card = owner.read_card(id.as_str().unwrap()).await;
        let source = &card["attributes"]["sources"]["echo:note"];
        assert_eq!(
            (&source["data"]["note"], &source["updated_by"]["id"]),
            (&json!("from a job"), &json!(owner.id)),
            "{card}"
        );
    }
    // A source is taken away again, from all of them at once.
    let body = json!({"action": "remove_source", "filter": {"plugin": "echo"}, "expected_count": 10,
        "args": {"source_key": "echo:note"}});
    let job = over(owner, &start(owner, body).await).await;
    assert_eq!((&job["done"], &job["counts"]["changed"]), (&json!(10), &json!(10)), "{job}");
    let left = owner.get("/v1/admin/master-cards?plugin=echo").await.expect(200);
    assert_eq!(left["items"], json!([]));
}

#[tokio::test]
async fn a_killed_worker_calls_no_tool_twice() {
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await;
    seed(&host, "tool", 2_000).await;
    let args = json!({"tool": "plugin_echo_enrich", "arguments": {"note": "once"}});
    let id =
        start(owner, json!({"action": "plugin_tool", "filter": {"q": "tool"}, "expected_count": 2_000, "args": args}))
            .await;
    eventually("some are done", async || {
        let job = owner.get(&format!("{JOBS}/{id}")).await.expect(200)["item"].clone();
        (job["done"].as_i64()? > 20).then_some(())
    })
    .await;
    kill(host.worker_pid());
    let job = over(owner, &id).await;
    assert_eq!(job["done"].as_i64().unwrap() + job["failed"].as_i64().unwrap(), 2_000, "{job}");
    assert!(job["failed"].as_i64().unwrap() <= 4, "{job}");
    for error in job["errors"].as_array().unwrap() {
        assert_eq!(error["code"], "interrupted", "{job}");
    }
    let twice = "SELECT count(*) FROM (SELECT card_id FROM public.card_history h JOIN public.master_cards c ON c.id = h.card_id \
                 WHERE c.title LIKE $1 || '%' AND h.action = 'enrich' GROUP BY 1 HAVING count(*) > 1) AS t";
    assert_eq!(number(&host, twice, "tool").await, 0);
}
