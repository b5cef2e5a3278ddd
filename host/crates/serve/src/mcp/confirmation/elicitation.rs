//! A question as a client puts it before its user: `elicitation/create`, in both eras of the protocol.

use std::{convert::Infallible, fmt::Write as _};

use bytes::Bytes;
use futures_util::{Stream, stream};
use http_body::Frame;
use http_body_util::{BodyExt, combinators::BoxBody};
use rmcp::model::{
    BooleanSchema, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest, InputRequests, InputRequiredResult, PrimitiveSchemaDefinition,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::question::ToolCall;
use cardinal_base::printable::is_unseen;

/// The one member of the form, and the name of the one question of a call.
pub(super) const NAME: &str = "confirm";
/// Before a question's id in the id of its JSON-RPC request; the protocol library numbers its own.
const ID_PREFIX: &str = "confirmation-";
/// Bytes of a question. A longer one goes to the Admin API: what a client cuts off, its user would not see.
const MESSAGE_LIMIT: usize = 8 * 1024;
/// Questions of one call on their way to its client.
const FRAMES: usize = 1;

/// What the user reads; `None` when it is too long to be read whole.
pub(super) fn message(call: &ToolCall<'_>, difference: Option<&Value>) -> Option<String> {
    let name = call
        .tool
        .title
        .map_or_else(|| format!("`{}`", call.tool.name), |title| format!("{} (`{}`)", visible(title), call.tool.name));
    let mut text = format!("Run {name}");
    if let Some(plugin) = &call.plugin {
        let _ = write!(text, " of the plugin {} {}", plugin.name, plugin.version); // into a String: cannot fail
    }
    let _ = write!(text, "?\n\nArguments: {}", visible(&call.arguments));
    if let Some(problem) = difference.and_then(|difference| difference["problem"].as_str()) {
        let _ = write!(text, "\n\nThe plugin could not say what it would change: {}", visible(problem));
    } else if let Some(difference) = difference {
        let _ = write!(text, "\n\nWhat it would change: {}", visible(&difference.to_string()));
    }
    (text.len() <= MESSAGE_LIMIT).then_some(text)
}

/// The text in which what nobody sees, or what turns the writing direction, stands as JSON escapes it.
fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        if !is_unseen(c) {
            visible.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(visible, "\\u{unit:04x}"); // into a String: cannot fail
        }
    }
    visible
}

/// The request, as an event of the stream that the call's answer comes on.
pub(super) fn request(id: Uuid, message: &str) -> Bytes {
    let schema = json!({"type": "object", "properties": {NAME: {"type": "boolean", "title": TITLE, "default": true}}});
    let request = json!({
        "jsonrpc": "2.0", "id": format!("{ID_PREFIX}{id}"), "method": "elicitation/create",
        "params": {"message": message, "requestedSchema": schema},
    });
    format!("event: message\ndata: {request}\n\n").into()
}

const TITLE: &str = "Run it";

/// The question that a JSON-RPC id belongs to.
pub(super) fn question_id(id: &str) -> Option<Uuid> {
    Uuid::try_parse(id.strip_prefix(ID_PREFIX)?).ok()
}

/// The question of the newest revision, as the answer to the call.
pub(super) fn input_required(message: String, state: String) -> InputRequiredResult {
    let confirm = PrimitiveSchemaDefinition::Boolean(BooleanSchema::new().title(TITLE).with_default(true));
    let requested_schema = ElicitationSchema::new([(NAME.to_owned(), confirm)].into());
    let params = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
    let requests = InputRequests::from([(NAME.to_owned(), InputRequest::Elicitation(ElicitRequest::new(params)))]);
    InputRequiredResult::new(Some(requests), Some(state))
}

/// Whether the user wants the call to run: accepted, with the box ticked, as it is when the client shows none.
pub(super) fn accepts(answer: &ElicitResult) -> bool {
    let ticked = answer.content.as_ref().and_then(|content| content.get(NAME));
    answer.action == ElicitationAction::Accept && ticked.is_none_or(|ticked| *ticked == Value::Bool(true))
}

/// Where a call's questions go in, and come out for [`frames_between`].
pub(crate) fn frames() -> (mpsc::Sender<Bytes>, mpsc::Receiver<Bytes>) {
    mpsc::channel(FRAMES)
}

/// The answer to a call, with our questions between its events; each of its frames is a whole event.
pub(crate) fn frames_between(
    body: BoxBody<Bytes, Infallible>,
    questions: mpsc::Receiver<Bytes>,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + 'static {
    stream::unfold((body, questions), async |(mut body, mut questions)| {
        let frame = tokio::select! {
            biased;
            Some(question) = questions.recv() => Ok(Frame::data(question)),
            frame = body.frame() => frame?,
        };
        Some((frame, (body, questions)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_question_hides_or_turns() {
        assert_eq!(visible("{\"a\":\"x\u{202e}y\u{200b}\u{7f}é 漢😀\"}"), "{\"a\":\"x\\u202ey\\u200b\\u007fé 漢😀\"}");
        assert_eq!(visible("\u{a0}\u{ad}\u{3164}\u{2800}\u{fe0f}"), "\\u00a0\\u00ad\\u3164\\u2800\\ufe0f");
        assert_eq!(visible("a\u{e0041}\n"), "a\\udb40\\udc41\\u000a", "a letter among tags, which no one sees");
    }

    #[test]
    fn a_request_is_one_event_that_names_its_question() {
        let id = Uuid::from_u128(7);
        let event = request(id, "a\nb");
        let text = std::str::from_utf8(&event).unwrap();
        let data = text.strip_prefix("event: message\ndata: ").unwrap().strip_suffix("\n\n").unwrap();
        assert!(!data.contains('\n'));
        let request: Value = serde_json::from_str(data).unwrap();
        assert_eq!(question_id(request["id"].as_str().unwrap()), Some(id));
        assert_eq!(request["params"]["message"], "a\nb");
    }
}
