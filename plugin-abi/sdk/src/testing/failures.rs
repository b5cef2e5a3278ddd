//! Failures of the host, and answers that it keeps back.

use super::{TestHost, fake_host::lock};
use crate::Error;

impl TestHost {
    /// Lets the host answer with this error from now on.
    ///
    /// `what` is a host function: `read_card`, `list_cards`, `card_events`, `enrich_card`, `remove_source`,
    /// `service_user`, `connect`, `query`, `execute`, `listen`, `channel_name`, `http`, `start_job` or `save_job`. It
    /// can also be SQL that is run without parameters (`COMMIT`), or `prepare` and the SQL of a statement.
    ///
    /// ```
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    /// use cardinal_plugin::{Error, PluginContext, Request, Response, Result, Router, block_on};
    ///
    /// async fn count(ctx: PluginContext, _: Request) -> Result<Response> {
    ///     let page = ctx.list_cards(Default::default()).await?;
    ///     Ok(Response::text(page.items.len().to_string()))
    /// }
    ///
    /// let manifest = r#"{ "name": "counter", "version": "1.0.0", "backend": {} }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/count", count));
    /// host.fail("list_cards", Error::unavailable("The database is away."));
    /// assert_eq!(block_on(host.send(TestRequest::get("/count"))).status(), 503);
    /// ```
    pub fn fail(&self, what: &str, error: Error) {
        lock(&self.fake.failing).insert(what.to_owned(), error.into());
    }

    /// Lets the host not answer this until [`release`](Self::release), or until the asking future is dropped. `what` is
    /// as in [`fail`](Self::fail).
    ///
    /// ```
    /// use cardinal_plugin::{CardQuery, PluginContext, Request, Response, Result, testing::TestRequest};
    ///
    /// async fn count(ctx: PluginContext, _: Request) -> Result<Response> {
    ///     let page = ctx.list_cards(CardQuery::new()).await?;
    ///     Ok(Response::text(page.items.len().to_string()))
    /// }
    ///
    /// # use cardinal_plugin::{Router, testing::TestHost};
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/count", count));
    /// host.hold("list_cards"); // a database that takes its time
    /// let mut call = host.begin(TestRequest::get("/count"));
    /// assert!(call.is_waiting());
    /// drop(call); // the client goes away
    /// assert!(host.journal().contains(&"cancelled list_cards".to_owned()));
    /// ```
    pub fn hold(&self, what: &str) {
        self.fake.hold(what);
    }

    /// Lets the host answer what was held, and all that asks for it from now on.
    ///
    /// ```
    /// use cardinal_plugin::testing::{TestHost, TestRequest, test_card};
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, Uuid, block_on, json};
    ///
    /// async fn title(ctx: PluginContext, req: Request) -> Result<Response> {
    ///     let card = ctx.read_card(req.param_as("id")?, ctx.user()?.id).await?;
    ///     Ok(Response::text(card.title))
    /// }
    ///
    /// let manifest = r#"{ "name": "titles", "version": "1.0.0", "backend": {} }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/title/{id}", title));
    /// let lamp = host.add_card(test_card("Lamp", json!({})));
    /// host.hold("read_card");
    /// let mut call = host.begin(TestRequest::get(&format!("/title/{lamp}")));
    /// assert!(call.is_waiting());
    /// host.release("read_card");
    /// assert_eq!(block_on(call).text(), "Lamp");
    /// ```
    pub fn release(&self, what: &str) {
        self.fake.finish(what);
    }

    /// Lets every open stream of [`PluginContext::listen`] have a [`Notification::Gap`], as after an outage of the
    /// database.
    ///
    /// ```
    /// use cardinal_plugin::testing::{TestHost, lacks_database};
    /// use cardinal_plugin::{Notification, PluginContext, Router, block_on};
    ///
    /// if lacks_database() {
    ///     return; // this example needs PostgreSQL
    /// }
    /// let host = TestHost::builder(r#"{ "name": "orders", "version": "1.0.0" }"#);
    /// let host = host.database("").start(|_: &PluginContext| Router::new());
    /// let ctx = host.context();
    /// block_on(async {
    ///     let mut orders = ctx.listen("orders").await?;
    ///     ctx.get_plugin_conn().await?.notify("orders", "7").await?;
    ///     assert_eq!(orders.next().await, Some(Notification::Payload("7".to_owned())));
    ///     host.lose_notifications();
    ///     assert_eq!(orders.next().await, Some(Notification::Gap));
    ///     Ok::<(), cardinal_plugin::Error>(())
    /// })
    /// .unwrap();
    /// ```
    ///
    /// [`PluginContext::listen`]: crate::PluginContext::listen
    /// [`Notification::Gap`]: crate::Notification::Gap
    pub fn lose_notifications(&self) {
        self.fake.lose_notifications();
    }
}
