//! Transactions and savepoints.

use std::ops::Deref;

use super::Connection;
use crate::{Error, Result, error::place};

/// A transaction, from [`Connection::transaction`]. Everything that a [`Connection`] can do is done inside it through
/// this.
///
/// [`commit`](Self::commit) ends it. Dropping it, on an early `?` or when the call is cancelled, rolls it back: the
/// rollback begins at once, and the next statement of the connection waits for it. PostgreSQL ends a transaction in
/// which nothing happens for 15 s, so don't wait for other servers inside one.
///
/// ```
/// use cardinal_plugin::testing::{TestHost, lacks_database};
/// use cardinal_plugin::{Error, PluginContext, Result, Router, block_on};
///
/// async fn transfer(ctx: &PluginContext, from: i64, to: i64, n: i32) -> Result<()> {
///     let mut conn = ctx.get_plugin_conn().await?;
///     let tx = conn.transaction().await?;
///     tx.execute("UPDATE stock SET n = n + $2 WHERE id = $1", &[&to, &n]).await?;
///     let taken = tx.execute("UPDATE stock SET n = n - $2 WHERE id = $1 AND n >= $2", &[&from, &n]).await?;
///     if taken == 0 {
///         return Err(Error::conflict("There are not so many.")); // what was added is undone
///     }
///     tx.commit().await
/// }
///
/// if lacks_database() {
///     return;
/// }
/// let schema = "CREATE TABLE stock (id bigint, n int); INSERT INTO stock VALUES (1, 5), (2, 0)";
/// let host = TestHost::builder(r#"{ "name": "stock", "version": "1.0.0" }"#);
/// let host = host.database(schema).start(|_: &PluginContext| Router::new());
/// let left = async |ctx: PluginContext| {
///     ctx.get_plugin_conn().await?.query_values::<i32>("SELECT n FROM stock ORDER BY id", &[]).await
/// };
/// assert_eq!(block_on(transfer(&host.context(), 1, 2, 6)).unwrap_err().status(), Some(409));
/// assert_eq!(block_on(left(host.context())).unwrap(), [5, 0]);
/// block_on(transfer(&host.context(), 1, 2, 3)).unwrap();
/// assert_eq!(block_on(left(host.context())).unwrap(), [2, 3]);
/// ```
#[derive(Debug)]
#[must_use = "a transaction that is dropped is rolled back"]
pub struct Transaction<'a> {
    conn: &'a Connection,
    /// The depth of the savepoint; 0 is the transaction itself.
    depth: u32,
    over: bool,
}

impl<'a> Transaction<'a> {
    pub(super) async fn begin(conn: &'a Connection, outer: Option<u32>) -> Result<Self> {
        conn.settle().await?;
        let depth = outer.map_or(0, |depth| depth + 1);
        // Made before the answer: when this future is dropped, nobody knows whether it has begun.
        let transaction = Self { conn, depth, over: false };
        let sql = if depth == 0 { "BEGIN".to_owned() } else { format!("SAVEPOINT cardinal_{depth}") };
        transaction.conn.batch(&sql).await.map_err(Error::from_host)?;
        Ok(transaction)
    }

    /// Begins a transaction inside this one (a savepoint), which can be rolled back alone.
    ///
    /// ```
    /// use cardinal_plugin::{Result, Transaction};
    ///
    /// /// Adds a name unless it is there already, which does not spoil the transaction around it.
    /// async fn add_name(tx: &mut Transaction<'_>, name: &str) -> Result<bool> {
    ///     let inner = tx.transaction().await?;
    ///     match inner.execute("INSERT INTO names (name) VALUES ($1)", &[&name]).await {
    ///         Ok(_) => inner.commit().await.map(|()| true),
    ///         Err(error) if error.sqlstate() == Some("23505") => inner.rollback().await.map(|()| false),
    ///         Err(error) => Err(error),
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// When the connection is lost, or a statement of this transaction has failed: PostgreSQL then accepts nothing but
    /// its end.
    pub async fn transaction(&mut self) -> Result<Transaction<'_>> {
        Transaction::begin(self.conn, Some(self.depth)).await
    }

    /// Commits the transaction; of an inner one it makes the changes part of the outer one.
    ///
    /// When it fails, nothing has been changed, with one exception: when the connection is lost while PostgreSQL
    /// answers, the transaction may or may not have been committed. The same holds when the future is dropped.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Error, Result};
    ///
    /// async fn add(conn: &mut Connection, sku: &str) -> Result<()> {
    ///     let tx = conn.transaction().await?;
    ///     tx.execute("INSERT INTO prices (sku) VALUES ($1)", &[&sku]).await?;
    ///     tx.commit().await.map_err(|error| match error.is_retryable() {
    ///         true => Error::unavailable("It is not known whether the price was added: look first."),
    ///         false => error,
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    /// What only the commit checks (deferred constraints, SQLSTATE 23...), a conflict with another transaction (40001),
    /// and a lost connection.
    #[track_caller]
    pub fn commit(self) -> impl Future<Output = Result<()>> {
        place::asked(async move {
            let sql = match self.depth {
                0 => "COMMIT".to_owned(),
                depth => format!("RELEASE SAVEPOINT cardinal_{depth}"),
            };
            self.end(&sql).await
        })
    }

    /// Rolls the transaction back and waits for it. Dropping it does the same without waiting, and without an error.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Result};
    ///
    /// /// How many prices the statement would change.
    /// async fn dry_run(conn: &mut Connection) -> Result<u64> {
    ///     let tx = conn.transaction().await?;
    ///     let changed = tx.execute("UPDATE prices SET cents = cents * 2", &[]).await?;
    ///     tx.rollback().await?;
    ///     Ok(changed)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the connection is lost, which rolls it back, too.
    pub async fn rollback(self) -> Result<()> {
        let sql = self.undo();
        self.end(&sql).await
    }

    async fn end(mut self, sql: &str) -> Result<()> {
        self.conn.settle().await?;
        self.conn.batch(sql).await.map_err(Error::from_host)?;
        self.over = true; // only now: whatever failed before this leaves it to the drop
        Ok(())
    }

    fn undo(&self) -> String {
        match self.depth {
            0 => "ROLLBACK".to_owned(),
            depth => format!("ROLLBACK TO SAVEPOINT cardinal_{depth}; RELEASE SAVEPOINT cardinal_{depth}"),
        }
    }
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.conn
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        match (self.over, self.depth) {
            (true, _) => {}
            (false, 0) => self.conn.roll_back(),
            (false, _) => self.conn.roll_back_later(self.undo()),
        }
    }
}
