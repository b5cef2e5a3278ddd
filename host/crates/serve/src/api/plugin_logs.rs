//! `/v1/admin/plugin-registry/{name}/logs`: the last lines of a plugin on this host, as a page or read live.

use std::sync::Arc;

use http::{Method, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};
use tracing::Level;
use uuid::Uuid;

use super::live::{self, Beginning, Feed, Reading};
use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    call::{Call, CallHead, Query},
    http::{
        body::Body,
        reply::{self, Reply},
    },
};
use cardinal_base::{codes, page};
use cardinal_identity::auth::caller::Caller;
use cardinal_observe::{log::tail::Tail, recent::Portion};

/// Who may read a plugin's lines.
const SCOPE: &str = "plugins:read";
const EVENT_STREAM: &str = "text/event-stream";

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get("/v1/admin/plugin-registry/{name}/logs", read).scope(SCOPE).describe(|op| {
        op.named("readPluginLogs", "plugins", "The latest log lines of a plugin on this host")
            .notes(
                "A page of them, newest first. With `Accept: text/event-stream` the last `limit` of them and then \
                 all that follow, each an event `line`; `Last-Event-ID` resumes after that line.",
            )
            .param("name", "The plugin's name.", json!({}))
            .param(
                "level",
                "Lines of this level and more severe ones.",
                json!({"enum": ["error", "warn", "info", "debug", "trace"], "default": "trace"}),
            )
            .param("limit", "Lines per page.", json!({"minimum": 1, "maximum": 200, "default": 100}))
            .param("cursor", "`next_cursor` of the previous page; not for a stream.", json!({}))
            .header("Last-Event-ID", "The `id` of the last line that was read.")
            .ok::<LinePage>()
            .replies_as(200, "An endless stream of lines.", EVENT_STREAM, json!({}));
    })]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadQuery {
    level: Option<String>,
    limit: Option<i64>,
    cursor: Option<String>,
}

/// Lines, the newest first.
#[derive(Serialize, JsonSchema)]
struct LinePage {
    #[schemars(with = "Vec<PluginLine>")]
    items: Vec<Box<RawValue>>,
    /// Where the next page begins, of older lines; null is the end.
    next_cursor: Option<String>,
    /// Each host keeps the lines of its own.
    host_id: Uuid,
}

/// What a line says of itself.
#[derive(JsonSchema)]
#[allow(dead_code)] // describes what `observe::log::tail` writes
struct PluginLine {
    /// Grows with every line of the plugin.
    id: i64,
    at: String,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    level: String,
    /// `plugin`, `host` (what it says of the plugin) or `browser` (the plugin's frontend).
    source: String,
    message: String,
    fields: Option<serde_json::Map<String, serde_json::Value>>,
    request_id: Option<String>,
    trace_id: Option<String>,
}

async fn read(app: &Arc<App>, call: Call<Query<ReadQuery>>) -> ApiResult<Reply> {
    let query = call.query()?;
    let limit = page::limit(query.limit)?;
    let min_level = level(query.level.as_deref())?;
    let name = call.params.get("name").unwrap_or_default();
    let tail = find_tail(app, name).await?;
    if wants_stream(&call) {
        if query.cursor.is_some() {
            return Err(ApiError::new(&codes::INVALID_REQUEST).detail("A stream takes `Last-Event-ID`, not `cursor`."));
        }
        return follow(app, &call, tail, min_level, limit);
    }
    let list = ("plugin-logs", name, min_level.as_str());
    let before = query.cursor.map(|cursor| app.cursors.open(&list, &cursor)).transpose()?;
    let found = tail.page(before, usize::try_from(limit).unwrap_or_default(), min_level);
    let next_cursor = found.more.map(|id| app.cursors.seal(&list, &id)).transpose()?;
    let items = found.items.iter().map(|line| serde_json::from_slice(line)).collect::<Result<_, _>>();
    reply::ok(&LinePage { items: items.map_err(ApiError::internal)?, next_cursor, host_id: app.host_id })
}

/// The lines of a plugin that the registry knows.
async fn find_tail(app: &Arc<App>, name: &str) -> ApiResult<Arc<Tail>> {
    app.wait_for_plugins(None).await;
    if !app.plugins.current().knows(name) {
        return Err(ApiError::not_found("plugin"));
    }
    app.log.tail(name).ok_or_else(|| ApiError::not_found("plugin"))
}

fn level(name: Option<&str>) -> ApiResult<Level> {
    Ok(match name {
        Some("error") => Level::ERROR,
        Some("warn") => Level::WARN,
        Some("info") => Level::INFO,
        Some("debug") => Level::DEBUG,
        Some("trace") | None => Level::TRACE,
        Some(_) => {
            let detail = "`level` is one of error, warn, info, debug, trace.";
            return Err(ApiError::new(&codes::INVALID_REQUEST).detail(detail));
        }
    })
}

fn wants_stream(call: &CallHead) -> bool {
    let accepted = call.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|value| value.split(','));
    types.any(|range| range.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(EVENT_STREAM))
}

fn follow(app: &Arc<App>, call: &CallHead, tail: Arc<Tail>, min_level: Level, limit: i64) -> ApiResult<Reply> {
    let last_read = live::last_read(&call.headers)?;
    if call.method == Method::HEAD {
        return Ok(reply::events(Body::empty()));
    }
    if app.events.is_stopped() {
        return Err(ApiError::new(&codes::DRAINING));
    }
    let slot = app.log_readers.take(call.caller()?.user_id)?;
    let head = tail.head();
    let kept = tail.begin()..=*head.borrow();
    let (place, is_reset) = match last_read {
        None => (tail.before_last(usize::try_from(limit).unwrap_or_default(), min_level), false),
        Some(last) if kept.contains(&last) => (last, false),
        // Forgotten since, or another host's: all that there is.
        Some(_) => (*kept.start(), true),
    };
    let hello = format!("lines on host {}", app.host_id);
    let begin = Beginning { place, is_reset, sends_id: last_read.is_none(), hello };
    Ok(Reading::begin(app, call, Lines { tail, min_level }, head, slot, &begin).reply())
}

/// A plugin's lines of a level and graver ones.
struct Lines {
    tail: Arc<Tail>,
    min_level: Level,
}

impl Feed for Lines {
    fn portion(&self, place: i64) -> Portion {
        self.tail.portion(place, self.min_level)
    }

    async fn older(&self, _: i64) -> ApiResult<Portion> {
        Ok(Portion::Gone)
    }

    async fn restart_position(&self) -> ApiResult<i64> {
        Ok(self.tail.begin())
    }

    fn is_open_to(&self, caller: &Caller) -> bool {
        caller.holds(SCOPE)
    }
}
