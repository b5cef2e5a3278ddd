//! One reader's stream: what it gets, and the ways in which it ends.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{HeaderMap, header};
use http_body::Frame;
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    app::App,
    events::{Begin, event::Topics, recent::Portion, seats::Seat},
    http::error::ApiResult,
    request::Call,
};

/// When a client should try again after its connection broke.
const RETRY_MS: u32 = 2_000;
/// Proxies close what is silent for longer, and a client that is gone is found out by it.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often a reader's rights are looked at again. What is known of its credential is up to two seconds old then, so
/// that within five seconds nobody reads who may no more.
const LOOK_AT_RIGHTS: Duration = Duration::from_secs(2);
/// After a failure of the database.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// Who reads, what, and how far.
pub struct Reading {
    app: Arc<App>,
    /// The credential, and no more.
    headers: HeaderMap,
    peer: std::net::IpAddr,
    topics: Topics,
    /// The client named its topics; else they are all that it may read.
    named: bool,
    /// All up to this number was looked at.
    place: i64,
    /// The last number that the client was told.
    told: i64,
    head: watch::Receiver<i64>,
    /// It has caught up with what is new; from then on falling behind is being too slow.
    live: bool,
    next_look: Instant,
    next_beat: Instant,
    /// What is sent before anything else.
    greeting: Option<Bytes>,
    ended: bool,
    _seat: Seat,
}

/// Why a stream ends, as its last event tells the client.
enum End {
    Draining,
    TooSlow,
    RightsChanged,
    /// The credential is refused now; its code is the one of a request's refusal.
    Refused(String),
}

impl Reading {
    pub fn begin(app: &Arc<App>, call: &Call, seat: Seat, topics: Topics, named: bool, begin: Begin) -> Self {
        let credential = call.headers.get_all(header::AUTHORIZATION).iter();
        let (Begin::Now(place) | Begin::After(place) | Begin::Anew(place)) = begin;
        let now = Instant::now();
        Self {
            app: Arc::clone(app),
            headers: credential.map(|value| (header::AUTHORIZATION, value.clone())).collect(),
            peer: call.peer,
            topics,
            named,
            place,
            told: place,
            head: app.events.head(),
            live: false,
            next_look: now + LOOK_AT_RIGHTS,
            next_beat: now + HEARTBEAT,
            greeting: Some(greeting(topics, begin)),
            ended: false,
            _seat: seat,
        }
    }

    /// The body. Nothing is made ahead: what the client doesn't take isn't there.
    pub fn frames(self) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + 'static {
        stream::unfold(self, async |mut reading| {
            let bytes = reading.next().await?;
            Some((Ok(Frame::data(bytes)), reading))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        loop {
            if let Some(end) = self.reason_to_end().await {
                self.ended = true;
                return Some(end.farewell());
            }
            self.head.mark_unchanged();
            let now = Instant::now();
            match self.advance().await {
                Ok(Some(text)) if !text.is_empty() => {
                    self.next_beat = now + HEARTBEAT;
                    return Some(text);
                }
                Ok(Some(_)) => continue, // passed over what is of other topics
                Ok(None) if self.ended => return Some(End::TooSlow.farewell()),
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(?error, "a reader of events waits for the database");
                    self.wait(now + TRY_AGAIN).await;
                    continue;
                }
            }
            if now >= self.next_beat {
                self.next_beat = now + HEARTBEAT;
                return Some(self.heartbeat());
            }
            self.wait(self.next_beat).await;
        }
    }

    /// Waits for news, or until `at` or the next look at the rights.
    async fn wait(&mut self, at: Instant) {
        let app = Arc::clone(&self.app);
        tokio::select! {
            _ = self.head.changed() => {}
            () = app.events.stopped() => {}
            () = sleep_until(at.min(self.next_look)) => {}
        }
    }

    /// The next events, perhaps none of its topics; `None` when there is nothing new, or nothing more.
    async fn advance(&mut self) -> ApiResult<Option<Bytes>> {
        let mut portion = self.app.events.portion(self.place, self.topics);
        if portion == Portion::Gone {
            if self.live {
                self.ended = true;
                return Ok(None);
            }
            portion = self.app.events.older(self.place, self.topics).await?;
        }
        match portion {
            Portion::Some(text, place) => {
                self.place = place;
                if !text.is_empty() {
                    self.told = place;
                }
                Ok(Some(text))
            }
            Portion::Nothing => {
                self.live = true;
                Ok(None)
            }
            Portion::Gone => {
                // What it wanted was forgotten while it was reading up to it.
                self.place = self.app.events.anew().await?;
                self.told = self.place;
                Ok(Some(reset(self.place).into()))
            }
        }
    }

    async fn reason_to_end(&mut self) -> Option<End> {
        if self.app.events.is_stopped() {
            return Some(End::Draining);
        }
        let now = Instant::now();
        if now < self.next_look {
            return None;
        }
        self.next_look = now + LOOK_AT_RIGHTS;
        match self.app.auth.identify_again(&self.headers, self.peer).await {
            Ok(caller) => {
                let open = Topics::open_to(&caller);
                let still = if self.named { self.topics.all_in(open) } else { self.topics == open };
                (!still).then_some(End::RightsChanged)
            }
            Err(error) if error.status().is_client_error() => Some(End::Refused(error.code().to_owned())),
            // Nobody can say; without the database there are no events either.
            Err(_) => None,
        }
    }

    /// A comment, and where the client is: events of other topics need not be looked through again when it comes back.
    fn heartbeat(&mut self) -> Bytes {
        if self.place == self.told {
            return Bytes::from_static(b": \n\n");
        }
        self.told = self.place;
        format!(": \nid: {}\n\n", self.place).into()
    }
}

/// Sent at once, so that proxies let the stream through and a client can come back before its first event.
fn greeting(topics: Topics, begin: Begin) -> Bytes {
    let names = topics.names().collect::<Vec<_>>().join(", ");
    let hello = format!(": topics: {names}\nretry: {RETRY_MS}\n");
    match begin {
        Begin::Now(place) => format!("{hello}id: {place}\n\n"),
        Begin::After(_) => format!("{hello}\n"),
        Begin::Anew(place) => format!("{hello}\n{}", reset(place)),
    }
    .into()
}

fn reset(place: i64) -> String {
    let data = json!({
        "reason": "not-kept",
        "detail": "Events since the last one that you read are not kept any more. Fetch anew what you show.",
    });
    format!("id: {place}\nevent: reset\ndata: {data}\n\n")
}

impl End {
    /// Without an `id`: the client goes on where it was.
    fn farewell(&self) -> Bytes {
        let (reason, detail) = match self {
            Self::Draining => ("draining", "The server is shutting down. Connect again."),
            Self::TooSlow => ("slow", "You read more slowly than events come. Connect again to get the rest."),
            Self::RightsChanged => {
                ("rights-changed", "Your rights have changed. Connect again with what you may read.")
            }
            Self::Refused(code) => (code.as_str(), "The credential is not accepted any more."),
        };
        let data = json!({"reason": reason, "detail": detail});
        format!("event: closed\ndata: {data}\n\n").into()
    }
}
