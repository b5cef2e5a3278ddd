//! The extension `HTTP_CLIENT`: a plugin's requests to other servers, over connections of the host's.
//!
//! All of it runs on the host's runtime and ends with the call or the instance that asked for it, or at its deadline,
//! whoever still holds the answer.

mod body;
mod counters;
mod request;

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use cardinal_plugin_abi::{
    Bytes, CallId, CtxId, Fut, Reply, Slice, Stream, extension::HttpClient, pairs, record, record::http_answer,
};
use http::header::CONTENT_LENGTH;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use self::{
    body::{BodySource, pump},
    counters::ExchangeCount,
    request::HttpRequest,
};
use super::door::{begin, call_of};
use crate::fault::Fault;
use cardinal_base::http_client::{self, Answer, ExchangeError, PoolingClient, Reach};

pub use counters::{Counters, Outcome};

/// What the extension's number leads to.
pub(super) static EXTENSION: HttpClient = HttpClient { send };

/// Exchanges of one instance that are under way at once, bodies that it has not read to their end among them.
const MAX_AT_ONCE: usize = 32;
/// Requests of one instance that wait for a place; who waits spends the request's own time.
const MAX_WAITING: usize = 256;

/// What one instance has of the HTTP client.
pub struct HttpExchanges {
    client: PoolingClient,
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    pub counters: Counters,
}

impl HttpExchanges {
    pub fn new(client: http_client::HttpClient, reach: Reach) -> Self {
        Self {
            client: PoolingClient::new(client, reach),
            places: Arc::new(Semaphore::new(MAX_AT_ONCE)),
            waiting: AtomicUsize::new(0),
            counters: Counters::default(),
        }
    }

    /// Exchanges that are under way.
    pub fn in_flight(&self) -> usize {
        MAX_AT_ONCE.saturating_sub(self.places.available_permits())
    }

    async fn place(&self) -> Result<OwnedSemaphorePermit, Fault> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        let _waiting = Waiting::join(&self.waiting)?;
        Arc::clone(&self.places).acquire_owned().await.map_err(|error| Fault::Internal(error.into()))
    }
}

/// One of those that wait for a place.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn join(waiting: &'a AtomicUsize) -> Result<Self, Fault> {
        let more = |count: usize| (count < MAX_WAITING).then_some(count + 1);
        match waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Self(waiting)),
            Err(_) => Err(Fault::Busy("The plugin has too many requests to other servers under way.".to_owned())),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

extern "C" fn send(ctx: CtxId, call: CallId, request: Slice<'_>) -> Fut<Reply> {
    begin(ctx, |scope| {
        let call = call_of(ctx, call)?;
        let trace = call.as_ref().and_then(|call| call.trace);
        let request = HttpRequest::read(request.get(), scope.context.user_agent(), trace)?;
        let end = End {
            at: Instant::now() + request.timeout,
            timeout: request.timeout,
            stopping: scope.stopping.clone(),
            call: call.map(|call| call.cancellation()),
        };
        let exchanges = Arc::clone(&scope.http);
        Ok(async move {
            let count = ExchangeCount::new(Arc::clone(&exchanges));
            let max_bytes = request.max_bytes;
            match exchange(&exchanges, request, &end).await {
                Ok((answer, place)) => Ok(reply(ctx, answer, OpenExchange { end, count, place, max_bytes })),
                Err(fault) => Err(count.failed(fault)),
            }
        })
    })
}

/// What an exchange has until the body of its answer is read.
struct OpenExchange {
    end: End,
    count: ExchangeCount,
    place: OwnedSemaphorePermit,
    max_bytes: u64,
}

/// From the request to the head of its answer.
async fn exchange(
    exchanges: &HttpExchanges,
    request: HttpRequest,
    end: &End,
) -> Result<(Answer, OwnedSemaphorePermit), Fault> {
    let HttpRequest { url, request, max_bytes, .. } = request;
    let work = async {
        let place = exchanges.place().await?;
        let answer = exchanges.client.send(&url, request).await.map_err(Fault::Http)?;
        Ok((answer, place))
    };
    let (answer, place) = end.cut_short(work).await?;
    exchanges.counters.count_connection(answer.is_reused);
    let announced =
        answer.head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if !answer.body.is_empty() && announced.is_some_and(|length| length > max_bytes) {
        return Err(Fault::Http(ExchangeError::TooLarge(max_bytes)));
    }
    Ok((answer, place))
}

fn reply(ctx: CtxId, answer: Answer, exchange: OpenExchange) -> Reply {
    let Answer { head, address, body, .. } = answer;
    let headers: Vec<_> =
        head.headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())).collect();
    let address = address.to_string();
    let stream = if body.is_empty() {
        exchange.count.done(Outcome::Answered);
        Stream::NONE
    } else {
        let (source, feed) = BodySource::new(ctx);
        tokio::spawn(pump(body, feed, exchange));
        Stream::new(source)
    };
    Reply {
        status: head.status.as_u16(),
        headers: Bytes::from_vec(pairs::write(headers)),
        body: Bytes::EMPTY,
        stream,
        extra: Bytes::from_vec(record::write(&[(http_answer::ADDRESS, address.as_bytes())])),
    }
}

/// When an exchange is over, whatever has come of it.
struct End {
    at: Instant,
    timeout: Duration,
    stopping: CancellationToken,
    call: Option<CancellationToken>,
}

impl End {
    async fn cut_short<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let call_ended = async {
            match &self.call {
                Some(call) => call.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            () = self.stopping.cancelled() => Err(Fault::Gone("the plugin is stopping".to_owned())),
            () = call_ended => Err(Fault::Gone("the call is over".to_owned())),
            () = sleep_until(self.at) => Err(Fault::Http(ExchangeError::TimedOut(self.timeout))),
        }
    }
}
