//! What a plugin may do with the host: [`PluginContext`].

mod cards;

use std::{
    future::Future,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    task::{Context, Waker},
};

use bytes::Bytes;
use cardinal_plugin_abi::{Answer, CallId, CtxId, Fut, HostApiRef, Slice};
use futures_util::FutureExt;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    Connection, Error, Level, Metrics, Pool, Result, Task, User,
    database::{ConnectOptions, shape::Shapes},
    instance::About,
    panics::Registration,
    runtime::{Register, Runtime, Threads},
    scope::Scope,
};

/// One instance of the plugin, shared by all its contexts.
pub(crate) struct Core {
    pub(crate) host: HostApiRef,
    pub(crate) ctx: CtxId,
    pub(crate) about: About,
    pub(crate) runtime: Runtime,
    pub(crate) shapes: Shapes,
    /// The plugin's own user, once it was asked for.
    service_user: OnceLock<Uuid>,
    _registration: Registration,
}

impl Core {
    pub(crate) fn new(host: HostApiRef, ctx: CtxId, about: About, threads: Threads) -> Self {
        let (registration, register) = (Registration::new(ctx, host), Register::with(host, ctx));
        let runtime = Runtime::new(register, threads);
        #[cfg(any(feature = "log", feature = "tracing"))]
        crate::log_bridge::install(&about.name);
        let (shapes, service_user) = (Shapes::default(), OnceLock::new());
        Self { host, ctx, about, runtime, shapes, service_user, _registration: registration }
    }

    /// A scope without a runtime.
    pub(crate) fn scope(&self, call: CallId) -> Scope {
        Scope { ctx: self.ctx, call, runtime: None }
    }

    /// The scope of a call: starts the runtime when it is the first.
    pub(crate) fn call_scope(&self, call: CallId) -> Result<Scope> {
        Ok(Scope { runtime: Some(self.runtime.handle(&self.about.name)?), ..self.scope(call) })
    }
}

/// The call that a context is bound to.
pub(crate) struct InCall {
    id: CallId,
    head: Bytes,
    cancelled: Mutex<Cancelled>,
}

enum Cancelled {
    Unasked,
    Asked(Fut<Answer>),
    Yes,
}

impl InCall {
    pub(crate) fn new(id: CallId, head: Bytes) -> Self {
        Self { id, head, cancelled: Mutex::new(Cancelled::Unasked) }
    }
}

/// The plugin's way to the host: cards, database, settings, log, metrics, other servers, tasks, jobs.
///
/// There are two kinds:
///
/// * The context that a **handler** gets is bound to its call. The plugin acts for the calling user, with the rights of the
///   call. Once the call is over, the host refuses everything that is asked with it.
/// * The context that **`routes`** gets is the plugin's own, for work that no call asked for. With it the plugin acts as
///   its [`service_user`](Self::service_user), which may read cards and write the kinds that the manifest declares.
///
/// [`as_plugin`](Self::as_plugin) makes the second from the first.
///
/// **Threads.** All methods may be called from any thread, with or without tokio. None of them blocks: what takes time is a
/// future. The host starts the work when the method is called, not at the first poll, and cancels it when the future is
/// dropped.
///
/// **Lifetime.** Cloning copies two pointers, so pass contexts by value into tasks and threads. After the plugin has been
/// stopped, its contexts still exist and every request is an error with [`Error::is_cancelled`].
///
/// ```
/// use cardinal_plugin::{PluginContext, Request, Response, Result, Router, Uuid, block_on, json};
/// use cardinal_plugin::testing::{TestHost, TestRequest, test_card};
///
/// fn routes(_: &PluginContext) -> Router {
///     Router::new().post("/echo/{card_id}", enrich)
/// }
///
/// async fn enrich(ctx: PluginContext, req: Request) -> Result<Response> {
///     let card: Uuid = req.param_as("card_id")?;
///     let user = ctx.user()?.id;
///     let version = ctx.enrich_card(card, user, "echo:demo", "echo", &json!({ "seen": true })).await?;
///     Ok(Response::json(&json!({ "version": version })))
/// }
///
/// let manifest = r#"{ "name": "echo", "version": "1.0.0", "provides_kinds": ["echo"], "backend": {} }"#;
/// let host = TestHost::new(manifest, routes);
/// let card = host.add_card(test_card("Lamp", json!({})));
/// let reply = block_on(host.send(TestRequest::post(&format!("/echo/{card}"))));
/// assert_eq!(reply.json(), json!({ "version": 2 }));
/// ```
#[derive(Clone)]
pub struct PluginContext {
    pub(crate) core: Arc<Core>,
    call: Option<Arc<InCall>>,
}

impl PluginContext {
    pub(crate) fn of_instance(core: Arc<Core>) -> Self {
        Self { core, call: None }
    }

    pub(crate) fn of_call(core: Arc<Core>, call: InCall) -> Self {
        Self { core, call: Some(Arc::new(call)) }
    }

    /// The number of the call, 0 outside of any.
    pub(crate) fn call_id(&self) -> CallId {
        self.call.as_ref().map_or(0, |call| call.id)
    }

    /// Returns the plugin's name, as in its manifest: kebab-case, at most 40 characters.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "notes", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// assert_eq!(ctx.name(), "notes");
    /// let own_key = format!("{}:all", ctx.name()); // a source key begins with the plugin's name
    /// assert_eq!(own_key, "notes:all");
    /// ```
    pub fn name(&self) -> &str {
        &self.core.about.name
    }

    /// Returns the plugin's version, as in its manifest: semver.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "notes", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// assert_eq!(format!("{}/{}", ctx.name(), ctx.version()), "notes/1.0.0");
    /// ```
    pub fn version(&self) -> &str {
        &self.core.about.version
    }

    /// Returns the version of the host's core, semver: what `engine.core_version` of the manifest is compared with.
    ///
    /// It is empty when the host does not say.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Router};
    /// use cardinal_plugin::testing::{CORE_VERSION, TestHost};
    ///
    /// let host = TestHost::new(r#"{ "name": "notes", "version": "1.2.0" }"#, |_: &PluginContext| Router::new());
    /// let ctx = host.context();
    /// assert_eq!((ctx.name(), ctx.version(), ctx.core_version()), ("notes", "1.2.0", CORE_VERSION));
    /// ```
    pub fn core_version(&self) -> &str {
        &self.core.about.core_version
    }

    /// Tells the host that the current thread belongs to this plugin.
    ///
    /// Call it at the beginning of a thread that the plugin starts itself. A crash of the thread, a stack overflow
    /// included, is then attributed to this plugin and not to whoever has calls under way. The threads of the SDK and of
    /// its tokio (`spawn_blocking` included) are registered already; on the host's own threads the call does nothing.
    ///
    /// ```
    /// # fn f(ctx: &cardinal_plugin::PluginContext) {
    /// let own = ctx.as_plugin();
    /// std::thread::spawn(move || {
    ///     own.register_thread();
    ///     // reads a device, computes for long, ...
    /// });
    /// # }
    /// ```
    pub fn register_thread(&self) {
        Register::with(self.core.host, self.core.ctx).this_thread();
    }

    /// Returns the plugin's own context, for work that outlives the call.
    ///
    /// What is asked with it is done as the plugin's [`service_user`](Self::service_user), and ends when the plugin is
    /// stopped. Log lines that are written with it lose the request id of the call. [`user`](Self::user) fails on it.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Router};
    /// use cardinal_plugin::testing::{TestHost, TestRequest, test_user};
    ///
    /// let host = TestHost::new(r#"{ "name": "notes", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let ctx = host.call_context(TestRequest::get("/").user(test_user("Ada", &["cards:read"])));
    /// assert_eq!(ctx.user().unwrap().name, "Ada");
    /// assert!(ctx.as_plugin().user().is_err());
    /// ```
    #[must_use]
    pub fn as_plugin(&self) -> Self {
        Self::of_instance(self.core.clone())
    }

    /// Returns the caller: who called, and with which rights.
    ///
    /// The scopes are the effective ones of the call, so those of an API key count and not those of its owner. The host has
    /// checked the route's or the tool's own scope before the handler runs; check here only what goes beyond that.
    ///
    /// ```
    /// use cardinal_plugin::{Error, PluginContext, Result};
    ///
    /// fn check(ctx: &PluginContext) -> Result<()> {
    ///     let user = ctx.user()?;
    ///     match user.scopes.iter().any(|scope| scope == "cards:write" || scope == "*") {
    ///         true => Ok(()),
    ///         false => Err(Error::forbidden(format!("{} may only look at cards.", user.name))),
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// An internal error outside a call.
    pub fn user(&self) -> Result<User> {
        let call = self.call.as_ref().ok_or_else(|| Error::internal("there is no calling user outside a call"))?;
        User::read(&call.head).map_err(Error::internal)
    }

    /// Returns the plugin's own user, of the kind [`UserKind::Plugin`](crate::UserKind::Plugin).
    ///
    /// The host makes it the first time that the plugin asks for it, and keeps it over restarts and new versions. Its id is
    /// what [`enrich_card`](Self::enrich_card) and the like take as `user_id` outside a call.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result, Router, Uuid, block_on, json};
    /// use cardinal_plugin::testing::{TestHost, test_card};
    ///
    /// /// For a task that nobody calls: the plugin itself writes.
    /// async fn mark(ctx: PluginContext, card: Uuid) -> Result<i64> {
    ///     let own = ctx.service_user().await?.id;
    ///     ctx.enrich_card(card, own, "marks:seen", "mark", &json!({ "seen": true })).await
    /// }
    ///
    /// let manifest = r#"{ "name": "marks", "version": "1.0.0", "provides_kinds": ["mark"] }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new());
    /// let card = host.add_card(test_card("Lamp", json!({})));
    /// assert_eq!(block_on(mark(host.context(), card)).unwrap(), 2);
    /// ```
    ///
    /// # Errors
    /// When the host has no database at the moment ([`Error::is_retryable`]), or the plugin has been stopped.
    pub fn service_user(&self) -> impl Future<Output = Result<User>> + Send + use<> {
        let (core, answer) = (self.core.clone(), (self.core.host.service_user())(self.core.ctx));
        async move {
            let user = User::parse(answer.await.map_err(Error::of_host)?.get())?;
            let _ = core.service_user.set(user.id); // it is the same each time
            Ok(user)
        }
    }

    /// Takes a connection from the plugin's own pool.
    ///
    /// It logs in as the plugin's run-time role, and its `search_path` is the plugin's schema. Dropping it gives it back,
    /// clean, whatever was left open on it. One that was taken in a call goes back when the call ends at the latest, even
    /// if the code still holds it; take connections for work that goes on with [`as_plugin`](Self::as_plugin).
    ///
    /// The pool has 4 connections, or `limits.db_connections` of the manifest (at most 8). Hold one for the statements that
    /// need it, not while waiting for another server: a plugin that holds all of them makes its own calls wait.
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
    /// * [`Error::is_retryable`] when no connection becomes free within 2 seconds, or the database does not answer. Passed
    ///   on with `?`, it is a 503 for the client.
    /// * [`Error::is_cancelled`] when the call is over or the plugin has been stopped.
    pub fn get_plugin_conn(&self) -> impl Future<Output = Result<Connection>> + Send + use<> {
        Connection::open(self)
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
    /// Connections that are made with it are not the pool's: they don't count for `limits.db_connections`, the host neither
    /// cleans nor cancels them, and the plugin closes them when it stops. Don't log the password, and don't keep it: ask
    /// again.
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

    /// Reads the operator's settings, laid over the defaults of the manifest's `settings_schema`, as the author's type.
    ///
    /// The host has validated them against the schema. They never change while an instance lives: an operator who changes
    /// them gets a new instance of the plugin, and calls under way end in the old one. So read them where they are used and
    /// keep no copy in a static. Secrets (`writeOnly`) are in plain text here.
    ///
    /// `testing::check_settings` compares `T` with the schema in a test.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Router, json};
    /// use cardinal_plugin::testing::TestHost;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Settings {
    ///     address: String,
    ///     timeout_seconds: u32,
    /// }
    ///
    /// let manifest = r#"{ "name": "feeds", "version": "1.0.0", "settings_schema": { "properties": {
    ///     "address": { "type": "string" }, "timeout_seconds": { "type": "integer", "default": 5 } } } }"#;
    /// let settings = json!({ "address": "https://shop.example" });
    /// let host = TestHost::builder(manifest).settings(settings).start(|_: &PluginContext| Router::new());
    /// let settings: Settings = host.context().settings().unwrap();
    /// assert_eq!((settings.address.as_str(), settings.timeout_seconds), ("https://shop.example", 5));
    /// ```
    ///
    /// # Errors
    /// An internal error when they do not fit `T`. The message names the setting and what is expected, never a value, which
    /// may be secret.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T> {
        let bytes = (self.core.host.settings())(self.core.ctx);
        let json = if bytes.get().is_empty() { b"{}" } else { bytes.get() };
        let mut reader = serde_json::Deserializer::from_slice(json);
        serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let path = error.path().to_string();
            let place = if path == "." { "the settings do".to_owned() } else { format!("the setting `{path}` does") };
            let fault = without_value(&error.inner().to_string());
            Error::internal(format!(
                "{place} not fit: {fault}. settings_schema in manifest.json says what the host lets in"
            ))
        })
    }

    /// Writes a line to the plugin's log, with the request id of the call.
    ///
    /// The line is in the host's log and in `GET /v1/admin/plugin-registry/<name>/logs`. The message is cut after 8 KiB. A
    /// plugin may write 500 lines and 1 MiB a second; the host drops the lines above that, and counts and reports them.
    /// Credentials that can be recognised are masked, but log none all the same.
    ///
    /// Never waits, never fails; after the plugin has been stopped the line is dropped. With the features `tracing` and
    /// `log` the macros of these crates do the same.
    ///
    /// ```
    /// use cardinal_plugin::{Level, PluginContext, Router, json};
    /// use cardinal_plugin::testing::TestHost;
    ///
    /// let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let ctx = host.context();
    /// ctx.log(Level::Info, "The feed was read.");
    /// ctx.log_with(Level::Warn, "The feed has no prices.", &json!({ "feed": "spring", "rows": 1200 }));
    ///
    /// let lines = host.log();
    /// assert!(lines[0].is(Level::Info) && lines[0].message == "The feed was read.");
    /// assert_eq!(lines[1].field("rows"), json!(1200));
    /// ```
    pub fn log(&self, level: Level, message: impl AsRef<str>) {
        self.log_with(level, message, &Value::Null);
    }

    /// Writes a line like [`log`](Self::log), with fields: a JSON object, cut after 16 KiB of text.
    ///
    /// Any other JSON value is ignored. Put what differs from line to line into fields and keep the message constant, so
    /// that lines can be found and counted.
    ///
    /// ```
    /// use cardinal_plugin::{Level, json};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// ctx.log_with(Level::Warn, "A supplier sent no prices.", &json!({ "supplier": "oak-and-co", "rows": 1200 }));
    /// assert_eq!(host.log()[0].field("supplier"), "oak-and-co");
    /// ```
    pub fn log_with(&self, level: Level, message: impl AsRef<str>, fields: &Value) {
        let fields = if fields.is_object() { fields.to_string() } else { String::new() };
        let (message, fields) = (Slice::text(message.as_ref()), Slice::text(&fields));
        (self.core.host.log())(self.core.ctx, self.call_id(), level as u32, message, fields, Slice::default());
    }

    /// Reports how far the call is: `done` of `total`, where the total is known, and a few words.
    ///
    /// An MCP client that has asked for progress gets the latest report, at most ten a second. In any other call, and
    /// outside one, nothing happens. Never waits, and does not extend the call's deadline. A `done` below 0 counts as 0, a
    /// `total` of 0 or less as unknown, and the text is cut after 1 KiB. A job reports with
    /// [`Job::progress`](crate::Job::progress) instead.
    ///
    /// ```
    /// # fn f(ctx: &cardinal_plugin::PluginContext) {
    /// ctx.progress(3.0, Some(10.0), "3 of 10 pages read");
    /// ctx.progress(4.0, None, "Reading another page");
    /// # }
    /// ```
    pub fn progress(&self, done: f64, total: Option<f64>, text: impl AsRef<str>) {
        if let Some(call) = &self.call {
            (self.core.host.progress())(
                self.core.ctx,
                call.id,
                done,
                total.unwrap_or(f64::NAN),
                Slice::text(text.as_ref()),
            );
        }
    }

    /// Returns the plugin's metrics, which are part of the host's `/metrics`. See [`Metrics`] for names and bounds.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// ctx.metrics().count("prices_read", 3);
    /// assert_eq!((host.metrics()[0].name.as_str(), host.metrics()[0].value), ("prices_read", 3.0));
    /// ```
    pub fn metrics(&self) -> Metrics<'_> {
        Metrics::new(&self.core, self.call_id())
    }

    /// Returns whether the call has been cancelled or is past its deadline; outside a call, whether the plugin is being
    /// stopped.
    ///
    /// It is for loops that compute without an await. Code that awaits needs no check: its future is dropped at the await.
    /// Asking is cheap enough for each turn of a loop that takes a millisecond or more. Once it is true it stays true.
    ///
    /// ```
    /// use cardinal_plugin::{Error, PluginContext, Result, Router};
    /// use cardinal_plugin::testing::TestHost;
    ///
    /// fn checksum(ctx: &PluginContext, rows: &[u64]) -> Result<u64> {
    ///     let mut sum = 0_u64;
    ///     for rows in rows.chunks(10_000) {
    ///         if ctx.cancelled() {
    ///             return Err(Error::unavailable("Nobody waits for the checksum any more."));
    ///         }
    ///         sum = rows.iter().fold(sum, |sum, row| sum.rotate_left(5) ^ row);
    ///     }
    ///     Ok(sum)
    /// }
    ///
    /// let host = TestHost::new(r#"{ "name": "sums", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let own = host.context();
    /// assert!(checksum(&own, &[1, 2, 3]).is_ok());
    /// drop(host); // the plugin is stopped
    /// assert_eq!(checksum(&own, &[1, 2, 3]).unwrap_err().status(), Some(503));
    /// ```
    pub fn cancelled(&self) -> bool {
        let Some(call) = &self.call else { return self.core.runtime.is_stopped() };
        let mut state = call.cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, Cancelled::Unasked) {
            *state = Cancelled::Asked((self.core.host.cancelled())(self.core.ctx, call.id));
        }
        if let Cancelled::Asked(answer) = &mut *state
            && answer.poll_unpin(&mut Context::from_waker(Waker::noop())).is_ready()
        {
            *state = Cancelled::Yes;
        }
        matches!(*state, Cancelled::Yes)
    }

    /// Waits until [`cancelled`](Self::cancelled) becomes true.
    ///
    /// Outside a call it is ready when the plugin is to stop, which is the moment when tasks of [`spawn`](Self::spawn) are
    /// dropped, too: it is for threads that the plugin has started itself. In a call it is for code that the call does not
    /// own, such as a task that works for it.
    ///
    /// ```
    /// use std::thread::{JoinHandle, spawn};
    /// use cardinal_plugin::{PluginContext, Router, block_on};
    /// use cardinal_plugin::testing::TestHost;
    ///
    /// /// Keeps a device open on a thread of its own.
    /// fn hold_device(ctx: &PluginContext) -> JoinHandle<()> {
    ///     let own = ctx.as_plugin();
    ///     spawn(move || {
    ///         own.register_thread();
    ///         block_on(own.until_cancelled());
    ///         // closes the device
    ///     })
    /// }
    ///
    /// let host = TestHost::new(r#"{ "name": "device", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let device = hold_device(&host.context());
    /// drop(host); // the plugin is stopped
    /// device.join().unwrap();
    /// ```
    pub fn until_cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        let answer = (self.core.host.cancelled())(self.core.ctx, self.call_id());
        answer.map(|_| ())
    }

    /// Runs `future` on the plugin's own tokio, beside the calls, until it ends or the plugin is stopped.
    ///
    /// All tasks of the plugin share one thread (`<plugin>-io`): a task that blocks it holds up the others, and the timers
    /// and sockets of all handlers. Take `tokio::task::spawn_blocking` for what blocks or computes for long.
    ///
    /// The task goes on when the returned [`Task`] is dropped. When the plugin is stopped, or replaced by a new version or
    /// new settings, the task is dropped at its next await; the host waits up to 10 seconds for that. A panic ends the task
    /// alone and is logged. Pass the task a context made by [`as_plugin`](Self::as_plugin): one of a call is refused when
    /// the call is over.
    ///
    /// ```
    /// use std::time::Duration;
    /// use cardinal_plugin::{Level, PluginContext, tokio};
    ///
    /// fn keep_warm(ctx: &PluginContext) {
    ///     let own = ctx.as_plugin();
    ///     ctx.spawn(async move {
    ///         loop {
    ///             own.log(Level::Debug, "still here");
    ///             tokio::time::sleep(Duration::from_secs(60)).await;
    ///         }
    ///     });
    /// }
    /// ```
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.core.runtime.spawn(self.name(), self.core.scope(self.call_id()), future)
    }
}

impl std::fmt::Debug for PluginContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PluginContext({}, call {})", self.name(), self.call_id())
    }
}

/// The host's JSON as `T`.
pub(crate) fn parse<T: DeserializeOwned>(
    answer: Result<cardinal_plugin_abi::Bytes, cardinal_plugin_abi::Error>,
    what: &str,
) -> Result<T> {
    let bytes = answer.map_err(Error::of_host)?;
    serde_json::from_slice(bytes.get()).map_err(|error| Error::internal(format!("the host's {what}: {error}")))
}

/// serde's words without the value that it found and the place in a text that nobody sees.
pub(crate) fn without_value(fault: &str) -> String {
    let fault = fault.split(" at line ").next().unwrap_or(fault);
    for kind in ["invalid type: ", "invalid value: ", "unknown variant "] {
        let Some(found) = fault.strip_prefix(kind) else { continue };
        let (found, expected) = found.rsplit_once(", expected ").unwrap_or((found, "something else"));
        let found = found.split(['"', '`']).next().unwrap_or_default().trim();
        let found = if found.is_empty() { "this value".to_owned() } else { format!("found {found}") };
        return format!("{found}, expected {expected}");
    }
    fault.to_owned()
}

#[cfg(test)]
mod tests {
    use super::without_value;

    #[test]
    fn a_setting_that_does_not_fit_is_told_without_its_value() {
        for (fault, told) in [
            (
                "invalid type: string \"s3cret, expected x\", expected u32 at line 1 column 9",
                "found string, expected u32",
            ),
            ("invalid type: integer `7`, expected a string at line 1 column 2", "found integer, expected a string"),
            ("unknown variant `s3cret`, expected `a` or `b`", "this value, expected `a` or `b`"),
            ("missing field `address` at line 1 column 2", "missing field `address`"),
        ] {
            assert_eq!(without_value(fault), told);
        }
    }
}
