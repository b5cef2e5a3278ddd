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
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the PostgreSQL type, the plugin's own types (enums, domains, composites) included.
    pub fn type_(&self) -> &Type {
        &self.of
    }
}

/// A row of a result, of [`Connection::query`] and the like.
///
/// It owns its values and outlives the connection. They stay in PostgreSQL's binary form until they are asked for; rows of
/// one batch share their memory, so a row that is kept for long keeps up to 64 KiB with it. [`FromRow`](crate::FromRow)
/// turns rows into structs.
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
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the number of columns.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Returns whether there are no columns.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Returns the value of a column, by number (from 0) or name. It is for columns that the statement beside it names; use
    /// [`try_get`](Self::try_get) where the SQL comes from elsewhere.
    ///
    /// # Panics
    /// When there is no such column, its type does not fit `T`, or it is NULL and `T` is not an `Option`. That is a mistake
    /// in the plugin's code: it ends the call with 500 `plugin-panicked`.
    pub fn get<'a, I: RowIndex, T: FromSql<'a>>(&'a self, column: I) -> T {
        match self.try_get(column) {
            Ok(value) => value,
            Err(error) => panic!("a column cannot be read: {error}"),
        }
    }

    /// Returns the value of a column, by number (from 0) or name. A name that is not there as it is written is looked for
    /// in any case.
    ///
    /// `&str` and `&[u8]` borrow from the row. NULL is `None` of an `Option`.
    ///
    /// # Errors
    /// An internal error when there is no such column, its type does not fit `T`, or it is NULL and `T` is not an `Option`.
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
/// cancels the statement. As with tokio-postgres, another statement on the same connection waits for the rows of this one.
/// It ends after its first error.
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
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(Error::of_host(error)))),
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
/// It is a [`Stream`] for replies that outlive their handler. Dropping it cancels the statement and gives the connection
/// back.
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
