//! Removing cards for good. PostgreSQL computes what plugins keep of a card in the same session, so each removal has a
//! time on this side too: a session that does not end when it is asked to is given up, and the pool opens another.

use std::time::Duration;

use tokio_postgres::NoTls;
use tokio_postgres::error::{DbError, SqlState};
use uuid::Uuid;

use crate::error::StoreError;
use cardinal_base::db_error;
use cardinal_database::{pool::Pool, roles::plugin_from_schema};

/// For one card.
pub const CARD_TIMEOUT: Duration = Duration::from_secs(10);
/// For one of many cards, before those that take longer have their turn.
pub(crate) const QUICK_CARD_TIMEOUT: Duration = Duration::from_secs(1);
/// For some hundred cards at once. If one of them takes longer, each is removed by itself.
pub const BATCH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server is waited for that is asked to end a statement.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// Why cards are still there. None of them went.
#[derive(Debug)]
pub enum RemoveError {
    /// It took too much time, memory or disk, or met other work. Others may go.
    Slow(anyhow::Error),
    /// The database does not let these go. Others may.
    Refused(tokio_postgres::Error),
    /// The database is away, or has no session free.
    Unavailable(StoreError),
}

impl From<RemoveError> for StoreError {
    fn from(error: RemoveError) -> Self {
        match error {
            RemoveError::Slow(cause) => Self::SlowRemoval(cause),
            RemoveError::Refused(error) => card_in_use(error),
            RemoveError::Unavailable(error) => error,
        }
    }
}

/// Removes those of the cards that are hidden, all of them or none; gives how many.
///
/// # Errors
/// See [`RemoveError`].
pub async fn remove_cards(reaper: &Pool, ids: &[Uuid], timeout: Duration) -> Result<u64, RemoveError> {
    if ids.is_empty() {
        return Ok(0);
    }
    // A card may have been brought back since it was looked at.
    let sql = "DELETE FROM public.master_cards WHERE id = ANY ($1) AND deleted_at IS NOT NULL";
    let client = connection(reaper).await.map_err(RemoveError::Unavailable)?;
    let token = client.cancel_token();
    let Ok(done) = tokio::time::timeout(timeout, client.execute(sql, &[&ids])).await else {
        // Closed, it makes place in the pool at once, whatever the server is still at.
        drop(client.detach());
        let cancelled = tokio::time::timeout(CANCEL_TIMEOUT, token.cancel_query(NoTls)).await;
        let cause = anyhow::anyhow!("removing cards took longer than {timeout:?}; cancelled: {cancelled:?}");
        return Err(RemoveError::Slow(cause));
    };
    done.map_err(|error| match error.code() {
        Some(code) if is_slow(code) => RemoveError::Slow(error.into()),
        _ if db_error::is_unavailable(&error) => RemoveError::Unavailable(error.into()),
        _ => RemoveError::Refused(error),
    })
}

/// What forbids the removal is a plugin's: a foreign key, a constraint that its action breaks (`ON DELETE SET NULL` on
/// a column that is NOT NULL), or a check or generated column that fails for the row that comes out of it.
pub(super) fn card_in_use(error: tokio_postgres::Error) -> StoreError {
    match error.as_db_error().and_then(find_plugin) {
        Some(plugin) => StoreError::CardInUse { plugin },
        None => error.into(),
    }
}

/// The schema of the constraint, or of the table in the statement of a key's action, which is what stands last in the
/// context.
fn find_plugin(fault: &DbError) -> Option<String> {
    let code = fault.code().code();
    let schema = match code.starts_with("23") {
        true => fault.schema(),
        // Not the server's own faults.
        false if ["53", "57", "58", "XX"].iter().any(|class| code.starts_with(class)) => None,
        false => fault.where_().and_then(find_schema),
    };
    schema.and_then(plugin_from_schema)
}

/// `UPDATE ONLY "plugin_a"."items" SET ...` or `DELETE FROM ONLY ...`, in quotes; a partitioned table is without ONLY.
fn find_schema(context: &str) -> Option<&str> {
    context.lines().next_back()?.split('"').find(|word| word.starts_with("plugin_"))
}

async fn connection(reaper: &Pool) -> Result<cardinal_database::pool::Connection, StoreError> {
    Ok(reaper.get().await?)
}

/// A time-out, a lock that others have, or more memory or disk than there is: about these cards and what plugins keep
/// of them, not about the server.
fn is_slow(code: &SqlState) -> bool {
    [
        SqlState::OUT_OF_MEMORY,
        SqlState::DISK_FULL,
        SqlState::CONFIGURATION_LIMIT_EXCEEDED,
        SqlState::QUERY_CANCELED,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
    ]
    .contains(code)
}

#[cfg(test)]
mod tests {
    use super::find_schema;

    #[test]
    fn the_plugin_of_a_keys_action_stands_in_the_last_line_of_the_context() {
        let context = "column \"plugin_other\"\nSQL-Anweisung »UPDATE ONLY \"plugin_a\".\"plugin_b\" SET \"c\" = NULL«";
        assert_eq!(find_schema(context), Some("plugin_a"));
        let partitioned =
            "SQL statement \"DELETE FROM \"plugin_a\".\"items\" WHERE $1 OPERATOR(pg_catalog.=) \"card_id\"\"";
        assert_eq!(find_schema(partitioned), Some("plugin_a"));
        assert_eq!(find_schema("PL/pgSQL function f() line 1 at RAISE"), None);
        assert_eq!(find_schema(""), None);
    }
}
