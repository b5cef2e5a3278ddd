//! Contract 3.3, the provider's keys: rollover, outage, floods. Each test has a provider and a host of its own.

use cardinal_tests::{Client, Federated, Host, Provider, eventually};
use serde_json::json;

const ME: &str = "/v1/admin/auth/me";

/// Calls until told to stop; how many calls, and each answer that was not 200.
async fn load(client: Client, stop: tokio::sync::watch::Receiver<bool>) -> (usize, Vec<String>) {
    let (mut calls, mut failures) = (0, Vec::new());
    while !*stop.borrow() {
        let answer = client.get(ME).await;
        calls += 1;
        if answer.status != 200 {
            failures.push(answer.to_string());
        }
    }
    (calls, failures)
}

#[tokio::test]
async fn a_rollover_under_load_fails_no_request() {
    let all = Federated::start(|settings| settings).await;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut running = tokio::task::JoinSet::new();
    for i in 0..4 {
        running.spawn(load(all.holder(&format!("old{i}"), "cards:read").await, stopped.clone()));
    }
    // The first fetch is over once a token was accepted.
    all.holder("before", "cards:read").await.get(ME).await.expect(200);
    let before = all.provider.key_fetches().await;
    all.provider.rotate(false).await;
    // Eight strangers at once with tokens of the new key.
    for i in 0..8 {
        running.spawn(load(all.holder(&format!("new{i}"), "cards:read").await, stopped.clone()));
    }
    let newest = all.holder("newest", "cards:read").await;
    for _ in 0..50 {
        newest.get(ME).await.expect(200);
    }
    stop.send(true).unwrap();
    let outcomes = running.join_all().await;
    let calls: usize = outcomes.iter().map(|(calls, _)| calls).sum();
    let failures: Vec<_> = outcomes.into_iter().flat_map(|(_, failures)| failures).collect();
    assert!(failures.is_empty(), "{} of {calls}: {}", failures.len(), failures[0]);
    assert_eq!(all.provider.key_fetches().await - before, 1, "one fetch does for everybody");
}

#[tokio::test]
async fn a_flood_of_unknown_keys_reaches_the_provider_once() {
    let all = Federated::start(|settings| settings).await;
    let good = all.holder("good", "cards:read").await;
    good.get(ME).await.expect(200);
    let before = all.provider.key_fetches().await;
    let claims = all.provider.claims(&all.audience(), "flood", "cards:read");
    let mut tokens = Vec::new();
    for i in 0..60 {
        tokens.push(all.provider.sign(&json!({"claims": claims, "header": {"kid": format!("k{i}")}})).await);
    }
    for _ in 0..3 {
        let calls = tokens.iter().map(|token| {
            let client = all.host.client().from_address([127, 9, 9, 9]).bearer(token);
            async move { client.get(ME).await.problem()["code"].clone() }
        });
        let codes = futures_util::future::join_all(calls).await;
        assert!(codes.iter().all(|code| code == "invalid-token" || code == "rate-limited"), "{codes:?}");
    }
    assert_eq!(all.provider.key_fetches().await - before, 1);
    good.get(ME).await.expect(200);
}

#[tokio::test]
async fn an_outage_of_the_provider_logs_nobody_out() {
    let mut all = Federated::start(|settings| settings).await;
    let known = all.holder("known", "cards:read").await;
    known.get(ME).await.expect(200);
    let fresh = all.holder("fresh", "cards:read").await;
    let claims = all.provider.claims(&all.audience(), "new", "cards:read");
    let unknown = all.provider.sign(&json!({"claims": claims, "header": {"kid": "not yet known"}})).await;
    all.provider.kill().await;
    known.get(ME).await.expect(200);
    fresh.get(ME).await.expect(200);
    // It may be a new key's: nobody can say, so nobody is sent away for good.
    all.host.client().bearer(unknown).get(ME).await.refused(503, "identity-provider-unavailable");
    all.provider.come_back().await;
    all.holder("later", "cards:read").await.get(ME).await.expect(200);
}

#[tokio::test]
async fn a_provider_that_was_never_reached_is_waited_for_and_delays_nothing_else() {
    let mut provider = Provider::start().await;
    provider.kill().await;
    let host = Host::settings().set("AUTH_URL", &provider.issuer).start().await;
    host.owner().await.get(ME).await.expect(200);
    let metadata = host.client().get("/.well-known/oauth-protected-resource").await.expect(200);
    assert_eq!(metadata["authorization_servers"], json!([provider.issuer]));
    host.client().bearer("..").get(ME).await.refused(401, "invalid-token");
    provider.come_back().await;
    let all = Federated { host, provider };
    let token = all.token("patient", "cards:read").await;
    let client = all.host.client().bearer(token);
    eventually("the provider is found", async || {
        let answer = client.get(ME).await;
        if answer.status == 503 {
            answer.refused(503, "identity-provider-unavailable");
            assert_ne!(answer.header("retry-after"), Some("0"));
            return None;
        }
        Some(answer.expect(200))
    })
    .await;
}

#[tokio::test]
async fn keys_and_issuer_can_be_named_without_discovery() {
    let provider = Provider::start().await;
    let settings = Host::settings().set("OIDC_ISSUER", &provider.issuer);
    let host = settings.set("OIDC_JWKS_URL", format!("{}/jwks", provider.issuer)).start().await;
    let all = Federated { host, provider };
    all.holder("direct", "cards:read").await.get(ME).await.expect(200);
    // A withdrawn key is of no use to a token that was never seen.
    let stolen = all.token("stolen", "cards:read").await;
    all.provider.rotate(true).await;
    all.holder("after", "cards:read").await.get(ME).await.expect(200);
    all.host.client().bearer(stolen).get(ME).await.refused(401, "invalid-token");
}
