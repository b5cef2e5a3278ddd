use std::{fs, os::unix::fs::PermissionsExt};

use tempfile::TempDir;

use super::*;

/// A plugins folder with one well-formed package, but for the bytes of its library.
struct Plugins(TempDir);

impl Plugins {
    fn new() -> Self {
        let plugins = Self(tempfile::tempdir().unwrap());
        plugins.write("demo/manifest.json", b"{}");
        plugins.write("demo/libdemo.so", b"library");
        plugins
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn read(&self) -> Result<Package, Refusal> {
        read(&self.path("demo"))
    }

    fn code(&self) -> Code {
        self.read().unwrap_err().code
    }
}

#[test]
fn a_folder_is_read_whole_and_strangers_in_it_are_left_alone() {
    let plugins = Plugins::new();
    plugins.write("demo/schema.sql", b"SELECT 1");
    plugins.write("demo/frontend/plugin.js", b"export {}");
    plugins.write("demo/frontend/css/a.css", b"a");
    plugins.write("demo/frontend/.DS_Store", b"x");
    plugins.write("demo/__init__.py", b"");
    plugins.write("demo/old.dll", b"MZ");
    let package = plugins.read().unwrap();
    assert_eq!(package.origin, "demo");
    assert_eq!((&package.library[..], package.library_name.as_str()), (&b"library"[..], "libdemo.so"));
    assert_eq!(package.schema_sql.as_deref(), Some("SELECT 1"));
    assert_eq!(package.frontend.keys().collect::<Vec<_>>(), ["css/a.css", "plugin.js"]);
}

#[test]
fn the_hash_is_over_names_and_contents_of_what_counts() {
    let plugins = Plugins::new();
    let expected = {
        let mut hash = Sha256::new();
        for (name, data) in [("libdemo.so", &b"library"[..]), ("manifest.json", b"{}")] {
            hash.update([name.as_bytes(), &[0], &(data.len() as u64).to_le_bytes(), data].concat());
        }
        hex(&hash.finalize())
    };
    assert_eq!(plugins.read().unwrap().sha256, expected);
    plugins.write("demo/README.md", b"strangers do not count");
    assert_eq!(plugins.read().unwrap().sha256, expected);
    plugins.write("demo/frontend/plugin.js", b"");
    assert_ne!(plugins.read().unwrap().sha256, expected, "an empty file counts too");
}

#[test]
fn a_folder_without_its_parts_is_refused() {
    let plugins = Plugins::new();
    plugins.write("demo/other.so", b"");
    assert_eq!(plugins.code(), Code::SeveralLibraries);
    fs::remove_file(plugins.path("demo/other.so")).unwrap();
    fs::remove_file(plugins.path("demo/libdemo.so")).unwrap();
    let refusal = plugins.read().unwrap_err();
    assert!(refusal.code == Code::LibraryMissing && refusal.fix.contains("beside manifest.json"), "{refusal:?}");
    plugins.write("demo/Cargo.toml", b"[package]");
    let refusal = plugins.read().unwrap_err();
    assert!(refusal.code == Code::LibraryMissing && refusal.fix.contains("cardinal plugin build"), "{refusal:?}");
    plugins.write("demo/demo.dylib", b"");
    assert_eq!(plugins.code(), Code::WrongPlatform);
    plugins.write("demo/libdemo.so", b"");
    fs::remove_file(plugins.path("demo/manifest.json")).unwrap();
    assert_eq!(plugins.code(), Code::BadManifest);
}

#[test]
fn a_file_that_is_no_library_is_no_plugin() {
    let plugins = Plugins::new();
    plugins.write("demo.zip", b"PK");
    let refusal = read(&plugins.path("demo.zip")).unwrap_err();
    assert_eq!(refusal.code, Code::NotAPlugin);
    assert!(refusal.reason.contains("neither a folder"), "{refusal}");
}

#[test]
fn links_are_refused_wherever_they_are() {
    for (name, target) in [("libdemo.so", "/etc/passwd"), ("manifest.json", "/etc/passwd"), ("frontend", "/etc")] {
        let plugins = Plugins::new();
        let _ = fs::remove_file(plugins.path("demo").join(name));
        std::os::unix::fs::symlink(target, plugins.path("demo").join(name)).unwrap();
        assert_eq!(plugins.code(), Code::LinkRefused, "{name}");
    }
    let plugins = Plugins::new();
    std::os::unix::fs::symlink(plugins.path("demo"), plugins.path("linked")).unwrap();
    assert_eq!(read(&plugins.path("linked")).unwrap_err().code, Code::LinkRefused);
}

#[test]
fn a_path_that_leads_nowhere_is_not_a_matter_of_permissions() {
    let plugins = Plugins::new();
    for name in ["libnone.so", "none", "none/libnone.so"] {
        let refusal = read(&plugins.path(name)).unwrap_err();
        assert_eq!(refusal.code, Code::Unreadable, "{refusal}");
        let is_plain = refusal.reason.starts_with("There is no file or folder ") && !refusal.fix.contains("user");
        assert!(is_plain, "{refusal}");
    }
}

#[test]
fn what_others_can_write_is_refused() {
    for name in ["", "libdemo.so", "manifest.json"] {
        let plugins = Plugins::new();
        let path = if name.is_empty() { plugins.path("demo") } else { plugins.path("demo").join(name) };
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(plugins.code(), Code::WorldWritable, "{name}");
    }
}

#[test]
fn nothing_waits_for_a_pipe_and_nothing_is_read_without_end() {
    let plugins = Plugins::new();
    fs::remove_file(plugins.path("demo/libdemo.so")).unwrap();
    let cwd = fs::File::open(plugins.path("demo")).unwrap();
    rustix::fs::mknodat(&cwd, "libdemo.so", rustix::fs::FileType::Fifo, 0o644.into(), 0).unwrap();
    assert_eq!(plugins.code(), Code::Unreadable);

    let plugins = Plugins::new();
    fs::File::options().write(true).open(plugins.path("demo/libdemo.so")).unwrap().set_len(LIBRARY_LIMIT + 1).unwrap();
    assert_eq!(plugins.code(), Code::TooLarge);

    let plugins = Plugins::new();
    plugins.write("demo/frontend/a.js", b"");
    plugins.write("demo/frontend/b.js", b"");
    for name in ["a.js", "b.js"] {
        let file = fs::File::options().write(true).open(plugins.path("demo/frontend").join(name)).unwrap();
        file.set_len(FRONTEND_LIMIT / 2 + 1).unwrap();
    }
    assert_eq!(plugins.code(), Code::TooLarge, "the files of a frontend count together");
}

#[test]
fn schema_sql_is_text() {
    let plugins = Plugins::new();
    plugins.write("demo/schema.sql", b"SELECT '\xff'");
    assert_eq!(plugins.code(), Code::SchemaFailed);
}

#[test]
fn folders_and_libraries_are_found_in_order_and_nothing_else() {
    let plugins = Plugins::new();
    plugins.write("b.so", b"");
    plugins.write("c.dll", b"");
    plugins.write(".hidden/manifest.json", b"");
    plugins.write("notes.txt", b"");
    let found = find(plugins.0.path()).unwrap();
    let names: Vec<_> = found.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["b.so", "c.dll", "demo"]);
    assert_eq!(read(&plugins.path("c.dll")).unwrap_err().code, Code::WrongPlatform);
}
