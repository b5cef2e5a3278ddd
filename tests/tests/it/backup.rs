//! `cardinal backup` and `restore`: a host that lost its `DATA_DIR` comes back with what it had, and nothing is lost on
//! the way.

use std::path::Path;
use std::process::Output;

use cardinal_tests::{Host, OWNER, OWNER_PASSWORD, Package, Pages, PluginsFolder, User, cardinal};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::supplier::PAGE;

fn run(host: &Host, command: &str, file: &Path, more: &[&str]) -> Output {
    let data = host.data();
    let mut arguments = vec![command, "--data-dir", data.to_str().unwrap()];
    arguments.extend(["--plugins-dir", host.plugins().path().to_str().unwrap()]);
    arguments.extend(more);
    arguments.push(file.to_str().unwrap());
    cardinal(arguments)
}

#[track_caller]
fn done(output: &Output) -> String {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Ends with code 1 and says so; on standard output stands nothing.
#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    for word in words {
        assert!(told.contains(word), "{word:?} is missing: {told}");
    }
}

async fn plugin_state(user: &User, name: &str) -> Value {
    let registry = user.get("/v1/admin/plugin-registry").await.expect(200);
    let found = registry["items"].as_array().unwrap().iter().find(|item| item["name"] == name).cloned();
    found.unwrap_or_default()["state"].clone()
}

#[tokio::test]
async fn a_lost_data_dir_comes_back_with_cards_keys_users_and_plugins_tables() {
    let settings = Host::settings().plugins(PluginsFolder::default().with("supplier", &Package::bundled("supplier")));
    let local = json!({"allow_private_addresses": true}).to_string();
    let mut host = settings.set("PLUGIN_SETTINGS_SUPPLIER", local).start().await;
    let pages = Pages::serve([("/chair", PAGE.to_owned())]).await;
    let owner = host.owner().await;
    let card = owner.card("Chair").await["id"].as_str().unwrap().to_owned();
    let key = owner.key(&["*"]).await;
    let enrich = format!("/v1/admin/plugins/supplier/enrich/{card}");
    key.post(&enrich, &json!({"url": pages.url("/chair")})).await.expect(200);
    let (before, items) = (key.read_card(&card).await, key.get("/v1/admin/plugins/supplier/items").await.expect(200));
    assert_eq!(items["items"].as_array().unwrap().len(), 1);
    let (token, key_token) = (owner.token.clone(), key.token.clone());

    let kept = tempfile::tempdir().unwrap();
    let (bare, whole) = (kept.path().join("bare.tar"), kept.path().join("whole.tar"));
    let told = done(&run(&host, "backup", &bare, &[]));
    assert!(told.contains("1 cards") && told.contains("supplier") && told.contains("log in again"), "{told}");
    refused(&run(&host, "backup", &bare, &[]), &["exists", "--overwrite"]);
    refused(&run(&host, "restore", &bare, &[]), &["is in use", "--replace"]);
    host.program().signal(Signal::TERM);
    assert!(host.program().ended().await.success());
    // With the host stopped the private server is started for it, and the file there gives way only when told to.
    done(&run(&host, "backup", &whole, &["--with-secrets"]));
    done(&run(&host, "backup", &bare, &["--overwrite"]));
    let data = host.data();
    let psql = ["psql", "--data-dir", data.to_str().unwrap(), "-Atc", "select current_user, title from master_cards"];
    let told = done(&cardinal(psql));
    assert!(told.starts_with("cardinal_") && told.trim().ends_with("_owner|Chair"), "{told}");

    for (archive, session_lives) in [(&bare, false), (&whole, true)] {
        std::fs::remove_dir_all(host.data()).unwrap();
        done(&run(&host, "restore", archive, &[]));
        host = host.again(|settings| settings).await;
        let client = host.client();
        let key = client.bearer(&key_token);
        let path = format!("/v1/admin/master-cards/{card}");
        assert_eq!(key.get(&path).await.expect(200)["item"], before);
        assert_eq!(key.get("/v1/admin/plugins/supplier/items").await.expect(200), items);
        let owner = User::log_in(&client, OWNER, OWNER_PASSWORD).await;
        assert_eq!(plugin_state(&owner, "supplier").await, "active");
        let session = client.bearer(&token).get("/v1/admin/auth/me").await;
        assert_eq!(session.status == 200, session_lives, "{archive:?}");
        // And everything can be written to.
        owner.card("Table").await;
        key.post(&enrich, &json!({"url": pages.url("/chair")})).await.expect(200);
        host.program().signal(Signal::TERM);
        assert!(host.program().ended().await.success());
    }
}

#[tokio::test]
async fn a_running_host_gets_a_backup_in_the_place_of_its_database() {
    let host = Host::settings().plugins(PluginsFolder::default()).start().await;
    let owner = host.owner().await;
    let card = owner.card("Kept").await["id"].as_str().unwrap().to_owned();
    let kept = tempfile::tempdir().unwrap();
    let file = kept.path().join("backup.tar");
    done(&run(&host, "backup", &file, &[]));
    let later = owner.card("Later").await["id"].as_str().unwrap().to_owned();
    done(&run(&host, "restore", &file, &["--replace"]));
    // Connections that were cut off are made anew.
    let path = |id: &str| format!("/v1/admin/master-cards/{id}");
    let (kept_path, later_path) = (path(&card), path(&later));
    let found = cardinal_tests::eventually("the restored database", async || {
        let answer = owner.get(&kept_path).await;
        (answer.status == 200).then_some(answer)
    });
    found.await;
    assert_eq!(owner.get(&later_path).await.status, 404);
}

#[tokio::test]
async fn what_is_no_whole_backup_is_refused_before_anything_is_touched() {
    let host = Host::settings().plugins(PluginsFolder::default()).start().await;
    let card = host.owner().await.card("Safe").await["id"].as_str().unwrap().to_owned();
    let kept = tempfile::tempdir().unwrap();
    let file = |name: &str| kept.path().join(name);
    done(&run(&host, "backup", &file("good.tar"), &[]));
    let good = std::fs::read(file("good.tar")).unwrap();
    let place = good.windows(4).position(|bytes| bytes == b"Safe").unwrap();
    let mut bent = good.clone();
    bent[place] ^= 1;
    std::fs::write(file("bent.tar"), bent).unwrap();
    std::fs::write(file("cut.tar"), &good[..good.len() * 2 / 3]).unwrap();
    std::fs::write(file("empty.tar"), "").unwrap();
    std::fs::write(file("text.tar"), "not a backup\n".repeat(100)).unwrap();
    let restore = |name: &str| run(&host, "restore", &file(name), &["--replace"]);
    refused(&restore("bent.tar"), &["truncated or damaged", "nothing was changed"]);
    refused(&restore("cut.tar"), &["truncated or damaged", "nothing was changed"]);
    refused(&restore("empty.tar"), &["is not a Cardinal backup"]);
    refused(&restore("text.tar"), &["is not a Cardinal backup"]);
    refused(&restore("none.tar"), &["none.tar"]);
    assert_eq!(host.owner().await.read_card(&card).await["title"], "Safe");
    // Nor is a folder made for it.
    let elsewhere = file("data");
    let output = cardinal(["restore", "--data-dir", elsewhere.to_str().unwrap(), file("bent.tar").to_str().unwrap()]);
    refused(&output, &["damaged"]);
    assert!(!elsewhere.exists());
    let output = cardinal(["backup", "--data-dir", elsewhere.to_str().unwrap(), file("new.tar").to_str().unwrap()]);
    refused(&output, &["no database in DATA_DIR"]);
    assert!(!elsewhere.exists());
}

/// Secrets among a plugin's settings open with the key that belongs to the database's secret: in the archive only when
/// asked for, and made for the new database when it is there.
#[tokio::test]
async fn secret_settings_come_back_where_the_archive_has_its_secrets() {
    const SECRET: &str = "a greeting that nobody may see";
    const SETTINGS: &str = "/v1/admin/plugin-registry/echo/settings";
    let schema = json!({"type": "object", "properties": {"greeting": {"type": "string", "writeOnly": true}}});
    let echo = Package::fixture("echo").manifest(|manifest| manifest["settings_schema"] = schema);
    let mut host = Host::settings().plugins(PluginsFolder::default().with("echo", &echo)).start().await;
    let set = host.owner().await.call(http::Method::PUT, SETTINGS).json(&json!({"greeting": SECRET}));
    set.send().await.expect(200);
    let kept = tempfile::tempdir().unwrap();
    let (bare, whole) = (kept.path().join("bare.tar"), kept.path().join("whole.tar"));
    done(&run(&host, "backup", &bare, &[]));
    done(&run(&host, "backup", &whole, &["--with-secrets"]));
    for archive in [&bare, &whole] {
        let bytes = std::fs::read(archive).unwrap();
        assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()), "it stands there in plain");
    }
    for (archive, opens) in [(&bare, false), (&whole, true)] {
        host.program().signal(Signal::TERM);
        assert!(host.program().ended().await.success());
        std::fs::remove_dir_all(host.data()).unwrap();
        let told = done(&run(&host, "restore", archive, &[]));
        assert_eq!(told.contains("entered again: echo"), !opens, "{told}");
        host = host.again(|settings| settings).await;
        let owner = User::log_in(&host.client(), OWNER, OWNER_PASSWORD).await;
        let settings = owner.get(SETTINGS).await.expect(200);
        assert_eq!(settings["settings"]["greeting"], json!({"set": true}), "{settings}");
        if opens {
            assert_eq!(owner.get("/v1/admin/plugins/echo/hello").await.expect(200)["greeting"], SECRET);
        } else {
            assert_eq!(settings["unreadable"], json!(["/greeting"]));
            assert_eq!(plugin_state(&owner, "echo").await, "refused");
        }
    }
}

#[tokio::test]
async fn a_file_that_is_no_backup_is_named_without_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("junk");
    let data = folder.path().join("data");
    let junk: Vec<u8> = (0..4096_u32).map(|n| [0x1b, b'[', b'2', b'J', 0x9b, 0xff, b'\n', 7][n as usize % 8]).collect();
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(3);
    tar.append_data(&mut header, "evil\u{1b}[2J", &b"abc"[..]).unwrap();
    let mut head = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(6);
    head.append_data(&mut header, "cardinal-backup.json", &b"{\x1b[2J}"[..]).unwrap();
    let cases = [
        (junk, "not a tar archive"),
        (Vec::new(), "it is empty"),
        (tar.into_inner().unwrap(), "its first member is not cardinal-backup.json"),
        (head.into_inner().unwrap(), "is damaged"),
    ];
    for (bytes, told) in cases {
        std::fs::write(&file, bytes).unwrap();
        let output = cardinal([Path::new("restore"), Path::new("--data-dir"), &data, &file]);
        refused(&output, &["is not a Cardinal backup", told]);
        let printable = |byte: &u8| *byte == b'\n' || (0x20..0x7f).contains(byte);
        assert!(output.stderr.iter().all(printable), "{:?}", String::from_utf8_lossy(&output.stderr));
        assert!(!data.exists());
    }
}
