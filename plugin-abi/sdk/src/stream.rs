//! Streams and bytes across the border.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use cardinal_plugin_abi as abi;
use futures_util::Stream;

use crate::{Error, Result, scope::Scope};

/// A stream of bytes that comes from the host: a request's body, another server's answer, or what `COPY` gives.
///
/// It is a [`Stream`] of [`Bytes`], so the adapters of [`futures`](crate::futures) work on it and
/// [`Response::stream`](crate::Response::stream) takes it as it is. How the bytes are cut into pieces carries no
/// meaning. The host produces a piece when it is asked for one, so a reader that is slow holds up the sender and fills
/// no memory.
///
/// It ends after its first error. Dropping it cancels what feeds it. One that belongs to a call ends with an error
/// ([`Error::is_cancelled`]) when the call is over. It may be polled anywhere, also without tokio.
///
/// ```
/// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, json};
/// use cardinal_plugin::testing::{TestHost, TestRequest};
///
/// async fn size(_: PluginContext, req: Request) -> Result<Response> {
///     let (mut body, mut size) = (req.body_stream()?, 0);
///     while let Some(piece) = body.next().await {
///         size += piece?.len();
///     }
///     Ok(Response::json(&json!({ "size": size })))
/// }
///
/// let manifest = r#"{ "name": "files", "version": "1.0.0", "backend": {} }"#;
/// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().put("/file", size));
/// let reply = block_on(host.send(TestRequest::put("/file").pieces(["Hello, ", "world"])));
/// assert_eq!(reply.json(), json!({ "size": 12 }));
/// ```
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

    /// Returns the next piece; `None` at the end, and after an error. A future that is dropped loses no piece.
    ///
    /// ```
    /// use cardinal_plugin::{ByteStream, Result};
    ///
    /// /// Looks at the first bytes only; dropping the stream leaves the rest unread.
    /// async fn is_gif(mut picture: ByteStream) -> Result<bool> {
    ///     let first = picture.next().await.transpose()?;
    ///     Ok(first.is_some_and(|piece| piece.starts_with(b"GIF89a")))
    /// }
    /// # assert!(!cardinal_plugin::block_on(is_gif(ByteStream::default())).unwrap());
    /// ```
    ///
    /// # Errors
    /// * 400 or 413 for a body that breaks off or is larger than the route allows
    /// * [`Error::http_failure`] for another server's answer that does not come whole
    /// * [`Error::sqlstate`] for `COPY`
    ///
    /// All of them can be passed on with `?`.
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
        self.inner.poll_next(cx).map(|piece| piece.map(|piece| piece.map(bytes_in).map_err(Error::from_host)))
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
