//! From a checked URL to an open connection, never to an address that was not checked.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use url::{Host, Url};

use super::FetchError;
use super::address::{self, OutOfReach, Reach};

/// A host with a dead address and a live one must not use up the whole time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Longer than it takes to find out about nearly every name.
const REFUSAL_TIME: Duration = Duration::from_millis(500);

/// Names with dozens of addresses exist; trying them all does not help.
const MAX_ADDRESSES: usize = 4;

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

pub(super) async fn open(url: &Url, reach: Reach) -> Result<Box<dyn Stream>, FetchError> {
    let host = url.host().ok_or(FetchError::NotAWebAddress)?;
    let port = url.port_or_known_default().ok_or(FetchError::NotAWebAddress)?;
    let addresses = find(&host, port, reach).await?;
    let stream = connect(&addresses).await?;
    if url.scheme() == "https" { Ok(Box::new(secure(stream, &host).await?)) } else { Ok(Box::new(stream)) }
}

/// A name that is not there and one of the network behind the host are refused after the same time, or the time would
/// tell which it is.
async fn find(host: &Host<&str>, port: u16, reach: Reach) -> Result<Vec<SocketAddr>, FetchError> {
    let begun = Instant::now();
    let found = resolve(host, port).await.and_then(|addresses| permitted(addresses, reach));
    if found.is_err() && matches!(host, Host::Domain(_)) {
        sleep_until(begun + REFUSAL_TIME).await;
    }
    found
}

async fn resolve(host: &Host<&str>, port: u16) -> Result<Vec<SocketAddr>, FetchError> {
    let addresses = match host {
        Host::Ipv4(address) => vec![SocketAddr::new(IpAddr::V4(*address), port)],
        Host::Ipv6(address) => vec![SocketAddr::new(IpAddr::V6(*address), port)],
        Host::Domain(name) => tokio::net::lookup_host((*name, port)).await.map_err(FetchError::NoSuchHost)?.collect(),
    };
    Ok(addresses)
}

/// The addresses that may be connected to. The name is not resolved again: a second answer could
/// be another one.
fn permitted(addresses: Vec<SocketAddr>, reach: Reach) -> Result<Vec<SocketAddr>, FetchError> {
    let mut permitted = Vec::new();
    let mut refused = OutOfReach("without an address");
    for socket in addresses {
        match address::check(socket.ip(), reach) {
            Ok(()) => permitted.push(socket),
            Err(reason) => refused = reason,
        }
    }
    if permitted.is_empty() {
        return Err(FetchError::OutOfReach(refused));
    }
    permitted.truncate(MAX_ADDRESSES);
    Ok(permitted)
}

async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, FetchError> {
    let mut failure = std::io::Error::from(std::io::ErrorKind::TimedOut);
    for address in addresses {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = error,
            Err(_) => {}
        }
    }
    Err(FetchError::Connect(failure))
}

async fn secure(stream: TcpStream, host: &Host<&str>) -> Result<TlsStream<TcpStream>, FetchError> {
    /// Mozilla's roots are compiled in: a bare machine may have none of its own.
    static CONNECTOR: LazyLock<Result<TlsConnector, rustls::Error>> =
        LazyLock::new(|| connector(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect()));
    let connector = CONNECTOR.as_ref().map_err(|error| FetchError::Tls(std::io::Error::other(error.clone())))?;
    handshake(connector, stream, host).await.map_err(FetchError::Tls)
}

async fn handshake(
    connector: &TlsConnector,
    stream: TcpStream,
    host: &Host<&str>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let name = match host {
        Host::Domain(name) => ServerName::try_from((*name).to_owned()).map_err(std::io::Error::other)?,
        Host::Ipv4(address) => IpAddr::V4(*address).into(),
        Host::Ipv6(address) => IpAddr::V6(*address).into(),
    };
    connector.connect(name, stream).await
}

fn connector(roots: RootCertStore) -> Result<TlsConnector, rustls::Error> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
