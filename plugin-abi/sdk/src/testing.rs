//! Tests of a plugin in the test's own process: a host that answers everything a plugin may ask, without a server.
//!
//! ```toml
//! [dev-dependencies]
//! cardinal-plugin = { path = "...", features = ["testing"] }
//! ```
//!
//! A [`TestHost`] starts the plugin as a host does, from its manifest and its `routes`, and holds it to the same rules:
//! router and manifest agree, a call has its user's rights and no more, sources have declared kinds. Requests and replies
//! go through the plugin API's own layouts. Nothing here needs an async runtime: [`block_on`](crate::block_on) will do.
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
//! **Database.** With [`TestHostBuilder::database`] and PostgreSQL's address in `CARDINAL_TEST_DATABASE` (or
//! `DATABASE_URL`) the plugin has its schema, made from its `schema.sql`, in a database of its own that is dropped with
//! the host. The login must be allowed to create databases; TLS is not spoken. What `cardinal plugin check` says about
//! `schema.sql` is not looked at here. Without an address a connection is an error that says so; a test that
//! cannot do without asks [`lacks_database`] first. `cardinal plugin test` sets the variable.
//!
//! **Settings.** [`check_settings`] holds the type that the plugin reads them as against `settings_schema`.
//!
//! **Time.** With [`TestHostBuilder::paused`] the plugin's tokio clock (`tokio::time`) stands still until
//! [`TestHost::advance`]. `std::time` and `time::OffsetDateTime` go on.
//!
//! **Jobs** are begun with [`TestHost::begin_job`], with a clock that the test moves, and asked to stop.
//!
//! **Other servers** answer what the test says with [`TestHost::answer_http`].

mod address;
mod agreement;
mod builder;
mod database;
mod events;
#[doc(hidden)]
pub mod fake_host;
mod jobs;
mod lines;
mod reply;
mod request;
mod rules;
mod servers;
mod settings;
mod table;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use cardinal_plugin_abi::{
    CtxId, Fut,
    record::{self, instance},
};
use http::Method;
use serde_json::Value;
use uuid::Uuid;

pub use address::{has_database, lacks_database};
pub use builder::TestHostBuilder;
pub use jobs::{JobEnd, StartedJob, TestJob, TestJobRun};
pub use lines::{LogLine, MetricLine};
pub use reply::{TestCall, TestReply};
pub use request::{TestRequest, test_card, test_user};
pub use servers::{SentRequest, ServerAnswer};
pub use settings::check_settings;

use self::fake_host::{FakeHost, api, lock, number};
use crate::{
    Card, Error, Handler, IntoRouter, PluginContext, Result, Router, context::InCall, instance::Instance,
    router::Entry, runtime::Threads,
};

/// The id of the plugin's own user ([`PluginContext::service_user`]).
pub const SERVICE_USER: Uuid = Uuid::from_u128(0x0190_d3a0_0000_7000_8000_0000_0000_000a);

/// The core's version that a [`TestHost`] has ([`PluginContext::core_version`]).
pub const CORE_VERSION: &str = "1.0.0";

type Routes = Arc<dyn Fn(&PluginContext) -> Result<Router> + Send + Sync>;

/// A host with one plugin in it. See the [module](self). Dropping it stops the plugin.
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
    /// A host with the plugin that this manifest and these routes make, with default settings.
    ///
    /// # Panics
    /// As [`TestHostBuilder::start`].
    pub fn new<R: IntoRouter>(manifest: &str, routes: impl Fn(&PluginContext) -> R + Send + Sync + 'static) -> Self {
        Self::builder(manifest).start(routes)
    }

    /// A host that is to have settings, a database or a stopped clock.
    pub fn builder(manifest: &str) -> TestHostBuilder {
        TestHostBuilder { manifest: manifest.to_owned(), settings: Value::Null, schema_sql: None, paused: false }
    }

    /// The plugin's own context, as `routes` got it.
    pub fn context(&self) -> PluginContext {
        PluginContext::of_instance(self.running().instance.core.clone())
    }

    /// The context of a call by this request's user, for functions that a handler would call. The call lasts as long as
    /// the host.
    pub fn call_context(&self, request: TestRequest) -> PluginContext {
        let call = self.enter(&request);
        let head = crate::stream::bytes_in(request.into_abi(None).head);
        PluginContext::of_call(self.running().instance.core.clone(), InCall::new(call, head))
    }

    /// Sends a request through the router and waits for the whole reply. What no route takes is 404 or 405, as with a
    /// host.
    pub async fn send(&self, request: TestRequest) -> TestReply {
        self.begin(request).await.collected().await
    }

    /// Begins a call without waiting for it, for tests of time, cancellation and streams.
    pub fn begin(&self, request: TestRequest) -> TestCall {
        let instance = self.running().instance;
        match self.find(&instance.entries, &request) {
            Ok((handler, params)) => {
                let with = |request: TestRequest, (name, value): &(String, String)| request.param(name, value);
                self.call_number(&instance, handler, params.iter().fold(request, with))
            }
            Err(error) => TestCall::new(Fut::ready(Err(error.into())), self.fake.clone(), 0),
        }
    }

    /// Calls one handler, routed or not, and waits for the whole reply. The parameters of a path come from
    /// [`TestRequest::param`].
    pub async fn call<H: Handler>(&self, handler: H, request: TestRequest) -> TestReply {
        let router = Router::new().handler("handler", handler);
        let entries = router.finish(&[]).unwrap_or_default();
        let instance = Instance { core: self.running().instance.core.clone(), entries };
        self.call_number(&instance, 0, request).await.collected().await
    }

    fn call_number(&self, instance: &Instance, handler: u32, request: TestRequest) -> TestCall {
        self.call_number_with(instance, handler, request, |_, _| {})
    }

    /// The same, with something that the host is to know of the call.
    fn call_number_with(
        &self,
        instance: &Instance,
        handler: u32,
        request: TestRequest,
        prepare: impl FnOnce(&FakeHost, u64),
    ) -> TestCall {
        let call = self.enter(&request);
        prepare(&self.fake, call);
        let tool = request.tool.clone();
        let sent = request.into_abi(tool.as_deref());
        TestCall::new(Fut::guarded(|| instance.call(handler, call, sent)), self.fake.clone(), call)
    }

    /// Lets the host know who makes a call; gives the call's number.
    fn enter(&self, request: &TestRequest) -> u64 {
        let call = number();
        lock(&self.fake.callers).insert(call, request.user.clone());
        call
    }

    /// The handler's number and the path's parameters.
    fn find(&self, entries: &[Entry], request: &TestRequest) -> Result<(u32, Vec<(String, String)>)> {
        let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        if let Some(tool) = &request.tool {
            let declared = self.fake.rules.iter().flat_map(|rules| &rules.mcp.tools).find(|known| known.name == *tool);
            let handler = declared.map_or(tool, |known| &known.handler);
            let found = entries.iter().position(|entry| entry.name == *handler);
            let at = found.ok_or_else(|| Error::not_found(format!("There is no tool {tool}.")))?;
            return Ok((position(at), Vec::new()));
        }
        let mut is_known = false;
        for (at, entry) in entries.iter().enumerate() {
            let Some((method, template)) = &entry.route else { continue };
            let Some(params) = params_of(template, &request.path) else { continue };
            if *method == request.method || (request.method == Method::HEAD && *method == Method::GET) {
                return Ok((position(at), params));
            }
            is_known = true;
        }
        if is_known {
            return Err(Error::with_code(405, "method-not-allowed", "The route takes other methods."));
        }
        Err(Error::not_found(format!("There is no route {}.", request.path)))
    }

    /// Adds a card, or puts another in the place of one with its id; gives its id. The plugin's database has it from its
    /// next connection on.
    ///
    /// # Panics
    /// When `card` has no id.
    pub fn add_card(&self, card: Value) -> Uuid {
        let Some(id) = card["id"].as_str().and_then(|id| id.parse().ok()) else { panic!("the card has no id: {card}") };
        let what = match lock(&self.fake.cards).insert(id, card.clone()) {
            Some(_) => "card.updated",
            None => "card.created",
        };
        self.fake.raise(what, &card, &Value::Null);
        id
    }

    /// A card as it is now.
    ///
    /// # Panics
    /// When there is none of this id.
    pub fn card(&self, id: Uuid) -> Card {
        let card = lock(&self.fake.cards).get(&id).cloned().unwrap_or_default();
        match serde_json::from_value(card) {
            Ok(card) => card,
            Err(error) => panic!("there is no card {id}, or not a whole one: {error}"),
        }
    }

    /// Lets the plugin know of an action on so many cards that they are not named ([`CardChange::Bulk`]).
    ///
    /// [`CardChange::Bulk`]: crate::CardChange::Bulk
    pub fn raise_bulk_event(&self, action: &str, cards: usize) {
        self.fake.raise_bulk(action, cards);
    }

    /// Forgets what has happened to cards so far: who reads on from there is told to look at all of them.
    pub fn forget_card_events(&self) {
        self.fake.forget_events();
    }

    /// The lines of the plugin's log so far, panics included.
    pub fn log(&self) -> Vec<LogLine> {
        lock(&self.fake.log).clone()
    }

    /// The changes of metrics so far.
    pub fn metrics(&self) -> Vec<MetricLine> {
        lock(&self.fake.metrics).clone()
    }

    /// What the plugin has asked of the host so far, in order, in words.
    pub fn journal(&self) -> Vec<String> {
        self.fake.journal()
    }

    /// Lets the host answer with this error from now on. `what` is a host function (`read_card`, `list_cards`, `card_events`,
    /// `enrich_card`, `remove_source`, `service_user`, `connect`, `query`, `execute`, `http`, `start_job`, `save_job`), or SQL that is run without
    /// parameters (`COMMIT`).
    pub fn fail(&self, what: &str, error: Error) {
        lock(&self.fake.failing).insert(what.to_owned(), error.into());
    }

    /// Lets the host not answer this until [`release`](Self::release), or until its call is dropped.
    pub fn hold(&self, what: &str) {
        self.fake.hold(what);
    }

    /// Lets the host answer what was held.
    pub fn release(&self, what: &str) {
        self.fake.finish(what);
    }

    /// Moves a [stopped](TestHostBuilder::paused) clock on, and runs the timers that are due.
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

    /// Starts a new instance with these settings and stops the old one, as a host does when an operator changes them:
    /// statics and whatever else the library shares stay. Calls under way should have ended before.
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

/// The parameters of a path that a template takes, decoded.
fn params_of(template: &str, path: &str) -> Option<Vec<(String, String)>> {
    let mut table = matchit::Router::new();
    table.insert(template, ()).ok()?;
    let matched = table.at(path).ok()?;
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some(matched.params.iter().map(|(name, value)| (name.to_owned(), decoded(value))).collect())
}
