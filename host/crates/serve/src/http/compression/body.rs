//! A body that is compressed as it goes out.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use tokio::sync::OwnedSemaphorePermit;

use crate::http::body::{Body, BoxError};
use cardinal_base::coding::encoder::Encoder;

/// Bytes that are taken at once of what may be a whole body.
const PIECE: usize = 32 << 10;
/// The least that is worth sending.
const MIN_SENT_BYTES: usize = 8 << 10;
/// After this many bytes others have their turn: what shrinks to nothing never fills the connection, so that nothing
/// else would ever pause it.
const BYTES_PER_POLL: usize = 1 << 20;

/// What there is of a body, compressed. Whenever its source pauses, everything up to there is flushed: an event, a line
/// or a row is with the client as soon as it would be uncompressed.
pub(super) struct CompressedBody {
    source: Body,
    /// `None` once it is over.
    encoder: Option<Encoder>,
    /// Of the source, not compressed yet.
    rest: Bytes,
    /// Something was written since the last flush.
    unflushed: bool,
    /// Bytes that may be compressed before others have their turn.
    bytes_left: usize,
    _permit: OwnedSemaphorePermit,
}

impl CompressedBody {
    pub(super) fn new(source: Body, encoder: Encoder, permit: OwnedSemaphorePermit) -> Self {
        Self {
            source,
            encoder: Some(encoder),
            rest: Bytes::new(),
            unflushed: false,
            bytes_left: BYTES_PER_POLL,
            _permit: permit,
        }
    }

    /// The next piece of the source; `None` at its end.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BoxError>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.source).poll_frame(cx)) {
                // Of trailers our own bodies have none.
                Some(frame) => self.rest = frame?.into_data().unwrap_or_default(),
                None => return Poll::Ready(Ok(None)),
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        self.bytes_left = self.bytes_left.saturating_sub(piece.len());
        Poll::Ready(Ok(Some(piece)))
    }

    fn poll_compressed(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BoxError>> {
        loop {
            if self.bytes_left == 0 {
                self.bytes_left = BYTES_PER_POLL;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let polled = self.poll_piece(cx)?;
            let Some(encoder) = &mut self.encoder else { return Poll::Ready(Ok(None)) };
            match polled {
                Poll::Ready(Some(piece)) => {
                    encoder.write(&piece)?;
                    self.unflushed = true;
                    if encoder.output().len() < MIN_SENT_BYTES {
                        continue;
                    }
                }
                Poll::Ready(None) => {
                    let last = self.encoder.take().map(Encoder::finish).transpose()?;
                    return Poll::Ready(Ok(last.map(Bytes::from)));
                }
                Poll::Pending if self.unflushed => {
                    encoder.flush()?;
                    self.unflushed = false;
                }
                Poll::Pending => return Poll::Pending,
            }
            let compressed = mem::take(encoder.output());
            if !compressed.is_empty() {
                return Poll::Ready(Ok(Some(compressed.into())));
            }
        }
    }
}

impl HttpBody for CompressedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if this.encoder.is_none() {
            return Poll::Ready(None);
        }
        // What breaks off must not end as if it were whole.
        this.poll_compressed(cx).map(|compressed| compressed.transpose().map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.encoder.is_none()
    }
}
