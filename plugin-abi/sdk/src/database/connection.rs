//! A connection that is checked out of the plugin's pool.
//!
//! What a dropped transaction leaves behind (a rollback that is under way, or a savepoint to go back to) is settled
//! before the next statement, so dropping never blocks and the next statement never sees the old transaction.

mod query;

use std::{
    collections::HashMap,
    fmt,
    future::{Future, poll_fn},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use cardinal_plugin_abi::{Answer, Fut, Slice, host::ConnId};
use futures_util::{FutureExt, Stream};
use postgres_types::ToSql;

use super::{
    statement::{Source, Statement, StatementInner, ToStatement},
    transaction::Transaction,
};
use crate::{ByteStream, Error, PluginContext, Result, error::place, stream};

/// A connection of the plugin's own pool, to be used like tokio-postgres' `Client`.
///
/// **Parameters** are `$1`, `$2`, ... in the SQL, never text that is put into it. Their Rust types are those of
/// [`postgres_types`].
///
/// **Statements** are prepared on first use and kept with the connection, so text that repeats costs no second round
/// trip. Statements of one connection run one after another. Dropping the future of a statement cancels it at the
/// server.
///
/// **Limits.** PostgreSQL ends a statement that takes longer than 15 s (SQLSTATE 57014), a wait for a lock after 3 s
/// (55P03), and a transaction in which nothing happens for 15 s.
///
/// **Giving it back.** Dropping the connection gives it back at once; the host cleans it (open transaction, role,
/// settings, LISTEN, locks) before anybody else gets it. One that a call took is taken back when the call ends; using
/// it then is an error with [`Error::is_cancelled`].
///
/// It works on any thread, with or without a runtime.
///
/// ```
/// use cardinal_plugin::testing::{TestHost, lacks_database};
/// use cardinal_plugin::{PluginContext, Result, Router, block_on};
///
/// async fn rename(ctx: &PluginContext, id: i64, name: &str) -> Result<bool> {
///     let conn = ctx.get_plugin_conn().await?;
///     let changed = conn.execute("UPDATE items SET name = $2 WHERE id = $1", &[&id, &name]).await?;
///     Ok(changed == 1)
/// }
///
/// if lacks_database() {
///     return; // this example needs PostgreSQL: see `testing`
/// }
/// let schema = "CREATE TABLE items (id bigint PRIMARY KEY, name text NOT NULL); INSERT INTO items VALUES (1, 'Lamp')";
/// let host = TestHost::builder(r#"{ "name": "items", "version": "1.0.0" }"#);
/// let host = host.database(schema).start(|_: &PluginContext| Router::new());
/// assert!(block_on(rename(&host.context(), 1, "Desk lamp")).unwrap());
/// assert!(!block_on(rename(&host.context(), 2, "Chair")).unwrap());
/// ```
pub struct Connection {
    ctx: PluginContext,
    statements: Mutex<HashMap<String, Statement>>,
    after: Mutex<Afterwork>,
    lease: Option<Lease>,
}

/// PostgreSQL's codes for a statement that must be prepared again.
const CACHED_PLAN: &str = "0A000";
const NO_SUCH_STATEMENT: &str = "26000";

/// The connection's number; dropping it gives the connection back.
struct Lease {
    /// The instance's own, which outlives the call.
    ctx: PluginContext,
    id: ConnId,
}

impl Drop for Lease {
    fn drop(&mut self) {
        (self.ctx.core.host.db_release())(self.ctx.core.ctx, self.id);
    }
}

/// What dropped transactions have left to do before the next statement.
#[derive(Default)]
pub(super) struct Afterwork {
    /// A rollback that is under way.
    running: Option<Fut<Answer>>,
    /// A rollback to a savepoint, which can wait.
    queued: Option<String>,
}

impl Connection {
    pub(crate) fn open(ctx: &PluginContext) -> impl Future<Output = Result<Self>> + Send + use<> {
        let ctx = ctx.clone();
        let answer = (ctx.core.host.db_connect())(ctx.core.ctx, ctx.call_id());
        // `map` makes the lease in the very poll that brings the number: no await lies between.
        answer.map(move |answer| {
            let lease = Lease { ctx: ctx.as_plugin(), id: answer.map_err(Error::from_host)?.number };
            Ok(Self { ctx, statements: Mutex::default(), after: Mutex::default(), lease: Some(lease) })
        })
    }

    /// Prepares a statement and returns it with its types.
    ///
    /// [`query`](Self::query) and the others do so themselves when they get text, and remember it. Preparing is for
    /// code that looks at the types, or that keeps the statement to save the look-up by its text. The statement belongs
    /// to this connection: another one refuses it.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Result};
    ///
    /// /// Looks the statement up once, not for each row.
    /// async fn add_all(conn: &Connection, prices: &[(String, i64)]) -> Result<()> {
    ///     let insert = conn.prepare("INSERT INTO prices (sku, cents) VALUES ($1, $2)").await?;
    ///     for (sku, cents) in prices {
    ///         conn.execute(&insert, &[sku, cents]).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// PostgreSQL's, for text that is not a single statement or names what is not there ([`Error::sqlstate`]); and the
    /// loss of the connection.
    #[track_caller]
    pub fn prepare(&self, sql: &str) -> impl Future<Output = Result<Statement>> {
        place::asked(async move {
            if let Some(statement) = lock(&self.statements).get(sql) {
                return Ok(statement.clone());
            }
            self.settle().await?;
            let prepare = self.ctx.core.host.db_prepare();
            let answer = prepare(self.ctx.core.ctx, self.id(), Slice::text(sql)).await;
            let shape = self.ctx.core.shapes.get(answer.map_err(Error::from_host)?.get())?;
            let statement = Statement { inner: Arc::new(StatementInner { conn: self.id(), shape }) };
            lock(&self.statements).insert(sql.to_owned(), statement.clone());
            Ok(statement)
        })
    }

    /// Runs a statement and returns how many rows it changed: 0 for one that changes none, and the number of rows for a
    /// `SELECT`.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Result};
    ///
    /// /// Returns whether there was such a price.
    /// async fn set_price(conn: &Connection, sku: &str, cents: i64) -> Result<bool> {
    ///     Ok(conn.execute("UPDATE prices SET cents = $2 WHERE sku = $1", &[&sku, &cents]).await? == 1)
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`query`](Self::query).
    #[track_caller]
    pub fn execute<T>(&self, statement: &T, params: &[&(dyn ToSql + Sync)]) -> impl Future<Output = Result<u64>>
    where
        T: ToStatement + ?Sized,
    {
        place::asked(async move {
            let statement = self.statement(statement).await?;
            let params = statement.encode(params)?;
            let execute = self.ctx.core.host.db_execute();
            let answer = execute(self.ctx.core.ctx, self.id(), statement.inner.shape.number, Slice::new(&params));
            answer.await.map(|answer| answer.number).map_err(|error| self.fault(&statement, error))
        })
    }

    /// Runs several statements, separated by `;`, without parameters and rows. They are one transaction unless they say
    /// otherwise, and have 60 s together.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Result};
    ///
    /// /// Both or neither.
    /// async fn renew(conn: &Connection) -> Result<()> {
    ///     conn.batch_execute("TRUNCATE prices; INSERT INTO prices SELECT * FROM new_prices").await
    /// }
    /// ```
    ///
    /// # Errors
    /// PostgreSQL's, of the first statement that fails; none behind it has run. And the loss of the connection.
    #[track_caller]
    pub fn batch_execute(&self, sql: &str) -> impl Future<Output = Result<()>> {
        place::asked(async move {
            self.settle().await?;
            self.batch(sql).await.map(drop).map_err(Error::from_host)
        })
    }

    /// Begins a transaction. It is rolled back unless [`commit`](Transaction::commit) succeeds.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Result};
    ///
    /// async fn rename(conn: &mut Connection, old: &str, new: &str) -> Result<()> {
    ///     let tx = conn.transaction().await?;
    ///     tx.execute("UPDATE prices SET sku = $2 WHERE sku = $1", &[&old, &new]).await?;
    ///     tx.execute("UPDATE ratings SET sku = $2 WHERE sku = $1", &[&old, &new]).await?;
    ///     tx.commit().await // an early `?` rolls both back
    /// }
    /// ```
    ///
    /// # Errors
    /// When the connection is lost ([`Error::is_retryable`]), or the call is over ([`Error::is_cancelled`]).
    pub async fn transaction(&mut self) -> Result<Transaction<'_>> {
        Transaction::begin(self, None).await
    }

    /// Runs `COPY ... FROM STDIN` and sends the pieces as they come, in the format that the SQL names. Returns the
    /// number of rows.
    ///
    /// How the data is cut into pieces carries no meaning. An error among the pieces undoes all of it, and so does
    /// dropping the future. `pieces` is polled on a thread of the plugin's, one piece ahead of what PostgreSQL takes,
    /// and must not block.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, json};
    ///
    /// /// Loads a CSV file of any size into a table, without looking at it.
    /// async fn load(ctx: PluginContext, req: Request) -> Result<Response> {
    ///     let conn = ctx.get_plugin_conn().await?;
    ///     let rows = conn.copy_in("COPY prices FROM STDIN (FORMAT csv, HEADER)", req.body_stream()?).await?;
    ///     Ok(Response::json(&json!({ "rows": rows })))
    /// }
    /// ```
    ///
    /// # Errors
    /// PostgreSQL's, and the first error of `pieces` as it was.
    #[track_caller]
    pub fn copy_in<S>(&self, sql: &str, pieces: S) -> impl Future<Output = Result<u64>>
    where
        S: Stream<Item = Result<Bytes>> + Send + 'static,
    {
        place::asked(async move {
            self.settle().await?;
            let core = &self.ctx.core;
            let scope = core.call_scope(self.ctx.call_id())?;
            let copy = core.host.db_copy_in();
            let answer = copy(core.ctx, self.id(), Slice::text(sql), stream::give(scope, pieces));
            answer.await.map(|answer| answer.number).map_err(Error::from_host)
        })
    }

    /// Runs `COPY ... TO STDOUT` and returns its data piece by piece, in the format that the SQL names.
    ///
    /// How the data is cut into pieces carries no meaning. The connection is busy until the stream ends or is dropped;
    /// dropping it early cancels the statement.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result};
    ///
    /// /// How many bytes the prices have as CSV.
    /// async fn size(ctx: &PluginContext) -> Result<usize> {
    ///     let conn = ctx.get_plugin_conn().await?;
    ///     let (mut data, mut size) = (conn.copy_out("COPY prices TO STDOUT (FORMAT csv)").await?, 0);
    ///     while let Some(piece) = data.next().await {
    ///         size += piece?.len();
    ///     }
    ///     Ok(size)
    /// }
    /// ```
    ///
    /// # Errors
    /// PostgreSQL's when the statement begins. Later ones come as an item of the stream.
    #[track_caller]
    pub fn copy_out(&self, sql: &str) -> impl Future<Output = Result<ByteStream>> {
        place::asked(async move {
            self.settle().await?;
            let copy = self.ctx.core.host.db_copy_out();
            let answer = copy(self.ctx.core.ctx, self.id(), Slice::text(sql));
            answer.await.map(ByteStream::new).map_err(Error::from_host)
        })
    }

    async fn statement<T: ToStatement + ?Sized>(&self, statement: &T) -> Result<Statement> {
        let prepared = match statement.source() {
            Source::Sql(sql) => self.prepare(sql).await?,
            Source::Prepared(statement) => statement.clone(),
        };
        if prepared.inner.conn != self.id() {
            return Err(Error::internal("the statement was prepared on another connection"));
        }
        self.settle().await?;
        Ok(prepared)
    }

    /// The error of a statement. One that the server no longer takes (a table has changed, somebody
    /// said DEALLOCATE) is forgotten, so that the next try prepares it anew.
    fn fault(&self, statement: &Statement, error: cardinal_plugin_abi::Error) -> Error {
        let error = Error::from_host(error);
        if matches!(error.sqlstate(), Some(CACHED_PLAN | NO_SUCH_STATEMENT)) {
            lock(&self.statements).retain(|_, known| !Arc::ptr_eq(&known.inner, &statement.inner));
        }
        error
    }

    /// Runs SQL without waiting for what dropped transactions left.
    pub(super) fn batch(&self, sql: &str) -> Fut<Answer> {
        (self.ctx.core.host.db_batch())(self.ctx.core.ctx, self.id(), Slice::text(sql))
    }

    /// Rolls back at once what a dropped transaction began; nobody waits for it here.
    pub(super) fn roll_back(&self) {
        let mut after = lock(&self.after);
        after.queued = None; // it goes with the whole
        after.running = Some(self.batch("ROLLBACK"));
    }

    /// Rolls back to a savepoint before the next statement.
    pub(super) fn roll_back_later(&self, sql: String) {
        // An outer savepoint, dropped after an inner one, takes it along.
        lock(&self.after).queued = Some(sql);
    }

    /// Does what dropped transactions left to do. Nothing is lost when this is dropped half-way.
    pub(super) async fn settle(&self) -> Result<()> {
        poll_fn(|cx| self.poll_settle(cx)).await
    }

    fn poll_settle(&self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut after = lock(&self.after);
        loop {
            if let Some(running) = after.running.as_mut() {
                let outcome = ready!(running.poll_unpin(cx));
                after.running = None;
                outcome.map_err(Error::from_host)?;
            }
            match after.queued.take() {
                None => return Poll::Ready(Ok(())),
                Some(sql) => after.running = Some(self.batch(&sql)),
            }
        }
    }

    /// The context that it was taken with.
    pub(crate) fn context(&self) -> &PluginContext {
        &self.ctx
    }

    fn id(&self) -> ConnId {
        self.lease.as_ref().map_or(0, |lease| lease.id)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(mut rollback) = lock(&self.after).running.take() else { return };
        if rollback.poll_unpin(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        let Some(lease) = self.lease.take() else { return };
        // Given back while the rollback runs it would have to be closed. Should the plugin be
        // stopped meanwhile, the task is dropped: rollback first, then the lease.
        drop(self.ctx.spawn(async move {
            let _ = rollback.await; // the host looks at the connection itself when it gets it
            drop(lease);
        }));
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.id())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
