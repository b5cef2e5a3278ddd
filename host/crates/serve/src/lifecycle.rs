//! The life of a worker: built, serving, draining, gone. The only place that starts tasks which
//! outlive a request.

mod tasks;
mod traces;

use std::{
    os::fd::OwnedFd,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use self::traces::TraceExport;
use crate::http::error::ApiError;
use crate::{
    api,
    app::{App, Parts},
    request::ListenerRole,
    server,
    tls::Tls,
};
use cardinal_base::{
    clock::Clock,
    config::Http,
    memory::{self, AtOnce},
};
use cardinal_control::{
    crash::{current, descriptors, vital::LowNumbers},
    link::{ListenerUse, SupervisorLink, WorkerStart},
};
use cardinal_database::{log_failure, pool::Pools};
use cardinal_identity::limit::budget_lease;
use cardinal_observe::log::Log;
use cardinal_plugin_host::{probe::Prober, settings};

/// How long to wait before the database is tried again at start.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// What streams that never end by themselves are left of the grace period, to say goodbye in.
const STREAM_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Where connections come in.
pub struct Sockets {
    /// In the order of the start's `listeners`.
    pub listeners: Vec<OwnedFd>,
    /// The supervisor hands over connections of the local socket here.
    pub local: OwnedFd,
}

/// Serves until the supervisor says otherwise.
///
/// # Errors
/// The worker could not begin to serve.
pub fn run_worker(
    start: WorkerStart,
    link: SupervisorLink,
    sockets: Sockets,
    log: Log,
    prober: Prober,
    is_guarded: bool,
) -> anyhow::Result<()> {
    // One more than there are cores: a plugin that blocks a thread must not leave the core without one.
    let threads = thread::available_parallelism().map_or(2, usize::from) + 1;
    let low_numbers = LowNumbers::take();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .on_thread_start(current::be_ours)
        .on_thread_park(memory::collect_when_silent)
        .enable_all()
        .build()?;
    current::be_ours();
    // All is open now that the worker lives by.
    let watched = low_numbers.map(drop).and_then(|()| descriptors::watch(is_guarded));
    if let Err(error) = watched {
        tracing::warn!(%error, "descriptors of the host that a plugin closes will go unnoticed");
    }
    let outcome = runtime.block_on(serve(start, link, sockets, log, prober));
    // A thread that a plugin never gives back must not keep the process from ending.
    runtime.shutdown_timeout(STREAM_CLOSE_TIMEOUT);
    outcome
}

async fn serve(
    start: WorkerStart,
    link: SupervisorLink,
    sockets: Sockets,
    log: Log,
    prober: Prober,
) -> anyhow::Result<()> {
    let at_once = AtOnce::begin();
    // A service manager may signal every process at once; when to end is the supervisor's word alone. Taking the
    // signals and never looking at them is what keeps the process deaf to them.
    let _deaf_to_terminate = signal(SignalKind::terminate())?;
    let _deaf_to_interrupt = signal(SignalKind::interrupt())?;
    let _deaf_to_hangup = signal(SignalKind::hangup())?;
    let grace = start.config.http.shutdown_grace;
    let pools = Pools::new(start.database.core.pg_config(), start.database.reaper.pg_config())?;
    let stop = CancellationToken::new();
    let uses = start.listeners.clone();
    let tls = tls(&start.config.http, &link).await;
    let parts = Parts { pools, clock: Clock::System, link: link.clone(), log, prober, tls, routes: api::routes() };
    let app = Arc::new(App::build(start, parts, &stop)?);
    let mut serving = JoinSet::new();
    for listener in listeners(sockets, &uses, app.tls.as_ref())? {
        serving.spawn(server::serve(Arc::clone(&app), listener, stop.clone(), grace));
    }
    app.proxy.warn_of_shared_origin();
    let traces = TraceExport::start(&app)?;
    let mut tasks = tasks::spawn_all(&app, &link, &stop);
    tasks.spawn(prepare(Arc::clone(&app), link.clone(), at_once));

    link.drained().await;
    drain(&app, serving, traces, &stop, grace).await;
    tasks.shutdown().await;
    budget_lease::leave(&app.pools.core, app.host_id).await;
    Ok(())
}

/// Lets requests, jobs and plugins finish within `grace`, and records what waits in memory.
async fn drain(
    app: &App,
    mut serving: JoinSet<()>,
    traces: Option<TraceExport>,
    stop: &CancellationToken,
    grace: Duration,
) {
    tracing::info!(seconds = grace.as_secs(), "draining");
    app.draining.store(true, Ordering::Release);
    let deadline = Instant::now() + grace;
    descriptors::stop_watching();
    stop.cancel();
    // What uploads is a request in flight, and a job.
    tokio::join!(async { while serving.join_next().await.is_some() {} }, app.jobs.drain(grace));
    app.proxy.drain(deadline).await;
    app.plugins.shutdown(STREAM_CLOSE_TIMEOUT).await;
    let flush_traces = async {
        if let Some(traces) = traces {
            traces.flush().await;
        }
    };
    tokio::join!(flush_traces, record_last(app));
}

async fn record_last(app: &App) {
    if let Err(error) = app.auth.flush_uses().await {
        log_failure!(error, "failed to record when keys were last used");
    }
    app.audit.write_waiting(true).await;
}

async fn tls(http: &Http, link: &SupervisorLink) -> Option<Arc<Tls>> {
    match &http.tls {
        Some(_) => Some(Arc::new(Tls::new(link.clone(), Clock::System).await)),
        None => None,
    }
}

fn listeners(sockets: Sockets, uses: &[ListenerUse], tls: Option<&Arc<Tls>>) -> anyhow::Result<Vec<server::Listener>> {
    let local = server::Listener::local(sockets.local).context("taking over the local socket")?;
    let mut ready = vec![local];
    for (listener, purpose) in sockets.listeners.into_iter().zip(uses) {
        let role = match purpose {
            ListenerUse::Main if uses.contains(&ListenerUse::Admin) => ListenerRole::Public,
            ListenerUse::Main => ListenerRole::Whole,
            ListenerUse::Admin => ListenerRole::Admin,
            ListenerUse::Metrics => ListenerRole::Metrics,
        };
        let tls = tls.filter(|_| role != ListenerRole::Metrics).cloned();
        ready.push(server::Listener::tcp(listener, role, tls).context("taking over a listening socket")?);
    }
    Ok(ready)
}

/// What must be done before the host is ready: the first user, the plugins. Until then freed memory goes back at once.
async fn prepare(app: Arc<App>, link: SupervisorLink, at_once: AtOnce) {
    while let Err(error) = app.bootstrap().await {
        // The outage itself is logged by the pools.
        match error.downcast_ref::<ApiError>() {
            Some(error) => log_failure!(error, "failed to look for the first user"),
            None => tracing::warn!(error = format!("{error:#}"), "failed to create the first user"),
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    budget_lease::exchange(&app.limits, &app.pools.core, app.host_id).await; // before the first call is counted
    if let Err(error) = app.proxy_routes.read(&app.pools.core, &app.proxy).await {
        log_failure!(error, "failed to read the stored proxy routes");
    }
    app.plugins.scan().await;
    drop(at_once);
    app.ready.store(true, Ordering::Release);
    app.jobs.spawn_keeping(); // a job may need a plugin's tool
    let (snapshot, plugins) = (app.plugins.snapshot(), &app.config.plugins);
    let names: Vec<&str> = snapshot.names().collect();
    settings::warn_of_no_plugin(&plugins.settings, &plugins.networks, &names);
    let first_login = app.first_login().await.unwrap_or_else(|error| {
        log_failure!(error, "failed to look up the first user");
        None
    });
    if let Err(error) = link.ready(first_login) {
        tracing::warn!(%error, "failed to tell the supervisor that the worker is ready");
    }
}
