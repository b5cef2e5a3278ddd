//! Entity tags of compressed answers.
//!
//! Each coding is a representation of its own and needs a strong tag of its own (RFC 9110 8.8.3): `"5"` becomes
//! `"5+zstd"`. Handlers and plugins never see that: what comes back in a condition loses it again, so that an
//! `If-Match` with the tag of a compressed card finds the card.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::{Coding, vary_by_coding};

/// The tag in this coding. A weak one says already that bytes may differ.
pub(super) fn append_coding(headers: &mut HeaderMap, coding: Coding) {
    let Some(tag) = headers.get(header::ETAG) else { return };
    if let Some(with_coding) = with_coding(tag, coding) {
        headers.insert(header::ETAG, with_coding);
    }
}

/// A 304 names the tag by which the client knows what it has.
pub(super) fn answer_as_known(headers: &mut HeaderMap, if_none_match: Option<&HeaderValue>, coding: Coding) {
    let tag = headers.get(header::ETAG).and_then(|tag| with_coding(tag, coding));
    let if_none_match = if_none_match.and_then(|value| value.to_str().ok());
    if let (Some(tag), Some(if_none_match)) = (tag, if_none_match)
        && if_none_match.split(',').any(|known| known.trim().as_bytes() == tag.as_bytes())
    {
        headers.insert(header::ETAG, tag);
        vary_by_coding(headers);
    }
}

fn with_coding(tag: &HeaderValue, coding: Coding) -> Option<HeaderValue> {
    let inner = tag.to_str().ok()?.strip_prefix('"')?.strip_suffix('"')?;
    HeaderValue::try_from(format!("\"{inner}{}", ending(coding))).ok()
}

/// Takes the codings out of a request's conditions, each of which is one line then. Not out of `If-Range`: a part of
/// the bytes as they are must not be put together with compressed ones.
pub(crate) fn strip_codings(headers: &mut HeaderMap) {
    for name in [header::IF_NONE_MATCH, header::IF_MATCH] {
        join_lines(headers, &name);
        let Some(text) = headers.get(&name).and_then(|value| value.to_str().ok()) else { continue };
        if !text.contains('+') {
            continue;
        }
        let plain =
            Coding::ON_THE_FLY.iter().fold(text.to_owned(), |text, coding| text.replace(&ending(*coding), "\""));
        if let Ok(plain) = HeaderValue::try_from(plain) {
            headers.insert(name, plain);
        }
    }
}

/// Several lines of a list mean the same as one with all of it (RFC 9110 5.3).
fn join_lines(headers: &mut HeaderMap, name: &HeaderName) {
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    if lines.len() < 2 {
        return;
    }
    if let Ok(whole) = HeaderValue::from_bytes(&lines.join(&b", "[..])) {
        headers.insert(name, whole);
    }
}

fn ending(coding: Coding) -> String {
    format!("+{}\"", coding.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: http::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn a_strong_tag_gets_its_coding_and_loses_it_again() {
        for (plain, compressed) in [("\"5\"", "\"5+zstd\""), ("W/\"5\"", "W/\"5\""), ("\"\"", "\"+zstd\"")] {
            let mut headers = with(header::ETAG, plain);
            append_coding(&mut headers, Coding::Zstd);
            assert_eq!(headers[header::ETAG], compressed);
            let mut request = with(header::IF_NONE_MATCH, compressed);
            strip_codings(&mut request);
            assert_eq!(request[header::IF_NONE_MATCH], plain);
        }
        let mut list = with(header::IF_MATCH, "\"4+br\", W/\"5+gzip\",\"6+other\", \"7\"");
        strip_codings(&mut list);
        assert_eq!(list[header::IF_MATCH], "\"4\", W/\"5\",\"6+other\", \"7\"");
    }

    #[test]
    fn several_lines_of_a_condition_are_one_list() {
        let mut headers = with(header::IF_MATCH, "\"1+br\", \"2\"");
        headers.append(header::IF_MATCH, HeaderValue::from_static("\"3+zstd\""));
        headers.append(header::IF_MATCH, HeaderValue::from_static("*"));
        strip_codings(&mut headers);
        let lines: Vec<_> = headers.get_all(header::IF_MATCH).iter().collect();
        assert_eq!(lines, ["\"1\", \"2\", \"3\", *"]);
    }

    #[test]
    fn an_answer_without_news_has_the_tag_that_was_asked_with() {
        for (if_none_match, coding, tag) in [
            ("\"4\", \"5+zstd\"", Coding::Zstd, "\"5+zstd\""),
            ("\"5\"", Coding::Zstd, "\"5\""),
            ("\"5+zstd\"", Coding::Gzip, "\"5\""),
        ] {
            let mut headers = with(header::ETAG, "\"5\"");
            answer_as_known(&mut headers, Some(&HeaderValue::from_static(if_none_match)), coding);
            assert_eq!(headers[header::ETAG], tag, "{if_none_match}");
        }
    }
}
