//! Contract 4: cards out of a file. What each row becomes, what is wrong with others, and how often nothing is written.

use std::io::Write as _;

use bytes::Bytes;
use cardinal_tests::{Answer, Call, EventStream, Host, User, eventually, unique};
use http::Method;
use serde_json::{Value, json};

const CARDS: &str = "/v1/admin/master-cards";
const IMPORT: &str = "/v1/admin/master-cards/import";
pub(super) const NDJSON: &str = "application/x-ndjson";
pub(super) const CSV: &str = "text/csv";

/// A host reads four imports at a time, and other tests may send it as many: tries again until it has room.
pub(super) async fn send(user: &User, query: &str, format: &str, body: impl Into<Bytes>) -> Answer {
    let (path, body) = (format!("{IMPORT}?{query}"), body.into());
    once_there_is_room(|| user.call(Method::POST, &path).body(format, body.clone())).await
}

async fn once_there_is_room(call: impl Fn() -> Call) -> Answer {
    eventually("the host has room for an import", async || {
        let answer = call().send().await;
        (answer.status != 503 || answer.json()["code"] != "overloaded").then_some(answer)
    })
    .await
}

/// The job as soon as it is over. It may take as long as it likes while it goes on.
pub(super) async fn over(user: &User, id: &str) -> Value {
    let mut done = Value::Null;
    loop {
        let job = eventually("the import goes on", async || {
            let answer = user.call(Method::GET, &format!("/v1/admin/jobs/{id}")).try_send().await.ok()?;
            let job = (answer.status == 200).then(|| answer.json()["item"].clone())?;
            (!is_under_way(&job) || job["done"] != done).then_some(job)
        })
        .await;
        if !is_under_way(&job) {
            return job;
        }
        done = job["done"].clone();
    }
}

fn is_under_way(job: &Value) -> bool {
    ["queued", "running"].iter().any(|state| job["state"] == *state)
}

/// Imports, and gives the job at its end.
pub(super) async fn import(user: &User, query: &str, format: &str, body: impl Into<Bytes>) -> Value {
    let answer = send(user, query, format, body).await;
    let job = answer.expect(202)["item"].clone();
    let id = job["id"].as_str().unwrap();
    assert_eq!(answer.header("location"), Some(format!("/v1/admin/jobs/{id}").as_str()));
    assert_eq!(job["action"], "import");
    over(user, id).await
}

pub(super) fn lines(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

/// `state done failed` of a job.
pub(super) fn ended(job: &Value) -> String {
    format!("{} {} {}", job["state"].as_str().unwrap(), job["done"], job["failed"])
}

pub(super) async fn by_sku(user: &User, sku: &str) -> Option<Value> {
    let page = user.get(&format!("{CARDS}?q={sku}")).await.expect(200);
    let found: Vec<&Value> = page["items"].as_array().unwrap().iter().filter(|card| card["sku"] == sku).collect();
    assert!(found.len() < 2, "{sku} twice");
    found.first().map(|card| (*card).clone())
}

fn errors(job: &Value) -> Vec<String> {
    let told = |error: &Value| format!("{} {}", error["line"], error["code"].as_str().unwrap());
    job["errors"].as_array().unwrap().iter().map(told).collect()
}

#[tokio::test]
async fn good_rows_become_cards_and_bad_ones_are_told_with_their_lines() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let word = unique("mixed");
    let body = format!(
        "\u{feff}{{\"title\":\"Ä \\\"chair\\\"\",\"sku\":\"{word}-1\",\"status\":\"active\",\"attributes\":{{\"n\":1.10,\"x\":{{\"y\":null}}}}}}\r\n\
         \n\
         {{\"title\":\"broken\n\
         {{\"title\":\"no sku\"}}\n\
         {{\"title\":\"typo\",\"sku\":\"{word}-2\",\"colour\":\"red\"}}\n\
         {{\"title\":\"again\",\"sku\":\"{word}-1\"}}\n\
         {{\"title\":\"nul\",\"sku\":\"{word}-3\",\"attributes\":{{\"x\":\"\\u0000\"}}}}\n\
         {{\"title\":\"nul \\u0000\",\"sku\":\"{word}\\u0000\"}}\n\
         {{\"title\":\"last\",\"sku\":\"{word}-4\",\"attributes\":{{\"sources\":{{\"p:s\":{{\"kind\":\"k\",\"data\":1}}}}}}}}"
    );
    let job = import(owner, "mode=create", NDJSON, body).await;
    assert_eq!((ended(&job).as_str(), &job["total"]), ("done 2 6", &json!(8)), "{job}");
    let invalid = |line: u8| format!("{line} validation-failed");
    let wrong = ["3 invalid-json".to_owned(), invalid(4), invalid(5), "6 sku-taken".to_owned(), invalid(7), invalid(8)];
    assert_eq!(errors(&job), wrong, "{job}");
    assert_eq!(job["errors"][2]["errors"][0]["pointer"], "/colour", "{job}");
    assert_eq!(
        (&job["errors"][2]["errors"][0]["value"], &job["args"]["columns"]),
        (&json!("red"), &json!(null)),
        "{job}"
    );
    assert_eq!(job["errors"][3]["sku"], format!("{word}-1"));
    assert_eq!((&job["counts"]["created"], &job["args"]["mode"]), (&json!(2), &json!("create")));
    let notes = job["notes"].as_array().unwrap();
    assert!(notes.len() == 1 && notes[0].as_str().unwrap().contains("sources=keep"), "{job}");
    let lines = owner.get(&format!("/v1/admin/jobs/{}/errors", job["id"].as_str().unwrap())).await;
    assert_eq!(lines.text().lines().count(), 6);
    assert_eq!(job["errors"][5]["errors"][0]["value"], "nul \u{2400}", "{job}");

    let card = by_sku(owner, &format!("{word}-1")).await.unwrap();
    assert_eq!(
        (&card["title"], &card["status"], &card["version"]),
        (&json!("Ä \"chair\""), &json!("active"), &json!(1))
    );
    assert_eq!(card["attributes"], json!({"n": 1.1, "x": {"y": null}, "sources": {}}));
    let history = owner.get(&format!("{CARDS}/{}/history", card["id"].as_str().unwrap())).await.expect(200);
    let line = &history["items"][0];
    assert_eq!(
        (&line["action"], &line["change"]["job"], &line["actor"]["id"]),
        (&json!("create"), &job["id"], &json!(owner.id))
    );
    assert_eq!(by_sku(owner, &format!("{word}-4")).await.unwrap()["attributes"]["sources"], json!({}));
    assert!(by_sku(owner, &format!("{word}-2")).await.is_none());
}

#[tokio::test]
async fn an_upsert_changes_what_a_row_says_and_can_be_repeated() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (there, new) = (unique("there"), unique("new"));
    let wanted = json!({"title": "Old", "sku": there, "status": "active", "attributes": {"a": 1, "b": {"c": 2}}});
    let id = owner.post(CARDS, &wanted).await.expect(201)["item"]["id"].clone();
    let rows = lines(&[
        json!({"sku": there, "title": "New", "attributes": {"b": {"d": null}}}),
        json!({"sku": new, "title": "First"}),
        json!({"sku": new, "title": "Second", "status": "archived"}),
        json!({"sku": unique("nobody")}),
    ]);
    let job = import(owner, "mode=upsert", NDJSON, rows.clone()).await;
    assert_eq!((ended(&job).as_str(), errors(&job)), ("done 3 1", vec!["4 validation-failed".to_owned()]), "{job}");
    assert_eq!((&job["counts"]["created"], &job["counts"]["updated"]), (&json!(1), &json!(2)), "{job}");
    let card = by_sku(owner, &there).await.unwrap();
    assert_eq!(
        (&card["id"], &card["title"], &card["status"], &card["version"]),
        (&id, &json!("New"), &json!("active"), &json!(2))
    );
    assert_eq!(card["attributes"], json!({"b": {"d": null}, "sources": {}}), "attributes are what the row says");
    let card = by_sku(owner, &new).await.unwrap();
    assert_eq!((&card["title"], &card["status"], &card["version"]), (&json!("Second"), &json!("archived"), &json!(2)));
    // The card of the first row has all that it says already.
    let again = import(owner, "mode=upsert", NDJSON, rows).await;
    assert_eq!(
        (&again["counts"]["unchanged"], &by_sku(owner, &there).await.unwrap()["version"]),
        (&json!(1), &json!(2)),
        "{again}"
    );
    // Its history goes back to before the import.
    let path = format!("{CARDS}/{}", id.as_str().unwrap());
    let first = owner.post(&format!("{path}/restore"), &json!({"version": 1})).await.expect(200)["item"].clone();
    assert_eq!((&first["title"], &first["attributes"]["a"]), (&json!("Old"), &json!(1)));
    let second = owner.post(&format!("{path}/restore"), &json!({"version": 2})).await.expect(200)["item"].clone();
    assert_eq!(second["attributes"], json!({"b": {"d": null}, "sources": {}}));
    // A deleted card is not there: its SKU makes a new one.
    owner.delete(&path).await.expect(204);
    let job = import(owner, "mode=upsert", NDJSON, lines(&[json!({"sku": there, "title": "Anew"})])).await;
    assert_eq!(job["counts"]["created"], 1, "{job}");
    assert_ne!(by_sku(owner, &there).await.unwrap()["id"], id);
}

#[tokio::test]
async fn records_of_csv_have_columns_of_attributes() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let word = unique("csv");
    let body = format!(
        "SKU;Title;status;attributes.size.w;attributes.gtin;attributes.tags\r\n\
         {word}-1;\"A \"\"chair\"\"; oak\";active;12.5;0012345678905;[\"a\", 1]\r\n\
         \r\n\
         {word}-2;\"two\r\nlines\";;;4006381333931;\r\n\
         {word}-3;too few\r\n\
         {word}-4;t;lost;;;\r\n"
    );
    let job = import(owner, "mode=create", CSV, body).await;
    assert_eq!(ended(&job), "done 2 2", "{job}");
    assert_eq!(errors(&job), ["6 validation-failed", "7 validation-failed"], "{job}");
    let wrong_status = &job["errors"][1];
    assert_eq!(
        (&wrong_status["sku"], &wrong_status["errors"][0]["pointer"], &wrong_status["errors"][0]["value"]),
        (&json!(format!("{word}-4")), &json!("/status"), &json!("lost")),
        "{job}"
    );
    let one = by_sku(owner, &format!("{word}-1")).await.unwrap();
    let attributes = json!({"size": {"w": 12.5}, "gtin": "0012345678905", "tags": ["a", 1], "sources": {}});
    assert_eq!((&one["title"], &one["attributes"]), (&json!("A \"chair\"; oak"), &attributes));
    let two = by_sku(owner, &format!("{word}-2")).await.unwrap();
    assert_eq!((&two["title"], &two["status"]), (&json!("two\r\nlines"), &json!("draft")));
    // Columns that are not there, and empty cells, leave what the card has.
    let body = format!("id,sku,attributes.size.h,attributes.gtin,version\nx,{word}-1,3,,9\n");
    let job = import(owner, "mode=upsert&file=autumn.csv", "text/csv; charset=utf-8", body).await;
    assert_eq!((&job["counts"]["updated"], &job["args"]["file"]), (&json!(1), &json!("autumn.csv")), "{job}");
    let columns = json!({"imported": ["sku", "attributes.size.h", "attributes.gtin"], "ignored": ["id", "version"]});
    assert_eq!(job["args"]["columns"], columns, "{job}");
    let one = by_sku(owner, &format!("{word}-1")).await.unwrap();
    assert_eq!(one["attributes"]["size"], json!({"w": 12.5, "h": 3}));
    // Nor do columns that are left out, whatever is in them, and however often they have one name.
    let body = [format!("sku,ignored.a,ignored.a\n{word}-1,x,").as_bytes(), b"\xff\n"].concat();
    let job = import(owner, "mode=upsert", "text/csv", body).await;
    let columns = json!({"imported": ["sku"], "ignored": ["ignored.a", "ignored.a"]});
    assert_eq!((&job["counts"]["unchanged"], &job["args"]["columns"]), (&json!(1), &columns), "{job}");
    assert_eq!((&one["attributes"]["gtin"], &one["status"]), (&json!("0012345678905"), &json!("active")));
}

#[tokio::test]
async fn what_can_not_be_read_at_all_is_refused_at_the_door() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for (body, pointer) in [
        ("title\nx\n", "/sku"),
        ("sku\nx\n", "/title"),
        ("", "/sku"),
        ("sku,title,colour\n", "/colour"),
        ("sku,title,title\n", "/title"),
        ("sku,title,\n", "/"),
        ("sku,title,attributes.sources\n", "/attributes.sources"),
        ("sku,title,attributes.a\0b\n", "/attributes.a\0b"),
    ] {
        let problem = send(owner, "mode=create", CSV, body).await.refused(422, "validation-failed");
        let pointers: Vec<&str> =
            problem["errors"].as_array().unwrap().iter().filter_map(|e| e["pointer"].as_str()).collect();
        assert!(pointers.contains(&pointer), "{body:?}: {problem}");
    }
    send(owner, "mode=create", CSV, &b"\xff\xfes\0k\0u\0"[..]).await.refused(422, "validation-failed");
    send(owner, "mode=create", "application/json", "[]").await.refused(415, "unsupported-media-type");
    for charset in ["charset=iso-8859-1", "CHARSET=\"utf-16\"", "charset = latin1"] {
        let format = format!("text/csv; {charset}");
        send(owner, "", &format, "sku,title").await.refused(415, "unsupported-media-type");
    }
    send(owner, "dry_run=true", "text/csv; header=present; Charset=\"UTF-8\"", "sku,title").await.expect(202);
    for query in ["mode=replace", "sources=drop", "dry_run=perhaps", "file=a%0Ab", "colour=red"] {
        send(owner, query, NDJSON, "").await.refused(400, "invalid-request");
    }
    let packed = owner.call(Method::POST, IMPORT).body(NDJSON, "x").header("content-encoding", "br").send().await;
    packed.refused(415, "unsupported-media-type");
    let key = owner.key(&["cards:write", "jobs:read"]).await;
    let problem = send(&key, "sources=keep", NDJSON, "").await.refused(403, "insufficient-scope");
    assert_eq!(problem["required_scope"], "*");
    let nothing = import(&key, "", NDJSON, "").await;
    assert_eq!((ended(&nothing).as_str(), &nothing["total"]), ("done 0 0", &json!(0)));
    let header_alone = import(&key, "", CSV, "sku,title").await;
    assert_eq!(ended(&header_alone), "done 0 0");
}

#[tokio::test]
async fn a_body_may_be_packed() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let sku = unique("gzip");
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(lines(&[json!({"title": "Packed", "sku": sku})]).as_bytes()).unwrap();
    let packed = packer.finish().unwrap();
    let half = packed[..packed.len() / 2].to_vec();
    let send = async |body: Vec<u8>| {
        let call = || owner.call(Method::POST, IMPORT).body(NDJSON, body.clone()).header("content-encoding", "gzip");
        once_there_is_room(call).await.expect(202)["item"].clone()
    };
    let job = send(half).await;
    assert_eq!(over(owner, job["id"].as_str().unwrap()).await["state"], "interrupted");
    assert!(by_sku(owner, &sku).await.is_none());
    let job = send(packed).await;
    assert_eq!(ended(&over(owner, job["id"].as_str().unwrap()).await), "done 1 0");
}

#[tokio::test]
async fn a_dry_run_tells_what_would_become_of_each_row_and_writes_nothing() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (there, new) = (unique("there"), unique("new"));
    owner.post(CARDS, &json!({"title": "Old", "sku": there})).await.expect(201);
    let rows = lines(&[
        json!({"sku": there, "title": "New"}),
        json!({"sku": new, "title": "New"}),
        json!({"sku": new, "title": "Newer"}),
        json!({"sku": unique("x"), "title": ""}),
    ]);
    let job = import(owner, "mode=create&dry_run=true", NDJSON, rows.clone()).await;
    assert_eq!(
        (ended(&job).as_str(), errors(&job)),
        ("done 1 3", ["1 sku-taken", "3 sku-taken", "4 validation-failed"].map(String::from).to_vec()),
        "{job}"
    );
    let job = import(owner, "mode=upsert&dry_run=true", NDJSON, rows).await;
    assert_eq!(
        (&job["counts"]["created"], &job["counts"]["updated"], &job["failed"]),
        (&json!(1), &json!(2), &json!(1)),
        "{job}"
    );
    assert_eq!(by_sku(owner, &there).await.unwrap()["title"], "Old");
    let same =
        lines(&[json!({"sku": there, "title": "Old", "status": "draft", "attributes": {}}), json!({"sku": there})]);
    let same = import(owner, "mode=upsert&dry_run=true", NDJSON, same).await;
    assert_eq!((&same["counts"]["unchanged"], &same["counts"]["updated"]), (&json!(2), &Value::Null), "{same}");
    assert!(by_sku(owner, &new).await.is_none());
    let kept = "SELECT count(*) FROM public.import_rows WHERE job_id = $1::text::uuid";
    let kept: i64 = host.database().await.query_one(kept, &[&job["id"].as_str().unwrap()]).await.unwrap().get(0);
    assert_eq!(kept, 0);
}

#[tokio::test]
async fn all_rows_or_none() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let word = unique("atomic");
    let row = |n: i32| json!({"title": "T", "sku": format!("{word}-{n}"), "attributes": {"n": n}});
    let mut rows: Vec<Value> = (0..5_000).map(row).collect();
    rows[4_321]["title"] = json!("");
    let job = import(owner, "atomic=true", NDJSON, lines(&rows)).await;
    assert_eq!(
        (ended(&job).as_str(), errors(&job)),
        ("failed 0 1", vec!["4322 validation-failed".to_owned()]),
        "{job}"
    );
    assert!(job["reason"].as_str().unwrap().contains("Nothing was written"), "{job}");
    assert!(by_sku(owner, &format!("{word}-0")).await.is_none());
    // What only the database can say of a row counts just as much.
    rows[4_321] = rows[17].clone();
    let job = import(owner, "atomic=true", NDJSON, lines(&rows)).await;
    assert_eq!((ended(&job).as_str(), errors(&job)), ("failed 0 1", vec!["4322 sku-taken".to_owned()]), "{job}");
    assert!(by_sku(owner, &format!("{word}-0")).await.is_none());
    rows[4_321] = row(4_321);
    let job = import(owner, "atomic=true", NDJSON, lines(&rows)).await;
    assert_eq!((ended(&job).as_str(), &job["total"]), ("done 5000 0", &json!(5_000)), "{job}");
    let card = by_sku(owner, &format!("{word}-4321")).await.unwrap();
    assert_eq!(card["attributes"]["n"], 4_321);
}

#[tokio::test]
async fn too_many_rows_for_all_or_nothing_are_refused_and_nothing_is_written() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let word = unique("many");
    let rows: String = (0..100_001).map(|n| format!("{{\"title\":\"T\",\"sku\":\"{word}-{n}\"}}\n")).collect();
    let job = import(owner, "atomic=true", NDJSON, rows).await;
    assert_eq!((&job["state"], &job["done"]), (&json!("failed"), &json!(0)), "{job}");
    assert!(job["reason"].as_str().unwrap().contains("100000 rows"), "{job}");
    assert!(by_sku(owner, &format!("{word}-7")).await.is_none());
}

#[tokio::test]
async fn readers_of_events_hear_of_imported_cards() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let word = unique("event");
    let mut few = EventStream::open(owner, "?topics=card,job", None).await.greeted().await;
    let job = import(owner, "", NDJSON, lines(&[json!({"title": "T", "sku": word})])).await;
    let card = by_sku(owner, &word).await.unwrap()["id"].clone();
    let sent = few.of_card(card.as_str().unwrap(), |_| true).await;
    assert_eq!((sent[0].version(), ended(&job).as_str()), (1, "done 1 0"));
    let rows: Vec<Value> = (0..600).map(|n| json!({"title": "T", "sku": format!("{word}-{n}")})).collect();
    import(owner, "", NDJSON, lines(&rows)).await;
    few.next_of("card.bulk").await;
}

/// Both import the same rows at a time, in opposite orders; each is written once.
pub(super) async fn meet(host: &Host, one: &User, two: &User) {
    let word = unique("meet");
    let forwards: Vec<Value> = (0..6_000).map(|n| json!({"title": "T", "sku": format!("{word}-{n:05}")})).collect();
    let backwards: Vec<Value> = forwards.iter().rev().cloned().collect();
    let (first, second) =
        tokio::join!(import(one, "", NDJSON, lines(&forwards)), import(two, "", NDJSON, lines(&backwards)));
    let both = ["done", "failed"].map(|name| first[name].as_i64().unwrap() + second[name].as_i64().unwrap());
    let (database, there) =
        (host.database().await, "SELECT count(*) FROM public.master_cards WHERE sku LIKE $1 || '-%'");
    let count = async || database.query_one(there, &[&word]).await.unwrap().get::<_, i64>(0);
    assert_eq!((both, count().await), ([6_000, 6_000], 6_000), "{first} {second}");
    let (first, second) = tokio::join!(
        import(one, "mode=upsert", NDJSON, lines(&forwards)),
        import(two, "mode=upsert", NDJSON, lines(&backwards))
    );
    let ends = (ended(&first), ended(&second));
    assert_eq!(ends, ("done 6000 0".to_owned(), "done 6000 0".to_owned()), "{first} {second}");
    assert_eq!(count().await, 6_000);
}

#[tokio::test]
async fn two_imports_of_the_same_rows_meet_and_each_row_is_written_once() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    meet(&host, owner, owner).await;
}
