//! What runs here and how it is: for operators, and their log level for a while.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use time::format_description::well_known::Rfc3339;

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    audit::AuditAction,
    call::{Call, Json, NoQuery},
    check::SystemCheck,
    http::reply::{self, Reply},
};
use cardinal_base::{config::log_levels, log_targets, schema::DateTime};
use cardinal_observe::{process, traffic::Sample};
use cardinal_package::state::State;

/// How long a level may be changed for, and is when nobody says: a day, a quarter of an hour.
const MAX_MINUTES: u32 = 24 * 60;
const DEFAULT_MINUTES: u32 = 15;
/// How long the database may take to say its version.
const PING_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/system", show).scope("system:read").describe(|op| {
            op.named("getSystem", "system", "What runs here, its settings with secrets masked, pools and health")
                .ok::<System>();
        }),
        Route::get("/v1/admin/system/traffic", traffic).scope("system:read").describe(|op| {
            op.named("getTraffic", "system", "Requests to this host in the last hour, or since it started")
                .notes("Only of the host that answers. Without health checks, metrics and the Admin UI's own files.")
                .ok::<Traffic>();
        }),
        Route::get("/v1/admin/system/check", check).scope("system:read").describe(|op| {
            op.named("checkSystem", "system", "What is wrong with settings, machine and proxy routes")
                .notes(
                    "Those findings of `cardinal check` that need no more than the worker has, on the host that \
                     answers, made anew at most every 10 seconds. What needs the database's owner, and packages in \
                     the plugins folder, only the command looks at.",
                )
                .ok::<SystemCheck>();
        }),
        Route::put("/v1/admin/system/log-level", set_log_level)
            .scope("system:write")
            .audits(AuditAction::SetLogLevel)
            .describe(|op| {
                op.named("setLogLevel", "system", "Change a log level of this host for a while")
                    .notes("Also for one plugin: `plugin::<name>`. Only on the host that answers.")
                    .ok::<LevelSet>();
            }),
    ]
}

/// What `show` puts together.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "a description")]
struct System {
    version: String,
    host_id: uuid::Uuid,
    #[schemars(with = "DateTime")]
    started_at: String,
    uptime_seconds: i64,
    worker_restarts: u64,
    health: Map<String, Value>,
    pools: Vec<PoolReport>,
    /// How many plugins there are in each state.
    plugins: BTreeMap<String, u64>,
    /// Ends of this host's workers that no plugin is known to have caused, of the last 200 ends: `count`, and the
    /// `last` one with what ran and had calls under way.
    unattributed_crashes: Map<String, Value>,
    process: Map<String, Value>,
    requests: Map<String, Value>,
    log: Map<String, Value>,
    /// Addresses that sent `X-Forwarded-For` and are not in TRUSTED_PROXIES, the first eight.
    undeclared_proxies: Vec<String>,
    /// By name, secrets masked.
    settings: Value,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "a description of what `set_log_level` answers")]
struct LevelSet {
    log: Map<String, Value>,
    host_id: uuid::Uuid,
}

/// The last hour of this host.
#[derive(Serialize, JsonSchema)]
struct Traffic {
    host_id: uuid::Uuid,
    #[schemars(with = "DateTime")]
    from: String,
    #[schemars(with = "DateTime")]
    to: String,
    requests: u64,
    /// Those of them that were answered with a status of 5xx.
    failed: u64,
    /// 99 of 100 requests were answered within so many milliseconds; what took longer than 10,000 counts as that. Null
    /// without requests.
    p99_ms: Option<f64>,
    /// The same hour in parts of half a minute, the oldest first.
    spans: Vec<TrafficSpan>,
}

#[derive(Serialize, JsonSchema)]
struct TrafficSpan {
    #[schemars(with = "DateTime")]
    from: String,
    #[schemars(with = "DateTime")]
    to: String,
    requests: u64,
    failed: u64,
}

impl TrafficSpan {
    fn new(before: &Sample, now: &Sample) -> ApiResult<Self> {
        Ok(Self {
            from: before.at.format(&Rfc3339).map_err(ApiError::internal)?,
            to: now.at.format(&Rfc3339).map_err(ApiError::internal)?,
            requests: now.requests.saturating_sub(before.requests),
            failed: now.failed.saturating_sub(before.failed),
        })
    }
}

async fn traffic(app: &Arc<App>, _: Call) -> ApiResult<Reply> {
    let now = Sample::take(&app.telemetry.requests, app.clock.now());
    let mut samples = app.telemetry.traffic.read();
    samples.push(now);
    let first = samples.first().copied().unwrap_or(now);
    let whole = TrafficSpan::new(&first, &now)?;
    let spans = samples.windows(2).map(|pair| TrafficSpan::new(&pair[0], &pair[1])).collect::<ApiResult<_>>()?;
    let p99_ms = now.p99_us_since(&first).map(|us| us as f64 / 1_000.0);
    let TrafficSpan { from, to, requests, failed } = whole;
    reply::ok(&Traffic { host_id: app.host_id, from, to, requests, failed, p99_ms, spans })
}

async fn check(app: &Arc<App>, _: Call) -> ApiResult<Reply> {
    let make = async {
        let stored = app.proxy_routes.read(&app.pools.core, &app.proxy).await?;
        let certificate = app.tls.as_ref().and_then(|tls| tls.certificate());
        let made = SystemCheck::make(&app.config, certificate.as_ref(), &stored.lines, app.host_id, app.clock.now());
        made.await.map_err(ApiError::internal)
    };
    reply::ok(&*app.last_check.read(make).await?)
}

async fn show(app: &Arc<App>, _: Call) -> ApiResult<Reply> {
    let telemetry = &app.telemetry;
    let uptime = (app.clock.now() - telemetry.started).whole_seconds();
    reply::ok(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host_id": app.host_id,
        "started_at": telemetry.started.format(&Rfc3339).map_err(ApiError::internal)?,
        "uptime_seconds": uptime,
        "worker_restarts": telemetry.worker_restarts,
        "health": health(app).await,
        "pools": pools(app),
        "plugins": plugins(app),
        "unattributed_crashes": unattributed(app),
        "process": process(app),
        "requests": {
            "in_flight": telemetry.requests.in_flight.read(),
            "abandoned": telemetry.requests.abandoned.read(),
        },
        "log": log(app),
        "undeclared_proxies": app.undeclared_proxies.seen(),
        "settings": app.config.in_force(),
    }))
}

async fn health(app: &App) -> Value {
    let answer = tokio::time::timeout(PING_TIMEOUT, cardinal_database::server::version(&app.pools.core)).await;
    let version = answer.ok().and_then(Result::ok);
    let ready = app.ready.load(Ordering::Acquire);
    let state = match () {
        () if app.draining.load(Ordering::Acquire) => "draining",
        () if !ready => "starting",
        () if version.is_none() => "database-unavailable",
        () => "ready",
    };
    json!({"state": state, "ready": state == "ready", "database": {"up": version.is_some(), "version": version}})
}

/// One pool of connections.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PoolReport {
    /// `core`, `reaper` or `plugin`.
    pub pool: &'static str,
    pub plugin: Option<String>,
    pub max: u64,
    pub size: u64,
    pub idle: u64,
    pub waiting: u64,
}

impl PoolReport {
    fn new(pool: &'static str, plugin: Option<String>, status: deadpool::Status) -> Self {
        let [max, size, idle, waiting] =
            [status.max_size, status.size, status.available, status.waiting].map(|count| count as u64);
        Self { pool, plugin, max, size, idle, waiting }
    }
}

/// The worker's pools and those of the plugins in service.
pub(crate) fn pools(app: &App) -> Vec<PoolReport> {
    let mut pools = vec![
        PoolReport::new("core", None, app.pools.core.status()),
        PoolReport::new("reaper", None, app.pools.reaper.status()),
    ];
    for active in app.plugins.snapshot().active() {
        let status = active.instance.pool_status();
        pools.extend(status.map(|status| PoolReport::new("plugin", Some(active.manifest.name.clone()), status)));
    }
    pools
}

/// How many plugins there are in each state that any is in.
fn plugins(app: &App) -> Value {
    let states: Vec<State> = app.plugins.snapshot().states().collect();
    let count = |state: State| states.iter().filter(|known| **known == state).count();
    let counts = State::ALL.into_iter().map(|state| (state.as_str().to_owned(), count(state)));
    counts.filter(|(_, count)| *count > 0).map(|(state, count)| (state, json!(count))).collect()
}

fn unattributed(app: &App) -> Value {
    let (count, last) = app.plugins.unattributed_crashes();
    json!({"count": count, "last": last})
}

fn process(app: &App) -> Value {
    let read = process::read();
    json!({
        "cpu_seconds": read.cpu_seconds,
        "resident_bytes": read.resident_bytes,
        "virtual_bytes": read.virtual_bytes,
        "threads": read.threads,
        "open_fds": read.open_fds,
        "max_fds": read.max_fds,
        "unattributed_fds": app.plugins.unattributed_descriptors(),
    })
}

fn log(app: &App) -> Value {
    let (level, changes) = app.log.levels();
    json!({
        "format": app.config.observe.log_format.as_str(),
        "level": level,
        "changes": changes,
        "dropped_lines": app.log.dropped(),
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LogLevel {
    /// A module (`cardinal::db`), a plugin (`plugin::supplier`), or `*` for everything.
    target: String,
    level: String,
    /// 0 takes a change back at once.
    #[serde(default)]
    minutes: Option<u32>,
}

fn no_target(reason: String) -> ApiError {
    ApiError::invalid("/target", format!("{reason}, or * for everything."))
}

/// Changes what this host logs, for a while.
async fn set_log_level(app: &Arc<App>, call: Call<NoQuery, Json<LogLevel>>) -> ApiResult<Reply> {
    let LogLevel { target, level, minutes } = call.body()?;
    let minutes = minutes.unwrap_or(DEFAULT_MINUTES);
    let everything = target == "*";
    let target = if everything { target } else { log_targets::resolve(&target).map_err(no_target)? };
    let Some(filter) = log_levels::level(&level) else {
        return Err(ApiError::invalid("/level", "One of off, error, warn, info, debug and trace."));
    };
    if minutes > MAX_MINUTES {
        return Err(ApiError::invalid("/minutes", format!("At most {MAX_MINUTES}; 0 takes a change back at once.")));
    }
    let until = app.clock.now() + time::Duration::minutes(i64::from(minutes));
    app.log
        .set_level((!everything).then_some(&target), filter, until)
        .map_err(|full| ApiError::invalid("/target", format!("{full}; wait for one to end or take one back.")))?;
    let caller = call.caller()?;
    let user = &caller.username;
    tracing::info!(changed = target, to = %filter, minutes, user, "the log level was changed");
    let detail = json!({"level": filter.to_string(), "minutes": minutes});
    app.audit.done(&call, Some(target), Some(detail)).await;
    reply::ok(&json!({"log": log(app), "host_id": app.host_id}))
}
