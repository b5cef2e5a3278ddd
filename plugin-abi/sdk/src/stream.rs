//! Streams and bytes across the border.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use cardinal_plugin_abi as abi;
use futures_util::Stream;

use crate::{Error, Result, scope::Scope};

/// A stream of the host's: a request's body, or what COPY gives. Ends after its first error.
/// Dropping it cancels what feeds it.
///
/// It may be polled anywhere, also without tokio.
#[derive(Default)]
pub struct ByteStream {
    /// What is already here; given first.
    ahead: Option<Bytes>,
    inner: abi::Stream,
}

impl ByteStream {
    pub(crate) fn new(inner: abi::Stream) -> Self {
        Self { ahead: None, inner }
    }

    /// A stream of these bytes alone.
    pub(crate) fn from_bytes(bytes: Bytes) -> Self {
        Self { ahead: Some(bytes).filter(|bytes| !bytes.is_empty()), inner: abi::Stream::NONE }
    }

    /// The next piece; `None` at the end, and after an error.
    ///
    /// # Errors
    /// 400 or 413 for a body that breaks off or is larger than the route allows; PostgreSQL's for COPY. All can be passed
    /// on with `?`.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for ByteStream {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(bytes) = self.ahead.take() {
            return Poll::Ready(Some(Ok(bytes)));
        }
        self.inner.poll_next(cx).map(|piece| piece.map(|piece| piece.map(bytes_in).map_err(Error::of_host)))
    }
}

impl std::fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ByteStream")
    }
}

/// Bytes of the host's as ours, without copying.
pub(crate) fn bytes_in(bytes: abi::Bytes) -> Bytes {
    if bytes.get().is_empty() { Bytes::new() } else { Bytes::from_owner(bytes) }
}

/// Our bytes for the host, without copying.
pub(crate) fn bytes_out(bytes: Bytes) -> abi::Bytes {
    abi::Bytes::from_owner(bytes)
}

/// Gives a stream of ours to the host. It is polled and dropped within `scope`.
pub(crate) fn give<S>(scope: Scope, pieces: S) -> abi::Stream
where
    S: Stream<Item = Result<Bytes>> + Send + 'static,
{
    abi::Stream::new(PieceSource { scope, pieces: Some(Box::pin(pieces)) })
}

struct PieceSource<S> {
    scope: Scope,
    /// `None` only while dropping.
    pieces: Option<Pin<Box<S>>>,
}

impl<S: Stream<Item = Result<Bytes>> + Send> abi::stream::Source for PieceSource<S> {
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<abi::Bytes, abi::Error>>> {
        let this = self.get_mut();
        let Some(pieces) = this.pieces.as_mut() else { return Poll::Ready(None) };
        let piece = this.scope.enter(|| pieces.as_mut().poll_next(cx));
        piece.map(|piece| piece.map(|piece| piece.map(bytes_out).map_err(Into::into)))
    }
}

impl<S> Drop for PieceSource<S> {
    fn drop(&mut self) {
        let pieces = self.pieces.take();
        self.scope.enter(|| drop(pieces));
    }
}
