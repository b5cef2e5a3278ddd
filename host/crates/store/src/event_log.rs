//! The tables `event_outbox`, `events` and `event_numbers`: what happened, waiting for its number and with it.

pub mod card_event;
pub mod event;

use std::time::Duration;

use deadpool_postgres::GenericClient;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::error::StoreError;
use crate::event_log::card_event::{CardEvent, CardEventPage};
use crate::event_log::event::{Event, NumberedEvent, Topic};
use cardinal_database::pool::Pool;

/// Which numbers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// The one given last.
    pub last: i64,
    /// The oldest that is kept, or the one after `last`.
    pub kept_from: i64,
    /// Something waits for its number.
    pub waiting: bool,
}

/// Raises an event with the transaction that `client` is in: readers hear of it when that is committed, and never when
/// it is not. By itself it is a transaction of its own.
pub async fn raise(client: &impl GenericClient, event: &Event) -> Result<(), StoreError> {
    let sql = "INSERT INTO public.event_outbox (topic, type, data) VALUES ($1, $2, $3)";
    let statement = client.prepare_cached(sql).await?;
    client.execute(&statement, &[&event.topic.name(), &event.kind(), &event.data]).await?;
    Ok(())
}

pub async fn position(pool: &Pool) -> Result<LogPosition, StoreError> {
    let client = pool.get().await?;
    let sql =
        "SELECT last, kept_from, EXISTS (SELECT FROM public.event_outbox) AS is_waiting FROM public.event_numbers";
    let row = client.query_one(&client.prepare_cached(sql).await?, &[]).await?;
    Ok(LogPosition { last: row.get("last"), kept_from: row.get("kept_from"), waiting: row.get("is_waiting") })
}

/// Numbers what waits, `at_most` so many; gives how many got one. None while another host is at it.
pub async fn number(pool: &Pool, at_most: i32) -> Result<i64, StoreError> {
    let client = pool.get().await?;
    let statement = client.prepare_cached("SELECT public.number_events($1)").await?;
    Ok(client.query_one(&statement, &[&at_most]).await?.get(0))
}

/// Events after the number `after`, in order.
pub async fn after(pool: &Pool, after: i64, at_most: i64) -> Result<Vec<NumberedEvent>, StoreError> {
    let client = pool.get().await?;
    let sql = "SELECT id, topic, type, at, data::text AS data FROM public.events WHERE id > $1 ORDER BY id LIMIT $2";
    let rows = client.query(&client.prepare_cached(sql).await?, &[&after, &at_most]).await?;
    let event = |row: &tokio_postgres::Row| {
        let topic =
            Topic::named(row.get("topic")).ok_or_else(|| StoreError::internal(anyhow::anyhow!("an unknown topic")))?;
        Ok(NumberedEvent::new(row.get("id"), topic, row.get("type"), row.get("at"), row.get("data")))
    };
    rows.iter().map(event).collect()
}

/// A page of the events of cards after the number `after`, all of one moment.
pub async fn card_page(pool: &Pool, after: Option<i64>, limit: i64) -> Result<CardEventPage, StoreError> {
    let client = pool.get().await?;
    let sql = "SELECT n.last, n.kept_from, e.id, e.type, e.at, e.data::text AS data FROM public.event_numbers n
               LEFT JOIN (
                 SELECT id, type, at, data FROM public.events WHERE topic = 'card' AND id > $1 ORDER BY id LIMIT $2
               ) e ON true
               ORDER BY e.id";
    let rows = client.query(&client.prepare_cached(sql).await?, &[&after.unwrap_or(i64::MAX), &limit]).await?;
    let first = rows.first().ok_or_else(|| StoreError::internal(anyhow::anyhow!("no numbers of events")))?;
    let (last, kept_from): (i64, i64) = (first.get("last"), first.get("kept_from"));
    if !after.is_some_and(|after| (kept_from - 1..=last).contains(&after)) {
        return Ok(CardEventPage { items: Vec::new(), cursor: last, restart: true });
    }
    let items = rows.iter().filter(|row| row.get::<_, Option<i64>>("id").is_some()).map(card_event);
    let items = items.collect::<Result<Vec<_>, _>>()?;
    let is_full = i64::try_from(items.len()).is_ok_and(|count| count >= limit);
    let cursor = items.last().filter(|_| is_full).map_or(last, |event| event.id);
    Ok(CardEventPage { items, cursor, restart: false })
}

fn card_event(row: &tokio_postgres::Row) -> Result<CardEvent, StoreError> {
    let at: OffsetDateTime = row.get("at");
    Ok(CardEvent {
        id: row.get("id"),
        kind: row.get("type"),
        at: at.format(&Rfc3339).map_err(StoreError::internal)?,
        data: serde_json::from_str(row.get("data")).map_err(StoreError::internal)?,
    })
}

/// Forgets the oldest events, `at_most` so many: those that are over `age`, and those beyond the `max_events` that are
/// kept.
pub async fn forget(pool: &Pool, at_most: i32, max_events: i64, age: Duration) -> Result<i64, StoreError> {
    let client = pool.get().await?;
    let sql = "SELECT public.forget_events($1, $2, make_interval(secs => $3))";
    Ok(client.query_one(sql, &[&at_most, &max_events, &age.as_secs_f64()]).await?.get(0))
}
