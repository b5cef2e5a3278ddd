//! The reply body, and reading a request body within bounds.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;

use super::{
    codes,
    error::{ApiError, ApiResult},
};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
type BoxBody = Pin<Box<dyn HttpBody<Data = Bytes, Error = BoxError> + Send>>;

/// How long a request body may take to arrive in whole.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How much of a refused body is still read, and for how long.
const DRAINED_BYTES: usize = 128 << 20;
const DRAINED_FOR: Duration = Duration::from_secs(10);

/// A reply's body. The common one is whole and needs no box.
pub enum Body {
    /// All of it; `None` once it is sent.
    Full(Option<Bytes>),
    /// Made piece by piece.
    Stream(BoxBody),
}

impl Body {
    pub fn empty() -> Self {
        Self::Full(None)
    }

    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::Full((!bytes.is_empty()).then_some(bytes))
    }

    pub fn stream<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::Stream(Box::pin(body.map_err(Into::into)))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.is_none(),
            Self::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(body) => body.size_hint(),
        }
    }
}

/// Reads a body whole, at most `limit` bytes and within [`BODY_TIMEOUT`].
pub async fn read(mut body: Incoming, limit: usize) -> ApiResult<Bytes> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let too_large = || ApiError::new(&codes::PAYLOAD_TOO_LARGE).detail(format!("The body is over {limit} bytes."));
    if body.size_hint().lower() > limit as u64 {
        drain(body);
        return Err(too_large());
    }
    // Boxed: most requests have no body and should not be larger for it.
    let collected = Box::pin(tokio::time::timeout(BODY_TIMEOUT, Limited::new(&mut body, limit).collect()))
        .await
        .map_err(|_| ApiError::new(&codes::REQUEST_TIMEOUT))?;
    match collected {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            drain(body);
            Err(too_large())
        }
        Err(error) => Err(ApiError::new(&codes::INVALID_REQUEST)
            .detail("The body broke off before its end.")
            .cause(anyhow::anyhow!(error).context("reading the request body"))),
    }
}

/// Reads on for a while what was refused, and forgets it: a client whose connection is reset while
/// it is still writing never reads the answer that says why.
pub fn drain(body: Incoming) {
    // A body can outlive the runtime that its connection was served on.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(async move {
        let mut body = Limited::new(body, DRAINED_BYTES);
        let rest = async { while let Some(Ok(_)) = body.frame().await {} };
        // Past the time the connection is closed, which is what is meant to happen.
        let _ = tokio::time::timeout(DRAINED_FOR, rest).await;
    });
}
