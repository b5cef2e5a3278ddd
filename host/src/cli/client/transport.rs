//! Ways to a host.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use http::HeaderValue;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs, pki_types::ServerName},
};
use url::Url;

use super::Upload;
use cardinal_base::config::Way;
use cardinal_control::local_socket::LocalSocket;

const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// How a host is reached.
pub(super) enum Transport {
    Tcp(Address),
    Tls(Address, TlsConnector),
    Local(LocalSocket),
}

pub(super) struct Address {
    url: Url,
    host: String,
    port: u16,
    authority: HeaderValue,
}

impl Transport {
    pub(super) fn new(way: &Way) -> anyhow::Result<Self> {
        match way {
            Way::Address(url) => Self::over_tcp(url),
            Way::Local(data_dir) => Ok(Self::local(data_dir)),
        }
    }

    /// Through the socket of the host that has this folder.
    pub(super) fn local(data_dir: &Path) -> Self {
        Self::Local(LocalSocket::new(data_dir))
    }

    /// With TLS for https.
    fn over_tcp(url: &Url) -> anyhow::Result<Self> {
        let host = url.host_str().context("the address has no host")?;
        let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
        let address = Address {
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: url.port_or_known_default().context("the address has no port")?,
            authority: HeaderValue::from_str(authority)?,
            url: url.clone(),
        };
        if url.scheme() != "https" {
            return Ok(Self::Tcp(address));
        }
        // The machine's own authorities as well as the public ones: a house often has one of its own.
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self::Tls(address, TlsConnector::from(Arc::new(config))))
    }

    /// What goes into `Host`.
    pub(super) fn authority(&self) -> HeaderValue {
        match self {
            Self::Tcp(address) | Self::Tls(address, _) => address.authority.clone(),
            Self::Local(_) => HeaderValue::from_static("localhost"),
        }
    }

    pub(super) async fn connect(&self) -> anyhow::Result<SendRequest<Upload>> {
        let connecting = async {
            match self {
                Self::Local(socket) => begin(socket.connect().await?).await,
                Self::Tcp(address) => begin(address.dial().await?).await,
                Self::Tls(address, tls) => {
                    let name = ServerName::try_from(address.host.clone())?;
                    begin(tls.connect(name, address.dial().await?).await.context("the TLS handshake")?).await
                }
            }
        };
        tokio::time::timeout(CONNECT_WITHIN, connecting).await.context("no connection in time")?
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) | Self::Tls(address, _) => out.write_str(address.url.as_str().trim_end_matches('/')),
            Self::Local(socket) => write!(out, "the host of {socket}"),
        }
    }
}

impl Address {
    async fn dial(&self) -> anyhow::Result<TcpStream> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.context("connecting")?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// The connection does its work beside the request until both are over.
async fn begin<S>(stream: S) -> anyhow::Result<SendRequest<Upload>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // What goes wrong with it is told by the request or the answer's body.
    tokio::spawn(connection);
    Ok(sender)
}
