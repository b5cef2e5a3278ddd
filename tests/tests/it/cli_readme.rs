//! `plugins/README.md`, done literally in an empty folder.

use std::path::Path;
use std::process::{Command, Output};

use cardinal_tests::{cardinal, cardinal_program, exited, has_browser, repository};

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
        "ok       end",
        "all checks passed",
    ] {
        assert!(out.contains(good), "{good}: {out}");
    }
    assert!(!out.contains("FAILED") && !err.contains("LEFT OUT"), "{out}{err}");
    assert!(out.contains("2 listed, 1 called and answered, 1 asked to be confirmed"), "{out}");
    assert!(!has_browser() || out.contains("draws `page notes`, `tab notes` for a card"), "{out}");
}

#[test]
fn the_files_of_the_page_are_a_plugin_that_a_host_takes() {
    let _building = BUILDING.blocking_write();
    let (folder, page) = (tempfile::tempdir().unwrap(), page());
    std::os::unix::fs::symlink(repository(), folder.path().join("cardinal")).unwrap();
    let notes = folder.path().join("notes");
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
        let file = notes.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, block(&page, mark)).unwrap();
    }
    let is_good = || {
        exited(&shell(&notes, "cargo build"), 0);
        let library = target().join("debug/libnotes.so");
        let (out, _) = exited(&cardinal(["plugin", "check", "--open", path(&library)]), 0);
        assert!(out.contains("plugin-good"), "{out}");
    };
    is_good();

    // With a page, columns and actions.
    let edit = |file: &str, change: &dyn Fn(String) -> String| {
        let file = notes.join(file);
        std::fs::write(&file, change(std::fs::read_to_string(&file).unwrap())).unwrap();
    };
    let replaced = |text: String, from: &str, to: &str| {
        assert!(text.contains(from), "{from}: {text}");
        text.replacen(from, to, 1)
    };
    let tabs = "  \"contributes\": { \"cardTabs\": [{ \"id\": \"notes\", \"label\": \"Notes\" }] },\n";
    edit("manifest.json", &|text| replaced(text, tabs, block(&page, "place of `contributes`")));
    let add = ".post(\"/cards/{card_id}\", add)";
    let routes = format!("{add}\n{}", block(&page, "`src/routes.rs`, in the router").trim_end());
    let handlers = block(&page, "\nand at the end of the file");
    edit("src/routes.rs", &|text| replaced(text, add, &routes) + handlers);
    edit("src/service.rs", &|text| text + block(&page, "\nAt the end of `src/service.rs`"));
    let renderers = format!("{}}}\n", block(&page, "at the end of `activate`"));
    edit("frontend/plugin.js", &|text| text.strip_suffix("}\n").unwrap().to_owned() + &renderers);
    is_good();
    exited(&shell(&notes, "node --input-type=module --check < frontend/plugin.js"), 0);

    // Built already. Its tables are empty: what it draws for no notes is drawn, too.
    let (out, _) = exited(&shell(&notes, "cardinal plugin test --without-own"), 0);
    assert!(out.contains("all checks passed"), "{out}");
    assert!(!has_browser() || out.contains("`page note-report`, `tab notes` for a card"), "{out}");
}
