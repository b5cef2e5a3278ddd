//! Entity tags in the headers of requests.

/// Whether a list of entity tags names this one, as RFC 9110 13.1.2 compares them for reading: weakly; `*` alone is
/// any.
pub(crate) fn names_tag(tags: &str, tag: &str) -> bool {
    tags.trim() == "*" || tags.split(',').map(str::trim).any(|sent| sent.strip_prefix("W/").unwrap_or(sent) == tag)
}
