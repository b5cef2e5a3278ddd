//! What runs on a connection.

use std::sync::{Arc, atomic::Ordering};

use super::Connection;
use crate::fault::Fault;

/// Something that runs on a connection. Dropped before its end it is cancelled, and the connection
/// is closed when it is given back.
pub(super) struct Running {
    pub connection: Arc<Connection>,
    pub ended: bool,
}

impl Running {
    pub(super) fn finish<T>(mut self, outcome: Result<T, tokio_postgres::Error>) -> Result<T, Fault> {
        match outcome {
            Ok(value) => {
                self.ended = true;
                Ok(value)
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Ends with an error of the driver. Only the server's own errors leave the connection in a
    /// known state.
    pub(super) fn fail(mut self, error: tokio_postgres::Error) -> Fault {
        self.ended = true;
        if error.as_db_error().is_none() {
            self.connection.usage.discard.store(true, Ordering::SeqCst);
        }
        if error.is_closed() { Fault::Unavailable(error.into()) } else { Fault::Database(error) }
    }

    pub(super) fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let usage = &self.connection.usage;
        if !self.ended {
            usage.broken.store(true, Ordering::SeqCst);
            let session = self.connection.session.clone();
            self.connection.runtime.spawn(async move { session.cancel().await });
        }
        if usage.running.fetch_sub(1, Ordering::SeqCst) == 1 {
            usage.clock.stop();
        }
        if usage.running.load(Ordering::SeqCst) > 0 {
            usage.clock.next();
        }
        usage.one_ended.notify_waiters();
    }
}
