//! Contract 5.1: one library that carries its manifest, schema and frontend, however it was built;
//! read without running it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use cardinal_tests::{Host, Package, Pages, PluginsFolder, built, cardinal, is_long_run, repository};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::it::supplier::PAGE;

/// What `cardinal plugin check --json` says, and whether its exit code agrees.
fn check(flags: &[&str], package: &Path) -> Value {
    let done = cardinal([&["plugin", "check", "--json"], flags, &[package.to_str().unwrap()]].concat());
    let told = String::from_utf8_lossy(&done.stderr);
    let seen: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
    assert_eq!(done.status.code(), Some(if seen["ok"] == true { 0 } else { 1 }), "{seen}");
    assert_eq!(seen["ok"] == true, seen["refusal"].is_null(), "{seen}");
    seen
}

/// The files that a package carries, by name.
fn files(seen: &Value) -> BTreeMap<String, u64> {
    let files = seen["files"].as_array().unwrap().iter();
    files.map(|file| (file["name"].as_str().unwrap().to_owned(), file["bytes"].as_u64().unwrap())).collect()
}

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("cardinal-single-").tempdir().unwrap()
}

fn run(program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A plugin of the tests whose library has its debug information.
const FORMED: &str = "everything";

/// [`FORMED`], built as small as a library gets: fat LTO, one unit, stripped. In a target folder of its
/// own, which stays for the next run.
fn small(link_arguments: &[&str]) -> PathBuf {
    let target = built("cardinal").parent().unwrap().parent().unwrap().join("forms");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(repository()).args(["rustc", "--quiet", "--locked", "-p", FORMED, "--lib", "--profile", "small"]);
    cargo.arg("--target-dir").arg(&target);
    for line in ["inherits=\"release\"", "lto=\"fat\"", "codegen-units=1", "strip=true", "opt-level=1"] {
        cargo.args(["--config", &format!("profile.small.{line}")]);
    }
    cargo.arg("--").args(link_arguments.iter().map(|argument| format!("-Clink-arg={argument}")));
    let done = cargo.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    target.join(format!("small/lib{FORMED}.so"))
}

/// Whether the C compiler can link with it here.
fn has_linker(name: &str) -> bool {
    let program = if name == "lld" { "ld.lld".to_owned() } else { name.replace("bfd", "ld.bfd") };
    Command::new(program).arg("--version").output().is_ok_and(|done| done.status.success())
}

#[test]
fn what_a_library_carries_survives_every_way_of_building_and_stripping_it() {
    let folder = folder();
    let keep = |name: &str, library: &Path| {
        let path = folder.path().join(name);
        std::fs::copy(library, &path).unwrap();
        path
    };
    let debug = built(&format!("lib{FORMED}.so"));
    let mut forms = vec![keep("debug.so", &debug)];
    for (name, flag) in [("all.so", "--strip-all"), ("unneeded.so", "--strip-unneeded"), ("debug-only.so", "-g")] {
        forms.push(keep(name, &debug));
        run("strip", &[flag, forms.last().unwrap().to_str().unwrap()]);
    }
    forms.push(keep("small.so", &small(&[])));
    // Each takes the whole link again.
    let linkers: &[&str] = if is_long_run() { &["bfd", "mold", "lld"] } else { &["bfd"] };
    for linker in linkers.iter().filter(|linker| has_linker(linker)) {
        let library = small(&[&format!("-fuse-ld={linker}"), "-Wl,--gc-sections"]);
        forms.push(keep(&format!("{linker}.so"), &library));
    }
    forms.push(keep("small-stripped.so", forms.last().unwrap()));
    run("strip", &["--strip-all", forms.last().unwrap().to_str().unwrap()]);

    let source = repository().join("tests/fixtures").join(FORMED);
    let size = |name: &str| (name.to_owned(), std::fs::metadata(source.join(name)).unwrap().len());
    let expected = BTreeMap::from(["manifest.json", "schema.sql", "frontend/plugin.js"].map(size));
    for form in forms {
        let seen = check(&["--open"], &form);
        assert_eq!((&seen["ok"], &seen["form"]), (&json!(true), &json!("single-file")), "{seen:#}");
        assert_eq!(
            (&seen["name"], &seen["version"], &seen["title"]),
            (&json!(FORMED), &json!("1.0.0"), &json!("Everything"))
        );
        assert_eq!(files(&seen), expected, "{}", form.display());
    }
}

/// A library whose package section was pointed at other bytes, put at its end.
fn with_package(package: &[u8]) -> Vec<u8> {
    let mut library = std::fs::read(built("libecho.so")).unwrap();
    let offset = library.len();
    library.extend(package);
    point(&mut library, ".crd_pkg", offset as u64, package.len() as u64);
    library
}

/// Changes where a section says that it lies.
fn point(library: &mut [u8], section: &str, offset: u64, size: u64) {
    let number = |at: usize, length: usize| {
        library[at..at + length].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
    };
    let (table, count, names) = (number(0x28, 8), number(0x3c, 2), number(0x3e, 2));
    let names = number(table + names * 64 + 0x18, 8);
    let is_it = |at: &usize| library[names + number(*at, 4)..].starts_with(format!("{section}\0").as_bytes());
    let at = (0..count).map(|index| table + index * 64).find(is_it).expect("the library has the section");
    library[at + 0x18..at + 0x20].copy_from_slice(&offset.to_le_bytes());
    library[at + 0x20..at + 0x28].copy_from_slice(&size.to_le_bytes());
}

fn package(files: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut package = [&b"CRDPKG1\n"[..], &(files.len() as u32).to_le_bytes()].concat();
    for (name, data) in files {
        package.extend([(name.len() as u32).to_le_bytes(), (data.len() as u32).to_le_bytes()].concat());
        package.extend([*name, *data].concat());
    }
    package
}

#[test]
fn a_package_that_is_damaged_or_leads_elsewhere_is_refused_and_named() {
    let manifest = std::fs::read(repository().join("tests/fixtures/echo/manifest.json")).unwrap();
    let script: (&[u8], &[u8]) = (b"frontend/plugin.js", b"export {}");
    let with = |name: &'static [u8]| package(&[(b"manifest.json", &manifest), script, (name, b"x")]);
    let good = package(&[(b"manifest.json", &manifest), script]);
    let claims = |offset: u64, size: u64| {
        let mut library = with_package(&good);
        point(&mut library, ".crd_pkg", offset, size);
        library
    };
    let length = std::fs::metadata(built("libecho.so")).unwrap().len();
    let mut huge = with_package(&good);
    huge.resize(usize::try_from(length).unwrap() + (64 << 20) + 1, 0);
    point(&mut huge, ".crd_pkg", length, (64 << 20) + 1);
    let mut overlapping = with_package(&good);
    point(&mut overlapping, ".crd_hdr", length, 64);
    let mut no_table = with_package(&good);
    no_table[0x28..0x30].fill(0); // where the section table lies
    no_table[0x3c..0x40].fill(0); // how many sections, and which has their names
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("cut", with_package(&good[..good.len() - 1]), "truncated"),
        ("garbled", with_package(&vec![0x5a; good.len()]), "truncated"),
        ("nothing", with_package(b""), "truncated"),
        ("above", with_package(&with(b"frontend/../../x.js")), "truncated"),
        ("absolute", with_package(&with(b"/etc/passwd")), "truncated"),
        ("windows", with_package(&with(b"frontend\\x.js")), "truncated"),
        ("not-utf-8", with_package(&with(b"frontend/\xff.js")), "truncated"),
        ("twice", with_package(&with(b"manifest.json")), "truncated"),
        ("two", with_package(&[&good[..], &good[..]].concat()), "truncated"),
        ("many", with_package(&[&b"CRDPKG1\n"[..], &[0xff; 4]].concat()), "truncated"),
        ("stranger", with_package(&with(b"etc/passwd")), "bad-manifest"),
        ("no-manifest", with_package(&package(&[script])), "bad-manifest"),
        ("no-script", with_package(&package(&[(b"manifest.json", &manifest)])), "frontend-invalid"),
        ("behind", claims(length + (1 << 20), 100), "truncated"),
        ("endless", claims(length, 65 << 20), "truncated"),
        ("no-end", claims(u64::MAX - 4, 100), "truncated"),
        ("no-table", no_table, "not-a-plugin"),
        ("huge", huge, "too-large"),
        ("header-is-package", overlapping, "not-a-plugin"),
        ("package-is-header", claims(0, 64), "truncated"),
        ("good", with_package(&good), ""),
    ];
    let folder = folder();
    for (name, bytes, code) in cases {
        let path = folder.path().join(format!("{name}.so"));
        std::fs::write(&path, bytes).unwrap();
        let seen = check(&[], &path);
        assert_eq!(seen["refusal"]["code"].as_str().unwrap_or_default(), code, "{name}: {seen:#}");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn in_a_folder_the_files_count_as_long_as_name_version_and_engine_are_the_librarys() {
    let echo = || Package::fixture("echo");
    let engine =
        |field: &'static str, value: &'static str| echo().manifest(move |it| it["engine"][field] = json!(value));
    let folders = PluginsFolder::default()
        .with("title", &echo().manifest(|it| it["title"] = json!("Another")))
        .with("schema", &echo().schema("CREATE TABLE IF NOT EXISTS another (id int)"))
        .with("spaces", &engine("core_version", ">= 1.0.0"))
        .with("core", &engine("core_version", ">=0.9.0"))
        .with("version", &echo().manifest(|it| it["version"] = json!("1.0.1")))
        .with("damaged", &echo().library(|_| Some(with_package(b"garbled"))));
    let seen = |name: &str| check(&[], &folders.path().join(name));
    assert_eq!((&seen("title")["title"], &seen("title")["form"]), (&json!("Another"), &json!("folder")));
    assert_eq!(files(&seen("schema"))["schema.sql"], 43);
    assert_eq!(seen("spaces")["refusal"], Value::Null, "the same range, written otherwise");
    for (name, code) in [("core", "manifest-mismatch"), ("version", "manifest-mismatch"), ("damaged", "truncated")] {
        assert_eq!(seen(name)["refusal"]["code"], code, "{name}");
    }
    let told = &seen("core")["refusal"];
    assert_eq!(told["expected"], "echo 1.0.0 for core >=1.0.0, API 1");
    assert_eq!(told["found"], "echo 1.0.0 for core >=0.9.0, API 1");
}

#[tokio::test]
async fn a_library_that_must_not_be_opened_still_says_what_it_is() {
    let plugins = PluginsFolder::default();
    let sinner = plugins.path().join("sinner.so");
    std::fs::copy(built("libbad_constructor.so"), &sinner).unwrap();
    let mut aborting = std::fs::read(built("libecho.so")).unwrap();
    let header = aborting.windows(8).position(|bytes| bytes == b"CRDPLUG\n").unwrap();
    aborting[header + 20] = 2;
    std::fs::write(plugins.path().join("aborting.so"), aborting).unwrap();

    assert_eq!(check(&[], &sinner)["name"], "bad-constructor", "reading runs nothing");
    let tried = check(&["--open"], &sinner);
    assert_eq!((&tried["name"], &tried["refusal"]["code"]), (&json!("bad-constructor"), &json!("probe-failed")));

    let host = Host::settings().plugins(plugins).start().await;
    let registry = host.owner().await.get("/v1/admin/plugin-registry").await.expect(200);
    let of = |package: &str| registry["items"].as_array().unwrap().iter().find(|it| it["package"] == package).unwrap();
    for (package, name, code) in
        [("sinner.so", "bad-constructor", "probe-failed"), ("aborting.so", "echo", "panic-abort")]
    {
        let item = of(package);
        assert_eq!((&item["state"], &item["refusal"]["code"]), (&json!("refused"), &json!(code)), "{item}");
        assert_eq!((&item["name"], &item["version"]), (&json!(name), &json!("1.0.0")), "{item}");
        assert!(item["title"].as_str().is_some_and(|title| !title.is_empty()), "{item}");
    }
    host.owner().await.get("/v1/admin/plugins/echo/hello").await.refused(503, "plugin-unavailable");
}

#[tokio::test]
async fn the_supplier_dropped_into_an_empty_folder_is_whole() {
    let plugins = PluginsFolder::default();
    let dropped = plugins.path().join("anything.so");
    let packed = cardinal(
        ["plugin".as_ref(), "pack".as_ref(), built("libsupplier.so").as_os_str()]
            .into_iter()
            .chain(["--output".as_ref(), dropped.as_os_str()]),
    );
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    let size = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(size(&dropped) < size(&built("libsupplier.so")), "it is stripped");
    let symbols = std::fs::read(plugins.path().join("anything.debug")).unwrap();
    assert!(symbols == std::fs::read(built("libsupplier.so")).unwrap(), "its symbols are kept, which hosts ignore");
    assert_eq!(std::fs::read_dir(plugins.path()).unwrap().count(), 2, "nothing else is left there");

    let host = Host::settings()
        .plugins(plugins)
        .set("PLUGIN_SETTINGS_SUPPLIER", json!({"allow_private_addresses": true}).to_string())
        .start()
        .await;
    let owner = host.owner().await;
    let pages = Pages::serve([("/chair", PAGE.to_owned())]).await;
    let card = owner.card("Chair").await;
    let enrich = format!("/v1/admin/plugins/supplier/enrich/{}", card["id"].as_str().unwrap());
    let done = owner.post(&enrich, &json!({"url": pages.url("/chair")})).await.expect(200);
    assert_eq!(done["product"]["title"], "Oak chair", "its route: {done}");
    let items = owner.get("/v1/admin/plugins/supplier/items").await.expect(200);
    assert_eq!(items["items"].as_array().unwrap().len(), 1, "its table: {items}");

    let shown = owner.get("/v1/admin/plugins").await.expect(200);
    let tab = host.client().get(shown["items"][0]["frontend"]["main_url"].as_str().unwrap()).await;
    let source = std::fs::read(repository().join("plugins/supplier/frontend/plugin.js")).unwrap();
    assert!(tab.status == 200 && tab.body == source, "its tab: {tab}");

    let arguments = json!({"name": "plugin_supplier_preview", "arguments": {"url": pages.url("/chair")}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments});
    let answer = owner.mcp(&call).await;
    assert!(answer.status == 200 && answer.text().contains("Oak chair"), "its tool: {answer}");
}

#[test]
fn packing_refuses_what_was_changed_after_the_build_and_what_is_no_plugin() {
    let folders = PluginsFolder::default()
        .with("echo", &Package::fixture("echo"))
        .with("changed", &Package::fixture("echo").schema("SELECT 1"));
    std::fs::write(folders.path().join("text.so"), "text").unwrap();
    let output = folders.path().join("out.so");
    let pack = |name: &str| {
        let package = folders.path().join(name);
        let done = cardinal(["plugin", "pack", package.to_str().unwrap(), "-o", output.to_str().unwrap()]);
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    for (name, told) in
        [("changed", "schema.sql is not the one"), ("text.so", "not-a-plugin"), ("nobody", "looking for")]
    {
        let (code, said) = pack(name);
        assert!(code == Some(1) && said.contains(told), "{name}: {code:?} {said}");
        assert!(!output.exists(), "{name}");
    }
    assert_eq!(pack("echo").0, Some(0));
    assert_eq!(check(&[], &output)["form"], "single-file");
    assert_eq!(cardinal(["plugin", "pack"]).status.code(), Some(64));
}
