//! What a plugin's author does: a crate from `cardinal plugin new` builds as it is, is signed, and serves.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use cardinal_tests::{
    Host, Package, PluginsFolder, cardinal, cardinal_program, cardinal_with, exited, has_browser, is_long_run,
    repository,
};
use serde_json::json;
use tokio::sync::RwLock;

pub(super) fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Crates that were compiled for these tests before need not be again.
pub(super) fn target() -> PathBuf {
    repository().join("target/scaffold")
}

/// Held while a test builds there, and alone by those that wait for an edit, or whose crate is called as another's is:
/// cargo lets one build at a time.
pub(super) static BUILDING: RwLock<()> = RwLock::const_new(());

/// What cargo builds there with. A crate of a test is built once and seldom debugged: it leaves out what serves only that.
pub(super) fn build_environment() -> [(&'static str, PathBuf); 3] {
    [("CARGO_TARGET_DIR", target()), ("CARGO_PROFILE_DEV_DEBUG", "0".into()), ("CARGO_INCREMENTAL", "0".into())]
}

/// A new crate as an installed program makes it, which has no repository beside it.
pub(super) fn new(folder: &Path, name: &str, more: &[&str]) -> PathBuf {
    let arguments = ["plugin", "new", name, "--sdk", "builtin", "--into", path(folder)];
    let data = target().join("data");
    let made = cardinal_with(arguments.iter().chain(more), &[("XDG_DATA_HOME", path(&data))]);
    let (out, _) = exited(&made, 0);
    let made = folder.join(name);
    assert!(out.contains(path(&made)), "{out}");
    made
}

#[test]
fn every_part_by_itself_passes_its_own_tests_unedited() {
    let _building = BUILDING.blocking_read();
    let folder = tempfile::tempdir().unwrap();
    let all = ["schema", "mcp", "settings", "job", "routes", "tab", "page", "column", "action"];
    // What the others make is in the crates of the tests below.
    for part in &all[..if is_long_run() { all.len() } else { 4 }] {
        let made = new(folder.path(), &format!("only-{part}"), &["--with", part]);
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--offline"]).current_dir(&made).envs(build_environment());
        // Their own is brought up by the program, too.
        cargo.env_remove("CARDINAL_TEST_DATABASE").env_remove("DATABASE_URL");
        // Eight run the plugin in a host, where they find the program: once is enough.
        let in_a_host = *part == all[0];
        if in_a_host {
            cargo.env("CARDINAL", cardinal_program()).env("CARGO_NET_OFFLINE", "true");
        }
        let (out, err) = exited(&cargo.output().unwrap(), 0);
        let passed = if ["settings", "job"].contains(part) { "11 passed" } else { "10 passed" };
        assert!(out.contains(passed) && !err.contains("warning"), "{part}: {out}{err}");
        assert_eq!(err.contains("LEFT OUT: in_a_host::routes needs the program"), !in_a_host, "{part}: {err}");
        assert!(!in_a_host || err.contains("LEFT OUT: in_a_host::frontend has nothing to check"), "{part}: {err}");
        let lacks_database = err.contains("needs a PostgreSQL: put the program cardinal into PATH");
        assert_eq!(lacks_database, *part == "job", "{part}: {err}");
        let mut format = Command::new("cargo");
        exited(&format.args(["fmt", "--check"]).current_dir(&made).output().unwrap(), 0);
    }
}

#[test]
fn a_frontend_in_typescript_becomes_one_module() {
    let folder = tempfile::tempdir().unwrap();
    let made = new(folder.path(), "typed", &["--with", "tab,page", "--build", "vite"]);
    let written = std::fs::read_to_string(made.join("frontend/plugin.js")).unwrap();
    // What `npm install` would fetch.
    std::os::unix::fs::symlink(repository().join("frontend/node_modules"), made.join("node_modules")).unwrap();
    let mut npm = Command::new("npm");
    exited(&npm.args(["run", "build", "--silent"]).current_dir(&made).output().unwrap(), 0);
    let built = std::fs::read_to_string(made.join("frontend/plugin.js")).unwrap();
    assert!(built != written && built.contains("as activate") && built.contains("/plugins/typed/latest"), "{built}");
    assert!(!built.contains("import"), "{built}");
    assert_eq!(std::fs::read_dir(made.join("frontend")).unwrap().count(), 1);

    let arguments = ["plugin", "new", "drawn", "--with", "mcp", "--build", "vite", "--into", path(folder.path())];
    let (_, told) = exited(&cardinal(arguments), 1);
    assert!(told.contains("--build needs a part that is drawn: --with tab, page"), "{told}");
}

#[tokio::test]
async fn a_new_crate_builds_as_it_is_is_signed_and_serves() {
    let building = BUILDING.read().await;
    let folder = tempfile::tempdir().unwrap();
    let made = new(folder.path(), "price-watch", &[]);
    let build = ["plugin", "build", path(&made), "--debug", "--quiet", "--", "--offline"];
    let (out, _) = exited(&in_target(&build), 0);
    let library = PathBuf::from(out.trim());
    assert!(library.ends_with("libprice_watch.so"), "{out}");
    drop(building);

    let key = made.join("vendor.key");
    exited(&cardinal(["plugin", "sign", "--generate", "--key", path(&key)]), 0);
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let packed = made.join("price-watch.so");
    let pack = |more: &[&str]| {
        let arguments = ["plugin", "pack", path(&library), "--output", path(&packed)];
        exited(&cardinal(arguments.iter().chain(more)), 0)
    };
    let signature = made.join("price-watch.so.minisig");
    pack(&[]);
    exited(&cardinal(["plugin", "sign", "--key", path(&key), path(&packed)]), 0);
    assert!(signature.is_file());
    // Packed anew, it is another file.
    let (_, err) = pack(&[]);
    assert!(err.contains("The signature was of the file before") && !signature.exists(), "{err}");
    let (out, _) = pack(&["--key", path(&key)]);
    assert!(out.contains("price-watch.so.minisig (key ") && signature.is_file(), "{out}");
    assert_eq!(seen_by_git(&made), "");

    let public = made.join("vendor.key.pub");
    let settings = Host::settings().plugins(PluginsFolder::default());
    let host = settings.set("PLUGIN_TRUST", "signed").set("PLUGIN_TRUST_KEYS", path(&public)).start().await;
    let (data, plugins) = (host.data(), host.plugins().path().to_owned());
    let install = |package: &Path| {
        let place = ["--plugins-dir", path(&plugins), "--data-dir", path(&data)];
        cardinal(["plugin", "install", path(package)].into_iter().chain(place))
    };
    let (out, _) = exited(&install(&packed), 0);
    assert!(out.contains("price-watch 0.1.0 is active"), "{out}");
    assert!(plugins.join("price-watch.so.minisig").is_file());
    let owner = host.owner().await;
    let card = owner.card("Chair").await["id"].as_str().unwrap().to_owned();
    let notes = format!("/v1/admin/plugins/price-watch/cards/{card}");
    owner.post(&notes, &json!({"text": "check the legs"})).await.expect(201);
    assert_eq!(owner.get(&notes).await.expect(200), json!({"items": ["check the legs"]}));
    owner.post(&notes, &json!({"text": " "})).await.refused(422, "validation-failed");
    let sources = owner.read_card(&card).await["attributes"]["sources"].clone();
    assert_eq!(sources["price-watch:notes"]["data"]["count"], 1, "{sources}");
    // Without its signature it would not have come in.
    let unsigned = folder.path().join("unsigned.so");
    std::fs::copy(&library, &unsigned).unwrap();
    let (out, _) = exited(&install(&unsigned), 1);
    assert!(out.contains("signature-missing"), "{out}");
}

/// Writes `to` in the place of `from` in a file of the crate.
pub(super) fn edit(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(file, text.replace(from, to)).unwrap();
}

/// What git would take of a crate's folder beside what `plugin new` wrote, cargo's lock and a public key.
fn seen_by_git(made: &Path) -> String {
    let git =
        |arguments: &[&str]| exited(&Command::new("git").args(arguments).current_dir(made).output().unwrap(), 0).0;
    git(&["init", "--quiet"]);
    let new = git(&["status", "--porcelain", "--untracked-files=all"]);
    let is_left = |line: &&str| [".so", ".debug", ".minisig", ".key"].iter().any(|end| line.ends_with(end));
    new.lines().filter(is_left).collect::<Vec<_>>().join("\n")
}

pub(super) fn in_target(arguments: &[&str]) -> std::process::Output {
    let environment = build_environment();
    cardinal_with(arguments, &environment.each_ref().map(|(name, value)| (*name, path(value))))
}

#[test]
fn a_plugin_that_breaks_fails_its_test_and_says_where() {
    let _building = BUILDING.blocking_read();
    let folder = tempfile::tempdir().unwrap();
    let made = new(folder.path(), "breaks", &["--with", "tab"]);
    edit(
        &made.join("src/service.rs"),
        "    let card =",
        "    panic!(\"on purpose\");\n    #[allow(unreachable_code)]\n    let card =",
    );
    edit(&made.join("frontend/plugin.js"), "registerCardTabRenderer('breaks'", "registerCardTabRenderer('other'");
    let input = "let Add { card_id, text } = req.input().await";
    edit(&made.join("src/routes.rs"), input, &format!("{input}.map_err(|_| std::io::Error::other(\"no disk\"))"));
    edit(
        &made.join("src/service.rs"),
        "checked(\" \\n\", text.len()).is_err()",
        "checked(\" \\n\", text.len()).is_ok()",
    );
    let (out, err) = exited(&in_target(&["plugin", "test", path(&made), "--", "--offline"]), 1);
    assert!(out.contains("FAILED   routes") && out.contains("GET /cards/{card_id}: 500"), "{out}{err}");
    let place = "plugin-panicked: panicked at src/service.rs:";
    assert!(out.contains(place) && out.contains(": on purpose"), "{out}{err}");
    assert!(out.contains("POST /cards/{card_id}: 500 Internal Server Error internal-error: error: no disk"), "{out}");
    let odd = "FAILED   panics     GET /cards/{card_id} as /v1/admin/plugins/breaks/cards/";
    assert!(out.contains(odd), "{out}{err}");
    let has_browser = has_browser();
    let failed = if has_browser { "4 failed" } else { "3 failed" };
    assert!(
        !has_browser || out.contains("its module registers `tab other`, the manifest has `tab breaks`"),
        "{out}{err}"
    );
    assert!(out.contains("FAILED   own tests") && out.contains("skipped  tools"), "{out}{err}");
    assert!(out.contains("ok       database") && out.contains("ok       end") && out.contains(failed), "{out}{err}");
}

#[test]
fn what_a_host_would_refuse_is_found_before_with_rule_place_and_fix() {
    let _building = BUILDING.blocking_read();
    let folder = tempfile::tempdir().unwrap();
    let made = new(folder.path(), "found", &["--with", "mcp"]);
    edit(&made.join("manifest.json"), r#""handler": "list""#, r#""handler": "lst""#);
    edit(&made.join("manifest.json"), ">=1.0.0", ">=1.0.0, <2.0.0");
    let (_, err) = exited(&in_target(&["plugin", "build", path(&made), "--debug", "--", "--offline"]), 1);
    assert!(err.contains("there is no handler `lst` in src/; did you mean `list`?"), "{err}");
    // A function of this name is there, and is no handler.
    edit(&made.join("manifest.json"), r#""handler": "lst""#, r#""handler": "routes""#);
    let (out, err) = exited(&in_target(&["plugin", "build", path(&made), "--debug", "--", "--offline"]), 1);
    assert!(err.contains("\na host would refuse found 0.1.0\nERROR   tool-handler-missing "), "{err}");
    assert!(err.contains("(/mcp/tools/0/handler): ") && err.contains("\n          to do     "), "{err}");
    let library = out.trim();
    let (out, _) = exited(&cardinal(["plugin", "check", "--json", "--against", "2.0.0", "--open", library]), 1);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let places: Vec<_> = findings.iter().map(|it| (&it["code"], it["subject"].as_str().unwrap())).collect();
    assert_eq!(places[0].0, "tool-handler-missing");
    assert!(places[0].1.starts_with("manifest.json:") && places[0].1.ends_with("(/mcp/tools/0/handler)"), "{places:?}");
    assert_eq!((places[1].0, places.len()), (&json!("core-version-breaks"), 2));
    assert!(findings.iter().all(|finding| finding["fix"].is_string()), "{out}");
    exited(&cardinal(["plugin", "check", library]), 0);
    let (out, _) = exited(&cardinal(["plugin", "check", path(&folder.path().join("libnone.so"))]), 1);
    assert!(out.contains("There is no file or folder") && out.contains("Correct the path"), "{out}");
}

#[tokio::test]
async fn logs_and_settings_of_a_plugin_are_at_hand() {
    let settings = Host::settings().plugins(PluginsFolder::bundled());
    let host = settings.start().await;
    let on = |arguments: &[&str]| cardinal_tests::cardinal_on(&host, &[&["plugin"], arguments].concat());
    let (out, _) = exited(&on(&["settings", "supplier"]), 0);
    assert!(out.contains("allow_private_addresses") && out.contains("default"), "{out}");
    let (out, _) = exited(&on(&["settings", "supplier", "allow_private_addresses=true", "--json"]), 0);
    let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["stored"], json!({"allow_private_addresses": true}));
    let (_, told) = exited(&on(&["settings", "supplier", "allow_private_addresses=7"]), 1);
    assert!(told.contains("/allow_private_addresses"), "{told}");
    let file = host.data().join("settings.json");
    std::fs::write(&file, "{}").unwrap();
    exited(&on(&["settings", "supplier", "--file", path(&file)]), 0);
    let (_, told) = exited(&on(&["settings", "supplier", "--unset", "allow_private_addresses"]), 1);
    assert!(told.contains("is not set"), "{told}");
    let (out, _) = exited(&on(&["logs", "supplier", "--json"]), 0);
    assert!(out.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{out}");
    let (_, told) = exited(&on(&["logs", "nobody"]), 1);
    assert!(told.contains("404"), "{told}");
}

#[tokio::test]
async fn a_signed_folder_is_taken_and_one_changed_since_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("vendor.key");
    exited(&cardinal(["plugin", "sign", "--generate", "--key", path(&key)]), 0);
    let plugins =
        PluginsFolder::default().with("good", &Package::fixture("echo")).with("changed", &Package::fixture("quick"));
    for name in ["good", "changed"] {
        exited(&cardinal(["plugin", "sign", "--key", path(&key), path(&plugins.path().join(name))]), 0);
    }
    let schema = plugins.path().join("changed/schema.sql");
    std::fs::write(&schema, "CREATE TABLE IF NOT EXISTS later (id int);").unwrap();
    std::fs::set_permissions(&schema, std::fs::Permissions::from_mode(0o644)).unwrap();
    let public = folder.path().join("vendor.key.pub");
    let settings = Host::settings().plugins(plugins).set("PLUGIN_TRUST", "signed");
    let host = settings.set("PLUGIN_TRUST_KEYS", path(&public)).start().await;
    let registry = host.owner().await.get("/v1/admin/plugin-registry").await.expect(200);
    let of =
        |name: &str| registry["items"].as_array().unwrap().iter().find(|it| it["package"] == name).unwrap().clone();
    assert_eq!(of("good")["state"], "active", "{}", of("good"));
    assert_eq!(of("changed")["refusal"]["code"], "signature-invalid", "{}", of("changed"));
}

#[test]
fn what_cannot_be_made_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let new = |name: &str| cardinal(["plugin", "new", name, "--into", path(folder.path())]);
    for name in ["Bad_Name", "core", "../escape"] {
        let (_, told) = exited(&new(name), 1);
        assert!(told.contains("is not a valid plugin name") && !told.contains("manifest"), "{name}: {told}");
    }
    for name in ["std", "fn", "serde"] {
        let (_, told) = exited(&new(name), 1);
        assert!(told.contains("choose another") && told.lines().count() == 1, "{name}: {told}");
    }
    let (_, told) =
        exited(&cardinal(["plugin", "new", "a", "--sdk", "git:nowhere", "--into", path(folder.path())]), 64);
    assert!(told.contains("--sdk") && told.contains("nowhere"), "{told}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    exited(&new("once"), 0);
    let (_, told) = exited(&new("once"), 1);
    assert!(told.contains("already exists"), "{told}");
    let (_, told) = exited(&cardinal(["plugin", "build", path(folder.path())]), 1);
    assert!(told.contains("manifest.json is missing"), "{told}");
    // Without a database there is no host to test in: that alone is said.
    let nowhere = [("POSTGRES_BIN_DIR", path(folder.path()))];
    let (_, told) = exited(&cardinal_with(["plugin", "dev", path(&folder.path().join("once"))], &nowhere), 1);
    let expected =
        format!("cardinal: the host did not start: POSTGRES_BIN_DIR (--postgres-bin-dir): {}", path(folder.path()));
    assert!(told.starts_with(&expected) && told.lines().count() == 1, "{told}");
    // Before anything is compiled.
    let once = folder.path().join("once");
    edit(&once.join("Cargo.toml"), "\"cdylib\", ", "");
    let (_, err) = exited(&cardinal(["plugin", "build", path(&once)]), 1);
    assert!(err.contains("write crate-type = [\"cdylib\"] below [lib]"), "{err}");
    assert!(!once.join("target/release").exists());
    let (_, told) = exited(&cardinal(["plugin", "sign", "--key", path(&folder.path().join("no.key")), "x.so"]), 1);
    assert!(told.contains("x.so"), "{told}");
    let key = folder.path().join("a.key");
    exited(&cardinal(["plugin", "sign", "--generate", "--key", path(&key)]), 0);
    let before = std::fs::read(&key).unwrap();
    exited(&cardinal(["plugin", "sign", "--generate", "--key", path(&key)]), 1);
    assert_eq!(std::fs::read(&key).unwrap(), before, "a key is never overwritten");
}
