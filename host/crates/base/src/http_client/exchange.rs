//! A client for many requests to servers that others have chosen: its reach is bounded, its connections are kept.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, response};
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::time::timeout;
use url::Url;

use super::{
    ConnectError, HttpClient, Reach, handshake,
    pool::{Driver, Pool, PooledConnection},
};

/// How long a connection may take to be ready for another request once an answer has ended.
const REUSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Why there is no answer, or no whole one.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the answer did not arrive within {0:?}")]
    TimedOut(Duration),
    #[error("the body is larger than {0} bytes")]
    TooLarge(u64),
    #[error("the server broke off, or does not speak HTTP")]
    Http(#[source] hyper::Error),
}

/// Sends requests within its reach. No redirects, no cookies, no compression.
pub struct PoolingClient {
    client: HttpClient,
    reach: Reach,
    pool: Arc<Pool>,
}

/// The head of an answer, and its body to be read.
pub struct Answer {
    pub head: response::Parts,
    /// Where it comes from.
    pub address: SocketAddr,
    /// Whether its connection was kept from an earlier request.
    pub is_reused: bool,
    pub body: AnswerBody,
}

impl PoolingClient {
    pub fn new(client: HttpClient, reach: Reach) -> Self {
        Self { client, reach, pool: Arc::default() }
    }

    /// Sends a request to the URL's server, over a connection that was kept if there is one. Dropping the future closes
    /// the connection.
    ///
    /// A server may close a connection in the very moment in which it is taken up again. What was not sent by then is
    /// sent over a new one; what was, only if it is safe to repeat (RFC 9110, 9.2.2).
    ///
    /// # Errors
    /// The server is out of reach, cannot be connected to, or breaks off.
    pub async fn send(&self, url: &Url, request: Request<Full<Bytes>>) -> Result<Answer, ExchangeError> {
        if let Some(kept) = self.pool.take(url) {
            match self.send_over(kept, request.clone(), true).await {
                Err(error) if error.is_canceled() || (is_idempotent(request.method()) && !error.is_parse()) => {}
                outcome => return outcome.map_err(ExchangeError::Http),
            }
        }
        let connection = self.open(url).await?;
        self.send_over(connection, request, false).await.map_err(ExchangeError::Http)
    }

    async fn open(&self, url: &Url) -> Result<PooledConnection, ExchangeError> {
        let (stream, address) = self.client.open(url, &self.reach.find(url).await?).await?;
        let (sender, connection) = handshake(stream).await.map_err(ExchangeError::Http)?;
        // Its failure reaches the exchange, too.
        let driver = Driver(tokio::spawn(async move { drop(connection.await) }));
        Ok(PooledConnection { sender, address, origin: url.origin(), _driver: driver })
    }

    async fn send_over(
        &self,
        mut connection: PooledConnection,
        request: Request<Full<Bytes>>,
        is_reused: bool,
    ) -> hyper::Result<Answer> {
        let (head, incoming) = connection.sender.send_request(request).await?.into_parts();
        let address = connection.address;
        let mut body = AnswerBody { incoming, connection: Some(connection), pool: Arc::clone(&self.pool) };
        if body.is_empty() {
            body.give_back().await;
        }
        Ok(Answer { head, address, is_reused, body })
    }
}

fn is_idempotent(method: &Method) -> bool {
    method.is_safe() || [Method::PUT, Method::DELETE].contains(method)
}

/// The body of an answer. Dropping it before its end closes the connection.
pub struct AnswerBody {
    incoming: Incoming,
    /// None once it has gone back.
    connection: Option<PooledConnection>,
    pool: Arc<Pool>,
}

impl AnswerBody {
    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// The next piece; `None` at the end, when the connection has gone back to those that are kept.
    pub async fn next(&mut self) -> Option<Result<Bytes, ExchangeError>> {
        loop {
            match self.incoming.frame().await {
                None => {
                    self.give_back().await;
                    return None;
                }
                Some(Err(error)) => return Some(Err(ExchangeError::Http(error))),
                Some(Ok(frame)) => {
                    // Trailers are left out.
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
            }
        }
    }

    async fn give_back(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        if let Ok(Ok(())) = timeout(REUSE_TIMEOUT, connection.sender.ready()).await {
            self.pool.put(connection);
        }
    }
}
