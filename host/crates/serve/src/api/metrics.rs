//! `/metrics`: everything that the host counts, as Prometheus reads it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{HeaderValue, Method, Request, StatusCode, header};

use super::{
    health,
    system::{self, PoolReport},
};
use crate::http::error::ApiResult;
use crate::{
    app::{App, Route},
    call::Call,
    http::{
        body::Body,
        reply::{self, Reply},
        request_body::RequestBody,
    },
};
use cardinal_observe::{
    exposition::{self, Exposition, Kind, seconds},
    meter::CLASSES,
    plugins::{Cause, Fault},
    process,
};
use cardinal_package::state::State;
use cardinal_plugin_host::{bridge::metrics, registry::Snapshot};

/// How long a scrape waits for the database to say that it is there; less than any scraper's patience.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(1);

pub fn routes() -> Vec<Route> {
    vec![Route::get("/metrics", show).scope("system:read").polled().describe(|op| {
        op.named("getMetrics", "system", "Metrics for Prometheus").replies_as(
            200,
            "Text format 0.0.4.",
            "text/plain",
            serde_json::json!({"type": "string"}),
        );
    })]
}

async fn show(app: &Arc<App>, _: Call) -> ApiResult<Reply> {
    Ok(page(app).await)
}

/// The listener of `METRICS_ADDR`: one page, for whoever can reach it.
pub async fn separate(app: &Arc<App>, request: &Request<RequestBody>) -> Reply {
    const TEXT: &str = "text/plain; charset=utf-8";
    let path = request.uri().path();
    match *request.method() {
        _ if path != "/metrics" => reply::text(StatusCode::NOT_FOUND, TEXT, "only /metrics is here\n"),
        Method::GET | Method::HEAD => page(app).await,
        _ => {
            let mut refused = reply::text(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET or HEAD\n");
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            refused
        }
    }
}

async fn page(app: &Arc<App>) -> Reply {
    let database_up = matches!(tokio::time::timeout(CONNECTION_TIMEOUT, health::ask_database(app)).await, Ok(Ok(())));
    let mut page = Exposition::default();
    host(&mut page, app, database_up);
    requests(&mut page, app);
    pools(&mut page, app);
    plugins(&mut page, app);
    tools(&mut page, app);
    proxy(&mut page, app);
    process_itself(&mut page, app);
    plugins_http(&mut page, app);
    plugins_own(&mut page, app);
    let mut reply: http::Response<Body> = reply::text(StatusCode::OK, exposition::CONTENT_TYPE, page.finish());
    reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

fn host(page: &mut Exposition, app: &App, database_up: bool) {
    let (version, host_id) = (env!("CARGO_PKG_VERSION"), app.host_id.to_string());
    if page.family("cardinal_build_info", Kind::Gauge, "The version that runs; always 1.") {
        page.sample("cardinal_build_info", &[("version", version), ("host_id", &host_id)], 1_u64);
    }
    let up = "Whether the database answered while this page was made.";
    page.single("cardinal_database_up", Kind::Gauge, up, u64::from(database_up));
    let restarts = "How often a worker ended on its own and the supervisor started another.";
    page.single("cardinal_worker_restarts_total", Kind::Counter, restarts, app.telemetry.worker_restarts);
    let dropped = "Log lines that were dropped because standard error was too slow.";
    page.single("cardinal_log_lines_dropped_total", Kind::Counter, dropped, app.log.dropped());
    let name = "cardinal_auth_cache_total";
    if page.family(name, Kind::Counter, "Credentials looked up, by whether the answer was known already.") {
        for (cache, counts) in app.auth.cache_counts() {
            for (outcome, count) in [("hit", counts.hits), ("miss", counts.misses)] {
                page.sample(name, &[("cache", cache), ("outcome", outcome)], count);
            }
        }
    }
}

fn requests(page: &mut Exposition, app: &App) {
    let requests = &app.telemetry.requests;
    let name = "cardinal_http_requests_in_flight";
    page.single(name, Kind::Gauge, "Requests whose answer has not begun.", requests.in_flight.read());
    let gone = "Requests whose client went away before the answer began.";
    page.single("cardinal_http_requests_abandoned_total", Kind::Counter, gone, requests.abandoned.read());
    let read = requests.read();
    let name = "cardinal_http_request_duration_seconds";
    if page.family(name, Kind::Histogram, "Time from a request's headers to its answer's.") {
        for metered in &read {
            for (class, reading) in &metered.classes {
                let (method, route) = (metered.meter.method, metered.meter.route.as_str());
                page.durations(name, &[("method", method), ("route", route), ("status", CLASSES[*class])], reading);
            }
        }
    }
    let name = "cardinal_http_request_part_seconds_total";
    if page.family(name, Kind::Counter, "The same time, split into host, plugin and database.") {
        for metered in &read {
            let whole: u64 = metered.classes.iter().map(|(_, reading)| reading.sum_us).sum();
            let host = whole.saturating_sub(metered.plugin_us).saturating_sub(metered.database_us);
            for (part, us) in [("host", host), ("plugin", metered.plugin_us), ("database", metered.database_us)] {
                let (method, route) = (metered.meter.method, metered.meter.route.as_str());
                page.sample(name, &[("method", method), ("route", route), ("part", part)], seconds(us));
            }
        }
    }
}

/// What stands between plugins and the core: where calls run, and which plugins get none.
fn guards(page: &mut Exposition, app: &App, snapshot: &Snapshot) {
    let name = "cardinal_plugin_threads_blocked";
    if page.family(name, Kind::Gauge, "Threads that a plugin has not returned in time.") {
        for (place, count) in ["core", "lane"].into_iter().zip(app.plugins.watchdog().blocked()) {
            page.sample(name, &[("place", place)], count);
        }
    }
    let placed: Vec<_> = snapshot
        .active()
        .filter_map(|active| Some((active.manifest.name.as_str(), active.instance.placement()?)))
        .collect();
    let name = "cardinal_plugin_blocks_total";
    if page.family(name, Kind::Counter, "Times that a plugin kept a thread for 50 ms or longer.") {
        for (plugin, placed) in &placed {
            for (place, count) in [("core", placed.blocked_core), ("lane", placed.blocked_lane)] {
                page.sample(name, &[("plugin", plugin), ("place", place)], count);
            }
        }
    }
    let name = "cardinal_plugin_lane_threads";
    if page.family(name, Kind::Gauge, "Threads that a plugin has of its own.") {
        for (plugin, placed) in &placed {
            page.sample(name, &[("plugin", plugin)], placed.lane_threads);
        }
    }
    let name = "cardinal_plugin_breaker_open";
    if page.family(name, Kind::Gauge, "1 while a plugin receives no calls because too many failed.") {
        for active in snapshot.active() {
            let open = active.guard.breaker.report().state != "closed";
            page.sample(name, &[("plugin", &active.manifest.name)], u64::from(open));
        }
    }
}

/// What plugins have to say, in the log and in browsers.
fn plugin_lines(page: &mut Exposition, app: &App) {
    let tails = app.log.tails().read();
    let name = "cardinal_plugin_log_lines_total";
    if page.family(name, Kind::Counter, "Lines that a plugin has written.") {
        for (plugin, tail) in &tails {
            page.sample(name, &[("plugin", plugin)], tail.counts().0);
        }
    }
    let name = "cardinal_plugin_log_lines_dropped_total";
    if page.family(name, Kind::Counter, "Lines of a plugin that were dropped: more than it may write in a second.") {
        for (plugin, tail) in &tails {
            page.sample(name, &[("plugin", plugin)], tail.counts().1);
        }
    }
    let meters = app.telemetry.plugins.read();
    let name = "cardinal_plugin_client_errors_total";
    if page.family(name, Kind::Counter, "Failures of a plugin's frontend that browsers have reported.") {
        for (plugin, meter) in &meters {
            page.sample(name, &[("plugin", plugin)], meter.client_errors.read());
        }
    }
    let name = "cardinal_plugin_client_hangs_total";
    if page.family(name, Kind::Counter, "Reports of a plugin's frontend that held up its page for seconds.") {
        for (plugin, meter) in &meters {
            page.sample(name, &[("plugin", plugin)], meter.client_hangs.read());
        }
    }
}

type PoolGauge = (&'static str, &'static str, fn(&PoolReport) -> u64);

fn pools(page: &mut Exposition, app: &App) {
    let pools = system::pools(app);
    let families: [PoolGauge; 4] = [
        ("cardinal_database_pool_connections", "Open connections.", |pool| pool.size),
        ("cardinal_database_pool_connections_idle", "Open connections that are idle.", |pool| pool.idle),
        ("cardinal_database_pool_connections_max", "The maximum of open connections.", |pool| pool.max),
        ("cardinal_database_pool_waiting", "Requests that wait for a connection.", |pool| pool.waiting),
    ];
    for (name, help, value) in families {
        if page.family(name, Kind::Gauge, help) {
            for pool in &pools {
                let plugin = pool.plugin.as_deref().unwrap_or_default();
                page.sample(name, &[("pool", pool.pool), ("plugin", plugin)], value(pool));
            }
        }
    }
}

fn plugins(page: &mut Exposition, app: &App) {
    let snapshot = app.plugins.snapshot();
    let states: Vec<State> = snapshot.states().collect();
    if page.family("cardinal_plugins", Kind::Gauge, "Plugins that were found, by state.") {
        for state in State::ALL {
            let count = states.iter().filter(|known| **known == state).count();
            page.sample("cardinal_plugins", &[("state", state.as_str())], count);
        }
    }
    let meters = app.telemetry.plugins.read();
    let name = "cardinal_plugin_call_duration_seconds";
    if page.family(name, Kind::Histogram, "Time in a plugin's calls, by route or tool, waits included.") {
        for (plugin, meter) in &meters {
            page.durations(name, &[("plugin", plugin)], &meter.calls.read());
        }
    }
    let name = "cardinal_plugin_faults_total";
    if page.family(name, Kind::Counter, "Calls of a plugin that failed, by kind of failure.") {
        for (plugin, meter) in &meters {
            for fault in Fault::ALL {
                page.sample(name, &[("plugin", plugin), ("kind", fault.name())], meter.faults(fault));
            }
        }
    }
    let name = "cardinal_plugin_fault_causes_total";
    if page.family(name, Kind::Counter, "Calls of a plugin that failed, by who is at fault.") {
        for (plugin, meter) in &meters {
            for cause in Cause::ALL {
                page.sample(name, &[("plugin", plugin), ("cause", cause.name())], meter.causes(cause));
            }
        }
    }
    guards(page, app, &snapshot);
    plugin_lines(page, app);
    let name = "cardinal_plugin_calls_in_flight";
    if page.family(name, Kind::Gauge, "Calls and reply streams of a plugin that are under way.") {
        for active in snapshot.active() {
            page.sample(name, &[("plugin", &active.manifest.name)], active.instance.in_flight());
        }
    }
    memory(page, &snapshot);
    descriptors(page, app, &snapshot);
    let name = "cardinal_plugin_instances_resident";
    let help = "Plugin instances in memory, those included that were replaced and can't be freed.";
    page.single(name, Kind::Gauge, help, cardinal_plugin_host::library::raw_instance::resident());
}

fn tools(page: &mut Exposition, app: &App) {
    let name = "cardinal_mcp_tool_call_duration_seconds";
    if page.family(name, Kind::Histogram, "Time of MCP tool calls, by tool and how they ended.") {
        for (tool, outcome, reading) in app.telemetry.tools.read() {
            page.durations(name, &[("tool", &tool), ("outcome", outcome.name())], &reading);
        }
    }
}

/// Open files and sockets of plugins, as far as it is known whose they are.
fn descriptors(page: &mut Exposition, app: &App, snapshot: &Snapshot) {
    let name = "cardinal_plugin_descriptors";
    if page.family(name, Kind::Gauge, "Descriptors that a plugin alone can have opened.") {
        for active in snapshot.active() {
            let plugin = &active.manifest.name;
            page.sample(name, &[("plugin", plugin)], app.plugins.descriptors_of(plugin));
        }
    }
    let help = "Descriptors that neither the host nor a plugin that is known has opened.";
    page.single("cardinal_unattributed_descriptors", Kind::Gauge, help, app.plugins.unattributed_descriptors());
}

/// What plugins hold. A library that doesn't count has no sample.
fn memory(page: &mut Exposition, snapshot: &Snapshot) {
    let name = "cardinal_plugin_memory_bytes";
    if page.family(name, Kind::Gauge, "Memory that a plugin's code holds, by its own allocator's count.") {
        for active in snapshot.active() {
            if let Some(memory) = active.instance.library().memory() {
                page.sample(name, &[("plugin", &active.manifest.name)], memory.held());
            }
        }
    }
    let name = "cardinal_plugin_memory_allocated_bytes_total";
    if page.family(name, Kind::Counter, "Memory that a plugin's code has asked for since it was loaded.") {
        for active in snapshot.active() {
            if let Some(memory) = active.instance.library().memory() {
                page.sample(name, &[("plugin", &active.manifest.name)], memory.allocated);
            }
        }
    }
    let name = "cardinal_plugin_library_bytes";
    if page.family(name, Kind::Gauge, "Addresses that a plugin's library takes by itself.") {
        for active in snapshot.active() {
            page.sample(name, &[("plugin", &active.manifest.name)], active.instance.library().place().len());
        }
    }
}

fn process_itself(page: &mut Exposition, app: &App) {
    let read = process::read();
    if let Some(cpu) = read.cpu_seconds {
        page.single("process_cpu_seconds_total", Kind::Counter, "Processor time of the worker.", cpu);
    }
    let gauges = [
        ("process_resident_memory_bytes", "Memory of the worker that is in use.", read.resident_bytes),
        ("process_virtual_memory_bytes", "Address space of the worker.", read.virtual_bytes),
        ("process_threads", "Threads of the worker.", read.threads),
        ("process_open_fds", "Open file descriptors of the worker.", read.open_fds),
        ("process_max_fds", "The maximum of open file descriptors of the worker.", read.max_fds),
    ];
    for (name, help, value) in gauges {
        if let Some(value) = value {
            page.single(name, Kind::Gauge, help, value);
        }
    }
    let started = app.telemetry.started.unix_timestamp_nanos() / 1_000;
    let started = seconds(u64::try_from(started).unwrap_or(0));
    page.single("process_start_time_seconds", Kind::Gauge, "When the worker started, in seconds since 1970.", started);
}

/// By the operator's prefixes, never by what clients ask for.
fn proxy(page: &mut Exposition, app: &App) {
    let table = app.proxy.routes();
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    if page.family("cardinal_proxy_requests_total", Kind::Counter, "Requests for the upstream of a proxy route.") {
        for route in table.routes() {
            let prefix = route.settings.prefix.as_str();
            page.sample("cardinal_proxy_requests_total", &[("prefix", prefix)], read(&route.counters.requests));
        }
    }
    let faults = "Requests that an upstream failed: not answered, not in time, or aborted within the answer.";
    if page.family("cardinal_proxy_faults_total", Kind::Counter, faults) {
        for route in table.routes() {
            let (prefix, counters) = (route.settings.prefix.as_str(), &route.counters);
            let kinds =
                [("error", &counters.errors), ("timeout", &counters.timeouts), ("broken-off", &counters.broken_off)];
            for (kind, count) in kinds {
                page.sample("cardinal_proxy_faults_total", &[("prefix", prefix), ("kind", kind)], read(count));
            }
        }
    }
    let tunnels = "Connections that were upgraded, such as WebSockets.";
    if page.family("cardinal_proxy_tunnels_total", Kind::Counter, tunnels) {
        for route in table.routes() {
            let prefix = route.settings.prefix.as_str();
            page.sample("cardinal_proxy_tunnels_total", &[("prefix", prefix)], read(&route.counters.tunnels));
        }
    }
    let open = "Upgraded connections that are open.";
    page.single("cardinal_proxy_tunnels_open", Kind::Gauge, open, app.proxy.open_tunnels() as u64);
}

/// Requests of plugins to other servers, through the host.
fn plugins_http(page: &mut Exposition, app: &App) {
    let snapshot = app.plugins.snapshot();
    let exchanges = || snapshot.active().map(|active| (active.manifest.name.as_str(), active.instance.http()));
    let name = "cardinal_plugin_http_requests_total";
    if page.family(name, Kind::Counter, "Requests of a plugin to other servers, by how they ended.") {
        for (plugin, http) in exchanges() {
            for (outcome, count) in http.counters.outcomes() {
                page.sample(name, &[("plugin", plugin), ("outcome", outcome)], count);
            }
        }
    }
    let name = "cardinal_plugin_http_connections_total";
    if page.family(name, Kind::Counter, "Connections that a plugin's requests were answered on.") {
        for (plugin, http) in exchanges() {
            for (source, count) in http.counters.connections() {
                page.sample(name, &[("plugin", plugin), ("source", source)], count);
            }
        }
    }
    let name = "cardinal_plugin_http_requests_in_flight";
    if page.family(name, Kind::Gauge, "Requests of a plugin to other servers that are under way.") {
        for (plugin, http) in exchanges() {
            page.sample(name, &[("plugin", plugin)], http.in_flight() as u64);
        }
    }
}

/// What plugins count themselves, under their own names: `plugin_<plugin>_<metric>`.
fn plugins_own(page: &mut Exposition, app: &App) {
    let mut dropped = Vec::new();
    for active in app.plugins.snapshot().active() {
        let plugin = active.manifest.name.as_str();
        let mut lost = active.instance.metrics().dropped();
        for (name, series) in metrics::by_name(active.instance.metrics().snapshot()) {
            if !family_of(page, plugin, &name, &series) {
                lost += 1;
            }
        }
        dropped.push((plugin.to_owned(), lost));
    }
    let name = "cardinal_plugin_metrics_dropped_total";
    if page.family(name, Kind::Counter, "Changes of a plugin's own metrics that were over a limit or made no sense.") {
        for (plugin, lost) in &dropped {
            page.sample(name, &[("plugin", plugin)], *lost);
        }
    }
}

/// `false` when another metric of the plugin has taken the name.
fn family_of(page: &mut Exposition, plugin: &str, name: &str, series: &[(metrics::Labels, metrics::Value)]) -> bool {
    let Some((_, first)) = series.first() else { return true };
    let mut full = format!("plugin_{}_{name}", plugin.replace('-', "_"));
    let kind = match first {
        metrics::Value::Counter(_) => Kind::Counter,
        metrics::Value::Gauge(_) => Kind::Gauge,
        metrics::Value::Histogram { .. } => Kind::Histogram,
    };
    if kind == Kind::Counter && !full.ends_with("_total") {
        full.push_str("_total");
    }
    if !page.family(&full, kind, &format!("Of the plugin {plugin}.")) {
        return false;
    }
    for (labels, value) in series {
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        match value {
            metrics::Value::Counter(value) | metrics::Value::Gauge(value) => page.sample(&full, &labels, *value),
            metrics::Value::Histogram { buckets, sum, .. } => {
                page.buckets(&full, &labels, metrics::BUCKETS.into_iter(), *buckets, *sum);
            }
        }
    }
    true
}
