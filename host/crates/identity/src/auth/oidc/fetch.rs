//! Reading one document of the identity provider: a bounded GET that follows no redirect.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use url::Url;

use cardinal_base::http_client::{self, HttpClient};

/// From the look-up of the name to the last byte.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a discovery document or a key set.
const LIMIT: usize = 256 * 1024;

pub(super) struct Fetcher(HttpClient);

/// What the provider answered when it answered at all.
pub(super) struct Answer {
    pub status: StatusCode,
    pub body: Bytes,
}

impl Fetcher {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self(HttpClient::new()?))
    }

    /// # Errors
    /// No answer comes, in time or at all, or one with more than is read.
    pub(super) async fn get(&self, url: &Url) -> anyhow::Result<Answer> {
        let answer = tokio::time::timeout(FETCH_TIMEOUT, self.exchange(url)).await;
        answer.unwrap_or_else(|_| bail!("no answer in {FETCH_TIMEOUT:?}")).with_context(|| format!("GET {url}"))
    }

    async fn exchange(&self, url: &Url) -> anyhow::Result<Answer> {
        let request = http_client::get(url, "application/json")?;
        http_client::exchange(self.0.connect(url).await?, request, |response| async {
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, LIMIT).collect().await.map_err(|error| anyhow::anyhow!(error))?;
            Ok(Answer { status: parts.status, body: body.to_bytes() })
        })
        .await
    }
}

impl Answer {
    /// # Errors
    /// The status is any but 200; a redirect is said to be one, since it is never followed.
    pub(super) fn document(self) -> anyhow::Result<Bytes> {
        ensure!(!self.status.is_redirection(), "it redirects ({}), which is not followed", self.status);
        ensure!(self.status == StatusCode::OK, "it answers {}", self.status);
        Ok(self.body)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };
    use tokio_rustls::{
        TlsAcceptor,
        rustls::{
            RootCertStore, ServerConfig,
            crypto::aws_lc_rs,
            pki_types::{CertificateDer, PrivatePkcs8KeyDer},
        },
    };

    use super::*;

    /// Vouches for itself, as 127.0.0.1. Made for these tests, good for nothing else.
    const CERTIFICATE: &[u8] = include_bytes!("../../../../../tests/tls/self-signed.crt.der");
    const KEY: &[u8] = include_bytes!("../../../../../tests/tls/self-signed.key.der");

    /// Answers one request over TLS with `reply`, and gives what it was asked.
    async fn site(listener: TcpListener, reply: &'static str) -> Option<String> {
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], PrivatePkcs8KeyDer::from(KEY).into());
        let stream = listener.accept().await.unwrap().0;
        let mut stream = TlsAcceptor::from(Arc::new(config.unwrap())).accept(stream).await.ok()?;
        let mut request = vec![0; 4096];
        let read = stream.read(&mut request).await.unwrap();
        stream.write_all(reply.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        Some(String::from_utf8_lossy(&request[..read]).into_owned())
    }

    async fn meet(fetcher: &Fetcher, host: &str, reply: &'static str) -> (anyhow::Result<Answer>, Option<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = Url::parse(&format!("https://{host}:{port}/jwks?set=a b")).unwrap();
        tokio::join!(fetcher.get(&url), site(listener, reply))
    }

    fn trusting_the_site() -> Fetcher {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(CERTIFICATE)).unwrap();
        Fetcher(HttpClient::with_roots(roots).unwrap())
    }

    #[tokio::test]
    async fn a_trusted_site_is_asked_and_read() {
        let reply = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        let (answer, request) = meet(&trusting_the_site(), "127.0.0.1", reply).await;
        assert_eq!(&answer.unwrap().document().unwrap()[..], b"{}");
        let request = request.unwrap();
        assert!(request.starts_with("GET /jwks?set=a%20b HTTP/1.1\r\nhost: 127.0.0.1:"), "{request}");
    }

    #[tokio::test]
    async fn other_names_and_other_authorities_are_refused() {
        let (answer, request) = meet(&trusting_the_site(), "localhost", "").await;
        assert!(answer.is_err() && request.is_none());
        let (answer, request) = meet(&Fetcher::new().unwrap(), "127.0.0.1", "").await;
        assert!(answer.is_err() && request.is_none());
    }

    #[tokio::test]
    async fn a_redirect_and_a_flood_of_bytes_are_no_documents() {
        let redirect = "HTTP/1.1 302 Found\r\nlocation: https://evil.example.com/\r\ncontent-length: 2\r\n\r\n{}";
        let (answer, _) = meet(&trusting_the_site(), "127.0.0.1", redirect).await;
        let error = answer.unwrap().document().unwrap_err().to_string();
        assert!(error.contains("not followed"), "{error}");
        let too_much: &'static str =
            format!("HTTP/1.1 200 OK\r\ncontent-length: {0}\r\n\r\n{1}", LIMIT + 1, " ".repeat(LIMIT + 1)).leak();
        let (listener, fetcher) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), trusting_the_site());
        let url = Url::parse(&format!("https://127.0.0.1:{}/", listener.local_addr().unwrap().port())).unwrap();
        // The site's own writing may fail: it is hung up on.
        let serving = tokio::spawn(site(listener, too_much));
        assert!(fetcher.get(&url).await.is_err());
        serving.abort();
    }
}
