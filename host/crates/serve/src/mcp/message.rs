//! What must be known of a message before the protocol library reads it, which answers what it does not understand in
//! words of its own; here each mistake gets the JSON-RPC error that is its own.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use rmcp::model::InitializeRequestParams;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::http::reply::{self, Reply};
use cardinal_base::{exact, input};

/// Where a message of the newest revision says which revision it is of.
const REVISION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
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
                    "Invalid params: a number is beyond the range of a double, or values are nested too deeply",
                ),
            };
            Box::new(rpc_error(StatusCode::BAD_REQUEST, &Value::Null, code, text))
        })?;
        let mut message = Self { id: readable_id(&value), ..Self::default() };
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
            Some(Value::String(method)) => self.method.clone_from(method),
            Some(_) => return invalid("the method is not a string"),
            None if value.get("result").is_some() || value.get("error").is_some() => {}
            None => return invalid("there is no method"),
        }
        self.check_params(value.get("params"))
    }

    fn check_params(&mut self, params: Option<&Value>) -> Result<(), (i32, String)> {
        let invalid = |text: String| Err((INVALID_PARAMS, format!("Invalid params: {text}")));
        let params = match params {
            None => &Value::Null,
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
        self.is_modern = params["_meta"].as_object().is_some_and(|meta| meta.contains_key(REVISION_KEY));
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

/// The id if it is one, else null.
fn readable_id(value: &Value) -> Value {
    match value.get("id") {
        Some(id) if id.is_string() || id.is_i64() => id.clone(),
        _ => Value::Null,
    }
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
        let reply = Message::read(message.to_string().as_bytes()).err().unwrap_or_else(|| panic!("{message}"));
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
        let message = json!({"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {"capabilities": 1}});
        assert_eq!(error(message).await, (json!(3), -32602));
    }

    #[test]
    fn what_is_a_message_is_taken() {
        for message in [
            json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": "x", "result": {}}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "arguments": null}}),
        ] {
            assert!(Message::read(message.to_string().as_bytes()).is_ok(), "{message}");
        }
    }
}
