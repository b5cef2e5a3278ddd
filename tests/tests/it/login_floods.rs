//! Contract 3.2: strangers who guess slow themselves down, and keep no right password out.

// What a login waited for is shown where a test fails.
#![allow(clippy::print_stdout)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use cardinal_tests::{Client, Host, OWNER, OWNER_PASSWORD, unique};
use serde_json::json;
use tokio::task::JoinSet;

const LOGIN: &str = "/v1/admin/auth/login";
/// Addresses of the flood, and connections of each at a time.
const ADDRESSES: u8 = 100;
const CONNECTIONS: usize = 6;

async fn try_once(client: &Client, name: &str, password: &str) -> u16 {
    let call = client.call(http::Method::POST, LOGIN).json(&json!({"username": name, "password": password}));
    call.try_send().await.map_or(0, |answer| answer.status.as_u16())
}

/// Tries until the password is taken, as a person or a client that honours `Retry-After` does; gives how long it took.
async fn log_in(client: &Client) -> Duration {
    let begun = Instant::now();
    loop {
        let body = json!({"username": OWNER, "password": OWNER_PASSWORD});
        let answer = client.post(LOGIN, &body).await;
        match answer.status.as_u16() {
            200 => return begun.elapsed(),
            429 | 503 => {
                println!("not yet: {answer}");
                let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
                tokio::time::sleep(Duration::from_secs(wait.min(2))).await;
            }
            other => panic!("{other}: {answer}"),
        }
    }
}

/// Guesses without pause, another password each time; counts what was looked at.
fn guess(tasks: &mut JoinSet<()>, client: Client, name: &'static str, looked_at: &Arc<AtomicU64>) {
    let looked_at = Arc::clone(looked_at);
    tasks.spawn(async move {
        for n in 0u64.. {
            let name = if name.is_empty() { format!("somebody-{n}-{:?}", client) } else { name.to_owned() };
            let name: String = name.chars().take(100).collect();
            if try_once(&client, &name, &unique("a guess")).await == 401 {
                looked_at.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
}

#[tokio::test]
async fn guesses_at_a_name_from_its_own_address_keep_it_out_for_seconds_only() {
    let host = Host::settings().start().await;
    let client = host.client().from_address([127, 0, 5, 1]);
    log_in(&client).await;
    let (mut strangers, looked_at) = (JoinSet::new(), Arc::default());
    for _ in 0..2 {
        guess(&mut strangers, client.clone(), OWNER, &looked_at);
    }
    let begun = Instant::now();
    while looked_at.load(Ordering::Relaxed) < 9 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Five are free; the others had to wait for 1, 2 and 4 seconds, and then for 4 each.
    assert!(begun.elapsed() > Duration::from_secs(9), "{:?}", begun.elapsed());
    let took = log_in(&client).await;
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_at_a_name_from_everywhere_leave_it_open() {
    let host = Host::settings().start().await;
    let known = host.client().from_address([127, 0, 6, 250]);
    log_in(&known).await;
    let (mut strangers, looked_at) = (JoinSet::new(), Arc::default());
    for n in 0..ADDRESSES {
        guess(&mut strangers, host.client().from_address([127, 0, 6, n]), OWNER, &looked_at);
    }
    while looked_at.load(Ordering::Relaxed) < 300 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (at, before) = (Instant::now(), looked_at.load(Ordering::Relaxed));
    let took = log_in(&known).await;
    assert!(took < Duration::from_secs(2), "where it logged in before: {took:?}");
    let took = log_in(&host.client().from_address([127, 0, 6, 251])).await;
    assert!(took < Duration::from_secs(15), "from a new place: {took:?}");
    let guesses = looked_at.load(Ordering::Relaxed) - before;
    assert!(guesses <= 2 + at.elapsed().as_secs(), "{guesses} guesses in {:?}", at.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_logins_from_many_addresses_holds_up_neither_logins_nor_anything_else() {
    let host = Host::settings().start().await;
    let known = host.client().from_address([127, 0, 7, 250]);
    let owner = host.owner().await;
    log_in(&known).await;
    let (mut strangers, looked_at) = (JoinSet::new(), Arc::default());
    for n in 0..ADDRESSES {
        for _ in 0..CONNECTIONS {
            guess(&mut strangers, host.client().from_address([127, 0, 7, n]), "", &looked_at);
        }
    }
    while looked_at.load(Ordering::Relaxed) < 50 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = log_in(&known).await;
    let new = log_in(&host.client().from_address([127, 0, 7, 251])).await;
    let begun = Instant::now();
    assert_eq!(host.client().from_address([127, 0, 7, 252]).get("/healthz").await.status, 200);
    let health = begun.elapsed();
    let begun = Instant::now();
    owner.get("/v1/admin/auth/me").await.expect(200);
    let api = begun.elapsed();
    println!("known {took:?}, new {new:?}, /healthz {health:?}, API {api:?}");
    assert!(took < Duration::from_secs(2), "where it logged in before: {took:?}");
    assert!(new < Duration::from_secs(10), "from a new place: {new:?}");
    assert!(health < Duration::from_secs(1) && api < Duration::from_secs(1), "{health:?} {api:?}");
}

#[tokio::test]
async fn hosts_of_one_database_count_failures_and_know_places_together() {
    let first = Host::settings().start().await;
    let second = first.beside().start().await;
    let place = [127, 0, 8, 1];
    let [here, there] = [&first, &second].map(|host| host.client().from_address(place));
    for n in 0..5 {
        assert_eq!(try_once(&here, OWNER, &format!("a guess, number {n}")).await, 401);
    }
    // Whatever the password is.
    for password in ["another guess", OWNER_PASSWORD] {
        let answer = there.post(LOGIN, &json!({"username": OWNER, "password": password})).await;
        answer.refused(429, "rate-limited");
        let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=15).contains(&wait), "{answer}");
    }
    // A place that is known at one host is known at the other, where strangers have slowed the address down.
    let [here, there] = [&first, &second].map(|host| host.client().from_address([127, 0, 8, 2]));
    log_in(&here).await;
    let learned = Instant::now() + Duration::from_secs(6);
    for n in 0..30 {
        assert_eq!(try_once(&there, &format!("nobody-{n}"), "a guess for nobody").await, 401);
    }
    tokio::time::sleep_until(learned.into()).await;
    assert!(log_in(&there).await < Duration::from_secs(1));
}

/// Sends the same password again whenever `Retry-After` says, as a patient client does; gives how long it took.
async fn log_in_patiently(client: &Client) -> Duration {
    let begun = Instant::now();
    loop {
        let answer = client.post(LOGIN, &json!({"username": OWNER, "password": OWNER_PASSWORD})).await;
        match answer.status.as_u16() {
            200 => return begun.elapsed(),
            429 | 503 => {
                let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
                tokio::time::sleep(Duration::from_secs(wait)).await;
            }
            other => panic!("{other}: {answer}"),
        }
    }
}

/// host/docs/limits.md: 30 seconds. The rest is for the machine, which is shared.
#[tokio::test]
async fn three_hundred_guessers_at_a_name_from_its_own_new_address_hold_it_up_for_half_a_minute() {
    let host = Host::settings().start().await;
    let client = host.client().from_address([127, 0, 9, 1]);
    let (mut strangers, looked_at) = (JoinSet::new(), Arc::default());
    for _ in 0..300 {
        guess(&mut strangers, client.clone(), OWNER, &looked_at);
    }
    while looked_at.load(Ordering::Relaxed) < 6 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = log_in_patiently(&client).await;
    println!("{took:?}");
    assert!(took < Duration::from_secs(45), "{took:?}");
}

/// host/docs/limits.md: 15 seconds. A flood from ever new addresses, each of which has not failed yet.
#[tokio::test]
async fn guesses_at_a_name_from_ever_new_addresses_hold_a_new_place_up_for_seconds() {
    let host = Host::settings().start().await;
    let (mut strangers, looked_at) = (JoinSet::new(), Arc::<AtomicU64>::default());
    for thread in 0..100_u8 {
        let (host, looked_at) = (host.address(), Arc::clone(&looked_at));
        strangers.spawn(async move {
            for n in 0..=u16::MAX {
                let [a, b] = n.to_be_bytes();
                let client = Client::new(host).from_address([127, 100 + thread, a, b]);
                if try_once(&client, OWNER, &unique("a guess")).await == 401 {
                    looked_at.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    while looked_at.load(Ordering::Relaxed) < 301 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = log_in_patiently(&host.client().from_address([127, 0, 10, 1])).await;
    println!("{took:?}");
    assert!(took < Duration::from_secs(30), "{took:?}");
}
