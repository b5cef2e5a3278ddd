//! Statements of lists that may turn out to be long: planned for their own values, and given up in time.

use deadpool_postgres::Transaction;
use futures_util::future;
use tokio_postgres::{Row, error::SqlState, types::ToSql};

use crate::{
    db::pool::Connection,
    http::{
        codes,
        error::{ApiError, ApiResult},
    },
};

/// How long a statement may take is here, and what it may keep in memory: the ids of half a million cards. A plan that is
/// made once for all values is blind to how rare one of them is; compiling it takes longer than most of them run. Set for
/// the transaction: nothing is left behind on a connection that others use, poolers' too.
const TERMS: &str = "SET LOCAL statement_timeout = '2s'; SET LOCAL work_mem = '32MB'; SET LOCAL jit = off; \
                     SET LOCAL plan_cache_mode = force_custom_plan";

/// A transaction that only reads; it ends when it is dropped, also under a request that is given up.
pub struct Bounded<'c>(Transaction<'c>);

impl<'c> Bounded<'c> {
    pub async fn begin(client: &'c mut Connection) -> ApiResult<Self> {
        Ok(Self(client.build_transaction().read_only(true).start().await?))
    }

    /// The rows, or none when they could not be had in time; then this is over.
    pub async fn rows(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> ApiResult<Option<Vec<Row>>> {
        // Sent out together, so that the terms cost no round trip. The statement isn't kept: there are thousands of
        // combinations of filters, and each connection would come to hold them all.
        let (_, statement) = future::try_join(self.0.batch_execute(TERMS), self.0.prepare(sql)).await?;
        match self.0.query(&statement, params).await {
            Ok(rows) => Ok(Some(rows)),
            Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// What a client is told whose list could not be had in time.
pub fn too_long() -> ApiError {
    ApiError::new(&codes::OVERLOADED).detail(
        "This list takes too long on this many cards. Narrow it with a longer or rarer word or another filter, or sort \
         it by `created_at`.",
    )
}
