//! Plugins' tools: as they are declared to clients, and calling one.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::{Visit, exact_content};
use crate::http::error::ApiError;
use cardinal_base::exact;
use cardinal_plugin_host::{
    arguments,
    call::{CallParts, Deadline, ReplyBody},
    error::CallError,
    registry::ToolEntry,
};

/// Bytes of a result; models can't use more.
const RESULT_LIMIT: usize = 1 << 20;
/// What says when to try again, in a result's `_meta`.
const RETRY: &str = "cardinal/retry";
/// A JSON list of content as MCP writes it: texts, pictures, sounds, resources and links to them.
const CONTENT_LIST: &str = "application/vnd.cardinal.content+json";

/// The declaration that clients see.
pub(super) fn declare(entry: &ToolEntry) -> Tool {
    let declared = &entry.tool;
    let schema =
        declared.input_schema.clone().unwrap_or_else(|| Map::from_iter([("type".to_owned(), json!("object"))]));
    let mut tool =
        Tool::new_with_raw(declared.name.clone(), Some(declared.description.clone().into()), Arc::new(schema));
    tool.title = declared.title.clone();
    if let Some(schema) = &declared.output_schema {
        tool = tool.with_raw_output_schema(Arc::new(schema.clone()));
    }
    tool.with_annotations(annotations(entry))
}

/// What the manifest says, but a tool that asks for confirmation never passes for harmless.
fn annotations(entry: &ToolEntry) -> ToolAnnotations {
    let declared = entry.tool.annotations.clone().unwrap_or_default();
    let mut annotations: ToolAnnotations = serde_json::from_value(Value::Object(declared)).unwrap_or_default();
    if entry.tool.requires_confirmation {
        annotations.destructive_hint = Some(true);
        annotations.read_only_hint = Some(false);
    }
    annotations.open_world_hint.get_or_insert(false);
    annotations
}

/// What is wrong with the arguments.
pub(super) fn complaints(entry: &ToolEntry, arguments: &JsonObject) -> Option<String> {
    arguments::complaints(entry.validator.as_ref()?, arguments)
}

/// Calls the tool. Every failure of the plugin is a result that the model can read.
pub(super) async fn run(entry: &ToolEntry, visit: &Visit, arguments: JsonObject) -> CallToolResult {
    let body = visit.exact_arguments.clone().unwrap_or_else(|| Value::Object(arguments).to_string().into());
    let deadline = Deadline::after(entry.timeout);
    match entry.call(parts(entry, visit, body, deadline)).await {
        Err(error) => {
            tracing::warn!(tool = entry.tool.name, request_id = %visit.request_id, error = ?error, "a tool call failed");
            match error {
                CallError::Timeout(_) => failure(timed_out(entry)),
                other => failed(&other.into(), entry.tool.output_schema.is_some()),
            }
        }
        Ok(reply) => {
            let (status, headers) = (reply.status, reply.headers);
            match collect(entry, reply.body, deadline, RESULT_LIMIT).await {
                Ok(bytes) => result(entry, visit, status.as_u16(), &headers, &bytes),
                Err(detail) => failure(detail),
            }
        }
    }
}

/// What a call of the tool gets: its arguments, and who calls.
fn parts<'c>(entry: &'c ToolEntry, visit: &Visit, arguments: Bytes, deadline: Deadline) -> CallParts<'c> {
    CallParts {
        trace: Some(visit.trace),
        peer: Some(visit.peer),
        tool: Some(&entry.tool.name),
        progress: visit.progress.clone(),
        ..CallParts::from_arguments(arguments, Arc::clone(&visit.caller), visit.request_id, deadline)
    }
}

/// What the tool's preview answers to these arguments, or why it does not.
pub(super) async fn preview(
    entry: &ToolEntry,
    visit: &Visit,
    arguments: Bytes,
    timeout: Duration,
    limit: usize,
) -> Result<Bytes, String> {
    let Some(handler) = entry.preview else { return Err("the tool has no preview.".to_owned()) };
    let deadline = Deadline::after(timeout);
    let reply = entry.plugin.call(handler, parts(entry, visit, arguments, deadline)).await;
    let reply = reply.map_err(|error| match error {
        CallError::Timeout(_) => format!("plugin-timeout: the preview took longer than {} s.", timeout.as_secs_f64()),
        other => plain(&other.into()),
    })?;
    let status = reply.status;
    let bytes = collect(entry, reply.body, deadline, limit).await?;
    match status.is_success() {
        true => Ok(bytes),
        false => Err(format!("plugin-error: the preview answered with the status {}.", status.as_u16())),
    }
}

/// The whole of a result. A client waits for all of it, so the call's deadline holds for a streamed one, too.
async fn collect(entry: &ToolEntry, body: ReplyBody, deadline: Deadline, limit: usize) -> Result<Bytes, String> {
    let too_large = || format!("plugin-error: the result is over {limit} bytes.");
    match body {
        ReplyBody::Full(bytes) if bytes.len() > limit => Err(too_large()),
        ReplyBody::Full(bytes) => Ok(bytes),
        ReplyBody::Stream(stream) => {
            let whole = http_body_util::Limited::new(stream, limit).collect();
            match tokio::time::timeout_at(deadline.at().into(), whole).await {
                Err(_) => Err(timed_out(entry)),
                Ok(Ok(whole)) => Ok(whole.to_bytes()),
                Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
                Ok(Err(_)) => Err("plugin-error: the result broke off.".to_owned()),
            }
        }
    }
}

fn timed_out(entry: &ToolEntry) -> String {
    let seconds = entry.timeout.as_secs_f64();
    format!(
        "plugin-timeout: the plugin `{}` did not finish within the {seconds} s that this tool may take. The call was cancelled; what it changed before may have been kept.",
        entry.plugin.manifest.name
    )
}

fn result(entry: &ToolEntry, visit: &Visit, status: u16, headers: &HeaderMap, bytes: &[u8]) -> CallToolResult {
    let text = || String::from_utf8_lossy(bytes).into_owned();
    if status >= 400 {
        return failure(text());
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_json = kind.starts_with("application/json");
    if entry.tool.output_schema.is_none()
        && !is_json
        && let Some(content) = content(kind, bytes, visit.takes_links)
    {
        return content.map_or_else(failure, CallToolResult::success);
    }
    let text = text();
    match serde_json::from_slice::<Value>(bytes) {
        // Clients take only an object for structured content.
        Ok(Value::Object(value)) if is_json => match unpromised(entry, &value) {
            Some(faults) => failure(faults),
            None => structured(Value::Object(value), text),
        },
        _ if entry.tool.output_schema.is_some() => {
            tracing::warn!(
                tool = entry.tool.name,
                "a tool's result is no JSON object, which its output schema promises"
            );
            failure("plugin-error: the tool declares an output schema and answered something else than a JSON object.")
        }
        _ => CallToolResult::success(vec![ContentBlock::text(text)]),
    }
}

/// What a result of this media type holds for a client that shows more than text; none when it is text or an object.
fn content(kind: &str, bytes: &[u8], takes_links: bool) -> Option<Result<Vec<ContentBlock>, String>> {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if kind.starts_with("image/") {
        return Some(Ok(vec![ContentBlock::image(BASE64.encode(bytes), kind)]));
    }
    if kind.starts_with("audio/") {
        return Some(Ok(vec![ContentBlock::audio(BASE64.encode(bytes), kind)]));
    }
    (kind == CONTENT_LIST).then(|| {
        let mut content: Vec<ContentBlock> = serde_json::from_slice(bytes)
            .map_err(|error| format!("plugin-error: the result is no list of MCP content: {error}."))?;
        content.retain(|block| takes_links || !matches!(block, ContentBlock::ResourceLink(_)));
        Ok(content)
    })
}

/// What of a result is not as the tool's output schema promises it. Clients fail at such a result; a model can read
/// this.
fn unpromised(entry: &ToolEntry, result: &JsonObject) -> Option<String> {
    let lines = arguments::faults(entry.output_validator.as_ref()?, result)?;
    tracing::warn!(tool = entry.tool.name, faults = lines, "a tool's result does not fit its output schema");
    Some(format!("plugin-error: the result does not fit the tool's output schema.\n{lines}"))
}

/// An object, and its text. Both have every digit of the text.
pub(super) fn structured(value: Value, text: String) -> CallToolResult {
    let exact = exact::first_inexact(&text).and_then(|_| exact_content::stand_in(&text));
    // The library's own way writes the value once more, to make a text of it.
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(exact.unwrap_or(value));
    result
}

/// A result that says what went wrong.
pub(super) fn failure(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text.into())])
}

/// A failure in the words of its problem document, and in how many seconds to try again where that helps.
pub(super) fn failed(error: &ApiError, has_output_schema: bool) -> CallToolResult {
    let Some(seconds) = error.retry_after_seconds() else { return failure(plain(error)) };
    let mut result = failure(format!("{}\nTry again in {seconds} s.", plain(error)));
    let retry = json!({"code": error.code(), "retry_after_seconds": seconds});
    // Clients hold it against the tool's output schema, where it has one.
    if !has_output_schema {
        result.structured_content = Some(retry.clone());
    }
    let mut meta = MetaObject::new();
    meta.0.insert(RETRY.to_owned(), retry);
    result.meta = Some(meta);
    result
}

/// A failure in the words that its problem document would have.
pub(super) fn plain(error: &ApiError) -> String {
    let fields = error.fields().iter().map(|(pointer, detail)| format!("\n{pointer}: {detail}"));
    let usual = if error.fields().is_empty() { "The call failed." } else { "The arguments are not valid." };
    format!("{}: {}{}", error.code(), error.client_detail().unwrap_or(usual), fields.collect::<String>())
}
