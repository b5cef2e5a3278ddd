//! Contract 2: every error code has a page that explains it, for people and for programs.

use cardinal_tests::{Client, Host, Package, PluginsFolder};
use http::Method;

/// The codes that contract 2 names.
const NAMED: [&str; 40] = [
    "invalid-request",
    "invalid-json",
    "invalid-cursor",
    "missing-token",
    "invalid-token",
    "expired-token",
    "revoked-token",
    "invalid-credentials",
    "insufficient-scope",
    "account-disabled",
    "not-found",
    "sku-taken",
    "name-taken",
    "card-in-use",
    "count-moved",
    "destructive-migration",
    "version-mismatch",
    "validation-failed",
    "kind-not-declared",
    "source-key-invalid",
    "card-too-large",
    "source-limit-exceeded",
    "rate-limited",
    "internal-error",
    "plugin-panicked",
    "plugin-error",
    "upstream-error",
    "plugin-unavailable",
    "database-unavailable",
    "identity-provider-unavailable",
    "overloaded",
    "starting",
    "draining",
    "plugin-timeout",
    "upstream-timeout",
    // Statuses of contract 2 without a name there; every error has a code all the same.
    "method-not-allowed",
    "payload-too-large",
    "uri-too-long",
    "unsupported-media-type",
    "headers-too-large",
];

async fn page(client: &Client, path: &str, accept: &str) -> cardinal_tests::Answer {
    client.call(Method::GET, path).header("accept", accept).send().await
}

#[tokio::test]
async fn every_code_is_explained_to_people_and_to_programs() {
    let host = Host::shared().await;
    let client = host.client();
    let listed = client.get("/problems").await.expect(200)["items"].clone();
    let listed: Vec<&str> = listed.as_array().unwrap().iter().map(|item| item["code"].as_str().unwrap()).collect();
    for code in NAMED {
        assert!(listed.contains(&code), "{code} of the contract is not listed");
    }
    for code in listed {
        let path = format!("/problems/{code}");
        let json = client.get(&path).await;
        let item = json.expect(200);
        assert_eq!(json.header("content-type"), Some("application/json"), "{json}");
        assert_eq!((item["code"].as_str(), json.header("vary")), (Some(code), Some("Accept")), "{json}");
        assert_eq!(item["type"], format!("{}{path}", host.url()), "{json}");
        assert!((400..600).contains(&item["status"].as_u64().unwrap()), "{json}");
        for member in ["title", "when", "what_to_do"] {
            assert!(item[member].as_str().is_some_and(|text| text.len() > 5), "{member}: {json}");
        }
        let html = page(&client, &path, "text/html,application/xhtml+xml,*/*;q=0.8").await;
        assert_eq!((html.status.as_u16(), html.header("content-type")), (200, Some("text/html; charset=utf-8")));
        assert!(html.text().contains(code) && html.text().contains("What to do"), "{html}");
    }
    page(&client, "/problems/not-found", "application/json, text/html;q=0.5").await.expect(200);
}

#[tokio::test]
async fn the_code_of_an_answer_leads_to_its_page() {
    let host = Host::shared().await;
    let problem = host.client().get("/v1/admin/auth/me").await.refused(401, "missing-token");
    let path = problem["type"].as_str().unwrap().strip_prefix(&host.url()).unwrap().to_owned();
    assert_eq!(host.client().get(&path).await.expect(200)["code"], "missing-token");
    for unknown in ["/problems/no-such-code", "/problems/%3Cscript%3E", "/problems/teapot"] {
        host.client().get(unknown).await.refused(404, "not-found");
    }
}

#[tokio::test]
async fn a_plugins_own_code_leads_to_the_plugin_that_answered_with_it() {
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    host.client().get("/problems/teapot").await.refused(404, "not-found");
    host.owner().await.get("/v1/admin/plugins/echo/teapot").await.refused(418, "teapot");
    let item = host.client().get("/problems/teapot").await.expect(200);
    assert_eq!(item["plugins"], serde_json::json!(["echo"]), "{item}");
    let html = page(&host.client(), "/problems/teapot", "text/html").await;
    assert!(html.text().contains("echo"), "{html}");
}
