//! Being asked to end: Ctrl+C, `kill`, a terminal that is closed.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// From here on such a signal does not end this process by itself.
pub(super) struct Stop([Signal; 3]);

impl Stop {
    /// Within a runtime.
    pub(super) fn listen() -> anyhow::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hangup] = kinds.map(signal);
        let context = "installing signal handlers";
        Ok(Self([interrupt.context(context)?, terminate.context(context)?, hangup.context(context)?]))
    }

    pub(super) async fn requested(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
