//! Answers for hyper where it could not read a request's head.
//!
//! hyper refuses such a request by itself, with a status line and an empty body, before anything of ours is asked. This
//! stands between hyper and the connection, knows that no request is under way when such an answer is written, and sends
//! a problem document in its place.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

use super::connections::OpenConnection;
use crate::http::paced::Stall;

/// What a client still sends is read for so long, and so far: reset in the middle, it would never read the answer.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 4 << 20;
const PIECE: usize = 8 << 10;

/// Gives the whole answer for the status that hyper found.
pub type Respond = Box<dyn Fn(u16) -> Vec<u8> + Send>;

/// A connection whose unreadable heads are answered by us.
pub struct UnreadHead<T> {
    io: T,
    connection: Arc<OpenConnection>,
    is_idle: Idle,
    respond: Respond,
    answer: Option<Answer>,
}

/// Whether all that was answered has been written and no further request was read.
#[derive(Clone)]
pub struct Idle(Arc<AtomicBool>);

impl Idle {
    /// A request is there.
    pub fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
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
    pub fn new(io: T, connection: Arc<OpenConnection>, respond: Respond) -> Self {
        Self { io, connection, is_idle: Idle(Arc::new(AtomicBool::new(true))), respond, answer: None }
    }

    pub fn idle(&self) -> Idle {
        self.is_idle.clone()
    }

    /// Takes what hyper answers by itself; how many bytes that was.
    fn replace(&mut self, pieces: &[IoSlice<'_>]) -> Option<usize> {
        if !self.is_idle.0.load(Ordering::Relaxed) {
            return None;
        }
        let text: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        let status = status(&text)?;
        self.answer = Some(Answer { bytes: (self.respond)(status), ..Answer::default() });
        Some(text.len())
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
                Poll::Pending => return answer.linger.poll(cx, LINGER),
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
        if self.connection.wait().is_some() {
            self.is_idle.0.store(true, Ordering::Relaxed);
        }
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
