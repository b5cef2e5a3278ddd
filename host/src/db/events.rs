//! The tables `event_outbox`, `events` and `event_numbers`: what happened, waiting for its number and with it.

use deadpool_postgres::GenericClient;

use crate::{events::Event, http::error::ApiResult};

/// Raises an event with the transaction that `work` is in: readers hear of it when that is committed, and never when it
/// is not. By itself it is a transaction of its own.
pub async fn raise(work: &impl GenericClient, event: &Event) -> ApiResult<()> {
    let sql = "INSERT INTO public.event_outbox (topic, type, data) VALUES ($1, $2, $3)";
    let statement = work.prepare_cached(sql).await?;
    work.execute(&statement, &[&event.topic.name(), &event.kind(), &event.data]).await?;
    Ok(())
}
