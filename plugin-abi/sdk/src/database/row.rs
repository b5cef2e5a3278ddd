//! Rows: from the host's batches to Rust values.

use std::{
    fmt,
    ops::Range,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use cardinal_plugin_abi::{self as abi, values::Reader};
use futures_util::Stream;
use postgres_types::{FromSql, Kind, Type, WrongType};

use super::Connection;
use crate::{Error, Result, stream::bytes_in};

/// A column of a result: its name and its PostgreSQL type.
///
/// ```
/// use cardinal_plugin::{Column, postgres::Type};
///
/// /// The columns that a chart can draw.
/// fn numbers(columns: &[Column]) -> Vec<&str> {
///     let is_number = |column: &&Column| matches!(*column.type_(), Type::INT4 | Type::INT8 | Type::FLOAT8);
///     columns.iter().filter(is_number).map(Column::name).collect()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Column {
    name: String,
    of: Type,
}

impl Column {
    pub(super) fn new(name: String, of: Type) -> Self {
        Self { name, of }
    }

    /// Returns the name, as the statement gives it: the column's own, or what stands behind `AS`.
    ///
    /// ```
    /// use cardinal_plugin::Row;
    ///
    /// /// The header row of a CSV file.
    /// fn header(row: &Row) -> String {
    ///     row.columns().iter().map(|column| column.name()).collect::<Vec<_>>().join(",")
    /// }
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the PostgreSQL type, the plugin's own types (enums, domains, composites) included.
    ///
    /// ```
    /// use cardinal_plugin::{Column, postgres::Kind};
    ///
    /// /// What a text of this column may be, when its type is an enum.
    /// fn choices(column: &Column) -> &[String] {
    ///     match column.type_().kind() {
    ///         Kind::Enum(variants) => variants,
    ///         _ => &[],
    ///     }
    /// }
    /// ```
    pub fn type_(&self) -> &Type {
        &self.of
    }
}

/// A row of a result, of [`Connection::query`] and the like.
///
/// It owns its values and outlives the connection. They stay in PostgreSQL's binary form until they are asked for; rows
/// of one batch share their memory, so a row that is kept for long keeps up to 64 KiB with it.
/// [`FromRow`](crate::FromRow) turns rows into structs.
///
/// ```
/// use cardinal_plugin::{Result, Row};
///
/// fn price(row: &Row) -> Result<Option<i64>> {
///     let currency: &str = row.try_get("currency")?;
///     if currency == "EUR" { row.try_get("price_cents") } else { Ok(None) }
/// }
/// ```
pub struct Row {
    columns: Arc<[Column]>,
    /// The batch that it came in; rows of one batch share it.
    batch: Bytes,
    /// Where each column's value stands in the batch; `None` is NULL.
    values: Vec<Option<Range<usize>>>,
}

impl Row {
    /// Returns the columns, in their order.
    ///
    /// ```
    /// use cardinal_plugin::Row;
    ///
    /// fn has_price(row: &Row) -> bool {
    ///     row.columns().iter().any(|column| column.name() == "cents")
    /// }
    /// ```
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the number of columns.
    ///
    /// ```
    /// use cardinal_plugin::{Result, Row};
    ///
    /// /// All columns as texts, from SQL that casts each of them `::text`.
    /// fn cells(row: &Row) -> Result<Vec<Option<String>>> {
    ///     (0..row.len()).map(|at| row.try_get(at)).collect()
    /// }
    /// ```
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Returns whether there are no columns.
    ///
    /// ```
    /// use cardinal_plugin::Row;
    ///
    /// /// The first column's name; `SELECT` alone gives rows without one.
    /// fn first(row: &Row) -> Option<&str> {
    ///     if row.is_empty() { None } else { Some(row.columns()[0].name()) }
    /// }
    /// ```
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Returns the value of a column, by number (from 0) or name. It is for columns that the statement beside it names;
    /// use [`try_get`](Self::try_get) where the SQL comes from elsewhere.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Result};
    ///
    /// async fn newest(conn: &Connection) -> Result<(String, Option<i64>)> {
    ///     let row = conn.query_one("SELECT sku, cents FROM prices ORDER BY id DESC LIMIT 1", &[]).await?;
    ///     Ok((row.get("sku"), row.get(1)))
    /// }
    /// ```
    ///
    /// # Panics
    /// When there is no such column, its type does not fit `T`, or it is NULL and `T` is not an `Option`. That is a
    /// mistake in the plugin's code: it ends the call with 500 `plugin-panicked`.
    pub fn get<'a, I: RowIndex, T: FromSql<'a>>(&'a self, column: I) -> T {
        match self.try_get(column) {
            Ok(value) => value,
            Err(error) => panic!("a column cannot be read: {error}"),
        }
    }

    /// Returns the value of a column, by number (from 0) or name. A name that is not there as it is written is looked
    /// for in any case.
    ///
    /// `&str` and `&[u8]` borrow from the row. NULL is `None` of an `Option`.
    ///
    /// ```
    /// use cardinal_plugin::{Result, Row};
    ///
    /// fn price(row: &Row) -> Result<(&str, Option<i64>)> {
    ///     Ok((row.try_get("sku")?, row.try_get("cents")?)) // NULL is `None`
    /// }
    /// ```
    ///
    /// # Errors
    /// An internal error when there is no such column, its type does not fit `T`, or it is NULL and `T` is not an
    /// `Option`.
    pub fn try_get<'a, I: RowIndex, T: FromSql<'a>>(&'a self, column: I) -> Result<T> {
        let at = column.find(&self.columns).ok_or_else(|| Error::internal(format!("there is no column {column}")))?;
        let of = &self.columns[at].of;
        if !T::accepts(of) {
            return Err(read_error(&self.columns[at], Box::new(WrongType::new::<T>(of.clone()))));
        }
        let raw = self.values[at].clone().and_then(|range| self.batch.get(range));
        T::from_sql_nullable(of, raw).map_err(|error| read_error(&self.columns[at], error))
    }
}

impl Row {
    /// The value of a column whose type may be a domain over one that `T` takes.
    pub(super) fn get_as_base<'a, T: FromSql<'a>>(&'a self, at: usize) -> Result<Option<T>> {
        let column = self.columns.get(at).ok_or_else(|| Error::internal(format!("there is no column {at}")))?;
        let mut of = &column.of;
        while let Kind::Domain(inner) = of.kind() {
            of = inner;
        }
        let raw = self.values[at].clone().and_then(|range| self.batch.get(range));
        raw.map(|raw| T::from_sql(of, raw).map_err(|error| read_error(column, error))).transpose()
    }
}

fn read_error(column: &Column, error: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::internal(format!("column `{}` of type {}: {error}", column.name, column.of))
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.columns.iter().map(Column::name)).finish()
    }
}

/// The number (`usize`, from 0) or name (`&str`) of a column. Other types can't implement it.
///
/// ```
/// use cardinal_plugin::{Row, RowIndex};
///
/// /// Takes a number or a name, as [`Row::get`] does.
/// fn stars(row: &Row, column: impl RowIndex) -> i16 {
///     row.get(column)
/// }
///
/// fn both(row: &Row) -> (i16, i16) {
///     (stars(row, 0), stars(row, "stars"))
/// }
/// ```
pub trait RowIndex: fmt::Display + sealed::Sealed {
    #[doc(hidden)]
    fn find(&self, columns: &[Column]) -> Option<usize>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for usize {}
    impl Sealed for str {}
    impl<T: Sealed + ?Sized> Sealed for &T {}
}

impl RowIndex for usize {
    fn find(&self, columns: &[Column]) -> Option<usize> {
        (*self < columns.len()).then_some(*self)
    }
}

impl RowIndex for str {
    fn find(&self, columns: &[Column]) -> Option<usize> {
        let exact = columns.iter().position(|column| column.name == self);
        exact.or_else(|| columns.iter().position(|column| column.name.eq_ignore_ascii_case(self)))
    }
}

impl<T: RowIndex + ?Sized> RowIndex for &T {
    fn find(&self, columns: &[Column]) -> Option<usize> {
        T::find(self, columns)
    }
}

/// Rows as they arrive, from [`Connection::query_stream`]. It is a [`Stream`], too.
///
/// The host sends batches of up to 256 rows or 64 KiB, one at a time, as they are used up. Dropping it before its end
/// cancels the statement. As with tokio-postgres, another statement on the same connection waits for the rows of this
/// one. It ends after its first error.
///
/// ```
/// use cardinal_plugin::{Connection, Result, Row, futures::TryStreamExt};
///
/// /// The first rating of five stars; the rest is not read.
/// async fn first_best(conn: &Connection) -> Result<Option<Row>> {
///     let ratings = conn.query_stream("SELECT stars, text FROM ratings ORDER BY id", &[]).await?;
///     std::pin::pin!(ratings.try_filter(|row| std::future::ready(row.get::<_, i16>("stars") == 5))).try_next().await
/// }
/// ```
pub struct RowStream {
    columns: Arc<[Column]>,
    batches: abi::Stream,
    batch: Bytes,
    /// How much of `batch` has been read.
    at: usize,
}

impl RowStream {
    pub(super) fn new(columns: Arc<[Column]>, batches: abi::Stream) -> Self {
        Self { columns, batches, batch: Bytes::new(), at: 0 }
    }

    /// Returns the columns of the rows to come.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Result};
    ///
    /// /// The names are known before the first row is.
    /// async fn names(conn: &Connection, sql: &str) -> Result<Vec<String>> {
    ///     let rows = conn.query_stream(sql, &[]).await?;
    ///     Ok(rows.columns().iter().map(|column| column.name().to_owned()).collect())
    /// }
    /// ```
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the next row; `None` at the end, and after an error. A future that is dropped loses no row.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result};
    ///
    /// /// Of a table of any size, with no more than a batch of it in memory.
    /// async fn longest(ctx: &PluginContext) -> Result<usize> {
    ///     let conn = ctx.get_plugin_conn().await?;
    ///     let (mut rows, mut longest) = (conn.query_stream("SELECT text FROM notes", &[]).await?, 0);
    ///     while let Some(row) = rows.next().await {
    ///         longest = longest.max(row?.get::<_, &str>("text").len());
    ///     }
    ///     Ok(longest)
    /// }
    /// ```
    ///
    /// # Errors
    /// PostgreSQL's, in the middle of the rows: those that came before are valid. And the loss of the connection.
    pub async fn next(&mut self) -> Option<Result<Row>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    fn next_of_batch(&mut self) -> Option<Result<Row>> {
        if self.at == self.batch.len() {
            return None;
        }
        let row = read_row(&self.batch, &mut self.at, &self.columns);
        if row.is_none() {
            // Nothing after a malformed row makes sense.
            (self.batches, self.at) = (abi::Stream::NONE, self.batch.len());
        }
        Some(row.ok_or_else(|| Error::internal("the host's rows are malformed")))
    }
}

fn read_row(batch: &Bytes, at: &mut usize, columns: &Arc<[Column]>) -> Option<Row> {
    let mut reader = Reader::new(batch.get(*at..)?);
    if usize::from(reader.row()?) != columns.len() {
        return None;
    }
    let start = batch.as_ptr() as usize;
    let mut values = Vec::with_capacity(columns.len());
    for _ in 0..columns.len() {
        values.push(reader.next()?.map(|value| {
            let from = value.as_ptr() as usize - start;
            from..from + value.len()
        }));
    }
    *at = batch.len() - reader.left();
    Some(Row { columns: columns.clone(), batch: batch.clone(), values })
}

impl Stream for RowStream {
    type Item = Result<Row>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(row) = self.next_of_batch() {
                return Poll::Ready(Some(row));
            }
            match self.batches.poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(Error::from_host(error)))),
                Poll::Ready(Some(Ok(batch))) => (self.batch, self.at) = (bytes_in(batch), 0),
            }
        }
    }
}

impl fmt::Debug for RowStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowStream")
    }
}

/// The rows of a query together with the connection that they come over, from [`Connection::into_rows`].
///
/// It is a [`Stream`] for replies that outlive their handler. Dropping it cancels the statement and gives the
/// connection back.
///
/// ```
/// use cardinal_plugin::{OwnedRows, PluginContext, Result, futures::TryStreamExt};
///
/// async fn open(ctx: &PluginContext) -> Result<OwnedRows> {
///     ctx.get_plugin_conn().await?.into_rows("SELECT sku FROM prices", &[]).await
/// }
///
/// /// The rows bring their connection along, so it does not matter where they are read.
/// async fn skus(rows: OwnedRows) -> Result<Vec<String>> {
///     rows.map_ok(|row| row.get("sku")).try_collect().await
/// }
/// ```
#[derive(Debug)]
pub struct OwnedRows {
    /// Dropped before the connection.
    rows: RowStream,
    _conn: Connection,
}

impl OwnedRows {
    pub(super) fn new(rows: RowStream, conn: Connection) -> Self {
        Self { rows, _conn: conn }
    }

    /// Returns the columns of the rows to come.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result};
    ///
    /// async fn width(ctx: &PluginContext) -> Result<usize> {
    ///     let rows = ctx.get_plugin_conn().await?.into_rows("SELECT * FROM prices", &[]).await?;
    ///     Ok(rows.columns().len())
    /// }
    /// ```
    pub fn columns(&self) -> &[Column] {
        self.rows.columns()
    }
}

impl Stream for OwnedRows {
    type Item = Result<Row>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.rows).poll_next(cx)
    }
}
