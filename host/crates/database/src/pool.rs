//! The worker's own pools: the core's role for everything, the reaper's for removing cards.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::{Duration, Instant},
};

pub use deadpool_postgres::PoolError;
use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Metrics, Object, PoolBuilder, QueueMode, RecyclingMethod,
    Runtime, TimeoutType,
};
use parking_lot::Mutex;
pub use tokio_postgres::Error as StatementError;
use tokio_postgres::NoTls;

use super::outage::Outages;
use cardinal_observe::request_timing::Waiting;

/// How long a request waits for a connection before it gets 503.
const WAIT: Duration = Duration::from_secs(5);
const CREATE: Duration = Duration::from_secs(5);
const RECYCLE: Duration = Duration::from_secs(5);
const CORE_CONNECTIONS: usize = 16;
/// A connection keeps buffers of twice the largest message that it has sent or received, at both of its ends.
const LARGE_MESSAGE: usize = 512 << 10;
/// One for the cards that are past their retention, the others for whoever removes one by hand.
const REAPER_CONNECTIONS: usize = 4;

/// The pools.
#[derive(Clone)]
pub struct Pools {
    pub core: Pool,
    pub reaper: Pool,
    login: tokio_postgres::Config,
}

impl Pools {
    pub fn new(core: tokio_postgres::Config, reaper: tokio_postgres::Config) -> anyhow::Result<Self> {
        let login = core.clone();
        let core = pool(core, CORE_CONNECTIONS).build()?;
        let reaper = pool(reaper, REAPER_CONNECTIONS).pre_recycle(Hook::sync_fn(used_once)).build()?;
        let outages = Arc::<Outages>::default();
        let pool = |pool| Pool { pool, outages: Arc::clone(&outages), last_large: Arc::default() };
        Ok(Self { core: pool(core), reaper: pool(reaper), login })
    }

    /// What the core's connections are made with.
    pub fn login(&self) -> &tokio_postgres::Config {
        &self.login
    }

    pub(crate) fn outages(&self) -> &Outages {
        &self.core.outages
    }

    /// Whether anybody has a connection, or waits for one.
    pub(crate) fn is_waited_for(&self) -> bool {
        [&self.core, &self.reaper].into_iter().any(|pool| {
            let status = pool.status();
            status.waiting > 0 || status.size > status.available
        })
    }
}

fn pool(config: tokio_postgres::Config, size: usize) -> PoolBuilder {
    // Nothing of a plugin runs in the core's sessions: no table that it writes has triggers or rules of a plugin's, and
    // keys to cards are checked as a role that has no rights. What the core itself does leaves nothing behind:
    // transactions roll back when dropped. So they are not reset, which would cost each request a round trip.
    let manager = Manager::from_config(config, NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    let builder = deadpool_postgres::Pool::builder(manager).max_size(size).runtime(Runtime::Tokio1);
    // The connection that was used last comes first: in turns each would find its server process out of the CPU's
    // caches.
    let builder = builder.queue_mode(QueueMode::Lifo);
    builder.wait_timeout(Some(WAIT)).create_timeout(Some(CREATE)).recycle_timeout(Some(RECYCLE))
}

/// Removing a card reaches plugins' tables, and a plugin's code that ran there could have left settings, or statements
/// of its own under the names of ours, which no reset mends. Cards are removed seldom enough for a new session each
/// time.
fn used_once(_: &mut ClientWrapper, _: &Metrics) -> Result<(), HookError> {
    Err(HookError::message("a session of the reaper is used once"))
}

/// A pool that logs the database's outages and puts what a request waits for it, and how long it keeps a connection, on
/// the request's account.
#[derive(Clone, Debug)]
pub struct Pool {
    pool: deadpool_postgres::Pool,
    outages: Arc<Outages>,
    /// When a large message went through one of the connections.
    last_large: Arc<Mutex<Option<Instant>>>,
}

impl Pool {
    /// Notes what went through a connection, or is about to.
    pub fn note_message(&self, bytes: usize) {
        if bytes >= LARGE_MESSAGE {
            *self.last_large.lock() = Some(Instant::now());
        }
    }

    /// Closes idle connections that are older than the last large message: one of them may keep its buffers. Those in
    /// use are closed another time.
    pub fn close_swollen(&self) {
        let last_large = *self.last_large.lock();
        if let Some(at) = last_large {
            self.pool.retain(|_, connection| connection.created > at);
        }
    }

    /// Checks a connection out.
    ///
    /// # Errors
    /// None became free in time, none can be made, or the database is silent.
    pub async fn get(&self) -> Result<Connection, PoolError> {
        if self.outages.is_silent() {
            return Err(PoolError::Timeout(TimeoutType::Recycle));
        }
        let (waiting, asked_at) = (Waiting::begin(), Instant::now());
        match self.pool.get().await {
            Ok(client) => {
                self.outages.succeeded();
                Ok(Connection { client, _waiting: waiting })
            }
            Err(error) => {
                // Busy connections are no outage.
                if !matches!(error, PoolError::Timeout(TimeoutType::Wait)) {
                    self.outages.failed(&error, asked_at);
                }
                Err(error)
            }
        }
    }
}

impl Pool {
    /// Whether the database has answered nothing for so long that nobody should wait for it any more.
    pub fn is_given_up(&self) -> bool {
        self.outages.is_given_up()
    }
}

impl Deref for Pool {
    type Target = deadpool_postgres::Pool;

    fn deref(&self) -> &Self::Target {
        &self.pool
    }
}

/// A connection that is checked out; the core holds one just as long as it talks to the database.
#[derive(Debug)]
pub struct Connection {
    client: Object,
    _waiting: Waiting,
}

impl Connection {
    /// Takes it out of the pool for good: whoever has it closes it, and the pool may open another one.
    pub fn detach(self) -> ClientWrapper {
        Object::take(self.client)
    }
}

impl Deref for Connection {
    type Target = Object;

    fn deref(&self) -> &Object {
        &self.client
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Object {
        &mut self.client
    }
}
