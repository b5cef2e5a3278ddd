//! What a failure of a statement means to the owner's side.

use tokio_postgres::error::SqlState;

/// A database whose administrator ran the script of an older version: not all functions are there.
pub(super) fn lacks_function(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::UNDEFINED_FUNCTION)
}

/// Concurrent DDL: unique violations in catalogs, "tuple concurrently updated", deadlocks.
pub(super) fn is_race(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| ["23505", "42P07", "42710", "XX000", "40001", "40P01"].contains(&code.code()))
}
