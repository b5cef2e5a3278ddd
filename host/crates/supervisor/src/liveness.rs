//! Whether the worker serves, asked the way that its clients ask: a connection to the public socket, and `GET /healthz`
//! on it. A worker may say on its own pipe that it is alive and still accept no connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::process_stat::ProcessStat;
use cardinal_control::crash::record::WorkerStall;

/// How often the worker is asked.
const PROBE_PAUSE: Duration = Duration::from_secs(1);
/// How long one answer may take; another connection is tried then.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// What probes have to say and nobody has heard yet.
const NOTES: usize = 8;
/// What every answer begins with, whatever its status: a worker that answers serves.
const ANSWER: &[u8] = b"HTTP/1.1 ";

/// How far a probe came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// The system has connected it to the public socket, so nothing keeps the supervisor from there.
    Connected,
    /// The worker has answered.
    Answered,
}

/// Asks until it is dropped.
pub(crate) struct Liveness {
    probes: mpsc::Receiver<Probe>,
    asking: JoinHandle<()>,
}

impl Liveness {
    pub(crate) fn watch(listener: SocketAddr) -> Self {
        let (note, probes) = mpsc::channel(NOTES);
        let address = reachable(listener);
        let asking = tokio::spawn(async move {
            loop {
                tokio::time::sleep(PROBE_PAUSE).await;
                let connected = || drop(note.try_send(Probe::Connected));
                match tokio::time::timeout(PROBE_TIMEOUT, ask(address, connected)).await {
                    Ok(Ok(true)) => drop(note.try_send(Probe::Answered)),
                    outcome => tracing::debug!(%address, ?outcome, "the worker did not answer a probe"),
                }
            }
        });
        Self { probes, asking }
    }

    /// Resolves when a probe has come so far.
    pub(crate) async fn next(&mut self) -> Probe {
        match self.probes.recv().await {
            Some(probe) => probe,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Liveness {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

/// A listener on all addresses is asked on this machine's own.
fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}

async fn ask(address: SocketAddr, connected: impl FnOnce()) -> std::io::Result<bool> {
    let mut connection = TcpStream::connect(address).await?;
    connected();
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut begin = [0; ANSWER.len()];
    connection.read_exact(&mut begin).await?;
    Ok(begin == ANSWER)
}

/// How a process that does not answer stands.
pub(crate) fn standstill(process: Option<u32>) -> WorkerStall {
    let state = process.and_then(ProcessStat::from_pid).map(|process| process.state);
    if matches!(state, Some('T' | 't')) { WorkerStall::Stopped } else { WorkerStall::Silent }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_asked_on_this_machine() {
        for (listener, expected) in
            [("0.0.0.0:80", "127.0.0.1:80"), ("[::]:80", "[::1]:80"), ("192.0.2.1:80", "192.0.2.1:80")]
        {
            assert_eq!(reachable(listener.parse().unwrap()), expected.parse().unwrap());
        }
    }

    #[tokio::test]
    async fn who_accepts_and_says_nothing_has_not_answered() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (silent, _) = tokio::join!(ask(address, || {}), async { drop(listener.accept().await) });
        assert!(silent.is_err());
        let answer = async {
            let (mut connection, _) = listener.accept().await.unwrap();
            connection.read_exact(&mut [0; 4]).await.unwrap();
            connection.write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n").await.unwrap();
            connection.read_to_end(&mut Vec::new()).await
        };
        assert!(tokio::join!(ask(address, || {}), answer).0.unwrap());
    }
}
