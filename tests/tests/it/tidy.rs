//! The lines of the house: where a thing may stand. A rule that a reviewer would have to remember is a test here.

use std::path::{Path, PathBuf};

use cardinal_tests::repository;

/// Lines of a source file without its tests.
const LONGEST_FILE: usize = 500;

struct Source {
    /// Relative to the repository.
    path: String,
    text: String,
}

impl Source {
    /// Code without comments and without the tests at the file's end.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
        lines.map(|line| line.split("//").next().unwrap_or_default()).enumerate().map(|(at, line)| (at + 1, line))
    }

    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("tests.rs") || self.path.starts_with("tests/")
    }

    /// The module of the host that it belongs to: `cards` for `host/src/cards.rs` and `host/src/cards/source.rs`.
    fn host_module(&self) -> Option<&str> {
        let inside = self.path.strip_prefix("host/src/")?;
        Some(inside.split(['/', '.']).next().unwrap_or(inside))
    }
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    for top in ["host", "plugin-abi", "plugins", "tests"] {
        collect(&repository().join(top), &mut found);
    }
    assert!(found.len() > 20, "the sources are not where this test looks for them");
    found
}

fn collect(folder: &Path, found: &mut Vec<Source>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() && !path.ends_with("node_modules") && !path.ends_with("target") {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push(Source { path: path.strip_prefix(repository()).unwrap().to_str().unwrap().to_owned(), text });
        }
    }
}

/// `file:line: text` of each line of code that breaks a rule.
fn breaches(broken: impl Fn(&Source, &str) -> bool) -> Vec<String> {
    let mut breaches = Vec::new();
    for source in sources() {
        for (line, code) in source.code() {
            if broken(&source, code) {
                breaches.push(format!("{}:{line}: {}", source.path, code.trim()));
            }
        }
    }
    breaches
}

#[track_caller]
fn nothing_breaks(rule: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{rule}:\n{}", breaches.join("\n"));
}

#[test]
fn sql_text_stands_in_db_and_sql_only() {
    const VERBS: [&str; 8] =
        ["SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM", "CREATE ", "ALTER ", "DROP ", "GRANT "];
    let is_sql = |code: &str| {
        // A literal, perhaps a raw one, that begins with the verb.
        VERBS.iter().any(|verb| code.contains(&format!("\"{verb}")) || code.trim_start().starts_with(verb))
    };
    let found = breaches(|source, code| {
        source.host_module().is_some_and(|module| module != "db") && !source.is_test() && is_sql(code)
    });
    nothing_breaks("SQL text belongs in host/src/db/ or sql/", &found);
}

#[test]
fn only_config_reads_the_environment() {
    let found = breaches(|source, code| {
        source.host_module().is_some_and(|module| module != "config")
            && !source.is_test()
            && (code.contains("env::var") || code.contains("env::vars") || code.contains("env::var_os"))
    });
    nothing_breaks("settings are read in host/src/config/ only", &found);
}

#[test]
fn unsafe_code_stands_in_the_few_files_for_it() {
    const ALLOWED: [&str; 6] = [
        "plugin-abi/",
        "host/src/crash/",
        "host/src/memory.rs",
        "host/src/plugin/library",
        "host/src/plugin/bridge.rs",
        "host/src/plugin/bridge/",
    ];
    let found = breaches(|source, code| {
        // The refusal `schema-unsafe` is a word of its own.
        let word = code.split(|c: char| !c.is_alphanumeric() && !"_-".contains(c)).any(|word| word == "unsafe");
        // Misbehaving plugins of the tests may use it to misbehave.
        let fixture = source.path.starts_with("tests/fixtures/");
        word && !fixture && !ALLOWED.iter().any(|allowed| source.path.starts_with(allowed)) && !source.is_tidy()
    });
    nothing_breaks("unsafe belongs in plugin-abi, host/src/plugin/library and host/src/plugin/bridge", &found);
}

impl Source {
    /// This file, which has to name what it forbids.
    fn is_tidy(&self) -> bool {
        self.path.ends_with("it/tidy.rs")
    }
}

#[test]
fn no_file_is_too_long_to_know_its_way_in() {
    let long: Vec<String> = sources()
        .iter()
        .map(|source| (source.code().count(), &source.path))
        .filter(|(lines, _)| *lines > LONGEST_FILE)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    nothing_breaks("split it by what changes together", &long);
}

#[test]
fn modules_are_named_by_their_own_file() {
    let found: Vec<String> =
        sources().into_iter().map(|source| source.path).filter(|path| path.ends_with("/mod.rs")).collect();
    nothing_breaks("foo.rs beside foo/, never foo/mod.rs", &found);
}

/// Modules of the host from the top of the data's path to its floor; a module uses only its own line and later ones.
/// `app` (what was built once) and `lifecycle` (the only spawner) are used from every floor.
const FLOORS: [&[&str]; 7] = [
    &["main", "cli"],
    &["keeper", "provision", "worker", "server"],
    // A row of the table names its handler, and a handler takes the request that was found for it.
    &["request", "router", "api", "mcp", "proxy"],
    &["plugin", "jobs"],
    // Rows come out of the database as the types of their domain.
    &["auth", "limit", "cards", "db", "link"],
    // Pure: no database, no HTTP.
    &["schema_sql"],
    &["http", "observe", "openapi", "crash"],
];

#[test]
fn a_module_of_the_host_uses_only_what_stands_below_it() {
    let floor = |module: &str| FLOORS.iter().position(|floor| floor.contains(&module));
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        let Some(own) = source.host_module().and_then(floor) else { continue };
        let code: String = source.code().flat_map(|(_, line)| [line, "\n"]).collect();
        for used in used_modules(&code) {
            if floor(used).is_some_and(|used| used < own) {
                found.push(format!("{} uses {used}", source.path));
            }
        }
    }
    nothing_breaks("a module uses only what stands below it (FLOORS in this test)", &found);
}

/// First names after `crate::`, also those of a group: `crate::{http::reply, db}` gives `http` and `db`.
fn used_modules(code: &str) -> Vec<&str> {
    let name = |text: &'_ str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let mut used = Vec::new();
    for after in code.split("crate::").skip(1) {
        let Some(group) = after.strip_prefix('{') else {
            used.push(&after[..name(after)]);
            continue;
        };
        let (mut depth, mut at_start) = (0, true);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => at_start = true,
                c if at_start && !c.is_whitespace() => {
                    used.push(&group[at..at + name(&group[at..])]);
                    at_start = false;
                }
                _ => {}
            }
        }
    }
    used
}

#[test]
fn a_group_of_imports_is_read_whole() {
    let code =
        "use crate::{\n    api,\n    http::{body::{self, Body}, codes},\n    db,\n};\nlet x = crate::cards::check();";
    assert_eq!(used_modules(code), ["api", "http", "db", "cards"]);
}

#[test]
fn crates_depend_downwards_only() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).unwrap();
    let abi = read("plugin-abi/Cargo.toml");
    let dependencies = abi.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let named: Vec<&str> = dependencies.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).collect();
    assert!(named.iter().all(|name| ["", "abi_stable", "#"].contains(name)), "plugin-abi depends on {named:?}");
    let host = read("host/Cargo.toml");
    assert!(!host.contains("cardinal-plugin.") && !host.contains("cardinal-plugin "), "the host must not know the SDK");
    for plugin in std::fs::read_dir(repository().join("plugins")).unwrap().flatten() {
        let Ok(manifest) = std::fs::read_to_string(plugin.path().join("Cargo.toml")) else { continue };
        let host_named = manifest.lines().any(|line| line.starts_with("cardinal.") || line.starts_with("cardinal "));
        assert!(!host_named, "{} depends on the host", plugin.path().display());
    }
}
