//! What an upgraded connection becomes: bytes both ways, until one side ends it, nothing moves for too long, or the
//! host goes down.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::sync::CancellationToken;

use crate::http::error::ApiError;
use cardinal_base::{codes, request_id::RequestId};

/// Open at a time. Each holds two connections.
const TUNNELS: u32 = 4096;
/// Bytes that may be under way in either direction.
const BUFFER: usize = 16 * 1024;
const BUSY_RETRY: u32 = 1;
/// How long tunnels that were told to close are waited for.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The open tunnels.
pub(super) struct Tunnels {
    places: Arc<Semaphore>,
    close: CancellationToken,
}

/// The right to one tunnel.
pub(super) struct TunnelPermit(#[allow(dead_code)] OwnedSemaphorePermit);

impl Default for Tunnels {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(TUNNELS as usize)), close: CancellationToken::new() }
    }
}

impl Tunnels {
    pub(super) fn open(&self) -> usize {
        TUNNELS as usize - self.places.available_permits()
    }

    pub(super) fn place(&self) -> Result<TunnelPermit, ApiError> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map(TunnelPermit).map_err(|_| {
            ApiError::new(&codes::OVERLOADED).detail("Too many upgraded connections are open.").retry_after(BUSY_RETRY)
        })
    }

    /// Waits until all have ended, at `deadline` by closing them.
    pub(super) async fn drain(&self, deadline: Instant) {
        let all_ended = || self.places.acquire_many(TUNNELS);
        if tokio::time::timeout_at(deadline.into(), all_ended()).await.is_err() {
            tracing::info!(tunnels = self.open(), "closing the upgraded connections that are still open");
            self.close.cancel();
            // They end with their next breath; a place may also be held by a request whose upstream is still thinking.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, all_ended()).await;
        }
    }

    /// Carries bytes between the two once both have changed their protocol.
    pub(super) fn carry(
        &self,
        client: OnUpgrade,
        upstream: OnUpgrade,
        idle: Duration,
        place: TunnelPermit,
        request_id: RequestId,
    ) {
        let close = self.close.clone();
        tokio::spawn(async move {
            let started = Instant::now();
            let moved = TunnelBytes::default();
            let end = tokio::select! {
                end = carry(client, upstream, &moved) => end.err().map_or("closed", |_| "broken off"),
                () = silence(&moved, idle) => "idle",
                () = close.cancelled() => "shutdown",
            };
            let (to_upstream, to_client) = (moved.up.load(Ordering::Relaxed), moved.down.load(Ordering::Relaxed));
            let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            let request_id = request_id.as_str();
            tracing::info!(target: "cardinal::access", request_id, end, ms, to_upstream, to_client, "upgraded connection ended");
            drop(place);
        });
    }
}

/// Bytes so far.
#[derive(Default)]
struct TunnelBytes {
    up: AtomicU64,
    down: AtomicU64,
}

async fn carry(client: OnUpgrade, upstream: OnUpgrade, moved: &TunnelBytes) -> anyhow::Result<()> {
    let (client, upstream) = tokio::try_join!(client, upstream)?;
    let (from_client, to_client) = tokio::io::split(TokioIo::new(client));
    let (from_upstream, to_upstream) = tokio::io::split(TokioIo::new(upstream));
    tokio::try_join!(pump(from_client, to_upstream, &moved.up), pump(from_upstream, to_client, &moved.down))?;
    Ok(())
}

/// One direction: no more is read than has been written, and the end of the one ends the other.
async fn pump(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, moved: &AtomicU64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
        moved.fetch_add(read as u64, Ordering::Relaxed);
    }
}

/// Ends once nothing has moved for `idle`, or up to twice as long.
async fn silence(moved: &TunnelBytes, idle: Duration) {
    let total = || moved.up.load(Ordering::Relaxed).wrapping_add(moved.down.load(Ordering::Relaxed));
    let mut before = total();
    loop {
        tokio::time::sleep(idle).await;
        let now = total();
        if now == before {
            return;
        }
        before = now;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_end_in_one_direction_leaves_the_other_open() {
        let (mut client, near) = tokio::io::duplex(64);
        let (far, mut upstream) = tokio::io::duplex(64);
        let (near_read, near_write) = tokio::io::split(near);
        let (far_read, far_write) = tokio::io::split(far);
        let moved = TunnelBytes::default();
        let both = async {
            tokio::try_join!(pump(near_read, far_write, &moved.up), pump(far_read, near_write, &moved.down)).unwrap();
        };
        let talk = async {
            client.write_all(b"question").await.unwrap();
            client.shutdown().await.unwrap();
            let mut received = String::new();
            upstream.read_to_string(&mut received).await.unwrap();
            assert_eq!(received, "question");
            upstream.write_all(b"answer").await.unwrap();
            upstream.shutdown().await.unwrap();
            received.clear();
            client.read_to_string(&mut received).await.unwrap();
            assert_eq!(received, "answer");
        };
        tokio::join!(both, talk);
        assert_eq!((moved.up.into_inner(), moved.down.into_inner()), (8, 6));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_counted_from_the_last_byte() {
        let moved = TunnelBytes::default();
        let idle = Duration::from_secs(60);
        let started = tokio::time::Instant::now();
        let talk = async {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(50)).await;
                moved.up.fetch_add(1, Ordering::Relaxed);
            }
        };
        tokio::join!(talk, silence(&moved, idle));
        let took = started.elapsed().as_secs();
        assert!((560..=620).contains(&took), "{took} s");
    }
}
