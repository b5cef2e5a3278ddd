//! A request's body as it comes in, and reading it within bounds.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderValue, Request, Version, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::runtime::Handle;

use crate::http::{
    body::BoxError,
    error::{ApiError, ApiResult},
};
use cardinal_base::codes;

/// How long a request body may take to arrive in whole.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How much of a body that nobody wants is still read, and for how long.
const DRAINED_BYTES: usize = 128 << 20;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A request's body. Dropped before its end, it is read on for a while and forgotten: a client whose connection is
/// reset while it is still writing never reads the answer that says why.
pub struct RequestBody(Option<OpenBody>);

/// A body that has not come to its end.
struct OpenBody {
    body: Incoming,
    /// The client sends it; else it waits for our `100 Continue`, which goes out with the first look at the body.
    is_sent: bool,
    /// Of the connection. A body may be dropped on a thread that has none.
    runtime: Handle,
}

impl RequestBody {
    /// The request as hyper has read it, on the runtime of its connection.
    pub(crate) fn from_request(request: Request<Incoming>) -> Request<Self> {
        let expects = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
        let is_sent =
            request.version() != Version::HTTP_11 || !request.headers().get(header::EXPECT).is_some_and(expects);
        request
            .map(|body| Self((!body.is_end_stream()).then(|| OpenBody { body, is_sent, runtime: Handle::current() })))
    }

    pub fn none() -> Self {
        Self(None)
    }

    /// Whether the client waits for our `100 Continue` with it.
    pub(crate) fn waits_to_be_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|coming| !coming.is_sent)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let Some(coming) = &mut self.0 else { return Poll::Ready(None) };
        coming.is_sent = true;
        let frame = ready!(Pin::new(&mut coming.body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.0 = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|coming| coming.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(|| SizeHint::with_exact(0), |coming| coming.body.size_hint())
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(OpenBody { body, is_sent: true, runtime }) = self.0.take()
            && !body.is_end_stream()
        {
            runtime.spawn(drain(body));
        }
    }
}

async fn drain(body: Incoming) {
    let mut body = Limited::new(body, DRAINED_BYTES);
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    // Past the time the connection is closed, which is what is meant to happen.
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
}

/// Reads a body whole, at most `limit` bytes and within [`BODY_TIMEOUT`].
pub(crate) async fn read(mut body: RequestBody, limit: usize) -> ApiResult<Bytes> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let too_large = || ApiError::new(&codes::PAYLOAD_TOO_LARGE).detail(format!("The body is over {limit} bytes."));
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    // Most have come by now, in one piece.
    let first = match body.frame().now_or_never().flatten() {
        Some(frame) => frame.map_err(|error| broke_off(error.into()))?.into_data().unwrap_or_default(),
        None => Bytes::new(),
    };
    let Some(left) = limit.checked_sub(first.len()) else { return Err(too_large()) };
    if body.is_end_stream() {
        return Ok(first);
    }
    // Boxed: most requests have no body and should not be larger for it.
    let collected = Box::pin(tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, left).collect()))
        .await
        .map_err(|_| ApiError::new(&codes::REQUEST_TIMEOUT))?;
    match collected {
        Ok(rest) if first.is_empty() => Ok(rest.to_bytes()),
        Ok(rest) => Ok([first, rest.to_bytes()].concat().into()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(error) => Err(broke_off(error)),
    }
}

fn broke_off(error: BoxError) -> ApiError {
    ApiError::new(&codes::INVALID_REQUEST)
        .detail("The body ended before it was complete.")
        .cause(anyhow::anyhow!(error).context("reading the request body"))
}
