use serde::{Deserialize, Serialize};

use super::network;
use super::reader::Reader;

/// First segments that are the host's own, in which no proxied prefix may begin.
const OWN_SEGMENTS: [&str; 7] = ["v1", "api", "admin", "healthz", "readyz", "metrics", "problems"];
const OWN_WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// `prefix` begins with `/` and, but for `/` itself, does not end with one; `upstream` does not end with one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyRoute {
    pub prefix: String,
    pub upstream: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Proxy {
    pub routes: Vec<ProxyRoute>,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "HTTP proxy")]
#[group(skip)]
pub(super) struct Args {
    /// Path prefixes and where they go, e.g. /shop=http://10.0.0.7:3000,/=http://10.0.0.8 [default: none]
    #[arg(long, env, value_name = "ROUTES")]
    proxy_routes: Option<String>,
}

impl Proxy {
    pub(super) fn read(args: &Args, reader: &mut Reader) -> Proxy {
        let routes: Vec<ProxyRoute> = reader.list("PROXY_ROUTES", &args.proxy_routes, route);
        for (index, route) in routes.iter().enumerate() {
            if routes[..index].iter().any(|earlier| earlier.prefix == route.prefix) {
                reader.fault("PROXY_ROUTES", format!("{:?} stands there twice", route.prefix));
            }
        }
        Proxy { routes }
    }
}

fn route(text: &str) -> Result<ProxyRoute, String> {
    let bad = || format!("{text:?} is not a route such as /shop=http://10.0.0.7:3000");
    let (prefix, upstream) = text.split_once('=').ok_or_else(bad)?;
    let upstream = network::http_url(upstream)?;
    if upstream.query().is_some() || upstream.fragment().is_some() {
        return Err(format!("{text:?}: the upstream must have no query or fragment"));
    }
    Ok(ProxyRoute { prefix: path_prefix(prefix)?, upstream: upstream.as_str().trim_end_matches('/').to_owned() })
}

fn path_prefix(prefix: &str) -> Result<String, String> {
    if prefix == "/" {
        return Ok(prefix.to_owned());
    }
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/-._~!$&'()+;:@".contains(&b);
    let segments = prefix.strip_prefix('/').map(|rest| rest.split('/').collect::<Vec<_>>()).unwrap_or_default();
    let well_formed = !segments.is_empty() && segments.iter().all(|segment| !matches!(*segment, "" | "." | ".."));
    if !well_formed || !prefix.bytes().all(plain) {
        return Err(format!("{prefix:?} is not a plain path prefix such as /shop"));
    }
    if segments.first().is_some_and(|first| OWN_SEGMENTS.contains(first)) || prefix.starts_with(OWN_WELL_KNOWN) {
        return Err(format!("{prefix:?} is a path of the host itself"));
    }
    Ok(prefix.to_owned())
}
