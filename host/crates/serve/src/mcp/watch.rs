//! What a client's open stream waits for besides messages: that the tools it sees change, that it may no longer read,
//! and that the host goes away.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, stream};
use http_body::Frame;
use http_body_util::{BodyExt, combinators::BoxBody};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    Mcp,
    list_view::{ListChanges, SeenView},
    narrowing::Narrowing,
    sessions::{Session, Use},
};
use crate::call::{Credential, RECHECK_RIGHTS};
use cardinal_base::scope;
use cardinal_identity::auth::caller::SharedCaller;

/// A plugin's swap publishes several snapshots in a row; clients hear of the last.
const SETTLE: Duration = Duration::from_millis(250);
const TOOLS_CHANGED: &str =
    "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
const PROMPTS_CHANGED: &str =
    "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/prompts/list_changed\"}\n\n";

/// What a stream has to act on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    ListsChanged(ListChanges),
    /// The credential is refused by now, or the host stops.
    Ended,
}

/// While the database is away, and the stream waits.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// One open stream's watch over its caller's rights and view. It alone ends the stream; `revocable` leaves it be.
pub(super) struct Watch {
    mcp: Arc<Mcp>,
    credential: Credential,
    caller: SharedCaller,
    narrowing: Narrowing,
    tools: watch::Receiver<u64>,
    rights: watch::Receiver<()>,
    stop: CancellationToken,
    /// When to look at the rights again, though no change of them was heard of.
    next_check: Instant,
    /// The tools have changed, or may have; they are compared when this is over.
    settled_at: Option<Instant>,
}

impl Watch {
    pub(super) fn new(mcp: Arc<Mcp>, credential: Credential, caller: SharedCaller, narrowing: Narrowing) -> Self {
        let stop = mcp.server.stop().clone();
        let (tools, rights, now) = (mcp.server.tool_changes(), mcp.auth.rights_changes(), Instant::now());
        // Both may have changed since the request was let in, and since the client listed the tools.
        Self { mcp, credential, caller, narrowing, tools, rights, stop, next_check: now, settled_at: Some(now) }
    }

    /// Waits until [`Watch::news`] has something to look at; may be dropped and asked again.
    pub(super) async fn due(&mut self) {
        loop {
            let compare_at = self.settled_at;
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                _ = self.rights.changed() => {
                    self.next_check = Instant::now();
                    return;
                }
                () = sleep_until(self.next_check) => return,
                () = sleep_until(compare_at.unwrap_or(self.next_check)), if compare_at.is_some() => return,
                _ = self.tools.changed() => self.settled_at = Some(Instant::now() + SETTLE),
            }
        }
    }

    /// What has happened, perhaps nothing. Nothing else is sent meanwhile: the caller may have lost its rights. `view`
    /// is what the tools looked like when the client last heard of them; of several streams of a session one alone gets
    /// the news.
    pub(super) async fn news(&mut self, view: &SeenView) -> Option<News> {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => Some(News::Ended),
            news = self.look(view) => news,
        }
    }

    async fn look(&mut self, view: &SeenView) -> Option<News> {
        let now = Instant::now();
        if self.next_check <= now && !self.may_go_on().await {
            return Some(News::Ended);
        }
        if self.settled_at.is_some_and(|at| at <= now) {
            self.settled_at = None;
            return view.news(self.mcp.view(&self.caller, &self.narrowing)).map(News::ListsChanged);
        }
        None
    }

    /// Looks at the caller's rights, and waits while nobody can say what they are.
    async fn may_go_on(&mut self) -> bool {
        loop {
            self.rights.mark_unchanged();
            self.next_check = Instant::now() + RECHECK_RIGHTS;
            match self.credential.identify(&self.mcp.auth).await {
                Ok(caller) => {
                    let caller = self.narrowing.caller(&caller).into_owned();
                    if caller.scopes != self.caller.scopes {
                        self.settled_at = Some(Instant::now());
                    }
                    self.caller = caller;
                    return self.caller.holds(scope::MCP_USE);
                }
                Err(error) if error.status().is_client_error() => return false,
                Err(_) => sleep(RETRY_INTERVAL).await,
            }
        }
    }
}

/// The stream of a session that its client has opened with GET: our news between the events of `body`, which may be
/// those of the protocol library's session `inner`.
pub(super) fn frames(
    body: BoxBody<Bytes, Infallible>,
    inner: Option<Arc<str>>,
    session: Arc<Session>,
    watch: Watch,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + 'static {
    let held = (session.begin_use(), inner);
    let open = OpenStream { body, session, watch, has_ended: false, _held: held };
    stream::unfold(open, async |mut open| open.next().await.map(|frame| (Ok(frame), open)))
}

struct OpenStream {
    body: BoxBody<Bytes, Infallible>,
    session: Arc<Session>,
    watch: Watch,
    has_ended: bool,
    /// Both sessions stay in memory meanwhile.
    _held: (Use, Option<Arc<str>>),
}

impl OpenStream {
    /// The last of a stream that was displaced says when to open it again.
    fn end(&mut self) -> Option<Frame<Bytes>> {
        let wait = self.session.stays_away().filter(|_| !self.has_ended)?;
        self.has_ended = true;
        Some(Frame::data(format!("retry: {}\n\n", wait.as_millis()).into()))
    }

    /// Each frame of the body is a whole event, so ours may stand between any two.
    async fn next(&mut self) -> Option<Frame<Bytes>> {
        loop {
            tokio::select! {
                biased;
                () = self.session.ended.cancelled() => return self.end(),
                () = self.watch.due() => {}
                frame = self.body.frame() => return match frame? {
                    Ok(frame) => Some(frame),
                    Err(never) => match never {},
                },
            }
            match self.watch.news(&self.session.view).await {
                Some(News::ListsChanged(ListChanges { tools, prompts })) => {
                    let events = [(tools, TOOLS_CHANGED), (prompts, PROMPTS_CHANGED)];
                    let news: String = events.into_iter().filter(|(news, _)| *news).map(|(_, event)| event).collect();
                    return Some(Frame::data(news.into()));
                }
                Some(News::Ended) => return None,
                None => {}
            }
        }
    }
}
