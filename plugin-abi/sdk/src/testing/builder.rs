//! What is set before the plugin of a [`TestHost`] starts.

use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::{
    Routes, Running, TestHost,
    fake_host::{Database, FakeHost},
    rules::Rules,
    start,
};
use crate::{IntoRouter, PluginContext, runtime::Threads};

/// What is set before the plugin of a [`TestHost`] starts: settings, a database, a stopped clock. [`TestHost::builder`]
/// makes it.
///
/// ```
/// use cardinal_plugin::{PluginContext, Router, json, testing::{TestHost, TestHostBuilder}};
///
/// /// What the tests of a plugin have in common.
/// fn builder() -> TestHostBuilder {
///     TestHost::builder(r#"{ "name": "prices", "version": "1.0.0" }"#).settings(json!({ "currency": "EUR" }))
/// }
/// let host = builder().paused().start(|_: &PluginContext| Router::new());
/// ```
#[derive(Debug)]
pub struct TestHostBuilder {
    pub(super) manifest: String,
    pub(super) settings: Value,
    pub(super) schema_sql: Option<String>,
    pub(super) paused: bool,
}

impl TestHostBuilder {
    /// Sets the operator's settings, a JSON object. They are laid over the defaults of `settings_schema`, which is not
    /// enforced.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Router, json, testing::TestHost};
    ///
    /// let manifest = r#"{ "name": "prices", "version": "1.0.0", "settings_schema": { "properties": {
    ///     "currency": { "type": "string", "default": "EUR" }, "supplier": { "type": "string" } } } }"#;
    /// let builder = TestHost::builder(manifest).settings(json!({ "supplier": "oak-and-co" }));
    /// let settings: cardinal_plugin::serde_json::Value =
    ///     builder.start(|_: &PluginContext| Router::new()).context().settings()?;
    /// assert_eq!(settings, json!({ "currency": "EUR", "supplier": "oak-and-co" }));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// ```
    #[must_use]
    pub fn settings(mut self, settings: Value) -> Self {
        self.settings = settings;
        self
    }

    /// Gives the plugin a database with this `schema.sql` in it: `include_str!("../schema.sql")`.
    ///
    /// The database is made with the first connection, and has `public.master_cards` with the cards of the test. The
    /// pool has 4 connections and the host's wait of 2 seconds.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Router, block_on, testing::{TestHost, lacks_database}};
    ///
    /// if lacks_database() {
    ///     return; // this example needs PostgreSQL: see `testing`
    /// }
    /// let schema = "CREATE TABLE prices (sku text PRIMARY KEY, cents bigint NOT NULL)";
    /// let host = TestHost::builder(r#"{ "name": "prices", "version": "1.0.0" }"#).database(schema);
    /// let host = host.start(|_: &PluginContext| Router::new());
    /// block_on(async {
    ///     let conn = host.context().get_plugin_conn().await?;
    ///     assert_eq!(conn.execute("INSERT INTO prices VALUES ('L1', 990)", &[]).await?, 1);
    ///     Ok::<(), cardinal_plugin::Error>(())
    /// })
    /// .unwrap();
    /// ```
    #[must_use]
    pub fn database(mut self, schema_sql: &str) -> Self {
        self.schema_sql = Some(schema_sql.to_owned());
        self
    }

    /// Stops the plugin's clock: `tokio::time` stands still until [`TestHost::advance`]. What sleeps, and every
    /// time-out of tokio's, waits for that.
    ///
    /// ```
    /// use std::time::Duration;
    /// use cardinal_plugin::{PluginContext, Router, block_on, testing::TestHost, tokio};
    ///
    /// let host = TestHost::builder(r#"{ "name": "prices", "version": "1.0.0" }"#).paused();
    /// let host = host.start(|_: &PluginContext| Router::new());
    /// let nightly = host.context().spawn(async { tokio::time::sleep(Duration::from_secs(86_400)).await });
    /// block_on(host.advance(Duration::from_secs(86_400))); // takes no time
    /// block_on(nightly).unwrap();
    /// ```
    #[must_use]
    pub fn paused(mut self) -> Self {
        self.paused = true;
        self
    }

    /// Starts the plugin.
    ///
    /// ```
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, json};
    ///
    /// fn routes(_: &PluginContext) -> Router {
    ///     Router::new().get("/greeting", greeting)
    /// }
    ///
    /// async fn greeting(ctx: PluginContext, _: Request) -> Result<Response> {
    ///     Ok(Response::json(&ctx.settings::<cardinal_plugin::serde_json::Value>()?["greeting"]))
    /// }
    ///
    /// let manifest = r#"{ "name": "greeter", "version": "1.0.0", "backend": {} }"#;
    /// let host = TestHost::builder(manifest).settings(json!({ "greeting": "Hello" })).start(routes);
    /// assert_eq!(block_on(host.send(TestRequest::get("/greeting"))).json(), json!("Hello"));
    /// ```
    ///
    /// # Panics
    /// When the manifest cannot be read, `routes` fails, or the router and the manifest do not agree: with what a host
    /// would say when it refuses the plugin.
    pub fn start<R: IntoRouter>(self, routes: impl Fn(&PluginContext) -> R + Send + Sync + 'static) -> TestHost {
        self.start_with(Arc::new(move |ctx: &PluginContext| routes(ctx).into_router()))
    }

    /// The part that is compiled once, not for each test.
    fn start_with(self, routes: Routes) -> TestHost {
        let rules: Rules = match serde_json::from_str(&self.manifest) {
            Ok(rules) => rules,
            Err(error) => panic!("manifest.json cannot be read: {error}"),
        };
        let settings = rules.settings(&self.settings).to_string();
        let database = Database::new(&rules.name, self.schema_sql.as_deref().unwrap_or_default());
        let database = database.unwrap_or_else(|error| panic!("the test's database cannot start: {error}"));
        let fake = FakeHost {
            settings: Mutex::new(settings),
            rules: Some(rules),
            database: Some(database),
            ..FakeHost::default()
        };
        let (fake, threads) = (fake.register(), Threads::Own { paused: self.paused });
        let ctx = fake.ctx;
        let instance = start(ctx, &self.manifest, &routes, threads);
        if let Some(Err(disagreement)) = fake.rules.as_ref().map(|rules| rules.agree(&instance.entries)) {
            panic!("{disagreement}");
        }
        let running = Mutex::new(Running { instance, ctx });
        TestHost { fake, manifest: self.manifest, routes, threads, running }
    }
}
