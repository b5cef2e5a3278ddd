//! Addresses that a page names: its own, those of its variants, those of its images.

use url::{Position, Url};

/// Longer ones are of no use to anybody.
const MAX_LENGTH: usize = 2048;

/// More images than this are never shown, and a source of a card may weigh 256 KiB at most.
const MAX_IMAGES: usize = 50;

/// The address that a page wants to be known by, if it may have it: on its own site, and not the
/// front page, as badly set up shops say on all their pages.
pub(super) fn canonical(written: &str, base: &Url, url: &Url) -> Option<Url> {
    let mut canonical = base.join(written).ok().filter(usable)?;
    canonical.set_fragment(None);
    let front_page = canonical.path() == "/" && canonical.query().is_none() && url.path() != "/";
    let anonymous = canonical.username().is_empty() && canonical.password().is_none();
    (same_site(&canonical, url) && anonymous && !front_page).then_some(canonical)
}

/// `shop.example` and `www.shop.example` are one site; other ports than the usual are others.
fn same_site(one: &Url, other: &Url) -> bool {
    let host = |url: &Url| {
        let host = url.host_str().unwrap_or_default();
        host.strip_prefix("www.").unwrap_or(host).to_owned()
    };
    let is_inside = |inner: &str, outer: &str| inner.strip_suffix(outer).is_some_and(|rest| rest.ends_with('.'));
    let (one_host, other_host) = (host(one), host(other));
    let names = matches!((one.host(), other.host()), (Some(url::Host::Domain(_)), Some(url::Host::Domain(_))));
    one.port() == other.port()
        && (one_host == other_host
            || (names && (is_inside(&one_host, &other_host) || is_inside(&other_host, &one_host))))
}

/// Each once, absolute, in the order of the page.
pub(super) fn images(written: &[String], base: &Url) -> Vec<String> {
    let mut images: Vec<String> = Vec::new();
    for url in written.iter().filter_map(|address| base.join(address).ok()).filter(usable) {
        // The same image over http and https is one image.
        let key = &url[Position::BeforeHost..];
        let same = images.iter().position(|known| known.split_once("//").is_some_and(|(_, known)| known == key));
        match same {
            Some(known) if url.scheme() == "https" => images[known] = url.into(),
            Some(_) => {}
            None if images.len() < MAX_IMAGES => images.push(url.into()),
            None => break,
        }
    }
    images
}

fn usable(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.as_str().len() <= MAX_LENGTH
}

/// How surely something on a page is what the page's address means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Closeness {
    #[default]
    Unknown,
    /// The same page, whatever else its address says.
    Page,
    /// Its number stands in the page's address.
    Number,
    /// The page's address has all that its address has, and something more, such as a campaign.
    Contained,
    Exact,
}

/// Where we are.
pub(super) struct Place<'a> {
    pub url: &'a Url,
    pub canonical: Option<&'a Url>,
    pub base: &'a Url,
}

impl Place<'_> {
    /// Of something that names this address for itself.
    pub(super) fn closeness(&self, written: &str) -> Closeness {
        // `#product` is only a name within the page: everything on it could have one.
        if written.starts_with('#') {
            return Closeness::Unknown;
        }
        let Ok(address) = self.base.join(written) else {
            return Closeness::Unknown;
        };
        let canonical = self.canonical.is_some_and(|canonical| same_address(canonical, &address));
        let here = if same_page(self.url, &address) { query_closeness(self.url, &address) } else { Closeness::Unknown };
        here.max(if canonical { Closeness::Page } else { Closeness::Unknown })
    }

    /// Of something with this number: a SKU, the number of a variant.
    pub(super) fn closeness_of_number(&self, number: &str) -> Closeness {
        const TOO_SHORT: usize = 3; // `/de/p/1` means nothing
        if number.len() < TOO_SHORT {
            return Closeness::Unknown;
        }
        let segments = self.url.path_segments().into_iter().flatten();
        let in_path = segments.map(|segment| segment.strip_suffix(".html").unwrap_or(segment));
        let is_it = |part: &str| {
            let (start, end) = (part.get(..number.len()), part.len().checked_sub(number.len()));
            let end = end.and_then(|end| part.get(end..));
            part.eq_ignore_ascii_case(number)
                || (start.is_some_and(|start| start.eq_ignore_ascii_case(number))
                    && part[number.len()..].starts_with(['-', '_']))
                || (end.is_some_and(|end| end.eq_ignore_ascii_case(number))
                    && part[..part.len() - number.len()].ends_with(['-', '_']))
        };
        let in_query = self.url.query_pairs().any(|(_, value)| value.eq_ignore_ascii_case(number));
        if in_query || { in_path }.any(is_it) { Closeness::Number } else { Closeness::Unknown }
    }
}

fn same_address(one: &Url, other: &Url) -> bool {
    same_page(one, other) && one.query() == other.query()
}

fn same_page(one: &Url, other: &Url) -> bool {
    same_site(one, other) && one.path().trim_end_matches('/') == other.path().trim_end_matches('/')
}

fn query_closeness(here: &Url, address: &Url) -> Closeness {
    if here.query() == address.query() {
        return Closeness::Exact;
    }
    let here: Vec<_> = here.query_pairs().take(100).collect();
    if address.query().is_none_or(str::is_empty) {
        return Closeness::Page;
    }
    let contained = address.query_pairs().all(|pair| here.contains(&pair));
    if contained { Closeness::Contained } else { Closeness::Unknown }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_page_may_only_be_known_by_an_address_of_its_own_site() {
        let page = url("https://www.shop.example/chair?utm=1");
        for (written, expected) in [
            ("/oak-chair#top", Some("https://www.shop.example/oak-chair")),
            ("http://shop.example/oak-chair?id=1", Some("http://shop.example/oak-chair?id=1")),
            ("https://de.shop.example/chair", Some("https://de.shop.example/chair")),
            ("https://shop.example:8443/chair", None),
            ("https://evil.example/chair", None),
            ("https://shop.example.evil.example/chair", None),
            ("https://myshop.example/chair", None),
            ("https://u:p@shop.example/chair", None),
            ("javascript:alert(1)", None),
            ("/", None),
        ] {
            assert_eq!(canonical(written, &page, &page).as_ref().map(Url::as_str), expected, "{written}");
        }
        assert!(canonical("http://0.0.1/x", &page, &url("http://127.0.0.1/x")).is_none());
        assert!(canonical("/", &page, &url("https://www.shop.example/")).is_some());
    }

    #[test]
    fn how_close_an_address_is() {
        let (here, canonical) = (url("https://shop.example/chair?variant=2&utm=x"), url("https://shop.example/oak"));
        let place = Place { url: &here, canonical: Some(&canonical), base: &here };
        for (written, expected) in [
            ("?variant=2&utm=x#a", Closeness::Exact),
            ("http://www.shop.example/chair/?variant=2", Closeness::Contained),
            ("/chair?variant=1", Closeness::Unknown),
            ("/chair", Closeness::Page),
            ("/oak", Closeness::Page),
            ("/oak?x=1", Closeness::Unknown),
            ("#chair", Closeness::Unknown),
            ("https://other.example/chair", Closeness::Unknown),
            ("http://[", Closeness::Unknown),
        ] {
            assert_eq!(place.closeness(written), expected, "{written}");
        }
    }

    #[test]
    fn numbers_are_found_as_whole_parts() {
        let here = url("https://shop.example/p/oak-chair-OC-17.html?variant=4711");
        let place = Place { url: &here, canonical: None, base: &here };
        for number in ["oc-17", "4711"] {
            assert_eq!(place.closeness_of_number(number), Closeness::Number, "{number}");
        }
        for number in ["471", "C-17", "17", "p", "ö", "", "chair-"] {
            assert_eq!(place.closeness_of_number(number), Closeness::Unknown, "{number}");
        }
    }

    #[test]
    fn one_image_is_named_once() {
        let base = url("https://shop.example/p/");
        let written =
            ["a.jpg", "http://shop.example/p/a.jpg", "//shop.example/b.jpg", "data:image/gif;base64,R0", "/b.jpg", ""];
        let images = images(&written.map(str::to_owned), &base);
        assert_eq!(images, ["https://shop.example/p/a.jpg", "https://shop.example/b.jpg", "https://shop.example/p/"]);
    }
}
