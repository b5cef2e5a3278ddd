//! The table `admin_audit_log`. The core's role may add rows and read them, nothing else; the reaper removes what is
//! past its retention.

use std::{net::IpAddr, pin::pin, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use time::OffsetDateTime;
use tokio_postgres::{
    Row,
    binary_copy::BinaryCopyInWriter,
    types::{Json, ToSql, Type},
};
use uuid::Uuid;

use crate::error::StoreError;
use crate::old_rows;
use cardinal_base::schema::{Actor, DateTime};
use cardinal_database::pool::Pool;

/// A row to be added.
#[derive(Debug)]
pub struct Entry {
    /// `{kind, id, name}`
    pub actor: Arc<RawValue>,
    /// e.g. `api_key.create`
    pub action: &'static str,
    pub target: Option<String>,
    /// `ok` or `refused`
    pub outcome: &'static str,
    pub ip: Option<IpAddr>,
    pub request_id: String,
    pub detail: Option<Detail>,
    /// Of refusals that the row stands for: how many, the first and the last.
    pub count: i32,
    pub first_at: Option<OffsetDateTime>,
    pub at: OffsetDateTime,
}

/// What a row says besides.
#[derive(Clone, Debug)]
pub enum Detail {
    /// A JSON object, never with a secret.
    Object(Arc<RawValue>),
    /// In columns of its own: there are many, and to read it as JSON would cost PostgreSQL a quarter more of a row.
    Call(CallDetail),
}

/// How a tool was called.
#[derive(Clone, Debug)]
pub struct CallDetail {
    /// What the client says it is: a JSON object.
    pub client: Option<Arc<str>>,
    /// SHA-256.
    pub arguments: [u8; 32],
    pub result: &'static str,
    pub ms: i64,
}

/// A row as it is read.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AuditLine")]
pub struct AuditRow {
    #[serde(skip)]
    pub seq: i64,
    pub id: Uuid,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "DateTime")]
    pub at: OffsetDateTime,
    #[schemars(with = "Actor")]
    pub actor: Value,
    pub action: String,
    pub target: Option<String>,
    pub outcome: String,
    pub ip: Option<IpAddr>,
    pub request_id: Option<String>,
    pub detail: Option<Value>,
    pub count: i32,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "DateTime")]
    pub first_at: OffsetDateTime,
}

/// Which rows are asked for.
#[derive(Debug, Default, Serialize)]
pub struct Filter {
    /// An id, or else a name.
    pub actor: Option<String>,
    pub action: Option<String>,
    pub target: Option<String>,
    pub outcome: Option<String>,
    #[serde(with = "time::serde::rfc3339::option")]
    pub since: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    pub until: Option<OffsetDateTime>,
}

/// What a tool call's row says besides, as all others hold it.
const DETAIL: &str = "CASE WHEN a.call_result IS NULL THEN a.detail ELSE jsonb_build_object('client', a.call_client::jsonb, \
     'arguments_sha256', encode(a.call_arguments, 'hex'), 'result', a.call_result, 'ms', a.call_ms) END";

/// Rows that one statement of the retention removes.
const REMOVAL_BATCH: i64 = 5_000;

const ADD: &str = "INSERT INTO public.admin_audit_log \
     (at, actor, action, target, outcome, ip, request_id, detail, count, first_at, id, call_client, call_arguments, \
     call_result, call_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";

/// The rows of many calls at once. COPY costs PostgreSQL a sixth less of a row than an INSERT of arrays.
const ADD_ALL: &str = "COPY public.admin_audit_log \
     (at, actor, action, target, outcome, ip, request_id, detail, count, first_at, id, call_client, call_arguments, \
     call_result, call_ms) FROM STDIN BINARY";

/// Of the columns above.
const TYPES: [Type; 15] = [
    Type::TIMESTAMPTZ,
    Type::JSONB,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INET,
    Type::TEXT,
    Type::JSONB,
    Type::INT4,
    Type::TIMESTAMPTZ,
    Type::UUID,
    Type::TEXT,
    Type::BYTEA,
    Type::TEXT,
    Type::INT8,
];

/// What the columns get for an entry.
struct Values<'e> {
    entry: &'e Entry,
    actor: Json<&'e RawValue>,
    detail: Option<Json<&'e RawValue>>,
    client: Option<&'e str>,
    arguments: Option<&'e [u8]>,
    result: Option<&'e str>,
    ms: Option<i64>,
    /// Made here, since PostgreSQL asks the kernel for each random number: a quarter of what it spends on a row.
    id: Uuid,
}

impl<'e> Values<'e> {
    fn new(entry: &'e Entry) -> Self {
        let (detail, call) = match &entry.detail {
            Some(Detail::Object(object)) => (Some(Json(&**object)), None),
            Some(Detail::Call(call)) => (None, Some(call)),
            None => (None, None),
        };
        Self {
            entry,
            actor: Json(&entry.actor),
            detail,
            client: call.and_then(|call| call.client.as_deref()),
            arguments: call.map(|call| &call.arguments[..]),
            result: call.map(|call| call.result),
            ms: call.map(|call| call.ms),
            id: Uuid::now_v7(),
        }
    }

    fn columns(&self) -> [&(dyn ToSql + Sync); TYPES.len()] {
        let Self { entry, actor, detail, client, arguments, result, ms, id } = self;
        [
            &entry.at,
            actor,
            &entry.action,
            &entry.target,
            &entry.outcome,
            &entry.ip,
            &entry.request_id,
            detail,
            &entry.count,
            &entry.first_at,
            id,
            client,
            arguments,
            result,
            ms,
        ]
    }
}

pub async fn add(pool: &Pool, entry: &Entry) -> Result<(), StoreError> {
    let client = pool.get().await?;
    client.execute(&client.prepare_cached(ADD).await?, &Values::new(entry).columns()).await?;
    Ok(())
}

/// All of them or none.
pub async fn add_all(pool: &Pool, entries: &[Entry]) -> Result<(), StoreError> {
    let client = pool.get().await?;
    let statement = client.prepare_cached(ADD_ALL).await?;
    let mut rows = pin!(BinaryCopyInWriter::new(client.copy_in(&statement).await?, &TYPES));
    for entry in entries {
        rows.as_mut().write(&Values::new(entry).columns()).await?;
    }
    rows.finish().await?;
    Ok(())
}

/// Rows, newest first; `before` is the last one of the page before.
pub async fn list(pool: &Pool, filter: &Filter, before: Option<i64>, limit: i64) -> Result<Vec<AuditRow>, StoreError> {
    let mut conditions = Vec::new();
    let mut values: Vec<&(dyn ToSql + Sync)> = Vec::new();
    let mut add = |condition: &str, value| {
        values.push(value);
        conditions.push(condition.replace('?', &format!("${}", values.len())));
    };
    if let Some(actor) = &filter.actor {
        let by_id = Uuid::try_parse(actor).is_ok();
        add(if by_id { "a.actor ->> 'id' = lower(?)" } else { "a.actor ->> 'name' = ?" }, actor);
    }
    // In words, or the planner does not see that the index by action has them all.
    let by_action = match &filter.action {
        Some(action) if action != "tool.call" => "a.action = ? AND a.action <> 'tool.call'",
        _ => "a.action = ?",
    };
    for (condition, value) in
        [(by_action, &filter.action), ("a.target = ?", &filter.target), ("a.outcome = ?", &filter.outcome)]
    {
        if let Some(value) = value {
            add(condition, value);
        }
    }
    if let Some(since) = &filter.since {
        add("a.at >= ?", since);
    }
    if let Some(until) = &filter.until {
        add("a.at < ?", until);
    }
    if let Some(before) = &before {
        add("a.seq < ?", before);
    }
    values.push(&limit);
    let all = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
    let sql = format!(
        "SELECT a.seq, a.id, a.at, a.actor, a.action, a.target, a.outcome, a.ip, a.request_id, {DETAIL} AS detail, \
         a.count, coalesce(a.first_at, a.at) AS first_at FROM public.admin_audit_log a WHERE {all} ORDER BY a.seq DESC LIMIT ${}",
        values.len()
    );
    let client = pool.get().await?;
    let rows = client.query(&client.prepare_cached(&sql).await?, &values).await?;
    Ok(rows.iter().map(line).collect())
}

fn line(row: &Row) -> AuditRow {
    AuditRow {
        seq: row.get("seq"),
        id: row.get("id"),
        at: row.get("at"),
        actor: row.get("actor"),
        action: row.get("action"),
        target: row.get("target"),
        outcome: row.get("outcome"),
        ip: row.get("ip"),
        request_id: row.get("request_id"),
        detail: row.get("detail"),
        count: row.get("count"),
        first_at: row.get("first_at"),
    }
}

/// Removes what is older than `days`, some rows at a time; gives how many. `reaper` is the one who may.
pub async fn remove_old(reaper: &Pool, days: u32) -> Result<u64, StoreError> {
    let delete = "DELETE FROM public.admin_audit_log WHERE seq IN (SELECT seq FROM public.admin_audit_log \
                  WHERE at < now() - make_interval(days => $1) ORDER BY at LIMIT $2)";
    old_rows::remove(reaper, delete, i32::try_from(days).unwrap_or(i32::MAX), REMOVAL_BATCH).await
}
