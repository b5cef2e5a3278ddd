//! Answers for hyper where it could not read a request's head.
//!
//! hyper refuses such a request by itself, with a status line and an empty body, before anything of ours is asked. This
//! stands between hyper and the connection. What hyper writes while it waits for a head, and every earlier answer has
//! been written, is such a refusal; a problem document takes its place. Whether the request is the connection's first
//! or came right behind another one makes no difference.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    mem::MaybeUninit,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

use super::open_connection::OpenConnection;
use crate::http::paced::Stall;

/// What a client still sends is read for so long, and so far: reset in the middle, it would never read the answer.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 4 << 20;
const PIECE: usize = 8 << 10;

/// Gives the whole answer for the status that hyper found.
pub(super) type Respond = Box<dyn Fn(u16) -> Vec<u8> + Send>;

/// A connection whose unreadable heads are answered by us.
pub(super) struct UnreadHead<T> {
    io: T,
    connection: Arc<OpenConnection>,
    /// All that hyper has written has left it: it flushes when its buffer is empty, and only then.
    is_flushed: bool,
    respond: Respond,
    answer: Option<Answer>,
}

#[derive(Default)]
struct Answer {
    bytes: Vec<u8>,
    written: usize,
    is_shut: bool,
    drained: usize,
    linger: Stall,
}

impl<T: Read + Write + Unpin> UnreadHead<T> {
    pub(super) fn new(io: T, connection: Arc<OpenConnection>, respond: Respond) -> Self {
        Self { io, connection, is_flushed: true, respond, answer: None }
    }

    /// Takes what hyper answers by itself; how many bytes that was.
    fn replace(&mut self, pieces: &[IoSlice<'_>]) -> Option<usize> {
        if !self.is_flushed || self.connection.wait().is_none() {
            self.is_flushed = false;
            return None;
        }
        let text: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        let Some(status) = status(&text) else {
            self.is_flushed = false;
            return None;
        };
        self.answer = Some(Answer { bytes: (self.respond)(status), ..Answer::default() });
        Some(text.len())
    }

    /// Answers a head that hyper refuses without an answer, and ends the connection.
    pub(super) async fn refuse(mut self) {
        // What hyper has not written yet is gone, and its end is no place for another answer.
        if self.is_flushed && self.answer.is_none() {
            self.answer = Some(Answer { bytes: (self.respond)(400), ..Answer::default() });
            drop(poll_fn(|cx| Pin::new(&mut self).poll_shutdown(cx)).await);
        }
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(answer) = &mut self.answer else { return Poll::Ready(Ok(())) };
        while answer.written < answer.bytes.len() {
            match ready!(Pin::new(&mut self.io).poll_write(cx, &answer.bytes[answer.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => answer.written += written,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads on until the client has ended, within bounds.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(answer) = &mut self.answer else { return Poll::Ready(()) };
        let mut piece = [MaybeUninit::uninit(); PIECE];
        loop {
            let mut read = ReadBuf::uninit(&mut piece);
            match Pin::new(&mut self.io).poll_read(cx, read.unfilled()) {
                Poll::Pending => return answer.linger.poll(cx, LINGER_TIMEOUT),
                Poll::Ready(Ok(())) if !read.filled().is_empty() && answer.drained < LINGER_BYTES => {
                    answer.drained += read.filled().len();
                }
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
    }
}

/// The status of an answer that is no more than a head and refuses.
fn status(text: &[u8]) -> Option<u16> {
    let rest = text.strip_prefix(b"HTTP/1.")?.get(2..)?;
    let status: u16 = std::str::from_utf8(rest.get(..3)?).ok()?.parse().ok()?;
    ((400..500).contains(&status) && text.ends_with(b"\r\n\r\n")).then_some(status)
}

impl<T: Read + Unpin> Read for UnreadHead<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: Read + Write + Unpin> Write for UnreadHead<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.replace(&[IoSlice::new(buf)]) {
            Some(taken) => Poll::Ready(Ok(taken)),
            None => Pin::new(&mut self.io).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.replace(bufs) {
            Some(taken) => Poll::Ready(Ok(taken)),
            None => Pin::new(&mut self.io).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_answer(cx))?;
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        self.is_flushed = true;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_answer(cx))?;
        if !self.answer.as_ref().is_some_and(|answer| answer.is_shut) {
            ready!(Pin::new(&mut self.io).poll_shutdown(cx))?;
        }
        if let Some(answer) = &mut self.answer {
            answer.is_shut = true;
        }
        self.poll_linger(cx).map(Ok)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http::Response;
    use http_body_util::{BodyExt as _, Full};
    use hyper::{body::Incoming, server::conn::http1, service::service_fn};
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::server::idle_timer::IdleTimer;

    const OURS: &str = "HTTP/1.1 400 Bad Request\r\nours: yes\r\n\r\n{}";
    /// A body that reads as hyper's own refusal.
    const REFUSAL: &str = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    const GOOD: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    const LAST: &str = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

    /// All that comes back for these bytes, over a connection that holds `room` bytes, when every request is answered
    /// with `body`.
    async fn exchange(room: usize, sent: &str, body: &'static str) -> String {
        let (client, server) = tokio::io::duplex(room);
        let connection = Arc::new(OpenConnection::new(None, None));
        let io = UnreadHead::new(TokioIo::new(server), Arc::clone(&connection), Box::new(|_| OURS.as_bytes().to_vec()));
        let service = service_fn(move |request: http::Request<Incoming>| async move {
            let _ = request.into_body().collect().await;
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(body.as_bytes()))))
        });
        let mut http = http1::Builder::new();
        let http = http.timer(IdleTimer::new(connection)).header_read_timeout(Duration::from_secs(30));
        let serve = http.serve_connection(io, service);
        let talk = async move {
            let (mut read, mut write) = tokio::io::split(client);
            let mut response = String::new();
            let (sent, read) = tokio::join!(write.write_all(sent.as_bytes()), read.read_to_string(&mut response));
            sent.and(read).unwrap();
            response
        };
        tokio::join!(serve, talk).1
    }

    #[tokio::test]
    async fn a_bad_head_is_refused_in_our_words_wherever_it_stands() {
        let post = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nbody".to_owned();
        let large: &'static str = "x".repeat(100_000).leak();
        for room in [64, 1 << 20] {
            for body in ["", "short", REFUSAL, large] {
                for before in ["".to_owned(), GOOD.to_owned(), GOOD.repeat(20), post.clone(), GOOD.to_owned() + &post] {
                    let response = exchange(room, &format!("{before}GARBAGE\r\n\r\n"), body).await;
                    let answers = before.matches("host").count();
                    assert_eq!(response.matches("HTTP/1.1 200 OK").count(), answers, "{response}");
                    assert_eq!(response.matches("ours: yes").count(), 1, "{room} {before} {response}");
                    assert!(response.ends_with(OURS), "{response}");
                }
            }
        }
    }

    #[tokio::test]
    async fn an_answer_that_reads_like_a_refusal_is_left_as_it_is() {
        for room in [64, 1 << 20] {
            let response = exchange(room, &format!("{GOOD}{LAST}"), REFUSAL).await;
            assert_eq!(response.matches(REFUSAL).count(), 2, "{response}");
            assert!(!response.contains("ours"), "{response}");
        }
    }
}
