//! The table `admin_audit_log`. The core's role may add rows and read them, nothing else; the reaper removes what is
//! past its retention.

use std::{net::IpAddr, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use time::OffsetDateTime;
use tokio_postgres::{
    Row,
    types::{Json, ToSql},
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
    /// Never a secret.
    pub detail: Option<Arc<RawValue>>,
    /// Of refusals that the row stands for: how many, the first and the last.
    pub count: i32,
    pub first_at: Option<OffsetDateTime>,
    pub at: OffsetDateTime,
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

/// Rows that one statement of the retention removes.
const REMOVAL_BATCH: i64 = 5_000;

const ADD: &str = "INSERT INTO public.admin_audit_log \
     (at, actor, action, target, outcome, ip, request_id, detail, count, first_at, id) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

/// One statement for many: each statement of its own would cost the worker more than the rest of its row. What rows have in
/// common is sent and read once: to read the same actor and address again for each row is a sixth of what PostgreSQL
/// spends on it. The ids come from here, since PostgreSQL asks the kernel for each random number: another quarter.
const ADD_ALL: &str = "INSERT INTO public.admin_audit_log \
     (at, actor, action, target, outcome, ip, request_id, detail, count, first_at, id) \
     SELECT r.at, ($1::jsonb[])[r.act], ($2::text[])[r.act], r.target, ($3::text[])[r.act], ($4::inet[])[r.act], \
            r.request_id, r.detail, ($5::int4[])[r.act], ($6::timestamptz[])[r.act], r.id \
     FROM unnest($7::int4[], $8::timestamptz[], $9::text[], $10::text[], $11::jsonb[], $12::uuid[]) \
          AS r (act, at, target, request_id, detail, id)";

/// So many of the latest acts are looked through for one that a row has in common with them.
const LATEST_ACTS: usize = 16;

pub async fn add(pool: &Pool, entry: &Entry) -> Result<(), StoreError> {
    let client = pool.get().await?;
    let values: [&(dyn ToSql + Sync); 11] = [
        &entry.at,
        &Json(&*entry.actor),
        &entry.action,
        &entry.target,
        &entry.outcome,
        &entry.ip,
        &entry.request_id,
        &entry.detail.as_deref().map(Json),
        &entry.count,
        &entry.first_at,
        &Uuid::new_v4(),
    ];
    client.execute(&client.prepare_cached(ADD).await?, &values).await?;
    Ok(())
}

/// All of them or none.
pub async fn add_all(pool: &Pool, entries: &[Entry]) -> Result<(), StoreError> {
    /// A member of all entries.
    fn column<E: Copy, T>(entries: &[E], member: impl Fn(E) -> T) -> Vec<T> {
        entries.iter().copied().map(member).collect()
    }
    let (acts, numbers) = acts(entries);
    let rows: Vec<&Entry> = entries.iter().collect();
    let client = pool.get().await?;
    let statement = client.prepare_cached(ADD_ALL).await?;
    let columns: [&(dyn ToSql + Sync); 12] = [
        &column(&acts, |entry| Json(&*entry.actor)),
        &column(&acts, |entry| entry.action),
        &column(&acts, |entry| entry.outcome),
        &column(&acts, |entry| entry.ip),
        &column(&acts, |entry| entry.count),
        &column(&acts, |entry| entry.first_at),
        &numbers,
        &column(&rows, |entry| entry.at),
        &column(&rows, |entry| entry.target.as_deref()),
        &column(&rows, |entry| entry.request_id.as_str()),
        &column(&rows, |entry| entry.detail.as_deref().map(Json)),
        &column(&rows, |_| Uuid::new_v4()),
    ];
    client.execute(&statement, &columns).await?;
    Ok(())
}

/// An entry for each act of the entries, and for each entry the number of its act, from 1 on.
fn acts(entries: &[Entry]) -> (Vec<&Entry>, Vec<i32>) {
    let mut acts: Vec<&Entry> = Vec::new();
    let number = |entry| {
        let earlier = acts.len().saturating_sub(LATEST_ACTS);
        let known = acts[earlier..].iter().position(|act| act.is_same_act(entry)).map(|at| earlier + at);
        let at = known.unwrap_or_else(|| {
            acts.push(entry);
            acts.len() - 1
        });
        i32::try_from(at + 1).unwrap_or(i32::MAX)
    };
    let numbers = entries.iter().map(number).collect();
    (acts, numbers)
}

impl Entry {
    /// Whether the rows differ in their time, target, request and detail alone.
    fn is_same_act(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.actor, &other.actor)
            && (self.action, self.outcome, self.ip) == (other.action, other.outcome, other.ip)
            && (self.count, self.first_at) == (other.count, other.first_at)
    }
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
    for (condition, value) in
        [("a.action = ?", &filter.action), ("a.target = ?", &filter.target), ("a.outcome = ?", &filter.outcome)]
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
        "SELECT a.seq, a.id, a.at, a.actor, a.action, a.target, a.outcome, a.ip, a.request_id, a.detail, a.count, \
         coalesce(a.first_at, a.at) AS first_at FROM public.admin_audit_log a WHERE {all} ORDER BY a.seq DESC LIMIT ${}",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_one_act_share_it() {
        let actor = || Arc::from(RawValue::NULL.to_owned());
        let (one, other): (Arc<RawValue>, Arc<RawValue>) = (actor(), actor());
        let entry = |actor: &Arc<RawValue>, outcome, count| Entry {
            actor: Arc::clone(actor),
            action: "tool.call",
            target: None,
            outcome,
            ip: None,
            request_id: String::new(),
            detail: None,
            count,
            first_at: None,
            at: OffsetDateTime::UNIX_EPOCH,
        };
        let entries = [
            entry(&one, "ok", 1),
            entry(&one, "failed", 1),
            entry(&one, "ok", 1),
            entry(&other, "ok", 1),
            entry(&one, "ok", 2),
            entry(&one, "failed", 1),
        ];
        assert_eq!(acts(&entries).1, [1, 2, 1, 3, 4, 2]);
        let many: Vec<Entry> = (0..100).chain([0]).map(|count| entry(&one, "ok", count)).collect();
        let (acts, numbers) = acts(&many);
        assert_eq!((acts.len(), numbers.last()), (101, Some(&101)), "only the latest are looked through");
    }
}
