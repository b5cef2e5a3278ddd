//! Pictures of cards, read by the host from where they are: no browser of an editor asks a stranger's server, and what
//! it gets is a picture. Never a proxy for anything else: the address is checked, the file is recognised by its own
//! bytes.

use std::sync::Arc;

use http::StatusCode;
use sha2::{Digest, Sha256};
use tokio::{
    sync::Semaphore,
    time::{Duration, timeout},
};

use cardinal_base::{
    config::Cidr,
    hex::hex,
    http_client::{AddressError, ConnectError, HttpClient},
};

mod cache;
mod fetch;
mod format;

use cache::Cache;
use fetch::Fetcher;
pub(crate) use fetch::{MAX_BYTES, MAX_URL};
pub(crate) use format::Format;

/// Pictures that are read at once: with [`MAX_BYTES`] the bound of the memory that reading takes.
const MAX_FETCHES: usize = 8;
/// How long a request waits for its turn.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a tag that are enough to tell pictures apart.
const TAG_BYTES: usize = 16;

/// A picture, ready to be sent.
#[derive(Debug)]
pub struct Picture {
    pub format: Format,
    pub bytes: bytes::Bytes,
    /// An entity tag, with its quotes.
    pub tag: String,
}

/// Why there is no picture. Every text is for the caller: plain words, and nothing about the network behind the host.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    #[error("This is not a web address: it must begin with http:// or https:// and name a host.")]
    NotAWebAddress,
    #[error("The address is longer than {MAX_URL} characters.")]
    TooLong,
    #[error("An address with a user name or password in it is not read.")]
    Credentials,
    /// One text for both: whoever could tell them apart could find out which names there are behind the host.
    #[error("The host of this address was not found, or is in a network that pictures are not read from.")]
    OutOfReach(#[source] AddressError),
    #[error("The host of this address was not found, or is in a network that pictures are not read from.")]
    NoSuchHost(#[source] std::io::Error),
    #[error("The site could not be connected to.")]
    Connect(#[source] std::io::Error),
    #[error("No secure connection to the site could be made.")]
    Tls(#[source] std::io::Error),
    #[error("The site broke off or does not speak HTTP.")]
    Http(#[from] hyper::Error),
    #[error("Too many redirects.")]
    TooManyRedirects,
    #[error("The site answered {0}.")]
    Status(StatusCode),
    #[error("The file is larger than {} MiB.", MAX_BYTES >> 20)]
    TooLarge,
    #[error("The file is not a JPEG, PNG, WebP, GIF or AVIF picture.")]
    NotAPicture,
    #[error("The picture did not arrive in time.")]
    Timeout,
}

impl From<ConnectError> for PictureError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::NoServer => Self::NotAWebAddress,
            ConnectError::NoSuchHost(error) => Self::NoSuchHost(error),
            ConnectError::OutOfReach(reason) => Self::OutOfReach(reason),
            ConnectError::Connect(error) => Self::Connect(error),
            ConnectError::Tls(error) => Self::Tls(error),
        }
    }
}

/// Reads pictures and keeps those that were read last.
pub struct Pictures {
    fetcher: Fetcher,
    permits: Semaphore,
    cache: Cache,
}

/// All turns are taken.
#[derive(Debug)]
pub struct Busy;

/// What became of an address; kept for a while, good or bad.
pub(crate) type Outcome = Result<Arc<Picture>, Arc<PictureError>>;

impl Pictures {
    /// `opened` are the private networks that pictures may be read from.
    pub fn new(client: HttpClient, opened: Vec<Cidr>) -> Self {
        Self { fetcher: Fetcher::new(client, opened), permits: Semaphore::new(MAX_FETCHES), cache: Cache::default() }
    }

    /// The picture at `address`. However many ask for it at once, its site is asked once.
    ///
    /// # Errors
    /// [`Busy`]: no turn came in time; nothing is known of the address.
    pub async fn get(&self, address: &str) -> Result<Outcome, Busy> {
        let url = match fetch::parse(address) {
            Ok(url) => url,
            Err(error) => return Ok(Err(Arc::new(error))),
        };
        self.cache
            .get(url.as_str(), async {
                let permit = timeout(PERMIT_TIMEOUT, self.permits.acquire()).await;
                let Ok(Ok(_permit)) = permit else { return Err(Busy) };
                let fetched = self.fetcher.get(&url).await;
                Ok(fetched.map(|fetched| Arc::new(Picture::new(fetched))).map_err(Arc::new))
            })
            .await
    }
}

impl Picture {
    fn new(fetched: fetch::PictureBytes) -> Self {
        let tag = format!("\"{}\"", hex(&Sha256::digest(&fetched.bytes)[..TAG_BYTES]));
        Self { format: fetched.format, bytes: fetched.bytes, tag }
    }
}
