//! The extension `HTTP_CLIENT`: a plugin's requests to other servers, over connections of the host's.
//!
//! All of it runs on the host's runtime and ends with the call or the instance that asked for it, or at its deadline,
//! whoever still holds the answer.

mod body;
mod request;

use std::{future::Future, sync::Arc, time::Duration};

use cardinal_plugin_abi::{
    Bytes, CallId, CtxId, Fut, Reply, Slice, Stream, extension::HttpClient, pairs, record, record::http_answer,
};
use http::header::CONTENT_LENGTH;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use self::{
    body::{BodySource, pump},
    request::HttpRequest,
};
use super::{
    exchanges::{ExchangeCount, HttpExchanges, Outcome},
    host_fn::{begin, find_call},
};
use crate::fault::Fault;
use cardinal_base::http_client::{Answer, ExchangeError};

/// What the extension's number leads to.
pub(super) static EXTENSION: HttpClient = HttpClient { send };

extern "C" fn send(ctx: CtxId, call: CallId, request: Slice<'_>) -> Fut<Reply> {
    begin(ctx, |scope| {
        let call = find_call(ctx, call)?;
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
