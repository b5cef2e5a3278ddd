//! Ways to a host.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use http::HeaderValue;
use hyper::client::conn::http1::SendRequest;
use url::Url;

use super::Upload;
use cardinal_base::{
    config::HostEndpoint,
    http_client::{self, HttpClient, Stream},
};
use cardinal_control::local_socket::LocalSocket;

/// From the look-up of the name to the end of the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How a host is reached.
pub(super) enum Transport {
    Tcp(Address),
    Local(LocalSocket),
    /// Neither of the folders where a host usually is has one: the first may get one yet.
    Missing([LocalSocket; 2]),
}

pub(super) struct Address {
    url: Url,
    authority: HeaderValue,
    client: HttpClient,
}

impl Transport {
    pub(super) fn new(way: &HostEndpoint) -> anyhow::Result<Self> {
        match way {
            HostEndpoint::Address(url) => Self::over_tcp(url),
            HostEndpoint::Local(data_dir) => Ok(Self::local(data_dir)),
            HostEndpoint::Usual(data_dirs) => Ok(Self::first(data_dirs)),
        }
    }

    fn first(data_dirs: &[PathBuf; 2]) -> Self {
        let sockets = data_dirs.each_ref().map(|data_dir| LocalSocket::new(data_dir));
        match sockets.iter().find(|socket| socket.exists()) {
            Some(socket) => Self::Local(socket.clone()),
            None => Self::Missing(sockets),
        }
    }

    /// Through the socket of the host that has this folder.
    pub(super) fn local(data_dir: &Path) -> Self {
        Self::Local(LocalSocket::new(data_dir))
    }

    /// With TLS for https.
    fn over_tcp(url: &Url) -> anyhow::Result<Self> {
        let client = if url.scheme() == "https" { HttpClient::new()? } else { HttpClient::plain() };
        let authority = HeaderValue::from_str(http_client::authority(url))?;
        Ok(Self::Tcp(Address { url: url.clone(), authority, client }))
    }

    /// What goes into `Host`.
    pub(super) fn authority(&self) -> HeaderValue {
        match self {
            Self::Tcp(address) => address.authority.clone(),
            Self::Local(_) | Self::Missing(_) => HeaderValue::from_static("localhost"),
        }
    }

    pub(super) async fn connect(&self) -> anyhow::Result<SendRequest<Upload>> {
        let connecting = async {
            let stream: Box<dyn Stream> = match self {
                Self::Local(socket) | Self::Missing([socket, _]) => Box::new(socket.connect().await?),
                Self::Tcp(address) => address.client.connect(&address.url).await?,
            };
            let (sender, connection) = http_client::handshake(stream).await?;
            // It works beside the request until both are over; the request or the answer's body has its failures.
            tokio::spawn(connection);
            anyhow::Ok(sender)
        };
        tokio::time::timeout(CONNECT_TIMEOUT, connecting).await.context("the connection timed out")?
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => out.write_str(address.url.as_str().trim_end_matches('/')),
            Self::Local(socket) => write!(out, "the host of {socket}"),
            Self::Missing([usual, dev]) => write!(out, "a host of {usual} or, for a plugin's crate, {dev}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn the_host_of_plugin_dev_is_found_where_no_other_is() {
        let folder = tempfile::tempdir().unwrap();
        let data_dirs = ["var", "dev"].map(|name| folder.path().join(name));
        let shown = || Transport::first(&data_dirs).to_string();
        assert!(data_dirs.iter().all(|data_dir| shown().contains(data_dir.to_str().unwrap())), "{}", shown());
        data_dirs.iter().for_each(|data_dir| fs::create_dir(data_dir).unwrap());
        let sockets = data_dirs.each_ref().map(|data_dir| LocalSocket::new(data_dir));
        let _dev = sockets[1].bind().unwrap();
        assert_eq!(shown(), format!("the host of {}", sockets[1]));
        let _usual = sockets[0].bind().unwrap();
        assert_eq!(shown(), format!("the host of {}", sockets[0]));
    }
}
