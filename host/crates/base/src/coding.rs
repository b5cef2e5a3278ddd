//! Content codings: which one a request prefers (RFC 9110 12.5.3), and what is worth encoding.

pub mod encoder;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};

/// Shorter answers fit in one packet with their head: compressing them costs time and saves none.
pub const MIN_COMPRESSED_BYTES: u64 = 1_024;

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    Zstd,
    Brotli,
    Gzip,
}

/// A weight of 1 in thousandths, which is how finely they can be given.
const FULL_WEIGHT: u16 = 1_000;

impl Coding {
    /// For what is made for one request: the quickest first.
    pub const ON_THE_FLY: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];
    /// For files that are compressed once: the smallest first.
    pub const PREPARED: [Self; 3] = [Self::Brotli, Self::Gzip, Self::Zstd];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    fn is_named(self, name: &str) -> bool {
        name.eq_ignore_ascii_case(self.name()) || (self == Self::Gzip && name.eq_ignore_ascii_case("x-gzip"))
    }

    /// Of those offered the one that the client likes best, of equals the first; `None` when it would rather have the
    /// bytes as they are, or takes none of these.
    pub fn preferred(accept_encoding: &str, offered: &[Self]) -> Option<Self> {
        let as_it_is = find_weight(accept_encoding, |name| name.eq_ignore_ascii_case("identity")).unwrap_or(0);
        let any = find_weight(accept_encoding, |name| name == "*").unwrap_or(0);
        let mut best = None;
        let mut best_weight = as_it_is.max(1);
        for coding in offered {
            let weight = find_weight(accept_encoding, |name| coding.is_named(name)).unwrap_or(any);
            if weight > best_weight || (weight == best_weight && best.is_none()) {
                (best, best_weight) = (Some(*coding), weight);
            }
        }
        best
    }
}

/// The weight of the first entry with such a name. One that cannot be understood counts as 0.
fn find_weight(accept_encoding: &str, is_it: impl Fn(&str) -> bool) -> Option<u16> {
    accept_encoding.split(',').find_map(|entry| {
        let (name, parameters) = entry.split_once(';').map_or((entry, None), |(name, rest)| (name, Some(rest)));
        is_it(name.trim()).then(|| parameters.map_or(FULL_WEIGHT, |text| weight(text).unwrap_or(0)))
    })
}

fn weight(parameters: &str) -> Option<u16> {
    let (name, value) = parameters.split_once('=')?;
    let value = value.trim();
    let is_number = value.len() <= 5 && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let weight: f32 = value.parse().ok().filter(|_| is_number && name.trim().eq_ignore_ascii_case("q"))?;
    (weight <= 1.0).then_some((weight * f32::from(FULL_WEIGHT)).round() as u16)
}

/// The request's Accept-Encoding, as one line when it came as several.
pub fn accept_encoding(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut lines = headers.get_all(header::ACCEPT_ENCODING).iter();
    let first = lines.next()?;
    if lines.next().is_none() {
        return Some(first.clone());
    }
    let lines: Vec<_> = headers.get_all(header::ACCEPT_ENCODING).iter().map(HeaderValue::as_bytes).collect();
    HeaderValue::from_bytes(&lines.join(&b", "[..])).ok()
}

/// A file that is compressed once and sent often; `None` when that saves nothing.
pub fn file(coding: Coding, bytes: &Bytes) -> Option<Bytes> {
    if (bytes.len() as u64) < MIN_COMPRESSED_BYTES {
        return None;
    }
    let shorter = encoder::small(coding, bytes).ok()?;
    (shorter.len() < bytes.len()).then(|| shorter.into())
}

/// Whether what has this media type is text; images, fonts and archives are compressed already.
pub fn shrinks(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let Some((kind, name)) = media.split_once('/') else { return false };
    let is_text = matches!(name, "json" | "x-ndjson" | "ndjson" | "jsonl" | "javascript" | "xml" | "yaml" | "wasm");
    kind == "text" || name.ends_with("+json") || name.ends_with("+xml") || (kind == "application" && is_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coding_with_the_greatest_weight_is_taken() {
        use Coding::{Brotli, Gzip, Zstd};
        for (accept_encoding, coding) in [
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("gzip, br", Some(Brotli)),
            ("GZIP", Some(Gzip)),
            ("x-gzip", Some(Gzip)),
            ("gzip;q=1.0, br;q=0.9, zstd;q=0.8", Some(Gzip)),
            ("gzip ; Q = 0.5 , br;q=0.501", Some(Brotli)),
            ("*", Some(Zstd)),
            ("*;q=0.5, zstd;q=0, br;q=0.1", Some(Gzip)),
            ("zstd;q=0.001", Some(Zstd)),
            ("identity, gzip;q=0.5", None),
            ("identity;q=0.5, gzip;q=0.5", Some(Gzip)),
            ("identity;q=0, gzip", Some(Gzip)),
            ("gzip;q=0", None),
            ("*;q=0", None),
            ("", None),
            ("deflate, compress", None),
            ("gzip;q=nan", None),
            ("gzip;q=2", None),
            ("gzip;q=-1", None),
            ("gzip;level=9", None),
            ("gzipped, br;q", None),
        ] {
            assert_eq!(Coding::preferred(accept_encoding, &Coding::ON_THE_FLY), coding, "{accept_encoding:?}");
        }
        assert_eq!(Coding::preferred("zstd, gzip", &Coding::PREPARED), Some(Gzip));
    }

    #[test]
    fn several_lines_are_one_list() {
        let mut headers = HeaderMap::new();
        assert_eq!(accept_encoding(&headers), None);
        headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        assert_eq!(accept_encoding(&headers).unwrap(), "gzip");
        headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static("zstd;q=0.5"));
        assert_eq!(accept_encoding(&headers).unwrap(), "gzip, zstd;q=0.5");
    }
}
