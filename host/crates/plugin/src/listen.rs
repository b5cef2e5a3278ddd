//! Notifications of PostgreSQL for one plugin instance: its listeners, and the one connection that hears for all of
//! them.
//!
//! The connection is one of the plugin's own pool, there while anything listens. When it is lost it is made again, and
//! each listener gets a gap: what was sent meanwhile is gone, so it reads again what it may have missed.

mod channel;
mod queue;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

pub(crate) use self::{
    channel::Channel,
    queue::{Delivery, Gap, Item, Queue},
};
use crate::{
    connection::{ListeningSession, PluginPool},
    fault::Fault,
};
use cardinal_observe::shard::Counter;

/// Streams of one instance.
const MAX_LISTENERS: usize = 32;
/// How long who begins to listen waits for PostgreSQL to do it.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that a plugin has to have: one that listens, and one for its statements.
const MIN_CONNECTIONS: usize = 2;
/// Between two tries to make the connection again, at first and at most.
const RECONNECT_PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// How often a connection on which nothing happens is asked whether it still listens.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// The listeners of one instance.
pub struct Listeners {
    plugin: String,
    pool: Option<PluginPool>,
    runtime: Handle,
    state: Mutex<State>,
    /// Notifications for which a listener had no room.
    pub dropped: Counter,
    /// The listeners are others than before.
    changed: Notify,
    ended: CancellationToken,
}

#[derive(Default)]
struct State {
    listeners: Vec<Arc<Listener>>,
    /// A task keeps the connection.
    is_running: bool,
}

/// One stream of notifications.
pub struct Listener {
    channel: Channel,
    pub queue: Queue,
    /// The call that it ends with.
    call: Option<CancellationToken>,
    /// The number of the connection that has heard for it last; 0 before the first one.
    connection: AtomicU64,
    /// Says how the beginning went.
    outcome_tx: Mutex<Option<oneshot::Sender<Result<(), Fault>>>>,
}

impl Listener {
    fn is_over(&self) -> bool {
        self.queue.is_closed() || self.call.as_ref().is_some_and(CancellationToken::is_cancelled)
    }

    fn answer(&self, outcome: Result<(), Fault>) {
        if let Some(outcome_tx) = self.outcome_tx.lock().take() {
            let _ = outcome_tx.send(outcome); // who asked may have gone
        }
    }
}

impl Listeners {
    pub fn new(plugin: &str, pool: Option<PluginPool>, runtime: Handle) -> Arc<Self> {
        Arc::new(Self {
            plugin: plugin.to_owned(),
            pool,
            runtime,
            state: Mutex::default(),
            dropped: Counter::default(),
            changed: Notify::new(),
            ended: CancellationToken::new(),
        })
    }

    /// What PostgreSQL calls a channel of the plugin.
    ///
    /// # Errors
    /// The name is none, or the plugin has no database.
    pub fn channel(&self, name: &str) -> Result<Channel, Fault> {
        Channel::new(name, self.pool()?.login_secret())
    }

    /// Listens. Ready when PostgreSQL does.
    ///
    /// # Errors
    /// There are too many listeners, or the database does not answer in time.
    pub async fn listen(self: &Arc<Self>, name: &str, call: Option<CancellationToken>) -> Result<Arc<Listener>, Fault> {
        let channel = self.channel(name)?;
        if self.pool()?.max_size() < MIN_CONNECTIONS {
            let reason = "a plugin that listens needs two connections; raise limits.db_connections in its manifest";
            return Err(Fault::Unsupported(reason.to_owned()));
        }
        let (outcome_tx, outcome) = oneshot::channel();
        let (connection, outcome_tx) = (AtomicU64::new(0), Mutex::new(Some(outcome_tx)));
        let listener = Arc::new(Listener { channel, queue: Queue::default(), call, connection, outcome_tx });
        self.add(&listener)?;
        let unheard = ClosedOnDrop(Some((self, &listener)));
        match timeout(LISTEN_TIMEOUT, outcome).await {
            Ok(Ok(outcome)) => outcome?,
            Ok(Err(_)) => return Err(stopping()),
            Err(_) => return Err(Fault::Unavailable(anyhow::anyhow!("LISTEN took longer than {LISTEN_TIMEOUT:?}"))),
        }
        unheard.keep();
        Ok(listener)
    }

    /// Ends all streams and the connection, for good.
    pub fn end(&self) {
        let listeners = {
            let mut state = self.state.lock();
            self.ended.cancel(); // under the lock: nothing is added behind it
            std::mem::take(&mut state.listeners)
        };
        for listener in listeners {
            listener.answer(Err(stopping()));
            listener.queue.close();
        }
    }

    /// Tells that a listener is over.
    pub(crate) fn note_change(&self) {
        self.changed.notify_one();
    }

    fn pool(&self) -> Result<&PluginPool, Fault> {
        self.pool.as_ref().ok_or_else(|| Fault::Unsupported("this plugin was given no database".to_owned()))
    }

    fn add(self: &Arc<Self>, listener: &Arc<Listener>) -> Result<(), Fault> {
        let mut state = self.state.lock();
        if self.ended.is_cancelled() {
            return Err(stopping());
        }
        state.listeners.retain(|listener| !listener.is_over());
        if state.listeners.len() >= MAX_LISTENERS {
            return Err(Fault::Busy(format!("The plugin listens {MAX_LISTENERS} times already.")));
        }
        state.listeners.push(Arc::clone(listener));
        if !std::mem::replace(&mut state.is_running, true) {
            self.runtime.spawn(Arc::clone(self).run());
        }
        drop(state);
        self.note_change();
        Ok(())
    }

    /// Keeps the connection while anything listens.
    async fn run(self: Arc<Self>) {
        let (first_pause, max_pause) = RECONNECT_PAUSES;
        let (mut pause, mut number) = (first_pause, 0);
        loop {
            number += 1;
            let started = Instant::now();
            let lost = tokio::select! {
                () = self.ended.cancelled() => return,
                outcome = self.receive(number) => match outcome {
                    Ok(()) => return,
                    Err(fault) => fault,
                },
            };
            tracing::warn!(plugin = self.plugin, error = reason(&lost), "a plugin has no listening connection");
            self.refuse_new(lost);
            if self.stops_unwanted() {
                return;
            }
            // One that has lasted was good: the next try begins anew.
            pause = if started.elapsed() > max_pause { first_pause } else { pause };
            tokio::select! {
                () = self.ended.cancelled() => return,
                () = sleep(pause) => {}
            }
            pause = (pause * 2).min(max_pause);
        }
    }

    /// One connection, until nothing listens any more.
    async fn receive(self: &Arc<Self>, number: u64) -> Result<(), Fault> {
        let deliver = deliver_to(Arc::downgrade(self));
        let session = self.pool()?.listening_session(deliver).await?;
        let mut listening = BTreeSet::new();
        loop {
            if self.stops_unwanted() {
                return Ok(());
            }
            let wanted = self.wanted();
            follow(&session, &listening, &wanted).await?;
            listening = wanted;
            self.begin_listening(&listening, number);
            tokio::select! {
                () = self.changed.notified() => {}
                () = session.ended() => return Err(Fault::Unavailable(anyhow::anyhow!("the connection ended"))),
                () = sleep(CHECK_INTERVAL) => session.check(listening.len()).await?,
            }
        }
    }

    fn wanted(&self) -> BTreeSet<Channel> {
        self.state.lock().listeners.iter().map(|listener| listener.channel.clone()).collect()
    }

    /// Ends the task, unless something listens. Whoever listens later starts another one.
    fn stops_unwanted(&self) -> bool {
        let mut state = self.state.lock();
        state.listeners.retain(|listener| !listener.is_over());
        state.is_running = !state.listeners.is_empty();
        !state.is_running
    }

    /// Those that connection `number` hears for now: the new ones have begun, for the others there may have been more.
    fn begin_listening(&self, listening: &BTreeSet<Channel>, number: u64) {
        let listeners = self.state.lock().listeners.clone();
        for listener in listeners.iter().filter(|listener| listening.contains(&listener.channel)) {
            match listener.connection.swap(number, Ordering::Relaxed) {
                0 => listener.answer(Ok(())),
                before if before != number => listener.queue.push_gap(Gap::Reconnected),
                _ => {}
            }
        }
    }

    /// Those that have not begun learn why; those that have wait for the next connection.
    fn refuse_new(&self, fault: Fault) {
        let mut fault = Some(fault);
        self.state.lock().listeners.retain(|listener| {
            let is_new = listener.connection.load(Ordering::Relaxed) == 0;
            if is_new {
                let lost = || Fault::Unavailable(anyhow::anyhow!("the listening connection was lost"));
                listener.answer(Err(fault.take().unwrap_or_else(lost)));
            }
            !is_new
        });
    }

    fn deliver(&self, channel: &str, payload: &str) {
        for listener in self.find_listeners(channel) {
            let Delivery::Overflow { again } = listener.queue.push(payload) else { continue };
            self.dropped.count();
            if !again {
                tracing::warn!(plugin = self.plugin, "a plugin reads its notifications too slowly; some were dropped");
            }
        }
    }

    /// Out of the lock: who is woken may do anything.
    fn find_listeners(&self, channel: &str) -> Vec<Arc<Listener>> {
        let state = self.state.lock();
        state.listeners.iter().filter(|listener| listener.channel.name() == channel).cloned().collect()
    }
}

fn deliver_to(listeners: Weak<Listeners>) -> impl Fn(&str, &str) + Send + Sync + 'static {
    move |channel, payload| {
        if let Some(listeners) = listeners.upgrade() {
            listeners.deliver(channel, payload);
        }
    }
}

/// Has the session listen to what is wanted, and to nothing else.
async fn follow(
    session: &ListeningSession,
    listening: &BTreeSet<Channel>,
    wanted: &BTreeSet<Channel>,
) -> Result<(), Fault> {
    for channel in wanted.difference(listening) {
        session.listen(channel.name()).await?;
    }
    for channel in listening.difference(wanted) {
        session.unlisten(channel.name()).await?;
    }
    Ok(())
}

fn reason(fault: &Fault) -> String {
    match fault {
        Fault::Unavailable(error) => format!("{error:#}"),
        Fault::Busy(detail) => detail.clone(),
        other => format!("{other:?}"),
    }
}

fn stopping() -> Fault {
    Fault::Gone("the plugin is stopping".to_owned())
}

/// A listener that nobody got is over.
struct ClosedOnDrop<'a>(Option<(&'a Listeners, &'a Listener)>);

impl ClosedOnDrop<'_> {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for ClosedOnDrop<'_> {
    fn drop(&mut self) {
        if let Some((listeners, listener)) = self.0 {
            listener.queue.close();
            listeners.note_change();
        }
    }
}
