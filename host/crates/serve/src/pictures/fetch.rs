//! Reads one picture from the web, within limits.
//!
//! There is no client with a pool here on purpose: each connection goes to the very address that was checked.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;
use url::Url;

use super::{PictureError, format::Format};
use cardinal_base::{
    config::Cidr,
    http_client::{self, HttpClient, Reach},
};

/// For everything together: names, connections, redirects, the body.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: usize = 5;
/// The longest address that is read.
pub(crate) const MAX_URL: usize = 2_048;
/// The largest picture: what a camera makes, and no more than a browser is glad to draw.
pub(crate) const MAX_BYTES: usize = 8 << 20;
/// Bytes that are enough to tell what a file is.
const DETECTION_BYTES: usize = 256;
const ACCEPTED: &str = "image/avif,image/webp,image/png,image/jpeg,image/gif";

/// Reads pictures from the internet, and from the private networks that the operator has opened.
pub(super) struct Fetcher {
    client: HttpClient,
    reach: Reach,
}

/// A picture as it came.
#[derive(Debug)]
pub(super) struct PictureBytes {
    pub format: Format,
    pub bytes: Bytes,
}

/// An address as somebody typed it.
///
/// # Errors
/// It names no page of the web, or carries a credential.
pub(super) fn parse(text: &str) -> Result<Url, PictureError> {
    if text.len() > MAX_URL {
        return Err(PictureError::TooLong);
    }
    let mut url = Url::parse(text).map_err(|_| PictureError::NotAWebAddress)?;
    url.set_fragment(None);
    check(&url)?;
    Ok(url)
}

fn check(url: &Url) -> Result<(), PictureError> {
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(PictureError::NotAWebAddress);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(PictureError::Credentials);
    }
    Ok(())
}

enum Step {
    Picture(PictureBytes),
    Redirect(Url),
}

impl Fetcher {
    pub(super) fn new(client: HttpClient, opened: Vec<Cidr>) -> Self {
        Self { client, reach: Reach::new(opened) }
    }

    /// # Errors
    /// Nobody answers with a picture, in time or at all.
    pub(super) async fn get(&self, url: &Url) -> Result<PictureBytes, PictureError> {
        timeout(TOTAL_TIMEOUT, self.follow(url)).await.unwrap_or(Err(PictureError::Timeout))
    }

    /// Each step of a redirect is checked like the first.
    async fn follow(&self, url: &Url) -> Result<PictureBytes, PictureError> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            check(&url)?;
            match self.step(&url).await? {
                Step::Picture(picture) => return Ok(picture),
                Step::Redirect(to) => url = to,
            }
        }
        Err(PictureError::TooManyRedirects)
    }

    async fn step(&self, url: &Url) -> Result<Step, PictureError> {
        let request = http_client::get(url, ACCEPTED).map_err(|_| PictureError::NotAWebAddress)?;
        let stream = self.client.connect_to(url, &self.reach.find(url).await?).await?;
        http_client::exchange(stream, request, |response| read(url, response)).await
    }
}

async fn read(url: &Url, response: Response<Incoming>) -> Result<Step, PictureError> {
    if let Some(to) = redirect(url, &response) {
        return Ok(Step::Redirect(to?));
    }
    if response.status() != StatusCode::OK {
        return Err(PictureError::Status(response.status()));
    }
    let mut body = response.into_body();
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(PictureError::Http)?;
        bytes.extend_from_slice(frame.data_ref().map(|data| &**data).unwrap_or_default());
        if bytes.len() > MAX_BYTES {
            return Err(PictureError::TooLarge);
        }
        // What is no picture is not waited for.
        if bytes.len() >= DETECTION_BYTES && Format::detect(&bytes).is_none() {
            return Err(PictureError::NotAPicture);
        }
    }
    let format = Format::detect(&bytes).ok_or(PictureError::NotAPicture)?;
    Ok(Step::Picture(PictureBytes { format, bytes: bytes.freeze() }))
}

/// Where the answer sends us, when it does.
fn redirect(url: &Url, response: &Response<Incoming>) -> Option<Result<Url, PictureError>> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    // Not `to_str`: sites send raw UTF-8 in here.
    let location = String::from_utf8_lossy(response.headers().get(header::LOCATION)?.as_bytes());
    let to = url.join(&location).map_err(|_| PictureError::NotAWebAddress);
    Some(to.map(|mut to| {
        to.set_fragment(None);
        to
    }))
}
