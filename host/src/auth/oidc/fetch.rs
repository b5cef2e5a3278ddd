//! Reading one document of the identity provider: a bounded GET that follows no redirect.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
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

/// From the look-up of the name to the last byte.
const WITHIN: Duration = Duration::from_secs(5);
/// Bytes of a discovery document or a key set.
const LIMIT: usize = 256 * 1024;
const AGENT: &str = concat!("cardinal/", env!("CARGO_PKG_VERSION"));

/// Fetches over TLS, trusting the machine's own authorities as well as the public ones: a provider
/// in the same house often has a certificate of the house's own authority.
pub struct Fetcher(TlsConnector);

/// What the provider answered when it answered at all.
pub struct Answer {
    pub status: StatusCode,
    pub body: Bytes,
}

impl Fetcher {
    pub fn new() -> anyhow::Result<Self> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// # Errors
    /// Nobody answers, in time or at all, or with more than is read.
    pub async fn get(&self, url: &Url) -> anyhow::Result<Answer> {
        let answer = tokio::time::timeout(WITHIN, self.exchange(url)).await;
        answer.unwrap_or_else(|_| bail!("no answer in {WITHIN:?}")).with_context(|| format!("GET {url}"))
    }

    async fn exchange(&self, url: &Url) -> anyhow::Result<Answer> {
        let host = url.host_str().context("the address has no host")?;
        let port = url.port_or_known_default().context("the address has no port")?;
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((name, port)).await.context("connecting")?;
        if url.scheme() == "http" {
            return ask(stream, url).await;
        }
        let name = ServerName::try_from(name.to_owned())?;
        ask(self.0.connect(name, stream).await.context("the TLS handshake")?, url).await
    }
}

async fn ask<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, url: &Url) -> anyhow::Result<Answer> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let request = Request::get(&url[url::Position::BeforePath..url::Position::AfterQuery])
        .header(header::HOST, authority)
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, AGENT)
        .body(Empty::<Bytes>::new())?;
    let answer = async {
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, LIMIT).collect().await.map_err(|error| anyhow::anyhow!(error))?;
        anyhow::Ok(Answer { status: parts.status, body: body.to_bytes() })
    };
    // The connection does its work only while it is polled; both end here.
    let (answer, connection) = (std::pin::pin!(answer), std::pin::pin!(connection));
    match futures_util::future::select(answer, connection).await {
        futures_util::future::Either::Left((answer, _)) => answer,
        futures_util::future::Either::Right((_, answer)) => answer.await,
    }
}

impl Answer {
    /// # Errors
    /// The status is any but 200; a redirect is said to be one, since it is never followed.
    pub fn document(self) -> anyhow::Result<Bytes> {
        ensure!(!self.status.is_redirection(), "it redirects ({}), which is not followed", self.status);
        ensure!(self.status == StatusCode::OK, "it answers {}", self.status);
        Ok(self.body)
    }
}
