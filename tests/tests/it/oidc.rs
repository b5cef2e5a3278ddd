//! Contract 3.3: JWTs of an identity provider, by a real one.

use std::process::Command;

use cardinal_tests::{Client, Federated, Host, eventually, printed_json, repository, run, unique};
use http::Method;
use serde_json::{Value, json};

const ME: &str = "/v1/admin/auth/me";
const CARDS: &str = "/v1/admin/master-cards?limit=1";
/// What a token may do at most, by default.
const ALLOWED: &str = "mcp:use cards:read plugin:*:read plugin:*:write";

/// `clients/oauth.mjs`: OAuth clients as applications have them.
pub(super) async fn oauth(arguments: &[&str]) -> Value {
    let mut command = Command::new("node");
    command.arg(repository().join("tests/clients/oauth.mjs")).args(arguments);
    printed_json(&run(command).await)
}

fn sorted(scopes: &Value) -> Vec<&str> {
    let mut scopes: Vec<_> = scopes.as_array().unwrap().iter().map(|scope| scope.as_str().unwrap()).collect();
    scopes.sort_unstable();
    scopes
}

#[tokio::test]
async fn a_machines_token_is_good_on_the_admin_api_plugin_routes_and_mcp() {
    let all = Federated::shared().await;
    let token = all.provider.client_credentials(&all.audience(), &format!("{ALLOWED} cards:write")).await;
    let machine = all.host.client().bearer(&token);
    let me = machine.get(ME).await.expect(200);
    assert_eq!(
        (&me["auth"], &me["user"]["kind"], &me["user"]["username"]),
        (&json!("jwt"), &json!("oidc"), &json!("machine"))
    );
    let mut allowed: Vec<_> = ALLOWED.split(' ').collect();
    allowed.sort_unstable();
    assert_eq!(sorted(&me["scopes"]), allowed, "{me}");
    assert!(me["expires_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{me}");
    machine.get(CARDS).await.expect(200);
    assert_eq!(machine.get("/v1/admin/plugins/unruly/who").await.expect(200)["user"]["id"], me["user"]["id"]);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for path in ["/api", "/api/mcp"] {
        let call = machine.call(Method::POST, path).json(&ping).header("accept", "application/json, text/event-stream");
        assert_ne!(call.send().await.status, 401);
    }
    // The token asked for `cards:write`; the operator's maximum has none.
    let wanted = json!({"title": "Never", "sku": unique("SKU")});
    let refused = machine.post("/v1/admin/master-cards", &wanted).await;
    assert_eq!(refused.refused(403, "insufficient-scope")["required_scope"], "cards:write");
    let challenge = refused.header("www-authenticate").unwrap();
    assert!(
        challenge.contains(r#"error="insufficient_scope""#) && challenge.contains("resource_metadata="),
        "{challenge}"
    );
    assert!(challenge.contains("cards:write") && challenge.contains("mcp:use"), "{challenge}");
}

#[tokio::test]
async fn a_person_logs_in_by_code_and_pkce_and_is_the_same_user_each_time() {
    let all = Federated::shared().await;
    let audience = all.audience();
    let login = unique("person");
    let mut ids = Vec::new();
    for scopes in ["cards:read", "cards:read mcp:use"] {
        let answer = oauth(&["code", &all.provider.issuer, &audience, scopes, &login]).await;
        let person = all.host.client().bearer(answer["access_token"].as_str().unwrap_or_else(|| panic!("{answer}")));
        let me = person.get(ME).await.expect(200);
        assert_eq!(me["user"]["username"], json!(login));
        assert_eq!(me["scopes"].as_array().unwrap().len(), scopes.split(' ').count(), "{me}");
        ids.push(me["user"]["id"].clone());
        // What a token is for is not what it identifies: an ID token is no access token.
        let identity = all.host.client().bearer(answer["id_token"].as_str().unwrap());
        identity.get(ME).await.refused(401, "invalid-token");
    }
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn a_tool_leads_an_oauth_client_to_the_token_that_it_needs() {
    let all = Federated::shared().await;
    let call = async |client: &Client, path: &str, tool: &str| {
        let params = json!({"name": tool, "arguments": {}});
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        client
            .call(Method::POST, path)
            .json(&message)
            .header("accept", "application/json, text/event-stream")
            .send()
            .await
    };
    let subject = unique("agent");
    let held = "mcp:use cards:read";
    let client = all.holder(&subject, held).await;
    let refused = call(&client, "/api", "plugin_supplier_preview").await;
    assert_eq!(refused.status, 403, "{refused}");
    let body = refused.json();
    assert_eq!((&body["id"], &body["error"]["code"]), (&json!(7), &json!(-32602)), "{body}");
    assert!(body["error"]["message"].as_str().unwrap().contains("`plugin:supplier:read`"), "{body}");
    let challenge = refused.header("www-authenticate").unwrap();
    assert!(
        challenge.contains(r#"error="insufficient_scope""#) && challenge.contains("resource_metadata="),
        "{challenge}"
    );
    // All of it: a client that asks for just this keeps what it has.
    let wanted = challenge.split("scope=\"").nth(1).unwrap().split('"').next().unwrap();
    let mut union: Vec<_> = wanted.split(' ').collect();
    union.sort_unstable();
    assert_eq!(union, ["cards:read", "mcp:use", "plugin:supplier:read"], "{challenge}");
    let wider = all.holder(&subject, wanted).await;
    assert_eq!(call(&wider, "/api", "plugin_supplier_preview").await.status, 200);
    // Where no token helps, the tool is not there: beyond the operator's maximum, off the connection, for a key.
    let key = all.host.owner().await.key(&["mcp:use", "cards:read"]).await;
    for (client, path, tool) in [
        (&client, "/api", "cards_create"),
        (&client, "/api", "no_such_tool"),
        (&client, "/api?tools=cards_*", "plugin_supplier_preview"),
        (&client, "/api?readonly=true", "plugin_supplier_enrich"),
        (&*key, "/api", "plugin_supplier_preview"),
    ] {
        let unknown = call(client, path, tool).await;
        assert_eq!(
            (unknown.status.as_u16(), &unknown.json()["error"]["code"]),
            (200, &json!(-32602)),
            "{path} {tool}: {unknown}"
        );
    }
}

#[tokio::test]
async fn clients_are_led_to_the_provider() {
    let all = Federated::shared().await;
    let metadata = format!("{}/.well-known/oauth-protected-resource/api", all.host.url());
    for path in ["/api", "/api/mcp", ME] {
        let missing = all.host.client().get(path).await;
        missing.refused(401, "missing-token");
        let challenge = missing.header("www-authenticate").unwrap();
        assert!(challenge.contains(&format!(r#"resource_metadata="{metadata}""#)), "{challenge}");
        assert!(!challenge.contains("error="), "{challenge}");
        let bad = all.host.client().bearer("a.b.c").get(path).await;
        bad.refused(401, "invalid-token");
        assert!(bad.header("www-authenticate").unwrap().contains(r#"error="invalid_token""#), "{bad}");
    }
    for path in ["", "/api", "/api/mcp"] {
        let answer = all.host.client().get(&format!("/.well-known/oauth-protected-resource{path}")).await.expect(200);
        assert_eq!(answer["resource"], json!(all.audience()));
        assert_eq!(answer["authorization_servers"], json!([all.provider.issuer]));
        assert_eq!(answer["bearer_methods_supported"], json!(["header"]));
        assert!(answer["scopes_supported"].as_array().unwrap().contains(&json!("mcp:use")), "{answer}");
    }
}

#[tokio::test]
async fn what_is_not_signed_by_the_provider_with_es384_is_refused() {
    let all = Federated::shared().await;
    let stranger = all.host.client().from_address([127, 9, 1, 1]);
    let claims = all.provider.claims(&all.audience(), "mallory", ALLOWED);
    let with = async |how: &str| all.provider.sign(&json!({"claims": claims, "with": how})).await;
    all.host.client().bearer(with("current").await).get(ME).await.expect(200);
    for how in ["forged", "hs256", "none", "ES256", "RS256"] {
        stranger.bearer(with(how).await).get(ME).await.refused(401, "invalid-token");
    }
    // The header claims ES384, the signature is of something else.
    for how in ["hs256", "none", "ES256", "RS256"] {
        let token = all.provider.sign(&json!({"claims": claims, "with": how, "header": {"alg": "ES384"}})).await;
        stranger.bearer(token).get(ME).await.refused(401, "invalid-token");
    }
}

#[tokio::test]
async fn headers_and_claims_that_are_not_in_order_are_refused() {
    let all = Federated::shared().await;
    let stranger = all.host.client().from_address([127, 9, 1, 2]);
    let now = time::OffsetDateTime::now_utc().unix_timestamp();
    let refused = async |header: Value, changed: Value, code: &str| {
        let mut claims = all.provider.claims(&all.audience(), "mallory", ALLOWED);
        claims.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        let token = all.provider.sign(&json!({"header": header, "claims": claims})).await;
        let answer = stranger.bearer(&token).get(ME).await;
        assert_eq!(answer.problem()["code"], code, "{header} {changed}: {answer}");
        let signature = token.rsplit_once('.').unwrap().1;
        assert!(!answer.text().contains(signature) && !all.host.log().contains(signature), "{answer}");
    };
    for header in [json!({"crit": ["exp"]}), json!({"typ": "logout+jwt"}), json!({"b64": false}), json!({"kid": "?"})] {
        refused(header, json!({}), "invalid-token").await;
    }
    for changed in [
        json!({"aud": "http://127.0.0.1:1/api"}),
        json!({"aud": all.host.url()}),
        json!({"iss": "https://evil.example.com"}),
        json!({"iss": [all.provider.issuer]}),
        json!({"sub": ""}),
        json!({"sub": null}),
        json!({"sub": "nul\u{0}"}),
        json!({"exp": null}),
        json!({"nbf": now + 120}),
        json!({"iat": now + 120}),
        json!({"iat": 4_102_444_800_i64}),
    ] {
        refused(json!({}), changed, "invalid-token").await;
    }
    refused(json!({}), json!({"exp": now - 60}), "expired-token").await;
    // The client is not told why; the operator is.
    let reason = "it is meant for another audience";
    eventually("the log says why", async || all.host.log().contains(reason).then_some(())).await;
    // Clocks differ a little, and audiences may be several.
    let mut claims = all.provider.claims("x", "tolerated", "cards:read");
    claims["aud"] = json!(["https://other.example.com", all.audience()]);
    claims["exp"] = json!(now - 5);
    claims["nbf"] = json!(now + 5);
    let token = all.provider.sign(&json!({"claims": claims})).await;
    all.host.client().bearer(token).get(ME).await.expect(200);
}

#[tokio::test]
async fn detection_never_falls_through() {
    let all = Federated::shared().await;
    let token = all.token("edges", ALLOWED).await;
    let good = all.host.client().from_address([127, 9, 1, 3]);
    // The scheme is written in any case.
    let lower = good.call(Method::GET, ME).header("authorization", &format!("bearer {token}")).send().await;
    lower.expect(200);
    let long = format!("{token}{}", "x".repeat(9 * 1024));
    let owner = all.host.owner().await;
    for credential in
        ["..", "a..b", "a.b.c", &format!("mpk_{token}"), &format!("{}.x.y", owner.token), &format!("{token}.x"), &long]
    {
        good.bearer(credential).get(ME).await.refused(401, "invalid-token");
    }
    let two = good.bearer(&token).call(Method::GET, ME).header_too("authorization", &format!("Bearer {token}"));
    two.send().await.refused(401, "invalid-token");
    // Nor is it looked for anywhere else.
    let query = good.get(&format!("{ME}?access_token={token}")).await;
    query.refused(401, "missing-token");
    let cookie = good.call(Method::GET, ME).header("cookie", &format!("access_token={token}")).send().await;
    cookie.refused(401, "missing-token");
}

#[tokio::test]
async fn first_requests_at_once_make_one_user_and_one_name_belongs_to_one() {
    let all = Federated::shared().await;
    let subject = unique("crowd");
    let token = all.token(&subject, "cards:read").await;
    let calls = (0..20).map(|_| {
        let client = all.host.client().bearer(&token);
        async move { client.get(ME).await.expect(200)["user"]["id"].clone() }
    });
    let ids = futures_util::future::join_all(calls).await;
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    // Whoever calls himself like the owner isn't taken for him.
    let named = async |subject: &str| {
        let mut claims = all.provider.claims(&all.audience(), subject, "cards:read");
        claims["preferred_username"] = json!(" OWNER\u{202e}\n");
        let token = all.provider.sign(&json!({"claims": claims})).await;
        let me = all.host.client().bearer(token).get(ME).await.expect(200);
        me["user"]["username"].as_str().unwrap().to_owned()
    };
    let (first, second) = (named(&unique("a")).await, named(&unique("b")).await);
    assert!(first.starts_with("OWNER (") && first != second, "{first} {second}");
    let long = all.holder(&"é".repeat(120), "cards:read").await;
    assert!(long.get(ME).await.expect(200)["user"]["username"].as_str().unwrap().chars().count() <= 120);
}

#[tokio::test]
async fn a_token_never_raises_its_own_rights() {
    let everything = "* mcp:approve keys:write users:write cards:write mcp:use";
    let all =
        Federated::start(|settings| settings.set("OIDC_MAX_SCOPES", "mcp:use keys:write cards:read mcp:approve")).await;
    let holder = all.holder("climber", everything).await;
    let me = holder.get(ME).await.expect(200);
    assert_eq!(sorted(&me["scopes"]), ["cards:read", "keys:write", "mcp:use"], "{me}");
    let key = |scopes: Value| json!({"name": unique("key"), "scopes": scopes});
    for scopes in [json!(["*"]), json!(["cards:write"]), json!(["mcp:approve"]), json!(["users:write"])] {
        let answer = holder.post("/v1/admin/api-keys", &key(scopes)).await;
        assert!(matches!(answer.status.as_u16(), 403 | 422), "{answer}");
    }
    // What it may give, its key may do, and no more.
    let made = holder.post("/v1/admin/api-keys", &key(json!(["cards:read"]))).await.expect(201);
    let made = all.host.client().bearer(made["key"].as_str().unwrap());
    made.get(CARDS).await.expect(200);
    made.post("/v1/admin/api-keys", &key(json!(["cards:read"]))).await.refused(403, "insufficient-scope");
    let passwords = json!({"current_password": "x", "new_password": "long enough a password"});
    holder.post("/v1/admin/auth/password", &passwords).await.refused(403, "forbidden");
    // Nothing to log out of here: the session is the provider's.
    assert_eq!(holder.post("/v1/admin/auth/logout", &json!({})).await.status, 400);
}

#[tokio::test]
async fn a_host_without_a_provider_accepts_no_jwt() {
    let host = Host::shared().await;
    host.client().bearer("a.b.c").get(ME).await.refused(401, "invalid-token");
    let metadata = host.client().get("/.well-known/oauth-protected-resource").await.expect(200);
    assert!(metadata.get("authorization_servers").is_none(), "{metadata}");
    assert_eq!(metadata["resource"], json!(format!("{}/api", host.url())));
}

#[tokio::test]
async fn a_role_that_an_administrator_gives_narrows_what_a_token_may() {
    let all = Federated::shared().await;
    let holder = all.holder(&unique("narrowed"), ALLOWED).await;
    let user = format!("/v1/admin/users/{}", holder.get(ME).await.expect(200)["user"]["id"].as_str().unwrap());
    let owner = all.host.owner().await;
    owner.patch(&user, &json!({"role": "viewer"})).await.expect(200);
    let me = holder.get(ME).await.expect(200);
    assert_eq!(sorted(&me["scopes"]), ["cards:read", "plugin:*:read"], "{me}");
    // A role never gives what the token doesn't hold.
    owner.patch(&user, &json!({"role": "owner"})).await.expect(200);
    assert_eq!(holder.get(ME).await.expect(200)["scopes"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn a_disabled_or_deleted_user_is_refused_on_every_host_and_stays_known() {
    let all = Federated::shared().await;
    // A token for both hosts: their addresses differ, so their audiences do.
    let other = all.host.beside().set("AUTH_URL", &all.provider.issuer).start().await;
    let subject = unique("gone");
    let mut claims = all.provider.claims("", &subject, ALLOWED);
    claims["aud"] = json!([all.audience(), format!("{}/api", other.url())]);
    let token = all.provider.sign(&json!({"claims": claims})).await;
    let (here, there) = (all.host.client().bearer(&token), other.client().bearer(&token));
    let id = here.get(ME).await.expect(200)["user"]["id"].clone();
    assert_eq!(there.get(ME).await.expect(200)["user"]["id"], id);
    let user = format!("/v1/admin/users/{}", id.as_str().unwrap());
    let owner = all.host.owner().await;

    owner.patch(&user, &json!({"disabled": true})).await.expect(200);
    here.get(ME).await.refused(403, "account-disabled");
    let begun = std::time::Instant::now();
    eventually("the other host knows", async || (there.get(ME).await.status == 403).then_some(())).await;
    assert!(begun.elapsed().as_secs() < 7, "{:?}", begun.elapsed());

    owner.patch(&user, &json!({"disabled": false})).await.expect(200);
    here.get(ME).await.expect(200);
    owner.delete(&user).await.expect(204);
    here.get(ME).await.refused(403, "account-disabled");
    // Nor does a new token make a new user of it.
    all.holder(&subject, ALLOWED).await.get(ME).await.refused(403, "account-disabled");
}
