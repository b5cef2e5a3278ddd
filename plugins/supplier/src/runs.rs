//! Runs through feeds in the plugin's own table, and the cards that their entries belong to: SQL, as in [`cache`](crate::cache).

use std::collections::HashMap;

use cardinal_plugin::postgres::Json;
use cardinal_plugin::{Error, FromRow, PluginContext, Result, Uuid};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;

/// At a time, on all hosts.
const MAX_RUNNING: i64 = 2;
/// Runs that are remembered.
const MAX_RUNS: i64 = 500;
/// Problems that a run tells of; the others are counted.
const MAX_PROBLEMS: usize = 50;
/// A run that has not said so long that it is alive was ended with its host.
const SILENT_SECONDS: f64 = 180.0;

/// A run through a feed.
#[derive(Debug, FromRow, Serialize)]
pub(crate) struct Run {
    pub id: i64,
    pub url: String,
    pub state: String,
    pub total: Option<i32>,
    pub done: i32,
    pub enriched: i32,
    pub unmatched: i32,
    pub failed: i32,
    /// `[{"entry": "SKU or address", "detail": "..."}]`
    pub problems: Value,
    pub started_by: String,
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    pub finished_at: Option<OffsetDateTime>,
}

/// What a run has done since it was noted last.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub enriched: i32,
    pub unmatched: i32,
    pub failed: i32,
    pub problems: Vec<Problem>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Problem {
    pub entry: String,
    pub detail: String,
}

impl Counts {
    pub(crate) fn fail(&mut self, entry: &str, detail: &str) {
        self.failed += 1;
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { entry: entry.to_owned(), detail: detail.to_owned() });
        }
    }
}

const COLUMNS: &str = "
    SELECT id, address AS url, total, done, enriched, unmatched, failed, problems, started_by, started_at, finished_at,
           CASE WHEN state = 'running' AND alive_at < now() - make_interval(secs => $1) THEN 'interrupted' ELSE state END
               AS state
    FROM runs";

/// Notes a run that begins, and forgets the oldest.
pub(crate) async fn begin(ctx: &PluginContext, address: &str, started_by: &str) -> Result<Run> {
    const BEGIN: &str = "
        INSERT INTO runs (address, started_by)
        SELECT $1, $2
        WHERE (SELECT count(*) FROM runs WHERE state = 'running' AND alive_at > now() - make_interval(secs => $3)) < $4
        RETURNING id";
    const FORGET: &str = "DELETE FROM runs WHERE id <= (SELECT max(id) FROM runs) - $1";
    let connection = ctx.get_plugin_conn().await?;
    let begun: Option<(i64,)> =
        connection.query_opt_as(BEGIN, &[&address, &started_by, &SILENT_SECONDS, &MAX_RUNNING]).await?;
    let Some((id,)) = begun else {
        let detail = format!("{MAX_RUNNING} feeds are being gone through: wait until one is done, or cancel one.");
        return Err(Error::with_code(409, "feeds-running", detail));
    };
    connection.execute(FORGET, &[&MAX_RUNS]).await?;
    drop(connection);
    get(ctx, id).await
}

pub(crate) async fn get(ctx: &PluginContext, id: i64) -> Result<Run> {
    let connection = ctx.get_plugin_conn().await?;
    let run = connection.query_opt_as(&format!("{COLUMNS} WHERE id = $2"), &[&SILENT_SECONDS, &id]).await?;
    run.ok_or_else(|| Error::not_found("There is no such feed."))
}

/// The newest first, below the id `before`.
pub(crate) async fn list(ctx: &PluginContext, limit: u32, before: Option<i64>) -> Result<Vec<Run>> {
    let sql = format!("{COLUMNS} WHERE id < $2 ORDER BY id DESC LIMIT $3");
    let connection = ctx.get_plugin_conn().await?;
    connection.query_as(&sql, &[&SILENT_SECONDS, &before.unwrap_or(i64::MAX), &i64::from(limit)]).await
}

/// Notes what was done; whether the run is to go on.
pub(crate) async fn advance(ctx: &PluginContext, id: i64, total: usize, counts: Counts) -> Result<bool> {
    const SQL: &str = "
        UPDATE runs SET
            total = $2, done = done + $3 + $4 + $5, enriched = enriched + $3, unmatched = unmatched + $4,
            failed = failed + $5, alive_at = now(),
            problems = CASE WHEN jsonb_array_length(problems) < $7 THEN problems || $6 ELSE problems END
        WHERE id = $1 AND state = 'running'";
    let total = i32::try_from(total).unwrap_or(i32::MAX);
    let most = i32::try_from(MAX_PROBLEMS).unwrap_or(i32::MAX);
    let Counts { enriched, unmatched, failed, problems } = counts;
    let connection = ctx.get_plugin_conn().await?;
    let changed =
        connection.execute(SQL, &[&id, &total, &enriched, &unmatched, &failed, &Json(problems), &most]).await?;
    Ok(changed == 1)
}

/// Notes that a run is under way; whether it is to go on.
pub(crate) async fn touch(ctx: &PluginContext, id: i64) -> Result<bool> {
    const SQL: &str = "UPDATE runs SET alive_at = now() WHERE id = $1 AND state = 'running'";
    Ok(ctx.get_plugin_conn().await?.execute(SQL, &[&id]).await? == 1)
}

/// Ends a run, unless it was cancelled; with what kept it from its end.
pub(crate) async fn finish(ctx: &PluginContext, id: i64, failure: Option<&Problem>) -> Result<()> {
    const SQL: &str = "
        UPDATE runs SET state = $2, finished_at = now(), problems = problems || $3 WHERE id = $1 AND state = 'running'";
    let state = if failure.is_some() { "failed" } else { "done" };
    let problems: Vec<&Problem> = failure.into_iter().collect();
    ctx.get_plugin_conn().await?.execute(SQL, &[&id, &state, &Json(problems)]).await?;
    Ok(())
}

pub(crate) async fn cancel(ctx: &PluginContext, id: i64) -> Result<()> {
    const SQL: &str = "UPDATE runs SET state = 'cancelled', finished_at = now() WHERE id = $1 AND state = 'running'";
    ctx.get_plugin_conn().await?.execute(SQL, &[&id]).await?;
    Ok(())
}

/// The cards with these SKUs.
pub(crate) async fn cards(ctx: &PluginContext, skus: &[&str]) -> Result<HashMap<String, Uuid>> {
    const SQL: &str = "SELECT sku, id FROM public.master_cards WHERE deleted_at IS NULL AND sku = ANY ($1)";
    let rows: Vec<(String, Uuid)> = ctx.get_plugin_conn().await?.query_as(SQL, &[&skus]).await?;
    Ok(rows.into_iter().collect())
}
