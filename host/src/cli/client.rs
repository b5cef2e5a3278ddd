//! A host, as commands talk to it: one connection a request, JSON or streamed bodies, and failures in plain words.

pub(super) mod events;
mod transport;

use std::{fmt, io, process::ExitCode, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Full, Limited, combinators::BoxBody};
use hyper::body::Incoming;
use serde_json::Value;

use self::transport::Transport;
use cardinal_base::config::Remote;

/// From the request's last byte to the answer's, where neither is a stream.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of an answer that is read whole.
const ANSWER_LIMIT: usize = 16 << 20;
const AGENT: &str = concat!("cardinal/", env!("CARGO_PKG_VERSION"));

/// `EX_UNAVAILABLE` and `EX_NOPERM` of sysexits.h.
const EXIT_UNREACHABLE: u8 = 69;
const EXIT_NOT_ALLOWED: u8 = 77;

/// A request's body.
pub(super) type Upload = BoxBody<Bytes, io::Error>;

/// A host and the credential that it is called with.
pub(super) struct Client {
    transport: Transport,
    key: Option<HeaderValue>,
}

/// Why a call came to nothing.
#[derive(Debug)]
pub(super) enum RequestError {
    /// Nobody answers there.
    Unreachable { host: String, cause: anyhow::Error },
    /// The connection ended in the middle.
    BrokenOff { host: String, cause: anyhow::Error },
    /// The host has answered, and not with what was asked for.
    Refused { status: StatusCode, problem: Value },
    /// The host has answered with something else than the API does.
    Foreign { host: String, status: StatusCode },
}

impl std::error::Error for RequestError {}

impl fmt::Display for RequestError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { host, cause } => {
                write!(
                    out,
                    "{host} cannot be reached ({cause:#}). Start it, or name another host: on this machine by its DATA_DIR (--data-dir), elsewhere by CARDINAL_URL (--url) and a key."
                )
            }
            Self::BrokenOff { host, cause } => write!(out, "lost the connection to {host} ({cause:#})"),
            Self::Foreign { host, status } => write!(
                out,
                "the answer from {host} is not from Cardinal's API \
                ({status})"
            ),
            Self::Refused { status, problem } => refusal(out, *status, problem),
        }
    }
}

/// The detail or else the title, each field that is wrong, and what an operator finds it by in the log.
fn refusal(out: &mut fmt::Formatter<'_>, status: StatusCode, problem: &Value) -> fmt::Result {
    let text = |name: &str| problem[name].as_str().unwrap_or_default();
    let sentence = if text("detail").is_empty() { text("title") } else { text("detail") };
    write!(out, "{}.", sentence.trim_end_matches('.'))?;
    if status == StatusCode::UNAUTHORIZED {
        out.write_str(" The key comes from CARDINAL_API_KEY or --key-file.")?;
    }
    for fault in problem["errors"].as_array().into_iter().flatten() {
        let of = |name: &str| fault[name].as_str().unwrap_or_default();
        let place = match of("pointer") {
            "" => String::new(),
            pointer => format!("{pointer}: "),
        };
        write!(out, "\n  {place}{}", of("detail"))?;
    }
    write!(out, "\n  ({status}, {}, request {})", text("code"), text("request_id"))
}

impl RequestError {
    pub(super) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Unreachable { .. } => ExitCode::from(EXIT_UNREACHABLE),
            Self::Refused { status, .. } if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(status) => {
                ExitCode::from(EXIT_NOT_ALLOWED)
            }
            _ => ExitCode::FAILURE,
        }
    }
}

impl Client {
    pub(super) fn new(remote: &Remote) -> anyhow::Result<Self> {
        let transport = Transport::new(&remote.way)?;
        let bearer = |key: &cardinal_base::config::Secret| HeaderValue::try_from(format!("Bearer {}", key.expose()));
        let mut key = remote.key.as_ref().map(bearer).transpose()?;
        if let Some(key) = &mut key {
            key.set_sensitive(true);
        }
        Ok(Self { transport, key })
    }

    /// The host that has this `DATA_DIR`, on this machine.
    pub(super) fn local(data_dir: &std::path::Path) -> Self {
        Self { transport: Transport::local(data_dir), key: None }
    }

    /// The JSON that a path answers with.
    pub(super) async fn get(&self, path: &str) -> Result<Value, RequestError> {
        self.ask(Method::GET, path, None).await
    }

    /// The JSON that comes of sending `body`, or nothing, by `method`; null when the answer is empty.
    pub(super) async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, RequestError> {
        let mut request = Request::new(match body {
            Some(body) => full(body.to_string()),
            None => empty(),
        });
        *request.method_mut() = method;
        if body.is_some() {
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let answer = async { self.whole(self.send(path, request).await?).await };
        tokio::time::timeout(ANSWER_TIMEOUT, answer).await.unwrap_or_else(|_| {
            Err(self.broken_off(anyhow::anyhow!("no answer in {} seconds", ANSWER_TIMEOUT.as_secs())))
        })
    }

    /// Sends a request whose body or answer may be a stream; what is no success is a failure.
    pub(super) async fn send(&self, path: &str, request: Request<Upload>) -> Result<Response<Incoming>, RequestError> {
        let answer = self.exchange(path, request).await?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let body = self.body(answer).await?;
        Err(self.refused(status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    /// The failure that a host tells with this status and body.
    pub(super) fn refused(&self, status: StatusCode, problem: Value) -> RequestError {
        if problem["code"].is_string() {
            return RequestError::Refused { status, problem };
        }
        RequestError::Foreign { host: self.transport.to_string(), status }
    }

    /// The same; any answer will do.
    pub(super) async fn exchange(
        &self,
        path: &str,
        mut request: Request<Upload>,
    ) -> Result<Response<Incoming>, RequestError> {
        *request.uri_mut() = path.parse().map_err(|error: http::uri::InvalidUri| self.broken_off(error.into()))?;
        let headers = request.headers_mut();
        headers.insert(header::HOST, self.transport.authority());
        headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
        if let Some(key) = &self.key {
            headers.insert(header::AUTHORIZATION, key.clone());
        }
        let mut sender = self.transport.connect().await.map_err(|cause| self.unreachable(cause))?;
        sender.send_request(request).await.map_err(|error| self.broken_off(error.into()))
    }

    /// The whole answer as JSON.
    pub(super) async fn whole(&self, answer: Response<Incoming>) -> Result<Value, RequestError> {
        let status = answer.status();
        let body = self.body(answer).await?;
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).map_err(|_| RequestError::Foreign { host: self.transport.to_string(), status })
    }

    /// The bytes of an answer that is read whole.
    pub(super) async fn body(&self, answer: Response<Incoming>) -> Result<Bytes, RequestError> {
        let body = Limited::new(answer.into_body(), ANSWER_LIMIT).collect().await;
        Ok(body.map_err(|error| self.broken_off(anyhow::anyhow!(error)))?.to_bytes())
    }

    /// The error of a body that ends before it is complete.
    pub(super) fn broken_off(&self, cause: anyhow::Error) -> RequestError {
        RequestError::BrokenOff { host: self.transport.to_string(), cause }
    }

    fn unreachable(&self, cause: anyhow::Error) -> RequestError {
        RequestError::Unreachable { host: self.transport.to_string(), cause }
    }
}

/// A body that is there whole.
pub(super) fn full(body: impl Into<Bytes>) -> Upload {
    Full::new(body.into()).map_err(|never| match never {}).boxed()
}

/// No body.
pub(super) fn empty() -> Upload {
    Empty::new().map_err(|never| match never {}).boxed()
}

/// A query of those pairs that have a value, with its `?`; nothing when none has.
pub(super) fn query(pairs: &[(&str, Option<&str>)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    let query = query.finish();
    if query.is_empty() { query } else { format!("?{query}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_refusal_is_told_in_words_with_every_field() {
        let problem = json!({"title": "Some fields are not valid", "detail": "The card is not valid.", "code": "validation-failed",
            "request_id": "r1", "errors": [{"pointer": "/sku", "detail": "It is missing."}]});
        let failure = RequestError::Refused { status: StatusCode::UNPROCESSABLE_ENTITY, problem };
        let message = failure.to_string();
        assert!(message.contains("The card is not valid.\n  /sku: It is missing."), "{message}");
        assert!(message.ends_with("(422 Unprocessable Entity, validation-failed, request r1)"), "{message}");
    }

    #[test]
    fn a_fault_of_the_whole_body_has_no_empty_place() {
        let problem = json!({"detail": "Some fields are not valid.", "code": "validation-failed", "request_id": "r1",
            "errors": [{"pointer": "", "detail": "`nope` is unknown."}]});
        let message = RequestError::Refused { status: StatusCode::UNPROCESSABLE_ENTITY, problem }.to_string();
        assert!(message.contains("not valid.\n  `nope` is unknown.\n"), "{message}");
    }

    #[test]
    fn what_has_no_detail_of_its_own_is_said_once() {
        let title = "The credential is not valid";
        let problem = json!({"title": title, "detail": title, "code": "invalid-token", "request_id": "r1"});
        let message = RequestError::Refused { status: StatusCode::UNAUTHORIZED, problem }.to_string();
        assert!(message.starts_with("The credential is not valid. The key comes from"), "{message}");
    }

    #[test]
    fn queries_hold_what_has_a_value() {
        assert_eq!(query(&[("a", None)]), "");
        assert_eq!(query(&[("a", Some("x y&z")), ("b", None), ("c", Some("1"))]), "?a=x+y%26z&c=1");
    }
}
