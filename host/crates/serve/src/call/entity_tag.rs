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
    for tag in text.split(',').map(str::trim) {
        let strong = tag.strip_prefix("W/").unwrap_or(tag);
        let inner = strong.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).ok_or_else(malformed)?;
        // A tag that isn't one of ours is well-formed and matches nothing.
        let version = inner.parse::<i64>().ok().filter(|version| entity_tag(*version) == tag);
        versions.extend(version);
    }
    Ok(Precondition::Versions(versions))
}
