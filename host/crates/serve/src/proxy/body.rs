//! Bodies on their way through: handed on piece by piece, never gathered, and never waited for without end.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::{headers, table::Route};
use crate::http::{body::BoxError, paced::Stall, request_body::RequestBody};
use cardinal_base::request_id::RequestId;

/// How long an upstream may think about `Expect: 100-continue`; many never answer it.
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a body ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// Nothing came for too long.
    Silent,
    /// It was not wanted after all.
    Unwanted,
}

impl fmt::Display for BodyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Silent => "no more of the body arrived in time",
            Self::Unwanted => "the upstream answered without asking for the body",
        })
    }
}

impl std::error::Error for BodyError {}

/// How far a request's body has come; seen from the body and from who waits for the answer.
pub(crate) struct Progress {
    started: Instant,
    /// Milliseconds after `started` when the last piece was taken.
    last: AtomicU64,
    /// It is the client that is waited for.
    waiting: AtomicBool,
    /// The client broke off, or said nothing for too long.
    pub client_failed: AtomicBool,
    pub client_silent: AtomicBool,
    gate: AtomicU8,
    at_gate: AtomicWaker,
}

const OPEN: u8 = 0;
const SHUT: u8 = 1;
const REFUSED: u8 = 2;

impl Progress {
    /// With `expects`, nothing of the body is touched until the upstream says 100, or nothing, or refuses.
    pub(crate) fn new(expects: bool) -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            last: AtomicU64::new(0),
            waiting: AtomicBool::new(false),
            client_failed: AtomicBool::new(false),
            client_silent: AtomicBool::new(false),
            gate: AtomicU8::new(if expects { SHUT } else { OPEN }),
            at_gate: AtomicWaker::new(),
        })
    }

    /// The upstream has said 100.
    pub(crate) fn go_on(&self) {
        self.leave_gate(OPEN);
    }

    /// The answer is over; a body that was never asked for will not be.
    fn answered(&self) {
        self.leave_gate(REFUSED);
    }

    fn leave_gate(&self, state: u8) {
        if self.gate.load(Ordering::Acquire) != SHUT {
            return;
        }
        self.moved();
        if self.gate.compare_exchange(SHUT, state, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.at_gate.wake();
        }
    }

    /// How long the upstream has had everything there was to have; zero while the client is waited for.
    pub(crate) fn upstream_idle(&self) -> Duration {
        // A shut gate has a time of its own.
        if self.waiting.load(Ordering::Acquire) || self.gate.load(Ordering::Acquire) == SHUT {
            return Duration::ZERO;
        }
        let last = Duration::from_millis(self.last.load(Ordering::Acquire));
        self.started.elapsed().saturating_sub(last)
    }

    fn moved(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Release);
        self.waiting.store(false, Ordering::Release);
    }
}

/// A request's body, from the client to the upstream.
pub(crate) struct Upload {
    body: RequestBody,
    /// `None` when there is no body.
    progress: Option<Arc<Progress>>,
    idle: Duration,
    stall: Stall,
    /// Through the gate, whose time is not the body's.
    inside: bool,
}

impl Upload {
    pub(crate) fn new(body: RequestBody, progress: Option<Arc<Progress>>, idle: Duration) -> Self {
        Self { body, progress, idle, stall: Stall::default(), inside: false }
    }

    /// Of a request without a body.
    pub(crate) fn none() -> Self {
        Self::new(RequestBody::none(), None, Duration::MAX)
    }

    /// Ready when the body may be touched.
    fn pass_gate(&mut self, progress: &Progress, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        if self.inside {
            return Poll::Ready(Ok(()));
        }
        if progress.gate.load(Ordering::Acquire) == SHUT {
            progress.at_gate.register(cx.waker());
            if self.stall.poll(cx, CONTINUE_TIMEOUT).is_ready() {
                progress.go_on();
            }
        }
        match progress.gate.load(Ordering::Acquire) {
            SHUT => Poll::Pending,
            REFUSED => Poll::Ready(Err(BodyError::Unwanted)),
            _ => {
                self.inside = true;
                self.stall.over();
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let Some(progress) = this.progress.clone() else { return Poll::Ready(None) };
        match this.pass_gate(&progress, cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(unwanted)) => return Poll::Ready(Some(Err(unwanted.into()))),
            Poll::Ready(Ok(())) => {}
        }
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(piece) => {
                this.stall.over();
                progress.moved();
                if matches!(piece, Some(Err(_))) {
                    progress.client_failed.store(true, Ordering::Release);
                }
                Poll::Ready(piece.map(|piece| piece.map(clean).map_err(Into::into)))
            }
            Poll::Pending => {
                progress.waiting.store(true, Ordering::Release);
                if this.stall.poll(cx, this.idle).is_pending() {
                    return Poll::Pending;
                }
                progress.client_silent.store(true, Ordering::Release);
                Poll::Ready(Some(Err(BodyError::Silent.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body, from the upstream to the client. When it breaks off, so does the client's connection: an answer
/// that merely ended would pass for a whole one.
pub(crate) struct Download {
    body: Incoming,
    idle: Duration,
    stall: Stall,
    upload: Option<Arc<Progress>>,
    route: Arc<Route>,
    request_id: RequestId,
}

impl Download {
    pub(crate) fn new(
        body: Incoming,
        idle: Duration,
        upload: Option<Arc<Progress>>,
        route: Arc<Route>,
        request_id: RequestId,
    ) -> Self {
        Self { body, idle, stall: Stall::default(), upload, route, request_id }
    }

    fn broken_off(&self, error: &dyn fmt::Display) {
        self.route.counters.broken_off.fetch_add(1, Ordering::Relaxed);
        let (upstream, request_id) = (self.route.authority.as_str(), self.request_id.as_str());
        tracing::warn!(target: "cardinal::proxy", request_id, upstream, %error, "the upstream aborted its answer");
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Err(error))) => {
                this.broken_off(&error);
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Ready(piece) => {
                this.stall.over();
                Poll::Ready(piece.map(|piece| piece.map(clean).map_err(Into::into)))
            }
            Poll::Pending => {
                if this.stall.poll(cx, this.idle).is_pending() {
                    return Poll::Pending;
                }
                this.broken_off(&BodyError::Silent);
                Poll::Ready(Some(Err(BodyError::Silent.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        if let Some(upload) = &self.upload {
            upload.answered();
        }
    }
}

fn clean(frame: Frame<Bytes>) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(mut trailers) => {
            headers::clean_trailers(&mut trailers);
            Frame::trailers(trailers)
        }
        Err(data) => data,
    }
}
