//! `/v1/admin/events`: server-sent events. A reader who comes back says what it read last and misses nothing.

mod stream;

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use http_body_util::StreamBody;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::stream::Reading;
use crate::{
    app::App,
    auth::caller::{Caller, insufficient},
    events::{Topic, event::Topics},
    http::{
        body::Body,
        codes,
        error::{ApiError, ApiResult},
        reply::Reply,
    },
    request::Call,
    route,
    router::{Access, Reads, Route},
};

pub fn routes() -> Vec<Route> {
    vec![route!(GET "/v1/admin/events", Access::Authenticated, Reads::Nothing, read).told(|op| {
        op.named("readEvents", "events", "What happens, as server-sent events")
            .says("`Last-Event-ID` goes on behind that event. Of each topic only for whoever holds its scope.")
            .query::<ReadQuery>()
            .param(
                "topics",
                "Of these, by commas; all that the caller may read when nothing is said.",
                json!({"examples": ["card,job"]}),
            )
            .header("Last-Event-ID", "The `id` of the last event that was read.")
            .replies_as(200, "Events without an end.", "text/event-stream", json!({"type": "string"}));
    })]
}

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadQuery {
    topics: Option<String>,
}

async fn read(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let query: ReadQuery = call.query()?;
    let caller = call.caller()?;
    let topics = match &query.topics {
        Some(names) => chosen(names, caller)?,
        None => Topics::open_to(caller),
    };
    let last_read = last_read(&call.headers)?;
    // Whoever asks what there would be takes no reader's seat.
    let body = if call.method == Method::HEAD {
        Body::empty()
    } else {
        let (seat, begin) = app.events.admit(caller.user_id, last_read).await?;
        let reading = Reading::begin(app, &call, seat, topics, query.topics.is_some(), begin);
        Body::stream(StreamBody::new(reading.frames()))
    };
    let mut reply = Reply::new(body);
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // nginx would keep events back until there are some kilobytes of them.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(reply)
}

/// The topics of a list; 400 for one that there isn't, 403 for one that the caller may not read.
fn chosen(names: &str, caller: &Caller) -> ApiResult<Topics> {
    let mut topics = Topics::default();
    for name in names.split(',') {
        let topic = Topic::named(name).ok_or_else(|| {
            let known = Topic::ALL.map(Topic::name).join(", ");
            ApiError::new(&codes::INVALID_REQUEST).detail(format!("`topics` is a list of these: {known}."))
        })?;
        if !caller.holds(topic.scope()) {
            return Err(insufficient(topic.scope()).with("topic", topic.name()));
        }
        topics = topics.with(topic);
    }
    Ok(topics)
}

/// `Last-Event-ID`; an empty one is none, as browsers have it.
fn last_read(headers: &HeaderMap) -> ApiResult<Option<i64>> {
    let refused = || ApiError::new(&codes::INVALID_REQUEST).detail("`Last-Event-ID` is the `id` of an event.");
    let mut values = headers.get_all(LAST_EVENT_ID).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return if headers.contains_key(LAST_EVENT_ID) { Err(refused()) } else { Ok(None) };
    };
    let text = value.to_str().map_err(|_| refused())?;
    if text.is_empty() {
        return Ok(None);
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number).map(Some).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_id_is_a_number_or_nothing() {
        let read = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(LAST_EVENT_ID, HeaderValue::from_static(value));
            }
            last_read(&headers)
        };
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&[""]).unwrap(), None);
        assert_eq!(read(&["17"]).unwrap(), Some(17));
        for bad in [&["x"][..], &["-1"], &["+1"], &["1.5"], &["99999999999999999999"], &["1", "2"], &[" "]] {
            assert_eq!(read(bad).unwrap_err().code(), "invalid-request", "{bad:?}");
        }
    }
}
