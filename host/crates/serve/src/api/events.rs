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
use cardinal_identity::auth::caller::{Caller, insufficient};
use cardinal_observe::recent::Portion;
use cardinal_store::{
    event_log::event::{Topic, Topics},
    events::{Begin, Events},
};

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get("/v1/admin/events", read).authenticated().describe(|op| {
        op.named("readEvents", "events", "Changes, as server-sent events")
            .notes("`Last-Event-ID` resumes after that event. Each topic needs its own scope.")
            .param(
                "topics",
                "Topics, comma-separated; by default all that the caller may read.",
                json!({"examples": ["card,job"]}),
            )
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
    let topics = match &query.topics {
        Some(names) => chosen(names, caller)?,
        None => open_to(caller),
    };
    let last_read = live::last_read(&call.headers)?;
    // Whoever asks what there would be takes no reader's slot.
    if call.method == Method::HEAD {
        return Ok(reply::events(Body::empty()));
    }
    let (slot, begin) = app.events.admit(caller.user_id, last_read).await?;
    let chosen = TopicFeed { events: Arc::clone(&app.events), topics, named: query.topics.is_some() };
    let names = topics.names().collect::<Vec<_>>().join(", ");
    let (Begin::Now(place) | Begin::After(place) | Begin::Reset(place)) = begin;
    let (is_reset, sends_id) = (matches!(begin, Begin::Reset(_)), matches!(begin, Begin::Now(_)));
    let begin = Beginning { place, is_reset, sends_id, hello: format!("topics: {names}") };
    Ok(Reading::begin(app, &call, chosen, app.events.head(), slot, &begin).reply())
}

/// The events of some topics.
struct TopicFeed {
    events: Arc<Events>,
    topics: Topics,
    /// The client named its topics; else they are all that it may read.
    named: bool,
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
        let open = open_to(caller);
        if self.named { self.topics.all_in(open) } else { self.topics == open }
    }
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
            return Err(ApiError::from(insufficient(topic.scope())).with("topic", topic.name()));
        }
        topics = topics.with(topic);
    }
    Ok(topics)
}

/// The topics that a caller may read.
fn open_to(caller: &Caller) -> Topics {
    let open = Topic::ALL.into_iter().filter(|topic| caller.holds(topic.scope()));
    open.fold(Topics::default(), Topics::with)
}
