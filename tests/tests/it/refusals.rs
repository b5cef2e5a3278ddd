//! What must not get in is turned away in plain words, and harms nobody: not the host, not another
//! plugin, not the plugin of the same name that is well.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cardinal_tests::{Host, Others, Package, PluginsFolder, cardinal, eventually, exited, repository};
use http::Method;
use serde_json::{Value, json};

/// The state of every package, by its folder, once none of them is being loaded: a host waits for that as it starts, but
/// not for as long as a busy machine may take.
async fn registry(host: &Host) -> Vec<Value> {
    eventually("every package has been loaded or refused", async || {
        let items = host.owner().await.get("/v1/admin/plugin-registry").await.expect(200)["items"].take();
        let items = items.as_array().unwrap().clone();
        items.iter().all(|item| item["state"] != "checked").then_some(items)
    })
    .await
}

/// The same, once each that wanted a name while another one was being loaded with it has had its turn; `late` comes too
/// late for good.
async fn registry_after_turns(host: &Host, late: &str) -> Vec<Value> {
    eventually("each package had its turn", async || {
        let registry = registry(host).await;
        let waits = |item: &Value| item["refusal"]["code"] == "duplicate-name" && item["package"] != late;
        (!registry.iter().any(waits)).then_some(registry)
    })
    .await
}

fn entry<'r>(registry: &'r [Value], package: &str) -> &'r Value {
    registry.iter().find(|item| item["package"] == package).unwrap_or_else(|| panic!("{package} was not found"))
}

/// Every package was refused for its reason, with both values and what to do.
fn refused(registry: &[Value], expected: &[(&str, &str)]) {
    let wrong: Vec<String> = expected
        .iter()
        .filter_map(|(package, code)| {
            let item = entry(registry, package);
            let refusal = &item["refusal"];
            let says = |what| refusal[what].as_str().is_some_and(|text| !text.is_empty());
            let told = ["reason", "expected", "found", "fix"].into_iter().all(says);
            let right = item["state"] == "refused" && refusal["code"] == *code && told;
            (!right).then(|| format!("{package}: expected {code}, found {} {refusal}", item["state"]))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `echo`, with the bytes of its library changed.
fn bytes(change: impl FnOnce(&mut Vec<u8>)) -> Package {
    Package::fixture("echo").library(|mut bytes| {
        change(&mut bytes);
        Some(bytes)
    })
}

/// `echo`, with its manifest changed.
fn manifest(pointer: &'static str, value: Value) -> Package {
    Package::fixture("echo").manifest(move |manifest| {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = manifest.pointer_mut(parent).unwrap();
        match value {
            Value::Null => drop(parent.as_object_mut().unwrap().remove(name)),
            value => parent[name] = value,
        }
    })
}

fn find(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|window| window == what).expect("the library has it")
}

/// Field `offset` of the plugin header that every library carries.
fn header(offset: usize, value: u32) -> Package {
    bytes(|library| {
        let at = find(library, b"CRDPLUG\n") + offset;
        library[at..at + 4].copy_from_slice(&value.to_le_bytes());
    })
}

/// `bad-constructor`, committing this sin.
fn constructor(sin: &[u8; 5]) -> Package {
    sinner("bad-constructor", sin)
}

fn sinner(fixture: &str, sin: &[u8; 5]) -> Package {
    Package::fixture(fixture).sin(sin)
}

async fn echo_answers(host: &Host) {
    let answer = host.owner().await.get("/v1/admin/plugins/echo/hello").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn what_the_files_give_away_is_refused_before_any_code_runs() {
    const FOREIGN: u16 = if cfg!(target_arch = "aarch64") { 62 } else { 183 };
    let header_symbol = b"cardinal_plugin_1";
    let plugins = PluginsFolder::default()
        .with("a-text", &Package::fixture("echo").library(|_| Some(b"this is not a library\n".to_vec())))
        .with("a-nothing", &Package::fixture("echo").library(|_| Some(Vec::new())))
        .with("a-truncated", &bytes(|library| library.truncate(library.len() / 2)))
        .with("a-last-byte", &bytes(|library| library.truncate(library.len() - 1)))
        .with("a-foreign", &bytes(|library| library[18..20].copy_from_slice(&FOREIGN.to_le_bytes())))
        .with("a-windows", &Package::fixture("echo").library(|_| Some(b"MZ\x90\0\x03".to_vec())))
        .with(
            "a-no-header",
            &bytes(|library| {
                let at = find(library, header_symbol);
                library[at] = b'x';
            }),
        )
        .with("a-api", &header(12, 2))
        .with("a-abort", &header(20, 2))
        .with("a-flag", &header(24, 1))
        .with("a-layout", &header(32, 2))
        .with("m-requires", &manifest("/requires", json!(["mcp.tools", "contributes.walls"])))
        .with("a-no-library", &Package::fixture("echo").library(|_| None))
        .with("a-two", &Package::fixture("echo"))
        .with("a-writable", &Package::fixture("echo"))
        .with("a-writable-folder", &Package::fixture("echo"))
        .with("a-link", &Package::fixture("echo"))
        .with("m-json", &Package::fixture("echo").manifest_text("{"))
        .with("m-name", &manifest("/name", json!("Echo_1")))
        .with("m-reserved", &manifest("/name", json!("pg-echo")))
        .with("m-type", &manifest("/provides_kinds", json!("echo")))
        .with("m-no-engine", &manifest("/engine", Value::Null))
        .with("m-api", &manifest("/engine/plugin_api_version", json!("2")))
        .with("m-core", &manifest("/engine/core_version", json!(">=99.0.0")))
        .with("m-tool", &manifest("/mcp/tools/0/name", json!("echo_say")))
        .with("m-tabs", &manifest("/frontend", Value::Null))
        .with("m-main", &manifest("/frontend/main", json!("other.js")))
        .with("m-version", &manifest("/version", json!("1.0.1")))
        .with(
            "m-other-name",
            &manifest("/name", json!("reverb"))
                .manifest(|manifest| drop(manifest.as_object_mut().unwrap().remove("mcp"))),
        )
        .with("m-no-name", &manifest("/name", Value::Null))
        .with("m-no-semver", &manifest("/version", json!("one")))
        .with("echo", &Package::fixture("echo"));
    let at = |path: &str| plugins.path().join(path);
    let chmod = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    std::fs::copy(at("a-two/libplugin.so"), at("a-two/second.so")).unwrap();
    chmod(&at("a-writable/libplugin.so"), 0o666);
    chmod(&at("a-writable-folder"), 0o777);
    std::fs::rename(at("a-link/libplugin.so"), at("a-link/real")).unwrap();
    std::os::unix::fs::symlink("real", at("a-link/libplugin.so")).unwrap();
    std::fs::create_dir(at("a-dll")).unwrap();
    std::fs::copy(at("echo/manifest.json"), at("a-dll/manifest.json")).unwrap();
    std::fs::write(at("a-dll/echo.dll"), b"MZ").unwrap();

    let host = Host::settings().plugins(plugins).start().await;
    let registry = registry(&host).await;
    refused(
        &registry,
        &[
            ("a-text", "not-a-plugin"),
            ("a-nothing", "not-a-plugin"),
            ("a-truncated", "truncated"),
            ("a-last-byte", "truncated"),
            ("a-foreign", "wrong-architecture"),
            ("a-windows", "wrong-platform"),
            ("a-dll", "wrong-platform"),
            ("a-no-header", "not-a-plugin"),
            ("a-api", "unsupported-api-version"),
            ("a-abort", "panic-abort"),
            ("a-flag", "feature-missing"),
            ("a-layout", "layout-mismatch"),
            ("a-no-library", "library-missing"),
            ("a-two", "several-libraries"),
            ("a-writable", "world-writable"),
            ("a-writable-folder", "world-writable"),
            ("a-link", "link-refused"),
            ("m-json", "bad-manifest"),
            ("m-name", "bad-name"),
            ("m-reserved", "reserved-name"),
            ("m-type", "bad-manifest"),
            ("m-no-engine", "bad-manifest"),
            ("m-api", "unsupported-api-version"),
            ("m-core", "core-out-of-range"),
            ("m-requires", "feature-missing"),
            ("m-tool", "bad-tool-name"),
            ("m-tabs", "bad-manifest"),
            ("m-main", "frontend-invalid"),
            ("m-version", "manifest-mismatch"),
            ("m-other-name", "manifest-mismatch"),
            ("m-no-name", "bad-manifest"),
            ("m-no-semver", "bad-manifest"),
        ],
    );
    let wrong_type = &entry(&registry, "m-type")["refusal"];
    assert_eq!(wrong_type["expected"], "/provides_kinds: an array");
    assert_eq!(wrong_type["found"], "/provides_kinds: the string \"echo\"");
    assert_eq!(entry(&registry, "echo")["state"], "active", "the good one of the name is not kept out");
    echo_answers(&host).await;
    let shown = host.owner().await.get("/v1/admin/plugins").await.expect(200);
    assert_eq!(shown["items"].as_array().unwrap().len(), 1, "the Admin UI sees what serves: {shown}");
}

#[tokio::test]
async fn a_library_that_ends_or_holds_its_process_never_does_so_to_the_host() {
    let plugins = PluginsFolder::default()
        .with("c-abort", &constructor(b"abort"))
        .with("c-crash", &constructor(b"crash"))
        .with("c-exit", &constructor(b"exit."))
        .with("c-hang", &constructor(b"hang."))
        .with("c-hung", &constructor(b"hang."))
        .with("d-last", &constructor(b"abort"))
        .with("l-layout", &Package::fixture("other-layout"))
        .with("r-panic", &Package::fixture("panics-in-routes"))
        .with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    let worker = host.worker_pid();
    // Six of them want one name: who holds its process keeps the others waiting for their turn, and has one turn.
    let registry = registry_after_turns(&host, "").await;
    refused(
        &registry,
        &[
            ("c-abort", "probe-failed"),
            ("c-crash", "probe-failed"),
            ("c-exit", "probe-failed"),
            ("c-hang", "probe-failed"),
            ("c-hung", "probe-failed"),
            ("d-last", "probe-failed"),
            ("l-layout", "layout-mismatch"),
            ("r-panic", "create-panicked"),
        ],
    );
    let found = |package| entry(&registry, package)["refusal"]["found"].as_str().unwrap_or_default().to_owned();
    assert!(found("c-abort").contains("SIGABRT"), "{}", found("c-abort"));
    assert!(found("c-crash").contains("SIGSEGV"), "{}", found("c-crash"));
    assert!(found("c-exit").contains("status 0"), "{}", found("c-exit"));
    assert!(found("r-panic").contains("no routes for panics-in-routes today"), "{}", found("r-panic"));
    echo_answers(&host).await;
    assert_eq!(host.worker_pid(), worker, "the worker that looked at them is the one that serves");
    assert!(!host.log().contains("has ended"), "no worker ended:\n{}", host.log());
}

/// They come in while others ask: at the start nobody would notice a worker that begins once more.
#[tokio::test]
async fn routes_that_end_or_hold_their_process_are_refused_and_harm_nobody() {
    let plugins =
        PluginsFolder::default().with("quick", &Package::fixture("quick")).with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    let (worker, others) = (host.worker_pid(), Others::start(&host).await);
    for (package, sin, code, found) in [
        // Were what starts probes gone, the next ones would not be tried.
        ("r-owner", b"owner", "probe-failed", "SIGABRT"),
        ("r-crowd", b"crowd", "probe-failed", "SIGKILL"),
        ("r-names", b"names", "probe-failed", "SIGKILL"),
        // What comes to nothing aborts.
        ("r-share", b"share", "probe-failed", "SIGABRT"),
        ("r-grows", b"grows", "probe-failed", "SIGABRT"),
        ("r-table", b"table", "probe-failed", "SIGABRT"),
        ("r-types", b"types", "probe-failed", "SIGABRT"),
        ("r-abort", b"abort", "probe-failed", "SIGABRT"),
        ("r-crash", b"crash", "probe-failed", "SIGSEGV"),
        ("r-exit", b"exit.", "probe-failed", "status 0"),
        ("r-hang", b"hang.", "create-failed", "still running"),
    ] {
        host.plugins().put(package, &sinner("panics-in-routes", sin));
        host.owner().await.call(Method::POST, "/v1/admin/plugin-registry/rescan").send().await.expect(200);
        let refusal = eventually("it is refused", async || {
            let registry = registry(&host).await;
            let refusal = entry(&registry, package)["refusal"].clone();
            refusal.is_object().then_some(refusal)
        })
        .await;
        assert_eq!(refusal["code"], code, "{refusal}");
        assert!(refusal["found"].as_str().unwrap_or_default().contains(found), "{refusal}");
        assert!(refusal["reason"].as_str().unwrap_or_default().contains("`routes`"), "{refusal}");
        others.go_on(5).await;
        host.plugins().remove(package);
    }
    others.unharmed();
    assert_eq!(host.worker_pid(), worker, "the worker died of a plugin's `routes`");
    assert!(!host.log().contains("is made again"), "what starts probes ended");
}

#[tokio::test]
async fn check_with_open_sees_what_only_the_router_shows() {
    let folder = PluginsFolder::default()
        .with("good", &Package::fixture("echo"))
        .with("handler", &manifest("/mcp/tools/0/handler", json!("nobody")))
        .with("undeclared", &manifest("/backend/routes", json!([{"method": "GET", "path": "/hello"}])))
        .with("panic", &Package::fixture("panics-in-routes"))
        .with("abort", &sinner("panics-in-routes", b"abort"))
        .with("limit", &sinner("panics-in-routes", b"limit"))
        .with("types", &sinner("panics-in-routes", b"types"))
        .with("owned", &sinner("panics-in-routes", b"owned"));
    for (package, code, says) in [
        ("good", None, ""),
        ("handler", Some("tool-handler-missing"), "`nobody`"),
        ("undeclared", Some("route-not-declared"), "backend.routes"),
        ("panic", Some("create-panicked"), "no routes for panics-in-routes today"),
        ("abort", Some("probe-failed"), "SIGABRT"),
        // In no worker's walls, it has those of a probe.
        ("limit", Some("probe-failed"), "SIGABRT"),
        ("types", Some("probe-failed"), "SIGABRT"),
        // Whoever runs the tests: root does in CI.
        ("owned", Some("probe-failed"), "SIGABRT"),
    ] {
        let path = folder.path().join(package);
        let check = ["plugin", "check", "--open", "--json", path.to_str().unwrap()];
        let (out, _) = exited(&cardinal(check), i32::from(code.is_some()));
        let seen: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(seen["refusal"]["code"], json!(code), "{package}: {seen}");
        assert!(seen["refusal"].to_string().contains(says), "{package}: {seen}");
        exited(&cardinal(["plugin", "check", path.to_str().unwrap()]), 0);
    }
}

/// Each of them is `echo` by name and gets its turn, because the one before it was refused.
#[tokio::test]
async fn a_library_gives_what_its_manifest_says_or_is_refused_and_then_owns_nothing() {
    let declared = |routes: Value| manifest("/backend/routes", routes);
    let plugins = PluginsFolder::default()
        .with("1-no-backend", &manifest("/backend", Value::Null))
        .with("2-undeclared", &declared(json!([{"method": "GET", "path": "/hello"}])))
        .with("3-handler", &manifest("/mcp/tools/0/handler", json!("nobody")))
        .with("4-schema", &Package::fixture("echo").schema("CREATE TABLE notes (id nonsense)"))
        .with(
            "5-unsafe",
            &Package::fixture("echo")
                .schema("CREATE FUNCTION f() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'"),
        )
        .with("6-good", &Package::fixture("echo"))
        .with("7-late", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    let registry = registry_after_turns(&host, "7-late").await;
    refused(
        &registry,
        &[
            ("1-no-backend", "route-not-declared"),
            ("2-undeclared", "route-not-declared"),
            ("3-handler", "tool-handler-missing"),
            ("4-schema", "schema-failed"),
            ("5-unsafe", "schema-unsafe"),
            ("7-late", "duplicate-name"),
        ],
    );
    assert_eq!(entry(&registry, "6-good")["state"], "active");
    let reason = entry(&registry, "7-late")["refusal"]["reason"].as_str().unwrap();
    assert!(reason.contains("6-good") && reason.contains("7-late"), "both owners are named: {reason}");
    echo_answers(&host).await;
}

#[tokio::test]
async fn two_plugins_cannot_own_the_same_thing_and_both_are_named() {
    let supplier = |pointer: &'static str, value: Value| {
        Package::bundled("supplier").manifest(move |manifest| *manifest.pointer_mut(pointer).unwrap() = value)
    };
    for (pointer, code) in [("/backend/apiPrefix", "duplicate-prefix"), ("/contributes/cardTabs/0/id", "duplicate-tab")]
    {
        let plugins = PluginsFolder::default()
            .with("first", &Package::fixture("echo"))
            .with("second", &supplier(pointer, json!("echo")));
        let host = Host::settings().plugins(plugins).start().await;
        let registry = registry(&host).await;
        refused(&registry, &[("second", code)]);
        let reason = entry(&registry, "second")["refusal"]["reason"].as_str().unwrap();
        assert!(reason.contains("first") && reason.contains("second"), "{reason}");
        echo_answers(&host).await;
    }
}

#[tokio::test]
async fn the_prefix_of_a_refused_plugin_is_unavailable_and_an_unknown_one_is_not_found() {
    let plugins = PluginsFolder::default()
        .with("supplier", &Package::bundled("supplier").library(|_| Some(b"text".to_vec())))
        .with("wrong", &manifest("/version", json!("not a version")));
    let host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await;
    for prefix in ["supplier", "echo"] {
        let answer = owner.get(&format!("/v1/admin/plugins/{prefix}/items")).await;
        answer.refused(503, "plugin-unavailable");
        assert!(answer.header("retry-after").is_some());
    }
    owner.get("/v1/admin/plugins/nobody/items").await.refused(404, "not-found");
}

#[tokio::test]
async fn one_library_alone_is_a_plugin() {
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    std::fs::rename(plugins.path().join("echo/libplugin.so"), plugins.path().join("anything.so")).unwrap();
    std::fs::remove_dir_all(plugins.path().join("echo")).unwrap();
    let host = Host::settings().plugins(plugins).start().await;
    let registry = registry(&host).await;
    assert_eq!(entry(&registry, "anything.so")["state"], "active", "{registry:?}");
    echo_answers(&host).await;
    let ui = host.owner().await.get("/v1/admin/plugins").await.expect(200);
    let main = ui["items"][0]["frontend"]["main_url"].as_str().unwrap();
    let file = host.client().get(main).await;
    assert_eq!((file.status.as_u16(), file.header("content-type")), (200, Some("text/javascript; charset=utf-8")));
    host.client().get(&main.replace("plugin.js", "manifest.json")).await.refused(404, "not-found");
}

#[tokio::test]
async fn a_lock_lets_in_what_it_lists_and_says_what_it_found_instead() {
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let host = Host::settings().plugins(plugins).start().await;
    echo_answers(&host).await;
    let known = entry(&registry(&host).await, "echo")["sha256"].as_str().unwrap().to_owned();

    let host = host.restart(|settings| settings.set("PLUGIN_TRUST", "lock")).await;
    echo_answers(&host).await;
    let manifest = host.plugins().path().join("echo/manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap().replace("Answers what it is asked", "Changed");
    std::fs::write(&manifest, text).unwrap();
    host.owner().await.post("/v1/admin/plugin-registry/rescan", &json!({})).await.expect(200);
    let item = entry(&registry(&host).await, "echo").clone();
    assert_eq!((&item["state"], &item["refusal"]["code"]), (&json!("active"), &json!("hash-not-trusted")));
    assert_eq!((&item["sha256"], &item["refusal"]["expected"]), (&json!(known), &json!(known)));
    echo_answers(&host).await; // by what was loaded before

    let host = host.restart(|settings| settings).await;
    refused(&registry(&host).await, &[("echo", "hash-not-trusted")]);
    host.owner().await.get("/v1/admin/plugins/echo/hello").await.refused(503, "plugin-unavailable");
}

/// Files that are no good are refused beside the running generation, which they never touch.
#[tokio::test]
async fn what_serves_goes_on_serving_while_its_successor_is_no_good() {
    let plugins = PluginsFolder::default().with("echo", &Package::fixture("echo"));
    let library = plugins.path().join("echo/libplugin.so");
    let good = std::fs::read(&library).unwrap();
    let host = Host::settings().plugins(plugins).start().await;
    let rescan = async || {
        host.owner().await.post("/v1/admin/plugin-registry/rescan", &json!({})).await.expect(200)["items"][0].take()
    };
    let first = rescan().await;
    assert_eq!(first["generation"], 1, "unchanged files are not loaded again");
    for (bytes, code) in [(&good[..good.len() / 2], "truncated"), (b"text", "not-a-plugin")] {
        std::fs::write(&library, bytes).unwrap();
        let item = rescan().await;
        assert_eq!((&item["state"], &item["generation"]), (&json!("active"), &json!(1)));
        assert_eq!(item["refusal"]["code"], code);
        echo_answers(&host).await;
    }
    std::fs::write(host.plugins().path().join("echo/manifest.json"), "{").unwrap();
    assert_eq!(rescan().await["refusal"]["code"], "bad-manifest");
    echo_answers(&host).await;

    let manifest = repository().join("tests/fixtures/echo/manifest.json");
    std::fs::copy(manifest, host.plugins().path().join("echo/manifest.json")).unwrap();
    std::fs::write(&library, [&good[..], b"\n"].concat()).unwrap();
    let item = rescan().await;
    assert_eq!((&item["state"], &item["refusal"]), (&json!("active"), &Value::Null));
    assert!(item["generation"].as_u64() > Some(1), "the good successor took its place: {item}");
    echo_answers(&host).await;

    std::fs::remove_dir_all(host.plugins().path().join("echo")).unwrap();
    host.owner().await.post("/v1/admin/plugin-registry/rescan", &json!({})).await.expect(200);
    host.owner().await.get("/v1/admin/plugins/echo/hello").await.refused(404, "not-found");
}

#[tokio::test]
async fn a_disabled_plugin_is_out_of_service_until_it_is_enabled_restarts_included() {
    let plugins = PluginsFolder::default()
        .with("echo", &Package::fixture("echo"))
        .with("supplier", &Package::bundled("supplier"));
    let host = Host::settings().plugins(plugins).start().await;
    let owner = host.owner().await;
    let note = json!({"text": "kept"});
    owner.post("/v1/admin/plugins/echo/db/notes", &note).await;
    let kept = owner.get("/v1/admin/plugins/echo/db").await.expect(200)["notes"].clone();
    assert_eq!(kept, 1);

    let answer = owner.post("/v1/admin/plugin-registry/echo/disable", &json!({})).await.expect(200);
    assert_eq!(answer["item"]["state"], "disabled");
    owner.get("/v1/admin/plugins/echo/hello").await.refused(503, "plugin-unavailable");
    let host = host.restart(|settings| settings).await;
    assert_eq!(entry(&registry(&host).await, "echo")["state"], "disabled");
    assert_eq!(entry(&registry(&host).await, "supplier")["state"], "active", "nobody else is touched");

    let owner = host.owner().await;
    let answer = owner.post("/v1/admin/plugin-registry/echo/enable", &json!({})).await.expect(200);
    assert_eq!(answer["item"]["state"], "active");
    assert_eq!(owner.get("/v1/admin/plugins/echo/db").await.expect(200)["notes"], kept, "its data is untouched");
    owner.post("/v1/admin/plugin-registry/nobody/disable", &json!({})).await.refused(404, "not-found");
    let reader = owner.key(&["plugins:read"]).await;
    reader.post("/v1/admin/plugin-registry/echo/disable", &json!({})).await.refused(403, "insufficient-scope");
    reader.post("/v1/admin/plugin-registry/echo/enable", &json!({})).await.refused(403, "insufficient-scope");
}
