//! `pub` means that another crate uses it. The compiler holds that for what stands in a private module
//! (`unreachable_pub`), so a module is public only when another crate names it.

use super::{CRATES, Source, nothing_breaks, sources};

#[test]
fn a_public_module_of_a_crate_is_named_by_another() {
    let sources = sources();
    let mut found = Vec::new();
    for name in CRATES.into_iter().filter(|name| *name != "cardinal") {
        let root = format!("host/crates/{name}/src/lib.rs");
        let others: Vec<&Source> =
            sources.iter().filter(|source| !source.path.starts_with(&format!("host/crates/{name}/src/"))).collect();
        let package = if name == "plugin" { "cardinal_plugin_host".to_owned() } else { format!("cardinal_{name}") };
        let named: Vec<&str> = others.iter().flat_map(|source| named_modules(&source.text, &package)).collect();
        let text = &sources.iter().find(|source| source.path == root).unwrap().text;
        let public = text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
        found.extend(public.filter(|module| !named.contains(module)).map(|module| format!("{root}: {module}")));
    }
    nothing_breaks("make it `mod`: no other crate names it", &found);
}

/// The modules of a crate that a text names, as `package::module` or in the braces of `package::{...}`.
fn named_modules<'t>(text: &'t str, package: &str) -> Vec<&'t str> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(&format!("{package}::")) {
        let rest = &text[at + package.len() + 2..];
        let mut depth = 0_usize;
        let end = rest.find(|c: char| {
            depth = if c == '{' {
                depth + 1
            } else if c == '}' {
                depth.saturating_sub(1)
            } else {
                depth
            };
            depth == 0 && c != '}' && !c.is_alphanumeric() && c != '_' || c == ';'
        });
        let path = &rest[..end.unwrap_or(rest.len())];
        depth = 0;
        let outer = path.split(|c: char| {
            depth = if c == '{' {
                depth + 1
            } else if c == '}' {
                depth.saturating_sub(1)
            } else {
                depth
            };
            depth <= 1 && (c == ',' || c == '{')
        });
        found.extend(outer.map(|part| part.trim().split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap()));
    }
    found
}

#[test]
fn modules_are_read_from_paths_and_from_groups() {
    let named = |text| named_modules(text, "cardinal_x").into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>();
    assert_eq!(named("use cardinal_x::a::b;\nfn f() { cardinal_x::c() }"), ["a", "c"]);
    assert_eq!(named("use cardinal_x::{\n    a::{self, B},\n    c,\n    d::E,\n};\nuse y::f;"), ["a", "c", "d"]);
    assert!(named("use cardinal_xy::a;").is_empty());
}
