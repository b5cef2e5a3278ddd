//! What a call through the plugin ABI costs: `cargo run --release --example plugin_call`, after
//! `cargo build --release -p echo`. The handler does next to nothing, so what is left is the way
//! there and back.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::{
    sync::Arc,
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
use cardinal_database::pool::Pools;
use cardinal_identity::auth::caller::Caller;
use cardinal_plugin_host::{
    call::{CallBody, CallParts, Deadline},
    context::{PluginIdentity, Services},
    exports::ExportKind,
    instance::Instance,
    library::{SealedLibrary, open},
    watchdog::Watchdog,
};
use cardinal_store::{catalogue::Catalogue, events::Events};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Many short rounds: the fastest are those that nothing else on the machine broke into.
const ROUNDS: usize = 3_000;
const CALLS: u32 = 500;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let instance = instance();
    let handler = instance.exports().iter().find(|export| {
        matches!(&export.kind, ExportKind::Route { path, .. } if path == "/block") // which blocks for `ms`
    });
    let handler = handler.unwrap().id;
    let caller = caller();
    for (what, headers, body) in [("bare", 0, 0), ("8 headers, 1 KiB body", 8, 1024)] {
        let headers = headers_of(headers);
        let body = Bytes::from(vec![b'x'; body]);
        let parts = || parts(&caller, &headers, &body);
        let all = best(async || {
            assert!(instance.call(handler, parts()).await.unwrap().status.is_success());
        });
        let making = best(async || {
            std::hint::black_box(parts());
        });
        let (all, making) = (all.await, making.await);
        println!("{what}: {} ns a call, {making} ns of it to make the parts", all);
    }
}

/// The fastest round.
async fn best(mut call: impl AsyncFnMut()) -> u128 {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for _ in 0..CALLS {
            call().await;
        }
        best = best.min(started.elapsed());
    }
    best.as_nanos() / u128::from(CALLS)
}

fn instance() -> Instance {
    let program = std::env::current_exe().unwrap();
    let path = program.parent().unwrap().parent().unwrap().join("libecho.so");
    let library = open(SealedLibrary::seal(&std::fs::read(path).unwrap()).unwrap()).unwrap();
    // Nothing connects: the handler asks for nothing.
    let pools = Pools::new(tokio_postgres::Config::new(), tokio_postgres::Config::new()).unwrap();
    let catalogue = Arc::new(Catalogue::new(pools.core.clone(), Cursors::new([0; 32]), Clock::System));
    let events = Arc::new(Events::new(pools.core.clone(), &CancellationToken::new()));
    let watchdog = Arc::new(Watchdog::start(Handle::current()).unwrap());
    let execution = PerPlugin::everyone(Execution::Inline);
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
    let identity = PluginIdentity {
        name: "echo".into(),
        version: "1.0.0".into(),
        tag: cardinal_control::crash::PluginTag::NOBODY,
        generation: 1,
        provides_kinds: Vec::new(),
        jobs: Vec::new(),
        settings: serde_json::json!({}),
        opens_private_networks: false,
        pool: None,
    };
    Instance::create(&library, services, identity).unwrap()
}

fn caller() -> Arc<Caller> {
    Arc::new(Caller::new(
        Uuid::now_v7(),
        "ada",
        ScopeSet::lenient(["cards:write", "plugin:*:*", "mcp:use", "mcp:approve", "jobs:*"]),
    ))
}

fn headers_of(count: usize) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for n in 0..count {
        let name = HeaderName::from_bytes(format!("x-header-{n}").as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_static("a value of the usual length"));
    }
    headers
}

fn parts<'a>(caller: &Arc<Caller>, headers: &'a HeaderMap, body: &Bytes) -> CallParts<'a> {
    CallParts {
        method: "GET",
        path: "/block",
        query: "ms=0",
        params: Vec::new(),
        headers,
        body: CallBody::Full(body.clone()),
        caller: caller.clone(),
        request_id: RequestId::from_headers(&HeaderMap::new()),
        trace: None,
        deadline: Deadline::after(Duration::from_secs(30)),
        peer: Some([127, 0, 0, 1].into()),
        tool: None,
        progress: None,
        job: None,
    }
}
