//! What commands say of an author's mistakes, as `plugins/mistakes.md` has it. What the compiler says of others is held by
//! the SDK's own tests.

use std::path::{Path, PathBuf};

use cardinal_tests::{cardinal, exited, has_browser, repository};

use super::cli_author::{BUILDING, edit, in_target, new, path, target};

/// The parts of what one reads after the mistake of this number: those in double backticks.
fn on_page(number: usize) -> Vec<String> {
    let page = std::fs::read_to_string(repository().join("plugins/mistakes.md")).unwrap();
    let row = page.lines().find(|line| line.starts_with(&format!("| {number} |"))).unwrap();
    let parts: Vec<String> = row.split("``").skip(1).step_by(2).map(|part| part.trim().to_owned()).collect();
    assert!(!parts.is_empty(), "{row}");
    parts
}

#[track_caller]
fn assert_on_page(number: usize, told: &str) {
    for part in on_page(number) {
        assert!(told.contains(&part), "{number}: `{part}` is not in:\n{told}");
    }
}

/// What the command on a crate says, which it does not do.
fn refused(command: &str, made: &Path) -> String {
    let (out, err) = exited(&in_target(&["plugin", command, path(made)]), 1);
    out + &err
}

#[test]
fn what_is_seen_before_the_compiler_starts() {
    let folder = tempfile::tempdir().unwrap();
    let made = new(folder.path(), "early", &["--with", "tab"]);
    let manifest = made.join("manifest.json");
    let before_the_compiler = |number: usize| {
        for command in ["build", "test"] {
            assert_on_page(number, &refused(command, &made));
        }
    };
    edit(&manifest, r#""version": "0.1.0","#, r#""version": "0.1.0""#);
    before_the_compiler(5);
    edit(&manifest, r#""version": "0.1.0""#, r#""version": "0.1.0","#);
    edit(&manifest, r#""name": "early""#, r#""name": "Early""#);
    before_the_compiler(14);
    edit(&manifest, r#""name": "Early""#, r#""name": "early""#);
    edit(&made.join("Cargo.toml"), "\"cdylib\", ", "");
    assert_on_page(13, &refused("build", &made));
    std::fs::remove_file(&manifest).unwrap();
    before_the_compiler(6);
    assert_on_page(6, &refused("dev", &made));
    assert!(!target().join("debug/libearly.so").exists() && !made.join("target").exists());
}

#[test]
fn what_is_seen_of_the_library_and_of_its_signature() {
    let _building = BUILDING.blocking_read();
    let folder = tempfile::tempdir().unwrap();
    let made = new(folder.path(), "clashes", &["--with", "routes"]);
    let build = || in_target(&["plugin", "build", path(&made), "--debug", "--", "--offline"]);
    let (out, _) = exited(&build(), 0);
    let (library, key) = (PathBuf::from(out.trim()), folder.path().join("a.key"));
    let signed = folder.path().join("clashes.so");
    std::fs::copy(&library, &signed).unwrap();
    exited(&cardinal(["plugin", "sign", "--generate", "--key", path(&key), path(&signed)]), 0);
    let packed = folder.path().join("packed.so");
    let (_, err) = exited(&cardinal(["plugin", "pack", path(&signed), "--output", path(&packed)]), 0);
    assert_on_page(20, &err);

    let add = ".post(\"/cards/{card_id}\", add)";
    edit(&made.join("src/routes.rs"), add, &format!("{add}\n        .get(\"/cards/{{id}}\", add)"));
    let (_, err) = exited(&build(), 1);
    assert!(err.contains("create-failed"), "{err}");
    assert_on_page(18, &err);
}

#[test]
fn what_is_seen_in_a_test() {
    let _building = BUILDING.blocking_read();
    let folder = tempfile::tempdir().unwrap();
    let made = new(folder.path(), "blocks", &["--with", "tab"]);
    edit(
        &made.join("src/service.rs"),
        "    let card =",
        "    std::thread::sleep(std::time::Duration::from_millis(2_500));\n    let card =",
    );
    edit(&made.join("frontend/plugin.js"), "await show();\n  });", "await show());\n  });");
    let (out, err) = exited(&in_target(&["plugin", "test", path(&made), "--without-own", "--", "--offline"]), 1);
    assert!(out.contains("FAILED   threads    GET /cards/{card_id} has held its thread for 2"), "{out}{err}");
    assert_on_page(21, &out);
    if has_browser() {
        let text = std::fs::read_to_string(made.join("frontend/plugin.js")).unwrap();
        let line = text.lines().position(|line| line.contains("await show());")).unwrap() + 1;
        assert!(out.contains(&format!("(frontend/plugin.js:{line}:")), "{out}");
        assert_on_page(22, &out);
    }
}

/// They need no host.
#[test]
fn wrong_command_lines_are_told_at_once() {
    for (line, names) in [
        (&["plugin", "settings", "notes", "delay"][..], "KEY=VALUE"),
        (&["plugin", "logs", "notes", "--level", "loud"], "error, warn, info, debug, trace"),
        (&["cards", "export", "--status", "lost", "-"], "draft, active, archived"),
        (&["key", "create", "--name", "a", "--scopes", "*", "--expires-in-days", "0"], "1..=3650"),
    ] {
        let (_, err) = exited(&cardinal(line), 64);
        assert!(err.contains(names), "{line:?}: {err}");
    }
}
