//! Hosts side by side on one database: they start together, one of them dies, all serve the same truth, and the database
//! goes away and comes back.

use std::time::{Duration, Instant};

use cardinal_base::config::Secret;
use cardinal_database::{connect::ConnectParams, roles::RoleNames};
use cardinal_schema::{
    migrate,
    prepare::{Preparation, SecretSource},
};
use cardinal_tests::{
    Client, EventStream, Host, HostSettings, Network, Package, PluginsFolder, Relay, User, descendants, eventually,
    unique,
};
use futures_util::future::join_all;
use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

use super::kills::Dice;

const CARDS: &str = "/v1/admin/master-cards";
const ONE_SECRET: &str = "one secret for the logins on all hosts";
/// The contract's bound is five seconds; the machine is shared.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(7);
/// Hosts that start together.
const HOSTS: usize = 3;

fn echo() -> PluginsFolder {
    PluginsFolder::default().with("echo", &Package::fixture("echo"))
}

fn kill_family(host: &Host) {
    let pids = descendants(host.supervisor_pid()).into_iter().map(|(pid, _)| pid).chain([host.supervisor_pid()]);
    for pid in pids {
        // It may have ended by itself.
        let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
    }
}

/// A new database on the server of `host`, with so many migrations run.
async fn new_database(host: &Host, migrations: usize) -> String {
    let name = unique("shared").replace('-', "_");
    host.database().await.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.unwrap();
    let server = host.database_url();
    let url = format!("{}/{name}", server.strip_suffix("/cardinal").unwrap());
    if migrations > 0 {
        let login = ConnectParams::from_url(&Secret::new(url.clone())).unwrap();
        let names = RoleNames::new(&login.dbname);
        Preparation { login, names, secret: SecretSource::InDatabase, migrations, is_beside: false }
            .make()
            .await
            .unwrap();
    }
    url
}

async fn database(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn start_together(url: &str, dice: &mut Dice) {
    let settings = || -> HostSettings {
        Host::settings().plugins(echo()).set("DATABASE_URL", url).set("ADMIN_TOKEN_SECRET", ONE_SECRET)
    };
    let mut hosts: Vec<Host> = (0..HOSTS).map(|_| settings().launch()).collect();
    // Anywhere in what they do at their start.
    tokio::time::sleep(Duration::from_millis(dice.below(1_500))).await;
    let mut dead = hosts.remove(dice.below(HOSTS as u64) as usize);
    kill_family(&dead);
    dead.program().ended().await;
    for host in &mut hosts {
        host.until_ready().await;
    }
    hosts.push(settings().start().await);
    let database = database(url).await;
    let number = async |sql: &str| database.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
    assert_eq!(number("SELECT count(*) FROM core_migrations").await, migrate::COUNT as i64);
    assert_eq!(number("SELECT count(*) FROM plugin_schema_steps WHERE plugin = 'echo'").await, 1, "it ran once");
    assert_eq!(number("SELECT count(*) FROM admin_users WHERE username = 'owner'").await, 1);
    let owner = User::log_in(&hosts[0].client(), cardinal_tests::OWNER, cardinal_tests::OWNER_PASSWORD).await;
    for host in &hosts {
        let client = host.client().bearer(owner.token.clone());
        client.post("/v1/admin/plugins/echo/db/notes", &json!({"text": "from each of them"})).await.expect(201);
    }
    assert_eq!(number("SELECT count(*) FROM plugin_echo.notes").await, HOSTS as i64);
}

#[tokio::test]
async fn three_hosts_start_together_on_an_empty_database_and_one_is_killed() {
    let server = Host::settings().start().await;
    let mut dice = Dice::new(11);
    for _ in 0..2 {
        start_together(&new_database(&server, 0).await, &mut dice).await;
    }
}

#[tokio::test]
async fn three_hosts_start_together_on_an_older_database_and_one_is_killed() {
    let server = Host::settings().start().await;
    let mut dice = Dice::new(12);
    for migrations in [1, 5] {
        start_together(&new_database(&server, migrations).await, &mut dice).await;
    }
}

#[tokio::test]
async fn hosts_on_one_database_serve_one_truth() {
    let one = Host::settings().plugins(echo()).set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let two = one.beside().plugins(echo()).set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let owner = one.owner().await;
    let there = two.client().bearer(owner.token.clone());

    // Cards at once.
    let card = owner.card("Shared").await;
    let path = format!("{CARDS}/{}", card["id"].as_str().unwrap());
    assert_eq!(there.get(&path).await.expect(200)["item"], card);
    let changed = there.patch(&path, &json!({"title": "Changed there"})).await.expect(200)["item"].clone();
    assert_eq!(owner.get(&path).await.expect(200)["item"], changed);
    let stale = owner.call(Method::PATCH, &path).header("if-match", "\"1\"").json(&json!({"title": "Stale"}));
    stale.send().await.refused(412, "version-mismatch");

    // How soon, revocations.rs says.
    let key = owner.make_key(json!({"name": unique("key"), "scopes": ["cards:read"]})).await;
    let with_key = two.client().bearer(key["key"].as_str().unwrap());
    with_key.get(&path).await.expect(200);
    let key_path = format!("/v1/admin/api-keys/{}", key["item"]["id"].as_str().unwrap());
    owner.patch(&key_path, &json!({"scopes": ["jobs:read"]})).await.expect(200);
    within("the key's scopes", async || (with_key.get(&path).await.status == 403).then_some(())).await;
    owner.delete(&key_path).await.expect(204);
    within("the key's end", async || (with_key.get(&path).await.status == 401).then_some(())).await;

    let editor = owner.make_user("editor").await;
    let editor_there = two.client().bearer(editor.token.clone());
    editor_there.get(&path).await.expect(200);
    owner.patch(&format!("/v1/admin/users/{}", editor.id), &json!({"disabled": true})).await.expect(200);
    within("the account's end", async || {
        [401, 403].contains(&editor_there.get(&path).await.status.as_u16()).then_some(())
    })
    .await;
}

async fn within<T>(what: &str, condition: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    let value = eventually(what, condition).await;
    assert!(begun.elapsed() < NOTICE_TIMEOUT, "{what}: {:?}", begun.elapsed());
    value
}

/// An upgrade of one host after the other: the newer one migrates while the older ones serve.
#[tokio::test]
async fn a_host_goes_on_beside_a_newer_one_and_is_not_started_again() {
    let host = Host::settings().start().await;
    let owner = host.owner().await;
    let newer = "ALTER TABLE public.master_cards ADD COLUMN weight integer; CREATE TABLE public.of_the_future (id int);
        INSERT INTO public.core_migrations (version, name, checksum, core) VALUES (999, '0999_future', '', '7.0.0')";
    host.database().await.batch_execute(newer).await.unwrap();
    owner.card("Served by the older one").await;
    assert_eq!(host.client().get("/readyz").await.status, 200);
    let mut again = host.beside().launch();
    let status = again.program().ended().await;
    assert!(!status.success());
    assert!(again.log().contains("newer than this program") && again.log().contains("7.0.0"), "{}", again.log());
    owner.card("And still").await;
}

/// No worker runs yet, and nothing answers where the database should be.
#[tokio::test]
async fn a_host_that_waits_for_its_database_is_alive_and_says_that_it_is_starting() {
    let one = Host::settings().start().await;
    let relay = Relay::before(&one).await;
    relay.set(Network::Frozen);
    let mut two = one.beside().set("DATABASE_URL", relay.url(&one)).launch();
    let client = Client::new(two.until_listening().await);
    for network in [Network::Frozen, Network::Cut] {
        relay.set(network);
        let answer = client.get("/healthz").await;
        assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, "ok\n"), "{network:?}");
        for path in ["/readyz", "/readyz?from=balancer", "/admin/", CARDS, "/v1/admin/auth/login"] {
            let answer = client.get(path).await;
            assert_eq!(answer.header("retry-after"), Some("2"), "{path}");
            answer.refused(503, "starting");
        }
        let card = json!({"title": "Too early", "sku": "EARLY-1", "attributes": {"text": "x".repeat(1 << 20)}});
        client.post(CARDS, &card).await.refused(503, "starting");
        assert_eq!(client.call(Method::HEAD, "/readyz").send().await.status, 503);
    }
    // More than are answered at a time, and none of them says anything.
    let address = two.until_listening().await;
    let idle: Vec<_> = join_all((0..400).map(|_| TcpStream::connect(address))).await;
    let begun = Instant::now();
    client.get("/readyz").await.refused(503, "starting");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    drop(idle);
    relay.set(Network::Whole);
    two.until_ready().await;
    two.owner().await.card("In time").await;
}

/// As behind a balancer whose server died with connections that nobody ever closes.
#[tokio::test]
async fn a_login_that_the_database_never_answers_is_given_up() {
    let one = Host::settings().start().await;
    let relay = Relay::before(&one).await;
    let url = relay.url(&one);
    let server = url.split_once('@').unwrap().1.split_once('/').unwrap().0.to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_once = url.replace(&server, &listener.local_addr().unwrap().to_string());
    tokio::spawn(async move {
        let _silent = listener.accept().await.unwrap();
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut far = TcpStream::connect(&server).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
        }
    });
    let mut two = one.beside().set("DATABASE_URL", silent_once).launch();
    two.until_ready().await;
    two.owner().await.card("In the end").await;
}

/// Whoever waits for the database hears 503 with a time to come back, whoever reads events hears nothing, and both go on
/// by themselves when it is there again.
#[tokio::test]
async fn a_database_that_goes_away_under_load_logs_nobody_out() {
    let mut one = Host::settings().set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let two = one.beside().set("ADMIN_TOKEN_SECRET", ONE_SECRET).start().await;
    let token = one.owner().await.token.clone();
    let there = two.client().bearer(token);
    let mut stream = EventStream::open(&there, "?topics=card", None).await.greeted().await;

    // The database ends with the host that it belongs to.
    one.program().signal(Signal::TERM);
    assert!(one.program().ended().await.success(), "{}", one.log());
    let load = (0..8).map(|_| {
        let client = there.clone();
        tokio::spawn(async move {
            for _ in 0..25 {
                let card = json!({"title": "Lost", "sku": unique("LOST")});
                for answer in
                    [client.post(CARDS, &card).await, client.get(CARDS).await, client.get("/v1/admin/auth/me").await]
                {
                    // Who somebody is may still be known.
                    if answer.status != 200 || !answer.call.ends_with("/me") {
                        answer.refused(503, "database-unavailable");
                    }
                }
            }
        })
    });
    for caller in load.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    there.call(Method::GET, "/v1/admin/events").send().await.refused(503, "database-unavailable");

    let one = one.again(|settings| settings).await;
    let back = Instant::now();
    eventually("the other host serves again", async || (there.get(CARDS).await.status == 200).then_some(())).await;
    assert!(back.elapsed() < Duration::from_secs(3), "{:?}", back.elapsed());
    let card = one.owner().await.card("After").await;
    assert_eq!(stream.next().await.card(), card["id"].as_str(), "the stream is the same one");
    assert!(back.elapsed() < Duration::from_secs(6), "{:?}", back.elapsed());
}
