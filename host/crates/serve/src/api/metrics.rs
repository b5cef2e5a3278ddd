//! `/metrics`: everything that the host counts, as Prometheus reads it.

mod plugins;

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
use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    call::Call,
    http::{
        body::Body,
        problem,
        reply::{self, Reply},
        request_body::RequestBody,
    },
};
use cardinal_base::{
    codes,
    request_id::{self, RequestId},
};
use cardinal_observe::{
    exposition::{self, Exposition, Kind, seconds},
    meter::CLASSES,
    process,
    spans::DropReason,
};

/// How long a scrape waits for the database to say that it is there; less than any scraper's patience.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) fn routes() -> Vec<Route> {
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
pub(crate) async fn separate(app: &Arc<App>, request: &Request<RequestBody>) -> Reply {
    let request_id = RequestId::from_headers(request.headers());
    let refuse = |refusal: &ApiError| problem::respond(refusal, &app.base_url, request_id.as_str());
    let mut reply = match *request.method() {
        _ if request.uri().path() != "/metrics" => {
            refuse(&ApiError::new(&codes::NOT_FOUND).detail("This address serves /metrics alone."))
        }
        Method::GET | Method::HEAD => page(app).await,
        _ => refuse(&ApiError::method_not_allowed([Method::GET].iter())),
    };
    if let Ok(id) = HeaderValue::from_str(request_id.as_str()) {
        reply.headers_mut().insert(request_id::HEADER, id);
    }
    reply
}

async fn page(app: &Arc<App>) -> Reply {
    let database_up = matches!(tokio::time::timeout(CONNECTION_TIMEOUT, health::ask_database(app)).await, Ok(Ok(())));
    let mut page = Exposition::default();
    host(&mut page, app, database_up);
    tls(&mut page, app);
    requests(&mut page, app);
    pools(&mut page, app);
    traces(&mut page, app);
    plugins::all(&mut page, app);
    tools(&mut page, app);
    proxy(&mut page, app);
    process_itself(&mut page, app);
    plugins::http(&mut page, app);
    plugins::own(&mut page, app);
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

fn tls(page: &mut Exposition, app: &App) {
    let Some(certificate) = app.tls.as_ref().and_then(|tls| tls.certificate()) else { return };
    let name = "cardinal_tls_certificate_expiry_timestamp_seconds";
    let expires_at = certificate.expires_at.unix_timestamp();
    page.single(name, Kind::Gauge, "When the TLS certificate in force expires.", expires_at);
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

fn tools(page: &mut Exposition, app: &App) {
    let name = "cardinal_mcp_tool_call_duration_seconds";
    if page.family(name, Kind::Histogram, "Time of MCP tool calls, by tool and how they ended.") {
        for (tool, outcome, reading) in app.telemetry.tools.read() {
            page.durations(name, &[("tool", &tool), ("outcome", outcome.name())], &reading);
        }
    }
}

fn traces(page: &mut Exposition, app: &App) {
    let spans = &app.telemetry.spans;
    page.single("cardinal_trace_spans_sent_total", Kind::Counter, "Spans that the collector has taken.", spans.sent());
    let name = "cardinal_trace_spans_dropped_total";
    if page.family(name, Kind::Counter, "Spans that were not sent, by why.") {
        for reason in DropReason::ALL {
            page.sample(name, &[("reason", reason.name())], spans.dropped(reason));
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
