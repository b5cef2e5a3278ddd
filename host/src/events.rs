//! Events: what happened to cards, plugins and jobs, for whoever wants to hear of it.

pub mod event;

pub use self::event::{Event, Topic};
use crate::db::{self, pool::Pool};

/// Raises an event of something that has no transaction of its own. What has one calls [`db::events::raise`] in it, so
/// that both happen or neither does. An event that can't be written undoes nothing: the log has it instead.
pub async fn tell(pool: &Pool, event: &Event) {
    let raised = async {
        let client = pool.get().await?;
        db::events::raise(&*client, event).await
    };
    if let Err(error) = raised.await {
        tracing::warn!(?event, ?error, "the event could not be written; its readers will not hear of it");
    }
}
