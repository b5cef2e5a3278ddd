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
//! `DATABASE_URL`) the plugin has its schema, made from its `schema.sql`, in a database of its own that is dropped with the
//! host. The login must be allowed to create databases; TLS is not spoken. `cardinal plugin check` validates `schema.sql`;
//! a test host runs it as it is, and with the login's rights instead of those of a plugin's role. Without an address a
//! connection is an error that says so; a test that cannot do without asks [`lacks_database`] first. `cardinal plugin test`
//! sets the variable.
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
//! **What is not tested here:** `settings_schema`, `input_schema` and `args_schema` are not enforced, nor are deadlines,
//! limits of sizes, rates and concurrency, and the statements that a plugin's role may run. `list_cards` ignores parameters
//! that [`CardQuery`](crate::CardQuery) has no method for. `cardinal plugin test` runs the plugin in a host.

mod address;
mod agreement;
mod builder;
mod database;
mod events;
pub mod fake_host;
mod jobs;
mod lines;
mod notifications;
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

/// The id of the plugin's own user ([`PluginContext::service_user`]) in every [`TestHost`].
pub const SERVICE_USER: Uuid = Uuid::from_u128(0x0190_d3a0_0000_7000_8000_0000_0000_000a);

/// The version of the core that a [`TestHost`] says it has ([`PluginContext::core_version`]).
pub const CORE_VERSION: &str = "1.0.0";

type Routes = Arc<dyn Fn(&PluginContext) -> Result<Router> + Send + Sync>;

/// A host with one plugin in it. See the [module](self).
///
/// Tests may run side by side, each with a host of its own: cards, log, database and clock belong to the host. What a
/// plugin keeps in statics is shared by all tests of the process. All methods take `&self`, and the host may be used from
/// several threads.
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
    /// Starts the plugin that this manifest and these routes make, with default settings. [`builder`](Self::builder) sets
    /// more.
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
        PluginContext::of_instance(self.running().instance.core.clone())
    }

    /// Returns the context of a call by this request's user, for tests of functions that a handler would call. The call
    /// lasts as long as the host.
    ///
    /// ```
    /// use cardinal_plugin::testing::{TestHost, TestRequest, test_user};
    /// use cardinal_plugin::{Error, PluginContext, Result, Router};
    ///
    /// fn check(ctx: &PluginContext) -> Result<()> {
    ///     let may_write = ctx.user()?.scopes.iter().any(|scope| scope == "cards:write");
    ///     if may_write { Ok(()) } else { Err(Error::forbidden("You may only read cards.")) }
    /// }
    ///
    /// let host = TestHost::new(r#"{ "name": "notes", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let of = |scope| host.call_context(TestRequest::get("/").user(test_user("Ada", &[scope])));
    /// assert!(check(&of("cards:write")).is_ok());
    /// assert_eq!(check(&of("cards:read")).unwrap_err().status(), Some(403));
    /// ```
    pub fn call_context(&self, request: TestRequest) -> PluginContext {
        let call = self.enter(&request);
        let head = crate::stream::bytes_in(request.into_abi(None).head);
        PluginContext::of_call(self.running().instance.core.clone(), InCall::new(call, head))
    }

    /// Sends a request through the router and waits for the whole reply, streamed bodies included.
    ///
    /// A path that no route has is 404, a method that its route does not have is 405, as with a host. A HEAD request goes
    /// to the GET route as GET, and its reply keeps the body here. An error, and a panic, become the problem document that
    /// a client gets; [`TestReply::error`] has what the log gets.
    ///
    /// It never ends when the handler waits for something that the test holds or for time that does not pass: use
    /// [`begin`](Self::begin) there.
    ///
    /// ```
    /// use cardinal_plugin::{Error, PluginContext, Request, Response, Result, Router, block_on};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// async fn price(_: PluginContext, req: Request) -> Result<Response> {
    ///     match req.param("sku") {
    ///         Some("L1") => Ok(Response::text("9.90")),
    ///         _ => Err(Error::not_found("There is no price for this SKU.")),
    ///     }
    /// }
    ///
    /// let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": {} }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/prices/{sku}", price));
    /// assert_eq!(block_on(host.send(TestRequest::get("/prices/L1"))).text(), "9.90");
    /// assert_eq!(block_on(host.send(TestRequest::get("/prices/L2"))).json()["code"], "not-found");
    /// assert_eq!(block_on(host.send(TestRequest::delete("/prices/L1"))).status(), 405);
    /// ```
    ///
    /// # Panics
    /// When a streamed body fails, or is larger than 64 MiB.
    pub async fn send(&self, request: TestRequest) -> TestReply {
        self.begin(request).await.collected().await
    }

    /// Begins a call without waiting for it, for tests of time, cancellation and streams.
    ///
    /// The handler function runs up to its future; the future runs when the [`TestCall`] is awaited or asked. Dropping the
    /// call is what a client does that goes away:
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, tokio};
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    ///
    /// static GAVE_UP: AtomicBool = AtomicBool::new(false);
    ///
    /// struct OnDrop;
    ///
    /// impl Drop for OnDrop {
    ///     fn drop(&mut self) {
    ///         GAVE_UP.store(true, Ordering::SeqCst);
    ///     }
    /// }
    ///
    /// async fn wait(_: PluginContext, _: Request) -> Result<Response> {
    ///     let _guard = OnDrop;
    ///     tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    ///     Ok(Response::empty())
    /// }
    ///
    /// let manifest = r#"{ "name": "waiter", "version": "1.0.0", "backend": {} }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().get("/wait", wait));
    /// let mut call = host.begin(TestRequest::get("/wait"));
    /// assert!(call.is_waiting() && !GAVE_UP.load(Ordering::SeqCst));
    /// drop(call);
    /// assert!(GAVE_UP.load(Ordering::SeqCst));
    /// ```
    pub fn begin(&self, mut request: TestRequest) -> TestCall {
        let instance = self.running().instance;
        match self.find(&instance.entries, &request) {
            Ok((handler, params)) => {
                if request.method == Method::HEAD {
                    request.method = Method::GET; // the host leaves the body out
                }
                let with = |request: TestRequest, (name, value): &(String, String)| request.param(name, value);
                self.call_number(&instance, handler, params.iter().fold(request, with))
            }
            Err(error) => TestCall::new(Fut::ready(Err(error.into())), self.fake.clone(), 0),
        }
    }

    /// Calls one handler, whether it has a route or not, and waits for the whole reply. The parameters of a path come from
    /// [`TestRequest::param`].
    ///
    /// ```
    /// use cardinal_plugin::testing::{TestHost, TestRequest};
    /// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, block_on};
    ///
    /// async fn square(_: PluginContext, req: Request) -> Result<Response> {
    ///     let n: u32 = req.param_as("n")?;
    ///     Ok(Response::text((n * n).to_string()))
    /// }
    ///
    /// let host = TestHost::new(r#"{ "name": "maths", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// assert_eq!(block_on(host.call(square, TestRequest::get("/").param("n", "12"))).text(), "144");
    /// ```
    ///
    /// # Panics
    /// Those of [`send`](Self::send).
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

    /// Adds a card and returns its id, or replaces the card of its id. [`test_card`] makes one.
    ///
    /// Followers of card events hear of it. The plugin's database has it from its next connection on.
    ///
    /// ```
    /// use cardinal_plugin::{json, testing::test_card};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let lamp = host.add_card(test_card("Lamp", json!({ "sku": "L1" })));
    /// assert_eq!(host.card(lamp).sku, "L1");
    /// ```
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

    /// Returns a card as it is now.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Router, block_on, json, testing::{SERVICE_USER, TestHost, test_card}};
    ///
    /// let manifest = r#"{ "name": "prices", "version": "1.0.0", "provides_kinds": ["price"] }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new());
    /// let lamp = host.add_card(test_card("Lamp", json!({})));
    /// let price = json!({ "cents": 990 });
    /// block_on(host.context().enrich_card(lamp, SERVICE_USER, "prices:shop", "price", &price)).unwrap();
    /// assert_eq!((host.card(lamp).version, &host.card(lamp).sources()["prices:shop"].data), (2, &price));
    /// ```
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

    /// Tells followers of card events about an action on so many cards that they are not named ([`CardChange::Bulk`]). No
    /// card is changed.
    ///
    /// ```
    /// use cardinal_plugin::testing::{TestHost, test_card};
    /// use cardinal_plugin::{CardChange, PluginContext, Router, block_on, json};
    ///
    /// let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let read = |after| block_on(host.context().card_events(after, 100)).unwrap();
    /// let begin = read(None).cursor;
    /// host.raise_bulk_event("archive", 1_200);
    /// let page = read(Some(begin));
    /// assert_eq!((page.items[0].what, &page.items[0].rest["cards"]), (CardChange::Bulk, &json!(1_200)));
    ///
    /// host.add_card(test_card("Lamp", json!({})));
    /// host.forget_card_events();
    /// assert!(read(Some(page.cursor)).restart, "what came since then is not kept any more");
    /// ```
    ///
    /// [`CardChange::Bulk`]: crate::CardChange::Bulk
    pub fn raise_bulk_event(&self, action: &str, cards: usize) {
        self.fake.raise_bulk(action, cards);
    }

    /// Forgets what has happened to cards so far, as a host does after a week: a follower is told to look at all of them
    /// ([`CardEvents::restart`](crate::CardEvents::restart)).
    ///
    /// ```
    /// use cardinal_plugin::{block_on, json, testing::test_card};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// let begin = block_on(ctx.card_events(None, 100)).unwrap().cursor;
    /// host.add_card(test_card("Lamp", json!({})));
    /// host.forget_card_events();
    /// assert!(block_on(ctx.card_events(Some(begin), 100)).unwrap().restart);
    /// ```
    pub fn forget_card_events(&self) {
        self.fake.forget_events();
    }

    /// Returns the lines of the plugin's log so far, panics included. They are also written to standard error.
    ///
    /// No line is dropped, cut or masked here, and no level is left out.
    ///
    /// ```
    /// use cardinal_plugin::Level;
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// ctx.log(Level::Warn, "A supplier sent no prices.");
    /// let lines = host.log();
    /// assert!(lines[0].is(Level::Warn) && lines[0].message == "A supplier sent no prices.");
    /// ```
    pub fn log(&self) -> Vec<LogLine> {
        lock(&self.fake.log).clone()
    }

    /// Returns the changes of metrics so far, in their order. The host's bounds are not enforced here.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// ctx.metrics().count("prices_read", 3);
    /// let seen = host.metrics();
    /// assert_eq!((seen[0].name.as_str(), seen[0].value), ("prices_read", 3.0));
    /// ```
    pub fn metrics(&self) -> Vec<MetricLine> {
        lock(&self.fake.metrics).clone()
    }

    /// Returns what the plugin has asked of the host so far, in order, in words: `read_card in call 3`, `http GET
    /// https://...`, `connect`, the SQL of batches.
    ///
    /// It shows that something was not asked, or how often. Its words are for people and may change.
    ///
    /// ```
    /// use cardinal_plugin::{CardQuery, block_on};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// block_on(ctx.list_cards(CardQuery::new().status("active"))).unwrap();
    /// assert_eq!(host.journal().iter().filter(|line| line.starts_with("list")).count(), 1, "asked once");
    /// ```
    pub fn journal(&self) -> Vec<String> {
        self.fake.journal()
    }

    /// Lets the host answer with this error from now on.
    ///
    /// `what` is a host function: `read_card`, `list_cards`, `card_events`, `enrich_card`, `remove_source`, `service_user`,
    /// `connect`, `query`, `execute`, `listen`, `channel_name`, `http`, `start_job` or `save_job`. It can also be SQL that is
    /// run without parameters (`COMMIT`), or `prepare` and the SQL of a statement.
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

    /// Lets the host not answer this until [`release`](Self::release), or until the asking future is dropped. `what` is as
    /// in [`fail`](Self::fail).
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

    /// Moves a [stopped](TestHostBuilder::paused) clock on, and runs the timers that are due. A task that sleeps is woken;
    /// a call goes on when it is awaited or asked.
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
    /// Contexts of the old instance are those of a plugin that has been stopped; [`context`](Self::context) returns the new
    /// one's.
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

/// The parameters of a path that a template takes, decoded.
fn params_of(template: &str, path: &str) -> Option<Vec<(String, String)>> {
    let mut table = matchit::Router::new();
    table.insert(template, ()).ok()?;
    let matched = table.at(path).ok()?;
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some(matched.params.iter().map(|(name, value)| (name.to_owned(), decoded(value))).collect())
}
