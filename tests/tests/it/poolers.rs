//! Contract 7: `DATABASE_URL` that leads through a pooler. What works does; what cannot is said before anybody calls.

use cardinal_tests::{Host, HostSettings, Lends, PluginsFolder, Pooler};
use serde_json::Value;

/// Settings of another host on the database of `host`, through a pooler.
async fn through(host: &Host, lends: Lends) -> HostSettings {
    let pooler = Pooler::before(host.data().join("pg/run"), lends).await;
    let password = std::fs::read_to_string(host.data().join("postgres-password")).unwrap();
    let url = format!("postgres://cardinal_superuser:{}@127.0.0.1:{}/cardinal", password.trim(), pooler.port());
    host.beside().set("DATABASE_URL", url)
}

#[tokio::test]
async fn a_pooler_that_forgets_prepared_statements_is_refused_by_name() {
    let host = Host::settings().start().await;
    let mut behind = through(&host, Lends::ForTransactions).await.launch();
    let status = behind.program().ended().await;
    assert_eq!(status.code(), Some(64), "{}", behind.log());
    let told = behind.log();
    assert!(told.contains("DATABASE_URL") && told.contains("pooler"), "{told}");
}

#[tokio::test]
async fn a_pooler_that_keeps_sessions_and_takes_no_settings_at_their_start_will_do() {
    let host = Host::settings().start().await;
    let behind = through(&host, Lends::ForSessions).await.plugins(PluginsFolder::bundled()).start().await;
    let owner = behind.owner().await;
    owner.card("Behind a pooler").await;
    // SQL of the plugin's own, in the schema that its role names.
    let items = owner.get("/v1/admin/plugins/supplier/items").await.expect(200);
    assert_eq!(items["items"], Value::Array(Vec::new()), "{items}");
}
