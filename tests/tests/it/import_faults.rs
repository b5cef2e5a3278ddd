//! Imports that do not come to their end: what was counted is written, all or nothing stays nothing, and no job is left
//! running.

use std::{io, time::Duration};

use bytes::Bytes;
use cardinal_tests::{Host, User, eventually, unique};
use futures_util::{Stream, StreamExt as _, stream};
use http::Method;
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::body::Frame;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::import::{NDJSON, by_sku, ended, import, lines, over};

const MIB: u64 = 1 << 20;
pub(super) const IMPORT: &str = "/v1/admin/master-cards/import";

fn body(pieces: impl Stream<Item = io::Result<Frame<Bytes>>> + Send + Sync + 'static) -> BoxBody<Bytes, io::Error> {
    BodyExt::boxed(StreamBody::new(pieces))
}

/// A body that comes as it is sent; an error breaks it off.
pub(super) fn fed() -> (mpsc::Sender<io::Result<String>>, BoxBody<Bytes, io::Error>) {
    let (sender, receiver) = mpsc::channel::<io::Result<String>>(1);
    let pieces = stream::unfold(receiver, |mut receiver| async move {
        let piece = receiver.recv().await?;
        Some((piece.map(|text| Frame::data(Bytes::from(text))), receiver))
    });
    (sender, body(pieces))
}

/// Rows without an end.
pub(super) fn endless(word: &str) -> BoxBody<Bytes, io::Error> {
    let word = word.to_owned();
    let pieces = stream::iter(0_u64..).map(move |piece| {
        let row = |n: u64| {
            format!("{{\"title\":\"T\",\"sku\":\"{word}-{}\",\"attributes\":{{\"n\":{n}}}}}\n", piece * 500 + n)
        };
        Ok(Frame::data(Bytes::from((0..500).map(row).collect::<String>())))
    });
    body(pieces)
}

/// The import that runs with this request id.
pub(super) async fn job_of(user: &User, request_id: &str, at_least: i64) -> Value {
    eventually("the import runs", async || {
        let answer =
            user.call(Method::GET, &format!("/v1/admin/jobs?action=import&request_id={request_id}")).try_send();
        let jobs = answer.await.ok().filter(|answer| answer.status == 200)?.json();
        let job = jobs["items"].get(0)?.clone();
        (job["done"].as_i64()? >= at_least).then_some(job)
    })
    .await
}

pub(super) async fn count(host: &Host, word: &str) -> i64 {
    let sql = "SELECT count(*) FROM public.master_cards WHERE sku LIKE $1 || '-%'";
    host.database().await.query_one(sql, &[&word]).await.unwrap().get(0)
}

#[tokio::test]
async fn rows_of_a_slow_sender_are_written_while_it_sends_and_stay_when_it_breaks_off() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let (word, request_id) = (unique("slow"), unique("r"));
    let (sender, body) = fed();
    let call = owner.call(Method::POST, IMPORT).stream(NDJSON, body).header("x-request-id", &request_id);
    let sending = tokio::spawn(call.try_send());
    sender.send(Ok(lines(&[json!({"title": "T", "sku": format!("{word}-1")})]))).await.unwrap();
    let job = job_of(owner, &request_id, 1).await;
    assert_eq!((&job["state"], &job["total"]), (&json!("running"), &Value::Null), "{job}");
    assert!(by_sku(owner, &format!("{word}-1")).await.is_some());
    sender.send(Ok("{\"title\":\"T\",\"sku\":\"half".to_owned())).await.unwrap();
    sender.send(Err(io::Error::other("gone"))).await.unwrap();
    assert!(sending.await.unwrap().is_err());
    let job = over(owner, job["id"].as_str().unwrap()).await;
    assert_eq!(ended(&job), "interrupted 1 0", "{job}");
    assert!(job["reason"].as_str().unwrap().contains("ended before it was complete"), "{job}");
}

#[tokio::test]
async fn all_or_nothing_is_nothing_when_its_sender_goes_away() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let (word, request_id) = (unique("gone"), unique("r"));
    let (sender, body) = fed();
    let call = owner.call(Method::POST, &format!("{IMPORT}?atomic=true")).stream(NDJSON, body);
    let sending = tokio::spawn(call.header("x-request-id", &request_id).try_send());
    sender.send(Ok(lines(&[json!({"title": "T", "sku": format!("{word}-1")})]))).await.unwrap();
    let job = job_of(owner, &request_id, 0).await;
    sender.send(Err(io::Error::other("gone"))).await.unwrap();
    let _ = sending.await;
    let job = over(owner, job["id"].as_str().unwrap()).await;
    assert_eq!((ended(&job).as_str(), count(&host, &word).await), ("interrupted 0 0", 0), "{job}");
    let kept = "SELECT count(*) FROM public.import_rows WHERE job_id = $1::text::uuid";
    let kept: i64 = host.database().await.query_one(kept, &[&job["id"].as_str().unwrap()]).await.unwrap().get(0);
    assert_eq!(kept, 0);
}

#[tokio::test]
async fn an_import_stops_when_it_is_told_to() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let (word, request_id) = (unique("cancel"), unique("r"));
    let call = owner.call(Method::POST, IMPORT).stream(NDJSON, endless(&word)).header("x-request-id", &request_id);
    let sending = tokio::spawn(call.try_send());
    let job = job_of(owner, &request_id, 1).await;
    let id = job["id"].as_str().unwrap();
    owner.call(Method::POST, &format!("/v1/admin/jobs/{id}/cancel")).send().await.expect(202);
    let job = over(owner, id).await;
    assert_eq!((&job["state"], &job["failed"]), (&json!("cancelled"), &json!(0)), "{job}");
    assert_eq!(job["done"], count(&host, &word).await);
    // Who was still sending is told, or hung up on.
    if let Ok(answer) = sending.await.unwrap() {
        assert_eq!(answer.expect(202)["item"]["state"], "cancelled");
    }
}

#[tokio::test]
async fn one_whose_sender_says_nothing_stops_as_well() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let (word, request_id) = (unique("quiet"), unique("r"));
    let call = owner.call(Method::POST, IMPORT).stream(NDJSON, fed_slowly(&word)).header("x-request-id", &request_id);
    let sending = tokio::spawn(call.try_send());
    let job = job_of(owner, &request_id, 100).await;
    let id = job["id"].as_str().unwrap();
    owner.call(Method::POST, &format!("/v1/admin/jobs/{id}/cancel")).send().await.expect(202);
    let begun = std::time::Instant::now();
    assert_eq!(ended(&over(owner, id).await), "cancelled 100 0");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let audit = owner.get("/v1/admin/audit?action=card.import").await.expect(200);
    assert!(audit["items"].as_array().unwrap().iter().any(|line| line["target"] == id), "{audit}");
    sending.abort();
}

#[tokio::test]
async fn what_a_killed_worker_had_counted_is_written_and_nothing_more() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    for round in 0..3 {
        let (word, request_id) = (unique("kill"), unique("r"));
        let atomic = round == 2;
        let path = if atomic { format!("{IMPORT}?atomic=true") } else { IMPORT.to_owned() };
        let body = if atomic { fed_slowly(&word) } else { endless(&word) };
        let call = owner.call(Method::POST, &path).stream(NDJSON, body).header("x-request-id", &request_id);
        let sending = tokio::spawn(call.try_send());
        let job = job_of(owner, &request_id, if atomic { 0 } else { 1 + round * 9_000 }).await;
        kill_process(Pid::from_raw(host.worker_pid()).unwrap(), Signal::KILL).unwrap();
        assert!(sending.await.unwrap().is_err());
        let job = over(owner, job["id"].as_str().unwrap()).await;
        assert_eq!(job["state"], "interrupted", "{job}");
        assert_eq!(job["done"], count(&host, &word).await, "{job}");
        let told = "SELECT count(*) FROM public.card_history h JOIN public.master_cards c ON c.id = h.card_id WHERE c.sku LIKE $1 || '-%'";
        assert_eq!(
            job["done"],
            host.database().await.query_one(told, &[&word]).await.unwrap().get::<_, i64>(0),
            "{job}"
        );
        if atomic {
            let kept: i64 =
                host.database().await.query_one("SELECT count(*) FROM public.import_rows", &[]).await.unwrap().get(0);
            assert_eq!((job["done"].as_i64(), kept), (Some(0), 0));
        }
    }
}

/// Some rows, and then nothing for as long as anybody listens.
fn fed_slowly(word: &str) -> BoxBody<Bytes, io::Error> {
    let rows: Vec<Value> = (0..100).map(|n| json!({"title": "T", "sku": format!("{word}-{n}")})).collect();
    let first = stream::iter([Ok(Frame::data(Bytes::from(lines(&rows))))]);
    body(first.chain(stream::pending()))
}

#[tokio::test]
async fn rights_that_are_taken_away_end_an_import() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let (word, request_id) = (unique("revoked"), unique("r"));
    let key = owner.make_key(json!({"name": "short-lived", "scopes": ["cards:write"]})).await;
    let client = host.client().bearer(key["key"].as_str().unwrap());
    let call = client.call(Method::POST, IMPORT).stream(NDJSON, endless(&word)).header("x-request-id", &request_id);
    let sending = tokio::spawn(call.try_send());
    let job = job_of(owner, &request_id, 1).await;
    owner.delete(&format!("/v1/admin/api-keys/{}", key["item"]["id"].as_str().unwrap())).await.expect(204);
    let job = over(owner, job["id"].as_str().unwrap()).await;
    assert_eq!((&job["state"], &job["done"]), (&json!("failed"), &json!(count(&host, &word).await)), "{job}");
    let _ = sending.await;
}

/// Rows of some 1,100 bytes.
fn many(word: &str, rows: u64) -> BoxBody<Bytes, io::Error> {
    let word = word.to_owned();
    let text = "x".repeat(1_000);
    let pieces = stream::iter(0..rows / 100).map(move |piece| {
        let row = |n: u64| {
            let n = piece * 100 + n;
            format!(
                "{{\"title\":\"Card {n}\",\"sku\":\"{word}-{n}\",\"attributes\":{{\"n\":{n},\"text\":\"{text}\"}}}}\n"
            )
        };
        Ok(Frame::data(Bytes::from((0..100).map(row).collect::<String>())))
    });
    body(pieces)
}

/// Imports and exports `rows`, and looks how much memory that takes.
async fn there_and_back(rows: u64) {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    import(owner, "", NDJSON, lines(&[json!({"title": "warm", "sku": "warm"})])).await;
    let before = host.worker_memory("VmRSS") / MIB;
    let request_id = unique("r");
    let call = owner.call(Method::POST, IMPORT).stream(NDJSON, many("many", rows)).header("x-request-id", &request_id);
    let answer = call.open(None).await.unwrap();
    assert_eq!(answer.status(), 202);
    let job = over(owner, job_of(owner, &request_id, 0).await["id"].as_str().unwrap()).await;
    assert_eq!(ended(&job), format!("done {rows} 0"), "{job}");
    let imported = host.worker_memory("VmHWM") / MIB;
    let mut body = owner.call(Method::GET, "/v1/admin/master-cards/export").open(None).await.unwrap().into_body();
    let mut lines = 0;
    while let Some(frame) = body.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        lines += data.iter().filter(|byte| **byte == b'\n').count() as u64;
    }
    assert_eq!(lines, rows + 1);
    let exported = host.worker_memory("VmHWM") / MIB;
    let told = format!("{before} MiB before, at most {imported} until the import's end, {exported} until the export's");
    eprintln!("{told}");
    assert!(exported - before < MAX_GROWTH, "{told}");
}

/// MiB that the worker may grow by, however many rows there are; those of the short test take more.
const MAX_GROWTH: u64 = 64;

#[tokio::test]
async fn cards_go_in_and_out_in_less_memory_than_they_take() {
    there_and_back(100_000).await;
}

#[tokio::test]
#[ignore = "long: scripts/test --long"]
async fn a_million_cards_go_in_and_out_in_the_same_memory() {
    tokio::time::timeout(Duration::from_secs(3_600), there_and_back(1_000_000)).await.unwrap();
}
