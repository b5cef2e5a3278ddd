//! A sign of life on the streams of calls that take long: proxies close a connection on which nothing comes for a
//! minute, and clients give up on a call that they hear nothing of.

use std::{convert::Infallible, pin::Pin, task::Poll, time::Duration};

use bytes::Bytes;
use futures_util::{poll, stream};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
};
use tokio::time::{Instant, sleep, sleep_until};

use super::transport::{Response, is_stream, text};
use crate::http::{
    body::Body,
    reply::{self, Reply},
};
use cardinal_plugin_host::progress::{Progress, ProgressReceiver};

/// How often there is one.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);
/// A comment of the event stream: clients ignore it.
const COMMENT: &[u8] = b": still running\n\n";
/// Begins a stream: after how many milliseconds to open it again when it breaks.
const OPENING: &[u8] = b"retry: 3000\n\n";
const EMPTY_COMMENT: &[u8] = b":\n\n";

/// Between two reports of one call.
const REPORT_PAUSE: Duration = Duration::from_millis(100);
/// What a report that brings nothing new counts up by: the protocol wants each number above the one before.
const NUDGE: f64 = 1e-6;

/// A client that has asked for the progress of its call.
pub(super) struct Reporter {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    begun: Instant,
    last_sent: Option<f64>,
    /// What the plugin has said last.
    latest: Option<Progress>,
}

impl Reporter {
    pub(super) fn new(peer: Peer<RoleServer>, token: ProgressToken) -> Self {
        Self { peer, token, begun: Instant::now(), last_sent: None, latest: None }
    }

    /// Passes a report on.
    async fn report(&mut self, progress: Progress) {
        let done = self.last_sent.map_or(progress.done, |last| progress.done.max(above(last)));
        self.latest = Some(progress);
        self.send(done).await;
    }

    /// Says that the call goes on.
    async fn beat(&mut self) {
        self.send(self.last_sent.map_or(NUDGE, above)).await;
    }

    async fn send(&mut self, done: f64) {
        let still = || format!("Still running after {} s.", self.begun.elapsed().as_secs());
        let text = self.latest.as_ref().and_then(|latest| latest.text.clone()).unwrap_or_else(still);
        let mut progress = ProgressNotificationParam::new(self.token.clone(), done).with_message(text);
        progress.total = self.latest.as_ref().and_then(|latest| latest.total);
        self.last_sent = Some(done);
        // A client that has gone away cancels the call by itself.
        let _ = self.peer.notify_progress(progress).await;
    }
}

fn above(number: f64) -> f64 {
    (number + NUDGE).max(number.next_up())
}

/// Waits for `work`. Meanwhile a client that has asked for progress hears what the plugin says of it, and at each beat
/// that the call goes on.
pub(super) async fn while_running<T>(
    client: Option<Reporter>,
    mut reports: ProgressReceiver,
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    let Some(mut client) = client else { return work.await };
    let mut quiet_until = Instant::now();
    let mut beat_at = quiet_until + HEARTBEAT;
    loop {
        tokio::select! {
            biased;
            done = work.as_mut() => {
                if let Some(last) = unseen(&mut reports) {
                    client.report(last).await;
                }
                return done;
            }
            progress = next_report(&mut reports, quiet_until) => client.report(progress).await,
            () = sleep_until(beat_at) => client.beat().await,
        }
        let now = Instant::now();
        (quiet_until, beat_at) = (now + REPORT_PAUSE, now + HEARTBEAT);
    }
}

/// The plugin's next report, not before `quiet_until`. Of those that come in the meantime the last.
async fn next_report(reports: &mut ProgressReceiver, quiet_until: Instant) -> Progress {
    sleep_until(quiet_until).await;
    while reports.changed().await.is_ok() {
        let latest = reports.borrow_and_update().clone();
        if let Some(progress) = latest {
            return progress;
        }
    }
    // The plugin has ended; its client waits for the rest of the call.
    std::future::pending().await
}

/// The plugin's last report, when its client has not heard it. The plugin may have ended since.
fn unseen(reports: &mut ProgressReceiver) -> Option<Progress> {
    let latest = reports.borrow_and_update();
    if latest.has_changed() { latest.clone() } else { None }
}

/// An answer that came at once, or a stream that it will come on.
pub(super) enum TimedAnswer<T> {
    AtOnce(T),
    OnStream(Reply),
}

/// The answer; when it takes longer than a heartbeat, a stream of events that holds it later and a comment at each
/// beat.
pub(super) async fn answer<T: Into<Response> + 'static>(mut work: Work<T>) -> TimedAnswer<T> {
    // Most tools answer before anything has to wait, and so need no timer.
    if let Poll::Ready(answer) = poll!(work.as_mut()) {
        return TimedAnswer::AtOnce(answer);
    }
    match tokio::time::timeout(HEARTBEAT, work.as_mut()).await {
        Ok(answer) => TimedAnswer::AtOnce(answer),
        Err(_) => TimedAnswer::OnStream(events(Box::pin(async { work.await.into() }))),
    }
}

/// A stream on which nothing comes but a sign of life.
pub(super) fn beats() -> BoxBody<Bytes, Infallible> {
    let frames = stream::unfold(false, async |is_open| {
        if is_open {
            sleep(HEARTBEAT).await;
        }
        let bytes = Bytes::from_static(if is_open { EMPTY_COMMENT } else { OPENING });
        Some((Ok(Frame::data(bytes)), true))
    });
    StreamBody::new(frames).boxed()
}

/// What comes to an answer; on the heap, since it may go on in the answer's stream.
type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

enum Stage {
    /// A comment is due.
    Due(Work<Response>),
    Waiting(Work<Response>),
    /// The answer is a stream itself.
    Passing(BoxBody<Bytes, Infallible>),
    Over,
}

fn events(work: Work<Response>) -> Reply {
    let frames = stream::unfold(Stage::Due(work), async |stage| {
        let (frame, next) = stage.next().await?;
        Some((Ok::<_, Infallible>(frame), next))
    });
    reply::events(Body::stream(StreamBody::new(frames)))
}

impl Stage {
    async fn next(self) -> Option<(Frame<Bytes>, Self)> {
        let comment = || Frame::data(Bytes::from_static(COMMENT));
        match self {
            Self::Due(work) => Some((comment(), Self::Waiting(work))),
            Self::Waiting(mut work) => match tokio::time::timeout(HEARTBEAT, work.as_mut()).await {
                Err(_) => Some((comment(), Self::Waiting(work))),
                Ok(response) if is_stream(&response) => pass_on(response.into_body()).await,
                Ok(response) => Some((Frame::data(event(text(response).await.as_bytes())), Self::Over)),
            },
            Self::Passing(body) => pass_on(body).await,
            Self::Over => None,
        }
    }
}

async fn pass_on(mut body: BoxBody<Bytes, Infallible>) -> Option<(Frame<Bytes>, Stage)> {
    match body.frame().await? {
        Ok(frame) => Some((frame, Stage::Passing(body))),
        Err(never) => match never {},
    }
}

/// A message as an event.
pub(super) fn event(message: &[u8]) -> Bytes {
    let mut event = b"event: message\n".to_vec();
    for line in message.split(|&byte| byte == b'\n') {
        event.extend([b"data: ", line, b"\n"].concat());
    }
    event.push(b'\n');
    event.into()
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, header};
    use http_body_util::Full;

    use super::*;
    use crate::mcp::transport::EVENTS;

    async fn after(wait: Duration, kind: &'static str, body: &'static str) -> Response {
        sleep(wait).await;
        let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())).boxed());
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }

    async fn read(reply: Reply) -> String {
        let bytes = reply.into_body().collect().await.unwrap_or_else(|error| panic!("{error}")).to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_quick_stays_as_it_is() {
        let TimedAnswer::AtOnce(response) = answer(Box::pin(after(HEARTBEAT / 2, "application/json", "{}"))).await
        else {
            panic!()
        };
        assert_eq!(text(response).await, "{}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_long_becomes_a_stream_with_a_sign_of_life_at_each_beat() {
        for (kind, body) in [("application/json", "{\"id\":1}"), (EVENTS, "event: message\ndata: {\"id\":1}\n\n")] {
            let work = after(HEARTBEAT * 3 + HEARTBEAT / 2, kind, body);
            let TimedAnswer::OnStream(reply) = answer(Box::pin(work)).await else { panic!("{kind}") };
            assert_eq!(reply.headers()[header::CONTENT_TYPE], EVENTS);
            let read = read(reply).await;
            let beats = read.matches(": still running\n\n").count();
            assert_eq!(beats, 3, "{read}");
            assert!(read.ends_with("event: message\ndata: {\"id\":1}\n\n"), "{read}");
        }
    }
}
