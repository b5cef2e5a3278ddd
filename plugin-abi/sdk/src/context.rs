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

/// The plugin's way to the host: cards, database, settings, log, metrics, tasks.
///
/// There are two kinds. The one given to a **handler** is bound to its call: what it does is done
/// for the calling user, with the rights of the call, and is refused once the call is over. The
/// one given to **`routes`** is the plugin's own, for work that nobody asked for just now; with it
/// the plugin acts as its own [`service_user`](Self::service_user), which may read cards and write
/// the plugin's declared kinds. [`as_plugin`](Self::as_plugin) makes the second from the first.
///
/// Cloning is cheap. Everything here may be called from any thread, with or without tokio, also
/// after the plugin has been stopped, when it is an error ([`Error::is_cancelled`]). Dropping a
/// future of this type cancels what it stands for.
///
/// ```
/// use cardinal_plugin::{Error, PluginContext, Request, Response, Result, Uuid, json};
///
/// async fn enrich(ctx: PluginContext, req: Request) -> Result<Response> {
///     let card: Uuid = req.param("card_id").unwrap_or_default().parse().map_err(|_| Error::not_found("No such card."))?;
///     let user = ctx.user()?.id;
///     let version = ctx.enrich_card(card, user, "echo:demo", "echo", &json!({ "seen": true })).await?;
///     Ok(Response::json(&json!({ "version": version })))
/// }
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

    /// The plugin's name, from its manifest.
    pub fn name(&self) -> &str {
        &self.core.about.name
    }

    /// The plugin's version, from its manifest.
    pub fn version(&self) -> &str {
        &self.core.about.version
    }

    /// The version of the host's core, semver: what `engine.core_version` is compared with.
    pub fn core_version(&self) -> &str {
        &self.core.about.core_version
    }

    /// For a thread that the plugin has started itself, called on it at its beginning: tells the host whose it is, so that
    /// a crash of the thread, a stack overflow too, is attributed to this plugin and not to whoever happened to have
    /// calls under way. The threads of the SDK and of its tokio are registered already.
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

    /// The plugin's own context, for work that outlives the call.
    #[must_use]
    pub fn as_plugin(&self) -> Self {
        Self::of_instance(self.core.clone())
    }

    /// Who calls, and with which rights.
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
    /// Outside a call.
    pub fn user(&self) -> Result<User> {
        let call = self.call.as_ref().ok_or_else(|| Error::internal("there is no calling user outside a call"))?;
        User::read(&call.head).map_err(Error::internal)
    }

    /// The user that the plugin itself is, of kind `plugin`.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result, Uuid, json};
    ///
    /// /// For a task that nobody calls: what it writes is written by the plugin itself.
    /// async fn mark(ctx: PluginContext, card: Uuid) -> Result<i64> {
    ///     let own = ctx.service_user().await?.id;
    ///     ctx.enrich_card(card, own, "marks:seen", "mark", &json!({ "seen": true })).await
    /// }
    /// ```
    pub fn service_user(&self) -> impl Future<Output = Result<User>> + Send + use<> {
        let (core, answer) = (self.core.clone(), (self.core.host.service_user())(self.core.ctx));
        async move {
            let user = User::parse(answer.await.map_err(Error::of_host)?.get())?;
            let _ = core.service_user.set(user.id); // it is the same each time
            Ok(user)
        }
    }

    /// A connection of the plugin's own pool: its `search_path` is the plugin's schema. Dropping it
    /// gives it back, clean, whatever was left open on it. One that was taken in a call goes back when the call ends at
    /// the latest; [`as_plugin`](Self::as_plugin) takes one for work that goes on.
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
    /// When none becomes free in time ([`Error::is_retryable`]).
    pub fn get_plugin_conn(&self) -> impl Future<Output = Result<Connection>> + Send + use<> {
        Connection::open(self)
    }

    /// The pool that [`get_plugin_conn`](Self::get_plugin_conn) takes from.
    pub fn pool(&self) -> Pool {
        Pool::new(self.clone())
    }

    /// Where the plugin's run-time role connects to, for authors who bring a driver of their own.
    pub fn connect_options(&self) -> impl Future<Output = Result<ConnectOptions>> + Send + use<> {
        let answer = (self.core.host.connect_options())(self.core.ctx);
        async { parse(answer.await, "connect options") }
    }

    /// The operator's settings over the defaults of the manifest's `settings_schema`.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Settings {
    ///     address: String,
    ///     timeout_seconds: u32,
    /// }
    ///
    /// fn settings(ctx: &PluginContext) -> Result<Settings> {
    ///     ctx.settings()
    /// }
    /// ```
    ///
    /// # Errors
    /// When they do not fit `T`. The message names the setting and what is expected, never a value, which may be secret.
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

    /// Writes a line to the host's log, under the plugin's name and the call's request id.
    pub fn log(&self, level: Level, message: impl AsRef<str>) {
        self.log_with(level, message, &Value::Null);
    }

    /// [`log`](Self::log) with fields: a JSON object.
    ///
    /// ```
    /// # use cardinal_plugin::{Level, PluginContext, json};
    /// # fn f(ctx: &PluginContext) {
    /// ctx.log_with(Level::Warn, "The feed has no prices.", &json!({ "feed": "spring", "rows": 1200 }));
    /// # }
    /// ```
    pub fn log_with(&self, level: Level, message: impl AsRef<str>, fields: &Value) {
        let fields = if fields.is_object() { fields.to_string() } else { String::new() };
        let (message, fields) = (Slice::text(message.as_ref()), Slice::text(&fields));
        (self.core.host.log())(self.core.ctx, self.call_id(), level as u32, message, fields, Slice::default());
    }

    /// Says how far the call is: `done` of `total`, where that is known, and a few words. An MCP client that has asked for
    /// progress hears the latest of it, at most ten times a second; in any other call, and outside one, nothing happens.
    /// It does not extend the call's deadline.
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

    /// The plugin's metrics, in the host's `/metrics`.
    pub fn metrics(&self) -> Metrics<'_> {
        Metrics::new(&self.core, self.call_id())
    }

    /// Whether the call has been cancelled or is past its deadline; outside a call, whether the
    /// plugin is being stopped. For loops without an await: anything that awaits is simply dropped.
    ///
    /// ```
    /// # use cardinal_plugin::{Error, PluginContext, Result};
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

    /// Ready when [`cancelled`](Self::cancelled) becomes true.
    pub fn until_cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        let answer = (self.core.host.cancelled())(self.core.ctx, self.call_id());
        answer.map(|_| ())
    }

    /// Runs `future` on the plugin's own tokio, beside the calls, until it ends or the plugin is
    /// stopped. It has a thread of its own for all tasks of the plugin: a task that blocks holds
    /// up the others.
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
