//! The lines of the house: where a thing may stand. A rule that a reviewer would have to remember is a test here.

mod examples;
mod formatting;
mod functions;
mod rings;
mod visibility;
mod widths;

use std::path::{Path, PathBuf};

use cardinal_tests::repository;

/// Lines of a source file without its documentation and its tests, and of one of tests.
const MAX_FILE: usize = 400;
const MAX_TEST_FILE: usize = 500;

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

    /// Lines without the tests at the file's end, and without documentation: a public item has as much as it needs.
    fn length(&self) -> usize {
        let lines = self.text.lines().take_while(|line| line.trim() != "#[cfg(test)]").map(str::trim_start);
        lines.filter(|line| !line.starts_with("///") && !line.starts_with("//!")).count()
    }

    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("tests.rs") || self.path.starts_with("tests/")
    }

    /// The crate of the host that it belongs to: `cards` for `host/crates/cards/src/source.rs`, `cardinal` for the
    /// binary's.
    fn host_crate(&self) -> Option<&str> {
        let inside = self.path.strip_prefix("host/")?;
        match inside.strip_prefix("crates/") {
            Some(inside) => inside.split('/').next(),
            None => inside.starts_with("src/").then_some("cardinal"),
        }
    }

    /// Whether it belongs to this crate: one of `CRATES`, of `PLUGIN_API` or of `PLUGINS`.
    fn is_of(&self, name: &str) -> bool {
        let inside = self.path.strip_prefix(name);
        self.host_crate() == Some(name) || inside.is_some_and(|inside| inside.starts_with("/src/"))
    }

    /// The modules around its code, from the crate's root: `["registry", "load"]`.
    fn module_path(&self) -> Vec<&str> {
        let inside = self.path.split_once("/src/").map_or("", |(_, inside)| inside.trim_end_matches(".rs"));
        if ["lib", "main"].contains(&inside) { Vec::new() } else { inside.split('/').collect() }
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
fn sql_text_stands_where_the_database_is_used_only() {
    const VERBS: [&str; 8] =
        ["SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM", "CREATE ", "ALTER ", "DROP ", "GRANT "];
    let is_sql = |code: &str| {
        // A literal, perhaps a raw one, that begins with the verb.
        VERBS.iter().any(|verb| code.contains(&format!("\"{verb}")) || code.trim_start().starts_with(verb))
    };
    let found = breaches(|source, code| {
        let holds_sql = |name: &str| ["database", "schema", "store"].contains(&name);
        source.host_crate().is_some_and(|name| !holds_sql(name)) && !source.is_test() && is_sql(code)
    });
    nothing_breaks("SQL text belongs in host/crates/{database,schema,store} or sql/", &found);
}

/// By number, a column more in a statement would shift all behind it. Cards are, and say why.
#[test]
fn rows_of_several_columns_are_read_by_name() {
    let is_number = |rest: &str| {
        rest.split_once('(').is_some_and(|(_, column)| column.starts_with(|c: char| ('1'..='9').contains(&c)))
    };
    let found = breaches(|source, code| {
        let reads = |call: &str| code.split(call).skip(1).any(is_number);
        source.host_crate().is_some()
            && source.path != "host/crates/store/src/cards.rs"
            && (reads("row.get") || reads("row.try_get"))
    });
    nothing_breaks("name the column", &found);
}

#[test]
fn only_config_reads_the_environment() {
    let found = breaches(|source, code| {
        source.host_crate().is_some()
            && !source.path.starts_with("host/crates/base/src/config")
            && !source.is_test()
            && (code.contains("env::var") || code.contains("env::vars") || code.contains("env::var_os"))
    });
    nothing_breaks("settings are read in host/crates/base/src/config only", &found);
}

#[test]
fn unsafe_code_stands_in_the_few_files_for_it() {
    const ALLOWED: [&str; 8] = [
        "plugin-abi/",
        "host/crates/base/src/memory/",
        "host/crates/control/src/crash/",
        "host/crates/plugin/src/library",
        "host/crates/plugin/src/bridge.rs",
        "host/crates/plugin/src/bridge/",
        "host/crates/plugin/src/probe/starter/fork.rs",
        "host/src/cli/plugin/new/crate_name.rs", // lists the words of Rust
    ];
    let found = breaches(|source, code| {
        // The refusal `schema-unsafe` is a word of its own.
        let word = code.split(|c: char| !c.is_alphanumeric() && !"_-".contains(c)).any(|word| word == "unsafe");
        // Misbehaving plugins of the tests may use it to misbehave.
        let fixture = source.path.starts_with("tests/fixtures/");
        word && !fixture && !ALLOWED.iter().any(|allowed| source.path.starts_with(allowed)) && !source.is_tidy()
    });
    nothing_breaks("unsafe belongs in plugin-abi, and in the library and bridge of host/crates/plugin", &found);
}

impl Source {
    /// This file and its folder, which have to name what they forbid.
    fn is_tidy(&self) -> bool {
        self.path.starts_with("tests/tests/it/tidy")
    }
}

#[test]
fn no_file_is_too_long_to_know_its_way_in() {
    let long: Vec<String> = sources()
        .iter()
        .map(|source| (source, source.length()))
        .filter(|(source, lines)| *lines > if source.is_test() { MAX_TEST_FILE } else { MAX_FILE })
        .map(|(source, lines)| format!("{}: {lines} lines", source.path))
        .collect();
    nothing_breaks("split it by what changes together", &long);
}

/// Lines of code of a bundled plugin, without its tests. What it reads pages with is a library of its own.
const MAX_PLUGIN: usize = 1_200;

#[test]
fn a_bundled_plugin_is_short_enough_to_learn_from() {
    for plugin in ["plugins/supplier", "plugins/gallery", "plugins/completeness"] {
        let code: Vec<Source> =
            sources().into_iter().filter(|source| source.is_of(plugin) && !source.is_test()).collect();
        let lines = code.iter().flat_map(Source::code).filter(|(_, line)| !line.trim().is_empty()).count();
        assert!((1..=MAX_PLUGIN).contains(&lines), "{plugin}: {lines} lines of code, of {MAX_PLUGIN}");
    }
}

/// Private words for what the field has a word for (`host/README.md`, Glossary).
#[test]
fn names_are_the_fields_words() {
    const TYPES: &str = "\
        NotGood Trouble Unwritten Deed Act Desk Death Ride Entrance Seat Alone Together Spent Elsewhere \
        Mend Bell Shelf Stand Lent Ticket Heard Picked Uncounted Rotated Locked NotMade NotNow NoWayBack \
        NoDatabase OfNoPlugin Unopened Broken Silent Accepted Acting Admitted Applied Armed Around Asked \
        Asking BadSettings Begun Breach Chosen Collected Coming Decided Entered Face Fresher Given Handed \
        Held HeldFor Inside Kept Known LastWords Leaving Meant Metered Moved NeverWait Newcomer Numbered \
        Observed Paced Printed Received Recorded Remembered Removed RolledBack Said Served Settling Shown \
        Signed Sorted Standstill Started Stopped Taken Timed Told Tried UnderWay Uploaded Verdict Wanted \
        Way WayBack Who Whose Witness Written Breaking Existing Listed Opened Polling Prepared";
    const FUNCTIONS: &str = "told tell of says anew bury deed entrance farewell is_said judge write_down";
    const LOCALS: [&str; 11] =
        ["bell", "death", "deed", "mend", "newcomer", "ride", "seat", "shelf", "surveyed", "trouble", "witness"];
    // Fixtures and tests say some of these to each other.
    const HOST_LOCALS: [&str; 7] = ["asked", "book", "heard", "mark", "said", "standing", "told"];
    const BOUNDS: [&str; 9] =
        ["MOST", "LEAST", "LONGEST", "SHORTEST", "FEWEST", "HIGHEST", "LOWEST", "PATIENCE", "WITHIN"];
    const CONSTANTS: [&str; 4] = ["USUAL", "AGAIN", "FLOCK", "FEW"];
    let [types, functions]: [Vec<&str>; 2] = [TYPES, FUNCTIONS].map(|names| names.split_whitespace().collect());
    let found = breaches(|source, code| {
        let words: Vec<&str> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let named = |keywords: &[&str], names: &[&str]| {
            words.windows(2).any(|pair| keywords.contains(&pair[0]) && names.contains(&pair[1]))
        };
        let bound = words.windows(2).any(|pair| {
            ["const", "static"].contains(&pair[0])
                && (CONSTANTS.contains(&pair[1])
                    || pair[1].ends_with("_WITHIN")
                    || pair[1].ends_with("AT_ONCE")
                    || pair[1].ends_with("_EVERY")
                    || BOUNDS.iter().any(|bound| pair[1] == *bound || pair[1].starts_with(&format!("{bound}_"))))
        });
        !source.is_tidy()
            && (bound
                || named(&["struct", "enum", "type", "trait"], &types)
                || named(&["fn"], &functions)
                || named(&["let", "mut"], &LOCALS)
                || source.host_crate().is_some() && named(&["let", "mut"], &HOST_LOCALS))
    });
    nothing_breaks("the glossary has a word for it", &found);
}

/// rustfmt breaks code and leaves comments as they are. The code of examples may be wider.
#[test]
fn comments_are_at_most_120_columns_wide() {
    const MAX_WIDTH: usize = 120;
    let mut found = Vec::new();
    for source in sources() {
        let is_ours = ["host/", "plugin-abi/", "plugins/"].iter().any(|folder| source.path.starts_with(folder));
        if !is_ours {
            continue;
        }
        let mut is_example = false;
        for ((at, line), width) in source.text.lines().enumerate().zip(widths::of_lines(&source.text)) {
            let is_comment = line.trim_start().starts_with("//") && !width.begins_in_string;
            is_example = is_comment && is_example ^ line.trim_start_matches(['/', '!', ' ']).starts_with("```");
            if is_comment && !is_example && line.chars().count() > MAX_WIDTH {
                found.push(format!("{}:{}: {line}", source.path, at + 1));
            }
        }
    }
    nothing_breaks("wrap it", &found);
}

/// In strings and comments, too, where clients, operators and readers meet them.
#[test]
fn texts_say_it_as_the_field_does() {
    const PHRASES: [(&str, &str); 12] = [
        ("written down", "recorded"),
        ("write down", "record"),
        ("writes down", "records"),
        ("put down to", "attributed to"),
        ("put behind all others", "run at idle priority"),
        ("said anew", "set again"),
        ("goes on serving", "stays in service"),
        ("names by commas", "comma-separated names"),
        (", by commas", ", comma-separated"),
        ("that is as many as there may be", "which is the maximum"),
        ("are not what they have to be", "are not valid"),
        ("told to stop", "asked to stop"),
    ];
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| source.path.starts_with("host/") && !source.is_test()) {
        for (at, line) in source.text.lines().enumerate() {
            for (phrase, better) in PHRASES.iter().filter(|(phrase, _)| line.to_lowercase().contains(phrase)) {
                found.push(format!("{}:{}: {phrase:?}, better {better:?}", source.path, at + 1));
            }
        }
    }
    nothing_breaks("short, plain English", &found);
}

#[test]
fn no_line_is_wider_than_rustfmt_makes_it() {
    let settings = std::fs::read_to_string(repository().join("rustfmt.toml")).unwrap();
    let width: usize = settings.lines().find_map(|line| line.strip_prefix("max_width = ")).unwrap().parse().unwrap();
    let mut wide = Vec::new();
    for source in sources() {
        // A row of the table says much, so its strings are broken, too.
        let is_table = source.path.starts_with("host/crates/serve/src/api") && !source.text.contains("proptest!");
        for (at, (line, of_line)) in source.text.lines().zip(widths::of_lines(&source.text)).enumerate() {
            let unbreakable = if is_table { 0 } else { of_line.longest_string };
            if of_line.code.saturating_sub(unbreakable) > width {
                wide.push(format!("{}:{}: {}", source.path, at + 1, line.trim()));
            }
        }
    }
    nothing_breaks("break the line, or the string in it (with `\\` at the end of a line)", &wide);
}

#[test]
fn rustfmt_formats_every_statement_of_the_product() {
    let mut sources = sources();
    sources.retain(|source| !source.is_test() && !source.path.contains("/sdk/scaffold/"));
    let texts: Vec<&str> = sources
        .iter()
        .map(|source| source.text.find("\n#[cfg(test)]").map_or(&*source.text, |end| source.text[..end].trim_end()))
        .collect();
    let found: Vec<String> = sources
        .iter()
        .zip(formatting::left_alone(&texts))
        .filter_map(|(source, line)| line.map(|line| format!("{}:{line}", source.path)))
        .collect();
    nothing_breaks("shorten the string below it, break it with `\\`, or give it a name of its own", &found);
}

#[test]
fn modules_are_named_by_their_own_file() {
    let found: Vec<String> =
        sources().into_iter().map(|source| source.path).filter(|path| path.ends_with("/mod.rs")).collect();
    nothing_breaks("foo.rs beside foo/, never foo/mod.rs", &found);
}

/// The crates of the host: each uses only those that stand before it.
const CRATES: [&str; 14] = [
    "base",
    "observe",
    "cards",
    "schema_sql",
    "database",
    "control",
    "store",
    "schema",
    "identity",
    "package",
    "plugin",
    "supervisor",
    "serve",
    "cardinal",
];

/// The crates that plugins are made with, by their folders.
const PLUGIN_API: [&str; 3] = ["plugin-abi", "plugin-abi/sdk", "plugin-abi/sdk/macros"];

/// The plugins of this repository, by their folders.
const PLUGINS: [&str; 4] = ["plugins/completeness", "plugins/gallery", "plugins/supplier", "plugins/supplier/pages"];

/// What runs as the database's owner, and those that must never be able to name it.
const OWNERS_SIDE: [&str; 2] = ["schema", "supervisor"];
const WORKERS_SIDE: [&str; 5] = ["store", "identity", "package", "plugin", "serve"];

/// The crates of the host that one depends on, in its tests and on some systems, too.
fn dependencies(name: &str) -> Vec<String> {
    let folder = if name == "cardinal" { "host".to_owned() } else { format!("host/crates/{name}") };
    let manifest = std::fs::read_to_string(repository().join(folder).join("Cargo.toml")).unwrap();
    let sections = manifest.split("\n[").filter_map(|section| section.split_once("]\n"));
    let named = sections.filter(|(head, _)| head.ends_with("dependencies")).map(|(_, lines)| lines);
    let own = |line: &str| {
        let package = line.split(['.', ' ']).next()?.strip_prefix("cardinal-")?;
        let name = if package == "plugin-host" { "plugin".to_owned() } else { package.replace('-', "_") };
        (name != "plugin_abi").then_some(name)
    };
    named.flat_map(str::lines).filter_map(own).collect()
}

#[test]
fn a_crate_of_the_host_uses_only_those_below_it() {
    let mut folders: Vec<String> = std::fs::read_dir(repository().join("host/crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .chain(["cardinal".to_owned()])
        .collect();
    folders.sort();
    let mut known = CRATES.map(str::to_owned);
    known.sort();
    assert_eq!(folders, known, "every crate of the host has its place in CRATES");
    let place = |name: &str| CRATES.iter().position(|known| *known == name).unwrap();
    for name in CRATES {
        for used in dependencies(name) {
            assert!(place(&used) < place(name), "{name} uses {used}");
        }
    }
}

#[test]
fn no_crate_of_the_worker_can_name_what_the_owner_does() {
    for name in WORKERS_SIDE {
        let mut reached = dependencies(name);
        let mut at = 0;
        while at < reached.len() {
            reached.extend(dependencies(&reached[at].clone()));
            at += 1;
        }
        for owner in OWNERS_SIDE {
            assert!(!reached.iter().any(|used| used == owner), "{name} reaches {owner}");
        }
    }
}

/// Modules of one folder that use each other in a ring cannot be read one by one; a module and those inside it may.
#[test]
fn the_modules_of_a_crate_form_no_ring() {
    let sources = sources();
    let mut found = Vec::new();
    for name in CRATES.into_iter().chain(PLUGIN_API).chain(PLUGINS) {
        let own = sources.iter().filter(|source| source.is_of(name) && !source.is_test());
        let modules: Vec<(Vec<&str>, String)> = own
            .map(|source| (source.module_path(), source.code().flat_map(|(_, line)| [line, "\n"]).collect()))
            .collect();
        assert!(!modules.is_empty(), "the sources of {name} are not where this test looks for them");
        found.extend(rings::of_crate(&modules).into_iter().map(|ring| (name, ring)));
    }
    assert!(found.is_empty(), "move what both use to a module of its own: {found:#?}");
}

/// A level for a module that the table lacks would be refused.
#[test]
fn log_targets_have_the_modules_of_every_crate() {
    let table = std::fs::read_to_string(repository().join("host/crates/base/src/log_targets.rs")).unwrap();
    let words: Vec<&str> = table.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let mut missing = Vec::new();
    for name in CRATES {
        let root =
            if name == "cardinal" { "host/src/lib.rs".to_owned() } else { format!("host/crates/{name}/src/lib.rs") };
        let text = std::fs::read_to_string(repository().join(&root)).unwrap();
        let modules =
            text.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'));
        missing.extend(
            modules.filter(|module| *module != "tests" && !words.contains(module)).map(|it| format!("{root}: {it}")),
        );
    }
    nothing_breaks("add it to the table of host/crates/base/src/log_targets.rs", &missing);
}

#[test]
fn crates_depend_downwards_only() {
    let read = |path: &str| std::fs::read_to_string(repository().join(path)).unwrap();
    let abi = read("plugin-abi/Cargo.toml");
    let dependencies = abi.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let named: Vec<&str> = dependencies.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).collect();
    assert!(named.iter().all(|name| ["", "abi_stable", "#"].contains(name)), "plugin-abi depends on {named:?}");
    for name in CRATES {
        let folder = if name == "cardinal" { "host".to_owned() } else { format!("host/crates/{name}") };
        let host = read(&format!("{folder}/Cargo.toml"));
        let knows_sdk = host.contains("cardinal-plugin.") || host.contains("cardinal-plugin ");
        assert!(!knows_sdk, "{name} must not know the SDK");
    }
    for plugin in std::fs::read_dir(repository().join("plugins")).unwrap().flatten() {
        let Ok(manifest) = std::fs::read_to_string(plugin.path().join("Cargo.toml")) else { continue };
        let host_named = manifest.lines().any(|line| line.starts_with("cardinal.") || line.starts_with("cardinal "));
        assert!(!host_named, "{} depends on the host", plugin.path().display());
    }
}

#[test]
fn the_sdk_takes_every_compatible_version_of_what_it_uses() {
    let manifest = std::fs::read_to_string(repository().join("plugin-abi/sdk/Cargo.toml")).unwrap();
    let used = manifest.split("\n[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
    for line in used.lines().filter(|line| !line.is_empty() && !line.starts_with("cardinal-")) {
        let is_compatible = !line.contains("\"=") && !line.contains("workspace");
        assert!(is_compatible, "an author's crate may need a newer one: {line}");
    }
}

/// What authors of plugins look up shows how it is used; `tidy/examples.rs` says which items count.
#[test]
fn every_public_item_of_the_plugin_api_has_an_example() {
    const FOLDERS: [&str; 3] = ["plugin-abi/src/", "plugin-abi/sdk/src/", "plugin-abi/sdk/macros/src/"];
    let mut sources = sources();
    sources.retain(|source| FOLDERS.iter().any(|folder| source.path.starts_with(folder)));
    assert!(sources.len() > FOLDERS.len(), "the plugin API is not where this test looks for it");
    let lines_of = |source: &Source| {
        examples::missing(&source.text).into_iter().map(|line| format!("{}:{line}", source.path)).collect::<Vec<_>>()
    };
    let found: Vec<String> = sources.iter().flat_map(lines_of).collect();
    nothing_breaks("show in a few lines of its documentation how it is used", &found);
}

/// The product has no switch that takes a part away, so that the bench builds what patches leave.
#[test]
fn the_patches_of_the_bench_fit() {
    for part in ["authentication", "guard"] {
        let patch = repository().join(format!("tests/src/bin/bench/without-{part}.patch"));
        let mut git = std::process::Command::new("git");
        let fits = git.arg("apply").arg("--check").arg(&patch).current_dir(repository()).output().unwrap();
        assert!(fits.status.success(), "{}: {}", patch.display(), String::from_utf8_lossy(&fits.stderr));
    }
}
