//! The plugin's own tables (`schema.sql`); all its SQL is here.

use std::collections::HashMap;

use cardinal_plugin::postgres::Json;
use cardinal_plugin::time::{self, OffsetDateTime};
use cardinal_plugin::{FromRow, PluginContext, Result, Uuid};
use serde::Serialize;

/// A host that walks says so again with every page; when it has been silent so long, another goes on.
const HELD_SECONDS: f64 = 60.0;
/// Rules in the summary.
const MAX_RULES: i64 = 50;

/// What is kept of a card.
#[derive(Debug, Serialize)]
pub(crate) struct ScoreRow {
    pub card_id: Uuid,
    pub score: i16,
    pub missing: Vec<String>,
    pub version: i64,
}

/// Keeps scores. One that was computed from an older version of its card changes nothing, nor does one that is the
/// same.
pub(crate) async fn keep(ctx: &PluginContext, rows: &[ScoreRow]) -> Result<()> {
    const SQL: &str = "
        INSERT INTO scores (card_id, score, missing, version)
        SELECT r.card_id, r.score, r.missing, r.version
        FROM jsonb_to_recordset($1) AS r (card_id uuid, score smallint, missing text[], version bigint)
        JOIN public.master_cards c ON c.id = r.card_id
        ON CONFLICT (card_id) DO UPDATE SET
            score = excluded.score, missing = excluded.missing, version = excluded.version, changed_at = now()
        WHERE scores.version <= excluded.version
          AND (scores.score, scores.missing, scores.version) IS DISTINCT FROM
              (excluded.score, excluded.missing, excluded.version)";
    if !rows.is_empty() {
        ctx.get_plugin_conn().await?.execute(SQL, &[&Json(rows)]).await?;
    }
    Ok(())
}

/// The scores that are kept of these cards.
pub(crate) async fn for_cards(ctx: &PluginContext, cards: &[Uuid]) -> Result<HashMap<Uuid, i16>> {
    const SQL: &str = "SELECT card_id, score FROM scores WHERE card_id = ANY ($1)";
    let rows: Vec<(Uuid, i16)> = ctx.get_plugin_conn().await?.query_as(SQL, &[&cards]).await?;
    Ok(rows.into_iter().collect())
}

/// A card in the list of the worst.
#[derive(Debug, FromRow, Serialize)]
pub(crate) struct WorstCard {
    pub card_id: Uuid,
    pub title: String,
    pub sku: String,
    pub score: i16,
    pub missing: Vec<String>,
}

/// Which cards the list has.
pub(crate) struct WorstQuery<'a> {
    pub statuses: &'a [String],
    pub max_score: i16,
    pub missing: Option<&'a str>,
    /// Behind this one.
    pub after: Option<(i16, Uuid)>,
    pub limit: i64,
}

/// The least complete cards first. By key, not by offset: a card that changes meanwhile moves no other.
pub(crate) async fn worst(ctx: &PluginContext, query: &WorstQuery<'_>) -> Result<Vec<WorstCard>> {
    const SQL: &str = "
        SELECT s.card_id, c.title, c.sku, s.score, s.missing
        FROM scores s JOIN public.master_cards c ON c.id = s.card_id
        WHERE c.deleted_at IS NULL AND c.status = ANY ($1) AND s.score <= $2
          AND ($3::text IS NULL OR $3 = ANY (s.missing)) AND (s.score, s.card_id) > ($4, $5)
        ORDER BY s.score, s.card_id LIMIT $6";
    let (score, card) = query.after.unwrap_or((-1, Uuid::nil()));
    let connection = ctx.get_plugin_conn().await?;
    connection.query_as(SQL, &[&query.statuses, &query.max_score, &query.missing, &score, &card, &query.limit]).await
}

/// Cards of ten scores.
#[derive(Debug, FromRow)]
pub(crate) struct Tenth {
    pub tenth: i32,
    pub cards: i64,
    pub complete: i64,
    pub sum: i64,
}

pub(crate) async fn tenths(ctx: &PluginContext, statuses: &[String]) -> Result<Vec<Tenth>> {
    const SQL: &str = "
        SELECT least(s.score / 10, 9)::integer AS tenth, count(*) AS cards,
               count(*) FILTER (WHERE s.score = 100) AS complete, sum(s.score)::bigint AS sum
        FROM scores s JOIN public.master_cards c ON c.id = s.card_id
        WHERE c.deleted_at IS NULL AND c.status = ANY ($1) GROUP BY 1";
    ctx.get_plugin_conn().await?.query_as(SQL, &[&statuses]).await
}

/// The rules that most cards break, with how many.
pub(crate) async fn broken_rules(ctx: &PluginContext, statuses: &[String]) -> Result<Vec<(String, i64)>> {
    const SQL: &str = "
        SELECT rule, count(*) FROM scores s JOIN public.master_cards c ON c.id = s.card_id, unnest(s.missing) AS rule
        WHERE c.deleted_at IS NULL AND c.status = ANY ($1) GROUP BY rule ORDER BY 2 DESC, 1 LIMIT $2";
    ctx.get_plugin_conn().await?.query_as(SQL, &[&statuses, &MAX_RULES]).await
}

/// How far the walk over all cards is.
#[derive(Debug, FromRow, Serialize)]
pub(crate) struct Progress {
    pub is_running: bool,
    pub done: i64,
    pub total: Option<i64>,
    #[serde(with = "time::serde::rfc3339::option")]
    pub started_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    pub finished_at: Option<OffsetDateTime>,
}

/// The walk's state; one by other rules than these has yet to begin.
pub(crate) async fn progress(ctx: &PluginContext, rules: &str) -> Result<Progress> {
    const SQL: &str = "
        SELECT finished_at IS NULL OR rules <> $1 AS is_running, done, total, started_at,
               CASE WHEN rules = $1 THEN finished_at END AS finished_at
        FROM walk WHERE id = 1";
    ctx.get_plugin_conn().await?.query_one_as(SQL, &[&rules]).await
}

/// Where the walk goes on.
#[derive(Debug, FromRow)]
pub(crate) struct Place {
    pub next_cursor: Option<String>,
    pub done: i64,
}

/// Takes the walk for this holder, if it is due and nobody else goes it: by other rules than before, unfinished, or
/// finished longer ago than `recheck_hours`.
pub(crate) async fn take_walk(
    ctx: &PluginContext,
    holder: Uuid,
    rules: &str,
    recheck_hours: i32,
) -> Result<Option<Place>> {
    const SQL: &str = "
        UPDATE walk SET
            holder = $1, held_until = now() + make_interval(secs => $4), rules = $2,
            next_cursor = CASE WHEN rules = $2 THEN next_cursor END,
            done = CASE WHEN rules = $2 AND finished_at IS NULL THEN done ELSE 0 END,
            started_at = CASE WHEN rules = $2 AND finished_at IS NULL THEN coalesce(started_at, now()) ELSE now() END,
            finished_at = NULL
        WHERE id = 1 AND (holder = $1 OR held_until < now())
          AND (rules <> $2 OR finished_at IS NULL OR finished_at < now() - make_interval(hours => $3))
        RETURNING next_cursor, done";
    let connection = ctx.get_plugin_conn().await?;
    connection.query_opt_as(SQL, &[&holder, &rules, &recheck_hours, &HELD_SECONDS]).await
}

/// Notes that a page of the walk is done. A walk that was begun anew meanwhile stays as it is.
pub(crate) async fn advance(
    ctx: &PluginContext,
    holder: Uuid,
    rules: &str,
    cards: i64,
    next_cursor: Option<&str>,
) -> Result<()> {
    const SQL: &str = "
        UPDATE walk SET
            next_cursor = $3, done = done + $4,
            finished_at = CASE WHEN $3::text IS NULL THEN now() END,
            held_until = CASE WHEN $3::text IS NULL THEN '-infinity' ELSE now() + make_interval(secs => $5) END
        WHERE id = 1 AND holder = $1 AND rules = $2";
    let connection = ctx.get_plugin_conn().await?;
    connection.execute(SQL, &[&holder, &rules, &next_cursor, &cards, &HELD_SECONDS]).await?;
    Ok(())
}

/// Counts the cards that a walk has before it.
pub(crate) async fn count_cards(ctx: &PluginContext) -> Result<()> {
    const SQL: &str = "
        UPDATE walk SET total = (SELECT count(*) FROM public.master_cards WHERE deleted_at IS NULL) WHERE id = 1";
    ctx.get_plugin_conn().await?.execute(SQL, &[]).await?;
    Ok(())
}

/// Lets the walk begin anew.
pub(crate) async fn restart_walk(ctx: &PluginContext) -> Result<()> {
    const SQL: &str = "UPDATE walk SET rules = '', next_cursor = NULL, finished_at = NULL, done = 0 WHERE id = 1";
    ctx.get_plugin_conn().await?.execute(SQL, &[]).await?;
    Ok(())
}

/// Where the plugin goes on reading events; none at first.
pub(crate) async fn event_cursor(ctx: &PluginContext) -> Result<Option<i64>> {
    let (cursor,) =
        ctx.get_plugin_conn().await?.query_one_as("SELECT event_cursor FROM walk WHERE id = 1", &[]).await?;
    Ok(cursor)
}

/// Keeps it; another host may be ahead.
pub(crate) async fn keep_event_cursor(ctx: &PluginContext, cursor: i64) -> Result<()> {
    const SQL: &str = "UPDATE walk SET event_cursor = greatest(event_cursor, $1) WHERE id = 1";
    ctx.get_plugin_conn().await?.execute(SQL, &[&cursor]).await?;
    Ok(())
}

/// Of cards that have these versions now, those whose score is of an older one.
pub(crate) async fn outdated(ctx: &PluginContext, cards: &[Uuid], versions: &[i64]) -> Result<Vec<Uuid>> {
    const SQL: &str = "
        SELECT DISTINCT changed.id FROM unnest($1::uuid[], $2::bigint[]) AS changed (id, version)
        LEFT JOIN scores ON scores.card_id = changed.id
        WHERE scores.version IS NULL OR scores.version < changed.version";
    let rows: Vec<(Uuid,)> = ctx.get_plugin_conn().await?.query_as(SQL, &[&cards, &versions]).await?;
    Ok(rows.into_iter().map(|(id,)| id).collect())
}
