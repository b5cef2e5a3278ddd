//! One connection to the server, and how it is made, cleaned and ended.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use futures_util::future::poll_fn;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{
    AsyncMessage, Client, Connection, NoTls, SimpleQueryMessage, SimpleQueryRow, Socket, tls::NoTlsStream,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    login_repair::LoginRepair,
    prepared::{Cache, PreparedStatement},
    session_reset::leaves_no_trace,
};
use cardinal_store::plugins;

/// How long a cancel request may take.
const CANCEL_LIMIT: Duration = Duration::from_secs(2);
/// How long a new connection waits for the server to have room for it, and how long between two tries.
const ROOM_TIMEOUT: Duration = Duration::from_secs(2);
const ROOM_INTERVALS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));
/// Statements that a connection keeps prepared.
const CACHED_STATEMENTS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// Why a connection could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("the database refuses the plugin's connection")]
    Database(#[from] tokio_postgres::Error),
    #[error("the session's search_path is {0:?}")]
    SearchPath(String),
}

/// Makes sessions for the pool.
pub(super) struct Sessions {
    config: tokio_postgres::Config,
    search_path: String,
    login_repair: Option<LoginRepair>,
}

impl Sessions {
    pub(super) fn new(config: tokio_postgres::Config, schema: &str, login_repair: Option<LoginRepair>) -> Self {
        Self { config, search_path: plugins::session::search_path(schema), login_repair }
    }

    /// A login that has as many sessions as it may, as while two generations are leaving, has room again when one of
    /// those ends. The server tells of that only who asks again.
    async fn connect(&self) -> Result<(Client, Connection<Socket, NoTlsStream>), tokio_postgres::Error> {
        let (mut interval, max_interval) = ROOM_INTERVALS;
        let deadline = Instant::now() + ROOM_TIMEOUT;
        loop {
            match self.config.connect(NoTls).await {
                Err(error) if error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS) && Instant::now() < deadline => {
                    tokio::time::sleep(interval).await;
                    interval = (interval * 2).min(max_interval);
                }
                outcome => return outcome,
            }
        }
    }
}

impl Manager for Sessions {
    type Type = Arc<Session>;
    type Error = ConnectError;

    async fn create(&self) -> Result<Arc<Session>, ConnectError> {
        let (client, connection) = match (self.connect().await, &self.login_repair) {
            (Err(error), Some(login_repair))
                if LoginRepair::is_lockout(&error) && login_repair.repaired(Instant::now()).await =>
            {
                self.connect().await?
            }
            (outcome, _) => outcome?,
        };
        let (receiver, ended) = (Arc::default(), CancellationToken::new());
        let driver = tokio::spawn(drive(connection, Arc::clone(&receiver), ended.clone().drop_guard())).abort_handle();
        let (found, has_functions) = begins_with(&client).await?;
        let cache = Mutex::new(Cache::new(CACHED_STATEMENTS));
        let session = Session { client, driver, receiver, ended, cache, next: AtomicU64::new(1), has_functions };
        // An older server, a pooler in between or a role's own setting could have its way.
        if found.replace(' ', "") == self.search_path {
            Ok(Arc::new(session))
        } else {
            Err(ConnectError::SearchPath(found))
        }
    }

    async fn recycle(&self, session: &mut Arc<Session>, _: &Metrics) -> RecycleResult<ConnectError> {
        if session.client.is_closed() { Err(RecycleError::message("the connection is closed")) } else { Ok(()) }
    }
}

/// Gets the channel and the payload of each notification.
pub(super) type Receiver = Box<dyn Fn(&str, &str) + Send + Sync>;

async fn drive(mut connection: Connection<Socket, NoTlsStream>, receiver: Arc<OnceLock<Receiver>>, _ended: DropGuard) {
    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
        match message {
            Ok(AsyncMessage::Notice(notice)) => tracing::debug!(notice = notice.message(), "PostgreSQL says"),
            Ok(AsyncMessage::Notification(notification)) => {
                // On any other connection nobody waits for it.
                if let Some(receive) = receiver.get() {
                    receive(notification.channel(), notification.payload());
                }
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(error = %error, "a plugin's connection ended");
                return;
            }
        }
    }
}

/// The session's search path, and whether the schema has functions.
async fn begins_with(client: &Client) -> Result<(String, bool), tokio_postgres::Error> {
    let shown = client.simple_query(plugins::session::BEGINS_WITH).await?;
    let row = first_row(&shown);
    let column = |at| row.and_then(|row| row.get(at)).unwrap_or_default();
    Ok((column(0).to_owned(), column(1) != "f"))
}

fn first_row(messages: &[SimpleQueryMessage]) -> Option<&SimpleQueryRow> {
    messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    })
}

/// One connection to the server.
pub(super) struct Session {
    pub client: Client,
    driver: AbortHandle,
    receiver: Arc<OnceLock<Receiver>>,
    /// Cancelled when the connection has ended.
    ended: CancellationToken,
    cache: Mutex<Cache>,
    next: AtomicU64,
    /// The schema has functions of its own, which any statement may call by a trigger or a default.
    has_functions: bool,
}

impl Session {
    /// The statement, if it is prepared already.
    pub(super) fn cached(&self, sql: &str) -> Option<Arc<PreparedStatement>> {
        self.cache.lock().get(sql)
    }

    pub(super) async fn prepare(&self, sql: String) -> Result<Arc<PreparedStatement>, tokio_postgres::Error> {
        if let Some(prepared) = self.cached(&sql) {
            return Ok(prepared);
        }
        let statement = self.client.prepare(&sql).await?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let leaves_no_state = !self.has_functions && leaves_no_trace(&sql);
        let prepared = Arc::new(PreparedStatement::new(number, sql, statement, leaves_no_state));
        self.cache.lock().insert(prepared.clone());
        Ok(prepared)
    }

    pub(super) fn forget(&self, prepared: &PreparedStatement) {
        self.cache.lock().remove(&prepared.sql);
    }

    /// From here on `receiver` gets the notifications of this session, which is used for nothing else any more.
    pub(super) fn set_receiver(&self, receiver: Receiver) {
        let _ = self.receiver.set(receiver); // a session that has one never goes back to the pool
    }

    /// Ready when the connection has ended.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Runs a statement; the first value that it gives, or an empty text.
    pub(super) async fn first_value(&self, sql: &str) -> Result<String, tokio_postgres::Error> {
        let messages = self.client.simple_query(sql).await?;
        Ok(first_row(&messages).and_then(|row| row.get(0)).unwrap_or_default().to_owned())
    }

    /// Undoes what was left on the session; whether that worked.
    pub(super) async fn clean(&self, limit: Duration) -> bool {
        let clean = async {
            match self.client.batch_execute(plugins::session::CLEAN).await {
                // A transaction that has failed takes nothing but its end.
                Err(error) if error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION) => {
                    self.client.batch_execute(plugins::session::ROLL_BACK).await?;
                    self.client.batch_execute(plugins::session::CLEAN).await
                }
                outcome => outcome,
            }
        };
        matches!(tokio::time::timeout(limit, clean).await, Ok(Ok(())))
    }

    /// Asks the server to stop what runs on this session.
    pub(super) async fn cancel(&self) {
        let cancel = self.client.cancel_token();
        match tokio::time::timeout(CANCEL_LIMIT, cancel.cancel_query(NoTls)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(error = %error, "failed to cancel a plugin's statement"),
            Err(_) => tracing::debug!("cancelling a plugin's statement took too long"),
        }
    }

    /// Stops what runs and closes the connection.
    pub(super) async fn end(&self) {
        self.cancel().await;
        self.cut();
    }

    /// Closes the connection at once. The server notices within a second, whatever it is doing.
    pub(super) fn cut(&self) {
        self.driver.abort();
    }
}
