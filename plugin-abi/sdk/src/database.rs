//! The plugin's own database, in the manner of tokio-postgres.
//!
//! The host holds the connections; what crosses is SQL text, parameters and rows in PostgreSQL's
//! binary formats. Rust types are converted on this side by [`postgres_types`], with the same
//! checks as there: a value that does not fit the statement's type is an error, never a guess.

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
pub use from_row::FromRow;
pub use row::{Column, OwnedRows, Row, RowIndex, RowStream};
pub use statement::{Statement, ToStatement};
pub use transaction::Transaction;

use crate::{PluginContext, Result};

/// The pool of the plugin's connections, which the host keeps.
///
/// ```
/// # async fn f(ctx: cardinal_plugin::PluginContext) -> cardinal_plugin::Result<()> {
/// let pool = ctx.pool();
/// let conn = pool.get().await?;
/// let row = conn.query_one("SELECT count(*) FROM items WHERE price > $1", &[&10i32]).await?;
/// let n: i64 = row.get(0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    ctx: PluginContext,
}

impl Pool {
    pub(crate) fn new(ctx: PluginContext) -> Self {
        Self { ctx }
    }

    /// A connection; waits for one to become free, for as long as the host allows.
    pub fn get(&self) -> impl Future<Output = Result<Connection>> + Send + use<> {
        Connection::open(&self.ctx)
    }
}

/// Where the plugin's run-time role connects to.
#[derive(Clone, Deserialize)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// A host name, an address, or the directory of a unix socket (begins with `/`).
    pub host: String,
    /// The port; it is part of a unix socket's name, too.
    pub port: u16,
    /// The database.
    pub dbname: String,
    /// The plugin's run-time role.
    pub user: String,
    /// Its password. Not to be logged.
    pub password: String,
    /// Command-line options for the server: the `search_path`.
    #[serde(default)]
    pub options: Option<String>,
}

impl std::fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConnectOptions({}@{}:{}/{})", self.user, self.host, self.port, self.dbname)
    }
}
