//! Which modules of a crate use which, and where they use each other in a ring.

use std::collections::{BTreeMap, BTreeSet};

/// The modules of one crate: the path of each below the crate's root (none for `lib.rs` and `main.rs`), and its code.
type Crate<'a> = [(Vec<&'a str>, String)];

/// The rings of a crate, as `folder: module, module`. Modules of one folder that use each other in a ring are one; that
/// a module and those inside it use each other is not, and what a module uses counts for each module around it.
pub(crate) fn of_crate(modules: &Crate<'_>) -> Vec<String> {
    let known: BTreeSet<&[&str]> =
        modules.iter().flat_map(|(path, _)| (1..=path.len()).map(|end| &path[..end])).collect();
    // By folder: which module uses which of its siblings.
    let mut folders: BTreeMap<&[&str], BTreeMap<&str, BTreeSet<String>>> = BTreeMap::new();
    for (path, code) in modules {
        for used in used_paths(path, code) {
            let Some(fork) = path.iter().zip(&used).position(|(own, other)| own != other) else { continue };
            let sibling: Vec<&str> = used[..=fork].iter().map(String::as_str).collect();
            if known.contains(&sibling[..]) {
                folders.entry(&path[..fork]).or_default().entry(path[fork]).or_default().insert(used[fork].clone());
            }
        }
    }
    let rings = folders.into_iter().filter_map(|(folder, uses)| {
        let ring = in_a_ring(&uses);
        (!ring.is_empty()).then(|| format!("{}: {}", folder.join("::"), ring.join(", ")))
    });
    rings.collect()
}

/// Those that reach themselves.
fn in_a_ring<'a>(uses: &BTreeMap<&'a str, BTreeSet<String>>) -> Vec<&'a str> {
    let reaches_itself = |module: &str| {
        let mut reached: Vec<&String> = uses[module].iter().collect();
        let mut at = 0;
        while at < reached.len() {
            for next in uses.get(reached[at].as_str()).into_iter().flatten() {
                if !reached.contains(&next) {
                    reached.push(next);
                }
            }
            at += 1;
        }
        reached.iter().any(|other| *other == module)
    };
    uses.keys().copied().filter(|module| reaches_itself(module)).collect()
}

/// What the code of the module at `path` names by `crate::`, `self::` or `super::`, in imports and elsewhere, as paths
/// from the crate's root.
fn used_paths(path: &[&str], code: &str) -> Vec<Vec<String>> {
    let mut used = Vec::new();
    for start in ["crate::", "self::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let goes_on = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            if !goes_on {
                used.extend(spelled_out(&code[at..]).iter().map(|named| from_root(path, named)));
            }
        }
    }
    used
}

fn from_root(path: &[&str], named: &[&str]) -> Vec<String> {
    let mut base: Vec<String> = path.iter().map(|&name| name.to_owned()).collect();
    for &name in named {
        match name {
            "crate" => base.clear(),
            "self" => {}
            "super" => drop(base.pop()),
            name => base.push(name.to_owned()),
        }
    }
    base
}

/// All paths of one that may end in a group: `a::{b::c, d}` is `a::b::c` and `a::d`.
fn spelled_out(text: &str) -> Vec<Vec<&str>> {
    let mut names = Vec::new();
    let mut rest = text.trim_start();
    loop {
        if let Some(group) = rest.strip_prefix('{') {
            let parts = parts_of(group).into_iter().flat_map(spelled_out);
            return parts.map(|part| [names.clone(), part].concat()).collect();
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end > 0 {
            names.push(&rest[..end]);
        }
        match rest[end..].strip_prefix("::") {
            Some(more) if end > 0 => rest = more,
            _ => return vec![names],
        }
    }
}

/// The parts of a group, up to the brace that ends it.
fn parts_of(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&group[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

#[test]
fn a_path_is_read_from_where_it_stands() {
    let code = "use crate::{\n    api,\n    http::{body::{self, Body}, codes},\n};\nuse super::load;\n\
                let x = super::super::cards::check() + self::inner::Y + other_crate::z;";
    let used = used_paths(&["registry", "policy"], code);
    let used: Vec<String> = used.iter().map(|path| path.join("::")).collect();
    let expected = [
        "api",
        "http::body",
        "http::body::Body",
        "http::codes",
        "registry::policy::inner::Y",
        "registry::load",
        "cards::check",
    ];
    assert_eq!(used, expected);
}

#[test]
fn siblings_form_rings_and_parents_do_not() {
    let module = |path: &'static str, code: &str| (path.split("::").collect::<Vec<_>>(), code.to_owned());
    let parent = [module("a", "mod b; use self::b::X;"), module("a::b", "use super::Y;"), module("c", "use crate::a;")];
    assert_eq!(of_crate(&parent), [""; 0]);
    let deep = [module("a", ""), module("a::b", "fn f() { super::super::c::g() }"), module("c", "use super::a::Y;")];
    assert_eq!(of_crate(&deep), [": a, c"]);
    let inner = [
        module("a", ""),
        module("a::b", "use super::c::X;"),
        module("a::c", "use super::d;"),
        module("a::d", "use crate::a::{b, e};"),
        module("a::e", "use super::nothing;"),
    ];
    assert_eq!(of_crate(&inner), ["a: b, c, d"]);
}
