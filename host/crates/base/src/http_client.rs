//! The client's side of HTTP: how the host, its commands and its plugins reach other servers.
//!
//! [`exchange`](exchange()) is one exchange on one connection. [`PoolingClient`] is for plugins: it keeps connections,
//! and its [`Reach`] is bounded. No redirects, no cookies. The proxy alone has a client of its own
//! (`serve/src/proxy/upstream.rs`), whose upstreams the operator has named.

use std::{
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body::Body;
use http_body_util::Empty;
use hyper::{
    body::Incoming,
    client::conn::http1::{self, Connection, SendRequest},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs, pki_types::ServerName},
};
use url::{Host, Position, Url};

mod address;
mod exchange;
mod pool;
mod reach;

pub use address::AddressError;
pub use exchange::{Answer, AnswerBody, ExchangeError, PoolingClient};
pub use reach::Reach;

/// For one address, and again for TLS. A server with a dead address and a live one must not use up the whole time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Bytes of an answer's head.
const MAX_HEAD: usize = 64 << 10;
/// How the host calls itself.
pub const AGENT: &str = concat!("cardinal/", env!("CARGO_PKG_VERSION"));

/// A connection, encrypted or not.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type Io = TokioIo<Box<dyn Stream>>;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("the address names no server")]
    NoServer,
    #[error("the name was not found")]
    NoSuchHost(#[source] io::Error),
    #[error("the server is out of reach")]
    OutOfReach(#[source] AddressError),
    #[error("connecting failed")]
    Connect(#[source] io::Error),
    #[error("the TLS handshake failed")]
    Tls(#[source] io::Error),
}

/// Makes connections. Reading the authorities takes a while: keep it.
#[derive(Clone)]
pub struct HttpClient {
    tls: Option<TlsConnector>,
}

impl HttpClient {
    /// Trusts the machine's own authorities as well as the public ones: a server in the same house often has a
    /// certificate of the house's own authority.
    ///
    /// # Errors
    /// The TLS library refuses its own settings.
    pub fn new() -> anyhow::Result<Self> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Self::with_roots(roots)
    }

    /// Trusts these authorities alone.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_roots(roots: RootCertStore) -> anyhow::Result<Self> {
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls: Some(TlsConnector::from(Arc::new(config))) })
    }

    /// For `http` alone; no authority is read.
    pub fn plain() -> Self {
        Self { tls: None }
    }

    /// Connects to the server of the URL.
    ///
    /// # Errors
    /// It has none, or that does not answer.
    pub async fn connect(&self, url: &Url) -> Result<Box<dyn Stream>, ConnectError> {
        self.connect_to(url, &resolve(url).await?).await
    }

    /// Connects to the first of these addresses that answers, as the server of the URL.
    ///
    /// # Errors
    /// None of them does.
    pub async fn connect_to(&self, url: &Url, addresses: &[SocketAddr]) -> Result<Box<dyn Stream>, ConnectError> {
        Ok(self.open(url, addresses).await?.0)
    }

    /// The same, with the address that has answered.
    async fn open(&self, url: &Url, addresses: &[SocketAddr]) -> Result<(Box<dyn Stream>, SocketAddr), ConnectError> {
        let (stream, address) = dial(addresses).await.map_err(ConnectError::Connect)?;
        if url.scheme() == "http" {
            return Ok((Box::new(stream), address));
        }
        let tls = self.tls.as_ref().ok_or(ConnectError::NoServer)?;
        let handshake = timeout(CONNECT_TIMEOUT, tls.connect(server_name(url)?, stream)).await;
        let stream = handshake.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(ConnectError::Tls)?;
        Ok((Box::new(stream), address))
    }
}

/// The addresses of the URL's server.
///
/// # Errors
/// Its name is not known.
pub async fn resolve(url: &Url) -> Result<Vec<SocketAddr>, ConnectError> {
    let port = url.port_or_known_default().ok_or(ConnectError::NoServer)?;
    Ok(match url.host().ok_or(ConnectError::NoServer)? {
        Host::Ipv4(address) => vec![SocketAddr::new(IpAddr::V4(address), port)],
        Host::Ipv6(address) => vec![SocketAddr::new(IpAddr::V6(address), port)],
        Host::Domain(name) => tokio::net::lookup_host((name, port)).await.map_err(ConnectError::NoSuchHost)?.collect(),
    })
}

async fn dial(addresses: &[SocketAddr]) -> io::Result<(TcpStream, SocketAddr)> {
    let mut failure = io::Error::from(io::ErrorKind::TimedOut);
    for address in addresses {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok((stream, *address));
            }
            Ok(Err(error)) => failure = error,
            Err(_) => {}
        }
    }
    Err(failure)
}

fn server_name(url: &Url) -> Result<ServerName<'static>, ConnectError> {
    Ok(match url.host().ok_or(ConnectError::NoServer)? {
        Host::Domain(name) => {
            ServerName::try_from(name.to_owned()).map_err(|error| ConnectError::Tls(io::Error::other(error)))?
        }
        Host::Ipv4(address) => IpAddr::V4(address).into(),
        Host::Ipv6(address) => IpAddr::V6(address).into(),
    })
}

/// What a `Host` header says of the URL's server.
pub fn authority(url: &Url) -> &str {
    &url[Position::BeforeHost..Position::AfterPort]
}

/// A GET of the URL.
///
/// # Errors
/// The URL has characters that no request can have.
pub fn get(url: &Url, accept: &'static str) -> http::Result<Request<Empty<Bytes>>> {
    Request::get(&url[Position::BeforePath..Position::AfterQuery])
        .header(header::HOST, authority(url))
        .header(header::ACCEPT, HeaderValue::from_static(accept))
        .header(header::USER_AGENT, AGENT)
        .body(Empty::new())
}

/// Begins HTTP on a connection. The second of the two has to be polled for the first to get answers.
///
/// # Errors
/// The connection has ended.
pub async fn handshake<B>(stream: impl Stream + 'static) -> hyper::Result<(SendRequest<B>, Connection<Io, B>)>
where
    B: Body + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream: Box<dyn Stream> = Box::new(stream);
    http1::Builder::new().max_buf_size(MAX_HEAD).handshake(TokioIo::new(stream)).await
}

/// Sends one request and has `read` take what it wants of the answer. The connection is driven here and not in a task
/// of its own: when this future is dropped, all that it opened is closed with it.
///
/// # Errors
/// The server broke off, or what `read` says.
pub async fn exchange<T, E, R>(
    stream: impl Stream + 'static,
    request: Request<Empty<Bytes>>,
    read: impl FnOnce(Response<Incoming>) -> R,
) -> Result<T, E>
where
    E: From<hyper::Error>,
    R: Future<Output = Result<T, E>>,
{
    let (mut sender, connection) = handshake(stream).await?;
    let exchange = async { read(sender.send_request(request).await?).await };
    let driver = async {
        let _ = connection.await; // its failure reaches the exchange, too
        std::future::pending().await
    };
    tokio::select! {
        answer = exchange => answer,
        never = driver => never,
    }
}
