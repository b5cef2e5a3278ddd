//! What stands around every call of a plugin: a bounded number at a time, a deadline, and a plain
//! answer for every way to fail. A call that goes wrong costs that call and nobody else's.

use std::{
    collections::BTreeSet,
    future::Future,
    sync::{Arc, PoisonError, RwLock},
    time::Instant,
};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::Value;

use super::{
    call::{CallFault, PluginError, PluginReply},
    watchdog::Watchdog,
};
use crate::{
    http::{codes, error::ApiError},
    observe::{
        plugins::{Fault, PluginMeter},
        shard::Counter,
        spent,
    },
};

/// Seconds after which a caller may try again when the plugin is busy.
const BUSY_RETRY: u32 = 1;
/// No plugin sends its clients away for longer than a day.
const RETRY_LIMIT: u32 = 24 * 3600;

/// Headers that a plugin may not set: they speak for the host or for the connection.
const DROPPED: [HeaderName; 15] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    // The host knows how long a body is; another length would break the connection.
    header::CONTENT_LENGTH,
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::SET_COOKIE,
    HeaderName::from_static("clear-site-data"),
    HeaderName::from_static("service-worker-allowed"),
    header::STRICT_TRANSPORT_SECURITY,
    header::WWW_AUTHENTICATE,
    header::SERVER,
];

/// The guard of one plugin.
pub struct Guard {
    name: String,
    watchdog: Arc<Watchdog>,
    limit: usize,
    meter: Arc<PluginMeter>,
    pub counters: Counters,
    pub own_codes: OwnCodes,
}

/// Error codes that are not the host's and that this plugin has answered with.
#[derive(Default)]
pub struct OwnCodes(RwLock<BTreeSet<String>>);

/// A plugin that makes up a code per answer must not fill the memory.
const OWN_CODES_KEPT: usize = 64;

impl OwnCodes {
    pub fn has(&self, code: &str) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(code)
    }

    fn note(&self, code: &str) {
        if codes::find(code).is_some() || self.has(code) {
            return;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < OWN_CODES_KEPT {
            known.insert(code.to_owned());
        }
    }
}

/// What has happened to the calls of this generation.
#[derive(Default)]
pub struct Counters {
    pub calls: Counter,
    pub errors: Counter,
    pub panics: Counter,
    pub timeouts: Counter,
    pub refused: Counter,
}

impl Guard {
    pub fn new(name: &str, limit: u32, watchdog: Arc<Watchdog>, meter: Arc<PluginMeter>) -> Self {
        Self {
            watchdog,
            name: name.to_owned(),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            meter,
            counters: Counters::default(),
            own_codes: OwnCodes::default(),
        }
    }

    /// Runs a call until `deadline`; past it the call's future is dropped.
    /// `in_flight` are the calls and reply streams that are under way already.
    pub async fn run<F>(
        &self,
        in_flight: usize,
        deadline: Instant,
        call: impl FnOnce() -> F,
    ) -> Result<PluginReply, ApiError>
    where
        F: Future<Output = Result<PluginReply, CallFault>>,
    {
        self.counters.calls.count();
        if in_flight >= self.limit {
            self.refused();
            return Err(unavailable(format!("The plugin `{}` is busy.", self.name)).retry_after(BUSY_RETRY));
        }
        let _watched = self.watchdog.call();
        let (begun, waited_before) = (Instant::now(), spent::database());
        let outcome = tokio::time::timeout_at(deadline.into(), call()).await;
        let took = begun.elapsed();
        self.meter.called(took);
        // The call has put its waits for the database on the request's account by now.
        spent::add_plugin(took.saturating_sub(spent::database().saturating_sub(waited_before)));
        match outcome {
            Ok(Ok(mut reply)) => {
                clean(&mut reply.headers);
                Ok(reply)
            }
            Ok(Err(fault)) => Err(self.fault(fault)),
            Err(_) => {
                self.counters.timeouts.count();
                self.meter.failed(Fault::Timeout);
                Err(ApiError::new(&codes::PLUGIN_TIMEOUT)
                    .cause(anyhow::anyhow!("the plugin {} reached its deadline", self.name)))
            }
        }
    }

    fn fault(&self, fault: CallFault) -> ApiError {
        match fault {
            CallFault::Panicked { message } => {
                self.counters.panics.count();
                self.meter.failed(Fault::Panic);
                ApiError::new(&codes::PLUGIN_PANICKED)
                    .cause(anyhow::anyhow!("the plugin {} panicked: {message}", self.name))
            }
            CallFault::BadReply { reason } => self.bad_reply(&reason),
            CallFault::Retired => {
                self.refused();
                unavailable(format!("The plugin `{}` is being replaced.", self.name))
            }
            CallFault::Error(error) => {
                if error.status >= 500 {
                    self.counters.errors.count();
                    self.meter.failed(Fault::Error);
                }
                self.error(error)
            }
        }
    }

    fn refused(&self) {
        self.counters.refused.count();
        self.meter.failed(Fault::Refused);
    }

    fn bad_reply(&self, reason: &str) -> ApiError {
        self.counters.errors.count();
        self.meter.failed(Fault::BadReply);
        ApiError::new(&codes::PLUGIN_ERROR)
            .cause(anyhow::anyhow!("the reply of the plugin {} cannot be sent: {reason}", self.name))
    }

    /// An error that the author chose goes to the client as it is; any other only to the log.
    fn error(&self, error: PluginError) -> ApiError {
        let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        self.own_codes.note(&error.code);
        let mut answer = match codes::find(&error.code) {
            Some(code) if code.status == error.status => ApiError::new(code),
            _ => ApiError::custom(
                status,
                error.code,
                status.canonical_reason().unwrap_or("The plugin refused the request"),
            ),
        };
        let log = anyhow::anyhow!("the plugin {}: {}", self.name, error.message);
        answer = if error.public { answer.detail(error.message) } else { answer.cause(log) };
        if error.retry {
            answer = answer.retry_after(retry_in(&error.details).unwrap_or(BUSY_RETRY));
        }
        with_details(answer, &error.details)
    }
}

/// The seconds that the author asks the client to wait.
fn retry_in(details: &Value) -> Option<u32> {
    let seconds = details.get("retry_after")?.as_u64()?;
    Some(u32::try_from(seconds).unwrap_or(RETRY_LIMIT).min(RETRY_LIMIT))
}

fn with_details(mut answer: ApiError, details: &Value) -> ApiError {
    for error in details.get("errors").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        answer = answer.field(text("pointer"), text("detail"));
    }
    match details.get("required_scope").and_then(Value::as_str) {
        Some(scope) => answer.with("required_scope", scope),
        None => answer,
    }
}

fn unavailable(detail: String) -> ApiError {
    ApiError::new(&codes::PLUGIN_UNAVAILABLE).detail(detail)
}

/// Takes out what a plugin may not say and adds what keeps its replies from acting as pages of ours.
fn clean(headers: &mut HeaderMap) {
    // Nearly no reply has any of them: looking at the few that are there is cheaper than removing all that could be.
    let mut foreign: Vec<HeaderName> = headers.keys().filter(|name| is_dropped(name)).cloned().collect();
    if foreign.contains(&header::CONNECTION) {
        foreign.extend(nominated(headers));
    }
    for name in foreign {
        headers.remove(name);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
}

fn is_dropped(name: &HeaderName) -> bool {
    DROPPED.contains(name) || name.as_str().starts_with("access-control-")
}

/// What `Connection` names belongs to the connection too.
fn nominated(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(header::CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_author_names_the_wait_within_reason() {
        use serde_json::json;
        for (details, seconds) in [
            (json!({"retry_after": 30}), Some(30)),
            (json!({"retry_after": u64::MAX}), Some(RETRY_LIMIT)),
            (json!({"retry_after": "soon"}), None),
            (json!({"retry_after": -1}), None),
            (Value::Null, None),
        ] {
            assert_eq!(retry_in(&details), seconds, "{details}");
        }
    }

    #[test]
    fn what_speaks_for_host_or_connection_is_taken_out() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("content-length", "7"),
            ("set-cookie", "a=b"),
            ("access-control-allow-origin", "*"),
            ("www-authenticate", "Basic"),
            ("content-security-policy", "default-src *"),
            ("content-type", "text/plain"),
            ("x-own", "kept"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        clean(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-security-policy", "content-type", "x-content-type-options", "x-own"]);
        assert_eq!(headers["content-security-policy"], "sandbox; default-src 'none'");
    }
}
