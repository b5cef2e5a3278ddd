//! The binary needs nothing else from the repository: Admin UI and SQL are inside it, in debug builds too (the Admin UI
//! is embedded with `debug-embed`, SQL with `include_str!`, so a debug binary stands for a release one here).

use std::collections::BTreeMap;
use std::path::Path;

use cardinal_tests::{Client, Host, PluginsFolder, Program, User, built, eventually, repository};
use serde_json::Value;

#[tokio::test]
async fn it_runs_from_an_empty_folder_with_a_database_and_plugins_alone() {
    let server = Host::settings().plugins(PluginsFolder::default()).start().await;
    let password = std::fs::read_to_string(server.data().join("postgres-password")).unwrap();
    let plugins = PluginsFolder::bundled();
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path();
    std::fs::copy(built("cardinal"), own.join("cardinal")).unwrap();
    let socket = server.data().join("pg/run");
    let url = format!(
        "host='{}' user=cardinal_superuser dbname=postgres password={}",
        socket.to_str().unwrap(),
        password.trim()
    );
    let environment = BTreeMap::from([
        ("DATABASE_URL", url.as_str()),
        ("PLUGINS_DIR", plugins.path().to_str().unwrap()),
        ("LISTEN_ADDR", "127.0.0.1:0"),
    ]);
    let arguments = ["-C", own.to_str().unwrap(), "./cardinal", "serve"];
    let log = own.join("log");
    let mut program = Program::start(Path::new("/usr/bin/env"), &arguments, environment, &log);
    let client = eventually("the host is ready", async || {
        assert!(program.exited().is_none(), "{}", program.printed());
        let written: Value = serde_json::from_slice(&std::fs::read(own.join("var/data/addresses.json")).ok()?).ok()?;
        let client = Client::new(written["listen"].as_str()?.parse().ok()?);
        let answer = client.call(http::Method::GET, "/readyz").try_send().await.ok()?;
        (answer.status == 200).then_some(client)
    })
    .await;
    // Without Node.js a checkout has no Admin UI to embed; scripts/test builds it first.
    if repository().join("frontend/dist/index.html").exists() {
        let page = client.get("/admin/").await;
        assert_eq!(page.status, 200);
        let page = page.text();
        let script = page.split('"').find(|part| part.starts_with("/admin/assets/") && part.ends_with(".js"));
        assert_eq!(client.get(script.expect("a script in the page")).await.status, 200);
    }
    let password = std::fs::read_to_string(own.join("var/data/bootstrap-password")).unwrap();
    let admin = User::log_in(&client, "admin", password.trim()).await;
    admin.card("Chair").await;
    let listed = admin.get("/v1/admin/plugins").await.expect(200);
    assert!(!listed["items"].as_array().unwrap().is_empty(), "{listed}");
}
