//! Contract 3.2: login, session tokens, logout, passwords.

use cardinal_tests::{Host, OWNER, OWNER_PASSWORD, User, eventually};
use futures_util::future::join_all;
use http::Method;
use serde_json::json;

const LOGIN: &str = "/v1/admin/auth/login";
const ME: &str = "/v1/admin/auth/me";

#[tokio::test]
async fn a_login_gives_a_token_that_is_good_for_a_day() {
    let host = Host::shared().await;
    let client = host.client().from_address([127, 0, 1, 1]);
    let answer = client.post(LOGIN, &json!({"username": OWNER, "password": OWNER_PASSWORD})).await;
    let body = answer.expect(200);
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{answer}");
    assert_eq!((&body["token_type"], &body["expires_in"]), (&json!("bearer"), &json!(86400)));
    let token = body["access_token"].as_str().unwrap();
    assert!(token.starts_with("mps_") && !token.contains('.'), "{token}");
    let me = client.bearer(token).get(ME).await.expect(200);
    assert_eq!((&me["user"]["username"], &me["user"]["kind"]), (&json!(OWNER), &json!("user")), "{me}");
    assert_eq!((&me["auth"], &me["scopes"]), (&json!("hmac"), &json!(["*"])), "{me}");
    assert!(me["expires_at"].is_string(), "{me}");
}

#[tokio::test]
async fn a_wrong_name_and_a_wrong_password_look_the_same() {
    let host = Host::shared().await;
    let client = host.client().from_address([127, 0, 1, 2]);
    let refused = async |username: &str, password: &str| {
        let answer = client.post(LOGIN, &json!({"username": username, "password": password})).await;
        let mut problem = answer.refused(401, "invalid-credentials");
        problem.as_object_mut().unwrap().remove("request_id");
        problem
    };
    assert_eq!(refused(OWNER, "not the password").await, refused("nobody-here", "not the password").await);
}

#[tokio::test]
async fn characters_that_the_database_refuses_are_wrong_names_and_values() {
    let host = Host::shared().await;
    let client = host.client().from_address([127, 0, 1, 5]);
    for name in ["owner\0", "\0", "own\0er"] {
        let answer = client.post(LOGIN, &json!({"username": name, "password": OWNER_PASSWORD})).await;
        answer.refused(401, "invalid-credentials");
    }
    let owner = host.owner().await;
    let text = "a\0b";
    for (path, body) in [
        ("/v1/admin/users", json!({"username": text})),
        ("/v1/admin/api-keys", json!({"name": text, "scopes": ["cards:read"]})),
        ("/v1/admin/api-keys", json!({"name": "a", "scopes": [text]})),
    ] {
        owner.post(path, &body).await.refused(422, "validation-failed");
    }
    owner.get("/v1/admin/users?q=a%00b").await.refused(400, "invalid-request");
    let agent = client.call(Method::POST, LOGIN).header("user-agent", "\u{ff}a");
    let body = json!({"username": OWNER, "password": OWNER_PASSWORD});
    assert_eq!(agent.json(&body).send().await.status, 200);
}

#[tokio::test]
async fn a_login_names_the_field_that_is_wrong() {
    let host = Host::shared().await;
    let client = host.client().from_address([127, 0, 1, 3]);
    let wrong = client.post(LOGIN, &json!({"username": OWNER})).await.refused(422, "validation-failed");
    assert_eq!(wrong["errors"][0]["pointer"], "/password", "{wrong}");
    let unknown = json!({"username": OWNER, "password": OWNER_PASSWORD, "remember": true});
    let wrong = client.post(LOGIN, &unknown).await.refused(422, "validation-failed");
    assert_eq!(wrong["errors"][0]["pointer"], "/remember", "{wrong}");
    let form = client.call(Method::POST, LOGIN).body("application/x-www-form-urlencoded", "username=a&password=b");
    assert_eq!(form.send().await.status, 415);
}

#[tokio::test]
async fn logout_ends_this_session_at_once_and_no_other() {
    let host = Host::shared().await;
    let client = host.client().from_address([127, 0, 1, 4]);
    let (first, second) =
        (User::log_in(&client, OWNER, OWNER_PASSWORD).await, User::log_in(&client, OWNER, OWNER_PASSWORD).await);
    assert_eq!(first.call(Method::POST, "/v1/admin/auth/logout").send().await.status, 204);
    let answer = first.get(ME).await;
    assert_eq!(answer.status, 401, "{answer}");
    answer.problem();
    second.get(ME).await.expect(200);
}

#[tokio::test]
async fn no_changed_character_of_a_token_is_accepted() {
    let host = Host::shared().await;
    let token = &host.owner().await.token;
    for at in (4..token.len()).step_by(7) {
        let mut forged = token.clone().into_bytes();
        forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
        let answer = host.client().bearer(String::from_utf8(forged).unwrap()).get(ME).await;
        answer.refused(401, "invalid-token");
    }
}

#[tokio::test]
async fn many_wrong_passwords_are_throttled_and_another_address_is_not_locked_out() {
    let host = Host::settings().start().await;
    let stranger = host.client().from_address([127, 0, 2, 1]);
    let mut throttled = None;
    for attempt in 0..100 {
        let answer = stranger.post(LOGIN, &json!({"username": "victim", "password": format!("guess {attempt}")})).await;
        if answer.status == 429 {
            throttled = Some(answer);
            break;
        }
        answer.refused(401, "invalid-credentials");
    }
    throttled.expect("a hundred wrong passwords in a row are throttled").refused(429, "rate-limited");
    User::log_in(&host.client().from_address([127, 0, 2, 2]), OWNER, OWNER_PASSWORD).await;
}

/// Contract 3.2. Everybody behind a proxy that was not declared has one address.
#[tokio::test]
async fn wrong_names_from_an_address_lock_no_right_password_out() {
    let host = Host::settings().start().await;
    let shared = host.client().from_address([127, 0, 3, 1]);
    for attempt in 0..30 {
        let wrong = json!({"username": format!("nobody{attempt}"), "password": "not a password"});
        shared.post(LOGIN, &wrong).await.refused(401, "invalid-credentials");
    }
    // Who never logged in from there is held for a moment, who did is not even that.
    User::log_in(&shared, OWNER, OWNER_PASSWORD).await;
    let rounds = (0..40).map(|n| {
        let wrong = json!({"username": format!("somebody{n}"), "password": "not a password"});
        let shared = shared.clone();
        async move { shared.post(LOGIN, &wrong).await.status.as_u16() }
    });
    let guessed = join_all(rounds).await;
    assert!(guessed.iter().filter(|status| **status == 401).count() <= 5, "{guessed:?}");
    assert!(guessed.contains(&429), "{guessed:?}");
    User::log_in(&shared, OWNER, OWNER_PASSWORD).await;
}

#[tokio::test]
async fn tries_in_parallel_are_hashed_no_more_often_than_tries_in_a_row() {
    let host = Host::settings().start().await;
    let stranger = host.client().from_address([127, 0, 3, 2]);
    let tries = (0..160).map(|n| {
        let (stranger, wrong) = (stranger.clone(), json!({"username": OWNER, "password": format!("guess number {n}")}));
        async move { stranger.post(LOGIN, &wrong).await }
    });
    let answers = join_all(tries).await;
    let with = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((with(401), with(429)), (5, 155));
    let refused = answers.iter().find(|answer| answer.status == 429).unwrap();
    let wait: u32 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{refused}");
    // Elsewhere the owner gets in, as often and as parallel as it likes.
    let owner = host.client().from_address([127, 0, 3, 3]);
    join_all((0..12).map(|_| User::log_in(&owner, OWNER, OWNER_PASSWORD))).await;
}

#[tokio::test]
async fn a_proxy_that_is_not_declared_is_warned_about_once() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    for n in 0..3 {
        let call = host.client().from_address([127, 0, 3, 4]).call(Method::GET, "/healthz");
        assert_eq!(call.header("x-forwarded-for", &format!("198.51.100.{n}")).send().await.status, 200);
    }
    let system = owner.get("/v1/admin/system").await.expect(200);
    assert_eq!(system["undeclared_proxies"], json!(["127.0.3.4"]), "{system}");
    let warned = eventually("the log warns", async || {
        let warned = host.log().matches("is not in TRUSTED_PROXIES").count();
        (warned > 0).then_some(warned)
    });
    assert_eq!(warned.await, 1);
}

#[tokio::test]
async fn a_new_password_ends_every_session_and_is_kept_over_a_restart() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let other = User::log_in(&host.client(), OWNER, OWNER_PASSWORD).await;
    let change = async |current: &str, new: &str| {
        let body = json!({"current_password": current, "new_password": new});
        owner.post("/v1/admin/auth/password", &body).await
    };
    assert_eq!(change("not the password", "a new pass phrase").await.status.as_u16() / 100, 4);
    let short = change(OWNER_PASSWORD, "short").await.refused(422, "validation-failed");
    assert_eq!(short["errors"][0]["pointer"], "/new_password", "{short}");
    let key = owner.key(&["*"]).await;
    let by_key = json!({"current_password": OWNER_PASSWORD, "new_password": "a new pass phrase"});
    assert_eq!(key.post("/v1/admin/auth/password", &by_key).await.status, 403);
    assert_eq!(change(OWNER_PASSWORD, "a new pass phrase").await.status, 204);
    assert_eq!(other.get(ME).await.status, 401);

    // The bootstrap password of the settings is still the old one, and must not win.
    let host = host.restart(|settings| settings).await;
    let old = host.client().post(LOGIN, &json!({"username": OWNER, "password": OWNER_PASSWORD})).await;
    old.refused(401, "invalid-credentials");
    User::log_in(&host.client(), OWNER, "a new pass phrase").await;
}

#[tokio::test]
async fn sessions_and_data_outlive_a_restart() {
    let host = Host::settings().start().await;
    let token = host.owner().await.token.clone();
    let card = host.owner().await.card("Kept").await;
    let host = host.restart(|settings| settings).await;
    let again = host.client().bearer(token);
    let path = format!("/v1/admin/master-cards/{}", card["id"].as_str().unwrap());
    assert_eq!(again.get(&path).await.expect(200)["item"], card);
}

#[tokio::test]
async fn without_a_bootstrap_password_one_is_made_and_left_in_a_file_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    // An empty variable is no setting.
    let settings = Host::settings().set("ADMIN_BOOTSTRAP_USERNAME", "").set("ADMIN_BOOTSTRAP_PASSWORD", "");
    let host = settings.start().await;
    let file = host.data().join("bootstrap-password");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let password = std::fs::read_to_string(&file).unwrap().trim().to_owned();
    User::log_in(&host.client(), "admin", &password).await;
    assert!(!host.log().contains(&password), "the password is in the log");
}
