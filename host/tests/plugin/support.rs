//! An instance of `echo` with a database of its own, and the ways to call it.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use bytes::Bytes;
use cardinal_base::{
    clock::Clock,
    config::{Execution, PerPlugin, PluginNetworks},
    http_client::HttpClient,
    page::Cursors,
    request_id::RequestId,
    scope::ScopeSet,
};
use cardinal_control::crash::PluginTag;
use cardinal_database::pool::Pools;
use cardinal_identity::auth::caller::Caller;
use cardinal_observe::trace::Trace;
use cardinal_plugin_host::{
    call::{CallBody, CallFault, CallParts, Deadline, PluginError, PluginReply, ReplyBody},
    connection::PluginPool,
    context::{PluginIdentity, Services},
    exports::{Export, ExportKind},
    instance::Instance,
    library::{Libraries, Library, SealedLibrary},
    watchdog::Watchdog,
};
use cardinal_store::{catalogue::Catalogue, events::Events};
use http::HeaderMap;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::database::Database;

/// How long anything awaited may take before the test fails.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn libraries() -> &'static Libraries {
    static LIBRARIES: OnceLock<Libraries> = OnceLock::new();
    LIBRARIES.get_or_init(Libraries::default)
}

/// The bytes of a library that `cargo build --workspace` made.
pub(crate) fn built(file: &str) -> Vec<u8> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_cardinal"));
    let path = program.with_file_name(file);
    std::fs::read(&path).unwrap_or_else(|_| panic!("{} is missing: run `cargo build --workspace`", path.display()))
}

pub(crate) fn echo_library() -> Library {
    libraries().open(SealedLibrary::seal(&built("libecho.so")).unwrap(), PluginTag::NOBODY).unwrap()
}

/// What a test has.
pub(crate) struct Echo {
    pub database: Database,
    pub instance: Arc<Instance>,
    pub services: Arc<Services>,
    pub pool: PluginPool,
    pub caller: Arc<Caller>,
}

/// A caller with these scopes.
pub(crate) fn caller(scopes: &[&str]) -> Arc<Caller> {
    Arc::new(Caller::new(Uuid::now_v7(), "ada", ScopeSet::lenient(scopes)))
}

pub(crate) fn identity(name: &str, settings: Value, pool: Option<PluginPool>) -> PluginIdentity {
    PluginIdentity {
        name: name.into(),
        version: "1.0.0".into(),
        tag: PluginTag::NOBODY,
        generation: 1,
        provides_kinds: vec![name.into()],
        jobs: Vec::new(),
        settings,
        opens_private_networks: false,
        pool,
    }
}

impl Echo {
    /// With a pool of up to four connections.
    pub(crate) async fn new() -> Self {
        Self::with_connections(4).await
    }

    pub(crate) async fn with_connections(connections: usize) -> Self {
        Self::with(connections, Execution::Inline, PluginTag::NOBODY).await
    }

    /// Its calls run on threads of its own, which show `tag`.
    pub(crate) async fn on_own_threads(tag: PluginTag) -> Self {
        Self::with(1, Execution::Lane, tag).await
    }

    async fn with(connections: usize, execution: Execution, tag: PluginTag) -> Self {
        let database = Database::new().await;
        let core = database.login(&database.prepared.names.core()).pg_config();
        let reaper = database.login(&database.prepared.names.reaper()).pg_config();
        let pools = Pools::new(core, reaper).unwrap();
        let catalogue = Arc::new(Catalogue::new(pools.core.clone(), Cursors::new([7; 32]), Clock::System));
        let events = Arc::new(Events::new(pools.core.clone(), &CancellationToken::new()));
        let watchdog = Arc::new(Watchdog::start(Handle::current()).unwrap());
        let execution = PerPlugin::everyone(execution);
        let services = Arc::new(Services {
            core: pools.core,
            events,
            catalogue,
            watchdog,
            execution,
            breaker: PerPlugin::default(),
            prober: cardinal_plugin_host::probe::Prober::from_current_exe(),
            log: cardinal_observe::log::Log::silent(),
            runtime: Handle::current(),
            http: HttpClient::plain(),
            networks: PluginNetworks::default(),
        });
        let schema = include_str!("../../../tests/fixtures/echo/schema.sql");
        let made = database.provision("echo", schema).await.unwrap();
        let pool = PluginPool::open(&made, connections, &Handle::current(), None).unwrap();
        let identity = PluginIdentity { tag, ..identity("echo", json!({}), Some(pool.clone())) };
        let instance = create(&services, identity).await;
        let caller = caller(&["plugin:echo:write"]);
        Self { database, instance, services, pool, caller }
    }

    pub(crate) fn call(&self, handler: &str) -> Request<'_> {
        Request::new(&self.instance, &self.caller, handler)
    }
}

pub(crate) async fn create(services: &Arc<Services>, identity: PluginIdentity) -> Arc<Instance> {
    let services = services.clone();
    let made = tokio::task::spawn_blocking(move || Instance::create(&echo_library(), services, identity));
    Arc::new(made.await.unwrap().unwrap())
}

/// A call in the making, of a handler by its name or its path.
pub(crate) struct Request<'a> {
    instance: &'a Arc<Instance>,
    handler: String,
    caller: Arc<Caller>,
    method: &'static str,
    pub path: &'static str,
    query: String,
    params: Vec<(&'static str, String)>,
    pub headers: HeaderMap,
    body: CallBody,
    pub trace: Option<Trace>,
    pub peer: Option<std::net::IpAddr>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(instance: &'a Arc<Instance>, caller: &Arc<Caller>, handler: &str) -> Self {
        Self {
            instance,
            handler: handler.into(),
            caller: caller.clone(),
            method: "GET",
            path: "/",
            query: String::new(),
            params: Vec::new(),
            headers: HeaderMap::new(),
            body: CallBody::Full(Bytes::new()),
            trace: None,
            peer: None,
        }
    }

    pub(crate) fn by(mut self, caller: &Arc<Caller>) -> Self {
        self.caller = caller.clone();
        self
    }

    pub(crate) fn query(mut self, query: impl Into<String>) -> Self {
        self.query = query.into();
        self
    }

    pub(crate) fn param(mut self, name: &'static str, value: impl ToString) -> Self {
        self.params.push((name, value.to_string()));
        self
    }

    pub(crate) fn json(mut self, body: &Value) -> Self {
        self.method = "POST";
        self.headers.insert("content-type", http::HeaderValue::from_static("application/json"));
        self.body = CallBody::Full(body.to_string().into());
        self
    }

    pub(crate) fn body(mut self, body: CallBody) -> Self {
        self.body = body;
        self
    }

    /// Begins the call.
    pub(crate) fn begin(self) -> cardinal_plugin_host::instance::Call {
        let exports = self.instance.exports();
        let is_it = |export: &&Export| match &export.kind {
            ExportKind::Route { path, .. } if self.handler.starts_with('/') => *path == self.handler,
            _ => export.name == self.handler,
        };
        let handler = exports.iter().find(is_it);
        let handler = handler.unwrap_or_else(|| panic!("echo has no handler {}", self.handler));
        let parts = CallParts {
            method: self.method,
            path: self.path,
            query: &self.query,
            params: self.params.iter().map(|(name, value)| (*name, value.into())).collect(),
            headers: &self.headers,
            body: self.body,
            caller: self.caller,
            request_id: RequestId::named("req-1").unwrap(),
            trace: self.trace,
            deadline: Deadline::after(WAIT_TIMEOUT),
            peer: self.peer,
            tool: None,
            progress: None,
            job: None,
        };
        self.instance.call(handler.id, parts)
    }

    pub(crate) async fn send(self) -> Result<PluginReply, CallFault> {
        tokio::time::timeout(WAIT_TIMEOUT, self.begin()).await.expect("the call ends")
    }

    /// The JSON of a 2xx reply.
    pub(crate) async fn ok(self) -> Value {
        let reply = self.send().await.unwrap();
        assert!(reply.status.is_success(), "{reply:?}");
        serde_json::from_slice(&whole(reply).await).unwrap_or_default()
    }

    /// The error that the call ends with.
    pub(crate) async fn error(self) -> PluginError {
        match self.send().await {
            Err(CallFault::Error(error)) => error,
            other => panic!("not an error: {other:?}"),
        }
    }

    /// The message of the panic that the call ends with.
    pub(crate) async fn panic(self) -> String {
        match self.send().await {
            Err(CallFault::Panicked { message }) => message,
            other => panic!("not a panic: {other:?}"),
        }
    }
}

/// A reply's whole body.
pub(crate) async fn whole(reply: PluginReply) -> Bytes {
    match reply.body {
        ReplyBody::Full(bytes) => bytes,
        ReplyBody::Stream(stream) => stream.collect().await.unwrap().to_bytes(),
    }
}

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !condition().await {
        assert!(started.elapsed() < WAIT_TIMEOUT, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
