//! TLS on a listener. Certificate and key are read again when their files change, so that a renewal needs no restart.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use cardinal_base::config::TlsPair;
use cardinal_control::link::SupervisorLink;

/// A client has this long to agree on keys.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The files are looked at at most so often.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// The first byte of a client that speaks TLS: the type of the record that its handshake begins with.
const HANDSHAKE_RECORD: u8 = 22;

/// How a connection to a TLS listener begins.
pub(super) enum Opening {
    Encrypted(Box<TlsStream<TcpStream>>),
    /// It speaks HTTP in clear.
    InClear(TcpStream),
}

/// The certificate of the listeners.
pub struct Tls {
    supervisor: SupervisorLink,
    state: Mutex<State>,
}

struct State {
    /// None while the files have never been good: no client comes in then, and all else goes on.
    acceptor: Option<TlsAcceptor>,
    /// What was read last, whether it was good or not.
    latest: Result<TlsPair, String>,
    looked_at: Instant,
}

impl Tls {
    pub async fn new(supervisor: SupervisorLink) -> Self {
        let state = State { acceptor: None, latest: Err(String::new()), looked_at: Instant::now() };
        let tls = Self { supervisor, state: Mutex::new(state) };
        tls.read_again().await;
        tls
    }

    /// Agrees on keys with whoever connected.
    ///
    /// # Errors
    /// The client has gone, is too slow or speaks no TLS that is spoken here.
    pub(super) async fn open(&self, stream: TcpStream) -> io::Result<Opening> {
        let opening = async {
            let mut first = [0];
            if stream.peek(&mut first).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if first[0] != HANDSHAKE_RECORD {
                return Ok(Opening::InClear(stream));
            }
            let acceptor = self.acceptor(Instant::now()).await;
            let acceptor = acceptor.ok_or_else(|| io::Error::other("there is no certificate"))?;
            Ok(Opening::Encrypted(Box::new(acceptor.accept(stream).await?)))
        };
        tokio::time::timeout(HANDSHAKE_TIMEOUT, opening).await?
    }

    /// With the certificate that lies there now. Whoever finds that it is time to look waits for that, nobody else.
    async fn acceptor(&self, now: Instant) -> Option<TlsAcceptor> {
        if self.state.lock().is_due(now) {
            self.read_again().await;
        }
        self.state.lock().acceptor.clone()
    }

    async fn read_again(&self) {
        let read = self.supervisor.read_tls().await.map_err(|error| error.to_string());
        self.state.lock().take(read);
    }
}

impl State {
    /// Whether it is time to look at the files. One caller alone is told so.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now.saturating_duration_since(self.looked_at) >= LOOK_PAUSE;
        if is_due {
            self.looked_at = now;
        }
        is_due
    }

    fn take(&mut self, read: Result<TlsPair, String>) {
        if read == self.latest {
            return;
        }
        self.latest = read;
        let config = self.latest.as_ref().map_err(Clone::clone);
        match config.and_then(|pair| pair.server_config().map_err(|error| error.to_string())) {
            Ok(config) => {
                self.acceptor = Some(TlsAcceptor::from(Arc::new(config)));
                tracing::info!("a TLS certificate is in force");
            }
            // Two files are seldom replaced at once: when the second has been, they are read again.
            Err(error) => tracing::error!(error, "the TLS files cannot be used; a certificate in force stays so"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cardinal_base::config::TlsFiles;

    use super::*;

    fn read(cert: &str, key: &str) -> Result<TlsPair, String> {
        let file = |name| format!("{}/../base/tests/tls/{name}.pem", env!("CARGO_MANIFEST_DIR")).into();
        let files = TlsFiles { cert: file(format!("{cert}.crt")), key: file(format!("{key}.key")) };
        files.read().map_err(|error| error.to_string())
    }

    fn state(now: Instant) -> State {
        State { acceptor: None, latest: Err(String::new()), looked_at: now }
    }

    #[test]
    fn it_is_time_to_look_once_a_second_for_one_caller() {
        let begun = Instant::now();
        let mut state = state(begun);
        assert!(!state.is_due(begun + LOOK_PAUSE / 2));
        assert!(state.is_due(begun + LOOK_PAUSE) && !state.is_due(begun + LOOK_PAUSE));
        assert!(!state.is_due(begun), "a clock that goes backwards harms nothing");
        assert!(state.is_due(begun + LOOK_PAUSE * 2));
    }

    #[test]
    fn what_cannot_be_used_leaves_the_old_certificate() {
        let mut state = state(Instant::now());
        state.take(read("nowhere", "nowhere"));
        assert!(state.acceptor.is_none());
        state.take(read("self-signed", "self-signed"));
        let first = Arc::clone(state.acceptor.as_ref().unwrap().config());
        let is_first = |state: &State| Arc::ptr_eq(state.acceptor.as_ref().unwrap().config(), &first);
        for other in [read("self-signed", "self-signed"), read("other", "self-signed"), read("nowhere", "other")] {
            state.take(other);
            assert!(is_first(&state));
        }
        state.take(read("other", "other"));
        assert!(!is_first(&state));
    }
}
