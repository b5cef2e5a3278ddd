//! All cards that a filter picks, as they are at one moment, oldest first and row by row.

use std::pin::Pin;

use deadpool_postgres::ClientWrapper;
use futures_util::StreamExt as _;
use tokio_postgres::RowStream;
use uuid::Uuid;

use crate::cards::{COLUMNS, from_row, list::Conditions};
use crate::error::StoreError;
use cardinal_cards::{card::Card, filter::Filter};
use cardinal_database::pool::Pool;

/// Without the last but one the server would sort all that it finds before it gives the first row, on disk when that is
/// much; this way it goes along the ids, which are in the order of creation. Nothing is left behind on the connection.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL jit = off; \
                     SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_sort = off; SET LOCAL statement_timeout = 0";

/// Cards that are being read. The server sends no faster than they are taken, and stops when this is dropped.
pub(crate) struct Rows {
    rows: Pin<Box<RowStream>>,
    /// Closed at the end and not given back: it may be in the middle of a result.
    _client: ClientWrapper,
}

impl Rows {
    pub(crate) async fn open(pool: &Pool, filter: &Filter, ids: Option<Vec<Uuid>>) -> Result<Self, StoreError> {
        let client = pool.get().await?.detach();
        client.batch_execute(BEGIN).await?;
        let mut query = Conditions::from_filter(filter);
        if let Some(ids) = ids {
            query.add("c.id = ANY(?)", ids);
        }
        let sql = format!("SELECT {COLUMNS} FROM public.master_cards c WHERE {} ORDER BY c.id", query.sql);
        let rows = client.query_typed_raw(&sql, query.typed()).await?;
        Ok(Self { rows: Box::pin(rows), _client: client })
    }

    /// The next card; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Card>, StoreError> {
        let row = self.rows.next().await.transpose()?;
        Ok(row.as_ref().map(from_row))
    }
}
