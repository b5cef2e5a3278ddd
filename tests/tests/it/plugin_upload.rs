//! Plugins that come over the network: only where an operator has allowed it, signed by one of their keys, whole or not at
//! all, and never in another plugin's place.

use std::{io::Cursor, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use cardinal_tests::{Answer, Host, HostSettings, PluginsFolder, SmallDisk, User, built, eventually};
use http::Method;
use minisign::KeyPair;
use serde_json::Value;

use super::plugin_trust::trusted;

const UPLOAD: &str = "/v1/admin/plugin-registry/upload";

fn library(name: &str) -> Vec<u8> {
    std::fs::read(built(&format!("lib{name}.so"))).unwrap()
}

fn signature(pair: &KeyPair, bytes: &[u8]) -> String {
    let signed = minisign::sign(None, &pair.sk, Cursor::new(bytes), None, None).unwrap();
    STANDARD.encode(signed.into_string())
}

async fn upload(user: &User, library: Vec<u8>, signature: &str) -> Answer {
    let call = user.call(Method::POST, UPLOAD).header("plugin-signature", signature);
    call.body("application/octet-stream", library).send().await
}

/// A host that takes what `pair` has signed.
fn taking(pair: &KeyPair, keys: &Path) -> HostSettings {
    Host::settings().set("PLUGIN_UPLOAD", "on").set("PLUGIN_TRUST_KEYS", trusted(pair, keys, "vendor.pub"))
}

/// Everything that lies in the plugins folder, hidden names too.
fn lying(host: &Host) -> Vec<String> {
    let entries = std::fs::read_dir(host.plugins().path()).unwrap().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn without_the_operators_leave_nothing_is_taken() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let problem = upload(owner, library("quick"), "x").await.refused(403, "forbidden");
    assert!(problem["detail"].as_str().unwrap().contains("PLUGIN_UPLOAD"), "{problem}");
    // Nor can it be allowed without a key.
    let mut bare = Host::settings().set("PLUGIN_UPLOAD", "on").launch();
    assert!(!bare.program().ended().await.success());
    assert!(bare.log().contains("PLUGIN_TRUST_KEYS"), "{}", bare.log());
}

#[tokio::test]
async fn a_signed_plugin_is_taken_served_and_replaced() {
    let pair = KeyPair::generate_unencrypted_keypair().unwrap();
    let keys = tempfile::tempdir().unwrap();
    let host = taking(&pair, keys.path()).set("PLUGIN_TRUST", "signed").start().await;
    let owner = host.owner().await;
    let quick = library("quick");
    let item = upload(owner, quick.clone(), &signature(&pair, &quick)).await.expect(201)["item"].clone();
    assert_eq!(
        (&item["name"], &item["state"], &item["package"]),
        (&"quick".into(), &"active".into(), &"quick.so".into()),
        "{item}"
    );
    assert!(item["signed_by"].is_string(), "{item}");
    assert_eq!(lying(&host), ["quick.so", "quick.so.minisig"]);
    let line =
        owner.get("/v1/admin/audit?limit=1&outcome=ok&action=plugin.upload").await.expect(200)["items"][0].clone();
    assert_eq!((&line["target"], &line["detail"]["sha256"]), (&"quick".into(), &item["sha256"]), "{line}");
    // Again, in its own place. Bytes after the end of an ELF file change it and harm nothing.
    let mut again = quick;
    again.extend_from_slice(b"\0\0\0\0\0\0\0\0");
    let other = upload(owner, again.clone(), &signature(&pair, &again)).await.expect(201)["item"].clone();
    assert_eq!(other["state"], "active", "{other}");
    assert_eq!(lying(&host), ["quick.so", "quick.so.minisig"]);
    let host = host.restart(|settings| settings).await;
    let report = host.owner().await.get("/v1/admin/plugin-registry/quick").await.expect(200)["item"].clone();
    assert_eq!(report["state"], "active", "{report}");
}

#[tokio::test]
async fn what_does_not_serve_is_taken_out_of_the_folder_again() {
    let pair = KeyPair::generate_unencrypted_keypair().unwrap();
    let keys = tempfile::tempdir().unwrap();
    let host = taking(&pair, keys.path()).start().await;
    let owner = host.owner().await;
    let package = "/v1/admin/plugin-registry/quick/package";
    owner.delete(package).await.refused(404, "not-found");
    let quick = library("quick");
    upload(owner, quick.clone(), &signature(&pair, &quick)).await.expect(201);
    let problem = owner.delete(package).await.refused(409, "conflict");
    assert!(problem["detail"].as_str().unwrap().contains("Disable it first"), "{problem}");
    owner.post("/v1/admin/plugin-registry/quick/disable", &Value::Null).await.expect(200);
    owner.make_user("viewer").await.delete(package).await.refused(403, "insufficient-scope");
    owner.delete(package).await.expect(204);
    assert_eq!(lying(&host), Vec::<String>::new());
    owner.delete(package).await.refused(404, "not-found");
    let line =
        owner.get("/v1/admin/audit?limit=1&action=plugin.remove&outcome=ok").await.expect(200)["items"][0].clone();
    assert_eq!(line["target"], "quick", "{line}");
}

#[tokio::test]
async fn what_is_not_signed_or_no_plugin_leaves_nothing_behind() {
    let [pair, stranger] = [(); 2].map(|()| KeyPair::generate_unencrypted_keypair().unwrap());
    let keys = tempfile::tempdir().unwrap();
    let host = taking(&pair, keys.path()).start().await;
    let owner = host.owner().await;
    let quick = library("quick");
    let refusal = |problem: Value| problem["refusal"]["code"].as_str().unwrap_or_default().to_owned();
    let by_stranger =
        upload(owner, quick.clone(), &signature(&stranger, &quick)).await.refused(422, "validation-failed");
    assert_eq!(refusal(by_stranger), "signature-invalid");
    let of_other =
        upload(owner, quick.clone(), &signature(&pair, b"other bytes")).await.refused(422, "validation-failed");
    assert_eq!(refusal(of_other), "signature-invalid");
    let nonsense =
        upload(owner, quick.clone(), &STANDARD.encode("no minisign file")).await.refused(422, "validation-failed");
    assert_eq!(refusal(nonsense), "signature-invalid");
    upload(owner, quick.clone(), "not base64!").await.refused(400, "invalid-request");
    upload(owner, quick.clone(), &STANDARD.encode(vec![b'x'; 5_000])).await.refused(400, "invalid-request");
    owner
        .call(Method::POST, UPLOAD)
        .body("application/octet-stream", quick.clone())
        .send()
        .await
        .refused(400, "invalid-request");
    // Signed, and good for nothing.
    for bytes in [b"this is no library".to_vec(), Vec::new(), quick[..quick.len() / 2].to_vec()] {
        let problem = upload(owner, bytes.clone(), &signature(&pair, &bytes)).await.refused(422, "validation-failed");
        assert!(
            ["not-a-plugin", "truncated", "bad-manifest"].contains(&refusal(problem.clone()).as_str()),
            "{problem}"
        );
    }
    let viewer = owner.make_user("viewer").await;
    upload(&viewer, b"short".to_vec(), &signature(&pair, b"short")).await.refused(403, "insufficient-scope");
    let broken = upload_half(&host, owner, &quick).await;
    assert!(broken, "the connection was cut");
    eventually("nothing is left", async || lying(&host).is_empty().then_some(())).await;
}

/// Says that more comes than does, and goes.
async fn upload_half(host: &Host, owner: &User, bytes: &[u8]) -> bool {
    use tokio::io::AsyncWriteExt as _;
    let mut socket = tokio::net::TcpStream::connect(host.address()).await.unwrap();
    let head = format!(
        "POST {UPLOAD} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nPlugin-Signature: eA==\r\nContent-Length: {}\r\n\r\n",
        host.address(),
        owner.token,
        bytes.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(&bytes[..bytes.len() / 3]).await.is_ok()
}

#[tokio::test]
async fn no_upload_takes_another_plugins_place() {
    let pair = KeyPair::generate_unencrypted_keypair().unwrap();
    let keys = tempfile::tempdir().unwrap();
    let quick = library("quick");
    // The plugin is already in a folder, and another one's file has the name that the upload would get.
    let folder = PluginsFolder::default().with("some-folder", &cardinal_tests::Package::fixture("quick"));
    let host = taking(&pair, keys.path()).plugins(folder).start().await;
    let owner = host.owner().await;
    let problem = upload(owner, quick.clone(), &signature(&pair, &quick)).await.refused(409, "conflict");
    assert_eq!(problem["detail"], "Already installed in the folder `some-folder`. Remove that folder first.");
    assert_eq!(lying(&host), ["some-folder"]);

    let other = PluginsFolder::default();
    let place = other.path().join("quick.so");
    std::fs::write(&place, library("echo")).unwrap();
    std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let host = taking(&pair, keys.path()).plugins(other).start().await;
    let owner = host.owner().await;
    let problem = upload(owner, quick.clone(), &signature(&pair, &quick)).await.refused(409, "conflict");
    assert!(problem["detail"].as_str().unwrap().contains("echo"), "{problem}");
    assert_eq!(lying(&host), ["quick.so"]);
    assert_eq!(owner.get("/v1/admin/plugin-registry/echo").await.expect(200)["item"]["state"], "active");
}

#[tokio::test]
async fn a_full_disk_keeps_nothing_of_an_upload_and_takes_it_once_there_is_room() {
    let quick = library("quick");
    // Room for the library, and not for a second one beside it.
    let Some(disk) = SmallDisk::new(quick.len() as u64 / (1 << 20) * 3 / 2 + 1) else { return };
    let pair = KeyPair::generate_unencrypted_keypair().unwrap();
    let keys = tempfile::tempdir().unwrap();
    let host = taking(&pair, keys.path()).plugins(PluginsFolder::within(disk.folder())).start().await;
    let owner = host.owner().await;
    disk.fill();
    let full = upload(owner, quick.clone(), &signature(&pair, &quick)).await;
    full.refused(507, "storage-full");
    assert!(lying(&host).is_empty(), "{:?}", lying(&host));
    disk.make_room();
    assert_eq!(upload(owner, quick.clone(), &signature(&pair, &quick)).await.expect(201)["item"]["state"], "active");
    // The one that serves is not touched by one that finds no room.
    let mut again = quick;
    again.extend_from_slice(b"\0\0\0\0\0\0\0\0");
    upload(owner, again.clone(), &signature(&pair, &again)).await.refused(507, "storage-full");
    assert_eq!(lying(&host), ["quick.so", "quick.so.minisig"]);
    owner.get("/v1/admin/plugins/quick/hello").await.expect(200);
}
