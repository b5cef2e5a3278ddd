//! Statements that give rows.

use cardinal_plugin_abi::Slice;
use postgres_types::ToSql;

use super::Connection;
use crate::{Error, OwnedRows, Result, Row, RowStream, ToStatement, error::place};

impl Connection {
    /// Runs a statement and collects its rows in memory. [`query_stream`](Self::query_stream) reads results of any
    /// size.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Result};
    ///
    /// async fn skus_below(conn: &Connection, cents: i64) -> Result<Vec<String>> {
    ///     let rows = conn.query("SELECT sku FROM prices WHERE cents < $1 ORDER BY sku", &[&cents]).await?;
    ///     rows.iter().map(|row| row.try_get("sku")).collect()
    /// }
    /// ```
    ///
    /// # Errors
    /// * PostgreSQL's ([`Error::sqlstate`]). Passed on with `?` they are 500 `internal-error` for the client, or 504
    ///   for a statement that took too long.
    /// * An internal error for a wrong number of parameters, or one whose Rust type does not fit the statement's.
    /// * [`Error::is_retryable`] when the connection is lost, [`Error::is_cancelled`] when the call is over.
    #[track_caller]
    pub fn query<T>(&self, statement: &T, params: &[&(dyn ToSql + Sync)]) -> impl Future<Output = Result<Vec<Row>>>
    where
        T: ToStatement + ?Sized,
    {
        place::asked(async move {
            let mut stream = self.query_stream(statement, params).await?;
            let mut rows = Vec::new();
            while let Some(row) = stream.next().await {
                rows.push(row?);
            }
            Ok(rows)
        })
    }

    /// Runs a statement that gives exactly one row.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Result};
    ///
    /// async fn count(conn: &Connection) -> Result<i64> {
    ///     Ok(conn.query_one("SELECT count(*) FROM prices", &[]).await?.get(0))
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`query`](Self::query), and an internal error for no row or more than one.
    #[track_caller]
    pub fn query_one<T>(&self, statement: &T, params: &[&(dyn ToSql + Sync)]) -> impl Future<Output = Result<Row>>
    where
        T: ToStatement + ?Sized,
    {
        place::asked(async move {
            let row = self.query_opt(statement, params).await?;
            row.ok_or_else(|| Error::internal("the statement gave no row where one was expected"))
        })
    }

    /// Runs a statement that gives one row or none.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Error, Result};
    ///
    /// async fn price(conn: &Connection, sku: &str) -> Result<i64> {
    ///     let row = conn.query_opt("SELECT cents FROM prices WHERE sku = $1", &[&sku]).await?;
    ///     row.ok_or_else(|| Error::not_found("There is no price for this SKU."))?.try_get("cents")
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`query`](Self::query), and an internal error for more than one row.
    #[track_caller]
    pub fn query_opt<T>(
        &self,
        statement: &T,
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Option<Row>>>
    where
        T: ToStatement + ?Sized,
    {
        place::asked(async move {
            let mut rows = self.query_stream(statement, params).await?;
            let first = rows.next().await.transpose()?;
            match rows.next().await.transpose()? {
                None => Ok(first),
                Some(_) => Err(Error::internal("the statement gave more than one row")),
            }
        })
    }

    /// Runs a statement and returns its rows as they come, in constant memory.
    ///
    /// The host sends them in batches of up to 256 rows or 64 KiB, and asks PostgreSQL for more as they are read. The
    /// connection is busy until the last row was read, or the stream is dropped.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Result};
    ///
    /// /// Of a table of any size, a batch at a time.
    /// async fn total(conn: &Connection) -> Result<i64> {
    ///     let (mut rows, mut total) = (conn.query_stream("SELECT cents FROM prices", &[]).await?, 0);
    ///     while let Some(row) = rows.next().await {
    ///         total += row?.try_get::<_, i64>("cents")?;
    ///     }
    ///     Ok(total)
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`query`](Self::query), up to the first answer of the server. Later ones come as an item of the stream.
    #[track_caller]
    pub fn query_stream<T>(
        &self,
        statement: &T,
        params: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<RowStream>>
    where
        T: ToStatement + ?Sized,
    {
        place::asked(async move {
            let statement = self.statement(statement).await?;
            let params = statement.encode(params)?;
            let query = self.ctx.core.host.db_query();
            let answer = query(self.ctx.core.ctx, self.id(), statement.inner.shape.number, Slice::new(&params));
            let batches = answer.await.map_err(|error| self.fault(&statement, error))?;
            Ok(RowStream::new(statement.inner.shape.columns.clone(), batches))
        })
    }

    /// Runs a statement like [`query_stream`](Self::query_stream) and keeps the connection with its rows, for a reply
    /// that is made of them. [`Response::rows`](crate::Response::rows) does so for JSON and CSV.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Row, bytes::Bytes, futures::StreamExt};
    ///
    /// async fn export(ctx: PluginContext, _req: Request) -> Result<Response> {
    ///     let rows = ctx.get_plugin_conn().await?.into_rows("SELECT text FROM notes", &[]).await?;
    ///     let line = |row: Result<Row>| Ok(Bytes::from(format!("{}\n", row?.try_get::<_, String>("text")?)));
    ///     Ok(Response::stream("text/plain; charset=utf-8", rows.map(line)))
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`query_stream`](Self::query_stream). The connection is given back then.
    #[track_caller]
    pub fn into_rows<T>(self, statement: &T, params: &[&(dyn ToSql + Sync)]) -> impl Future<Output = Result<OwnedRows>>
    where
        T: ToStatement + ?Sized,
    {
        place::asked(async move {
            let rows = self.query_stream(statement, params).await?;
            Ok(OwnedRows::new(rows, self))
        })
    }
}
