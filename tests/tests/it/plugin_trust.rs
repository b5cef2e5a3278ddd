//! Whose a plugin's name is: of who signed it first, until an operator says otherwise.

use std::{io::Cursor, os::unix::fs::PermissionsExt as _, path::Path};

use cardinal_package::{owners::Owners, package};
use cardinal_tests::{Host, Package, PluginsFolder};
use minisign::KeyPair;
use serde_json::{Value, json};

const ECHO: &str = "/v1/admin/plugin-registry/echo";

/// Writes a public key to where `PLUGIN_TRUST_KEYS` may name it, and gives the file.
pub(super) fn trusted(pair: &KeyPair, folder: &Path, name: &str) -> String {
    let file = folder.join(name);
    write(&file, &pair.pk.to_box().unwrap().into_string());
    file.display().to_string()
}

/// Lays an operator's signature beside the files of a package.
pub(super) fn sign(pair: &KeyPair, folder: &Path) {
    let bytes = package::read_for(folder, &Owners::anybody()).unwrap().signed_bytes();
    let signature = minisign::sign(None, &pair.sk, Cursor::new(bytes), None, None).unwrap().into_string();
    write(&folder.join("SHA256SUMS.minisig"), &signature);
}

pub(super) fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
}

#[tokio::test]
async fn another_signer_gets_a_name_on_an_operators_word() {
    let [first, second, stranger] = [(); 3].map(|()| KeyPair::generate_unencrypted_keypair().unwrap());
    let keys = tempfile::tempdir().unwrap();
    let files = [("first.pub", &first), ("second.pub", &second)].map(|(name, pair)| trusted(pair, keys.path(), name));
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let folder = plugins.path().join("echo");
    sign(&first, &folder);
    let host = Host::settings().plugins(plugins).set("PLUGIN_TRUST_KEYS", files.join(",")).start().await;
    let owner = host.owner().await;
    let report = async || owner.get(ECHO).await.expect(200)["item"].clone();
    let rescan = async || drop(owner.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200));
    let accept = async |sha256: &Value| owner.post(&format!("{ECHO}/accept-signer"), &json!({"sha256": sha256})).await;
    let known = report().await;
    assert!(known["signed_by"].is_string() && known["state"] == "active", "{known}");
    accept(&known["sha256"]).await.refused(409, "conflict");

    // Other files under the name, by nobody, by a stranger, by somebody whom the host knows.
    write(
        &folder.join("schema.sql"),
        "CREATE TABLE IF NOT EXISTS notes (id bigint, card_id uuid, text text, written_at timestamptz); SELECT 1",
    );
    std::fs::remove_file(folder.join("SHA256SUMS.minisig")).unwrap();
    rescan().await;
    let unsigned = report().await;
    assert_eq!(
        (&unsigned["state"], &unsigned["refusal"]["code"]),
        (&json!("active"), &json!("signer-changed")),
        "{unsigned}"
    );
    sign(&stranger, &folder);
    rescan().await;
    let strange = report().await;
    assert_eq!(strange["refusal"]["code"], "signer-changed", "{strange}");
    let problem = accept(&strange["pending"]["sha256"]).await.refused(409, "conflict");
    assert!(problem["detail"].as_str().unwrap().contains("PLUGIN_TRUST_KEYS"), "{problem}");
    sign(&second, &folder);
    rescan().await;
    let other = report().await;
    assert_eq!((&other["refusal"]["code"], &other["sha256"]), (&json!("signer-changed"), &known["sha256"]), "{other}");
    assert_ne!(other["pending"]["signed_by"], known["signed_by"]);

    accept(&known["sha256"]).await.refused(409, "conflict");
    owner.post(&format!("{ECHO}/accept-signer"), &json!({})).await.refused(422, "validation-failed");
    let viewer = owner.make_user("viewer").await;
    viewer.post(&format!("{ECHO}/accept-signer"), &json!({"sha256": "x"})).await.refused(403, "insufficient-scope");
    let accepted = accept(&other["pending"]["sha256"]).await.expect(200)["item"].clone();
    assert_eq!(
        (&accepted["refusal"], &accepted["signed_by"]),
        (&Value::Null, &other["pending"]["signed_by"]),
        "{accepted}"
    );
    // Refusals are written beside, and may come later.
    let line = owner.get("/v1/admin/audit?limit=1&outcome=ok&action=plugin.accept_signer").await.expect(200)["items"]
        [0]
    .clone();
    assert_eq!(line["detail"]["now"], other["pending"]["signed_by"], "{line}");

    // The first one has no claim any more.
    sign(&first, &folder);
    rescan().await;
    assert_eq!(report().await["refusal"]["code"], "signer-changed");
}

#[tokio::test]
async fn an_untrusted_package_is_refused_before_its_manifest_is_parsed() {
    let pair = KeyPair::generate_unencrypted_keypair().unwrap();
    let keys = tempfile::tempdir().unwrap();
    let key = trusted(&pair, keys.path(), "operator.pub");
    let broken = Package::fixture("echo").manifest(|manifest| manifest["version"] = json!("no version"));
    let plugins = PluginsFolder::default().with("echo", &broken);
    let folder = plugins.path().join("echo");
    let settings = Host::settings().plugins(plugins).set("PLUGIN_TRUST", "signed").set("PLUGIN_TRUST_KEYS", &key);
    let host = settings.start().await;
    let owner = host.owner().await;
    let report = async || owner.get(ECHO).await.expect(200)["item"].clone();
    let rescan = async || drop(owner.post("/v1/admin/plugin-registry/rescan", &Value::Null).await.expect(200));
    let unsigned = report().await;
    assert_eq!(
        (&unsigned["state"], &unsigned["refusal"]["code"], &unsigned["title"]),
        (&json!("refused"), &json!("signature-missing"), &Value::Null),
        "{unsigned}"
    );
    // The operator's word counts for the name, trusted or not.
    owner.post(&format!("{ECHO}/disable"), &Value::Null).await.expect(200);
    assert_eq!(report().await["state"], "disabled");
    owner.post(&format!("{ECHO}/enable"), &Value::Null).await.expect(200);
    sign(&pair, &folder);
    rescan().await;
    assert_eq!(report().await["refusal"]["code"], "bad-manifest", "now it is trusted, and read");
}
