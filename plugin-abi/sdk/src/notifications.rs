//! Notifications of PostgreSQL: [`PluginContext::listen`], [`Connection::notify`], [`Notifications`].

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use cardinal_plugin_abi::{
    self as abi, Slice, error as codes,
    extension::Channels,
    record::{self, listen, notification},
};
use futures_util::Stream;

use crate::{Connection, Error, PluginContext, Result};

/// What a listener hears, from [`Notifications`].
///
/// ```
/// use cardinal_plugin::Notification;
///
/// /// The order to look at; `None` for all of them.
/// fn order(heard: Notification) -> Option<i64> {
///     match heard {
///         Notification::Payload(id) => id.parse().ok(),
///         _ => None, // a gap: whatever was notified meanwhile is not known
///     }
/// }
/// assert_eq!(order(Notification::Payload("7".to_owned())), Some(7));
/// assert_eq!(order(Notification::Gap), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Notification {
    /// Somebody has notified on the channel; the text that was sent along, which may be empty.
    Payload(String),
    /// There may have been notifications that are gone: the connection was lost and is there again, or they came faster
    /// than they were read. Read again what they would have told. What is committed after this is heard again.
    Gap,
}

/// What is notified on one channel of the plugin, from [`PluginContext::listen`].
///
/// It is a [`Stream`] of [`Notification`]s, so the adapters of [`futures`](crate::futures) work on it. It never fails:
/// an outage of the database is a [`Notification::Gap`] once the database is back. It ends when its call is over, or
/// when the plugin is stopped or another instance takes its place. Dropping it ends the listening. It may be polled
/// anywhere, also without tokio.
///
/// The host keeps 1,000 notifications, or 1 MiB of them, that were not read yet. What comes while these wait is
/// dropped, and a [`Notification::Gap`] stands in its place.
///
/// ```
/// use cardinal_plugin::{Event, Notification, PluginContext, Request, Response, Result, futures::StreamExt};
///
/// /// Tells a browser about orders for as long as it listens.
/// async fn orders(ctx: PluginContext, _: Request) -> Result<Response> {
///     let events = ctx.listen("orders").await?.map(|heard| match heard {
///         Notification::Payload(id) => Ok(Event::text(id).name("order")),
///         _ => Ok(Event::text("").name("look-again")),
///     });
///     Ok(Response::events(events))
/// }
/// ```
#[derive(Default)]
pub struct Notifications {
    inner: abi::Stream,
}

impl Notifications {
    /// Returns the next notification; `None` at the end. A future that is dropped loses none.
    ///
    /// ```
    /// use cardinal_plugin::{Notification, Notifications};
    ///
    /// /// Waits until there may be something to do; `false` at the end.
    /// async fn wait(orders: &mut Notifications) -> bool {
    ///     match orders.next().await {
    ///         Some(Notification::Payload(_) | Notification::Gap) => true,
    ///         _ => false,
    ///     }
    /// }
    /// # assert!(!cardinal_plugin::block_on(wait(&mut Notifications::default())));
    /// ```
    pub async fn next(&mut self) -> Option<Notification> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Notifications {
    type Item = Notification;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Notification>> {
        // An error is the end: the host gives none but that it is stopping.
        self.inner.poll_next(cx).map(|piece| piece?.ok().map(|piece| read(piece.get())))
    }
}

impl std::fmt::Debug for Notifications {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Notifications")
    }
}

fn read(piece: &[u8]) -> Notification {
    if record::field(piece, notification::GAP).is_empty() {
        let payload = record::field(piece, notification::PAYLOAD);
        Notification::Payload(String::from_utf8_lossy(payload).into_owned())
    } else {
        Notification::Gap
    }
}

impl PluginContext {
    /// Listens to a channel of the plugin's own: PostgreSQL's `LISTEN`. What is committed after this is heard, whoever
    /// notified: other calls, other hosts of the same database, the next version of the plugin
    /// ([`Connection::notify`] says how).
    ///
    /// A notification wakes; it is no queue. Nothing is kept for who does not listen, and every instance that listens
    /// hears it, so keep the work in a table and take each piece of it with `FOR UPDATE SKIP LOCKED` or the like.
    /// Listen first, then look once, then look again at whatever comes:
    ///
    /// ```
    /// use cardinal_plugin::testing::{TestHost, lacks_database};
    /// use cardinal_plugin::{PluginContext, Result, Router, block_on};
    ///
    /// /// For a task: `ctx.spawn(follow(ctx.as_plugin()))`.
    /// async fn follow(ctx: PluginContext) -> Result<()> {
    ///     let mut orders = ctx.listen("orders").await?;
    ///     while work_off(&ctx).await? > 0 {}
    ///     while orders.next().await.is_some() {
    ///         // A payload, or a gap after an outage: either way there may be orders.
    ///         while work_off(&ctx).await? > 0 {}
    ///     }
    ///     Ok(())
    /// }
    ///
    /// /// Takes up to ten orders that no other instance has at hand.
    /// async fn work_off(ctx: &PluginContext) -> Result<usize> {
    ///     let sql = "DELETE FROM orders WHERE id IN (SELECT id FROM orders LIMIT 10 FOR UPDATE SKIP LOCKED) RETURNING id";
    ///     let taken = ctx.get_plugin_conn().await?.query_values::<i64>(sql, &[]).await?;
    ///     Ok(taken.len())
    /// }
    ///
    /// /// The notification is sent when the transaction is committed, and never when it is not.
    /// async fn place(ctx: &PluginContext, id: i64) -> Result<()> {
    ///     let mut conn = ctx.get_plugin_conn().await?;
    ///     let tx = conn.transaction().await?;
    ///     tx.execute("INSERT INTO orders (id) VALUES ($1)", &[&id]).await?;
    ///     tx.notify("orders", "").await?;
    ///     tx.commit().await
    /// }
    ///
    /// if lacks_database() {
    ///     return; // this example needs PostgreSQL: see `testing`
    /// }
    /// let host = TestHost::builder(r#"{ "name": "orders", "version": "1.0.0" }"#);
    /// let host = host.database("CREATE TABLE orders (id bigint PRIMARY KEY)").start(|_: &PluginContext| Router::new());
    /// let ctx = host.context();
    /// let task = ctx.spawn(follow(ctx.as_plugin()));
    /// block_on(async {
    ///     place(&ctx, 1).await?;
    ///     let left = async || ctx.get_plugin_conn().await?.query_values::<i64>("SELECT id FROM orders", &[]).await;
    ///     while !left().await?.is_empty() {}
    ///     Ok::<(), cardinal_plugin::Error>(())
    /// })
    /// .unwrap();
    /// # drop(task);
    /// ```
    ///
    /// In a call the stream ends with the call, which suits a reply of [events](crate::Response::events);
    /// [`as_plugin`](Self::as_plugin) makes one that goes on.
    ///
    /// `channel` is any text of 1 to 100 bytes. PostgreSQL itself knows it by a name that only this plugin can make
    /// ([`channel_name`](Self::channel_name)), so no other plugin hears or sends it by SQL. It takes no rights.
    ///
    /// All streams of an instance share one connection of the plugin's `limits.db_connections`, which must be at least
    /// 2; it is taken with the first stream and given back with the last. At most 32 streams. Between the host and
    /// PostgreSQL there must be no pooler that shares sessions (PgBouncer with `pool_mode = transaction`).
    ///
    /// A manifest with `"requires": ["listen"]` keeps the plugin out of hosts that cannot do this.
    ///
    /// # Errors
    /// * [`Error::is_retryable`] when the database does not answer within 5 seconds, or 32 streams are open
    /// * [`Error::is_cancelled`] when the call is over or the plugin has been stopped
    /// * An internal error for a host without notifications, a plugin without a second connection, or a `channel` that
    ///   is empty or too long
    pub fn listen(&self, channel: &str) -> impl Future<Output = Result<Notifications>> + Send + use<> {
        let answer = self.notifications().map(|host| {
            let request = record::write(&[(listen::CHANNEL, channel.as_bytes())]);
            (host.listen)(self.core.ctx, self.call_id(), Slice::new(&request))
        });
        async move { answer?.await.map(|inner| Notifications { inner }).map_err(Error::from_host) }
    }

    /// Returns what PostgreSQL calls a channel of the plugin, for SQL of its own:
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result};
    ///
    /// /// Changes many rows and notifies once for each, in one statement.
    /// async fn ship(ctx: &PluginContext) -> Result<u64> {
    ///     let channel = ctx.channel_name("shipped").await?;
    ///     let conn = ctx.get_plugin_conn().await?;
    ///     let sql = "WITH shipped AS (UPDATE orders SET shipped = true WHERE NOT shipped RETURNING id)
    ///                SELECT pg_notify($1, id::text) FROM shipped";
    ///     conn.execute(sql, &[&channel]).await
    /// }
    /// ```
    ///
    /// It is the same on all hosts of the database, and a secret as the plugin's password is: who knows it can listen
    /// and notify. Don't keep it: a new password of the plugin's login makes a new name.
    ///
    /// # Errors
    /// Those of [`listen`](Self::listen), without the database's.
    pub fn channel_name(&self, channel: &str) -> impl Future<Output = Result<String>> + Send + use<> {
        let answer = self.notifications().map(|host| (host.channel)(self.core.ctx, Slice::text(channel)));
        async move {
            let name = answer?.await.map_err(Error::from_host)?;
            name.as_text().map(str::to_owned).ok_or_else(|| Error::internal("the host's name of a channel is no text"))
        }
    }

    fn notifications(&self) -> Result<&'static Channels> {
        self.core.host.listen().ok_or_else(|| {
            let reason = "this host has no notifications; a manifest that needs them says \"requires\": [\"listen\"]";
            Error::from_code(codes::UNSUPPORTED, reason)
        })
    }
}

impl Connection {
    /// Notifies who listens to a channel of the plugin's own ([`PluginContext::listen`]): PostgreSQL's `NOTIFY`.
    ///
    /// In a [`Transaction`](crate::Transaction) it is sent when that is committed, and never when it is rolled back.
    /// PostgreSQL sends the same payload on the same channel once for each transaction. A payload has less than 8,000
    /// bytes: send an id, and keep the rest in a table.
    ///
    /// ```
    /// use cardinal_plugin::{Connection, Result};
    ///
    /// async fn set_price(conn: &mut Connection, sku: &str, cents: i64) -> Result<()> {
    ///     let tx = conn.transaction().await?;
    ///     tx.execute("UPDATE prices SET cents = $2 WHERE sku = $1", &[&sku, &cents]).await?;
    ///     tx.notify("prices", sku).await?; // heard once the price is committed
    ///     tx.commit().await
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`query`](Self::query) and of [`PluginContext::channel_name`]; SQLSTATE 22023 for a payload that is too
    /// long.
    pub async fn notify(&self, channel: &str, payload: &str) -> Result<()> {
        let name = self.context().channel_name(channel).await?;
        self.execute("SELECT pg_catalog.pg_notify($1, $2)", &[&name, &payload]).await.map(drop)
    }
}
