//! Contract 4: the API's description holds what the API does: valid by the standard, taken by a client generator, and
//! no request that is made from it finds a failure or an answer that it does not tell.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use cardinal_tests::{Answer, Host, Package, PluginsFolder, User, repository, run, unique};
use http::Method;
use serde_json::{Value, json};

const DOCUMENT: &str = "/v1/admin/openapi.json";

/// What `scripts/test` installs; see `ensure_openapi_tools` in `scripts/lib.sh`.
fn tool(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    let path = target.join("openapi-tools/bin").join(name);
    assert!(path.exists(), "{} is missing: source scripts/lib.sh and call ensure_openapi_tools", path.display());
    path
}

async fn run_tool(command: Command) -> (Output, String) {
    let output = run(command).await;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output, printed)
}

async fn with_plugins() -> Host {
    let plugins =
        PluginsFolder::bundled().with("quick", &Package::fixture("quick")).with("echo", &Package::fixture("echo"));
    let settings = json!({"allow_private_addresses": true}).to_string();
    Host::settings()
        .plugins(plugins)
        .set("PLUGIN_SETTINGS_SUPPLIER", settings)
        // So that the fuzzer can come from many addresses: limits per address are not what it is here for.
        .set("TRUSTED_PROXIES", "127.0.0.0/8")
        .start()
        .await
}

async fn written(user: &User, folder: &Path) -> PathBuf {
    let file = folder.join("openapi.json");
    std::fs::write(&file, user.get(DOCUMENT).await.expect(200).to_string()).unwrap();
    file
}

/// The Admin UI is compiled against types that are made from the document; a host that describes itself otherwise makes
/// them old.
#[tokio::test]
async fn the_types_of_the_admin_ui_are_those_of_the_document() {
    let host = Host::shared().await;
    let folder = tempfile::tempdir().unwrap();
    let file = written(host.owner().await, folder.path()).await;
    let mut check = Command::new("node");
    check.arg("build/types.js").arg(&file).arg("--check").current_dir(repository().join("frontend"));
    let (output, printed) = run_tool(check).await;
    assert!(output.status.success(), "{printed}");
}

#[tokio::test]
async fn the_document_is_valid_and_a_client_generator_takes_it() {
    let host = with_plugins().await;
    let folder = tempfile::tempdir().unwrap();
    let file = written(host.owner().await, folder.path()).await;
    let mut validate = Command::new(tool("python"));
    validate.args(["-m", "openapi_spec_validator", "--schema", "3.1"]).arg(&file);
    let (output, printed) = run_tool(validate).await;
    assert!(output.status.success(), "{printed}");
    let types = folder.path().join("api.d.ts");
    let mut generate = Command::new("npx");
    generate.args(["--no-install", "openapi-typescript"]).arg(&file).arg("-o").arg(&types);
    generate.current_dir(repository().join("tests/clients"));
    let (output, printed) = run_tool(generate).await;
    assert!(output.status.success(), "{printed}");
    let types = std::fs::read_to_string(types).unwrap();
    for operation in ["listCards", "updateCard", "plugin_supplier_enrich"] {
        assert!(types.contains(operation), "{operation} is missing in what was generated");
    }
}

#[tokio::test]
async fn it_holds_the_core_and_the_plugins_that_the_caller_may_read() {
    let host = with_plugins().await;
    let owner = host.owner().await;
    let document = owner.get(DOCUMENT).await.expect(200);
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(document["servers"][0]["url"], host.url());
    let list = &document["paths"]["/v1/admin/master-cards"]["get"];
    assert_eq!((&list["operationId"], &list["x-required-scope"]), (&json!("listCards"), &json!("cards:read")));
    let limit = list["parameters"].as_array().unwrap().iter().find(|parameter| parameter["name"] == "limit").unwrap();
    assert_eq!((&limit["schema"]["minimum"], &limit["schema"]["maximum"]), (&json!(1), &json!(200)));
    let patch = &document["paths"]["/v1/admin/master-cards/{id}"]["patch"];
    assert!(patch["requestBody"]["content"]["application/merge-patch+json"].is_object(), "{patch}");
    // Every route of every plugin, as the registry reports them.
    for plugin in ["supplier", "echo", "quick"] {
        let report = owner.get(&format!("/v1/admin/plugin-registry/{plugin}")).await.expect(200)["item"].clone();
        let routes = report["routes"].as_array().unwrap();
        assert!(!routes.is_empty(), "{report}");
        for route in routes {
            let path = format!("/v1/admin/plugins/{plugin}{}", route["path"].as_str().unwrap().replace("{*", "{"));
            let operation = &document["paths"][&path][route["method"].as_str().unwrap().to_lowercase()];
            assert_eq!(operation["x-required-scope"], route["scope"], "{path}: {operation}");
        }
    }
    let narrow = owner.key(&["plugin:quick:read"]).await.get(DOCUMENT).await.expect(200).to_string();
    assert!(narrow.contains("/v1/admin/plugins/quick/") && !narrow.contains("/v1/admin/plugins/supplier/"));
    // A plugin that goes takes its routes along.
    owner.post("/v1/admin/plugin-registry/quick/disable", &Value::Null).await.expect(200);
    let without = owner.get(DOCUMENT).await.expect(200).to_string();
    assert!(!without.contains("/v1/admin/plugins/quick/") && without.contains("/v1/admin/plugins/supplier/"));
}

#[tokio::test]
async fn it_is_sent_once_and_small() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let ask = async |name: &str, value: &str| -> Answer {
        owner.call(Method::GET, DOCUMENT).header(name, value).send().await
    };
    let plain = owner.get(DOCUMENT).await;
    let tag = plain.header("etag").unwrap();
    let unchanged = ask("if-none-match", tag).await;
    assert_eq!((unchanged.status.as_u16(), unchanged.body.len()), (304, 0));
    let zipped = ask("accept-encoding", "br, gzip").await;
    assert_eq!(zipped.header("content-encoding"), Some("gzip"), "{:?}", zipped.headers);
    assert!(zipped.body.len() * 4 < plain.body.len(), "{} of {}", zipped.body.len(), plain.body.len());
    assert_ne!(zipped.header("etag"), Some(tag));
    host.client().get(DOCUMENT).await.refused(401, "missing-token");
    owner.get(&format!("{DOCUMENT}?x=1")).await.refused(400, "invalid-request");
}

#[tokio::test]
async fn a_short_fuzzing_finds_nothing() {
    fuzz(90).await;
}

#[tokio::test]
#[ignore = "long: scripts/test --long"]
async fn a_long_fuzzing_finds_nothing() {
    fuzz(1_800).await;
}

/// Requests that the document allows and requests that it does not, for so many seconds.
async fn fuzz(seconds: u32) {
    let host = with_plugins().await;
    let owner = host.owner().await;
    owner.card("Something to find").await;
    let folder = tempfile::tempdir().unwrap();
    let file = written(owner, folder.path()).await;
    let made = owner.make_key(json!({"name": unique("fuzzer"), "scopes": ["*"], "rate_limit": null})).await;
    let key = made["key"].as_str().unwrap();
    let mut command = Command::new(tool("schemathesis"));
    let settings = repository().join("tests/openapi/schemathesis.toml");
    command.arg("--config-file").arg(settings).args(["run", "--url", &host.url(), "--no-color"]);
    command.args(["--max-time", &seconds.to_string(), "--header", &format!("Authorization: Bearer {key}")]);
    command.arg(&file).current_dir(folder.path());
    command.env("SCHEMATHESIS_HOOKS", "hooks").env("PYTHONPATH", repository().join("tests/openapi"));
    let (output, printed) = run_tool(command).await;
    assert!(output.status.success(), "{printed}\n{}", failures(&host));
    eprintln!("{printed}");
    let log = failures(&host);
    assert!(log.is_empty(), "the host failed meanwhile:\n{log}");
}

/// What the host itself calls an error.
fn failures(host: &Host) -> String {
    let log = host.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(r#""level":"ERROR""#)).take(20).collect();
    lines.join("\n")
}
