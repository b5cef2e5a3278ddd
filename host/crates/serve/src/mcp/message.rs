//! What must be known of a message before the protocol library reads it, which answers what it does not understand in
//! words of its own; here each mistake gets the JSON-RPC error that is its own.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use rmcp::model::{InitializeRequestParams, ProtocolVersion};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use crate::http::reply::{self, Reply};
use cardinal_base::{exact, input};

/// Where a message of the newest revision says which revision it is of.
const REVISION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// How the protocol library begins to say that it can't read a message, with 415.
const UNREADABLE: &str = "fail to deserialize";

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const INTERNAL_ERROR: i32 = -32603;
/// What servers made with the official SDKs say with 404.
const SESSION_NOT_FOUND: i32 = -32001;

#[derive(Default)]
pub(super) struct Message {
    /// Null for a notification.
    id: Value,
    pub method: String,
    /// Of a revision without sessions: it says itself which.
    pub is_modern: bool,
    /// Of `initialize`: who the client is.
    pub client: Option<InitializeRequestParams>,
    /// The tool that is called.
    pub tool: Option<String>,
    /// Arguments of a tool call with numbers that a `Value` would change.
    pub exact_arguments: Option<Bytes>,
}

/// Of a message, the id alone.
#[derive(Deserialize)]
struct MessageId {
    id: Value,
}

/// The arguments of a tool call, as they were sent.
#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow)]
    params: ToolParams<'a>,
}

#[derive(Deserialize)]
struct ToolParams<'a> {
    #[serde(borrow)]
    arguments: &'a RawValue,
}

/// Arguments with a number that a `Value` changes. Each member is there once, as in the copy that is validated.
fn exact_arguments(bytes: &[u8]) -> Option<Bytes> {
    let arguments = serde_json::from_slice::<ToolCall<'_>>(bytes).ok()?.params.arguments.get();
    exact::first_inexact(arguments)?;
    exact::without_duplicates(arguments).map(Bytes::from)
}

impl Message {
    /// The message of a POST, or the error that answers it.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Box<Reply>> {
        let value = serde_json::from_slice::<Value>(bytes).map_err(|_| {
            let (code, text) = match input::is_json(bytes) {
                false => (PARSE_ERROR, "Parse error: the body is not JSON"),
                true => (
                    INVALID_PARAMS,
                    "Invalid params: a number is beyond the range of a double, a text has half a character \
                     (a surrogate by itself), or values are nested too deeply",
                ),
            };
            // The id may be read where something else of the message cannot.
            let id = serde_json::from_slice::<MessageId>(bytes).map_or(Value::Null, |message| id(message.id));
            Box::new(rpc_error(StatusCode::BAD_REQUEST, &id, code, text))
        })?;
        let mut message = Self { id: value.get("id").cloned().map_or(Value::Null, id), ..Self::default() };
        message
            .check(&value)
            .map_err(|(code, text)| Box::new(message.refusal(StatusCode::BAD_REQUEST, code, &text)))?;
        if message.method == "tools/call" {
            message.exact_arguments = exact_arguments(bytes);
        }
        Ok(message)
    }

    fn check(&mut self, value: &Value) -> Result<(), (i32, String)> {
        let invalid = |text: &str| Err((INVALID_REQUEST, format!("Invalid request: {text}")));
        if value.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return invalid("not a JSON-RPC 2.0 message");
        }
        if value.get("id").is_some() && self.id.is_null() {
            return invalid("the id is neither a text nor an integer of 64 bits");
        }
        match value.get("method") {
            Some(Value::String(method)) if !method.is_empty() => self.method.clone_from(method),
            Some(_) => return invalid("the method is not the name of one"),
            None if value.get("result").is_some() || value.get("error").is_some() => {}
            None => return invalid("there is no method"),
        }
        self.check_params(value.get("params"))
    }

    fn check_params(&mut self, params: Option<&Value>) -> Result<(), (i32, String)> {
        let invalid = |text: String| Err((INVALID_PARAMS, format!("Invalid params: {text}")));
        let params = match params {
            // Some clients send that they have none.
            None | Some(Value::Null) => &Value::Null,
            Some(params @ Value::Object(_)) => params,
            Some(_) => return invalid("`params` is not an object".to_owned()),
        };
        if self.method == "tools/call" {
            let Some(tool) = params["name"].as_str() else {
                return invalid("`name` is the name of a tool, as text".to_owned());
            };
            self.tool = Some(tool.to_owned());
            if !matches!(params["arguments"], Value::Null | Value::Object(_)) {
                return invalid(
                    "`arguments` is not an object. Send it as JSON, not as text that holds JSON".to_owned(),
                );
            }
        }
        if self.method == "tools/list" && !matches!(params["cursor"], Value::Null | Value::String(_)) {
            return invalid("`cursor` is not a text".to_owned());
        }
        if !matches!(params["_meta"], Value::Null | Value::Object(_)) {
            return invalid("`_meta` is not an object".to_owned());
        }
        self.is_modern = params["_meta"].as_object().is_some_and(is_modern);
        // The newest revision has no such method, whatever its parameters are.
        if self.method == "initialize" && !self.is_modern {
            match serde_json::from_value(params.clone()) {
                Ok(client) => self.client = Some(client),
                Err(error) => return invalid(error.to_string()),
            }
        }
        Ok(())
    }

    /// Whether it is a request: notifications and answers get none.
    pub(super) fn wants_answer(&self) -> bool {
        !self.id.is_null() && !self.method.is_empty()
    }

    /// Null for a notification.
    pub(super) const fn id(&self) -> &Value {
        &self.id
    }

    /// A JSON-RPC error that answers this message.
    pub(super) fn refusal(&self, status: StatusCode, code: i32, text: &str) -> Reply {
        rpc_error(status, &self.id, code, text)
    }

    /// What the client means is not there.
    pub(super) fn invalid_params(&self, text: &str) -> Reply {
        self.refusal(StatusCode::BAD_REQUEST, INVALID_PARAMS, &format!("Invalid params: {text}"))
    }

    /// The HTTP layer of the protocol refuses the message, for its headers mostly.
    pub(super) fn invalid(&self, status: StatusCode, text: &str) -> Reply {
        self.refusal(status, INVALID_REQUEST, &format!("Invalid request: {text}"))
    }

    /// The same in the protocol library's words. It has a status of its own for what it can't read.
    pub(super) fn refused(&self, status: StatusCode, words: &str) -> Reply {
        match words.starts_with(UNREADABLE) {
            true => {
                self.invalid(StatusCode::BAD_REQUEST, "a member has another type than it should, or is there twice")
            }
            false => self.invalid(status, words),
        }
    }

    /// The message's revision has no such method.
    pub(super) fn no_such_method(&self) -> Reply {
        self.refusal(StatusCode::NOT_FOUND, METHOD_NOT_FOUND, &format!("Method not found: {}", self.method))
    }

    /// Another call of the session is under way with its id.
    pub(super) fn id_in_use(&self) -> Reply {
        self.invalid(StatusCode::BAD_REQUEST, "a call with this id is under way in this session. Give each its own id")
    }

    /// The message failed for a reason that is not its own.
    pub(super) fn failed(&self, status: StatusCode, text: &str) -> Reply {
        self.refusal(status, INTERNAL_ERROR, text)
    }

    /// 403, with the challenge that tells an OAuth client what to ask its provider for.
    pub(super) fn insufficient_scope(&self, tool: &str, scope: &str, challenge: &str) -> Reply {
        let text = format!("insufficient-scope: the tool `{tool}` needs a token with the scope `{scope}`");
        let mut reply = self.refusal(StatusCode::FORBIDDEN, INVALID_PARAMS, &text);
        if let Ok(challenge) = HeaderValue::try_from(challenge) {
            reply.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        reply
    }

    /// 404, at which clients begin a new session.
    pub(super) fn session_not_found(&self) -> Reply {
        self.refusal(
            StatusCode::NOT_FOUND,
            SESSION_NOT_FOUND,
            "Session not found. Begin a new one with `initialize`, without the header Mcp-Session-Id",
        )
    }

    /// The client's capabilities do not fit into a session's id.
    pub(super) fn too_many_capabilities(&self) -> Reply {
        self.refusal(StatusCode::BAD_REQUEST, INVALID_PARAMS, "Invalid params: `capabilities` is too large")
    }
}

/// Whether the message names a revision without sessions, or what is no revision. One that names an older revision is
/// of that: its session counts, if it has one.
fn is_modern(meta: &Map<String, Value>) -> bool {
    let Some(revision) = meta.get(REVISION_KEY) else { return false };
    let older = ProtocolVersion::KNOWN_VERSIONS.iter().find(|known| revision == known.as_str());
    older.is_none_or(|known| !known.has_initialize())
}

/// The id if it is one, else null.
fn id(id: Value) -> Value {
    if id.is_string() || id.is_i64() { id } else { Value::Null }
}

fn rpc_error(status: StatusCode, id: &Value, code: i32, message: &str) -> Reply {
    let body = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    let mut reply = reply::text(status, "application/json", body.to_string());
    reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn error(message: Value) -> (Value, i64) {
        error_of(&message.to_string()).await
    }

    async fn error_of(message: &str) -> (Value, i64) {
        let reply = Message::read(message.as_bytes()).err().unwrap_or_else(|| panic!("{message}"));
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        (body["id"].clone(), body["error"]["code"].as_i64().unwrap())
    }

    #[tokio::test]
    async fn each_mistake_has_its_own_error() {
        for id in [json!({}), json!(null), json!(1.5), json!(true), json!([1]), json!(u64::MAX)] {
            let message = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
            assert_eq!(error(message).await, (Value::Null, -32600), "{id}");
        }
        assert_eq!(error(json!({"jsonrpc": "2.0", "id": 1})).await, (json!(1), -32600));
        assert_eq!(error(json!({"jsonrpc": "2.0", "id": "a", "method": 1})).await, (json!("a"), -32600));
        for params in [
            json!([]),
            json!("text"),
            json!({}),
            json!({"name": 1}),
            json!({"name": "x", "arguments": "{}"}),
            json!({"name": "x", "arguments": []}),
        ] {
            let message = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
            assert_eq!(error(message).await, (json!(2), -32602), "{params}");
        }
        for meta in [json!(7), json!("x"), json!([])] {
            let message = json!({"jsonrpc": "2.0", "id": 2, "method": "ping", "params": {"_meta": meta}});
            assert_eq!(error(message).await, (json!(2), -32602), "{meta}");
        }
        assert_eq!(error(json!({"jsonrpc": "2.0", "id": 4, "method": ""})).await, (json!(4), -32600));
        let message = json!({"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {"capabilities": 1}});
        assert_eq!(error(message).await, (json!(3), -32602));
    }

    #[test]
    fn what_is_a_message_is_taken() {
        for message in [
            json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": "x", "result": {}}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": null}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "arguments": null}}),
        ] {
            assert!(Message::read(message.to_string().as_bytes()).is_ok(), "{message}");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_answered_with_its_id() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        for value in ["1e400", "\"\\ud800\"", &deep] {
            let message = format!(r#"{{"jsonrpc":"2.0","method":"ping","params":{{"a":{value}}},"id":"x"}}"#);
            assert_eq!(error_of(&message).await, (json!("x"), -32602), "{message}");
        }
        assert_eq!(error_of(r#"{"id":1,"id":2,"a":1e400}"#).await, (Value::Null, -32602));
        assert_eq!(error_of(r#"{"id":1,"a":"#).await, (Value::Null, -32700));
    }

    #[test]
    fn a_message_is_of_the_revision_that_it_names() {
        let is_modern = |meta: Value| {
            let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
            Message::read(message.to_string().as_bytes()).ok().unwrap().is_modern
        };
        for (revision, modern) in
            [(json!("2026-07-28"), true), (json!("2999-01-01"), true), (json!(7), true), (json!("2025-11-25"), false)]
        {
            assert_eq!(is_modern(json!({REVISION_KEY: revision})), modern, "{revision}");
        }
        assert!(!is_modern(json!({})));
    }
}
