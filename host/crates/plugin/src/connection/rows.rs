//! Rows on their way to a plugin: the server's own bytes, in bounded batches.

use std::{
    pin::Pin,
    sync::atomic::Ordering,
    task::{Context, Poll},
};

use cardinal_plugin_abi::values;
use futures_util::{Stream, StreamExt};
use tokio_postgres::{
    Row, RowStream,
    types::{FromSql, Type},
};

use super::{DRAIN_LIMIT, Running};
use crate::fault::Fault;

/// A batch ends with the row that reaches one of these.
const BATCH_ROWS: usize = 256;
const BATCH_BYTES: usize = 64 << 10;

/// The rows of one query. Dropped before its end it cancels the query, unless what is left arrives
/// in a moment.
pub struct Rows {
    inner: Option<(Pin<Box<RowStream>>, Running)>,
}

impl Rows {
    pub(super) fn new(rows: RowStream, running: Running) -> Self {
        Self { inner: Some((Box::pin(rows), running)) }
    }

    /// The next batch; `None` at the end.
    pub fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Fault>>> {
        let Some((rows, _)) = self.inner.as_mut() else { return Poll::Ready(None) };
        let mut batch = Vec::new();
        for _ in 0..BATCH_ROWS {
            let row = match rows.as_mut().poll_next(cx) {
                Poll::Pending if batch.is_empty() => return Poll::Pending,
                // What is there goes out now; asking again finds out about the rest.
                Poll::Pending => break,
                Poll::Ready(row) => row,
            };
            let pushed = match row {
                Some(row) => row.and_then(|row| push(&mut batch, &row)),
                None => {
                    self.end();
                    break;
                }
            };
            if let Err(error) = pushed {
                return Poll::Ready(self.inner.take().map(|(_, running)| Err(running.fail(error))));
            }
            if batch.len() >= BATCH_BYTES {
                break;
            }
        }
        Poll::Ready((!batch.is_empty()).then_some(Ok(batch)))
    }

    fn end(&mut self) {
        if let Some((_, running)) = self.inner.take() {
            running.end();
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        let Some((mut rows, running)) = self.inner.take() else { return };
        let connection = running.connection.clone();
        connection.usage.draining_streams.fetch_add(1, Ordering::SeqCst);
        connection.runtime.clone().spawn(async move {
            let rest = async { while let Some(Ok(_)) = rows.next().await {} };
            if tokio::time::timeout(DRAIN_LIMIT, rest).await.is_ok() {
                running.end();
            } else {
                drop(running); // cancels
            }
            connection.usage.draining_streams.fetch_sub(1, Ordering::SeqCst);
            connection.usage.one_ended.notify_waiters();
        });
    }
}

fn push(batch: &mut Vec<u8>, row: &Row) -> Result<(), tokio_postgres::Error> {
    // PostgreSQL has at most 1664 columns in a row, and no value over 1 GiB.
    values::push_row(batch, row.len() as u16);
    for column in 0..row.len() {
        let value: RawValue<'_> = row.try_get(column)?;
        values::push(batch, value.0);
    }
    Ok(())
}

/// The bytes of a column, whatever its type.
struct RawValue<'a>(Option<&'a [u8]>);

impl<'a> FromSql<'a> for RawValue<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(Some(raw)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
