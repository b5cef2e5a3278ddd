//! Rows of a page, within bounds of bytes: what is beyond them is never read.

use std::pin::pin;

use futures_util::TryStreamExt as _;
use tokio_postgres::{Row, RowStream};

/// Bytes of a page, above which its cursor goes on. One row may be larger.
const PAGE_BYTES: usize = 16 << 20;

/// The rows of a page.
pub struct Rows {
    pub rows: Vec<Row>,
    /// There are more, which were not read. The connection is in the middle of them: it has to be closed.
    pub is_cut: bool,
    /// The bytes of all rows, and of those of the page that were read before.
    pub bytes: usize,
    /// The bytes of the largest row.
    pub max_row_bytes: usize,
}

impl Rows {
    /// Reads until the end or the bound. The server sends no faster than rows are taken.
    pub async fn read(rows: RowStream) -> Result<Self, tokio_postgres::Error> {
        Self::read_behind(rows, 0).await
    }

    /// The same of a page of which so many bytes have been read before.
    pub async fn read_behind(rows: RowStream, before: usize) -> Result<Self, tokio_postgres::Error> {
        let (mut source, mut rows, mut bytes) = (pin!(rows), Vec::new(), before);
        let mut max_row_bytes = 0;
        while let Some(row) = source.try_next().await? {
            bytes += row.raw_size_bytes();
            max_row_bytes = max_row_bytes.max(row.raw_size_bytes());
            if bytes > PAGE_BYTES && bytes > row.raw_size_bytes() {
                return Ok(Self { rows, is_cut: true, bytes, max_row_bytes });
            }
            rows.push(row);
        }
        Ok(Self { rows, is_cut: false, bytes, max_row_bytes })
    }
}
