//! What a start tag says.

use html5gum::StartTag;

/// The value of an attribute without the white space around it.
pub(super) fn attribute(tag: &StartTag<()>, name: &[u8]) -> Option<String> {
    let value = tag.attributes.get(name)?;
    Some(String::from_utf8_lossy(value).trim().to_owned())
}
