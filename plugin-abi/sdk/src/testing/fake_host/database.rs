//! A database for one test: real PostgreSQL, made for the test and dropped with it.
//!
//! It has a thread and a tokio of its own, whose clock is the real one: a test that stops the plugin's clock still gets
//! answers. The login may do much, so PostgreSQL holds the plugin to fewer rules here than its run-time
//! role would be.

mod encoding;

use std::{
    collections::HashMap,
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, Mutex, OnceLock},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use cardinal_plugin_abi::{
    self as abi, Answer, Error, Fut, Stream as AbiStream,
    error::{self as codes, flags},
    host::{ConnId, StmtId},
    stream::Source,
};
use futures_util::{SinkExt, Stream, StreamExt};
use serde_json::{Value, json};
use tokio::{
    runtime::Handle,
    sync::{OnceCell, OwnedSemaphorePermit, Semaphore, oneshot},
    task::{AbortHandle, JoinHandle},
};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Statement, config::Host};

use self::encoding::{describe, push_row, read_params};
use super::{FakeHost, lock, notifications::PayloadSender, number};
use crate::testing::address;

/// Connections of a plugin, as many as a host gives it, and how long one is waited for.
const CONNECTIONS: usize = 4;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A batch of rows ends with the row that reaches this.
const BATCH_BYTES: usize = 64 << 10;

/// What of the core's schema a plugin can see.
const CORE: &str = "
    CREATE TABLE public.master_cards (
        id uuid PRIMARY KEY, title text NOT NULL, sku text NOT NULL, status text NOT NULL, attributes jsonb NOT NULL,
        version bigint NOT NULL, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, deleted_at timestamptz)";

pub(in crate::testing) struct Database {
    handle: Handle,
    shared: Arc<Shared>,
    /// Dropping it ends the thread, which drops the database.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct Shared {
    /// The server, looked for by the first that connects: most tests need none.
    server: OnceLock<Result<String, String>>,
    /// The database of this test alone.
    name: String,
    schema: String,
    schema_sql: String,
    made: OnceCell<Result<Config, String>>,
    places: Arc<Semaphore>,
    sessions: Mutex<HashMap<ConnId, Arc<Session>>>,
}

/// A connection that is checked out.
struct Session {
    client: Client,
    statements: Mutex<HashMap<StmtId, Statement>>,
    _place: OwnedSemaphorePermit,
}

impl Database {
    /// Starts the thread that speaks to PostgreSQL; nothing is made before the first connection.
    pub(in crate::testing) fn new(plugin: &str, schema_sql: &str) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::new(Shared {
            server: OnceLock::new(),
            name: format!("cardinal_test_{}_{}", std::process::id(), uuid::Uuid::new_v4().simple()),
            schema: format!("plugin_{}", plugin.replace('-', "_")),
            schema_sql: schema_sql.to_owned(),
            made: OnceCell::new(),
            places: Arc::new(Semaphore::new(CONNECTIONS)),
            sessions: Mutex::default(),
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let (handle, own) = (runtime.handle().clone(), shared.clone());
        let run = move || {
            let _ = runtime.block_on(stopped); // the sender is dropped, never used: that is the signal
            runtime.block_on(own.drop_database());
        };
        let thread = std::thread::Builder::new().name("test-database".to_owned()).spawn(run)?;
        Ok(Self { handle, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Runs `work` on the database's own thread, whose clock is the real one, unless the test has other plans.
    fn run<T, F>(&self, host: &Arc<FakeHost>, what: &str, work: F) -> Fut<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        if let Err(error) = host.permit(what) {
            return Fut::ready(Err(error));
        }
        let (held, running) = (host.ask(what, || ()), Running(self.handle.spawn(work)));
        Fut::new(async move {
            held.await?;
            running.await
        })
    }

    pub(super) fn connect(&self, host: &Arc<FakeHost>) -> Fut<Answer> {
        let (shared, host_of_cards) = (self.shared.clone(), host.clone());
        self.run(host, "connect", async move {
            let place = tokio::time::timeout(CONNECT_TIMEOUT, shared.places.clone().acquire_owned()).await;
            let Ok(Ok(place)) = place else { return Err(busy()) };
            let config = shared.config().await?;
            let client = connect(&config).await.map_err(|error| failure(&error))?;
            copy_cards(&client, &host_of_cards).await.map_err(|error| failure(&error))?;
            let conn = number();
            let session = Session { client, statements: Mutex::default(), _place: place };
            lock(&shared.sessions).insert(conn, Arc::new(session));
            Ok(conn.into())
        })
    }

    pub(super) fn release(&self, conn: ConnId) {
        lock(&self.shared.sessions).remove(&conn);
    }

    fn session(&self, conn: ConnId) -> Result<Arc<Session>, Error> {
        let session = lock(&self.shared.sessions).get(&conn).cloned();
        session.ok_or_else(|| Error::new(codes::BAD_HANDLE, "the connection was given back"))
    }

    pub(super) fn prepare(&self, host: &Arc<FakeHost>, conn: ConnId, sql: String) -> Fut<abi::Bytes> {
        let session = self.session(conn);
        self.run(host, &format!("prepare {sql}"), async move {
            let session = session?;
            let statement = session.client.prepare(&sql).await.map_err(|error| failure(&error))?;
            let statement_number = number();
            let description = describe(statement_number, &statement);
            lock(&session.statements).insert(statement_number, statement);
            Ok(description.to_string().into())
        })
    }

    pub(super) fn query(&self, host: &Arc<FakeHost>, conn: ConnId, statement: StmtId, params: &[u8]) -> Fut<AbiStream> {
        let (session, params) = (self.session(conn), read_params(params));
        self.run(host, "query", async move {
            let session = session?;
            let rows = session.client.query_raw(&session.statement(statement)?, params).await;
            let rows = rows.map_err(|error| failure(&error))?;
            Ok(AbiStream::new(Batches { rows: Box::pin(rows).fuse(), _session: session }))
        })
    }

    pub(super) fn execute(&self, host: &Arc<FakeHost>, conn: ConnId, statement: StmtId, params: &[u8]) -> Fut<Answer> {
        let (session, params) = (self.session(conn), read_params(params));
        self.run(host, "execute", async move {
            let session = session?;
            let done = session.client.execute_raw(&session.statement(statement)?, params).await;
            done.map(Answer::from).map_err(|error| failure(&error))
        })
    }

    pub(super) fn batch(&self, host: &Arc<FakeHost>, conn: ConnId, sql: String) -> Fut<Answer> {
        let session = self.session(conn);
        self.run(host, &sql.clone(), async move {
            session?.client.batch_execute(&sql).await.map_err(|error| failure(&error))?;
            Ok(Answer::default())
        })
    }

    pub(super) fn copy_in(&self, host: &Arc<FakeHost>, conn: ConnId, sql: String, mut data: AbiStream) -> Fut<Answer> {
        let session = self.session(conn);
        self.run(host, &sql.clone(), async move {
            let sink = session?.client.copy_in::<_, Bytes>(sql.as_str()).await.map_err(|error| failure(&error))?;
            let mut sink = pin!(sink);
            while let Some(piece) = data.next().await {
                let piece = Bytes::copy_from_slice(piece?.get());
                sink.send(piece).await.map_err(|error| failure(&error))?;
            }
            sink.finish().await.map(Answer::from).map_err(|error| failure(&error))
        })
    }

    pub(super) fn copy_out(&self, host: &Arc<FakeHost>, conn: ConnId, sql: String) -> Fut<AbiStream> {
        let session = self.session(conn);
        self.run(host, &sql.clone(), async move {
            let pieces = session?.client.copy_out(sql.as_str()).await.map_err(|error| failure(&error))?;
            Ok(AbiStream::new(Pieces(Box::pin(pieces))))
        })
    }

    /// Listens on a connection of its own, for as long as the task is not aborted.
    pub(super) fn listen(&self, host: &Arc<FakeHost>, channel: String, sender: PayloadSender) -> Fut<AbortHandle> {
        let shared = self.shared.clone();
        self.run(host, "listen", async move {
            let config = shared.config().await?;
            let (client, mut connection) = config.connect(NoTls).await.map_err(|error| failure(&error))?;
            let listening = tokio::spawn(async move {
                while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                    if let AsyncMessage::Notification(notification) = message {
                        sender.push(notification.payload());
                    }
                }
            });
            client.batch_execute(&format!("LISTEN {channel}")).await.map_err(|error| failure(&error))?;
            let connection = listening.abort_handle();
            tokio::spawn(async move {
                let _ = listening.await; // however it ends
                drop(client);
            });
            Ok(connection)
        })
    }

    pub(super) fn connect_options(&self, host: &Arc<FakeHost>) -> Fut<abi::Bytes> {
        let shared = self.shared.clone();
        self.run(host, "connect_options", async move {
            let config = shared.config().await?;
            let place = match config.get_hosts().first() {
                Some(Host::Tcp(name)) => name.clone(),
                #[cfg(unix)]
                Some(Host::Unix(folder)) => folder.display().to_string(),
                None => "localhost".to_owned(),
            };
            let password = String::from_utf8_lossy(config.get_password().unwrap_or_default());
            let options = json!({
                "host": place, "port": config.get_ports().first().unwrap_or(&5432), "dbname": config.get_dbname(),
                "user": config.get_user(), "password": password, "options": config.get_options(),
            });
            Ok(options.to_string().into())
        })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        lock(&self.shared.sessions).clear();
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it has said itself what it could not do
        }
    }
}

impl Shared {
    /// The way to the test's database, which the first caller makes.
    async fn config(&self) -> Result<Config, Error> {
        let made = self.made.get_or_init(|| async { self.make().await.map_err(|error| error.to_string()) }).await;
        made.clone().map_err(|reason| Error::new(codes::UNAVAILABLE, reason))
    }

    async fn make(&self) -> Result<Config, Box<dyn std::error::Error + Send + Sync>> {
        let found = self.server.get_or_init(|| address::address().map_err(|missing| missing.text()));
        let server: Config = found.clone()?.parse()?;
        let admin = connect(&server).await?;
        // Not template1, which somebody may be connected to.
        admin.batch_execute(&format!("CREATE DATABASE {} TEMPLATE template0", self.name)).await?;
        let mut config = server;
        config.dbname(&self.name).options(format!("-c search_path={}", self.schema));
        let client = connect(&config).await?;
        client.batch_execute(&format!("{CORE}; CREATE SCHEMA {}", self.schema)).await?;
        client.batch_execute(&self.schema_sql).await.map_err(|error| format!("schema.sql: {}", text_of(&error)))?;
        Ok(config)
    }

    async fn drop_database(&self) {
        let Some(Ok(_)) = self.made.get() else { return };
        let server = self.server.get().and_then(|found| found.as_deref().ok());
        let Some(Ok(server)) = server.map(str::parse::<Config>) else { return };
        let dropped =
            async { connect(&server).await?.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await };
        if let Err(error) = dropped.await {
            eprintln!("the test's database {} stays behind: {}", self.name, text_of(&error));
        }
    }
}

impl Session {
    fn statement(&self, number: StmtId) -> Result<Statement, Error> {
        let statement = lock(&self.statements).get(&number).cloned();
        statement.ok_or_else(|| Error::new(codes::BAD_HANDLE, "there is no such statement on this connection"))
    }
}

async fn connect(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection); // ends with the client
    Ok(client)
}

/// Puts the test's cards where the plugin's keys and joins look for them.
async fn copy_cards(client: &Client, host: &FakeHost) -> Result<(), tokio_postgres::Error> {
    let cards: Value = lock(&host.cards).values().cloned().collect();
    let sql = "INSERT INTO public.master_cards SELECT * FROM jsonb_populate_recordset(NULL::public.master_cards, $1)
               ON CONFLICT (id) DO UPDATE SET title = excluded.title, sku = excluded.sku, status = excluded.status,
                   attributes = excluded.attributes, version = excluded.version, updated_at = excluded.updated_at";
    client.execute(sql, &[&cards]).await.map(drop)
}

/// Work on the database's thread; dropping it ends the work.
struct Running<T>(JoinHandle<Result<T, Error>>);

impl<T> Future for Running<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = |error| Err(Error::new(codes::CANCELLED, format!("the database's thread: {error}")));
        Pin::new(&mut self.0).poll(cx).map(|done| done.unwrap_or_else(ended))
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn busy() -> Error {
    let details = json!({ "status": 503, "code": "plugin-unavailable" });
    let text = format!("All {CONNECTIONS} database connections of the plugin are taken.");
    let error = Error::new(codes::UNAVAILABLE, text);
    Error { flags: flags::RETRY | flags::HOST, details: details.to_string().into(), ..error }
}

/// An error of PostgreSQL's, as the host passes it on.
fn failure(error: &tokio_postgres::Error) -> Error {
    let Some(db) = error.as_db_error() else { return Error::new(codes::UNAVAILABLE, text_of(error)) };
    let details = json!({
        "sqlstate": db.code().code(), "constraint": db.constraint(), "schema": db.schema(), "table": db.table(),
        "column": db.column(),
    });
    let failed = Error::new(codes::DATABASE, text_of(error));
    Error { flags: flags::HOST, details: details.to_string().into(), ..failed }
}

fn text_of(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |db| format!("{} ({})", db.message(), db.code().code()))
}

/// The rows of a query; the session stays for as long as they come.
struct Batches {
    /// Not to be asked again once it has ended.
    rows: futures_util::stream::Fuse<Pin<Box<tokio_postgres::RowStream>>>,
    _session: Arc<Session>,
}

impl Source for Batches {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<abi::Bytes, Error>>> {
        let mut batch = Vec::new();
        while batch.len() < BATCH_BYTES {
            match Pin::new(&mut self.rows).poll_next(cx) {
                Poll::Pending if batch.is_empty() => return Poll::Pending,
                Poll::Pending | Poll::Ready(None) => break,
                Poll::Ready(Some(row)) => {
                    if let Err(error) = row.and_then(|row| push_row(&mut batch, &row)) {
                        return Poll::Ready(Some(Err(failure(&error))));
                    }
                }
            }
        }
        Poll::Ready((!batch.is_empty()).then(|| Ok(batch.into())))
    }
}

/// What `COPY ... TO STDOUT` gives.
struct Pieces(Pin<Box<tokio_postgres::CopyOutStream>>);

impl Source for Pieces {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<abi::Bytes, Error>>> {
        let piece = ready!(self.0.as_mut().poll_next(cx));
        Poll::Ready(piece.map(|piece| piece.map(abi::Bytes::from_owner).map_err(|error| failure(&error))))
    }
}
