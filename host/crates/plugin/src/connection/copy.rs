//! `COPY`, both ways, piece by piece.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::{SinkExt, Stream, StreamExt};
use tokio_postgres::CopyOutStream;

use super::{Connection, Running};
use crate::fault::Fault;

impl Connection {
    /// `COPY ... FROM STDIN`, fed from `pieces`; the number of rows. An error among the pieces makes
    /// the server forget all of them.
    pub async fn copy_in<E>(
        self: Arc<Self>,
        sql: String,
        mut pieces: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<Result<u64, E>, Fault> {
        let running = self.run_anything()?;
        let sink = match self.session.client.copy_in::<_, Bytes>(&sql).await {
            Ok(sink) => sink,
            Err(error) => return Err(running.fail(error)),
        };
        let mut sink = std::pin::pin!(sink);
        while let Some(piece) = pieces.next().await {
            match piece {
                Ok(bytes) => {
                    if let Err(error) = sink.send(bytes).await {
                        return Err(running.fail(error));
                    }
                }
                // Dropping `running` unfinished closes the connection: the server drops the COPY.
                Err(error) => return Ok(Err(error)),
            }
        }
        let outcome = sink.finish().await;
        running.finish(outcome).map(Ok)
    }

    /// `COPY ... TO STDOUT`.
    pub async fn copy_out(self: Arc<Self>, sql: String) -> Result<CopyOut, Fault> {
        let running = self.run_anything()?;
        match self.session.client.copy_out(&sql).await {
            Ok(stream) => Ok(CopyOut { inner: Some((Box::pin(stream), running)) }),
            Err(error) => Err(running.fail(error)),
        }
    }
}

/// What a `COPY ... TO STDOUT` gives. Dropped before its end it cancels the statement.
pub struct CopyOut {
    inner: Option<(Pin<Box<CopyOutStream>>, Running)>,
}

impl CopyOut {
    /// The next piece; `None` at the end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
        let Some((stream, _)) = self.inner.as_mut() else { return Poll::Ready(None) };
        let piece = ready!(stream.as_mut().poll_next(cx));
        if let Some(Ok(bytes)) = piece {
            return Poll::Ready(Some(Ok(bytes)));
        }
        let Some((_, running)) = self.inner.take() else { return Poll::Ready(None) };
        Poll::Ready(match piece {
            Some(Err(error)) => Some(Err(running.fail(error))),
            _ => {
                running.end();
                None
            }
        })
    }
}
