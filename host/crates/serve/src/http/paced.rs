//! A connection whose other end must take what it is sent: hyper itself waits for ever for a reader that stands still.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::time::{Instant, Sleep, sleep};

/// Bounds how long nothing at all can be written; each byte that is taken starts the time anew.
pub(crate) struct WriteTimeout<T> {
    io: T,
    limit: Duration,
    stall: Stall,
    stalled: Arc<AtomicBool>,
}

impl<T> WriteTimeout<T> {
    pub(crate) fn new(io: T, limit: Duration) -> Self {
        Self { io, limit, stall: Stall::default(), stalled: Arc::default() }
    }

    /// Whether bytes wait for the other end now.
    pub(crate) fn stalled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stalled)
    }

    fn bound<R>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if written.is_ready() {
            if self.stall.is_running() {
                self.stall.over();
                self.stalled.store(false, Ordering::Relaxed);
            }
            return written;
        }
        self.stalled.store(true, Ordering::Relaxed);
        match self.stall.poll(cx, self.limit) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// How long something has stood still. Costs nothing while it moves.
#[derive(Default)]
pub(crate) struct Stall {
    timer: Option<Pin<Box<Sleep>>>,
    running: bool,
}

impl Stall {
    pub(crate) fn is_running(&self) -> bool {
        self.running
    }

    /// It moves again.
    pub(crate) fn over(&mut self) {
        self.running = false;
    }

    /// It stands still; ready once it has for `limit`.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, limit: Duration) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        if !self.running {
            self.running = true;
            timer.as_mut().reset(Instant::now() + limit);
        }
        timer.as_mut().poll(cx)
    }
}

impl<T: Read + Unpin> Read for WriteTimeout<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: Write + Unpin> Write for WriteTimeout<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.bound(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.bound(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.io).poll_shutdown(cx);
        self.bound(cx, shut)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.bound(cx, written)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stands_still_is_given_up() {
        let (near, _far) = tokio::io::duplex(1024);
        let mut near = TokioIo::new(WriteTimeout::new(TokioIo::new(near), LIMIT));
        let started = Instant::now();
        let error = near.write_all(&[0; 4096]).await.unwrap_err();
        assert_eq!((error.kind(), started.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_waited_for() {
        let (near, mut far) = tokio::io::duplex(1024);
        let mut near = TokioIo::new(WriteTimeout::new(TokioIo::new(near), LIMIT));
        let reader = tokio::spawn(async move {
            let mut buffer = [0; 512];
            for _ in 0..8 {
                tokio::time::sleep(LIMIT - Duration::from_secs(1)).await;
                far.read_exact(&mut buffer).await.unwrap();
            }
        });
        near.write_all(&[0; 4096]).await.unwrap();
        reader.await.unwrap();
    }
}
