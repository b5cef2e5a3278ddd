//! A plugin in another language: the plugin API is plain C, and asks neither for Rust nor for the SDK.

use std::process::Command;

use cardinal_tests::{Host, Package, PluginsFolder, eventually, repository};
use serde_json::json;

/// What `.crd_hdr` says of the frozen layouts: FNV-1a of the text.
fn layout_hash() -> u64 {
    let text = std::fs::read(repository().join("plugin-abi/src/layout.txt")).unwrap();
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The plugin `in-c`, compiled by the machine's own compiler, which Rust needs as well to link. Small enough to be kept
/// as a file once the layouts are frozen; until then each change of them would make a kept one useless.
fn in_c() -> Package {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libin_c.so");
    let target = format!("-DTARGET=\"{}-linux-gnu\"", std::env::consts::ARCH);
    let hash = format!("-DLAYOUT_HASH={}u", layout_hash());
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-s", &hash, &target, "-o"])
        .arg(&library)
        .arg(repository().join("tests/in-c/plugin.c"))
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let bytes = std::fs::read(library).unwrap();
    assert!(bytes.len() < 64 << 10, "{} bytes", bytes.len());
    Package::made("in-c", bytes)
}

#[tokio::test]
async fn a_plugin_in_c_serves_like_any_other() {
    let host = Host::settings().plugins(PluginsFolder::default().with("in-c", &in_c())).start().await;
    let owner = host.owner().await;
    let hello = owner.get("/v1/admin/plugins/in-c/hello").await.expect(200);
    assert_eq!(hello, json!({"hello": owner.username, "tool": "", "from": "C"}));
    let registry = owner.get("/v1/admin/plugin-registry/in-c").await.expect(200)["item"].clone();
    assert_eq!((&registry["state"], &registry["library"]["sdk"]), (&json!("active"), &json!("none")), "{registry}");
    eventually("its line is in the log", async || host.log().contains("called in C").then_some(())).await;
    for path in ["disable", "enable"] {
        let answer = owner.post(&format!("/v1/admin/plugin-registry/in-c/{path}"), &json!({})).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.text());
    }
    owner.get("/v1/admin/plugins/in-c/hello").await.expect(200); // it was stopped, freed and made again
}
