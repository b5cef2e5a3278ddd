//! What a client's open stream waits for besides messages: that the tools it sees change, that it may no longer read, and
//! that the host goes away.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, stream};
use http_body::Frame;
use http_body_util::{BodyExt, combinators::BoxBody};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::sessions::{Session, Use};
use crate::{
    app::App,
    request::{Credential, RECHECK_RIGHTS},
};
use cardinal_base::scope;
use cardinal_identity::auth::caller::SharedCaller;

/// A plugin's swap publishes several snapshots in a row; clients hear of the last.
const SETTLE: Duration = Duration::from_millis(250);
const LIST_CHANGED: &[u8] =
    b"event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";

/// What a stream has to act on.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// The client sees other tools than it last heard of.
    ToolsChanged,
    /// The credential is refused by now, or the host stops.
    Ended,
}

/// One open stream's watch. [`Watch::news`] may be dropped at any await and asked again.
pub struct Watch {
    app: Arc<App>,
    credential: Credential,
    caller: SharedCaller,
    changes: watch::Receiver<u64>,
    stop: CancellationToken,
    next_check: Instant,
    /// Something has changed; the tools were not compared since.
    is_stale: bool,
}

impl Watch {
    pub fn new(app: Arc<App>, credential: Credential, caller: SharedCaller, stop: CancellationToken) -> Self {
        let changes = app.plugins.changes();
        let next_check = Instant::now() + RECHECK_RIGHTS;
        // The tools may have changed since the client listed them.
        Self { app, credential, caller, changes, stop, next_check, is_stale: true }
    }

    /// Waits for the next. `view` is what the tools looked like when the client last heard of them; of several streams
    /// of a session one alone gets the news.
    pub async fn news(&mut self, view: &AtomicU64) -> News {
        loop {
            if self.is_stale {
                let now = self.app.mcp.view(&self.caller);
                self.is_stale = false;
                if view.swap(now, Ordering::Relaxed) != now {
                    return News::ToolsChanged;
                }
            }
            tokio::select! {
                () = self.stop.cancelled() => return News::Ended,
                changed = self.changes.changed() => {
                    if changed.is_err() {
                        return News::Ended;
                    }
                    self.is_stale = true;
                    sleep(SETTLE).await;
                }
                () = sleep_until(self.next_check) => {
                    if !self.may_go_on().await {
                        return News::Ended;
                    }
                }
            }
        }
    }

    /// Looks at the caller's rights again.
    async fn may_go_on(&mut self) -> bool {
        let identified = self.credential.identify(&self.app).await;
        self.next_check = Instant::now() + RECHECK_RIGHTS;
        match identified {
            Ok(caller) => {
                self.is_stale |= caller.scopes != self.caller.scopes;
                self.caller = caller;
                self.caller.holds(scope::MCP_USE)
            }
            // Nobody can say until the database is back.
            Err(error) => !error.status().is_client_error(),
        }
    }
}

/// The stream of a session that its client has opened with GET: what the protocol library sends, and our news between it.
pub fn frames(
    body: BoxBody<Bytes, Infallible>,
    session: Arc<Session>,
    watch: Watch,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + 'static {
    let begun = session.begin_use();
    let open = OpenStream { body, session, watch, _use: begun };
    stream::unfold(open, async |mut open| open.next().await.map(|frame| (Ok(frame), open)))
}

struct OpenStream {
    body: BoxBody<Bytes, Infallible>,
    session: Arc<Session>,
    watch: Watch,
    _use: Use,
}

impl OpenStream {
    /// Each frame of the protocol library's is a whole event, so ours may stand between any two.
    async fn next(&mut self) -> Option<Frame<Bytes>> {
        tokio::select! {
            biased;
            () = self.session.ended.cancelled() => None,
            frame = self.body.frame() => match frame? {
                Ok(frame) => Some(frame),
                Err(never) => match never {},
            },
            news = self.watch.news(&self.session.view) => match news {
                News::ToolsChanged => Some(Frame::data(Bytes::from_static(LIST_CHANGED))),
                News::Ended => None,
            },
        }
    }
}
