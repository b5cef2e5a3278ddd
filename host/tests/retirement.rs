//! What is left of plugins that are retired: nothing but their mapped library. Alone in its program,
//! since it counts what the whole process has.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

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
    call::{CallBody, CallParts, Deadline, ReplyBody},
    context::{PluginIdentity, Services},
    exports::ExportKind,
    instance::{Call, Instance},
    library::{Library, SealedLibrary, open, raw_instance::resident},
    watchdog::Watchdog,
};
use cardinal_store::{catalogue::Catalogue, events::Events};
use http_body_util::BodyExt;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

fn library() -> Library {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_cardinal")).with_file_name("libecho.so");
    let bytes = std::fs::read(&path).unwrap_or_else(|_| panic!("{} is missing", path.display()));
    open(SealedLibrary::seal(&bytes).unwrap()).unwrap()
}

/// Nothing connects: the handlers here ask for nothing.
async fn create(library: &Library, generation: u64) -> Instance {
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
        generation,
        provides_kinds: Vec::new(),
        jobs: Vec::new(),
        settings: serde_json::json!({}),
        opens_private_networks: false,
        pool: None,
    };
    let library = library.clone();
    tokio::task::spawn_blocking(move || Instance::create(&library, services, identity).unwrap()).await.unwrap()
}

fn call(instance: &Instance, route: &str, query: &str) -> Call {
    let is_it = |kind: &ExportKind| matches!(kind, ExportKind::Route { path, .. } if path == route);
    let handler = instance.exports().iter().find(|export| is_it(&export.kind)).unwrap().id;
    let caller = Caller::new(Uuid::now_v7(), "ada", ScopeSet::all());
    let parts = CallParts {
        method: "GET",
        path: route,
        query,
        params: Vec::new(),
        headers: &http::HeaderMap::new(),
        body: CallBody::Full(bytes::Bytes::new()),
        caller: Arc::new(caller),
        request_id: RequestId::named("req").unwrap(),
        trace: None,
        deadline: Deadline::after(WAIT_TIMEOUT),
        peer: None,
        tool: None,
        progress: None,
        job: None,
    };
    instance.call(handler, parts)
}

async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < WAIT_TIMEOUT, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The io threads of plugins.
fn plugin_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.filter(|task| task.path().exists()).map(name).filter(|name| name.trim() == "echo-io").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn retired_plugins_leave_nothing_behind() {
    let library = library();
    assert_eq!((resident(), plugin_threads()), (0, 0));
    for round in 0..10 {
        let instances = [create(&library, round * 3).await, create(&library, round * 3 + 1).await];
        for instance in &instances {
            // A sleep starts the plugin's own runtime.
            assert!(call(instance, "/sleep", "ms=1").await.unwrap().status.is_success());
        }
        assert_eq!((resident(), plugin_threads()), (2, 1), "a library has one io thread");
        let [shut_down, dropped] = instances;
        shut_down.shutdown(Duration::from_secs(5)).await;
        drop((shut_down, dropped));
        eventually("both are freed", || resident() == 0 && plugin_threads() == 0).await;
    }

    // What is still under way keeps the instance; it is freed with the last of it.
    let instance = create(&library, 100).await;
    let reply = call(&instance, "/stream", "pieces=1000000").await.unwrap();
    let hanging = tokio::spawn(call(&instance, "/sleep", "ms=600000"));
    eventually("both are under way", || instance.in_flight() == 2).await;
    instance.shutdown(Duration::ZERO).await;
    drop(instance);
    assert_eq!(resident(), 1);
    hanging.abort();
    let _ = hanging.await;
    assert_eq!(resident(), 1, "the stream holds it");
    // Its timer went with the plugin's runtime: the stream ends with an error, at the next frame or a later one.
    let ReplyBody::Stream(mut stream) = reply.body else { panic!("not a stream") };
    let end = async { while let Some(Ok(_)) = stream.frame().await {} };
    tokio::time::timeout(WAIT_TIMEOUT, end).await.expect("the stream of a plugin that was shut down ends");
    eventually("it is freed", || resident() == 0 && plugin_threads() == 0).await;
}
