//! What of a message stands in headers, too, as the newest revision wants it.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

const REVISION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// Tools whose annotations are remembered.
const TOOLS_LIMIT: usize = 10_000;

/// The arguments of tools that are sent as headers, by what the host has listed.
#[derive(Default)]
pub(super) struct HeaderArguments(HashMap<String, Vec<(Vec<String>, HeaderName)>>);

impl HeaderArguments {
    /// Learns from an answer of `tools/list`.
    pub(super) fn learn(&mut self, message: &Value) {
        for tool in message["result"]["tools"].as_array().into_iter().flatten() {
            let Some(name) = tool["name"].as_str() else { continue };
            let mut found = Vec::new();
            collect(&tool["inputSchema"], &mut Vec::new(), &mut found);
            if found.is_empty() {
                self.0.remove(name);
            } else if self.0.len() < TOOLS_LIMIT {
                self.0.insert(name.to_owned(), found);
            }
        }
    }
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, HeaderName)>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        if let Some(header) = property["x-mcp-header"].as_str()
            && let Ok(header) = HeaderName::try_from(format!("mcp-param-{header}"))
        {
            found.push((path.clone(), header));
        }
        collect(property, path, found);
        path.pop();
    }
}

/// The revision that a message of a revision without sessions names.
pub(super) fn revision(message: &Value) -> Option<&str> {
    message["params"]["_meta"][REVISION_KEY].as_str()
}

/// The headers of a message of a revision without sessions.
pub(super) fn headers(message: &Value, arguments: &HeaderArguments) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut insert = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::try_from(encoded(value)) {
            headers.insert(name, value);
        }
    };
    let (method, params) = (message["method"].as_str().unwrap_or_default(), &message["params"]);
    insert(HeaderName::from_static("mcp-protocol-version"), revision(message).unwrap_or_default());
    insert(HeaderName::from_static("mcp-method"), method);
    let name = match method {
        "tools/call" | "prompts/get" => params["name"].as_str(),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => params["uri"].as_str(),
        _ => None,
    };
    if let Some(name) = name {
        insert(HeaderName::from_static("mcp-name"), name);
    }
    let of_tool = name.filter(|_| method == "tools/call").and_then(|name| arguments.0.get(name));
    for (path, header) in of_tool.into_iter().flatten() {
        let argument = path.iter().fold(&params["arguments"], |value, name| &value[name.as_str()]);
        match argument {
            Value::String(text) => insert(header.clone(), text),
            Value::Bool(_) | Value::Number(_) => insert(header.clone(), &argument.to_string()),
            _ => {}
        }
    }
    headers
}

/// The text, wrapped when a header would not bring it as it is.
fn encoded(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && text.trim() == text;
    if is_plain && !(text.starts_with("=?base64?") && text.ends_with("?=")) {
        return text.to_owned();
    }
    format!("=?base64?{}?=", BASE64.encode(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_newest_revision_wants_in_headers_is_there() {
        let mut arguments = HeaderArguments::default();
        let schema = json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "at": {"properties": {"n": {"type": "integer", "x-mcp-header": "Nth"}}},
            "plain": {"type": "string"},
        }});
        arguments.learn(&json!({"result": {"tools": [{"name": "t", "inputSchema": schema}]}}));
        let call = json!({"method": "tools/call", "params": {
            "name": "t", "arguments": {"region": "Köln", "at": {"n": 7}, "plain": "x"}, "_meta": {REVISION_KEY: "2026-07-28"},
        }});
        let headers = headers(&call, &arguments);
        let get = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        assert_eq!(get("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!((get("mcp-method"), get("mcp-name")), (Some("tools/call"), Some("t")));
        assert_eq!((get("mcp-param-region"), get("mcp-param-nth")), (Some("=?base64?S8O2bG4=?="), Some("7")));
        assert_eq!(headers.len(), 5);
        assert_eq!(encoded(" a"), "=?base64?IGE=?=");
    }
}
