//! Contract 7, CORS: which pages of other origins may read our answers.

use cardinal_tests::{Answer, Client, Host};
use http::Method;

const TOOLS: &str = "https://tools.example.com";
const FOREIGN: &str = "https://evil.example";
const ADMIN: [&str; 4] =
    ["/v1/admin/auth/me", "/v1/admin/master-cards", "/v1/admin/plugins/supplier/items", "/v1/admin/no-such-thing"];
const ROOT: [&str; 3] = ["/api", "/api/mcp", "/.well-known/oauth-protected-resource"];

async fn preflight(client: &Client, path: &str, origin: &str) -> Answer {
    let call = client.call(Method::OPTIONS, path).header("origin", origin);
    let call = call.header("access-control-request-method", "PATCH");
    call.header("access-control-request-headers", "authorization, content-type, if-match").send().await
}

async fn get(client: &Client, path: &str, origin: &str) -> Answer {
    client.call(Method::GET, path).header("origin", origin).send().await
}

/// What a page learns of an answer; never that credentials of the browser's own would do.
fn allowed(answer: &Answer) -> Option<&str> {
    assert_eq!(answer.header("access-control-allow-credentials"), None, "{answer}");
    answer.header("access-control-allow-origin")
}

fn lists(answer: &Answer, header: &str, wanted: &[&str]) {
    let listed = answer.header(header).unwrap_or_else(|| panic!("{header} is missing: {answer}")).to_ascii_lowercase();
    let listed: Vec<&str> = listed.split(',').map(str::trim).collect();
    for name in wanted {
        assert!(listed.contains(&name.to_ascii_lowercase().as_str()), "{header} lacks {name}: {answer}");
    }
}

#[tokio::test]
async fn the_admin_api_answers_its_own_origin_and_the_listed_ones() {
    let host = Host::settings().set("ADMIN_CORS_ORIGINS", format!("{TOOLS}, http://localhost:5173")).start().await;
    let (nobody, own) = (host.client(), host.url());
    for path in ADMIN {
        for origin in [own.as_str(), TOOLS, "http://localhost:5173"] {
            let asked = preflight(&nobody, path, origin).await;
            assert_eq!((asked.status.as_u16(), allowed(&asked)), (204, Some(origin)), "{asked}");
            lists(&asked, "access-control-allow-methods", &["GET", "POST", "PUT", "PATCH", "DELETE"]);
            lists(
                &asked,
                "access-control-allow-headers",
                &["Authorization", "Content-Type", "If-Match", "If-None-Match"],
            );
            lists(&asked, "vary", &["Origin"]);
            let refused = get(&nobody, path, origin).await;
            assert_eq!((refused.status.as_u16(), allowed(&refused)), (401, Some(origin)), "{refused}");
        }
        for origin in [
            FOREIGN,
            "null",
            "https://tools.example.com:8443",
            "http://tools.example.com",
            "https://a.tools.example.com",
        ] {
            let asked = preflight(&nobody, path, origin).await;
            assert_eq!((asked.status.as_u16(), allowed(&asked)), (204, None), "{origin} {asked}");
            assert_eq!(asked.header("access-control-allow-methods"), None, "{asked}");
            let refused = get(&nobody, path, origin).await;
            assert_eq!((refused.status.as_u16(), allowed(&refused)), (401, None), "{origin} {refused}");
            lists(&refused, "vary", &["Origin"]);
        }
    }
}

#[tokio::test]
async fn the_root_answers_any_origin() {
    let host = Host::shared().await;
    for path in ROOT {
        for origin in [host.url().as_str(), FOREIGN, "null"] {
            let asked = preflight(&host.client(), path, origin).await;
            assert_eq!((asked.status.as_u16(), allowed(&asked)), (204, Some("*")), "{asked}");
            let mcp =
                ["Authorization", "Content-Type", "Accept", "Mcp-Session-Id", "MCP-Protocol-Version", "Last-Event-ID"];
            lists(&asked, "access-control-allow-headers", &mcp);
            let answer = get(&host.client(), path, origin).await;
            assert_eq!(allowed(&answer), Some("*"), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_page_may_read_the_headers_that_clients_need() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let exposed =
        ["RateLimit", "RateLimit-Policy", "Retry-After", "X-Request-Id", "ETag", "Location", "Mcp-Session-Id"];
    let own = host.url();
    let card = format!("/v1/admin/master-cards/{}", owner.card("Seen").await["id"].as_str().unwrap());
    for path in [card.as_str(), "/v1/admin/no-such-thing", "/.well-known/oauth-protected-resource"] {
        lists(&get(owner, path, &own).await, "access-control-expose-headers", &exposed);
    }
    let hasty = owner.key(&["cards:read"]).await;
    let limited = get(&hasty, "/v1/admin/api-keys", &own).await;
    assert_eq!((limited.status.as_u16(), allowed(&limited)), (403, Some(own.as_str())), "{limited}");
    lists(&limited, "access-control-expose-headers", &exposed);
}

#[tokio::test]
async fn without_an_origin_nothing_is_said_and_options_is_a_method_like_any_other() {
    let host = Host::shared().await;
    let plain = host.client().get("/v1/admin/auth/me").await;
    assert_eq!((allowed(&plain), plain.header("access-control-expose-headers")), (None, None), "{plain}");
    lists(&plain, "vary", &["Origin"]);
    let no_preflight =
        host.client().call(Method::OPTIONS, "/v1/admin/auth/me").header("origin", &host.url()).send().await;
    no_preflight.refused(401, "missing-token");
    let owner = host.owner().await;
    owner.call(Method::OPTIONS, "/v1/admin/auth/me").send().await.refused(405, "method-not-allowed");
    for page in ["/admin/", "/healthz"] {
        assert_eq!(allowed(&get(&host.client(), page, FOREIGN).await), None, "{page}");
    }
}
