//! `plugins/README.md`, done literally in an empty folder.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cardinal_tests::{Host, HostSettings, PluginsFolder, cardinal, cardinal_program, exited, has_browser, repository};

use super::cli_author::{BUILDING, build_environment, path, target};

fn page() -> String {
    std::fs::read_to_string(repository().join("plugins/README.md")).unwrap()
}

/// The code block that begins behind `mark`.
fn block<'a>(page: &'a str, mark: &str) -> &'a str {
    let (_, after) = page.split_once(mark).unwrap_or_else(|| panic!("{mark:?} is not on the page"));
    let (_, code) = after.split_once("```").and_then(|(_, fenced)| fenced.split_once('\n')).unwrap();
    code.split_once("```").unwrap().0
}

/// In a shell that finds `cardinal`, and a cargo that fetches nothing.
fn shell(folder: &Path, script: &str) -> Output {
    let programs = cardinal_program().parent().unwrap().to_path_buf();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&path))).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-e", "-c", script]).current_dir(folder).env("PATH", all);
    bash.env("CARGO_NET_OFFLINE", "true").envs(build_environment());
    bash.output().unwrap()
}

#[test]
fn the_five_minutes_are_as_the_page_says() {
    let _building = BUILDING.blocking_write();
    let folder = tempfile::tempdir().unwrap();
    let (out, err) = exited(&shell(folder.path(), block(&page(), "## In five minutes")), 0);
    for good in [
        "ok       routes",
        "ok       database",
        "ok       tools",
        "ok       swap",
        "ok       panics",
        "ok       threads",
        "ok       end",
        "all checks passed",
    ] {
        assert!(out.contains(good), "{good}: {out}");
    }
    assert!(!out.contains("FAILED") && !err.contains("LEFT OUT"), "{out}{err}");
    assert!(out.contains("2 listed, 1 called and answered, 1 asked to be confirmed"), "{out}");
    assert!(!has_browser() || out.contains("draws `page notes`, `tab notes` for a card"), "{out}");
}

/// The page's plugin in an empty folder, and beside it a repository whose `var` is a host's of the test.
struct Walk {
    folder: tempfile::TempDir,
    page: String,
}

impl Walk {
    fn begin() -> Walk {
        let walk = Walk { folder: tempfile::tempdir().unwrap(), page: page() };
        let files = [
            ("Cargo.toml", "\n`Cargo.toml`"),
            ("manifest.json", "\n`manifest.json`"),
            ("schema.sql", "\n`schema.sql` declares"),
            ("src/lib.rs", "\n`src/lib.rs`"),
            ("src/routes.rs", "\n`src/routes.rs`:"),
            ("src/service.rs", "\n`src/service.rs`:"),
            ("frontend/plugin.js", "\n`frontend/plugin.js`:"),
        ];
        for (file, mark) in files {
            let file = walk.notes().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, block(&walk.page, mark)).unwrap();
        }
        symlink(target(), walk.notes().join("target")).unwrap();
        let cardinal = walk.folder.path().join("cardinal");
        std::fs::create_dir_all(cardinal.join("var")).unwrap();
        for entry in std::fs::read_dir(repository()).unwrap().flatten() {
            if !["var", "target", ".git"].iter().any(|name| entry.file_name() == **name) {
                symlink(entry.path(), cardinal.join(entry.file_name())).unwrap();
            }
        }
        walk
    }

    fn notes(&self) -> PathBuf {
        self.folder.path().join("notes")
    }

    fn edit(&self, file: &str, change: impl FnOnce(String) -> String) {
        let file = self.notes().join(file);
        std::fs::write(&file, change(std::fs::read_to_string(&file).unwrap())).unwrap();
    }

    /// A block of the page as it stands there, in the plugin's folder; what it printed. A release build would take its
    /// time for nothing.
    fn run(&self, mark: &str, before: &str) -> String {
        let script = block(&self.page, mark).replace(" --release", "").replace("target/release/", "target/debug/");
        exited(&shell(&self.notes(), &format!("{before}\n{script}")), 0).0
    }

    /// A host whose folders are those of the page.
    async fn host(&self, settings: HostSettings) -> (Host, String) {
        let host = settings.plugins(PluginsFolder::default()).start().await;
        let var = self.folder.path().join("cardinal/var");
        for (name, place) in [("plugins", host.plugins().path()), ("data", &host.data())] {
            let link = var.join(name);
            let _ = std::fs::remove_file(&link); // of the host before
            symlink(place, link).unwrap();
        }
        let variables = format!("URL={} TOKEN={}", host.url(), host.owner().await.token);
        (host, variables)
    }
}

#[tokio::test]
async fn the_plugin_of_the_page_is_asked_confirmed_and_signed_as_it_says() {
    let _building = BUILDING.write().await;
    let walk = Walk::begin();
    let (host, variables) = walk.host(Host::settings()).await;
    let owner = host.owner().await;
    let out = walk.run("## 2. Build it, drop it in", &variables);
    assert!(out.contains(r#""name":"notes""#) && out.contains(r#""state":"active""#), "{out}");

    let card = owner.card("Lamp").await["id"].as_str().unwrap().to_owned();
    let variables = format!("{variables} CARD={card}");
    let out = walk.run("## 3. Ask it", &variables);
    for said in [r#"{"version":2}"#, r#"{"items":["check the legs"]}"#, "notes:all"] {
        assert!(out.contains(said), "{said}: {out}");
    }
    let out = walk.run("### See it confirmed", &variables);
    assert!(out.contains("confirmation_required") && out.contains(r#""version":3"#), "{out}");
    let notes = owner.get(&format!("/v1/admin/plugins/notes/cards/{card}")).await.expect(200);
    assert_eq!(notes["items"], serde_json::json!(["check the legs", "noted by an agent"]), "written once");

    walk.run("### Signed", "");
    let keys = walk.notes().join("vendor.key.pub");
    let settings = Host::settings().set("PLUGIN_TRUST", "signed").set("PLUGIN_TRUST_KEYS", keys.to_str().unwrap());
    let (_host, variables) = walk.host(settings).await;
    let out = walk.run("Then the library alone is refused", &variables);
    let states: Vec<&str> = out.lines().filter(|line| line.starts_with("notes ")).collect();
    assert_eq!(states.len(), 2, "{out}");
    assert!(states[0].contains("refused") && states[0].contains("signature-missing"), "{out}");
    assert!(states[1].contains(" 1.0.0 ") && states[1].contains(" active "), "{out}");
}

#[test]
fn the_files_of_the_page_are_a_plugin_that_a_host_takes() {
    let _building = BUILDING.blocking_write();
    let walk = Walk::begin();
    let page = &walk.page;
    let is_good = || {
        exited(&shell(&walk.notes(), "cargo build"), 0);
        let library = target().join("debug/libnotes.so");
        let (out, _) = exited(&cardinal(["plugin", "check", "--open", path(&library)]), 0);
        assert!(out.contains("plugin-good"), "{out}");
    };
    is_good();

    // With a page, columns and actions.
    let replaced = |text: String, from: &str, to: &str| {
        assert!(text.contains(from), "{from}: {text}");
        text.replacen(from, to, 1)
    };
    let tabs = "  \"contributes\": { \"cardTabs\": [{ \"id\": \"notes\", \"label\": \"Notes\" }] },\n";
    walk.edit("manifest.json", |text| replaced(text, tabs, block(page, "place of `contributes`")));
    let add = ".post(\"/cards/{card_id}\", add)";
    let routes = format!("{add}\n{}", block(page, "`src/routes.rs`, in the router").trim_end());
    let handlers = block(page, "\nand at the end of the file");
    walk.edit("src/routes.rs", |text| replaced(text, add, &routes) + handlers);
    walk.edit("src/service.rs", |text| text + block(page, "\nAt the end of `src/service.rs`"));
    let renderers = format!("{}}}\n", block(page, "at the end of `activate`"));
    walk.edit("frontend/plugin.js", |text| text.strip_suffix("}\n").unwrap().to_owned() + &renderers);
    is_good();
    exited(&shell(&walk.notes(), "node --input-type=module --check < frontend/plugin.js"), 0);

    // With the test of section 5. Its tables are empty: what it draws for no notes is drawn, too.
    walk.edit("Cargo.toml", |text| text + block(page, "gives replies as a client sees them"));
    walk.edit("src/lib.rs", |text| text + block(page, "\nand at the end of `src/lib.rs`"));
    walk.edit("src/lib.rs", |text| text + block(page, "At the end of `src/lib.rs`, where"));
    let (out, _) = exited(&shell(&walk.notes(), "cardinal plugin test"), 0);
    assert!(out.contains("all checks passed"), "{out}");
    assert!(out.contains("a_note_is_kept_and_shown_in_the_card ... ok") && out.contains("ok       own tests"), "{out}");
    assert!(!has_browser() || out.contains("`page note-report`, `tab notes` for a card"), "{out}");
}
