//! Statements of lists that may turn out to be long: planned with care, and given up in time.

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

/// How long a statement may take is said here, and what it may keep in memory: the ids of half a million cards. Compiling
/// a plan takes longer than most of them run. Set for the transaction: nothing is left behind on a connection that others
/// use, poolers' too.
macro_rules! begin {
    ($plan:literal) => {
        concat!(
            "BEGIN READ ONLY; SET LOCAL statement_timeout = '2s'; SET LOCAL work_mem = '32MB'; SET LOCAL jit = off; ",
            "SET LOCAL plan_cache_mode = ",
            $plan
        )
    };
}

/// Statements that a connection keeps, the core's others among them; beyond that it begins anew. There are thousands of
/// combinations of filters, and a plan takes tens of kilobytes.
const KEPT: usize = 400;

/// A statement and its parameters.
pub struct Statement {
    pub sql: String,
    pub query: Conditions,
    pub planned: Planned,
}

/// What values a statement is planned for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Planned {
    /// For those that it comes with: the plan depends on how rare one of them is.
    Each,
    /// For any: its form leaves the planner no choice that values would decide. Parsing and planning takes longer than
    /// most of these run.
    Once,
}

impl Planned {
    const fn begin(self) -> &'static str {
        match self {
            Self::Each => begin!("force_custom_plan"),
            // Not knowing the values, the planner would start workers for a handful of rows.
            Self::Once => begin!("force_generic_plan; SET LOCAL max_parallel_workers_per_gather = 0"),
        }
    }
}

impl Statement {
    /// The rows, or none when they could not be had in time.
    pub async fn rows(&self, client: &Connection) -> ApiResult<Option<Vec<Row>>> {
        let rows = async {
            match self.planned {
                // Without a name it is planned for its values, and nothing is left of it.
                Planned::Each => self.in_terms(client, client.query_typed(&self.sql, &self.query.typed())).await,
                Planned::Once => {
                    if client.statement_cache.size() > KEPT {
                        client.statement_cache.clear();
                    }
                    let statement = client.prepare_cached(&self.sql).await?;
                    self.in_terms(client, client.query(&statement, &self.query.values())).await
                }
            }
        };
        match rows.await {
            Ok(rows) => Ok(Some(rows)),
            Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// All is sent with the first look at the three, in this order: one round trip, and a transaction that ends by itself
    /// when nobody waits for it any more.
    async fn in_terms(
        &self,
        client: &Connection,
        rows: impl Future<Output = Result<Vec<Row>, tokio_postgres::Error>>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let (begin, end) = (client.batch_execute(self.planned.begin()), client.batch_execute("COMMIT"));
        let (begun, rows, _) = future::join3(begin, rows, end).await;
        begun.and(rows)
    }
}

/// What a client is told whose list could not be had in time.
pub fn too_long() -> ApiError {
    ApiError::new(&codes::OVERLOADED).detail(
        "This list takes too long on this many cards. Narrow it with a longer or rarer word or another filter, or sort \
         it by `created_at`.",
    )
}
