//! Every tool of the plugin is in the list that MCP clients get.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use http::{HeaderValue, Method, Request, header};
use serde_json::{Value, json};

use super::{Outcome, requests::Subject, some};
use crate::cli::client::full;

/// Of the list; a host with one plugin has two.
const MAX_PAGES: usize = 50;

pub(super) async fn check(subject: &Subject) -> anyhow::Result<Outcome> {
    let tools = subject.item["tools"].as_array().into_iter().flatten();
    let own: Vec<String> = tools.filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect();
    if own.is_empty() {
        return Ok(Outcome::Skipped("the plugin has no tools".to_owned()));
    }
    let listed = listed(subject).await?;
    let missing: Vec<String> = own.iter().filter(|name| !listed.contains(*name)).cloned().collect();
    Ok(match missing.is_empty() {
        true => Outcome::Good(format!("{} of {} are listed", own.len(), own.len())),
        false => Outcome::Bad(format!("not listed:\n{}", some(&missing))),
    })
}

async fn listed(subject: &Subject) -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let mut cursor = Value::Null;
    for _ in 0..MAX_PAGES {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let answer =
            call(subject, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params})).await?;
        let tools = answer["result"]["tools"].as_array().with_context(|| format!("the list of tools is {answer}"))?;
        names.extend(tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)));
        cursor = answer["result"]["nextCursor"].clone();
        if cursor.is_null() {
            return Ok(names);
        }
    }
    bail!("the list of tools has more than {MAX_PAGES} pages")
}

async fn call(subject: &Subject, message: &Value) -> anyhow::Result<Value> {
    let mut request = Request::new(full(message.to_string()));
    *request.method_mut() = Method::POST;
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    let answer = subject.client.send("/api", request).await?;
    Ok(subject.client.whole(answer).await?)
}
