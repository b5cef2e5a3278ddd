//! What the SQL of a plugin can hold or use up while the host is at work: others do not wait for it.

use std::time::{Duration, Instant};

use cardinal_tests::{Host, Others, Package, PluginsFolder};
use futures_util::future::join_all;
use http::Method;
use serde_json::json;
use tokio_postgres::Client;

use super::import::{NDJSON, import, lines, over};

const CARDS: &str = "/v1/admin/master-cards";
/// The core gives up a lock that it waits for after ten seconds.
const NOTHING_WAITS: Duration = Duration::from_secs(8);

/// A session with the rights of the plugin's run-time login, and its time-outs lifted, as it can do itself.
async fn session_of(host: &Host, plugin: &str) -> Client {
    let database = host.database().await;
    let role = "SELECT rolname::text FROM pg_roles WHERE rolname LIKE '%\\_p\\_' || $1";
    let role: String = database.query_one(role, &[&plugin]).await.unwrap().get(0);
    let begin = format!("SET SESSION AUTHORIZATION {role}; SET search_path = plugin_{plugin}");
    database.batch_execute(&begin).await.unwrap();
    database
}

/// A row that points at a card locks it against its removal until the transaction ends, and against nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_transaction_of_a_plugin_keeps_no_card_from_being_written() {
    let schema = "CREATE TABLE held (card_id uuid REFERENCES public.master_cards (id))";
    let folder = PluginsFolder::default()
        .with("echo", &Package::fixture("echo").schema(schema))
        .with("quick", &Package::fixture("quick"));
    let host = Host::settings().plugins(folder).start().await;
    let owner = host.owner().await;
    let (one, two) = (owner.card("One").await, owner.card("Two").await);
    let [card, other] = [&one, &two].map(|card| format!("{CARDS}/{}", card["id"].as_str().unwrap()));
    let plugin = session_of(&host, "echo").await;
    plugin.batch_execute("BEGIN; INSERT INTO held SELECT id FROM public.master_cards").await.unwrap();

    let begun = Instant::now();
    owner.patch(&card, &json!({"title": "Anew", "sku": "anew"})).await.expect(200);
    let bulk = owner.post("/v1/admin/jobs", &json!({"action": "archive", "ids": [one["id"], two["id"]]})).await;
    let job = over(owner, bulk.expect(202)["item"]["id"].as_str().unwrap()).await;
    assert_eq!((&job["state"], &job["failed"]), (&json!("done"), &json!(0)), "{job}");
    let row = lines(&[json!({"sku": "anew", "title": "Imported"})]);
    let job = import(owner, "mode=upsert", NDJSON, row).await;
    assert_eq!((&job["state"], &job["failed"]), (&json!("done"), &json!(0)), "{job}");
    let stored = owner.get(&card).await.expect(200)["item"].clone();
    assert_eq!((&stored["title"], &stored["status"]), (&json!("Imported"), &json!("archived")), "{stored}");
    owner.delete(&other).await.expect(204);
    assert!(begun.elapsed() < NOTHING_WAITS, "writers waited: {:?}", begun.elapsed());

    // The removal alone waits for the plugin, and says so.
    let purge = owner.call(Method::DELETE, &format!("{other}?purge=true")).send().await;
    assert_eq!(purge.status, 503, "{purge}");
    plugin.batch_execute("ROLLBACK").await.unwrap();
    owner.delete(&format!("{other}?purge=true")).await.expect(204);
}

/// Views that double a column, read by many sessions of a plugin at once: the server neither ends nor is short of memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_that_double_what_they_read_end_no_process_of_the_server() {
    let mut schema =
        "CREATE TABLE seeds (v text); INSERT INTO seeds VALUES ('x'); CREATE VIEW v_0 AS SELECT v FROM seeds;"
            .to_owned();
    for level in 1..=25 {
        schema.push_str(&format!("CREATE VIEW v_{level} AS SELECT v || v AS v FROM v_{};", level - 1));
    }
    let folder = PluginsFolder::default()
        .with("echo", &Package::fixture("echo").schema(&schema))
        .with("supplier", &Package::bundled("supplier"))
        .with("quick", &Package::fixture("quick"));
    let host = Host::settings().plugins(folder).start().await;
    let server = host.postgres_pid();
    let others = Others::start(&host).await;
    let bombs = join_all((0..4).map(|_| async {
        let plugin = session_of(&host, "echo").await;
        let refused = plugin.simple_query("SELECT count(v) FROM v_25").await.unwrap_err();
        let said = refused.as_db_error().unwrap_or_else(|| panic!("{refused}"));
        assert_eq!((said.code().code(), said.message()), ("53200", "out of memory"));
        plugin.batch_execute("SELECT v FROM v_3").await.unwrap();
    }));
    bombs.await;
    others.go_on(50).await;
    others.unharmed();
    assert_eq!(host.postgres_pid(), server);
    host.owner().await.card("Written").await;
}
