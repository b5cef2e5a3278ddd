//! Who may talk to the host through `DATA_DIR/cardinal.sock`. The supervisor accepts there and reads the token itself:
//! neither the listening socket nor a token is ever in the worker, whose plugins' native code could take it. A
//! connection that began with the token is handed over to the worker that serves.

use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use crate::lines::{Bucket, Rate};
use cardinal_base::{
    codes::{self, Code},
    raw_answer,
    request_id::RequestId,
};
use cardinal_control::local_socket::{HandoverSender, TokenHash};

/// Connections that have not shown the token yet. The oldest gives way to a new one: a command shows it at once.
const MAX_ARRIVING: usize = 64;
/// Connections that wait for a worker.
const MAX_WAITING: usize = 256;
/// A worker that ended is there again by then, as a rule; a command waits 60 seconds for its answer.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(30);
/// For writing the answer that no worker is there.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait after the listener failed (out of file descriptors, say) before trying again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Lines about connections that were turned away: a plugin's native code may connect as often as it likes.
const LOG_RATE: Rate = Rate { burst: 10.0, per_second: 0.2 };

type CurrentWorker = Option<Arc<HandoverSender>>;

/// Accepts until it is dropped.
#[derive(Debug)]
pub struct LocalListener {
    worker: watch::Sender<CurrentWorker>,
    accepting: AbortHandle,
}

impl LocalListener {
    /// # Errors
    /// The listener cannot be watched.
    pub(crate) fn start(listener: StdUnixListener, token: TokenHash, base_url: &str) -> io::Result<Self> {
        let listener = UnixListener::from_std(listener)?;
        let (worker, current) = watch::channel(None);
        let admission = Admission {
            token,
            base_url: base_url.to_owned(),
            worker: current,
            places: Semaphore::new(MAX_WAITING),
            log: Mutex::new(Bucket::new(LOG_RATE, Instant::now())),
        };
        let accepting = tokio::spawn(accept_all(listener, Arc::new(admission))).abort_handle();
        Ok(Self { worker, accepting })
    }

    /// Where connections go from now on; without a worker they wait for the next.
    pub(crate) fn hand_over_to(&self, worker: Option<HandoverSender>) {
        self.worker.send_replace(worker.map(Arc::new));
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

struct Admission {
    token: TokenHash,
    base_url: String,
    worker: watch::Receiver<CurrentWorker>,
    places: Semaphore,
    log: Mutex<Bucket>,
}

async fn accept_all(listener: UnixListener, admission: Arc<Admission>) {
    let mut arriving: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                arriving.retain(|task| !task.is_finished());
                if arriving.len() == MAX_ARRIVING
                    && let Some(oldest) = arriving.pop_front()
                {
                    oldest.abort();
                }
                arriving.push_back(tokio::spawn(Arc::clone(&admission).admit(stream)).abort_handle());
            }
            Err(error) => {
                admission.log_limited(&format!("accepting a connection to the local socket failed: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

impl Admission {
    /// Lets this host's own user and root in, with the token. Others get no answer.
    async fn admit(self: Arc<Self>, mut stream: UnixStream) {
        let Ok(peer) = stream.peer_cred() else { return };
        let own = rustix::process::geteuid().as_raw();
        if peer.uid() != own && peer.uid() != 0 {
            return self.log_limited(&format!("user {} connected to the local socket and was turned away", peer.uid()));
        }
        if !self.token.admits(&mut stream).await {
            return self
                .log_limited("a connection to the local socket did not begin with its token and was turned away");
        }
        // A task of its own, which does not give way to connections without a token.
        tokio::spawn(self.pass_on(stream));
    }

    async fn pass_on(self: Arc<Self>, stream: UnixStream) {
        let Ok(_place) = self.places.try_acquire() else { return self.refuse(stream, &codes::STARTING).await };
        match tokio::time::timeout(HANDOVER_TIMEOUT, self.hand_over(&stream)).await {
            Ok(true) => {}
            Ok(false) => self.refuse(stream, &codes::DRAINING).await,
            Err(_) => self.refuse(stream, &codes::STARTING).await,
        }
    }

    /// `false` when the host stops first.
    async fn hand_over(&self, stream: &UnixStream) -> bool {
        let mut worker = self.worker.clone();
        loop {
            let Ok(current) = worker.wait_for(Option::is_some).await.map(|current| current.clone()) else {
                return false;
            };
            let Some(sender) = current else { continue };
            if sender.send(stream).await.is_ok() {
                return true;
            }
            // That worker has ended, and the supervisor is about to notice.
            if worker.changed().await.is_err() {
                return false;
            }
        }
    }

    /// The whole answer, to whatever is asked.
    async fn refuse(&self, mut stream: UnixStream, code: &'static Code) {
        let request_id = RequestId::from_headers(&http::HeaderMap::new());
        let problem = code.problem(&self.base_url, request_id.as_str());
        let answer = raw_answer::problem(code.status(), request_id.as_str(), &problem);
        let written = tokio::time::timeout(REFUSAL_TIMEOUT, stream.write_all(&answer)).await;
        tracing::debug!(?written, "no worker took a connection to the local socket");
    }

    fn log_limited(&self, message: &str) {
        let mut bucket = self.log.lock();
        if bucket.admit(Instant::now()) {
            let earlier = bucket.take_dropped();
            tracing::warn!(not_logged_before = earlier, "{message}");
        }
    }
}
