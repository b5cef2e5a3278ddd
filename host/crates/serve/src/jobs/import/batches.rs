//! Rows of an upload in batches, read while the batch before is written.

use std::time::Duration;

use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use super::intake::{Intake, IntakeError};
use crate::http::error::{ApiError, ApiResult};
use cardinal_cards::{
    file::{Columns, File, Format, Read},
    row::{Row, Terms},
};

/// Rows that one transaction writes, and bytes beyond which it takes no further one.
const ROWS: usize = 4_000;
const BYTES: usize = 4 << 20;
/// A slow sender's rows wait for so long.
const MAX_BATCH_AGE: Duration = Duration::from_secs(1);

/// An import's body and what is read of it.
pub(crate) struct Upload {
    intake: Intake,
    file: File,
    found: Vec<Read>,
    over: bool,
}

/// What is written together.
#[derive(Default)]
pub(crate) struct Batch {
    pub rows: Vec<Row>,
    pub errors: Vec<Value>,
    pub ignores_sources: bool,
    bytes: usize,
}

/// What comes from the reader.
pub(crate) enum Piece {
    Batch(Batch),
    /// The whole file was read.
    End,
    Stopped(IntakeError),
    /// The file is none of its format.
    Unreadable(ApiError),
}

impl Upload {
    /// Reads on until it is known that the file can be read: what is wrong with all of it is an answer of its own.
    pub(crate) async fn begin(intake: Intake, format: Format, terms: Terms) -> ApiResult<Self> {
        let mut upload = Self { intake, file: File::new(format, terms), found: Vec::new(), over: false };
        while !upload.over && !upload.file.has_head() {
            let piece = upload.intake.next().await.map_err(IntakeError::refused)?;
            upload.read(piece.as_deref())?;
        }
        Ok(upload)
    }

    /// What becomes of the columns of a CSV file.
    pub(crate) fn columns(&self) -> Option<Columns> {
        self.file.columns()
    }

    fn read(&mut self, piece: Option<&[u8]>) -> ApiResult<()> {
        match piece {
            Some(piece) => Ok(self.file.push(piece, &mut self.found)?),
            None => {
                self.over = true;
                Ok(self.file.finish(&mut self.found)?)
            }
        }
    }

    /// Sends batches until the file is over or nobody takes them any more.
    pub(crate) async fn send(&mut self, to: mpsc::Sender<Piece>) {
        let mut batch = Batch::default();
        let end = loop {
            for read in self.found.drain(..) {
                batch.take(read);
                if batch.is_full() && to.send(Piece::Batch(std::mem::take(&mut batch))).await.is_err() {
                    return;
                }
            }
            if self.over {
                break Piece::End;
            }
            let piece = if batch.is_empty() {
                self.intake.next().await
            } else {
                match timeout_at(Instant::now() + MAX_BATCH_AGE, self.intake.next()).await {
                    Ok(piece) => piece,
                    Err(_) => {
                        if to.send(Piece::Batch(std::mem::take(&mut batch))).await.is_err() {
                            return;
                        }
                        continue;
                    }
                }
            };
            let read = match piece {
                Ok(piece) => self.read(piece.as_deref()),
                Err(stopped) => break Piece::Stopped(stopped),
            };
            if let Err(error) = read {
                break Piece::Unreadable(error);
            }
            // A piece is some hundred rows: others on this thread have their turn.
            tokio::task::yield_now().await;
        };
        if !batch.is_empty() && to.send(Piece::Batch(batch)).await.is_err() {
            return;
        }
        let _ = to.send(end).await;
    }
}

impl Batch {
    fn take(&mut self, read: Read) {
        match read {
            Ok(row) => {
                self.bytes += row.size();
                self.ignores_sources |= row.ignores_sources;
                self.rows.push(row);
            }
            Err(error) => self.errors.push(error),
        }
    }

    fn is_full(&self) -> bool {
        self.rows.len() + self.errors.len() >= ROWS || self.bytes >= BYTES
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.errors.is_empty()
    }
}
