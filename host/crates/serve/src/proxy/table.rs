//! Which upstream a path belongs to, and what the path becomes there. Pure.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64},
};

use anyhow::Context;
use bytes::Bytes;
use http::{
    HeaderValue, Uri,
    uri::{Authority, PathAndQuery, Scheme},
};

use cardinal_base::config::ProxyRoute;

/// A prefix and its upstream, parsed once.
pub struct Route {
    pub settings: ProxyRoute,
    pub authority: Authority,
    /// The upstream's name as a `Host`, for clients that sent none.
    pub host: HeaderValue,
    /// The prefix for the header to the upstream, where it is not part of the path they see.
    pub replaced_prefix: Option<HeaderValue>,
    pub counters: Counters,
    /// Whether its pages have been warned about.
    pub warned: AtomicBool,
}

/// What has happened on a route.
#[derive(Default)]
pub struct Counters {
    pub requests: AtomicU64,
    /// Answered 502.
    pub errors: AtomicU64,
    /// Answered 504.
    pub timeouts: AtomicU64,
    /// Answers that the upstream broke off.
    pub broken_off: AtomicU64,
    /// WebSockets and the like that were opened.
    pub tunnels: AtomicU64,
}

impl Route {
    pub fn new(settings: ProxyRoute) -> anyhow::Result<Self> {
        let authority: Authority = settings.authority.parse()?;
        let host = HeaderValue::from_str(&settings.authority)?;
        let replaced_prefix = match (&settings.base, settings.prefix.as_str()) {
            (None, _) | (_, "/") => None,
            (Some(_), prefix) => Some(HeaderValue::from_str(prefix)?),
        };
        Ok(Self {
            authority,
            host,
            replaced_prefix,
            counters: Counters::default(),
            warned: AtomicBool::new(false),
            settings,
        })
    }

    fn covers(&self, path: &str) -> bool {
        rest(&self.settings.prefix, path).is_some()
    }

    /// The address of a request there. Without a path in the upstream's address the path stays as it came; else that
    /// path stands in place of the prefix. The query is never touched.
    pub fn target(&self, uri: &Uri) -> anyhow::Result<Uri> {
        let whole = match (&self.settings.base, uri.path_and_query()) {
            (_, None) => PathAndQuery::from_static("/"),
            (None, Some(whole)) => whole.clone(),
            (Some(base), Some(whole)) => replaced(&self.settings.prefix, base, whole)?,
        };
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(whole);
        Uri::from_parts(parts).context("putting the upstream's address together")
    }

    /// A `Location` that names the upstream itself, as the client has to see it; `None` when it can stay.
    pub fn location(&self, location: &str) -> Option<String> {
        let base = self.settings.base.as_deref();
        let inside = match location.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://")) {
            Some(scheme) => {
                let rest = &location[scheme.len()..];
                let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
                if !authority.eq_ignore_ascii_case(self.authority.as_str()) {
                    return None;
                }
                path
            }
            // Its own path is only another one there when the prefix was replaced. `//` begins a host.
            None if base.is_some() && location.starts_with('/') && !location.starts_with("//") => location,
            None => return None,
        };
        let end = inside.find(['?', '#']).unwrap_or(inside.len());
        let (path, query) = inside.split_at(end);
        let prefix = self.settings.prefix.trim_end_matches('/');
        let outside = match base {
            None => path.to_owned(),
            Some(base) => format!("{prefix}{}", rest(if base.is_empty() { "/" } else { base }, path)?),
        };
        Some(if outside.is_empty() { format!("/{query}") } else { format!("{outside}{query}") })
    }
}

fn replaced(prefix: &str, base: &str, whole: &PathAndQuery) -> anyhow::Result<PathAndQuery> {
    let rest = rest(prefix, whole.path()).unwrap_or_default();
    let mut target = String::with_capacity(base.len() + whole.as_str().len() + 1);
    target.push_str(base);
    target.push_str(rest);
    if target.is_empty() {
        target.push('/');
    }
    if let Some(query) = whole.query() {
        target.push('?');
        target.push_str(query);
    }
    PathAndQuery::from_maybe_shared(Bytes::from(target)).context("putting the upstream's path together")
}

/// What follows the prefix, with its slash; `None` when the path is not below it. `/shop` has `/shop` and `/shop/x`
/// below it and not `/shopping`; `/` has everything.
fn rest<'p>(prefix: &str, path: &'p str) -> Option<&'p str> {
    let prefix = if prefix == "/" { "" } else { prefix };
    path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// All routes, the longest prefix first.
#[derive(Default)]
pub struct Table(Vec<Arc<Route>>);

impl Table {
    pub fn new(mut routes: Vec<Arc<Route>>) -> Self {
        routes.sort_by_key(|route| std::cmp::Reverse(route.settings.prefix.len()));
        Self(routes)
    }

    pub fn find(&self, path: &str) -> Option<&Arc<Route>> {
        self.0.iter().find(|route| route.covers(path))
    }

    pub fn routes(&self) -> &[Arc<Route>] {
        &self.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn route(prefix: &str, upstream: &str) -> Route {
        Route::new(ProxyRoute::parse(prefix, upstream).unwrap()).unwrap()
    }

    #[test]
    fn the_longest_prefix_wins_and_ends_where_a_segment_ends() {
        let routes = ["/shop", "/", "/shop/cart", "/shopping"].map(|prefix| Arc::new(route(prefix, "http://up")));
        let table = Table::new(routes.into());
        for (path, prefix) in [
            ("/shop", "/shop"),
            ("/shop/", "/shop"),
            ("/shop/x", "/shop"),
            ("/shop/carts", "/shop"),
            ("/shop/cart", "/shop/cart"),
            ("/shop/cart/1", "/shop/cart"),
            ("/shopping", "/shopping"),
            ("/shopper", "/"),
            ("/Shop", "/"),
            ("/", "/"),
        ] {
            assert_eq!(table.find(path).unwrap().settings.prefix, prefix, "{path}");
        }
        assert!(Table::new(vec![Arc::new(route("/shop", "http://up"))]).find("/shopping").is_none());
    }

    #[test]
    fn the_prefix_is_kept_unless_the_upstream_names_a_path() {
        for (prefix, upstream, path, target) in [
            ("/shop", "http://up:3000", "/shop/a%20b?q=1&q=2", "http://up:3000/shop/a%20b?q=1&q=2"),
            ("/shop", "http://up", "/shop", "http://up/shop"),
            ("/shop", "http://up/", "/shop", "http://up/"),
            ("/shop", "http://up/", "/shop?x", "http://up/?x"),
            ("/shop", "http://up/", "/shop/", "http://up/"),
            ("/shop", "http://up/", "/shop//a/", "http://up//a/"),
            ("/shop", "http://up/base/", "/shop/a", "http://up/base/a"),
            ("/shop", "http://up/base", "/shop", "http://up/base"),
            ("/", "http://up/base", "/", "http://up/base/"),
            ("/", "http://up/base", "/a", "http://up/base/a"),
            ("/", "http://up/", "/a", "http://up/a"),
        ] {
            let uri = path.parse().unwrap();
            assert_eq!(route(prefix, upstream).target(&uri).unwrap().to_string(), target, "{prefix}={upstream} {path}");
        }
    }

    #[test]
    fn a_redirect_to_the_upstream_itself_comes_back_through_the_proxy() {
        for (prefix, upstream, location, seen) in [
            ("/shop", "http://up:81", "http://up:81/shop/x?y#z", Some("/shop/x?y#z")),
            ("/shop", "http://up:81", "HTTP://UP:81", Some("/")),
            ("/shop", "http://up:81", "http://up/shop", None),
            ("/shop", "http://up:81", "https://up:81/shop", None),
            ("/shop", "http://up:81", "/login", None),
            ("/shop", "http://up/", "/login", Some("/shop/login")),
            ("/shop", "http://up/", "/", Some("/shop/")),
            ("/shop", "http://up/", "http://up/login?n", Some("/shop/login?n")),
            ("/shop", "http://up/", "//other/x", None),
            ("/shop", "http://up/base", "/base/x", Some("/shop/x")),
            ("/shop", "http://up/base", "/elsewhere", None),
            ("/", "http://up/base", "/base", Some("/")),
            ("/shop", "http://up/", "relative", None),
        ] {
            assert_eq!(route(prefix, upstream).location(location).as_deref(), seen, "{prefix}={upstream} {location}");
        }
    }
}
