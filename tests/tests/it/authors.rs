//! What an author can make in how many lines: `everything` has all that a manifest declares, `reviews` is as much as
//! one writes in a day.

use std::path::Path;

use bytes::Bytes;
use cardinal_tests::{Host, Package, Pages, PluginsFolder, User, eventually, repository};
use http::Method;
use serde_json::{Value, json};

const REVIEWS: &str = "/v1/admin/plugins/reviews";
const EVERYTHING: &str = "/v1/admin/plugins/everything";

/// Lines of Rust in `src/` of a fixture, blank ones and comments among them.
fn lines(fixture: &str) -> usize {
    fn count(folder: &Path) -> usize {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| if path.is_dir() { count(&path) } else { text(&path).lines().count() }).sum()
    }
    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }
    count(&repository().join("tests/fixtures").join(fixture).join("src"))
}

async fn host(names: &[&str]) -> Host {
    let plugins =
        names.iter().fold(PluginsFolder::default(), |folder, name| folder.with(name, &Package::fixture(name)));
    Host::settings().plugins(plugins).start().await
}

async fn call_tool(user: &User, name: &str, arguments: Value) -> Value {
    let params = json!({"name": name, "arguments": arguments});
    let answer = user.mcp(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await;
    answer.expect(200)["result"].clone()
}

#[tokio::test]
async fn everything_that_a_manifest_declares_takes_less_than_60_lines() {
    assert!(lines("everything") < 60, "{}", lines("everything"));
    let host = host(&["everything"]).await;
    let owner = host.owner().await;
    let item = owner.get("/v1/admin/plugin-registry/everything").await.expect(200)["item"].clone();
    assert_eq!((&item["state"], &item["warnings"]), (&json!("active"), &json!([])), "{item}");
    let shown = owner.get("/v1/admin/plugins").await.expect(200)["items"][0].clone();
    for (list, count) in [("tabs", 1), ("pages", 1), ("list_columns", 2), ("card_actions", 2)] {
        assert_eq!(shown[list].as_array().map(Vec::len), Some(count), "{list}: {shown}");
    }

    // The action, with the operator's setting, and what the columns show.
    let settings = "/v1/admin/plugin-registry/everything/settings";
    owner.call(Method::PUT, settings).json(&json!({"word": "checked"})).send().await.expect(200);
    let card = owner.card("Lamp").await["id"].as_str().unwrap().to_owned();
    let done = owner.post(&format!("{EVERYTHING}/marks"), &json!({"card_ids": [card]})).await.expect(200);
    assert_eq!(done["message"], "Cards marked: 1");
    let values = json!({"values": {&card: "checked"}});
    assert_eq!(owner.get(&format!("{EVERYTHING}/marks?card_ids={card}")).await.expect(200), values);
    let source = owner.read_card(&card).await["attributes"]["sources"]["everything:mark"].clone();
    assert_eq!((&source["kind"], &source["data"]["word"]), (&json!("mark"), &json!("checked")));

    // A tool that reads, one that is confirmed and shows what it would do, a prompt.
    assert_eq!(call_tool(owner, "plugin_everything_list", json!({})).await["structuredContent"], values);
    let agent = owner.key(&["mcp:use", "plugin:everything:read", "plugin:everything:write"]).await;
    let asked = call_tool(&agent, "plugin_everything_mark", json!({"card_ids": [card]})).await;
    assert!(asked["content"][0]["text"].as_str().unwrap().starts_with("confirmation_required"), "{asked}");
    let waiting = owner.get("/v1/admin/approvals").await.expect(200)["items"][0].clone();
    assert!(waiting["difference"].to_string().contains("checked"), "{waiting}");
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "prompts/list", "params": {}});
    assert!(agent.mcp(&list).await.text().contains("plugin_everything_explain"));

    // What happens to cards, and the job that the schedule starts at night.
    eventually("the plugin has read events", async || {
        let page = owner.get("/v1/admin/plugin-registry/everything/logs").await.expect(200);
        page["items"].to_string().contains("events up to").then_some(())
    })
    .await;
    let job = json!({"action": "plugin_job", "plugin": "everything", "name": "clear", "args": {}});
    owner.post("/v1/admin/jobs", &job).await.expect(202);
    eventually("the job has removed the marks", async || {
        let marks = owner.get(&format!("{EVERYTHING}/marks")).await.expect(200);
        (marks == json!({"values": {}})).then_some(())
    })
    .await;
    assert_eq!(item["jobs"][0]["schedule"]["cron"], "15 3 * * *", "{item}");
}

struct CardReviews<'a> {
    owner: &'a User,
    card: String,
}

impl CardReviews<'_> {
    fn path(&self) -> String {
        format!("{REVIEWS}/cards/{}/reviews", self.card)
    }

    async fn add(&self, author: &str) -> i64 {
        let review = json!({"author": author, "stars": 4, "text": format!("By {author}, a@b.example"), "tags": ["oak"],
            "details": {"height": 1.8}, "bought_on": "2026-02-28"});
        self.owner.post(&self.path(), &review).await.expect(201)["id"].as_i64().unwrap()
    }

    /// What the plugin's own task has written to the card.
    async fn summed_up(&self, count: usize) -> Value {
        eventually(&format!("{count} reviews are summed up"), async || {
            let source = self.owner.read_card(&self.card).await["attributes"]["sources"]["reviews:summary"].clone();
            (source["data"]["count"] == count).then_some(source)
        })
        .await
    }
}

async fn card_reviews(host: &Host) -> CardReviews<'_> {
    let owner = host.owner().await;
    CardReviews { owner, card: owner.card("Lamp").await["id"].as_str().unwrap().to_owned() }
}

#[tokio::test]
async fn reviews_are_listed_checked_and_summed_up_by_a_task_of_the_plugin() {
    assert!(lines("reviews") <= 350, "{}", lines("reviews"));
    let host = host(&["reviews", "echo"]).await;
    let reviews = card_reviews(&host).await;
    let owner = reviews.owner;
    for author in ["Ada", "Bo", "Cy"] {
        reviews.add(author).await;
    }
    let path = reviews.path();
    let first = owner.get(&format!("{path}?limit=2")).await.expect(200);
    let newest = &first["items"][0];
    let (author, state, day) = (&newest["author"], &newest["state"], &newest["bought_on"]);
    assert_eq!((author, state, day), (&json!("Cy"), &json!("published"), &json!("2026-02-28")));
    let (text, details, tags) = (&newest["text"], &newest["details"], &newest["tags"]);
    assert_eq!((text, details, tags), (&json!("By Cy, (address)"), &json!({"height": 1.8}), &json!(["oak"])));
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = owner.get(&format!("{path}?limit=2&cursor={cursor}")).await.expect(200);
    assert_eq!((&second["items"][0]["author"], &second["next_cursor"]), (&json!("Ada"), &Value::Null));
    owner.get(&format!("{path}?cursor=nonsense")).await.refused(400, "invalid-cursor");

    // All that is wrong at once; twice by one author; nothing there.
    let wrong =
        owner.post(&path, &json!({"author": " ", "stars": 6, "text": ""})).await.refused(422, "validation-failed");
    let pointers: Vec<_> = wrong["errors"].as_array().unwrap().iter().map(|error| &error["pointer"]).collect();
    assert_eq!(pointers, ["/author", "/stars", "/text"]);
    owner.post(&path, &json!({"author": "Ada", "stars": 5, "text": "again"})).await.refused(409, "conflict");
    let nowhere = format!("{REVIEWS}/cards/00000000-0000-0000-0000-000000000000");
    owner.get(&nowhere).await.refused(404, "not-found");
    owner
        .call(Method::PUT, &format!("{REVIEWS}/reviews/0/state"))
        .json(&json!({"state": "hidden"}))
        .send()
        .await
        .refused(404, "not-found");

    // The plugin itself has written the summary; a hidden review does not count.
    let summary = reviews.summed_up(3).await;
    assert_eq!((&summary["kind"], &summary["updated_by"]["kind"]), (&json!("review-summary"), &json!("plugin")));
    let id = newest["id"].as_i64().unwrap();
    let hide = owner.call(Method::PUT, &format!("{REVIEWS}/reviews/{id}/state")).json(&json!({"state": "hidden"}));
    hide.send().await.expect(204);
    reviews.summed_up(2).await;
    let words = owner.get(&format!("{REVIEWS}/words")).await.expect(200);
    assert_eq!(words["words"][0], json!(["address", 2]), "{words}");

    // What another plugin has noted on the card, and what is logged through `tracing`.
    let note = json!({"note": "check the legs"});
    owner.post(&format!("/v1/admin/plugins/echo/enrich/{}", reviews.card), &note).await.expect(200);
    let card = owner.get(&format!("{REVIEWS}/cards/{}", reviews.card)).await.expect(200);
    assert_eq!((&card["rating"], &card["notes"]), (&json!({"count": 2, "stars": 4.0}), &json!([note])));
    let log = owner.get("/v1/admin/plugin-registry/reviews/logs").await.expect(200);
    assert!(log["items"].to_string().contains("a review was added"), "{log}");
}

#[tokio::test]
async fn files_of_reviews_come_in_whole_and_go_out_as_a_stream() {
    const ROWS: usize = 20_000;
    let host = host(&["reviews"]).await;
    let reviews = card_reviews(&host).await;
    let owner = reviews.owner;
    let import = async |kind: &str, text: String| {
        owner.call(Method::POST, &format!("{REVIEWS}/import")).body(kind, text).send().await
    };
    let file = |card: &str, first: usize, rows: usize, stars: usize| {
        let row = |n: usize| format!("{card},author {n},{stars},\"good, and cheap\"\n");
        std::iter::once("card_id,author,stars,text\n".to_owned())
            .chain((first..first + rows).map(row))
            .collect::<String>()
    };
    let added = import("text/csv", file(&reviews.card, 0, ROWS, 5)).await.expect(200);
    assert_eq!(added, json!({"added": ROWS, "left_out": 0}));
    reviews.summed_up(ROWS).await;
    // Rows of a card that is not there are left out, the others come in.
    let unknown = "00000000-0000-0000-0000-000000000000,somebody,1,\"no\"\n";
    let mixed = import("text/csv", file(&reviews.card, ROWS, 2, 1) + unknown).await.expect(200);
    assert_eq!(mixed, json!({"added": 2, "left_out": 1}));
    for bad in [file(&reviews.card, 0, 1, 5), file(&reviews.card, ROWS + 2, 1, 6), file("no-uuid", 0, 1, 5)] {
        let problem = import("text/csv", bad).await.refused(422, "validation-failed");
        assert!(problem["detail"].as_str().unwrap().starts_with("The file does not fit: "), "{problem}");
    }
    import("application/json", "{}".to_owned()).await.refused(415, "unsupported-media-type");

    let export = owner.get(&format!("{REVIEWS}/export")).await;
    assert_eq!(export.status, 200);
    let text = export.text();
    assert_eq!(text.lines().count(), 1 + ROWS + 2);
    assert!(
        text.contains(&format!("{},author 0,5,\"good, and cheap\",published,[]", reviews.card)),
        "{}",
        &text[..300]
    );
}

#[tokio::test]
async fn a_shop_is_asked_with_the_operators_secret_and_a_wrong_url_is_the_callers() {
    let host = host(&["reviews"]).await;
    let reviews = card_reviews(&host).await;
    let owner = reviews.owner;
    let settings = "/v1/admin/plugin-registry/reviews/settings";
    let set = async |settings_now: Value| owner.call(Method::PUT, settings).json(&settings_now).send().await;
    set(json!({"longest_text": 9})).await.refused(422, "validation-failed");
    let shown = set(json!({"shop_token": "hunter2", "publish_at_once": false, "allow_private_addresses": true})).await;
    let shown = shown.expect(200);
    assert_eq!(shown["settings"]["shop_token"], json!({"set": true}), "{shown}");

    let shop = Pages::answering(|request| async move {
        let is_known = request.headers.get("authorization").is_some_and(|value| value == "Bearer hunter2");
        let found =
            json!([{"author": "Ada", "stars": 5, "text": "bright"}, {"author": "Bo", "stars": 2, "text": "dim"}]);
        let body = if is_known { found.to_string() } else { String::new() };
        let body = http_body_util::Full::new(Bytes::from(body));
        http::Response::new(http_body_util::BodyExt::boxed(http_body_util::BodyExt::map_err(
            body,
            |never| match never {},
        )))
    })
    .await;
    let fetch = format!("{REVIEWS}/cards/{}/fetch", reviews.card);
    let fetched = async |url: &str| owner.post(&fetch, &json!({"url": url})).await;
    assert_eq!(fetched(&shop.url("/reviews")).await.expect(200), json!({"found": 2, "known": 0}));
    assert_eq!(fetched(&shop.url("/reviews")).await.expect(200), json!({"found": 2, "known": 2}));
    let listed = owner.get(&reviews.path()).await.expect(200);
    assert_eq!(listed["items"][0]["state"], "waiting", "the setting is in force at once: {listed}");
    for url in ["http://", "not a url", "ftp://x"] {
        let problem = fetched(url).await.refused(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], "/url", "{url}: {problem}");
    }

    // The two tools: one answers, one asks first.
    let agent = owner.key(&["mcp:use", "plugin:reviews:read", "plugin:reviews:write"]).await;
    let listed = call_tool(&agent, "plugin_reviews_list", json!({"card_id": reviews.card, "limit": 1})).await;
    assert_eq!(listed["structuredContent"]["items"][0]["author"], "Bo", "{listed}");
    let review = json!({"card_id": reviews.card, "author": "Cy", "stars": 5, "text": "fine"});
    let asked = call_tool(&agent, "plugin_reviews_add", review.clone()).await;
    assert!(asked["content"][0]["text"].as_str().unwrap().starts_with("confirmation_required"), "{asked}");
    let approval = owner.get("/v1/admin/approvals").await.expect(200)["items"][0]["id"].as_str().unwrap().to_owned();
    owner.post(&format!("/v1/admin/approvals/{approval}/approve"), &json!({})).await.expect(200);
    let added = call_tool(&agent, "plugin_reviews_add", review).await;
    assert!(added["structuredContent"]["id"].is_number(), "{added}");
}
