//! `cardinal cards import` and `export`: files and pipes, plain lines where nobody looks, and how they end.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use cardinal_tests::{Host, cardinal_program, run, unique};
use serde_json::{Value, json};

use super::import::by_sku;

fn command(host: &Host, key: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(cardinal_program());
    command.args(["cards"]).args(arguments).env("CARDINAL_URL", host.url()).env("CARDINAL_API_KEY", key);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn printed(output: &Output) -> String {
    format!(
        "{:?}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[tokio::test]
async fn cards_go_out_into_a_file_and_come_back() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let key = owner.key(&["*"]).await.token;
    let word = unique("cli");
    for n in 0..3 {
        let wanted = json!({"title": format!("{word} {n}"), "sku": format!("{word}-{n}"), "attributes": {"n": n}});
        owner.post("/v1/admin/master-cards", &wanted).await.expect(201);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cards.csv");
    let path = file.to_str().unwrap();
    let out = run(command(&host, &key, &["export", "--q", &word, path])).await;
    assert!(out.status.success() && printed(&out).contains("4 lines in"), "{}", printed(&out));
    let again = run(command(&host, &key, &["export", "--q", &word, path])).await;
    assert!(!again.status.success() && printed(&again).contains("--overwrite"), "{}", printed(&again));
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().next(), Some("id,sku,title,status,attributes,version,created_at,updated_at"));

    let back = run(command(&host, &key, &["import", "--mode", "upsert", "--keep-sources", path])).await;
    assert!(
        back.status.success() && printed(&back).contains("0 created, 0 updated, 3 unchanged, 0 refused (done"),
        "{}",
        printed(&back)
    );
    let create = run(command(&host, &key, &["import", "--dry-run", path])).await;
    assert_eq!(create.status.code(), Some(1), "{}", printed(&create));
    assert!(printed(&create).contains("line 2: Another card has this SKU."), "{}", printed(&create));
    let stdout = run(command(&host, &key, &["export", "--q", &word])).await;
    let lines: Vec<Value> =
        String::from_utf8(stdout.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
}

#[tokio::test]
async fn bad_rows_are_told_and_kept_in_a_file() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let key = owner.key(&["cards:write"]).await.token;
    let sku = unique("cli");
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let key_file = write("key", &format!("{key}\n"));
    let cards = write("cards", &format!("{{\"title\":\"T\",\"sku\":\"{sku}\"}}\n{{\"title\":\"T\"}}\n"));
    let errors = folder.path().join("bad.ndjson");
    let mut command =
        command(&host, "", &["import", "--key-file", &key_file, "--errors", errors.to_str().unwrap(), "-"]);
    command.stdin(std::fs::File::open(Path::new(&cards)).unwrap());
    let out = run(command).await;
    assert_eq!(out.status.code(), Some(1), "{}", printed(&out));
    assert!(printed(&out).contains("1 created, 0 updated, 0 unchanged, 1 refused"), "{}", printed(&out));
    assert!(printed(&out).contains("line 2: sku: A SKU is required."), "{}", printed(&out));
    let kept: Value = serde_json::from_str(std::fs::read_to_string(&errors).unwrap().trim()).unwrap();
    assert_eq!(kept["line"], 2);
    assert!(by_sku(owner, &sku).await.is_some());
}

#[tokio::test]
async fn on_the_hosts_own_machine_no_key_is_needed() {
    let host = Host::shared().await;
    let (sku, folder) = (unique("cli"), tempfile::tempdir().unwrap());
    let file = folder.path().join("card.ndjson");
    std::fs::write(&file, json!({"title": "T", "sku": sku}).to_string()).unwrap();
    let local = |arguments: &[&str]| {
        let mut command = command(&host, "", arguments);
        command.env_remove("CARDINAL_API_KEY").env_remove("CARDINAL_URL").arg("--data-dir").arg(host.data());
        command
    };
    let out = run(local(&["import", file.to_str().unwrap()])).await;
    assert!(out.status.success() && printed(&out).contains("1 created"), "{}", printed(&out));
    let out = run(local(&["export", "--q", &sku, "--format", "csv"])).await;
    assert!(out.status.success() && printed(&out).contains(&format!(",{sku},T,draft,")), "{}", printed(&out));
}

#[tokio::test]
async fn what_goes_wrong_is_told_in_words() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let reader = owner.key(&["cards:read"]).await.token;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.csv");
    std::fs::write(&file, "sku,colour\n").unwrap();
    let path = file.to_str().unwrap();
    let refused = run(command(&host, &reader, &["import", path])).await;
    assert_eq!(refused.status.code(), Some(77), "{}", printed(&refused));
    assert!(printed(&refused).contains("This needs the scope `cards:write`"), "{}", printed(&refused));
    let unknown = run(command(&host, "mpk_nonsense", &["export"])).await;
    assert_eq!(unknown.status.code(), Some(77), "{}", printed(&unknown));
    let writer = owner.key(&["cards:write"]).await.token;
    let columns = run(command(&host, &writer, &["import", path])).await;
    assert!(
        columns.status.code() == Some(1) && printed(&columns).contains("/colour: Unknown column"),
        "{}",
        printed(&columns)
    );
    let mut nobody = command(&host, &writer, &["export"]);
    nobody.env("CARDINAL_URL", "http://127.0.0.1:9");
    let nobody = run(nobody).await;
    assert!(nobody.status.code() == Some(69) && printed(&nobody).contains("cannot be reached"), "{}", printed(&nobody));
    let typo = run(command(&host, &writer, &["export", "--url", "shop"])).await;
    assert_eq!(typo.status.code(), Some(64), "{}", printed(&typo));
}
