//! One collector: where it is, what it answers, and whether a batch that it did not take is sent again.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body_util::Full;
use serde::Deserialize;
use serde_json::Value;
use time::{OffsetDateTime, format_description::well_known::Rfc2822};
use url::{Position, Url};

use cardinal_base::{
    clock::Clock,
    http_client::{self, AnswerBody, ExchangeError, HttpClient, PoolingClient, Reach},
};

/// Where a collector takes traces, below its address.
const TRACES_PATH: &str = "/v1/traces";
/// For one attempt, from connecting to the end of the answer.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a batch waits for its second attempt at least, where the collector does not say; up to twice as long, so
/// that hosts do not return all at once.
const RETRY_BACKOFF: Duration = Duration::from_secs(1);
/// A batch does not wait for longer than this; later ones do.
const MAX_RETRY_WAIT: Duration = Duration::from_secs(30);
/// Bytes of an answer. It says how many spans were rejected, and why.
const MAX_ANSWER: usize = 64 << 10;

pub(super) struct Collector {
    client: PoolingClient,
    clock: Clock,
    url: Url,
    origin: String,
}

/// Why a batch was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("the spans could not be encoded")]
    Encoding(#[source] serde_json::Error),
    #[error("the address is not one that a request can have")]
    Address(#[source] http::Error),
    #[error("the collector was not reached")]
    Exchange(#[source] ExchangeError),
    #[error("the collector did not answer within {0:?}")]
    TimedOut(Duration),
    #[error("the collector answered with the status {status}")]
    Status { status: StatusCode, retry_after: Option<Duration> },
    #[error("the collector's answer is over {0} bytes")]
    TooLarge(usize),
}

impl SendError {
    /// How long to wait before the batch is sent once more; none when that must not be. `jitter` is up to 1.
    pub(super) fn retry_wait(&self, jitter: f64) -> Option<Duration> {
        let may_pass = match self {
            Self::Exchange(_) => true,
            Self::Status { status, .. } => matches!(status.as_u16(), 429 | 502 | 503 | 504),
            _ => false,
        };
        let wait = self.retry_after().unwrap_or_else(|| RETRY_BACKOFF.mul_f64(1.0 + jitter));
        Some(wait).filter(|wait| may_pass && *wait <= MAX_RETRY_WAIT)
    }

    /// What the collector says of when to return.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl Collector {
    /// # Errors
    /// The endpoint is no address.
    pub(super) fn new(endpoint: &str, client: HttpClient, clock: Clock) -> anyhow::Result<Self> {
        let url = Url::parse(&format!("{}{TRACES_PATH}", endpoint.trim_end_matches('/'))).context("no URL")?;
        // The operator has named it, and most collectors are in the same network.
        let client = PoolingClient::new(client, Reach::with_private_networks());
        Ok(Self { client, clock, origin: url.origin().ascii_serialization(), url })
    }

    /// Its address as a log may show it: some have a token in the path.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// Sends a batch; how many spans of it were rejected.
    pub(super) async fn send(&self, body: Vec<u8>) -> Result<usize, SendError> {
        let exchange = tokio::time::timeout(SEND_TIMEOUT, self.exchange(body)).await;
        exchange.unwrap_or(Err(SendError::TimedOut(SEND_TIMEOUT)))
    }

    async fn exchange(&self, body: Vec<u8>) -> Result<usize, SendError> {
        let answer = self.client.send(&self.url, self.request(body)?).await.map_err(SendError::Exchange)?;
        let status = answer.head.status;
        if !status.is_success() {
            return Err(SendError::Status { status, retry_after: retry_after(&answer.head.headers, self.clock.now()) });
        }
        Ok(rejected(&read(answer.body).await?))
    }

    fn request(&self, body: Vec<u8>) -> Result<Request<Full<Bytes>>, SendError> {
        Request::post(&self.url[Position::BeforePath..Position::AfterQuery])
            .header(header::HOST, http_client::authority(&self.url))
            .header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(header::USER_AGENT, http_client::AGENT)
            .body(Full::new(body.into()))
            .map_err(SendError::Address)
    }
}

/// Read to its end, so that its connection can be used again.
async fn read(mut body: AnswerBody) -> Result<Vec<u8>, SendError> {
    let mut whole = Vec::new();
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(SendError::Exchange)?;
        if whole.len() + piece.len() > MAX_ANSWER {
            return Err(SendError::TooLarge(MAX_ANSWER));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole)
}

/// What a collector that took only a part says of the rest. An answer that is no JSON says nothing.
fn rejected(answer: &[u8]) -> usize {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct ExportResponse {
        partial_success: PartialSuccess,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct PartialSuccess {
        rejected_spans: Value,
    }
    let response: ExportResponse = serde_json::from_slice(answer).unwrap_or_default();
    // 64-bit numbers are strings in protobuf's JSON, and numbers are accepted.
    match response.partial_success.rejected_spans {
        Value::String(text) => text.parse().unwrap_or(0),
        Value::Number(number) => number.as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(0),
        _ => 0,
    }
}

/// `Retry-After`: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: OffsetDateTime) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = OffsetDateTime::parse(text, &Rfc2822).ok()?;
    Some((at - now).try_into().unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    fn status(status: u16, retry_after: Option<u64>) -> SendError {
        let status = StatusCode::from_u16(status).unwrap();
        SendError::Status { status, retry_after: retry_after.map(Duration::from_secs) }
    }

    #[test]
    fn traces_are_taken_below_the_endpoint() {
        for (endpoint, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://otel.example.com/below/", "https://otel.example.com/below/v1/traces"),
        ] {
            let collector = Collector::new(endpoint, HttpClient::plain(), Clock::System).unwrap();
            assert_eq!(collector.url.as_str(), url);
            assert!(!collector.origin().contains("below"), "{}", collector.origin());
        }
    }

    #[test]
    fn what_may_pass_is_sent_once_more() {
        for code in [429, 502, 503, 504] {
            assert_eq!(status(code, None).retry_wait(0.5), Some(Duration::from_millis(1_500)), "{code}");
            assert_eq!(status(code, Some(7)).retry_wait(0.5), Some(Duration::from_secs(7)), "{code}");
        }
        for code in [301, 400, 401, 413, 500] {
            assert_eq!(status(code, Some(1)).retry_wait(0.0), None, "{code}");
        }
        let long = status(503, Some(120));
        assert_eq!((long.retry_wait(0.0), long.retry_after()), (None, Some(Duration::from_secs(120))));
        assert_eq!(SendError::TimedOut(SEND_TIMEOUT).retry_wait(0.0), None);
    }

    #[test]
    fn when_to_return_is_seconds_or_a_date() {
        let now = datetime!(2026-11-27 08:00:00 UTC);
        let read = |text: &str| {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, text.parse().unwrap())]);
            retry_after(&headers, now).map(|wait| wait.as_secs())
        };
        assert_eq!(read("120"), Some(120));
        assert_eq!(read("Fri, 27 Nov 2026 08:00:30 GMT"), Some(30));
        assert_eq!(read("Fri, 27 Nov 2026 07:00:00 GMT"), Some(0), "at once");
        assert_eq!((read("soon"), retry_after(&HeaderMap::new(), now)), (None, None));
    }

    #[test]
    fn a_collector_may_take_a_part() {
        for (answer, count) in [
            ("", 0),
            ("{}", 0),
            (r#"{"partialSuccess": {}}"#, 0),
            (r#"{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old"}}"#, 3),
            (r#"{"partialSuccess": {"rejectedSpans": 4}}"#, 4),
            (r#"{"partialSuccess": {"rejectedSpans": -1}}"#, 0),
        ] {
            assert_eq!(rejected(answer.as_bytes()), count, "{answer}");
        }
    }
}
