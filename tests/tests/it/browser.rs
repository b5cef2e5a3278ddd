//! The Admin UI in a real browser: Playwright's tests of `frontend/e2e`, against hosts of their own.

use std::{io::Cursor, process::Command};

use cardinal_tests::{Host, OWNER, OWNER_PASSWORD, Package, PluginsFolder, built, repository, run};
use minisign::KeyPair;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    plugin_trust::{sign, trusted},
    swap::version,
};

/// Runs `specs`, or all, against a host.
async fn playwright(host: &Host, specs: &[&str], environment: &[(&str, &str)]) {
    let results = TempDir::new().unwrap();
    let mut command = Command::new("npx");
    command.args(["--no-install", "playwright", "test", "--reporter=list"]).args(specs);
    command.current_dir(repository().join("frontend")).env("PLAYWRIGHT_OUTPUT_DIR", results.path());
    command.env("CARDINAL_URL", host.url()).env("CARDINAL_USERNAME", OWNER).env("CARDINAL_PASSWORD", OWNER_PASSWORD);
    command.env("CI", "1").envs(environment.iter().copied());
    let output = run(command).await;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    eprintln!("{printed}");
    // What failed is told after the list of all, if it came to any.
    let failed = printed.find("\n  1) ").map_or(&*printed, |at| &printed[at..]);
    assert!(output.status.success(), "{failed}");
}

/// Half of the files, side by side with the other half.
async fn half_of_all(number: u32) {
    let host = Host::settings_of_shared().start().await;
    // Some pages are about what is there, and say something else where nothing is.
    host.owner().await.card("Something to list").await;
    // That host lets its plugin `supplier` read pages of this machine.
    playwright(&host, &[&format!("--shard={number}/2")], &[("CARDINAL_PRIVATE_PAGES", "1")]).await;
}

#[tokio::test]
async fn the_admin_ui_works_in_chromium_in_the_first_half_of_its_tests() {
    half_of_all(1).await;
}

#[tokio::test]
async fn the_admin_ui_works_in_chromium_in_the_second_half_of_its_tests() {
    half_of_all(2).await;
}

#[tokio::test]
async fn plugins_are_looked_after_in_chromium() {
    let reader = Package::fixture("echo").manifest(|manifest| manifest["reads_kinds"] = json!(["quick"]));
    let broken = Package::fixture("quick").manifest_text(r#"{"name": "broken", "version": 1}"#);
    let folder = PluginsFolder::default()
        .with("quick", &Package::fixture("quick"))
        .with("echo", &reader)
        .with("broken", &broken);
    let host = Host::settings().plugins(folder).start().await;
    let (folder, spare) = (host.plugins().path().to_str().unwrap(), host.data());
    let environment = [("CARDINAL_PLUGINS_DIR", folder), ("CARDINAL_SPARE_DIR", spare.to_str().unwrap())];
    playwright(&host, &["e2e/plugins.spec.ts"], &environment).await;
}

#[tokio::test]
async fn packages_are_rolled_back_agreed_to_and_accepted_in_chromium() {
    let keys = tempfile::tempdir().unwrap();
    let [first, second] = [(); 2].map(|()| KeyPair::generate_unencrypted_keypair().unwrap());
    let files = [("first.pub", &first), ("second.pub", &second)].map(|(name, pair)| trusted(pair, keys.path(), name));
    let table = "CREATE TABLE IF NOT EXISTS notes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text);";
    let more = format!("{table} ALTER TABLE notes ADD COLUMN IF NOT EXISTS more text;");
    let plugins = PluginsFolder::default()
        .with("versioned", &version("1.0.0", "first").schema(&more))
        .with("echo", &Package::fixture("echo"));
    sign(&first, &plugins.path().join("echo"));
    let host = Host::settings().plugins(plugins).set("PLUGIN_TRUST_KEYS", files.join(",")).start().await;
    host.plugins().put("versioned", &version("1.1.0", "second").schema(&more));
    host.owner().await.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200);

    let loses = format!("{table} ALTER TABLE notes DROP COLUMN IF EXISTS more;");
    let aside = PluginsFolder::default()
        .with("versioned", &version("1.2.0", "third").schema(&loses))
        .with("echo", &Package::fixture("echo").version("1.0.1"));
    sign(&second, &aside.path().join("echo"));
    let environment = [
        ("CARDINAL_PLUGINS_DIR", host.plugins().path().to_str().unwrap()),
        ("CARDINAL_PACKAGES_DIR", aside.path().to_str().unwrap()),
    ];
    playwright(&host, &["e2e/plugin-packages.spec.ts"], &environment).await;
}

#[tokio::test]
async fn a_plugin_is_uploaded_in_chromium() {
    let folder = tempfile::tempdir().unwrap();
    let [vendor, stranger] = [(); 2].map(|()| KeyPair::generate_unencrypted_keypair().unwrap());
    let library = std::fs::read(built("libquick.so")).unwrap();
    let signed_by = |pair: &KeyPair| minisign::sign(None, &pair.sk, Cursor::new(&library), None, None).unwrap();
    std::fs::write(folder.path().join("quick.so"), &library).unwrap();
    std::fs::write(folder.path().join("quick.so.minisig"), signed_by(&vendor).into_string()).unwrap();
    std::fs::write(folder.path().join("stranger.minisig"), signed_by(&stranger).into_string()).unwrap();
    let keys = trusted(&vendor, folder.path(), "vendor.pub");
    let host = Host::settings().set("PLUGIN_UPLOAD", "on").set("PLUGIN_TRUST_KEYS", keys).start().await;
    let environment = [("CARDINAL_UPLOADS_DIR", folder.path().to_str().unwrap())];
    playwright(&host, &["e2e/plugin-upload.spec.ts"], &environment).await;
}

#[tokio::test]
async fn screens_look_as_they_did_in_chromium() {
    let bundled = ["supplier", "gallery", "completeness"];
    let plugins =
        bundled.iter().fold(PluginsFolder::default(), |folder, name| folder.with(name, &Package::bundled(name)));
    let host = Host::settings().plugins(plugins).start().await;
    playwright(&host, &["e2e/pictures.spec.ts"], &[("CARDINAL_PICTURES", "1")]).await;
}

#[tokio::test]
async fn the_bundled_plugins_work_on_ten_thousand_cards_in_chromium() {
    let host = Host::settings_of_shared()
        .set("PLUGIN_SETTINGS_SUPPLIER", json!({"allow_private_addresses": true, "delay_ms": 0}).to_string())
        .start()
        .await;
    playwright(&host, &["e2e/ten-thousand-cards.spec.ts"], &[("CARDINAL_MANY_CARDS", "1")]).await;
}
