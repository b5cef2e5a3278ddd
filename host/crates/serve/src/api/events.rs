//! `/v1/admin/events`: server-sent events. A reader who comes back says what it read last and misses nothing.

use std::sync::Arc;

use http::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::live::{self, Beginning, Feed, Reading};
use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    call::{Call, Query},
    http::{
        body::Body,
        reply::{self, Reply},
    },
};
use cardinal_base::codes;
use cardinal_identity::auth::caller::Caller;
use cardinal_observe::recent::Portion;
use cardinal_store::{
    event_log::event::{Topic, Topics},
    events::{Begin, Events},
};

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get("/v1/admin/events", read).authenticated().describe(|op| {
        op.named("readEvents", "events", "Changes, as server-sent events")
            .notes(
                "`Last-Event-ID` resumes after that event. Nothing is sent of a topic that the caller may not read; a \
                 comment at the beginning names those that are.",
            )
            .param("topics", "Topics, comma-separated; by default all.", json!({"examples": ["card,job"]}))
            .header("Last-Event-ID", "The `id` of the last event that was read.")
            .replies_as(200, "An endless stream of events.", "text/event-stream", json!({}));
    })]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadQuery {
    topics: Option<String>,
}

async fn read(app: &Arc<App>, call: Call<Query<ReadQuery>>) -> ApiResult<Reply> {
    let query = call.query()?;
    let caller = call.caller()?;
    let wanted = query.topics.as_deref().map_or_else(|| Ok(Topics::all()), named)?;
    let topics = wanted.among(open_to(caller));
    let last_read = live::last_read(&call.headers)?;
    // Whoever asks what there would be takes no reader's slot.
    if call.method == Method::HEAD {
        return Ok(reply::events(Body::empty()));
    }
    let (slot, begin) = app.events.admit(caller.user_id, last_read).await?;
    let chosen = TopicFeed { events: Arc::clone(&app.events), wanted, topics };
    let names = topics.names().collect::<Vec<_>>().join(", ");
    let names = if names.is_empty() { "none that you may read" } else { &names };
    let (Begin::Now(place) | Begin::After(place) | Begin::Reset(place)) = begin;
    let (is_reset, sends_id) = (matches!(begin, Begin::Reset(_)), matches!(begin, Begin::Now(_)));
    let begin = Beginning { place, is_reset, sends_id, hello: format!("topics: {names}") };
    Ok(Reading::begin(app, &call, chosen, app.events.head(), slot, &begin).reply())
}

/// The events of some topics.
struct TopicFeed {
    events: Arc<Events>,
    wanted: Topics,
    /// Those of them that the caller may read.
    topics: Topics,
}

impl Feed for TopicFeed {
    fn portion(&self, place: i64) -> Portion {
        self.events.portion(place, self.topics)
    }

    async fn older(&self, place: i64) -> ApiResult<Portion> {
        Ok(self.events.older(place, self.topics).await?)
    }

    async fn restart_position(&self) -> ApiResult<i64> {
        Ok(self.events.restart_position().await?)
    }

    fn is_open_to(&self, caller: &Caller) -> bool {
        self.topics == self.wanted.among(open_to(caller))
    }
}

/// The topics of a list; 400 for one that there isn't.
fn named(names: &str) -> ApiResult<Topics> {
    names.split(',').try_fold(Topics::default(), |topics, name| {
        let topic = Topic::named(name).ok_or_else(|| {
            let known = Topic::ALL.map(Topic::name).join(", ");
            ApiError::new(&codes::INVALID_REQUEST).detail(format!("`topics` is a list of these: {known}."))
        })?;
        Ok(topics.with(topic))
    })
}

/// The topics that a caller may read.
fn open_to(caller: &Caller) -> Topics {
    let open = Topic::ALL.into_iter().filter(|topic| caller.holds(topic.scope()));
    open.fold(Topics::default(), Topics::with)
}
