//! Every tool of the plugin is in the list that MCP clients get. Those that only read are called, with arguments made
//! from their schema. Those that must be confirmed are asked for with a key that cannot run them unattended, and have
//! to ask.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use http::{HeaderValue, Method, Request, header};
use serde_json::{Value, json};

use super::{Outcome, arguments, requests::Subject, some};
use crate::cli::client::{Client, full};
use cardinal_base::request_id;

/// Of the list; a host with one plugin has two.
const MAX_PAGES: usize = 50;
/// What the text of a result begins with when the plugin broke, and not when it refused its made-up arguments.
const FAULTS: [&str; 5] =
    ["internal-error:", "plugin-panicked:", "plugin-error:", "plugin-timeout:", "plugin-unavailable:"];
/// The text of a result begins so when a person is asked first.
const CONFIRMATION_PREFIX: &str = "confirmation_required";
/// JSON-RPC's code for arguments that do not fit.
const INVALID_PARAMS: i64 = -32602;

/// `narrow` has a key of somebody whom confirmed tools ask.
pub(super) async fn check(subject: &Subject, narrow: &Client) -> anyhow::Result<Outcome> {
    let own: Vec<&Value> = subject.item["tools"].as_array().into_iter().flatten().collect();
    if own.is_empty() {
        return Ok(Outcome::Skipped("the plugin has no tools".to_owned()));
    }
    let listed = listed(&subject.client).await?;
    let (mut bad, mut answered, mut awaiting, mut not_callable) = (Vec::new(), 0, 0, Vec::new());
    for tool in &own {
        let name = tool["name"].as_str().unwrap_or_default();
        let Some(listed) = listed.get(name) else {
            bad.push(format!("{name} is not listed"));
            continue;
        };
        let is_confirmed = tool["requires_confirmation"] == true;
        let is_read = tool["scope"].as_str().is_some_and(|scope| scope.ends_with(":read"));
        if !is_confirmed && !is_read {
            continue;
        }
        let arguments = arguments::for_schema(&listed["inputSchema"], &subject.card);
        let answer = call_tool(if is_confirmed { narrow } else { &subject.client }, name, &arguments).await?;
        match answer.outcome {
            CallOutcome::Unfit(reason) => {
                not_callable.push(format!("{name} is not called: {arguments} does not fit it ({reason})"))
            }
            CallOutcome::NeedsConfirmation if is_confirmed => awaiting += 1,
            CallOutcome::Answers if !is_confirmed => answered += 1,
            CallOutcome::Answers => bad.push(format!("{name} ran without being confirmed")),
            CallOutcome::NeedsConfirmation => {
                bad.push(format!("{name} asks to be confirmed, and its manifest does not say so"))
            }
            CallOutcome::Broke(text) => {
                let reason = subject.find_reason(&answer.request_id).await;
                bad.push(format!("{name} with {arguments}: {}", reason.unwrap_or(text)));
            }
        }
    }
    if !bad.is_empty() {
        return Ok(Outcome::Bad(some(&bad)));
    }
    let mut text = format!("{} listed, {answered} called and answered, {awaiting} asked to be confirmed", own.len());
    if !not_callable.is_empty() {
        text.push('\n');
        text.push_str(&some(&not_callable));
    }
    Ok(Outcome::Good(text))
}

/// What came of a tool's call, and what the log calls it.
pub(super) struct CallAnswer {
    pub outcome: CallOutcome,
    pub request_id: String,
}

pub(super) enum CallOutcome {
    Answers,
    NeedsConfirmation,
    Broke(String),
    /// The made-up arguments were refused before the tool ran.
    Unfit(String),
}

fn verdict(answer: &Value) -> CallOutcome {
    if let Some(error) = answer.get("error") {
        let message = error["message"].as_str().unwrap_or_default().to_owned();
        return if error["code"] == INVALID_PARAMS { CallOutcome::Unfit(message) } else { CallOutcome::Broke(message) };
    }
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    match answer["result"]["isError"] == true {
        true if text.starts_with(CONFIRMATION_PREFIX) => CallOutcome::NeedsConfirmation,
        true if FAULTS.iter().any(|code| text.starts_with(code)) => CallOutcome::Broke(text.to_owned()),
        // What it was asked about does not exist: it says so, and that is an answer.
        _ => CallOutcome::Answers,
    }
}

/// The tools that a client sees, by name.
pub(super) async fn listed(client: &Client) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    let mut cursor = Value::Null;
    for _ in 0..MAX_PAGES {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params});
        let (answer, _) = send(client, &list).await?;
        let tools = answer["result"]["tools"].as_array().with_context(|| format!("the list of tools is {answer}"))?;
        found.extend(tools.iter().filter_map(|tool| Some((tool["name"].as_str()?.to_owned(), tool.clone()))));
        cursor = answer["result"]["nextCursor"].clone();
        if cursor.is_null() {
            return Ok(found);
        }
    }
    bail!("the list of tools has more than {MAX_PAGES} pages")
}

pub(super) async fn call_tool(client: &Client, name: &str, arguments: &Value) -> anyhow::Result<CallAnswer> {
    let params = json!({"name": name, "arguments": arguments});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let (answer, request_id) = send(client, &call).await?;
    Ok(CallAnswer { outcome: verdict(&answer), request_id })
}

/// The answer, and the id of the request.
async fn send(client: &Client, message: &Value) -> anyhow::Result<(Value, String)> {
    let mut request = Request::new(full(message.to_string()));
    *request.method_mut() = Method::POST;
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    let answer = client.send("/api", request).await?;
    let request_id =
        answer.headers().get(request_id::HEADER).and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    Ok((client.whole(answer).await?, request_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_an_answer_and_a_fault_is_none() {
        let result = |text: &str, is_error: bool| {
            verdict(&json!({"result": {"content": [{"type": "text", "text": text}], "isError": is_error}}))
        };
        assert!(matches!(result("{}", false), CallOutcome::Answers));
        assert!(matches!(result("not-found: There is no such card.", true), CallOutcome::Answers));
        assert!(matches!(result("confirmation_required: ...", true), CallOutcome::NeedsConfirmation));
        assert!(matches!(result("plugin-panicked: ...", true), CallOutcome::Broke(_)));
        assert!(matches!(verdict(&json!({"error": {"code": -32602, "message": "x"}})), CallOutcome::Unfit(_)));
        assert!(matches!(verdict(&json!({"error": {"code": -32603, "message": "x"}})), CallOutcome::Broke(_)));
    }
}
