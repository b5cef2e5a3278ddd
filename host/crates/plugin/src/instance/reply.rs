//! A handler's reply, checked before anything of it is sent.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use cardinal_plugin_abi::{Reply, Stream, pairs};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body::Frame;
use tokio::sync::mpsc;

use super::{CallLease, fault::CallFault};
use crate::{bridge::call::BodyError, lane::pump, library::forked};
use cardinal_control::crash::current;

/// Of a reply's header: the most fields, and bytes in all.
const HEADER_COUNT_LIMIT: usize = 100;
const HEADER_BYTES_LIMIT: usize = 64 << 10;
/// Room for the plugin's own few and for those that the host adds.
const EXPECTED_HEADERS: usize = 12;
/// A body that is not streamed (contract 5.2).
pub const BODY_LIMIT: usize = 8 << 20;

/// What a handler answered, checked.
#[derive(Debug)]
pub struct PluginReply {
    /// 200..=599.
    pub status: http::StatusCode,
    pub headers: HeaderMap,
    pub body: ReplyBody,
}

/// A reply's body.
#[derive(Debug)]
pub enum ReplyBody {
    Full(Bytes),
    Stream(ReplyStream),
}

pub(super) type Outcome = Result<PluginReply, CallFault>;

/// Turns the plugin's reply into ours. The lease goes with a streamed body, else it ends here.
pub(super) fn check(reply: Reply, lease: CallLease) -> Result<PluginReply, CallFault> {
    let Reply { status, headers, body, stream, extra: _ } = reply;
    let parsed = check_status(status).and_then(|status| Ok((status, header_map(headers.get())?)));
    let (status, headers) = match parsed {
        Ok(parsed) => parsed,
        Err(reason) => return Err(CallFault::BadReply { reason }),
    };
    let body = if stream.is_none() {
        if body.get().len() > BODY_LIMIT {
            let reason = format!("a body of {} bytes; one over {BODY_LIMIT} must be streamed", body.get().len());
            return Err(CallFault::BadReply { reason });
        }
        ReplyBody::Full(owned(body))
    } else {
        ReplyBody::Stream(ReplyStream(Feed::Here(stream, lease)))
    };
    Ok(PluginReply { status, headers, body })
}

fn owned(body: cardinal_plugin_abi::Bytes) -> Bytes {
    // An empty one has no owner worth an allocation.
    if body.get().is_empty() { Bytes::new() } else { Bytes::from_owner(body) }
}

fn check_status(status: u16) -> Result<StatusCode, String> {
    match StatusCode::from_u16(status) {
        Ok(code) if (200..=599).contains(&status) => Ok(code),
        _ => Err(format!("the status {status}, which is not in 200..=599")),
    }
}

fn header_map(buffer: &[u8]) -> Result<HeaderMap, String> {
    if buffer.is_empty() {
        return Ok(HeaderMap::new());
    }
    if buffer.len() > HEADER_BYTES_LIMIT {
        return Err(format!("{} bytes of headers", buffer.len()));
    }
    let pairs = pairs::read(buffer).ok_or("headers that do not have the layout of the plugin API")?;
    let mut headers = HeaderMap::with_capacity(EXPECTED_HEADERS);
    for (count, (name, value)) in pairs.enumerate() {
        if count == HEADER_COUNT_LIMIT {
            return Err(format!("more than {HEADER_COUNT_LIMIT} headers"));
        }
        let shown = || String::from_utf8_lossy(name).into_owned();
        let key = HeaderName::from_bytes(name).map_err(|_| format!("the header name {:?}", shown()))?;
        let value = HeaderValue::from_bytes(value).map_err(|_| format!("an illegal value of header {:?}", shown()))?;
        headers.append(key, value);
    }
    Ok(headers)
}

/// A reply's body that the plugin makes piece by piece. The call lives as long as it does; dropping
/// it cancels what feeds it.
pub struct ReplyStream(Feed);

enum Feed {
    // The order of drop matters: the plugin's end first, then the lease that keeps its instance.
    Here(Stream, CallLease),
    /// The plugin's lane makes the pieces, one ahead.
    Piped(mpsc::Receiver<Piece>),
    Over,
}

type Piece = Result<Bytes, BodyError>;

impl ReplyStream {
    /// The next piece, when it may be made on this thread; `None` when it may not.
    fn poll_here(&mut self, cx: &mut Context<'_>) -> Option<Poll<Option<Piece>>> {
        let Feed::Here(stream, lease) = &mut self.0 else { return None };
        let _polling = lease.here()?;
        let _entered = current::enter(lease.tag);
        let piece = stream.poll_next(cx);
        forked::end_child();
        Some(piece.map(|piece| piece.map(to_piece)))
    }

    /// The rest is made on the lane.
    fn pipe(&mut self) {
        let (stream, lease) = match mem::replace(&mut self.0, Feed::Over) {
            Feed::Here(stream, lease) => (stream, lease),
            // It is made there already.
            other => {
                self.0 = other;
                return;
            }
        };
        let Some(spawner) = lease.spawner() else { return };
        let (feed, pieces) = mpsc::channel(1);
        spawner.send::<(), _>(lease.handler, |_| pump(stream, lease, feed, to_piece)).detach();
        self.0 = Feed::Piped(pieces);
    }

    fn end(&mut self) {
        if let Feed::Here(stream, lease) = mem::replace(&mut self.0, Feed::Over) {
            lease.drop_with(stream);
        }
    }
}

fn to_piece(piece: Result<cardinal_plugin_abi::Bytes, cardinal_plugin_abi::Error>) -> Piece {
    piece.map(owned).map_err(|error| error.text().into())
}

/// Has a reply that was made on the lane go on there; what feeds its body, if it is streamed.
pub(super) fn piped(outcome: Outcome) -> (Outcome, Option<impl Future<Output = ()> + Send>) {
    let Ok(PluginReply { status, headers, body: ReplyBody::Stream(mut reply) }) = outcome else {
        return (outcome, None);
    };
    let (feed, pieces) = mpsc::channel(1);
    let pump = match mem::replace(&mut reply.0, Feed::Piped(pieces)) {
        Feed::Here(stream, lease) => Some(pump(stream, lease, feed, to_piece)),
        other => {
            reply.0 = other;
            None
        }
    };
    (Ok(PluginReply { status, headers, body: ReplyBody::Stream(reply) }), pump)
}

impl http_body::Body for ReplyStream {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = match self.poll_here(cx) {
            Some(polled) => polled,
            None => {
                self.pipe();
                match &mut self.0 {
                    Feed::Piped(pieces) => pieces.poll_recv(cx),
                    _ => Poll::Ready(None),
                }
            }
        };
        let Poll::Ready(piece) = polled else { return Poll::Pending };
        if !matches!(piece, Some(Ok(_))) {
            self.end();
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Feed::Over)
    }
}

impl Drop for ReplyStream {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for ReplyStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReplyStream")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_a_status_that_can_be_sent_passes() {
        for status in [0, 99, 100, 101, 199, 600, 999, u16::MAX] {
            assert!(check_status(status).is_err(), "{status}");
        }
        for status in [200, 204, 418, 599] {
            assert_eq!(check_status(status).unwrap().as_u16(), status);
        }
    }

    #[test]
    fn headers_are_checked() {
        let good = pairs::write([(&b"Content-Type"[..], &b"text/plain"[..]), (b"x-a", b"1"), (b"x-a", b"2")]);
        let headers = header_map(&good).unwrap();
        assert_eq!(headers["content-type"], "text/plain");
        assert_eq!(headers.get_all("x-a").iter().count(), 2);
        for (name, value) in [(&b"x y"[..], &b"1"[..]), (b"", b"1"), (b"x", b"a\r\nset-cookie: b"), (b"\xff", b"1")] {
            assert!(header_map(&pairs::write([(name, value)])).is_err(), "{name:?}");
        }
        assert!(header_map(&[1, 2, 3]).is_err());
        let many = vec![(&b"x"[..], &b"1"[..]); HEADER_COUNT_LIMIT + 1];
        assert!(header_map(&pairs::write(many)).is_err());
    }
}
