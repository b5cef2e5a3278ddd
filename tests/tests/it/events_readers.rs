//! How readers of events come to an end, and how they are kept within bounds.

use std::time::{Duration, Instant};

use cardinal_tests::{Client, EventStream, Host, Sent, User, eventually};
use http::Method;
use rustix::process::Signal;
use serde_json::json;

/// The contract's bound is five seconds; the machine is shared.
const REVOCATION_TIMEOUT: Duration = Duration::from_secs(7);

async fn closed(mut stream: EventStream, reason: &str, since: Instant) {
    let last = loop {
        match stream.try_next().await.unwrap() {
            Some(sent) if sent.kind == "closed" => break sent,
            Some(_) => {}
            None => panic!("the stream ended without a word"),
        }
    };
    assert!(since.elapsed() < REVOCATION_TIMEOUT, "{:?}", since.elapsed());
    assert_eq!((last.data["reason"].as_str(), last.id), (Some(reason), None), "{last:?}");
    assert!(last.data["detail"].as_str().is_some_and(|detail| !detail.is_empty()));
    assert_eq!(stream.try_next().await.unwrap(), None, "it is the last one");
}

async fn reading(client: &Client) -> EventStream {
    EventStream::open(client, "", None).await.greeted().await
}

#[tokio::test]
async fn who_may_read_no_more_is_told_so_on_every_host() {
    const ONE_SECRET: &str = "one secret for the logins on both hosts";
    let one = Host::settings().set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let two = one.beside().set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let owner = one.owner().await;
    let on_two = |user: &User| two.client().bearer(user.token.clone());

    let key = owner.make_key(json!({"name": "reader", "scopes": ["cards:read"]})).await;
    let with_key = |host: &Host| host.client().bearer(key["key"].as_str().unwrap());
    let (here, there) = (reading(&with_key(&one)).await, reading(&with_key(&two)).await);
    owner.delete(&format!("/v1/admin/api-keys/{}", key["item"]["id"].as_str().unwrap())).await.expect(204);
    let revoked = Instant::now();
    tokio::join!(closed(here, "revoked-token", revoked), closed(there, "revoked-token", revoked));

    let editor = owner.make_user("editor").await;
    let (here, there) = (reading(&editor).await, reading(&on_two(&editor)).await);
    editor.call(Method::POST, "/v1/admin/auth/logout").send().await.expect(204);
    let left = Instant::now();
    tokio::join!(closed(here, "revoked-token", left), closed(there, "revoked-token", left));

    // A key's rights are its owner's too.
    let admin = owner.make_user("admin").await;
    let key = admin.key(&["cards:read", "jobs:write"]).await;
    let (here, there) = (reading(&key).await, reading(&on_two(&key)).await);
    let named = EventStream::open(&key, "?topics=card", None).await.greeted().await;
    let path = format!("/v1/admin/api-keys/{}", id_of(owner, &key).await);
    owner.patch(&path, &json!({"scopes": ["cards:read"]})).await.expect(200);
    let changed = Instant::now();
    tokio::join!(closed(here, "rights-changed", changed), closed(there, "rights-changed", changed));
    owner.patch(&format!("/v1/admin/users/{}", admin.id), &json!({"disabled": true})).await.expect(200);
    closed(named, "account-disabled", Instant::now()).await;
}

/// Of the key that `user` calls with.
async fn id_of(owner: &User, user: &User) -> String {
    let hint = &user.token[..8];
    let keys = owner.get("/v1/admin/api-keys").await.expect(200);
    let key = keys["items"].as_array().unwrap().iter().find(|key| key["key_hint"].as_str().unwrap().starts_with(hint));
    key.unwrap_or_else(|| panic!("{hint} in {keys}"))["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_is_not_kept_is_said_and_never_passed_over() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let database = host.database().await;
    let first = reading(owner).await.last_id.unwrap();
    let many = "INSERT INTO public.event_outbox (topic, type, data)
        SELECT 'job', 'job.tested', jsonb_build_object('n', i) FROM generate_series(1, 12) i";
    database.execute(many, &[]).await.unwrap();
    let mut stream = EventStream::open(owner, "?topics=job", Some(&first)).await;
    let mut ids = Vec::new();
    while ids.len() < 12 {
        ids.push(stream.next().await.id.unwrap());
    }
    drop(stream);
    // Ten are kept at most.
    let forget = "SELECT public.forget_events(5000, 10, '1 hour')";
    assert_eq!(database.query_one(forget, &[]).await.unwrap().get::<_, i64>(0), 2);
    let resumed = async |last_id: &str| EventStream::open(owner, "?topics=job", Some(last_id)).await.next().await;
    let whole: Sent = resumed(&ids[1].to_string()).await;
    assert_eq!(whole.id, Some(ids[2]), "the ten are there");
    let beyond = (ids[11] + 1_000).to_string();
    for gone in [first.as_str(), &ids[0].to_string(), "1", "0", &beyond] {
        let reset = resumed(gone).await;
        assert_eq!((reset.kind.as_str(), reset.id), ("reset", Some(ids[11])), "{gone}: {reset:?}");
        assert!(reset.data["detail"].as_str().unwrap().contains("Reload what you show"), "{reset:?}");
    }
    // And by age, all of them.
    database.execute("UPDATE public.events SET at = now() - interval '2 hours'", &[]).await.unwrap();
    assert_eq!(database.query_one(forget, &[]).await.unwrap().get::<_, i64>(0), 10);
    let mut at_the_end = EventStream::open(owner, "?topics=job", Some(&ids[11].to_string())).await.greeted().await;
    database.execute("INSERT INTO public.event_outbox (topic, type) VALUES ('job', 'job.next')", &[]).await.unwrap();
    assert_eq!(at_the_end.next().await.id, Some(ids[11] + 1));
}

#[tokio::test]
async fn a_slow_reader_is_cut_off_and_can_come_back_for_the_rest() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let database = host.database().await;
    let mut slow = EventStream::open_narrow(owner, "?topics=job", None, Some(4_096)).await.greeted().await;
    let mut quick = EventStream::open(owner, "?topics=job", None).await.greeted().await;
    // More than the host keeps for all, and the kernel for one.
    let (rounds, per_round) = (30, 1_000);
    for round in 0..rounds {
        let many = "INSERT INTO public.event_outbox (topic, type, data)
            SELECT 'job', 'job.tested', jsonb_build_object('n', $1 * 1000 + i, 'text', repeat('x', 1000))
            FROM generate_series(0, 999) i";
        database.execute(many, &[&round]).await.unwrap();
        for i in 0..per_round {
            assert_eq!(quick.next().await.data["n"], round * per_round + i, "its neighbour misses nothing");
        }
    }
    let mut seen = 0;
    let last = loop {
        let sent = slow.next().await;
        if sent.kind == "closed" {
            break sent;
        }
        assert_eq!(sent.data["n"], seen);
        seen += 1;
    };
    assert_eq!(last.data["reason"], "slow");
    assert!(seen < rounds * per_round);
    let mut again = EventStream::open(owner, "?topics=job", slow.last_id.as_deref()).await;
    for n in seen..rounds * per_round {
        assert_eq!(again.next().await.data["n"], n);
    }
}

#[tokio::test]
async fn a_host_that_ends_says_goodbye() {
    let mut host = Host::settings().start().await;
    let owner = host.owner().await;
    let streams = [reading(owner).await, reading(owner).await];
    host.program().signal(Signal::TERM);
    let ended = Instant::now();
    for stream in streams {
        closed(stream, "draining", ended).await;
    }
    assert!(host.program().ended().await.success(), "{}", host.log());
    assert!(ended.elapsed() < Duration::from_secs(9), "nobody waits out the grace period for readers");
}

#[tokio::test]
async fn one_user_takes_so_many_seats_and_gives_them_back() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let mut streams = Vec::new();
    let refused = loop {
        let answer = owner.call(Method::GET, "/v1/admin/events").open(None).await.unwrap();
        if answer.status() != 200 {
            break answer;
        }
        streams.push(answer);
        assert!(streams.len() < 1_000);
    };
    assert_eq!((refused.status().as_u16(), streams.len()), (429, 32));
    assert!(refused.headers().contains_key("retry-after"));
    let other = owner.make_user("viewer").await;
    drop(reading(&other).await);
    drop(streams);
    eventually("there are seats again", async || EventStream::try_open(owner, "", None, None).await.ok().map(|_| ()))
        .await;
}
