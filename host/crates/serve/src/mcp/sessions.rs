//! Sessions of the revisions that have them. All that one is made of stands sealed in its id and opens for its owner
//! alone, so it outlives the worker and is good at every host of the database. What the protocol library holds of a
//! session is made when a tool call needs it and ended soon after; no client notices.

mod call_ids;
mod displaced_streams;
mod library_sessions;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rmcp::{
    model::{Implementation, InitializeRequestParams},
    transport::streamable_http_server::session::{SessionManager, local::LocalSessionManager},
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(super) use self::call_ids::CallId;

use self::{call_ids::CallIds, displaced_streams::DisplacedStreams, library_sessions::LibrarySessions};
use super::list_view::{SeenView, View};
use crate::http::error::{ApiError, ApiResult};
use cardinal_base::{codes, seal::SealingKey};
use cardinal_identity::auth::caller::Caller;

/// Sessions of everybody in memory, some 3 kB each. Beyond it a caller has as many as it had, or one.
const OPEN_LIMIT: usize = 1_000;
/// Sessions of one caller in memory; a further one displaces its least recently used.
const OPEN_PER_CALLER: usize = 32;
/// A session that nobody uses leaves memory after this long.
const IDLE: Duration = Duration::from_secs(300);
/// What the protocol library holds of a session leaves memory after this long. A client that lost the answer to a call
/// on the way has so long to come back for it.
const IDLE_LIBRARY_SESSION: Duration = Duration::from_secs(60);
/// How long, and how many, ids are remembered whose client has ended them. They are good for their owner alone, and
/// give it nothing that `initialize` would not.
const ENDED_AGE: Duration = Duration::from_secs(24 * 3600);
const ENDED_LIMIT: usize = 10_000;
/// Bytes of the state in an id, which travels in a header of every message.
const STATE_LIMIT: usize = 2_048;
/// Bytes of an id, sealed and encoded; a longer one is none of ours.
const ID_LIMIT: usize = 4_096;
/// Bytes that are kept of a client's name and of its version.
const NAME_LIMIT: usize = 100;

/// What an id says.
#[derive(Serialize, Deserialize)]
struct State {
    id: Uuid,
    /// What the client's lists looked like when it began.
    #[serde(flatten)]
    view: View,
    client: InitializeRequestParams,
}

/// A session that is in use.
pub struct Session {
    state: State,
    /// As the client names it.
    sealed: Arc<str>,
    owner: Uuid,
    /// What the lists looked like when the client last heard of them.
    pub view: SeenView,
    /// The protocol library's session, where a call needed one. Whoever uses it holds its id.
    inner: tokio::sync::Mutex<Option<Arc<str>>>,
    manager: Arc<LocalSessionManager>,
    /// Milliseconds since the sessions began.
    used: AtomicU64,
    uses: AtomicUsize,
    call_ids: CallIds,
    /// Its streams end: it was displaced, or its client has ended it.
    pub ended: CancellationToken,
    /// Milliseconds for which its client is to open no stream again, once it was displaced.
    stay_away: AtomicU64,
}

/// A request or a stream of a session, for as long as it lasts.
pub(crate) struct Use(Arc<Session>);

impl Drop for Use {
    fn drop(&mut self) {
        self.0.uses.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.get_mut().take() {
            close(&self.manager, inner);
        }
    }
}

impl Session {
    /// The same for its whole life, on every host.
    pub fn id(&self) -> Uuid {
        self.state.id
    }

    pub fn client_name(&self) -> &str {
        &self.state.client.client_info.name
    }

    /// Of the protocol, as the client asked for it.
    pub fn revision(&self) -> &str {
        self.state.client.protocol_version.as_str()
    }

    /// The protocol library's session, if there is one.
    pub async fn inner(&self) -> Option<Arc<str>> {
        self.inner.lock().await.clone()
    }

    /// The same; `begin` makes one where there is none.
    pub async fn build<F>(&self, begin: impl FnOnce(InitializeRequestParams) -> F) -> ApiResult<Arc<str>>
    where
        F: Future<Output = ApiResult<Arc<str>>>,
    {
        let mut inner = self.inner.lock().await;
        if let Some(id) = &*inner {
            return Ok(Arc::clone(id));
        }
        let id = begin(self.state.client.clone()).await?;
        *inner = Some(Arc::clone(&id));
        Ok(id)
    }

    /// Forgets the protocol library's session, which has ended by itself.
    pub(crate) async fn forget_inner(&self, id: &str) {
        let mut inner = self.inner.lock().await;
        if inner.as_deref() == Some(id) {
            *inner = None;
        }
    }

    /// How long its client is to open no stream again, where it was displaced.
    pub(crate) fn stays_away(&self) -> Option<Duration> {
        Some(self.stay_away.load(Ordering::Relaxed)).filter(|ms| *ms > 0).map(Duration::from_millis)
    }

    /// Ends the protocol library's session, unless a call is under way in it; whether there is none now.
    fn end_inner(&self) -> bool {
        let Ok(mut inner) = self.inner.try_lock() else { return false };
        if let Some(id) = inner.take_if(|id| Arc::strong_count(id) == 1) {
            close(&self.manager, id);
        }
        inner.is_none()
    }

    /// Notes that something of the session has begun, which lasts as long as the result.
    pub(crate) fn begin_use(self: &Arc<Self>) -> Use {
        self.uses.fetch_add(1, Ordering::Relaxed);
        Use(Arc::clone(self))
    }

    fn is_in_use(&self) -> bool {
        self.uses.load(Ordering::Relaxed) > 0
    }
}

fn close(manager: &Arc<LocalSessionManager>, inner: Arc<str>) {
    // Without a runtime the host is at its end.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let manager = Arc::clone(manager);
    runtime.spawn(async move {
        if let Err(error) = manager.close_session(&inner).await {
            tracing::debug!(%error, "failed to close an MCP session");
        }
    });
}

type Open = HashMap<Arc<str>, Arc<Session>>;

/// The sessions that are in use, by their ids.
pub(super) struct Sessions {
    key: SealingKey,
    manager: Arc<LocalSessionManager>,
    /// Read at every message without a lock; changes are rare.
    open: ArcSwap<Open>,
    changing: Mutex<()>,
    ended: Mutex<HashMap<Uuid, Instant>>,
    displaced_streams: DisplacedStreams,
    pub(super) library_sessions: LibrarySessions,
    started: Instant,
}

impl Sessions {
    pub(super) fn new(key: SealingKey, manager: Arc<LocalSessionManager>) -> Self {
        Self {
            key,
            manager,
            open: ArcSwap::default(),
            changing: Mutex::default(),
            ended: Mutex::default(),
            displaced_streams: DisplacedStreams::default(),
            library_sessions: LibrarySessions::default(),
            started: Instant::now(),
        }
    }

    /// A new session of `caller`; gives its id.
    pub(super) fn open(&self, caller: &Caller, client: InitializeRequestParams, view: View) -> ApiResult<String> {
        let state = State { id: Uuid::now_v7(), view, client };
        let bytes = serde_json::to_vec(&state).map_err(ApiError::internal)?;
        let owner = owner(caller);
        let sealed = self.key.seal(&place(owner), &bytes).map_err(ApiError::internal)?;
        self.keep(self.session(state, sealed.as_str().into(), owner));
        Ok(sealed)
    }

    /// The session of this id, if it is `caller`'s.
    pub(super) fn find(&self, id: &str, caller: &Caller) -> Option<Arc<Session>> {
        let owner = owner(caller);
        let open = self.open.load().get(id).cloned();
        let session = match open {
            Some(session) if session.owner == owner => session,
            Some(_) => return None,
            None => self.reopen(id, owner)?,
        };
        session.used.store(self.now(), Ordering::Relaxed);
        Some(session)
    }

    /// The same for a stream of it, which may have to stay away for a while.
    pub(super) fn find_for_stream(&self, id: &str, caller: &Caller) -> ApiResult<Arc<Session>> {
        let owner = owner(caller);
        let session = match self.open.load().get(id) {
            Some(session) => Some(session.state.id).filter(|_| session.owner == owner),
            None => self.state(id, owner).map(|state| state.id),
        };
        if let Some(wait) = session.and_then(|id| self.displaced_streams.wait(id, Instant::now())) {
            let detail = format!(
                "The stream of this session was closed because its caller has opened {OPEN_PER_CALLER} others since."
            );
            let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
            return Err(ApiError::new(&codes::RATE_LIMITED).detail(detail).retry_after(seconds));
        }
        self.find(id, caller).ok_or_else(|| ApiError::not_found("session"))
    }

    fn state(&self, id: &str, owner: Uuid) -> Option<State> {
        if id.len() > ID_LIMIT {
            return None;
        }
        let bytes = self.key.open(&place(owner), id).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn reopen(&self, id: &str, owner: Uuid) -> Option<Arc<Session>> {
        let state = self.state(id, owner)?;
        if self.ended.lock().contains_key(&state.id) {
            return None;
        }
        Some(self.keep(self.session(state, id.into(), owner)))
    }

    fn session(&self, state: State, sealed: Arc<str>, owner: Uuid) -> Arc<Session> {
        Arc::new(Session {
            view: SeenView::new(state.view),
            state,
            sealed,
            owner,
            inner: tokio::sync::Mutex::default(),
            manager: Arc::clone(&self.manager),
            used: AtomicU64::new(self.now()),
            uses: AtomicUsize::default(),
            call_ids: CallIds::default(),
            ended: CancellationToken::new(),
            stay_away: AtomicU64::default(),
        })
    }

    /// Takes the session into memory, in the place of another one of its owner's where it has to. When two requests
    /// reopen the same one, both get the first.
    fn keep(&self, session: Arc<Session>) -> Arc<Session> {
        let _changing = self.changing.lock();
        let mut open = Open::clone(&self.open.load());
        if let Some(known) = open.get(&session.sealed) {
            return Arc::clone(known);
        }
        if let Some(displaced) = displaced(&open, session.owner).and_then(|id| open.remove(&id)) {
            if displaced.is_in_use() {
                let wait = self.displaced_streams.note(displaced.state.id, Instant::now());
                displaced.stay_away.store(millis(wait), Ordering::Relaxed);
            }
            displaced.ended.cancel();
        }
        open.insert(Arc::clone(&session.sealed), Arc::clone(&session));
        self.open.store(Arc::new(open));
        session
    }

    /// Ends the session, as its client wants it.
    pub(super) fn end(&self, session: &Session) {
        let mut ended = self.ended.lock();
        if ended.len() >= ENDED_LIMIT
            && let Some(oldest) = ended.iter().min_by_key(|(_, at)| **at).map(|(id, _)| *id)
        {
            ended.remove(&oldest);
        }
        ended.insert(session.state.id, Instant::now());
        drop(ended);
        session.ended.cancel();
        self.retain(|other| other.sealed != session.sealed);
    }

    /// Takes what nobody uses out of memory; called every few seconds.
    pub(super) fn sweep(&self) {
        self.ended.lock().retain(|_, at| at.elapsed() < ENDED_AGE);
        self.displaced_streams.sweep(Instant::now());
        let idle_for = |session: &Session| self.now().saturating_sub(session.used.load(Ordering::Relaxed));
        let open = self.open.load();
        for session in open.values().filter(|session| idle_for(session) >= millis(IDLE_LIBRARY_SESSION)) {
            session.end_inner();
        }
        self.retain(|session| session.is_in_use() || idle_for(session) < millis(IDLE));
    }

    fn retain(&self, which: impl Fn(&Session) -> bool) {
        let _changing = self.changing.lock();
        let mut open = Open::clone(&self.open.load());
        open.retain(|_, session| which(session));
        self.open.store(Arc::new(open));
    }

    fn now(&self) -> u64 {
        millis(self.started.elapsed())
    }
}

/// Which session of `owner` has to go before it opens another: the one that was used least of late, of those that
/// nothing is under way in if there are such. Nobody's else goes.
fn displaced(open: &Open, owner: Uuid) -> Option<Arc<str>> {
    let own = || open.values().filter(move |session| session.owner == owner);
    if own().count() < OPEN_PER_CALLER && open.len() < OPEN_LIMIT {
        return None;
    }
    let least = own().min_by_key(|session| (session.is_in_use(), session.used.load(Ordering::Relaxed)))?;
    Some(Arc::clone(&least.sealed))
}

/// What is kept of a client's `initialize`; `None` when its capabilities are too large for an id.
pub(super) fn essence(client: InitializeRequestParams) -> Option<InitializeRequestParams> {
    let shortened = |text: &str| text.chars().take(NAME_LIMIT).collect::<String>();
    let info = Implementation::new(shortened(&client.client_info.name), shortened(&client.client_info.version));
    let mut kept = InitializeRequestParams::new(client.capabilities, info);
    kept.protocol_version = client.protocol_version;
    let fits = |kept: &InitializeRequestParams| serde_json::to_vec(kept).is_ok_and(|state| state.len() <= STATE_LIMIT);
    if !fits(&kept) {
        (kept.capabilities.experimental, kept.capabilities.extensions) = (None, None);
    }
    fits(&kept).then_some(kept)
}

/// A key is an owner of its own; tokens of one user are the same one.
pub(super) fn owner(caller: &Caller) -> Uuid {
    caller.key.as_ref().map_or(caller.user_id, |(id, _)| *id)
}

fn place(owner: Uuid) -> String {
    format!("mcp session {owner}")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cardinal_base::{config::Secret, scope::ScopeSet};

    pub(super) fn sessions(secret: &str) -> Sessions {
        Sessions::new(SealingKey::derive(&Secret::new(secret)), Arc::default())
    }

    pub(super) fn caller() -> Caller {
        Caller::new(Uuid::now_v7(), "somebody", ScopeSet::all())
    }

    fn client() -> InitializeRequestParams {
        InitializeRequestParams::new(Default::default(), Implementation::new("test", "1"))
    }

    pub(super) fn open(sessions: &Sessions, caller: &Caller) -> String {
        sessions.open(caller, client(), View { tools: 7, prompts: None }).unwrap()
    }

    #[tokio::test]
    async fn an_id_is_good_at_every_host_of_the_database_and_for_its_owner_alone() {
        let (one, other, stranger) = (sessions("one"), sessions("other"), caller());
        let caller = caller();
        let id = open(&one, &caller);
        assert!(one.find(&id, &caller).is_some() && one.find(&id, &stranger).is_none());
        let again = sessions("one");
        assert!(again.find(&id, &stranger).is_none());
        let found = again.find(&id, &caller).unwrap();
        assert_eq!((found.state.view.tools, found.state.client.client_info.name.as_str()), (7, "test"));
        assert!(again.find(&id, &stranger).is_none(), "in memory by now");
        assert!(other.find(&id, &caller).is_none());
        assert!(one.find("made-up", &caller).is_none() && one.find(&"x".repeat(ID_LIMIT + 1), &caller).is_none());
    }

    #[tokio::test]
    async fn a_caller_displaces_its_own_least_used_session_and_still_has_it() {
        let sessions = sessions("one");
        let (caller, other) = (caller(), caller());
        let others = open(&sessions, &other);
        let first = open(&sessions, &caller);
        let (found, used) = (sessions.find(&first, &caller).unwrap(), open(&sessions, &caller));
        let streams = sessions.find(&used, &caller).unwrap();
        let _stream = streams.begin_use();
        for _ in 2..OPEN_PER_CALLER {
            open(&sessions, &caller);
        }
        sessions.open.load().values().for_each(|session| session.used.store(1, Ordering::Relaxed));
        for session in [&found, &streams] {
            session.used.store(0, Ordering::Relaxed);
        }
        open(&sessions, &caller);
        assert!(found.ended.is_cancelled() && !sessions.open.load().contains_key(first.as_str()));
        assert!(sessions.open.load().contains_key(used.as_str()), "one with a stream goes last");
        assert!(sessions.open.load().contains_key(others.as_str()));
        assert_eq!(sessions.open.load().len(), OPEN_PER_CALLER + 1);
        assert!(sessions.find(&first, &caller).is_some());
    }

    #[tokio::test]
    async fn when_memory_is_full_everybody_still_gets_a_session() {
        let sessions = sessions("one");
        for _ in 0..OPEN_LIMIT {
            open(&sessions, &caller());
        }
        let late = caller();
        let (first, second) = (open(&sessions, &late), open(&sessions, &late));
        assert_eq!(sessions.open.load().len(), OPEN_LIMIT + 1);
        assert!(sessions.find(&second, &late).is_some() && sessions.find(&first, &late).is_some());
    }

    #[tokio::test]
    async fn what_its_client_has_ended_is_over() {
        let (sessions, caller) = (sessions("one"), caller());
        let id = open(&sessions, &caller);
        let session = sessions.find(&id, &caller).unwrap();
        sessions.end(&session);
        assert!(session.ended.is_cancelled() && sessions.find(&id, &caller).is_none());
    }

    #[tokio::test]
    async fn what_nobody_uses_leaves_memory() {
        let (mut sessions, caller) = (sessions("one"), caller());
        let (idle, in_use) = (open(&sessions, &caller), open(&sessions, &caller));
        let _stream = sessions.find(&in_use, &caller).unwrap().begin_use();
        sessions.started = Instant::now().checked_sub(IDLE * 2).unwrap();
        sessions.sweep();
        assert!(
            sessions.open.load().contains_key(in_use.as_str()) && !sessions.open.load().contains_key(idle.as_str())
        );
        assert!(sessions.find(&idle, &caller).is_some());
    }

    #[tokio::test]
    async fn what_the_library_holds_leaves_memory_once_no_call_needs_it() {
        let (mut sessions, caller) = (sessions("one"), caller());
        let session = sessions.find(&open(&sessions, &caller), &caller).unwrap();
        assert_eq!(session.inner().await, None, "none is needed yet");
        let call = session.build(async |_| Ok("inner".into())).await.unwrap();
        sessions.started = Instant::now().checked_sub(IDLE_LIBRARY_SESSION).unwrap();
        sessions.sweep();
        assert_eq!(session.inner().await.as_deref(), Some("inner"), "a call is under way in it");
        drop(call);
        sessions.sweep();
        assert_eq!(session.inner().await, None);
    }

    #[test]
    fn an_id_stays_short_whatever_a_client_says_of_itself() {
        let mut wordy = client();
        wordy.client_info = Implementation::new("n".repeat(5_000), "v".repeat(5_000));
        let many = serde_json::json!({"experimental": {"much": {"text": "x".repeat(5_000)}}, "elicitation": {}});
        wordy.capabilities = serde_json::from_value(many).unwrap();
        let kept = essence(wordy).unwrap();
        assert!(kept.capabilities.elicitation.is_some() && kept.capabilities.experimental.is_none());
        assert!(serde_json::to_vec(&kept).unwrap().len() <= STATE_LIMIT);
    }
}
