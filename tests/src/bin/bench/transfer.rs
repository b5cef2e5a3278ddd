//! Rows in and out: an import beside a bare COPY into a table with the same indexes, an export beside a bare SELECT,
//! through the same driver.

use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cardinal_tests::{eventually, unique};
use futures_util::{StreamExt as _, stream};
use http::Method;
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::body::Frame;
use serde_json::json;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{Json, ToSql, Type};
use uuid::Uuid;

use crate::Options;
use crate::measure::{Measured, Round};
use crate::subjects::Bench;
use crate::usage;

const IMPORT: &str = "catalogue: import, rows";
const EXPORT: &str = "catalogue: export, rows";
/// Rows of a piece of the body.
const PIECE: i64 = 200;

/// As many rows as the catalogue has cards, in as many parts as there are rounds.
pub(crate) async fn measure(bench: &Bench, options: &Options) -> Vec<Measured> {
    let mut measured = Vec::new();
    let rounds = i64::try_from(options.rounds).unwrap();
    if options.wants(IMPORT) {
        eprintln!("    {IMPORT}");
        let bare = "DROP TABLE IF EXISTS public.bare_cards; CREATE TABLE public.bare_cards (LIKE public.master_cards INCLUDING ALL)";
        bench.host().database().await.batch_execute(bare).await.unwrap();
        let mut both = empty(IMPORT, "bare COPY, the same indexes");
        for _ in 0..rounds {
            both.against.push(copy(bench, options.cards / rounds).await);
            both.subject.push(import(bench, options.cards / rounds).await);
        }
        measured.push(both);
    }
    if options.wants(EXPORT) {
        eprintln!("    {EXPORT}");
        let mut both = empty(EXPORT, "bare SELECT");
        for _ in 0..rounds {
            both.against.push(select(bench).await);
            both.subject.push(export(bench).await);
        }
        measured.push(both);
    }
    measured
}

fn empty(name: &'static str, baseline: &'static str) -> Measured {
    Measured { name, baseline, subject: Vec::new(), against: Vec::new() }
}

/// What so many rows took the process `pid`; there is no latency of one row.
fn round(rows: i64, begun: Instant, pid: i32, used_before: Duration) -> Round {
    let (took, used) = (begun.elapsed(), usage::cpu_time(pid) - used_before);
    let cpu = used.div_f64(rows as f64);
    Round { per_second: rows as f64 / took.as_secs_f64(), cpu, p50: Duration::ZERO, p99: Duration::ZERO }
}

fn title(n: i64) -> String {
    format!("Garden chair {n} of oak")
}

fn attributes(n: i64) -> serde_json::Value {
    json!({"brand": "Northwind", "weight_grams": n, "text": "as long as they are ".repeat(15)})
}

fn body(prefix: &str, rows: i64) -> BoxBody<Bytes, io::Error> {
    let prefix = prefix.to_owned();
    let pieces = stream::iter(0..(rows + PIECE - 1) / PIECE).map(move |piece| {
        let row = |n: i64| {
            format!("{}\n", json!({"title": title(n), "sku": format!("{prefix}-{n}"), "attributes": attributes(n)}))
        };
        let text: String = (piece * PIECE..((piece + 1) * PIECE).min(rows)).map(row).collect();
        Ok(Frame::data(Bytes::from(text)))
    });
    BodyExt::boxed(StreamBody::new(pieces))
}

async fn import(bench: &Bench, rows: i64) -> Round {
    let owner = bench.host().owner().await;
    let (pid, request_id) = (bench.host().worker_pid(), unique("import"));
    let (begun, before) = (Instant::now(), usage::cpu_time(pid));
    let call = owner.call(Method::POST, "/v1/admin/master-cards/import");
    let call = call.stream("application/x-ndjson", body(&request_id, rows)).header("x-request-id", &request_id);
    let answer = call.open(None).await.unwrap();
    assert_eq!(answer.status(), 202);
    let whole = answer.into_body().collect().await.unwrap().to_bytes();
    let job: serde_json::Value = serde_json::from_slice(&whole).unwrap();
    let path = format!("/v1/admin/jobs/{}", job["item"]["id"].as_str().unwrap());
    let job = eventually("the import is over", async || {
        let job = owner.get(&path).await.expect(200)["item"].clone();
        (job["state"] != "running").then_some(job)
    })
    .await;
    assert_eq!((job["state"].as_str(), job["done"].as_i64()), (Some("done"), Some(rows)), "{job}");
    round(rows, begun, pid, before)
}

async fn copy(bench: &Bench, rows: i64) -> Round {
    let database = bench.host().database().await;
    let (pid, prefix) = (i32::try_from(std::process::id()).unwrap(), unique("copy"));
    let (begun, before) = (Instant::now(), usage::cpu_time(pid));
    let sql = "COPY public.bare_cards (id, title, sku, status, attributes) FROM STDIN BINARY";
    let types = [Type::UUID, Type::TEXT, Type::TEXT, Type::TEXT, Type::JSONB];
    let mut out = pin!(BinaryCopyInWriter::new(database.copy_in(sql).await.unwrap(), &types));
    for n in 0..rows {
        let mut attributes = attributes(n);
        attributes["sources"] = json!({});
        let sku = format!("{prefix}-{n}");
        let values: [&(dyn ToSql + Sync); 5] = [&Uuid::now_v7(), &title(n), &sku, &"draft", &Json(attributes)];
        out.as_mut().write(&values).await.unwrap();
    }
    out.finish().await.unwrap();
    round(rows, begun, pid, before)
}

async fn export(bench: &Bench) -> Round {
    let pid = bench.host().worker_pid();
    let (begun, before) = (Instant::now(), usage::cpu_time(pid));
    let answer = bench.key.call(Method::GET, "/v1/admin/master-cards/export").open(None).await.unwrap();
    assert_eq!(answer.status(), 200);
    let (mut body, mut rows) = (answer.into_body(), 0);
    while let Some(frame) = body.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        rows += i64::try_from(data.iter().filter(|byte| **byte == b'\n').count()).unwrap();
    }
    round(rows, begun, pid, before)
}

async fn select(bench: &Bench) -> Round {
    let database = bench.host().database().await;
    let pid = i32::try_from(std::process::id()).unwrap();
    let (begun, before) = (Instant::now(), usage::cpu_time(pid));
    let sql = "SELECT id, title, sku, status, attributes::text, version, created_at, updated_at FROM public.master_cards \
               WHERE deleted_at IS NULL ORDER BY id";
    let nothing: [&(dyn ToSql + Sync); 0] = [];
    let (mut found, mut rows) = (pin!(database.query_raw(sql, nothing).await.unwrap()), 0);
    while let Some(row) = found.next().await {
        let row = row.unwrap();
        assert!(!row.get::<_, &str>(4).is_empty());
        rows += 1;
    }
    round(rows, begun, pid, before)
}
