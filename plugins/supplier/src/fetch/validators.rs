//! How a site tells one state of a page from another, RFC 9110 8.8.

use cardinal_plugin::http::header::{
    ETAG, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
};
use url::Url;

/// Longer ones are not worth their place in the cache.
const MAX_LENGTH: usize = 512;

/// They hold for one address alone: where the page was found, after redirects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validators {
    pub url: Url,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
}

impl Validators {
    pub fn from_headers(url: Url, headers: &HeaderMap) -> Validators {
        Validators { url, etag: text(headers, ETAG), last_modified: text(headers, LAST_MODIFIED) }
    }

    /// With what a "not modified" brought anew.
    pub fn renewed(self, headers: &HeaderMap) -> Validators {
        let new = Validators::from_headers(self.url, headers);
        Validators {
            url: new.url,
            etag: new.etag.or(self.etag),
            last_modified: new.last_modified.or(self.last_modified),
        }
    }

    /// Puts the question whether the page has changed; none when the site gave nothing to ask with.
    pub fn ask(&self, headers: &mut HeaderMap) {
        for (name, value) in [(IF_NONE_MATCH, &self.etag), (IF_MODIFIED_SINCE, &self.last_modified)] {
            let value = value.as_deref().and_then(|value| HeaderValue::from_str(value).ok());
            value.into_iter().for_each(|value| drop(headers.insert(name.clone(), value)));
        }
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (!value.is_empty() && value.len() <= MAX_LENGTH).then(|| value.to_owned())
}
