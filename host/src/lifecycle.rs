//! The worker's life.

use std::net::TcpListener;

use anyhow::Context as _;

use crate::link::{KeeperLink, WorkerStart};

/// Lives until the keeper wants it to drain.
///
/// # Errors
/// The runtime cannot be started, or the keeper is gone.
pub fn run_worker(_start: WorkerStart, link: KeeperLink, _listeners: Vec<TcpListener>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(async {
        link.ready().context("telling the keeper")?;
        link.drained().await;
        Ok(())
    })
}
