//! What is read live, as server-sent events: one reader's stream, what it gets, and the ways in which it ends.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{HeaderMap, HeaderName};
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::App,
    call::{CallHead, Credential, RECHECK_RIGHTS},
    http::{
        body::Body,
        reply::{self, Reply},
    },
};
use cardinal_base::codes;
use cardinal_identity::auth::caller::Caller;
use cardinal_observe::recent::Portion;
use cardinal_store::events::stream_slots::StreamSlot;

/// When a client should try again after its connection broke.
const RETRY_MS: u32 = 2_000;
/// Proxies close what is silent for longer, and a client that is gone is found out by it.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// After a failure of the database.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What is read: numbered, the newest of it at hand.
pub(super) trait Feed: Send + Sync + 'static {
    /// What comes after `place`, of what is at hand.
    fn portion(&self, place: i64) -> Portion;

    /// The same, where it takes longer to find.
    fn older(&self, place: i64) -> impl Future<Output = ApiResult<Portion>> + Send;

    /// Where a reader goes on for whom what comes next is not kept any more.
    fn restart_position(&self) -> impl Future<Output = ApiResult<i64>> + Send;

    /// Whether the caller may read all of it, and nothing more has been opened to it.
    fn is_open_to(&self, caller: &Caller) -> bool;
}

/// Where a reader begins.
pub(super) struct Beginning {
    /// All up to this number has been read, or is not asked for.
    pub place: i64,
    /// What came before it may have been missed.
    pub is_reset: bool,
    /// The client gets the place at once, so that it can come back before its first event.
    pub sends_id: bool,
    /// A comment that says what this is.
    pub hello: String,
}

/// Who reads, what, and how far.
pub(super) struct Reading<F> {
    app: Arc<App>,
    credential: Credential,
    feed: F,
    /// All up to this number was looked at.
    place: i64,
    /// The last number that the client was told.
    sent_id: i64,
    head: watch::Receiver<i64>,
    rights: watch::Receiver<()>,
    /// Nobody can say whether it may still read: it gets nothing until the database is back.
    is_unverified: bool,
    /// It has caught up with what is new; from then on falling behind is being too slow.
    live: bool,
    next_look: Instant,
    next_beat: Instant,
    /// What is sent before anything else.
    greeting: Option<Bytes>,
    ended: bool,
    _slot: StreamSlot,
}

/// Why a stream ends, as its last event tells the client.
enum End {
    Draining,
    TooSlow,
    RightsChanged,
    /// The credential is refused now; its code is the one of a request's refusal.
    Refused(String),
}

impl<F: Feed> Reading<F> {
    /// `head` changes with the number of the newest.
    pub(super) fn begin(
        app: &Arc<App>,
        call: &CallHead,
        feed: F,
        head: watch::Receiver<i64>,
        slot: StreamSlot,
        begin: &Beginning,
    ) -> Self {
        let now = Instant::now();
        Self {
            app: Arc::clone(app),
            credential: Credential::from_call(call),
            feed,
            place: begin.place,
            sent_id: begin.place,
            head,
            rights: app.auth.rights_changes(),
            is_unverified: false,
            live: false,
            next_look: now + RECHECK_RIGHTS,
            next_beat: now + HEARTBEAT,
            greeting: Some(begin.greeting()),
            ended: false,
            _slot: slot,
        }
    }

    /// The reply that streams it.
    pub(super) fn reply(self) -> Reply {
        reply::events(Body::stream(StreamBody::new(self.frames())))
    }

    /// The body. Nothing is made ahead: what the client doesn't take isn't there.
    fn frames(self) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + 'static {
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
                return Some(end.final_event());
            }
            self.head.mark_unchanged();
            let now = Instant::now();
            if self.is_unverified {
                if now >= self.next_beat {
                    self.next_beat = now + HEARTBEAT;
                    return Some(self.heartbeat());
                }
                sleep_until(self.next_look).await;
                continue;
            }
            match self.advance().await {
                Ok(Some(text)) if !text.is_empty() => {
                    self.next_beat = now + HEARTBEAT;
                    return Some(text);
                }
                Ok(Some(_)) => continue, // passed over what it does not want
                Ok(None) if self.ended => return Some(End::TooSlow.final_event()),
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(?error, "a live reader waits for the database");
                    self.wait(now + RETRY_INTERVAL).await;
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
            _ = self.rights.changed() => self.next_look = Instant::now(),
            () = sleep_until(at.min(self.next_look)) => {}
        }
    }

    /// What comes next, perhaps nothing that is wanted; `None` when there is nothing new, or nothing more.
    async fn advance(&mut self) -> ApiResult<Option<Bytes>> {
        let mut portion = self.feed.portion(self.place);
        if portion == Portion::Gone {
            if self.live {
                self.ended = true;
                return Ok(None);
            }
            portion = self.feed.older(self.place).await?;
        }
        match portion {
            Portion::Some(text, place) => {
                self.place = place;
                if !text.is_empty() {
                    self.sent_id = place;
                }
                Ok(Some(text))
            }
            Portion::Nothing => {
                self.live = true;
                Ok(None)
            }
            Portion::Gone => {
                // What it wanted was forgotten while it was reading up to it.
                self.place = self.feed.restart_position().await?;
                self.sent_id = self.place;
                Ok(Some(reset(self.place).into()))
            }
        }
    }

    async fn reason_to_end(&mut self) -> Option<End> {
        if self.app.events.is_stopped() {
            return Some(End::Draining);
        }
        let now = Instant::now();
        if self.rights.has_changed().is_ok_and(|changed| !changed) && now < self.next_look {
            return None;
        }
        self.rights.mark_unchanged();
        self.next_look = now + RECHECK_RIGHTS;
        let identified = self.credential.identify(&self.app.auth).await;
        self.is_unverified = false;
        match identified {
            Ok(caller) => (!self.feed.is_open_to(&caller)).then_some(End::RightsChanged),
            Err(error) if error.status().is_client_error() => Some(End::Refused(error.code().to_owned())),
            Err(_) => {
                self.is_unverified = true;
                self.next_look = now + RETRY_INTERVAL;
                None
            }
        }
    }

    /// A comment, and where the client is: what was passed over need not be looked through again when it comes back.
    fn heartbeat(&mut self) -> Bytes {
        if self.place == self.sent_id {
            return Bytes::from_static(b": \n\n");
        }
        self.sent_id = self.place;
        format!(": \nid: {}\n\n", self.place).into()
    }
}

impl Beginning {
    /// Sent at once, so that proxies let the stream through.
    fn greeting(&self) -> Bytes {
        let hello = format!(": {}\nretry: {RETRY_MS}\n", self.hello);
        match self {
            Self { is_reset: true, place, .. } => format!("{hello}\n{}", reset(*place)),
            Self { sends_id: true, place, .. } => format!("{hello}id: {place}\n\n"),
            _ => format!("{hello}\n"),
        }
        .into()
    }
}

fn reset(place: i64) -> String {
    let data = json!({
        "reason": "not-kept",
        "detail": "Events since the last one that you read are no longer kept. Reload what you show.",
    });
    format!("id: {place}\nevent: reset\ndata: {data}\n\n")
}

impl End {
    /// Without an `id`: the client goes on where it was.
    fn final_event(&self) -> Bytes {
        let (reason, detail) = match self {
            Self::Draining => ("draining", "The server is shutting down. Reconnect."),
            Self::TooSlow => ("slow", "You read too slowly. Reconnect to continue."),
            Self::RightsChanged => {
                ("rights-changed", "Your rights have changed. Reconnect to continue with what you may read now.")
            }
            Self::Refused(code) => (code.as_str(), "The credential is no longer accepted."),
        };
        let data = json!({"reason": reason, "detail": detail});
        format!("event: closed\ndata: {data}\n\n").into()
    }
}

/// `Last-Event-ID`; an empty one is none, as browsers have it.
pub(super) fn last_read(headers: &HeaderMap) -> ApiResult<Option<i64>> {
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
    use http::HeaderValue;

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
