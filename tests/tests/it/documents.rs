//! The documents: their links lead somewhere.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use cardinal_tests::repository;

/// Folders that hold no documents of ours.
const SKIPPED: [&str; 4] = ["node_modules", "target", "var", "dist"];

fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name) {
            documents(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// Lines outside of examples.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_example = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_example ^= is_fence;
        !is_example && !is_fence
    })
}

/// What a heading's link is called, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
    kept.replace(' ', "-")
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

/// The targets of `[text](target)`.
fn links(text: &str) -> Vec<&str> {
    let places = prose(text).flat_map(|line| line.split("](").skip(1));
    places.filter_map(|rest| rest.split(')').next()).collect()
}

/// Why a link of the document at `from` leads nowhere.
fn broken(from: &Path, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, part) = link.split_once('#').map_or((link, None), |(file, part)| (file, Some(part)));
    let target = if file.is_empty() { from.to_owned() } else { from.parent()?.join(file) };
    if !target.exists() {
        return Some(format!("{}: {link}: no such file", from.display()));
    }
    let known = part.is_none_or(|part| anchors(&std::fs::read_to_string(target).unwrap()).contains(part));
    (!known).then(|| format!("{}: {link}: no such heading", from.display()))
}

#[test]
fn every_link_leads_somewhere() {
    let mut found = Vec::new();
    documents(repository(), &mut found);
    assert!(found.len() > 15, "the documents are not where this test looks for them");
    let texts = found.iter().map(|path| (path, std::fs::read_to_string(path).unwrap()));
    let faults: Vec<String> = texts
        .flat_map(|(path, text)| links(&text).into_iter().filter_map(|link| broken(path, link)).collect::<Vec<_>>())
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_page_stands_in_the_table_of_contents() {
    let folder = repository().join("host/docs");
    let contents = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let listed: BTreeSet<&str> = links(&contents).into_iter().collect();
    let mut found = Vec::new();
    documents(&folder, &mut found);
    for page in found {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(name == "README.md" || listed.contains(name), "{name} is not in host/docs/README.md");
    }
}

/// Names of files and folders of the host's page: what is in backticks or in a drawing and names a source file or a
/// folder. `<table>.rs` stands for many.
fn named_paths(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c.is_whitespace() || "`(),;:|".contains(c));
    words.filter(|word| {
        let is_source = word.ends_with(".rs") || word.starts_with("crates/") || word.starts_with("../");
        is_source && !word.contains('<') && !word.contains('[')
    })
}

#[test]
fn the_hosts_page_names_files_from_its_own_folder() {
    let folder = repository().join("host");
    let text = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let named: Vec<&str> = named_paths(&text).collect();
    assert!(named.len() > 100, "the page names its files in another way");
    let missing: Vec<&str> = named.into_iter().filter(|path| !folder.join(path).exists()).collect();
    assert!(missing.is_empty(), "no such files below host/: {missing:#?}");
}
