//! A plugin's own PostgreSQL connections: one pool with the plugin's own LOGIN role.
//!
//! A connection always comes back clean. What was left on it (an open transaction, a role,
//! settings, LISTEN, locks) is undone in the background when it is given back, before anybody else
//! gets it; after statements that can leave nothing (`session_reset.rs`) there is nothing to undo. When
//! something was still running on it, or anything at all is in doubt, the statement is cancelled and
//! the connection closed: making a new one costs 5 ms, a wrong one costs trust.

mod copy;
mod deadline;
mod listening;
mod login_repair;
mod prepared;
mod rows;
mod running;
mod session;
mod session_reset;

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use deadpool::managed::{self, PoolError, TimeoutType};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{runtime::Handle, sync::Notify};

pub(crate) use self::listening::ListeningSession;
pub use self::{copy::CopyOut, login_repair::LoginRepair, rows::Rows};
use self::{
    deadline::StatementClock,
    prepared::{PreparedStatement, RawParam},
    running::Running,
    session::{Session, Sessions},
};
use super::fault::Fault;
use cardinal_control::link::PluginDatabase;
use cardinal_database::connect::{ConnectParams, SocketDir};

/// Connections that a manifest can ask for (`limits.db_connections`): the role's own CONNECTION LIMIT.
const MAX_CONNECTIONS: usize = 8;

/// How long a caller waits for a free connection, and a new one may take.
const WAIT_TIMEOUT: Duration = Duration::from_secs(2);
const CREATE_TIMEOUT: Duration = Duration::from_secs(5);
const RECYCLE_TIMEOUT: Duration = Duration::from_secs(1);
/// An unused connection is closed after this.
const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// How long cleaning may take before the connection is closed instead.
const CLEAN_LIMIT: Duration = Duration::from_secs(2);
/// How long a stream of rows that was dropped early may take to run out by itself.
const DRAIN_LIMIT: Duration = Duration::from_millis(50);
/// Statements that one checkout may hold by number.
const STATEMENTS_LIMIT: usize = 4_096;

/// The pool of one plugin. Cheap to clone.
#[derive(Clone)]
pub struct PluginPool {
    shared: Arc<Shared>,
}

struct Shared {
    pool: managed::Pool<Sessions>,
    /// Those that are checked out.
    out: Mutex<Vec<Weak<Connection>>>,
    connect: ConnectParams,
    runtime: Handle,
    /// Whether connections that are given back are closed.
    draining: Arc<AtomicBool>,
    /// Holds the way to the server's socket open.
    _socket: SocketDir,
}

impl PluginPool {
    /// A pool of at most `size` connections with the plugin's own run-time role. Nothing is connected
    /// before the first use.
    ///
    /// # Errors
    /// The way to the server cannot be opened.
    pub fn open(
        database: &PluginDatabase,
        size: usize,
        runtime: &Handle,
        login_repair: Option<LoginRepair>,
    ) -> anyhow::Result<Self> {
        let socket = SocketDir::open(&database.connect.host, database.connect.port)?;
        let config = database.connect.clone().through(&socket).pg_config();
        let pool = managed::Pool::builder(Sessions::new(config, &database.schema, login_repair))
            .max_size(size.clamp(1, MAX_CONNECTIONS))
            .runtime(deadpool::Runtime::Tokio1)
            .wait_timeout(Some(WAIT_TIMEOUT))
            .create_timeout(Some(CREATE_TIMEOUT))
            .recycle_timeout(Some(RECYCLE_TIMEOUT))
            .build()?;
        let connect = database.connect.clone();
        let (out, draining) = (Mutex::default(), Arc::default());
        let shared = Arc::new(Shared { pool, out, connect, runtime: runtime.clone(), draining, _socket: socket });
        runtime.spawn(close_idle(Arc::downgrade(&shared)));
        runtime.spawn(deadline::watch(Arc::downgrade(&shared)));
        Ok(Self { shared })
    }

    /// Checks a connection out.
    pub async fn get(&self) -> Result<Arc<Connection>, Fault> {
        let object = self.shared.pool.get().await.map_err(no_connection)?;
        let connection = Arc::new(Connection::new(object, &self.shared));
        let mut out = self.shared.out.lock();
        out.retain(|other| other.strong_count() > 0);
        out.push(Arc::downgrade(&connection));
        Ok(connection)
    }

    /// What a driver of the author's own needs to connect.
    pub fn connect_options(&self) -> Value {
        let connect = &self.shared.connect;
        json!({
            "host": connect.host,
            "port": connect.port,
            "dbname": connect.dbname,
            "user": connect.user,
            "password": connect.password.expose(),
            "options": connect.options,
        })
    }

    /// How many connections there are, how many of them are free, and who waits for one.
    pub fn status(&self) -> deadpool::Status {
        self.shared.pool.status()
    }

    /// Keeps no free connection any more: the plugin's login has a limit, and the next generation needs its share.
    /// Calls that are under way still get one.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::SeqCst);
        self.shared.pool.retain(|_, _| false);
    }

    /// Gives no connection out any more and closes the free ones.
    pub fn close(&self) {
        self.shared.pool.close();
    }
}

async fn close_idle(shared: Weak<Shared>) {
    let mut tick = tokio::time::interval(IDLE_LIMIT / 2);
    loop {
        tick.tick().await;
        let Some(shared) = shared.upgrade().filter(|shared| !shared.pool.is_closed()) else { return };
        shared.pool.retain(|_, metrics| metrics.last_used() < IDLE_LIMIT);
    }
}

fn no_connection(error: PoolError<session::ConnectError>) -> Fault {
    match error {
        PoolError::Closed => Fault::Gone("the plugin is retired".to_owned()),
        PoolError::Timeout(TimeoutType::Wait) => {
            Fault::Busy("All database connections of the plugin are in use.".to_owned())
        }
        PoolError::Timeout(_) => Fault::Unavailable(anyhow::anyhow!("no database connection became free in time")),
        PoolError::Backend(error) => Fault::Unavailable(anyhow::Error::new(error)),
        other => Fault::Internal(anyhow::anyhow!("{other}")),
    }
}

/// A connection that is checked out.
pub struct Connection {
    session: Arc<Session>,
    /// What goes back to the pool; `None` once it was given back.
    object: Mutex<Option<managed::Object<Sessions>>>,
    statements: Mutex<HashMap<u64, Arc<PreparedStatement>>>,
    usage: Usage,
    runtime: Handle,
    /// The pool's.
    draining: Arc<AtomicBool>,
}

#[derive(Default)]
struct Usage {
    running: AtomicUsize,
    clock: StatementClock,
    /// Of those that run, streams that were dropped and are running out by themselves.
    draining_streams: AtomicUsize,
    one_ended: Notify,
    /// Work on it was broken off: nothing more may run on it.
    broken: AtomicBool,
    /// It works, but must not be used again after this checkout.
    discard: AtomicBool,
    /// Something ran on it that may have left something.
    touched: AtomicBool,
}

impl Connection {
    fn new(object: managed::Object<Sessions>, shared: &Shared) -> Self {
        Self {
            session: Arc::clone(&object),
            object: Mutex::new(Some(object)),
            statements: Mutex::default(),
            usage: Usage::default(),
            runtime: shared.runtime.clone(),
            draining: Arc::clone(&shared.draining),
        }
    }

    /// A statement that is prepared already: its description, without a round trip.
    pub fn prepared(&self, sql: &str) -> Option<Bytes> {
        let prepared = self.session.cached(sql)?;
        self.keep(prepared).ok()
    }

    /// Prepares `sql`; its description as JSON, with the number that runs it.
    pub async fn prepare(self: Arc<Self>, sql: String) -> Result<Bytes, Fault> {
        self.mark_statements(&sql);
        let running = self.run()?;
        let prepared = running.finish(self.session.prepare(sql).await)?;
        self.keep(prepared)
    }

    /// Runs a statement that gives rows.
    pub async fn query(self: Arc<Self>, statement: u64, params: Bytes) -> Result<Rows, Fault> {
        let prepared = self.statement(statement)?;
        let params = prepared.params(&params)?;
        let running = self.run_prepared(&prepared)?;
        match self.session.client.query_raw(&prepared.statement, params).await {
            Ok(rows) => Ok(Rows::new(rows, running)),
            Err(error) => Err(self.forget_stale(&prepared, running.fail(error))),
        }
    }

    /// Runs a statement; how many rows it changed.
    pub async fn execute(self: Arc<Self>, statement: u64, params: Bytes) -> Result<u64, Fault> {
        let prepared = self.statement(statement)?;
        let params = prepared.params(&params)?;
        let running = self.run_prepared(&prepared)?;
        let outcome = self.session.client.execute_raw::<_, RawParam, _>(&prepared.statement, params).await;
        running.finish(outcome).map_err(|fault| self.forget_stale(&prepared, fault))
    }

    /// Runs statements without parameters.
    pub async fn batch(self: Arc<Self>, sql: String) -> Result<(), Fault> {
        self.mark_statements(&sql);
        let running = self.run_anything()?;
        if prepared::has_several(&sql) {
            self.usage.clock.allow_batch();
        }
        running.finish(self.session.client.batch_execute(&sql).await)
    }

    /// Gives the connection back. What has to be done to it first is done in the background, so that the one who had
    /// it need not wait.
    pub fn release(self: &Arc<Self>) {
        let Some(object) = self.object.lock().take() else { return };
        self.statements.lock().clear();
        if self.is_untouched() && self.is_kept() {
            return drop(object); // back to the pool
        }
        let connection = self.clone();
        self.runtime.spawn(async move {
            let is_clean = connection.is_reusable().await && connection.session.clean(CLEAN_LIMIT).await;
            if is_clean && connection.is_kept() {
                drop(object); // back to the pool
            } else {
                drop(managed::Object::take(object));
                connection.session.end().await;
            }
        });
    }

    /// Whether the pool wants it back.
    fn is_kept(&self) -> bool {
        !self.draining.load(Ordering::SeqCst)
    }

    /// Whether nothing runs on it and nothing that ran can have left anything.
    fn is_untouched(&self) -> bool {
        let Usage { running, broken, discard, touched, .. } = &self.usage;
        running.load(Ordering::SeqCst) == 0
            && ![touched, broken, discard].into_iter().any(|flag| flag.load(Ordering::SeqCst))
    }

    /// Whether anything that was running has come to its end by itself.
    async fn is_reusable(&self) -> bool {
        let usage = &self.usage;
        let drained = async {
            loop {
                let mut one_ended = std::pin::pin!(usage.one_ended.notified());
                one_ended.as_mut().enable();
                let running = usage.running.load(Ordering::SeqCst);
                if running == 0 || running > usage.draining_streams.load(Ordering::SeqCst) {
                    return running == 0;
                }
                one_ended.await;
            }
        };
        let idle = tokio::time::timeout(DRAIN_LIMIT * 2, drained).await.unwrap_or(false);
        idle && !usage.broken.load(Ordering::SeqCst) && !usage.discard.load(Ordering::SeqCst)
    }

    fn run(self: &Arc<Self>) -> Result<Running, Fault> {
        if self.usage.broken.load(Ordering::SeqCst) {
            let reason = "work on this connection was aborted, so it is closed; take another";
            return Err(Fault::Gone(reason.to_owned()));
        }
        let object = self.object.lock();
        if object.is_none() {
            return Err(given_back());
        }
        // While the lock is held: who gives the connection back sees either this or nothing at all.
        if self.usage.running.fetch_add(1, Ordering::SeqCst) == 0 {
            self.usage.clock.start();
        }
        Ok(Running { connection: self.clone(), ended: false })
    }

    fn run_prepared(self: &Arc<Self>, prepared: &PreparedStatement) -> Result<Running, Fault> {
        if prepared.leaves_no_state { self.run() } else { self.run_anything() }
    }

    fn run_anything(self: &Arc<Self>) -> Result<Running, Fault> {
        self.usage.touched.store(true, Ordering::SeqCst);
        self.run()
    }

    fn keep(&self, prepared: Arc<PreparedStatement>) -> Result<Bytes, Fault> {
        let mut statements = self.statements.lock();
        if statements.len() >= STATEMENTS_LIMIT && !statements.contains_key(&prepared.number) {
            return Err(Fault::Invalid(format!("more than {STATEMENTS_LIMIT} statements on one connection")));
        }
        let description = prepared.description.clone();
        statements.insert(prepared.number, prepared);
        Ok(description)
    }

    fn statement(&self, number: u64) -> Result<Arc<PreparedStatement>, Fault> {
        let statements = self.statements.lock();
        let none = || Fault::Gone("the connection has no such statement".to_owned());
        statements.get(&number).cloned().ok_or_else(none)
    }

    /// Statements that the plugin prepares or drops by SQL are out of our sight: what is left after
    /// them would be a surprise to the next one.
    fn mark_statements(&self, sql: &str) {
        if prepared::handles_statements(sql) {
            self.usage.discard.store(true, Ordering::SeqCst);
        }
    }

    /// A statement that the server has dropped, or whose result has changed under it.
    fn forget_stale(&self, prepared: &PreparedStatement, fault: Fault) -> Fault {
        if let Fault::Database(error) = &fault
            && prepared::is_stale(error)
        {
            self.session.forget(prepared);
            self.usage.discard.store(true, Ordering::SeqCst);
        }
        fault
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // It was not given back; nothing of it runs any more, but it is not clean.
        let object = self.object.get_mut().take();
        if let Some(object) = object {
            drop(managed::Object::take(object));
            self.session.cut();
        }
    }
}

fn given_back() -> Fault {
    Fault::Gone("the connection was given back".to_owned())
}
