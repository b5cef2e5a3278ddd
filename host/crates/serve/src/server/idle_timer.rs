//! The timer that bounds how long a connection waits for a request's headers.
//!
//! hyper makes a sleep before every request and drops it when the headers are there. Entering and leaving the runtime's
//! timer wheel each time costs two locks that all threads share, so a connection keeps one entry in the wheel and only
//! moves it when it has fired and the wait still goes on.
//!
//! A sleep exists exactly while hyper waits for headers, and so says whether a request is under way.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use hyper::rt::{Sleep, Timer};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::open_connection::OpenConnection;

/// One connection's timer. Its sleeps are polled by the connection's own task, one at a time.
#[derive(Clone)]
pub(super) struct IdleTimer {
    armed: Arc<SleepSlot>,
    connection: Arc<OpenConnection>,
}

impl IdleTimer {
    pub(super) fn new(connection: Arc<OpenConnection>) -> Self {
        Self { armed: Arc::default(), connection }
    }
}

/// The connection's one entry in the runtime's wheel; made at the first wait.
type SleepSlot = Mutex<Option<Pin<Box<tokio::time::Sleep>>>>;

impl Timer for IdleTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        self.connection.head_awaited();
        let (armed, connection) = (Arc::clone(&self.armed), Arc::clone(&self.connection));
        Box::pin(Wait { deadline: deadline.into(), armed, connection })
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into_std()
    }
}

/// One wait for headers.
struct Wait {
    deadline: Instant,
    armed: Arc<SleepSlot>,
    connection: Arc<OpenConnection>,
}

impl Sleep for Wait {}

impl Drop for Wait {
    fn drop(&mut self) {
        self.connection.head_read();
    }
}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut armed = self.armed.lock();
        let Some(sleep) = armed.as_mut() else {
            let sleep = armed.insert(Box::pin(tokio::time::sleep_until(self.deadline)));
            return sleep.as_mut().poll(cx);
        };
        // An entry that is set for an earlier wait wakes this one too early, never too late: then it is moved.
        if !sleep.is_elapsed() {
            return Poll::Pending;
        }
        if self.deadline <= Instant::now() {
            return Poll::Ready(());
        }
        sleep.as_mut().reset(self.deadline);
        sleep.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_at_its_own_deadline_not_at_an_earlier_ones() {
        let timer = IdleTimer::new(Arc::new(OpenConnection::new(None, None)));
        // A first request, whose wait was begun and then dropped.
        let first = timer.sleep(LIMIT);
        assert!(tokio::time::timeout(LIMIT / 2, first).await.is_err());
        let started = Instant::now();
        timer.sleep(LIMIT).await;
        assert!(started.elapsed() >= LIMIT, "the second wait ended with the first one's entry");
        assert!(started.elapsed() < LIMIT * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_over_ends() {
        let timer = IdleTimer::new(Arc::new(OpenConnection::new(None, None)));
        timer.sleep_until(timer.now()).await;
        timer.sleep(Duration::from_millis(1)).await;
    }
}
