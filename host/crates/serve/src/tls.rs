//! TLS on a listener. The supervisor is asked for certificate and key again and again, so that a renewal needs no
//! restart.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use time::OffsetDateTime;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use cardinal_base::{
    clock::Clock,
    config::{Certificate, HANDSHAKE_RECORD, Validity},
};
use cardinal_control::link::{SupervisorLink, TlsReading};

/// A client has this long to agree on keys.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The supervisor is asked at most so often.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// For its answer; meanwhile one client waits.
const READ_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the log says that the certificate will not do for long, or does no more.
const EXPIRY_REPEAT: time::Duration = time::Duration::DAY;

/// How a connection to a TLS listener begins.
pub enum AcceptedStream {
    Encrypted(Box<TlsStream<TcpStream>>),
    /// It speaks HTTP in clear.
    InClear(TcpStream),
}

/// The certificate of the listeners.
pub struct Tls {
    supervisor: SupervisorLink,
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    /// None while there has been no certificate: no client comes in then, and all else goes on.
    acceptor: Option<TlsAcceptor>,
    certificate: Option<Certificate>,
    /// When the log said of it last that it expires or has expired.
    warned_at: Option<OffsetDateTime>,
    /// What the supervisor said last.
    latest: TlsReading,
    looked_at: Instant,
}

impl Tls {
    pub async fn new(supervisor: SupervisorLink, clock: Clock) -> Self {
        let tls = Self { supervisor, clock, state: Mutex::new(State::new(Instant::now())) };
        tls.read_again().await;
        tls
    }

    /// That which is in force.
    pub fn certificate(&self) -> Option<Certificate> {
        self.state.lock().certificate.clone()
    }

    /// Agrees on keys with whoever connected.
    ///
    /// # Errors
    /// The client has gone, is too slow or speaks no TLS that is spoken here.
    pub async fn open(&self, stream: TcpStream) -> io::Result<AcceptedStream> {
        let opening = async {
            let mut first = [0];
            if stream.peek(&mut first).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if first[0] != HANDSHAKE_RECORD {
                return Ok(AcceptedStream::InClear(stream));
            }
            let acceptor = self.acceptor(Instant::now()).await;
            let acceptor = acceptor.ok_or_else(|| io::Error::other("there is no certificate"))?;
            Ok(AcceptedStream::Encrypted(Box::new(acceptor.accept(stream).await?)))
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
        match tokio::time::timeout(READ_TIMEOUT, self.supervisor.read_tls()).await {
            Ok(Ok(read)) => {
                let mut state = self.state.lock();
                state.take(read);
                state.warn_of_expiry(self.clock.now());
            }
            // It is busy, or this worker is about to end; the old certificate does until then.
            unanswered => tracing::debug!(?unanswered, "the supervisor did not say which certificate is in force"),
        }
    }
}

impl State {
    fn new(now: Instant) -> Self {
        let latest = TlsReading { pair: None, problem: None };
        Self { acceptor: None, certificate: None, warned_at: None, latest, looked_at: now }
    }

    /// Whether it is time to look at the files. One caller alone is told so.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now.saturating_duration_since(self.looked_at) >= LOOK_PAUSE;
        if is_due {
            self.looked_at = now;
        }
        is_due
    }

    fn take(&mut self, read: TlsReading) {
        if read == self.latest {
            return;
        }
        // Two files are seldom replaced at once: when the second has been, they are read again.
        if let Some(problem) = &read.problem
            && read.problem != self.latest.problem
        {
            let serves = if read.pair.is_some() { "the certificate from before" } else { "none" };
            tracing::error!(problem, serves, "the TLS files cannot be used");
        }
        if let Some(pair) = &read.pair
            && read.pair != self.latest.pair
        {
            match pair.server_config() {
                Ok(config) => {
                    self.acceptor = Some(TlsAcceptor::from(Arc::new(config)));
                    self.certificate = pair.certificate();
                    self.warned_at = None;
                    let expires_at = self.certificate.as_ref().map(|certificate| certificate.dates()[1].clone());
                    tracing::info!(expires_at, "a TLS certificate is in force");
                }
                Err(error) => tracing::error!(%error, "the TLS files cannot be used"),
            }
        }
        self.latest = read;
    }

    fn warn_of_expiry(&mut self, now: OffsetDateTime) {
        let Some(certificate) = &self.certificate else { return };
        if self.warned_at.is_some_and(|at| now - at < EXPIRY_REPEAT) {
            return;
        }
        let [begins_at, expires_at] = certificate.dates();
        match certificate.validity(now) {
            Validity::Valid => return,
            Validity::ExpiresSoon => tracing::warn!(expires_at, "the TLS certificate expires soon and was not renewed"),
            Validity::Expired => tracing::error!(expires_at, "the TLS certificate has expired: clients refuse it"),
            Validity::NotYet => tracing::error!(begins_at, "the TLS certificate is not yet valid: clients refuse it"),
        }
        self.warned_at = Some(now);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use cardinal_base::config::{TlsFiles, TlsPair};

    use super::*;

    fn pair(name: &str) -> Option<TlsPair> {
        let folder = tempfile::tempdir().unwrap();
        let file = |kind: &str| {
            let path = folder.path().join(kind);
            fs::copy(format!("{}/../base/tests/tls/{name}.{kind}.pem", env!("CARGO_MANIFEST_DIR")), &path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path
        };
        Some(TlsFiles { cert: file("crt"), key: file("key") }.read().unwrap())
    }

    #[test]
    fn it_is_time_to_look_once_a_second_for_one_caller() {
        let begun = Instant::now();
        let mut state = State::new(begun);
        assert!(!state.is_due(begun + LOOK_PAUSE / 2));
        assert!(state.is_due(begun + LOOK_PAUSE) && !state.is_due(begun + LOOK_PAUSE));
        assert!(!state.is_due(begun), "a clock that goes backwards harms nothing");
        assert!(state.is_due(begun + LOOK_PAUSE * 2));
    }

    #[test]
    fn another_pair_is_another_certificate() {
        let mut state = State::new(Instant::now());
        let problem = || Some("TLS_KEY: the file is a folder".to_owned());
        state.take(TlsReading { pair: None, problem: problem() });
        assert!(state.acceptor.is_none());
        let first = pair("self-signed");
        state.take(TlsReading { pair: first.clone(), problem: None });
        let config = |state: &State| Arc::clone(state.acceptor.as_ref().unwrap().config());
        let begun = config(&state);
        for problem in [problem(), None] {
            state.take(TlsReading { pair: first.clone(), problem });
            assert!(Arc::ptr_eq(&config(&state), &begun));
        }
        state.take(TlsReading { pair: pair("other"), problem: None });
        assert!(!Arc::ptr_eq(&config(&state), &begun));
    }
}
