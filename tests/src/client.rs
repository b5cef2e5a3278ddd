//! A small HTTP/1.1 client that sends what it is told, however odd: raw targets, foreign Host headers, other source
//! addresses. One connection a call, so that no test sees another's.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::Either;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpSocket;

use crate::answer::Answer;

type Body = BoxBody<Bytes, std::io::Error>;
type Request = http::Request<Body>;
type Sender = http1::SendRequest<Body>;
type Connection = http1::Connection<TokioIo<tokio::net::TcpStream>, Body>;

/// No answer may take longer; a host that hangs fails the test instead of the whole run.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

#[derive(Debug, Clone)]
pub struct Client {
    address: SocketAddr,
    source: Option<IpAddr>,
    bearer: Option<String>,
}

impl Client {
    pub fn new(address: SocketAddr) -> Client {
        Client { address, source: None, bearer: None }
    }

    /// The same with a credential in every call.
    #[must_use]
    pub fn bearer(&self, token: impl Into<String>) -> Client {
        Client { bearer: Some(token.into()), ..self.clone() }
    }

    /// The same from another loopback address, where limits per address must not be shared with other tests.
    #[must_use]
    pub fn from_address(&self, source: [u8; 4]) -> Client {
        Client { source: Some(IpAddr::from(source)), ..self.clone() }
    }

    /// Its credential; there has to be one.
    pub fn token(&self) -> &str {
        self.bearer.as_deref().unwrap()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn call(&self, method: Method, target: &str) -> Call {
        let headers = HeaderMap::new();
        let call = Call { client: self.clone(), method, target: target.to_owned(), headers, body: empty() };
        match &self.bearer {
            Some(token) => call.header(AUTHORIZATION.as_str(), &format!("Bearer {token}")),
            None => call,
        }
    }

    pub async fn get(&self, target: &str) -> Answer {
        self.call(Method::GET, target).send().await
    }

    pub async fn delete(&self, target: &str) -> Answer {
        self.call(Method::DELETE, target).send().await
    }

    pub async fn post(&self, target: &str, body: &Value) -> Answer {
        self.call(Method::POST, target).json(body).send().await
    }

    pub async fn patch(&self, target: &str, body: &Value) -> Answer {
        self.call(Method::PATCH, target).json(body).send().await
    }
}

/// One request being put together.
pub struct Call {
    client: Client,
    method: Method,
    target: String,
    headers: HeaderMap,
    body: Body,
}

impl Call {
    /// Sets a header, in place of the one that stood there.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Call {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        self.headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        self
    }

    /// Adds a header beside one of the same name.
    #[must_use]
    pub fn header_too(mut self, name: &str, value: &str) -> Call {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        self.headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        self
    }

    #[must_use]
    pub fn json(self, body: &Value) -> Call {
        self.body("application/json", body.to_string())
    }

    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Call {
        self.body = Full::new(body.into()).map_err(|never| match never {}).boxed();
        self.header(CONTENT_TYPE.as_str(), content_type)
    }

    /// A body of unknown length, as a client that streams sends it.
    #[must_use]
    pub fn stream(mut self, content_type: &str, body: Body) -> Call {
        self.body = body;
        self.header(CONTENT_TYPE.as_str(), content_type)
    }

    /// The answer; fails the test when there is none.
    pub async fn send(self) -> Answer {
        let call = format!("{} {}", self.method, self.target);
        self.try_send().await.unwrap_or_else(|error| panic!("{call}: {error:#}"))
    }

    /// The answer, or why there is none.
    ///
    /// # Errors
    /// When no connection comes about, or it ends before the answer does.
    pub async fn try_send(self) -> anyhow::Result<Answer> {
        tokio::time::timeout(ANSWER_TIMEOUT, self.exchange()).await?
    }

    /// The answer's head, and its body while it comes. The connection is closed when the body is dropped. A receive
    /// buffer that is set keeps the kernel from reading ahead for a client that doesn't read.
    ///
    /// # Errors
    /// When no connection comes about, or it ends before the head is there.
    pub async fn open(self, receive_buffer: Option<u32>) -> anyhow::Result<http::Response<Incoming>> {
        let (mut sender, connection, request) = self.connect(receive_buffer).await?;
        tokio::spawn(connection);
        Ok(tokio::time::timeout(ANSWER_TIMEOUT, sender.send_request(request)).await??)
    }

    async fn connect(self, receive_buffer: Option<u32>) -> anyhow::Result<(Sender, Connection, Request)> {
        let socket = if self.client.address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Some(bytes) = receive_buffer {
            socket.set_recv_buffer_size(bytes)?;
        }
        if let Some(source) = self.client.source {
            socket.bind(SocketAddr::new(source, 0))?;
        }
        let stream = socket.connect(self.client.address).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut request = http::Request::builder().method(self.method).uri(self.target).body(self.body)?;
        request.headers_mut().insert(HOST, HeaderValue::from_str(&self.client.address.to_string())?);
        request.headers_mut().extend(self.headers);
        Ok((sender, connection, request))
    }

    async fn exchange(self) -> anyhow::Result<Answer> {
        let call = format!("{} {}", self.method, self.target);
        let (mut sender, connection, request) = self.connect(None).await?;
        let answer = async {
            let (parts, body) = sender.send_request(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            anyhow::Ok(Answer { call, status: parts.status, headers: parts.headers, body })
        };
        // The connection does its work only while it is polled.
        let answer = std::pin::pin!(answer);
        match futures_util::future::select(answer, std::pin::pin!(connection)).await {
            Either::Left((answer, _)) => answer,
            Either::Right((_, answer)) => answer.await,
        }
    }
}

fn empty() -> Body {
    http_body_util::Empty::new().map_err(|never| match never {}).boxed()
}
