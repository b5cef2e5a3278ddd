//! Versions as entity tags: what an answer says, and what a request demands.

use http::{HeaderValue, header};

use super::CallHead;
use crate::http::{
    entity_tag::names_tag,
    error::{ApiError, ApiResult},
    reply::Reply,
};
use cardinal_base::codes;
use cardinal_store::cards::Precondition;

pub(crate) fn with_etag(mut reply: Reply, version: i64) -> ApiResult<Reply> {
    let tag = HeaderValue::try_from(entity_tag(version)).map_err(ApiError::internal)?;
    reply.headers_mut().insert(header::ETAG, tag);
    Ok(reply)
}

/// Whether a list of entity tags names this version; weak ones count for reading.
pub(crate) fn names_version(tags: &str, version: i64) -> bool {
    names_tag(tags, &entity_tag(version))
}

fn entity_tag(version: i64) -> String {
    format!("\"{version}\"")
}

/// `If-Match`, compared strongly: a weak tag never matches.
pub(crate) fn if_match(call: &CallHead) -> ApiResult<Precondition> {
    let Some(value) = call.headers.get(header::IF_MATCH) else { return Ok(Precondition::None) };
    let malformed = || ApiError::new(&codes::INVALID_REQUEST).detail("If-Match is a list of entity tags or `*`.");
    let text = value.to_str().map_err(|_| malformed())?.trim();
    if text == "*" {
        return Ok(Precondition::Exists);
    }
    let mut versions = Vec::new();
    for tag in tags(text) {
        let tag = tag.ok_or_else(malformed)?;
        // A tag that isn't one of ours is well-formed and matches nothing.
        let inner = tag.trim_matches('"').parse::<i64>().ok();
        versions.extend(inner.filter(|version| entity_tag(*version) == tag));
    }
    Ok(Precondition::Versions(versions))
}

/// The tags of a list, in which elements may be empty and tags may have commas (RFC 9110 5.6.1, 8.8.3). None is
/// something else.
fn tags(list: &str) -> impl Iterator<Item = Option<&str>> {
    let mut rest = Some(list);
    std::iter::from_fn(move || {
        let text = rest?.trim_start_matches([',', ' ', '\t']);
        if text.is_empty() {
            return None;
        }
        let quote = if text.starts_with("W/") { 2 } else { 0 };
        let end = text.get(quote..).and_then(|tag| tag.strip_prefix('"')?.find('"')).map(|length| quote + length + 2);
        let behind = end.map(|end| text[end..].trim_start());
        rest = behind.filter(|behind| behind.is_empty() || behind.starts_with(','));
        Some(rest.and(end).map(|end| &text[..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_tags_is_read_as_http_has_it() {
        let read = |list: &'static str| tags(list).collect::<Vec<_>>();
        assert_eq!(read(r#""1""#), [Some(r#""1""#)]);
        assert_eq!(read(r#" "a,b" ,W/"2",, "3", "#), [Some(r#""a,b""#), Some(r#"W/"2""#), Some(r#""3""#)]);
        for odd in ["1", "\"1", "W/1", "\"1\" \"2\"", "w/\"1\"", "*, \"1\"", "ü"] {
            assert_eq!(read(odd).last(), Some(&None), "{odd}");
        }
        assert!(read(" ,").is_empty());
    }
}
