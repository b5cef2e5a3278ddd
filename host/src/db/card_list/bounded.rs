//! Statements of lists that may turn out to be long: planned for their own values, and given up in time.

use futures_util::future;
use tokio_postgres::{Row, error::SqlState};

use super::Conditions;
use crate::{
    db::pool::Connection,
    http::{
        codes,
        error::{ApiError, ApiResult},
    },
};

/// How long a statement may take is here, and what it may keep in memory: the ids of half a million cards. Compiling a
/// plan takes longer than most of them run. Set for the transaction: nothing is left behind on a connection that others
/// use, poolers' too.
const BEGIN: &str = "BEGIN READ ONLY; SET LOCAL statement_timeout = '2s'; SET LOCAL work_mem = '32MB'; \
                     SET LOCAL jit = off";

/// The rows, or none when they could not be had in time.
///
/// The statement has no name, so it is planned for the values that it comes with: a plan for all values is blind to how
/// rare one of them is. And there are thousands of combinations of filters, which each connection would come to hold.
pub async fn rows(client: &Connection, sql: &str, query: &Conditions) -> ApiResult<Option<Vec<Row>>> {
    // All is sent with the first look at the three, in this order: one round trip, and a transaction that ends by itself
    // when nobody waits for it any more.
    let (begun, rows, _) = future::join3(
        client.batch_execute(BEGIN),
        client.query_typed(sql, &query.typed()),
        client.batch_execute("COMMIT"),
    )
    .await;
    begun?;
    match rows {
        Ok(rows) => Ok(Some(rows)),
        Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What a client is told whose list could not be had in time.
pub fn too_long() -> ApiError {
    ApiError::new(&codes::OVERLOADED).detail(
        "This list takes too long on this many cards. Narrow it with a longer or rarer word or another filter, or sort \
         it by `created_at`.",
    )
}
