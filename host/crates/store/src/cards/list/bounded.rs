//! Statements of lists that may turn out to be long: planned with care, and given up in time.

use futures_util::{FutureExt as _, TryFutureExt as _, future};
use tokio_postgres::{RowStream, error::SqlState};

use super::Conditions;
use crate::error::StoreError;
use cardinal_database::{bounded_rows::Rows, pool::Connection};

/// How long a statement may take is said here, and what it may keep in memory: the ids of half a million cards.
/// Compiling a plan takes longer than most of them run. Set for the transaction: nothing is left behind on a connection
/// that others use, poolers' too.
macro_rules! begin {
    ($timeout:literal, $plan:literal) => {
        concat!(
            "BEGIN READ ONLY; SET LOCAL work_mem = '32MB'; SET LOCAL jit = off; SET LOCAL statement_timeout = ",
            $timeout,
            "; SET LOCAL plan_cache_mode = ",
            $plan
        )
    };
}

/// A walk is planned once for all values, and along its indexes: nothing else reads no more than the page needs. Not
/// knowing how few rows that is, the planner would sort, hash or start workers.
macro_rules! begin_walk {
    ($timeout:literal) => {
        concat!(
            begin!($timeout, "force_generic_plan"),
            "; SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL enable_seqscan = off; ",
            "SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_hashjoin = off; ",
            "SET LOCAL enable_mergejoin = off"
        )
    };
}

/// Statements that a connection keeps, the core's others among them; beyond that it begins anew. There are thousands of
/// combinations of filters, and a plan takes tens of kilobytes.
const MAX_STATEMENTS: usize = 400;

/// A statement and its parameters.
pub(super) struct Statement {
    pub sql: String,
    pub query: Conditions,
    pub planned: PlanMode,
}

/// What a statement is planned for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PlanMode {
    /// The values that it comes with: the plan depends on how rare one of them is.
    Each,
    /// The same, by the index of what it gathers.
    Gathering,
    /// The same, by an index that has all it takes.
    GatheringByTime,
    /// Any values, by two indexes together.
    Part,
    /// Any values, along the list's order.
    Walk,
    /// The same to the end of a million cards, should it come to that.
    LongWalk,
}

impl PlanMode {
    const fn begin(self) -> &'static str {
        match self {
            Self::Each => begin!("'2s'", "force_custom_plan"),
            Self::Gathering => {
                concat!(
                    begin!("'2s'", "force_custom_plan"),
                    "; SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL enable_seqscan = off; ",
                    "SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off"
                )
            }
            Self::GatheringByTime => {
                concat!(
                    begin!("'2s'", "force_custom_plan"),
                    "; SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL enable_seqscan = off; ",
                    "SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off"
                )
            }
            Self::Part => {
                concat!(
                    begin!("'2s'", "force_generic_plan"),
                    "; SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL enable_seqscan = off; ",
                    "SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off"
                )
            }
            Self::Walk => begin_walk!("'2s'"),
            Self::LongWalk => begin_walk!("'20s'"),
        }
    }
}

impl Statement {
    /// The rows, or none when they could not be had in time.
    pub(super) async fn rows(&self, client: &Connection) -> Result<Option<Rows>, StoreError> {
        self.rows_behind(0, client).await
    }

    /// The same of a page of which so many bytes have been read before.
    pub(super) async fn rows_behind(&self, before: usize, client: &Connection) -> Result<Option<Rows>, StoreError> {
        let rows = async {
            match self.planned {
                // Without a name it is planned for its values, and nothing is left of it.
                PlanMode::Each | PlanMode::Gathering | PlanMode::GatheringByTime => {
                    self.in_terms(client, before, client.query_typed_raw(&self.sql, self.query.typed())).await
                }
                PlanMode::Part | PlanMode::Walk | PlanMode::LongWalk => {
                    if client.statement_cache.size() > MAX_STATEMENTS {
                        client.statement_cache.clear();
                    }
                    let statement = client.prepare_cached(&self.sql).await?;
                    self.in_terms(client, before, client.query_raw(&statement, self.query.values())).await
                }
            }
        };
        match rows.await {
            Ok(rows) => Ok(Some(rows)),
            Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The same of a statement along an index that holds nothing else: it needs no terms of its own.
    pub(super) async fn rows_at_once(&self, client: &Connection) -> Result<Rows, StoreError> {
        let statement = client.prepare_cached(&self.sql).await?;
        Ok(Rows::read(client.query_raw(&statement, self.query.values()).await?).await?)
    }

    /// All is sent with the first look at the three, in this order: one round trip, and a transaction that ends by
    /// itself when nobody waits for it any more.
    async fn in_terms(
        &self,
        client: &Connection,
        before: usize,
        rows: impl Future<Output = Result<RowStream, tokio_postgres::Error>>,
    ) -> Result<Rows, tokio_postgres::Error> {
        let (begin, end) = (client.batch_execute(self.planned.begin()), client.batch_execute("COMMIT"));
        let rows = async {
            match Rows::read_behind(rows.await?, before).await? {
                // The answer to the COMMIT lies behind what is not read any more.
                rows if rows.is_cut => Err(EarlyEnd::Cut(rows)),
                rows => Ok(rows),
            }
        };
        match future::try_join3(begin.map_err(EarlyEnd::from), rows, end.map(Ok)).await {
            Ok((_, rows, _)) | Err(EarlyEnd::Cut(rows)) => Ok(rows),
            Err(EarlyEnd::Error(error)) => Err(error),
        }
    }
}

/// Why a transaction's end is not waited for.
enum EarlyEnd {
    Cut(Rows),
    Error(tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for EarlyEnd {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Error(error)
    }
}

/// The error of a list that takes too long.
pub(super) fn too_long() -> StoreError {
    StoreError::SlowList(
        "This list takes too long on this many cards. Narrow it with a longer or rarer word or another filter, or sort \
         it by `created_at`.",
    )
}
