//! Batches: several messages in one POST, which revision 2025-03-26 has and no other. Each is answered as if it had
//! come by itself, and counts against the caller's limit as such.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use futures_util::{StreamExt, future, stream};
use http::{HeaderValue, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use serde_json::value::RawValue;

use super::{
    Mcp,
    heartbeat::event,
    message::Message,
    narrowing::Narrowing,
    plugin_tools,
    transport::{JSON, is_stream, session_id},
};
use crate::{
    call::CallHead,
    http::{
        body::{Body, BoxError},
        error::{ApiError, ApiResult},
        reply::{self, Reply},
    },
};

/// Messages of one batch.
const MAX_MESSAGES: usize = 50;
const REVISION: &str = "2025-03-26";
const REVISION_HEADER: &str = "mcp-protocol-version";

/// The messages of a body that is an array, as they were sent; none for every other body.
pub(super) fn messages(body: &Bytes) -> Option<Vec<Bytes>> {
    if body.trim_ascii_start().first() != Some(&b'[') {
        return None;
    }
    let messages = serde_json::from_slice::<Vec<&RawValue>>(body).ok()?;
    Some(messages.into_iter().map(|message| body.slice_ref(message.get().as_bytes())).collect())
}

impl Mcp {
    pub(super) async fn answer_batch(
        self: &Arc<Self>,
        call: &CallHead,
        messages: Vec<Bytes>,
        narrowing: &Result<Narrowing, String>,
    ) -> ApiResult<Reply> {
        let session = match session_id(&call.headers) {
            Some(id) => match self.sessions.find(id, call.caller()?) {
                Some(session) => Some(session),
                None => return Ok(Message::default().session_not_found()),
            },
            None => None,
        };
        let revision = match &session {
            Some(session) => session.revision(),
            // A client that says nothing is of this revision, says the protocol.
            None => {
                call.headers.get(REVISION_HEADER).map_or(REVISION, |revision| revision.to_str().unwrap_or_default())
            }
        };
        if let Some(wrong) = complaint(revision, messages.len()) {
            return Ok(Message::default().invalid(StatusCode::BAD_REQUEST, &wrong));
        }
        let answers = messages.into_iter().enumerate().map(async |(number, message)| {
            // The request itself has been counted as the first.
            let charged = if number == 0 { Ok(()) } else { self.charge_message(call) };
            self.answer_of_batch(call, message, narrowing.clone(), charged).await
        });
        gather(future::join_all(answers).await).await
    }

    fn charge_message(&self, call: &CallHead) -> ApiResult<()> {
        let allowances = &call.caller()?.allowances;
        Ok(self.server.services.limits.charge(allowances, Instant::now(), &mut None)?)
    }

    /// An error that would refuse the whole request answers its message alone.
    async fn answer_of_batch(
        self: &Arc<Self>,
        call: &CallHead,
        bytes: Bytes,
        narrowing: Result<Narrowing, String>,
        charged: ApiResult<()>,
    ) -> Reply {
        let message = match Message::read(&bytes) {
            Ok(message) => message,
            Err(refusal) => return *refusal,
        };
        if message.method == "initialize" {
            return message.invalid(StatusCode::BAD_REQUEST, "`initialize` comes by itself, not in a batch");
        }
        let answer = match charged {
            Ok(()) => self.answer_message(&mut call.without_body(), bytes, narrowing).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(reply) => reply,
            Err(error) if message.wants_answer() => message.failed(error.status(), &plugin_tools::plain(&error)),
            Err(_) => reply::status(StatusCode::ACCEPTED),
        }
    }
}

fn complaint(revision: &str, messages: usize) -> Option<String> {
    match messages {
        _ if revision != REVISION => Some(format!("only revision {REVISION} has batches. Send each message by itself")),
        0 => Some("the batch is empty".to_owned()),
        1..=MAX_MESSAGES => None,
        _ => Some(format!("a batch has at most {MAX_MESSAGES} messages")),
    }
}

/// One reply to all: an array in JSON, or a stream of events where one of them is a stream. Notifications have none.
async fn gather(replies: Vec<Reply>) -> ApiResult<Reply> {
    let mut answers = Vec::new();
    let mut streams = Vec::new();
    for reply in replies {
        if is_stream(&reply) {
            streams.push(BodyStream::new(reply.into_body()));
            continue;
        }
        let read = reply.into_body().collect().await;
        let body = read.map_err(|error| ApiError::internal(anyhow::Error::from_boxed(error)))?.to_bytes();
        if !body.is_empty() {
            answers.push(body);
        }
    }
    if !streams.is_empty() {
        let first = stream::iter(answers.into_iter().map(|answer| Ok::<_, BoxError>(Frame::data(event(&answer)))));
        // Each frame is a whole event, so those of several streams may come between one another.
        return Ok(reply::events(Body::stream(StreamBody::new(first.chain(stream::select_all(streams))))));
    }
    if answers.is_empty() {
        return Ok(reply::status(StatusCode::ACCEPTED));
    }
    let mut reply = Reply::new(Body::full([&b"["[..], &answers.join(&b","[..]), b"]"].concat()));
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_as_they_were_sent() {
        let read = |body: &'static str| {
            let messages = messages(&Bytes::from_static(body.as_bytes()));
            messages.map(|all| all.iter().map(|one| String::from_utf8_lossy(one).into_owned()).collect::<Vec<_>>())
        };
        assert_eq!(read(" [{\"id\": 1e400}, 5]"), Some(vec!["{\"id\": 1e400}".to_owned(), "5".to_owned()]));
        assert_eq!(read("[]"), Some(vec![]));
        for other in ["{}", "[1", "", " ", "[1] 2"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn only_one_revision_has_batches_and_they_are_bounded() {
        assert_eq!(complaint(REVISION, 1), None);
        assert_eq!(complaint(REVISION, MAX_MESSAGES), None);
        for (revision, messages) in [(REVISION, 0), (REVISION, MAX_MESSAGES + 1), ("2025-06-18", 1), ("", 1)] {
            assert!(complaint(revision, messages).is_some(), "{revision} {messages}");
        }
    }

    #[tokio::test]
    async fn answers_are_an_array_or_events() {
        let body = async |replies: Vec<Reply>| {
            let reply = gather(replies).await.unwrap();
            let status = reply.status().as_u16();
            (status, String::from_utf8(reply.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
        };
        let json = |text: &'static str| reply::text(StatusCode::BAD_REQUEST, JSON, text);
        let none = || reply::status(StatusCode::ACCEPTED);
        assert_eq!(body(vec![json("1"), none(), json("2")]).await, (200, "[1,2]".to_owned()));
        assert_eq!(body(vec![none(), none()]).await, (202, String::new()));
        let events = reply::events(Body::full("data: 2\n\n"));
        let expected = "event: message\ndata: 1\n\ndata: 2\n\n".to_owned();
        assert_eq!(body(vec![events, json("1")]).await, (200, expected));
    }
}
