//! Tests of a plugin in the test's own process: a host that answers everything a plugin may ask, without a server.
//!
//! ```toml
//! [dev-dependencies]
//! cardinal-plugin = { path = "...", features = ["testing"] }
//! ```
//!
//! A [`TestHost`] starts the plugin as a host does, from its manifest and its `routes`, and holds it to the same rules:
//! router and manifest agree, a call has its user's rights and no more, sources have declared kinds. Requests and
//! replies go through the plugin API's own layouts. Nothing here needs an async runtime: [`block_on`](crate::block_on)
//! will do.
//!
//! ```
//! use cardinal_plugin::{PluginContext, Request, Response, Result, Router, Uuid, block_on, json};
//! use cardinal_plugin::testing::{TestHost, TestRequest, test_card};
//!
//! fn routes(_: &PluginContext) -> Router {
//!     Router::new().post("/mark/{card_id}", mark)
//! }
//!
//! async fn mark(ctx: PluginContext, req: Request) -> Result<Response> {
//!     let card: Uuid = req.param_as("card_id")?;
//!     let version = ctx.enrich_card(card, ctx.user()?.id, "marks:seen", "mark", &json!({ "seen": true })).await?;
//!     Ok(Response::json(&json!({ "version": version })))
//! }
//!
//! let manifest = r#"{ "name": "marks", "version": "1.0.0", "provides_kinds": ["mark"], "backend": {} }"#;
//! let host = TestHost::new(manifest, routes); // in a crate: include_str!("../manifest.json"), crate::routes::routes
//! let lamp = host.add_card(test_card("Lamp", json!({})));
//! let reply = block_on(host.send(TestRequest::post(&format!("/mark/{lamp}"))));
//! assert_eq!((reply.status(), reply.json()), (200, json!({ "version": 2 })));
//! assert_eq!(host.card(lamp).sources()["marks:seen"].kind, "mark");
//! ```
//!
//! **Database.** With [`TestHostBuilder::database`] the plugin has its schema, made from its `schema.sql`, in a
//! database of its own that is dropped with the host. The PostgreSQL is the one that `CARDINAL_TEST_DATABASE` (or
//! `DATABASE_URL`) names; its login must be allowed to create databases, and TLS is not spoken. Where neither is set,
//! the program `cardinal` of `PATH` (or the one that the variable `CARDINAL` names) runs one from the machine's
//! PostgreSQL, once for all tests of the process: the first that connects waits a second or two, and it is gone with
//! the process. Where there is no such program or no PostgreSQL, a connection is an error that says so; a test that
//! cannot do without asks [`lacks_database`] first. `cardinal plugin test` sets the variable. `cardinal plugin check`
//! validates `schema.sql`; a test host runs it as it is, and with the login's rights instead of those of a plugin's
//! role.
//!
//! **Settings.** [`check_settings`] compares the type that the plugin reads them as with `settings_schema`.
//!
//! **Time.** With [`TestHostBuilder::paused`] the plugin's tokio clock (`tokio::time`) stands still until
//! [`TestHost::advance`]. `std::time` and `time::OffsetDateTime` go on.
//!
//! **Jobs** are begun with [`TestHost::begin_job`], with a clock that the test moves, and asked to stop.
//!
//! **Other servers** answer what the test says with [`TestHost::answer_http`].
//!
//! **Notifications** go through the test's database. [`TestHost::lose_notifications`] makes the gap of an outage.
//!
//! **Failures of the host** are made with [`TestHost::fail`]; [`TestHost::hold`] lets an answer wait.
//!
//! **What is not tested here:** `settings_schema`, `input_schema` and `args_schema` are not enforced, nor are
//! deadlines, limits of sizes, rates and concurrency, and the statements that a plugin's role may run. `list_cards`
//! ignores parameters that [`CardQuery`](crate::CardQuery) has no method for. `cardinal plugin test` runs the plugin in
//! a host, and so does `cargo test` with [`host_tests!`](crate::host_tests).

mod address;
mod agreement;
mod builder;
mod calls;
mod cards;
mod failures;
pub mod fake_host;
mod in_a_host;
mod jobs;
mod left_out;
mod lines;
mod reply;
mod request;
mod rules;
mod servers;
mod settings;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use cardinal_plugin_abi::{
    CtxId,
    record::{self, instance},
};
use serde_json::Value;
use uuid::Uuid;

pub use address::{has_database, lacks_database};
pub use builder::TestHostBuilder;
pub use cards::test_card;
pub use in_a_host::check_in_host;
pub use jobs::{JobEnd, StartedJob, TestJob, TestJobRun};
pub use lines::{LogLine, MetricLine};
pub use reply::{TestCall, TestReply};
pub use request::{TestRequest, test_user};
pub use servers::{SentRequest, ServerAnswer};
pub use settings::check_settings;

use self::fake_host::{FakeHost, api, lock};
use crate::{IntoRouter, PluginContext, Result, Router, instance::Instance, runtime::Threads};

/// The id of the plugin's own user ([`PluginContext::service_user`]) in every [`TestHost`].
pub const SERVICE_USER: Uuid = Uuid::from_u128(0x0190_d3a0_0000_7000_8000_0000_0000_000a);

/// The version of the core that a [`TestHost`] says it has ([`PluginContext::core_version`]).
pub const CORE_VERSION: &str = "1.0.0";

type Routes = Arc<dyn Fn(&PluginContext) -> Result<Router> + Send + Sync>;

/// A host with one plugin in it. See the [module](self).
///
/// Tests may run side by side, each with a host of its own: cards, log, database and clock belong to the host. What a
/// plugin keeps in statics is shared by all tests of the process. All methods take `&self`, and the host may be used
/// from several threads.
///
/// Dropping it stops the plugin: tasks are dropped at their next await, and the drop waits for them. It also drops the
/// database.
///
/// ```
/// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
/// use cardinal_plugin::testing::{TestHost, TestRequest};
///
/// async fn price(_: PluginContext, _: Request) -> Result<Response> {
///     Ok(Response::text("9.90"))
/// }
///
/// let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
/// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/price", price));
/// assert_eq!(block_on(host.send(TestRequest::get("/price"))).text(), "9.90");
/// ```
pub struct TestHost {
    fake: Arc<FakeHost>,
    manifest: String,
    routes: Routes,
    threads: Threads,
    running: Mutex<Running>,
}

/// The instance that answers now.
#[derive(Clone)]
struct Running {
    instance: Arc<Instance>,
    ctx: CtxId,
}

fn start(ctx: CtxId, manifest: &str, routes: &Routes, threads: Threads) -> Arc<Instance> {
    let routes = |ctx: &PluginContext| routes(ctx);
    match Instance::create(api(), ctx, &about(), manifest.as_bytes(), &routes, threads) {
        Ok(instance) => instance,
        Err(error) => panic!("the plugin does not start: {error}"),
    }
}

/// What a host says of an instance.
fn about() -> Vec<u8> {
    let fields = [(instance::CORE_VERSION, CORE_VERSION), (instance::GENERATION, "1")];
    record::write(&fields.map(|(number, text)| (number, text.as_bytes())))
}

impl TestHost {
    /// Starts the plugin that this manifest and these routes make, with default settings. [`builder`](Self::builder)
    /// sets more.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    ///
    /// // In a crate: `TestHost::new(include_str!("../manifest.json"), crate::routes::routes)`.
    /// let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// assert_eq!(host.context().name(), "prices");
    /// ```
    ///
    /// # Panics
    /// Those of [`TestHostBuilder::start`].
    pub fn new<R: IntoRouter>(manifest: &str, routes: impl Fn(&PluginContext) -> R + Send + Sync + 'static) -> Self {
        Self::builder(manifest).start(routes)
    }

    /// Begins a host that is to have settings, a database or a stopped clock.
    ///
    /// `manifest` is the text of `manifest.json`. Of its fields `name` and `version` must be there.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Router, json, testing::TestHost};
    ///
    /// let builder = TestHost::builder(r#"{ "name": "prices", "version": "1.0.0" }"#);
    /// let host = builder.settings(json!({ "currency": "EUR" })).paused().start(|_: &PluginContext| Router::new());
    /// assert_eq!(host.context().settings::<cardinal_plugin::serde_json::Value>()?["currency"], "EUR");
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// ```
    pub fn builder(manifest: &str) -> TestHostBuilder {
        TestHostBuilder { manifest: manifest.to_owned(), settings: Value::Null, schema_sql: None, paused: false }
    }

    /// Returns the plugin's own context, as `routes` got it. It acts as [`SERVICE_USER`].
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Router, block_on, testing::{SERVICE_USER, TestHost}};
    ///
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let ctx = host.context();
    /// assert_eq!(block_on(ctx.service_user()).unwrap().id, SERVICE_USER);
    /// assert!(ctx.user().is_err(), "nobody calls");
    /// ```
    pub fn context(&self) -> PluginContext {
        PluginContext::for_instance(self.running().instance.core.clone())
    }

    /// Moves a [stopped](TestHostBuilder::paused) clock on, and runs the timers that are due. A task that sleeps is
    /// woken; a call goes on when it is awaited or asked.
    ///
    /// ```
    /// use std::time::Duration;
    /// use cardinal_plugin::testing::TestHost;
    /// use cardinal_plugin::{PluginContext, Router, block_on, tokio};
    ///
    /// let host = TestHost::builder(r#"{ "name": "clock", "version": "1.0.0" }"#).paused();
    /// let host = host.start(|_: &PluginContext| Router::new());
    /// let task = host.context().spawn(async { tokio::time::sleep(Duration::from_secs(3_600)).await });
    /// assert!(!task.is_finished());
    /// block_on(host.advance(Duration::from_secs(3_600)));
    /// block_on(task).unwrap();
    /// ```
    ///
    /// # Panics
    /// When the clock is not stopped.
    pub async fn advance(&self, by: Duration) {
        let core = self.running().instance.core.clone();
        let moved = match core.runtime.handle(&core.about.name) {
            Ok(handle) => handle.spawn(tokio::time::advance(by)).await.is_ok(), // it panics when the clock is not stopped
            Err(_) => false,
        };
        assert!(moved, "the clock is not stopped: make the host with `.paused()`");
    }

    /// Starts a new instance with these settings and stops the old one, as a host does when an operator changes them.
    /// Statics and whatever else the library shares stay. Calls under way should have ended before.
    ///
    /// Contexts of the old instance are those of a plugin that has been stopped; [`context`](Self::context) returns the
    /// new one's.
    ///
    /// ```
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on, json, serde_json::Value};
    ///
    /// async fn greet(ctx: PluginContext, _: Request) -> Result<Response> {
    ///     Ok(Response::json(&ctx.settings::<Value>()?["greeting"]))
    /// }
    ///
    /// let manifest = r#"{ "name": "greeter", "version": "1.0.0", "backend": {}, "settings_schema": { "properties": {
    ///     "greeting": { "type": "string", "default": "Hello" } } } }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/", greet));
    /// let greeting = || block_on(host.send(TestRequest::get("/"))).json();
    /// assert_eq!(greeting(), "Hello");
    /// host.change_settings(&json!({ "greeting": "Hallo" }));
    /// assert_eq!(greeting(), "Hallo");
    /// ```
    ///
    /// # Panics
    /// When `routes` fails with these settings.
    pub fn change_settings(&self, settings: &Value) {
        let all = self.fake.rules.as_ref().map(|rules| rules.settings(settings)).unwrap_or_default();
        *lock(&self.fake.settings) = all.to_string();
        let ctx = self.fake.another_context();
        let instance = start(ctx, &self.manifest, &self.routes, self.threads);
        let before = std::mem::replace(&mut *lock(&self.running), Running { instance, ctx });
        self.stop(&before);
    }

    fn running(&self) -> Running {
        lock(&self.running).clone()
    }

    fn stop(&self, running: &Running) {
        self.fake.stop(running.ctx);
        crate::block_on(running.instance.core.runtime.shut_down());
        self.fake.unregister(running.ctx);
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        let running = self.running();
        self.stop(&running);
        self.fake.unregister(self.fake.ctx);
    }
}

impl std::fmt::Debug for TestHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TestHost({:?})", self.context())
    }
}
