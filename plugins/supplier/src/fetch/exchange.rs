//! One request and its answer.

use std::io::Read;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cardinal_plugin::HttpResponse;
use cardinal_plugin::http::header::{CONTENT_ENCODING, HeaderMap, HeaderValue, LOCATION, USER_AGENT};
use flate2::read::MultiGzDecoder;
use url::Url;

use super::{FetchError, Visit};

pub(super) struct Exchange<'a> {
    pub url: &'a Url,
    pub headers: HeaderMap,
    /// Of the body as it comes.
    pub max_bytes: usize,
    /// Ours for all steps together may be over before.
    pub timeout: Duration,
}

impl Exchange<'_> {
    pub(super) async fn send(self, visit: Visit<'_>) -> Result<HttpResponse, FetchError> {
        let name = HeaderValue::from_str(&visit.manners.user_agent);
        let name = name.unwrap_or(HeaderValue::from_static(super::OUR_NAME));
        let request = visit.ctx.http().get(self.url).headers(&self.headers).header(USER_AGENT, name);
        Ok(request.timeout(self.timeout).max_bytes(self.max_bytes as u64).send().await?)
    }
}

/// Where the answer sends us, when it does.
pub(super) fn redirect(url: &Url, response: &HttpResponse) -> Option<Result<Url, FetchError>> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(LOCATION)?;
    // Not `to_str`: sites send raw UTF-8 in here.
    let location = String::from_utf8_lossy(location.as_bytes());
    let to = url.join(&location).map_err(|_| FetchError::NotAWebAddress);
    Some(to.map(|mut to| {
        to.set_fragment(None);
        to
    }))
}

/// The body, unpacked, of `limit` bytes at most: on the way, where the host counts them, and unpacked alike.
pub(super) async fn body(response: HttpResponse, limit: usize) -> Result<Bytes, FetchError> {
    let gzip = is_gzip(response.headers())?;
    let body = response.bytes().await?;
    if gzip { unpack_aside(body, limit).await } else { Ok(body) }
}

/// A file that is packed itself, whatever its type says, unpacked; any other as it is.
pub(super) async fn unpacked(body: Bytes, limit: usize) -> Result<Bytes, FetchError> {
    const GZIP: &[u8] = b"\x1f\x8b";
    if body.starts_with(GZIP) { unpack_aside(body, limit).await } else { Ok(body) }
}

/// Unpacking megabytes would hold up everybody's requests on a thread of the host.
async fn unpack_aside(body: Bytes, limit: usize) -> Result<Bytes, FetchError> {
    let unpacked = tokio::task::spawn_blocking(move || unpack(&body, limit));
    unpacked.await.unwrap_or(Err(FetchError::Compressed))
}

fn is_gzip(headers: &HeaderMap) -> Result<bool, FetchError> {
    let encoding = headers.get(CONTENT_ENCODING).map(|value| value.as_bytes().to_ascii_lowercase());
    match encoding.as_deref().unwrap_or_default() {
        b"" | b"identity" => Ok(false),
        b"gzip" | b"x-gzip" => Ok(true),
        _ => Err(FetchError::Compressed),
    }
}

/// The first `limit` bytes of the body as they come; what is behind them is not waited for.
pub(super) async fn beginning(response: HttpResponse, limit: usize) -> Result<Bytes, FetchError> {
    let mut body = response.stream();
    let mut read = BytesMut::new();
    while let Some(piece) = body.next().await {
        let piece = piece?;
        read.extend_from_slice(&piece[..piece.len().min(limit - read.len())]);
        if read.len() == limit {
            break;
        }
    }
    Ok(read.freeze())
}

/// A few kilobytes can unpack to gigabytes: what is over the limit is never made.
fn unpack(packed: &[u8], limit: usize) -> Result<Bytes, FetchError> {
    let mut unpacked = Vec::new();
    let over = limit as u64 + 1;
    MultiGzDecoder::new(packed).take(over).read_to_end(&mut unpacked).map_err(|_| FetchError::Compressed)?;
    if unpacked.len() > limit { Err(FetchError::TooLarge) } else { Ok(unpacked.into()) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused_before_it_is_made() {
        let bomb = packed(&vec![0; 64 << 20]);
        assert!(bomb.len() < 1 << 20);
        assert!(matches!(unpack(&bomb, 4 << 20), Err(FetchError::TooLarge)));
        assert_eq!(unpack(&packed(b"just"), 4).unwrap(), "just");
        assert!(matches!(unpack(&packed(b"just"), 3), Err(FetchError::TooLarge)));
    }

    #[test]
    fn what_is_damaged_is_no_page() {
        let whole = packed(b"a page");
        for damaged in [&whole[..whole.len() - 9], b"", b"<html>"] {
            assert!(matches!(unpack(damaged, 1000), Err(FetchError::Compressed)));
        }
    }
}
