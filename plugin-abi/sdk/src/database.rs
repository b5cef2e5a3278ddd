//! The plugin's own database, in the manner of tokio-postgres.
//!
//! The host holds the connections; what crosses is SQL text, parameters and rows in PostgreSQL's binary formats. Rust
//! types are converted on this side by [`postgres_types`], with the same checks as there: a value that does not fit the
//! statement's type is an error, never a guess.

mod connection;
mod from_row;
pub(crate) mod json;
mod row;
pub(crate) mod shape;
mod statement;
mod transaction;
mod types;

use std::future::Future;

use serde::Deserialize;

pub use connection::Connection;
pub use from_row::{FromRow, json_column};
pub use row::{Column, OwnedRows, Row, RowIndex, RowStream};
pub use statement::{Statement, ToStatement};
pub use transaction::Transaction;

use crate::{PluginContext, Result};

/// The pool of the plugin's connections, which the host keeps, from [`PluginContext::pool`].
///
/// It is for code that is given a pool and takes a connection for each of its steps:
///
/// ```
/// use cardinal_plugin::{Pool, Result, futures::future};
///
/// /// Two statements at the same time need two connections.
/// async fn totals(pool: &Pool) -> Result<(i64, i64)> {
///     let count = async |sql: &str| Result::Ok(pool.get().await?.query_one(sql, &[]).await?.get::<_, i64>(0));
///     future::try_join(count("SELECT count(*) FROM items"), count("SELECT count(*) FROM orders")).await
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    ctx: PluginContext,
}

impl Pool {
    pub(crate) fn new(ctx: PluginContext) -> Self {
        Self { ctx }
    }

    /// Takes a connection; waits up to 2 seconds for one to become free.
    ///
    /// ```
    /// use cardinal_plugin::{Pool, Result};
    ///
    /// async fn cheapest(pool: Pool) -> Result<Option<i64>> {
    ///     let conn = pool.get().await?;
    ///     conn.query_one_as("SELECT min(cents) FROM prices", &[]).await.map(|(cents,)| cents)
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`PluginContext::get_plugin_conn`].
    pub fn get(&self) -> impl Future<Output = Result<Connection>> + Send + use<> {
        Connection::open(&self.ctx)
    }
}

/// Where the plugin's run-time role connects to, from [`PluginContext::connect_options`]. Its `Debug` leaves the
/// password out.
///
/// The fields are those of a libpq connection string, so that any driver takes them:
///
/// ```
/// use cardinal_plugin::{PluginContext, Result};
///
/// async fn address(ctx: &PluginContext) -> Result<String> {
///     let to = ctx.connect_options().await?;
///     let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
///     let address = format!("host={} port={} dbname={}", quoted(&to.host), to.port, quoted(&to.dbname));
///     let options = to.options.as_deref().unwrap_or_default();
///     Ok(format!("{address} user={} password={} options={}", quoted(&to.user), quoted(&to.password), quoted(options)))
/// }
/// ```
#[derive(Clone, Deserialize)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// A host name, an address, or the directory of a unix socket (begins with `/`).
    pub host: String,
    /// The port. For a unix socket it is part of the socket's name.
    pub port: u16,
    /// The database, which the core and all plugins share.
    pub dbname: String,
    /// The plugin's run-time role.
    pub user: String,
    /// The role's password. Never log it.
    pub password: String,
    /// Command-line options for the server, the `search_path` among them. Pass them on, or the plugin's tables are not
    /// found by their names alone.
    #[serde(default)]
    pub options: Option<String>,
}

impl std::fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConnectOptions({}@{}:{}/{})", self.user, self.host, self.port, self.dbname)
    }
}
