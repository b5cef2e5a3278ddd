//! Streams of plugins and of MCP end when their caller's rights do: the request was let in, but goes on for hours.

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, header};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, StreamBody};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    call::{Credential, RECHECK_RIGHTS},
    http::{
        body::{Body, BoxError},
        reply::{Reply, WatchesItself},
    },
};
use cardinal_identity::auth::{Auth, caller::SharedCaller};

/// While the database is away, and the stream waits.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

struct Stream {
    auth: Arc<Auth>,
    caller: SharedCaller,
    credential: Credential,
    body: Body,
    changes: watch::Receiver<()>,
    next_look: Instant,
    /// An event stream may end anywhere; of anything else the client must see that it is not whole.
    ends_anywhere: bool,
    is_over: bool,
}

/// Binds the reply to the rights with which it was asked for, where it is a stream without a known end.
pub(super) fn bind(
    auth: &Arc<Auth>,
    caller: &SharedCaller,
    credential: HeaderValue,
    peer: IpAddr,
    reply: Reply,
) -> Reply {
    let watches_itself = reply.extensions().get::<WatchesItself>().is_some();
    if watches_itself || !matches!(reply.body(), Body::Stream(_)) || reply.body().size_hint().exact().is_some() {
        return reply;
    }
    let media_type = reply.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let ends_anywhere = media_type.starts_with(b"text/event-stream");
    reply.map(|body| {
        let stream = Stream {
            auth: Arc::clone(auth),
            caller: Arc::clone(caller),
            credential: Credential::from_header(credential, peer),
            body,
            changes: auth.rights_changes(),
            next_look: Instant::now(), // a change since the request was let in
            ends_anywhere,
            is_over: false,
        };
        Body::stream(StreamBody::new(stream::unfold(stream, Stream::next)))
    })
}

impl Stream {
    async fn next(mut self) -> Option<(Result<Frame<Bytes>, BoxError>, Self)> {
        if self.is_over {
            return None;
        }
        loop {
            tokio::select! {
                biased;
                _ = self.changes.changed() => {}
                () = sleep_until(self.next_look) => {}
                frame = self.body.frame() => return frame.map(|frame| (frame, self)),
            }
            if !self.may_go_on().await {
                if self.ends_anywhere {
                    return None;
                }
                self.is_over = true;
                return Some((Err("the caller's rights have changed".into()), self));
            }
        }
    }

    /// Waits while nobody can say: what a host that is cut off from the database does not know to be allowed is not
    /// sent.
    async fn may_go_on(&mut self) -> bool {
        loop {
            self.changes.mark_unchanged();
            self.next_look = Instant::now() + RECHECK_RIGHTS;
            match self.credential.identify(&self.auth).await {
                Ok(caller) => return caller.scopes.as_text() == self.caller.scopes.as_text(),
                Err(error) if error.status().is_client_error() => return false,
                Err(_) => sleep(RETRY_INTERVAL).await,
            }
        }
    }
}
