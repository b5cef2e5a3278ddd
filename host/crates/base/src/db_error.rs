//! What a database failure means to a request.

use tokio_postgres::error::SqlState;

use crate::card_size;

/// Whether trying again later may help, because the server is away or has no place.
pub fn is_unavailable(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        // Class 08 connection, 57 operator intervention, 53 resources, 28 rights of the login
        // (a role that is being made again); read-only and recovery are a failover under way.
        Some(code) => {
            ["08", "57", "53", "28"].contains(&&code.code()[..2])
                || *code == SqlState::READ_ONLY_SQL_TRANSACTION
                || *code == SqlState::LOCK_NOT_AVAILABLE
        }
        // No SQLSTATE: the connection itself failed.
        None => error.is_closed() || error.as_db_error().is_none() && !is_conversion(error),
    }
}

/// Whether the server went away under the connection, or is not there for anybody: nothing is wrong with what was
/// asked.
pub fn is_gone(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => code.code().starts_with("08") || ["57P01", "57P02", "57P03"].contains(&code.code()),
        None => is_unavailable(error),
    }
}

/// The driver's own conversion errors are ours, not the network's.
fn is_conversion(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    text.starts_with("error serializing")
        || text.starts_with("error deserializing")
        || text.starts_with("invalid column")
        || text.starts_with("query returned")
}

/// Raised by the trigger `master_cards_bound_size`.
const CARD_TOO_LARGE: &str = "CRD01";

/// The error of a write whose card would be over the limit; none for other errors.
pub fn card_too_large(error: &tokio_postgres::Error) -> Option<String> {
    let raised = error.as_db_error().filter(|raised| raised.code().code() == CARD_TOO_LARGE)?;
    Some(card_size::describe_excess(raised.detail().unwrap_or("more")))
}

/// The name of the constraint that was broken, if this is that.
pub fn violated(error: &tokio_postgres::Error) -> Option<&str> {
    error.as_db_error().filter(|fault| fault.code().code().starts_with("23"))?.constraint()
}
