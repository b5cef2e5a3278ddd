//! Contract 2, 3.1: so many calls a key, a user, an address may make, on one host and on several.

use std::time::{Duration, Instant};

use cardinal_tests::{Answer, Client, Host, OWNER, OWNER_PASSWORD, User, eventually, unique};
use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};

const ME: &str = "/v1/admin/auth/me";
const LOGIN: &str = "/v1/admin/auth/login";

/// A key that no call was made with yet: its id, and a client that shows it.
async fn key(owner: &User, scopes: &[&str], rate_limit: Value) -> (String, Client) {
    let wanted = json!({"name": unique("limited"), "scopes": scopes, "rate_limit": rate_limit});
    let made = owner.make_key(wanted).await;
    let id = made["item"]["id"].as_str().unwrap().to_owned();
    (id, owner.bearer(made["key"].as_str().unwrap()))
}

/// `(name, remaining, seconds)` of `RateLimit: "name";r=…;t=…`.
#[track_caller]
fn standing(answer: &Answer) -> (String, u64, u64) {
    let header = answer.header("ratelimit").unwrap_or_else(|| panic!("RateLimit is missing: {answer}"));
    let parts: Vec<&str> = header.split(';').collect();
    let number = |at: usize, name: &str| parts[at].strip_prefix(name).unwrap().parse().unwrap();
    (parts[0].trim_matches('"').to_owned(), number(1, "r="), number(2, "t="))
}

#[track_caller]
fn limited(answer: &Answer) -> u64 {
    answer.refused(429, "rate-limited");
    assert_eq!(standing(answer).1, 0, "{answer}");
    answer.header("retry-after").unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_key_makes_its_burst_of_calls_and_hears_with_each_how_many_are_left() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let (_, limited_key) = key(owner, &["cards:read"], json!({"per_minute": 6, "burst": 4})).await;
    for left in [3, 2, 1] {
        let answer = limited_key.get(ME).await;
        assert_eq!(answer.status, 200, "{answer}");
        assert_eq!(answer.header("ratelimit-policy"), Some(r#""key";q=6;w=60;cardinal-burst=4"#), "{answer}");
        assert_eq!((standing(&answer).0.as_str(), standing(&answer).1), ("key", left), "{answer}");
    }
    let forbidden = limited_key.get("/v1/admin/api-keys").await;
    forbidden.refused(403, "insufficient-scope");
    assert_eq!(standing(&forbidden).1, 0, "what is refused has cost a call: {forbidden}");
    for path in [ME, "/v1/admin/nowhere", "/v1/admin/plugins/supplier/items"] {
        let wait = limited(&limited_key.get(path).await);
        assert!((1..=10).contains(&wait), "{path}: {wait}");
    }
    let (_, other) = key(owner, &["cards:read"], json!({"per_minute": 6, "burst": 4})).await;
    assert_eq!(other.get(ME).await.status, 200, "another key of the same owner has its own");
    assert_eq!(standing(&owner.get(ME).await).0, "user");
}

#[tokio::test]
async fn whoever_waits_as_told_gets_in_and_asking_in_vain_costs_nothing() {
    let host = Host::shared().await;
    let (_, hasty) = key(host.owner().await, &["cards:read"], json!({"per_minute": 60, "burst": 1})).await;
    let begun = Instant::now();
    let both = tokio::join!(hasty.get(ME), hasty.get(ME));
    let mut both = [both.0.status.as_u16(), both.1.status.as_u16()];
    both.sort_unstable();
    assert_eq!(both, [200, 429]);
    eventually("a second brings another call", async || {
        let answer = hasty.get(ME).await;
        if answer.status == 200 {
            return Some(());
        }
        assert_eq!(limited(&answer), 1);
        None
    })
    .await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_key_without_a_limit_hears_of_none_and_default_and_burst_are_those_of_the_settings() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    for none in [json!(null), json!({"per_minute": null})] {
        let (_, free) = key(owner, &["cards:read"], none).await;
        let answer = free.get(ME).await;
        let (policy, limit) = (answer.header("ratelimit-policy"), answer.header("ratelimit"));
        assert_eq!((answer.status.as_u16(), policy, limit), (200, None, None), "{answer}");
    }
    let policy = async |client: &Client| client.get(ME).await.header("ratelimit-policy").unwrap().to_owned();
    let usual = owner.key(&["cards:read"]).await;
    assert_eq!(policy(&usual).await, r#""key";q=6000;w=60;cardinal-burst=600"#);
    let (_, tenth) = key(owner, &["cards:read"], json!({"per_minute": 50})).await;
    assert_eq!(policy(&tenth).await, r#""key";q=50;w=60;cardinal-burst=5"#);
    assert_eq!(policy(owner).await, r#""user";q=60000;w=60;cardinal-burst=6000"#, "a session has ten times as much");
}

#[tokio::test]
async fn all_sessions_of_a_user_have_one_limit() {
    let host = Host::settings().set("API_KEY_RATE_PER_MINUTE", "2").start().await;
    let one = User::log_in(&host.client(), OWNER, OWNER_PASSWORD).await; // 20 a minute, 2 at once; one is spent
    let answer = host.client().post(LOGIN, &json!({"username": OWNER, "password": OWNER_PASSWORD})).await.expect(200);
    let two = host.client().bearer(answer["access_token"].as_str().unwrap());
    let mut refused = false;
    for turn in 0..6 {
        let answer = if turn % 2 == 0 { two.get(ME).await } else { one.get(ME).await };
        assert_eq!(standing(&answer).0, "user");
        refused |= answer.status == 429;
    }
    assert!(refused, "six more calls at once were let through");
}

#[tokio::test]
async fn every_message_to_the_mcp_endpoint_counts() {
    let host = Host::shared().await;
    let (_, agent) = key(host.owner().await, &["mcp:use"], json!({"per_minute": 6, "burst": 3})).await;
    let say = async || {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let call = agent.call(Method::POST, "/api").json(&message);
        call.header("accept", "application/json, text/event-stream").send().await
    };
    for left in [2, 1, 0] {
        let answer = say().await;
        assert_eq!((answer.status.as_u16(), standing(&answer).1), (200, left), "{answer}");
    }
    limited(&say().await);
}

#[tokio::test]
async fn an_address_that_fails_is_shut_out_before_its_credential_is_looked_at() {
    let host = Host::shared().await;
    let key = host.owner().await.key(&["cards:read"]).await;
    let stranger = host.client().from_address([127, 0, 7, 1]);
    let noise = stranger.bearer("nobody-has-this");
    // Many at a time: the budget refills by twenty a second, and on a busy machine one alone is no faster.
    let at_once = async || join_all((0..20).map(|_| noise.get(ME))).await;
    let mut failures = 0;
    let refused = loop {
        let answers = at_once().await;
        for answer in &answers {
            assert_eq!(standing(answer).0, "address");
            if answer.status == 401 {
                answer.refused(401, "invalid-token");
                failures += 1;
            }
        }
        if let Some(refused) = answers.into_iter().find(|answer| answer.status != 401) {
            break refused;
        }
        assert!(failures < 5_000, "nobody stops it");
    };
    assert!(failures >= 600, "a few mistakes are forgiven: {failures}");
    assert!(limited(&refused) <= 2);
    // The budget refills by itself, so that the noise has to go on.
    let shut = async |client: &Client, path: &str| {
        let noise = async {
            loop {
                at_once().await;
            }
        };
        let asking = async {
            for _ in 0..500 {
                if client.get(path).await.status == 429 {
                    return true;
                }
            }
            false
        };
        tokio::select! {
            () = noise => false,
            is_shut = asking => is_shut,
        }
    };
    assert!(shut(&stranger.bearer(key.token.clone()), ME).await, "a good key as well");
    assert!(shut(&stranger, "/.well-known/oauth-protected-resource").await, "what is public as well");
    for open in ["/healthz", "/readyz", "/admin/"] {
        assert_ne!(stranger.get(open).await.status, 429, "{open}");
    }
    let preflight = stranger.call(Method::OPTIONS, ME).header("origin", &host.url());
    assert_eq!(preflight.header("access-control-request-method", "GET").send().await.status, 204);
    assert_eq!(key.get(ME).await.status, 200, "its neighbours");
    let back = stranger.bearer(key.token.clone());
    eventually("the address is let in again", async || (back.get(ME).await.status == 200).then_some(())).await;
}

#[tokio::test]
async fn a_flood_of_logins_never_slows_the_api() {
    let host = Host::settings().start().await;
    let key = host.owner().await.key(&["cards:read"]).await;
    let quiet = slowest(&key, 50).await;
    // More than wait for their turn.
    let flood: Vec<_> = (0..320u16)
        .map(|guest| {
            let [network, address] = [(8 + guest / 200) as u8, (guest % 200 + 1) as u8];
            let client = host.client().from_address([127, 0, network, address]);
            tokio::spawn(async move {
                let mut turned_away = 0;
                for attempt in 0..4 {
                    let guess = json!({"username": format!("user {guest} {attempt}"), "password": "wrong password"});
                    let answer = client.post(LOGIN, &guess).await;
                    assert!([401, 429, 503].contains(&answer.status.as_u16()), "{answer}");
                    turned_away += usize::from(answer.status == 503);
                }
                turned_away
            })
        })
        .collect();
    let busy = slowest(&key, 50).await;
    let mut turned_away = 0;
    for client in flood {
        turned_away += client.await.unwrap();
    }
    assert!(turned_away > 0, "the queue for passwords has an end");
    // Generous: the machine is shared, and its cores are what the flood is after.
    assert!(busy < quiet * 20 + Duration::from_secs(1), "{quiet:?} became {busy:?}");
}

async fn slowest(client: &Client, calls: usize) -> Duration {
    let mut slowest = Duration::ZERO;
    for _ in 0..calls {
        let begun = Instant::now();
        client.get("/v1/admin/master-cards?limit=1").await.expect(200);
        slowest = slowest.max(begun.elapsed());
    }
    slowest
}

/// Calls as fast as they go, on both hosts at once; what was let through on each.
async fn hammer(clients: [&Client; 2], lasting: Duration) -> [u64; 2] {
    let begun = Instant::now();
    let counts = clients.map(|client| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut admitted = 0;
            while begun.elapsed() < lasting {
                let answer = client.get(ME).await;
                match answer.status.as_u16() {
                    200 => admitted += 1,
                    _ => drop(limited(&answer)),
                }
            }
            admitted
        })
    });
    let [one, two] = counts;
    [one.await.unwrap(), two.await.unwrap()]
}

async fn one_budget_on_two_hosts(lasting: Duration) {
    let (per_minute, burst) = (1_200, 40);
    let one = Host::settings().start().await;
    let two = one.beside().start().await;
    let (id, here) = key(one.owner().await, &["cards:read"], json!({"per_minute": per_minute, "burst": burst})).await;
    let there = two.client().bearer(here.token());
    let begun = Instant::now();
    let admitted = hammer([&here, &there], lasting).await;
    let total: u64 = admitted.iter().sum();
    let rate = f64::from(per_minute) / 60.0;
    let allowed = f64::from(burst) + begun.elapsed().as_secs_f64() * rate;
    let off = total as f64 - allowed;
    assert!(off.abs() <= allowed * 0.1, "{admitted:?} of {allowed}");
    assert!(admitted.iter().all(|part| *part > total / 10), "neither starves: {admitted:?}");

    // A change is known to the other host within five seconds.
    let begun = Instant::now();
    one.owner().await.patch(&format!("/v1/admin/api-keys/{id}"), &json!({"rate_limit": null})).await.expect(200);
    assert_eq!(here.get(ME).await.header("ratelimit"), None, "at once where it was made");
    eventually("the change reaches the other host", async || {
        there.get(ME).await.header("ratelimit").is_none().then_some(())
    })
    .await;
    assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn two_hosts_on_one_database_hold_a_key_to_one_limit() {
    one_budget_on_two_hosts(Duration::from_secs(12)).await;
}

#[tokio::test]
#[ignore = "long: scripts/test --long"]
async fn two_hosts_on_one_database_hold_a_key_to_one_limit_over_a_minute() {
    one_budget_on_two_hosts(Duration::from_secs(60)).await;
}
