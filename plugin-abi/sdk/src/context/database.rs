//! The plugin's own database, through the context.

use std::future::Future;

use super::{PluginContext, parse};
use crate::{ConnectOptions, Connection, Pool, Result, error::place};

impl PluginContext {
    /// Takes a connection from the plugin's own pool.
    ///
    /// It logs in as the plugin's run-time role, and its `search_path` is the plugin's schema. Dropping it gives it
    /// back, clean, whatever was left open on it. One that was taken in a call goes back when the call ends at the
    /// latest, even if the code still holds it; take connections for work that goes on with
    /// [`as_plugin`](Self::as_plugin).
    ///
    /// The pool has 4 connections, or `limits.db_connections` of the manifest (at most 8). Hold one for the statements
    /// that need it, not while waiting for another server: a plugin that holds all of them makes its own calls wait.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result, Uuid};
    ///
    /// async fn notes(ctx: &PluginContext, card: Uuid) -> Result<Vec<String>> {
    ///     let conn = ctx.get_plugin_conn().await?;
    ///     let rows = conn.query("SELECT text FROM notes WHERE card_id = $1 ORDER BY id", &[&card]).await?;
    ///     Ok(rows.iter().map(|row| row.get("text")).collect())
    /// }
    /// ```
    ///
    /// # Errors
    /// * [`Error::is_retryable`] when no connection becomes free within 2 seconds, or the database does not answer.
    ///   Passed on with `?`, it is a 503 for the client.
    /// * [`Error::is_cancelled`] when the call is over or the plugin has been stopped.
    ///
    /// [`Error::is_retryable`]: crate::Error::is_retryable
    /// [`Error::is_cancelled`]: crate::Error::is_cancelled
    #[track_caller]
    pub fn get_plugin_conn(&self) -> impl Future<Output = Result<Connection>> + Send + use<> {
        place::asked(Connection::open(self))
    }

    /// Returns the pool that [`get_plugin_conn`](Self::get_plugin_conn) takes connections from, for code that expects a
    /// pool.
    ///
    /// The pool keeps this context: connections are taken in its call.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Pool, Result};
    ///
    /// /// Knows of the database and of nothing else that a context has.
    /// async fn count_prices(pool: &Pool) -> Result<i64> {
    ///     pool.get().await?.query_one_as("SELECT count(*) FROM prices", &[]).await.map(|(count,)| count)
    /// }
    ///
    /// async fn report(ctx: &PluginContext) -> Result<String> {
    ///     Ok(format!("{} prices", count_prices(&ctx.pool()).await?))
    /// }
    /// ```
    pub fn pool(&self) -> Pool {
        Pool::new(self.clone())
    }

    /// Asks the host where the plugin's run-time role connects to, for authors who bring a driver of their own.
    ///
    /// Connections that are made with it are not the pool's: they don't count for `limits.db_connections`, the host
    /// neither cleans nor cancels them, and the plugin closes them when it stops. Don't log the password, and don't
    /// keep it: ask again.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result};
    ///
    /// /// For a driver that takes the parts one by one.
    /// async fn server(ctx: &PluginContext) -> Result<(String, u16)> {
    ///     let options = ctx.connect_options().await?;
    ///     Ok((options.host, options.port))
    /// }
    /// ```
    ///
    /// # Errors
    /// When the plugin has been stopped, or has no database.
    pub fn connect_options(&self) -> impl Future<Output = Result<ConnectOptions>> + Send + use<> {
        let answer = (self.core.host.connect_options())(self.core.ctx);
        async { parse(answer.await, "connect options") }
    }
}
