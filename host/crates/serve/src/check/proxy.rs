//! Proxied pages that share an origin with the Admin UI: asked for, and warned about when they are HTML.

use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use http::{HeaderValue, header};
use url::Url;

use super::finding::Finding;
use cardinal_base::{
    config::{Config, ProxyRoute},
    http_client::{self, HttpClient},
};
use cardinal_store::proxy_routes::ProxyRouteRow;

/// From the look-up of the name to the answer's headers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Upstreams that are asked side by side.
const MAX_CONCURRENT_CHECKS: usize = 8;
const AGENT: &str = concat!("cardinal-check/", env!("CARGO_PKG_VERSION"));

/// Asks each upstream, those of the settings first.
pub async fn check(config: &Config, stored: &[ProxyRouteRow]) -> Vec<Finding> {
    let apart = !config.http.proxy_hosts.is_empty() || config.http.admin_listen_addr.is_some();
    let stored = stored.iter().filter_map(|line| ProxyRoute::parse(&line.prefix, &line.upstream).ok());
    let stored = stored.filter(|route| config.proxy.routes.iter().all(|own| own.prefix != route.prefix));
    let routes = config.proxy.routes.iter().cloned().chain(stored);
    let checks: Vec<_> =
        routes.map(|route| async move { to_finding(&route, apart, ask(config, &route).await) }.boxed()).collect();
    stream::iter(checks).buffered(MAX_CONCURRENT_CHECKS).collect().await
}

fn to_finding(route: &ProxyRoute, apart: bool, answer: anyhow::Result<Option<String>>) -> Finding {
    let (prefix, upstream) = (&route.prefix, route.upstream());
    match answer {
        Err(error) => Finding::warning("proxy-unreachable", prefix, "The server behind a proxy route does not answer.")
            .found(format!("{upstream}: {error:#}"))
            .fix("Start the server, or correct the route."),
        Ok(Some(kind)) if !apart && is_html(&kind) => Finding::warning(
            "proxy-serves-html",
            prefix,
            "Proxied pages share the Admin UI's origin: their scripts could act as any logged-in user.",
        )
        .found(format!("{upstream} answers {kind}"))
        .expected("pages on an origin of their own")
        .fix("Set PROXY_HOSTS or ADMIN_LISTEN_ADDR."),
        Ok(_) => Finding::ok("proxy-route", prefix, format!("{upstream} answers.")),
    }
}

fn is_html(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    ["text/html", "application/xhtml+xml", "image/svg+xml", "text/xml", "application/xml"].contains(&kind.as_str())
}

/// The media type of the page at the route's root, if it has one.
async fn ask(config: &Config, route: &ProxyRoute) -> anyhow::Result<Option<String>> {
    let outcome = tokio::time::timeout(ANSWER_TIMEOUT, exchange(config, route)).await;
    outcome.unwrap_or_else(|_| anyhow::bail!("no answer in {} s", ANSWER_TIMEOUT.as_secs()))
}

async fn exchange(config: &Config, route: &ProxyRoute) -> anyhow::Result<Option<String>> {
    let path = match &route.base {
        Some(base) => format!("{base}/"),
        None if route.prefix == "/" => "/".to_owned(),
        None => format!("{}/", route.prefix),
    };
    let url = Url::parse(&format!("http://{}{path}", route.authority))?;
    let mut request = http_client::get(&url, "text/html,*/*;q=0.8")?;
    // As a visitor's browser asks, through the host.
    let host = config.http.base_url.split_once("//").map_or("", |(_, host)| host);
    let headers = request.headers_mut();
    headers.insert(header::HOST, HeaderValue::from_str(host)?);
    headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
    let stream = HttpClient::plain().connect(&url).await?;
    http_client::exchange(stream, request, |answer| async move {
        let kind = answer.headers().get(header::CONTENT_TYPE);
        Ok(kind.map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned()))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(apart: bool, kind: Option<&str>) -> &'static str {
        let route = ProxyRoute::parse("/shop", "http://10.0.0.7").unwrap();
        to_finding(&route, apart, Ok(kind.map(str::to_owned))).code
    }

    #[test]
    fn html_beside_the_admin_ui_is_warned_about() {
        assert_eq!(code(false, Some("Text/HTML; charset=utf-8")), "proxy-serves-html");
        assert_eq!(code(false, Some("image/svg+xml")), "proxy-serves-html");
        assert_eq!(code(true, Some("text/html")), "proxy-route");
        assert_eq!(code(false, Some("application/json")), "proxy-route");
        assert_eq!(code(false, None), "proxy-route");
    }
}
