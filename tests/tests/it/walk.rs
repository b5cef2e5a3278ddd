//! What every request meets: error documents, the order of 401, 404, 405, request ids, HEAD, preflight, odd paths.

use cardinal_tests::Host;
use http::Method;
use serde_json::json;
use uuid::Uuid;

#[tokio::test]
async fn health_and_readiness_are_public_and_say_nothing_more() {
    let host = Host::shared().await;
    for path in ["/healthz", "/readyz"] {
        let answer = host.client().get(path).await;
        assert_eq!(answer.status, 200, "{answer}");
        assert!(answer.body.len() < 64, "{answer}");
    }
}

#[tokio::test]
async fn below_admin_who_has_no_credential_learns_nothing_of_paths_and_methods() {
    let host = Host::shared().await;
    for (method, path) in [
        (Method::GET, "/v1/admin/master-cards"),
        (Method::GET, "/v1/admin/nothing-here"),
        (Method::PUT, "/v1/admin/master-cards"),
        (Method::DELETE, "/v1/admin/auth/me"),
        (Method::GET, "/v1/admin/plugins/nobody/items"),
        (Method::GET, "/v1/admin"),
        (Method::GET, "/v1/admin/"),
    ] {
        let answer = host.client().call(method, path).send().await;
        answer.refused(401, "missing-token");
    }
}

#[tokio::test]
async fn a_credential_that_is_no_bearer_is_refused() {
    let host = Host::shared().await;
    for credential in
        ["Basic b3duZXI6cGFzcw==", "Bearer a..b", "Bearer mpk_a.b.c", "Bearer nonsense", "Bearer mps_AAAA"]
    {
        let call = host.client().call(Method::GET, "/v1/admin/auth/me").header("authorization", credential);
        let answer = call.send().await;
        assert_eq!(answer.status, 401, "{credential}: {answer}");
        answer.problem();
    }
}

#[tokio::test]
async fn a_token_in_the_address_or_in_a_cookie_is_no_credential() {
    let host = Host::shared().await;
    let token = &host.owner().await.token;
    let query = host.client().get(&format!("/v1/admin/auth/me?access_token={token}")).await;
    query.refused(401, "missing-token");
    let cookie = host.client().call(Method::GET, "/v1/admin/auth/me").header("cookie", &format!("token={token}"));
    cookie.send().await.refused(401, "missing-token");
}

#[tokio::test]
async fn with_a_credential_unknown_paths_are_404_and_wrong_methods_405() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    owner.get("/v1/admin/nothing-here").await.refused(404, "not-found");
    owner.get("/v1/admin/master-cards/").await.refused(404, "not-found");
    owner.get("/v1/admin/plugins/nobody/items").await.refused(404, "not-found");
    let answer = owner.call(Method::PUT, "/v1/admin/master-cards").json(&json!({})).send().await;
    assert_eq!(answer.status, 405, "{answer}");
    answer.problem();
    let allowed = answer.header("allow").unwrap();
    for method in ["GET", "HEAD", "POST"] {
        assert!(allowed.split(", ").any(|one| one == method), "{allowed}");
    }
}

#[tokio::test]
async fn outside_our_paths_there_is_nothing_without_a_proxy_route() {
    let host = Host::shared().await;
    host.client().get("/somewhere/else").await.refused(404, "not-found");
    host.client().get("/v1/other").await.refused(404, "not-found");
}

#[tokio::test]
async fn a_request_id_is_kept_when_it_is_well_formed_and_made_otherwise() {
    let host = Host::shared().await;
    let ask = async |id: &str| {
        let answer = host.client().call(Method::GET, "/v1/admin/auth/me").header("x-request-id", id).send().await;
        answer.problem()["request_id"].as_str().unwrap().to_owned()
    };
    assert_eq!(ask("client.7_a-B").await, "client.7_a-B");
    for odd in ["", "has space", "semi;colon", &"x".repeat(65)] {
        assert_ne!(ask(odd).await, odd);
    }
    let (first, second) = (host.client().get("/healthz").await, host.client().get("/healthz").await);
    assert_ne!(first.header("x-request-id").unwrap(), second.header("x-request-id").unwrap());
}

#[tokio::test]
async fn head_answers_as_get_does_without_the_body() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let card = owner.card("Head").await;
    let path = format!("/v1/admin/master-cards/{}", card["id"].as_str().unwrap());
    let (get, head) = (owner.get(&path).await, owner.call(Method::HEAD, &path).send().await);
    assert_eq!((head.status, head.body.len()), (get.status, 0), "{head}");
    for name in ["content-type", "content-length", "etag"] {
        assert_eq!(head.header(name), get.header(name), "{name}");
    }
    let nobody = host.client().call(Method::HEAD, &path).send().await;
    assert_eq!((nobody.status.as_u16(), nobody.body.len()), (401, 0), "{nobody}");
}

#[tokio::test]
async fn preflight_is_answered_before_authentication_to_our_own_origin_only() {
    let host = Host::shared().await;
    let ask = async |path: &str, origin: &str| {
        let call = host.client().call(Method::OPTIONS, path).header("origin", origin);
        let call = call.header("access-control-request-method", "PATCH");
        call.header("access-control-request-headers", "authorization, content-type").send().await
    };
    let own = ask("/v1/admin/master-cards", &host.url()).await;
    assert!(own.status.is_success(), "{own}");
    assert_eq!(own.header("access-control-allow-origin"), Some(host.url().as_str()), "{own}");
    let foreign = ask("/v1/admin/master-cards", "https://elsewhere.example").await;
    assert_eq!(foreign.header("access-control-allow-origin"), None, "{foreign}");
    let mcp = ask("/api", "https://elsewhere.example").await;
    assert!(mcp.status.is_success(), "{mcp}");
    assert_eq!(mcp.header("access-control-allow-origin"), Some("*"), "{mcp}");
}

#[tokio::test]
async fn a_host_that_is_not_ours_is_misdirected() {
    let host = Host::shared().await;
    let ask = async |name: &str| host.client().call(Method::GET, "/healthz").header("host", name).send().await;
    for foreign in ["evil.example", "evil.example:80", "127.0.0.1.evil.example"] {
        let answer = ask(foreign).await;
        assert_eq!(answer.status, 421, "{foreign}: {answer}");
        answer.problem();
    }
    // A page elsewhere whose name has become this machine's address gets to no tool, whatever it has found.
    let key = host.owner().await.key(&["mcp:use"]).await;
    let list = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    for (name, status) in [("evil.example", 421), (&*format!("127.0.0.1:{}", host.address().port()), 200)] {
        for path in ["/api", "/api/mcp"] {
            let call = key.call(Method::POST, path).json(&list).header("accept", "*/*").header("host", name);
            let answer = call.send().await;
            assert_eq!(answer.status, status, "{name}{path}: {answer}");
        }
    }
    let port = host.address().port();
    for ours in [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        assert_eq!(ask(&ours).await.status, 200, "{ours}");
    }
}

#[tokio::test]
async fn our_own_paths_have_one_spelling() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for odd in [
        "/%761/admin/auth/me",
        "/v1%2Fadmin/auth/me",
        "/v1/%61dmin/auth/me",
        "//v1/admin/auth/me",
        "/v1//admin/auth/me",
        "/v1/./admin/auth/me",
        "/x/../v1/admin/auth/me",
        "/v1/admin/auth/%2e%2e/auth/me",
        "/%61pi",
        "/api/../api",
    ] {
        let answer = owner.get(odd).await;
        answer.refused(400, "invalid-request");
    }
}

#[tokio::test]
async fn bodies_are_bounded_and_must_be_what_they_say() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let cards = "/v1/admin/master-cards";
    let huge = json!({"title": "x".repeat(65 << 20), "sku": "huge"});
    let answer = owner.post(cards, &huge).await;
    assert_eq!(answer.status, 413, "{}", answer.call);
    answer.problem();
    let send = async |content_type: &str, body: &[u8]| {
        owner.call(Method::POST, cards).body(content_type, body.to_vec()).send().await
    };
    send("application/json", b"{\"title\": ").await.refused(400, "invalid-json");
    send("application/json", b"").await.refused(400, "invalid-json");
    send("application/json", b"{\"title\": \"\xff\"}").await.refused(400, "invalid-json");
    let answer = send("text/plain", b"{\"title\": \"a\", \"sku\": \"b\"}").await;
    assert_eq!(answer.status, 415, "{answer}");
    answer.problem();
    for not_an_object in ["[]", "1", "\"text\"", "null"] {
        let answer = send("application/json", not_an_object.as_bytes()).await;
        assert!([400, 422].contains(&answer.status.as_u16()), "{answer}");
        answer.problem();
    }
}

#[tokio::test]
async fn two_credentials_at_once_are_refused() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let call = owner.call(Method::GET, "/v1/admin/auth/me").header_too("authorization", "Bearer mps_other");
    let answer = call.send().await;
    assert!([400, 401].contains(&answer.status.as_u16()), "{answer}");
    answer.problem();
}

#[tokio::test]
async fn an_id_that_is_no_uuid_is_not_found() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    owner.get("/v1/admin/master-cards/42").await.refused(404, "not-found");
    owner.get(&format!("/v1/admin/master-cards/{}", Uuid::now_v7())).await.refused(404, "not-found");
    owner.get("/v1/admin/api-keys/42").await.refused(404, "not-found");
}
