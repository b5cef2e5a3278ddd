//! What a plugin may do with the host: [`PluginContext`].

mod cards;
mod database;
mod observe;
mod tasks;

use std::{
    future::Future,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use cardinal_plugin_abi::{Answer, CallId, Fut};
use serde::de::DeserializeOwned;

use crate::{Error, Result, User, core::Core};

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
/// * The context that a **handler** gets is bound to its call. The plugin acts for the calling user, with the rights of
///   the call. Once the call is over, the host refuses everything that is asked with it.
/// * The context that **`routes`** gets is the plugin's own, for work that no call asked for. With it the plugin acts
///   as its [`service_user`](Self::service_user), which may read cards and write the kinds that the manifest declares.
///
/// [`as_plugin`](Self::as_plugin) makes the second from the first.
///
/// **Threads.** All methods may be called from any thread, with or without tokio. None of them blocks: what takes time
/// is a future. The host starts the work when the method is called, not at the first poll, and cancels it when the
/// future is dropped.
///
/// **Lifetime.** Cloning copies two pointers, so pass contexts by value into tasks and threads. After the plugin has
/// been stopped, its contexts still exist and every request is an error with [`Error::is_cancelled`].
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
    pub(crate) fn for_instance(core: Arc<Core>) -> Self {
        Self { core, call: None }
    }

    pub(crate) fn from_call(core: Arc<Core>, call: InCall) -> Self {
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
        Self::for_instance(self.core.clone())
    }

    /// Returns the caller: who called, and with which rights.
    ///
    /// The scopes are the effective ones of the call, so those of an API key count and not those of its owner. The host
    /// has checked the route's or the tool's own scope before the handler runs; check here only what goes beyond that.
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
    /// The host makes it the first time that the plugin asks for it, and keeps it over restarts and new versions. Its
    /// id is what [`enrich_card`](Self::enrich_card) and the like take as `user_id` outside a call.
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
            let user = User::parse(answer.await.map_err(Error::from_host)?.get())?;
            let _ = core.service_user.set(user.id); // it is the same each time
            Ok(user)
        }
    }

    /// Reads the operator's settings, laid over the defaults of the manifest's `settings_schema`, as the author's type.
    ///
    /// The host has validated them against the schema. They never change while an instance lives: when an operator
    /// changes them, the host makes a new instance and calls its `routes`, and calls under way end in the old one. So
    /// read them in `routes` or where they are used, and keep no copy in a static. Secrets (`writeOnly`) are in plain
    /// text here.
    ///
    /// What the schema cannot say, `routes` may check: it returns a `Result<Router>`, and an error whose
    /// [`field`](crate::Error::field) names the wrong setting.
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
    /// An internal error when they do not fit `T`. The message names the setting and what is expected, never a value,
    /// which may be secret.
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
    let bytes = answer.map_err(Error::from_host)?;
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
