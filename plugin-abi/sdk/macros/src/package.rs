//! The files that a plugin carries: manifest.json, schema.sql, frontend/.

use std::path::Path;

/// A file of the package.
pub(crate) struct File {
    /// Its name in the package, with `/` between the parts.
    pub(crate) name: String,
    /// Where it lies.
    pub(crate) path: String,
}

/// The package's files beside the `Cargo.toml` in `root`; the manifest comes first.
pub(crate) fn find(root: &Path) -> Result<Vec<File>, String> {
    if !root.join("manifest.json").is_file() {
        return Err(format!(
            "a plugin needs a manifest.json beside its Cargo.toml; there is none in {}",
            root.display()
        ));
    }
    let mut files = vec![file(root, "manifest.json")?];
    if root.join("schema.sql").is_file() {
        files.push(file(root, "schema.sql")?);
    }
    if root.join("frontend").is_dir() {
        let mut frontend = Vec::new();
        walk(root, "frontend", &mut frontend)?;
        frontend.sort_by(|a: &File, b: &File| a.name.cmp(&b.name)); // the same tree gives the same library
        files.extend(frontend);
    }
    Ok(files)
}

/// Adds the files below `dir`.
fn walk(root: &Path, dir: &str, files: &mut Vec<File>) -> Result<(), String> {
    let fault = |error: std::io::Error| format!("{}: {error}", root.join(dir).display());
    for entry in std::fs::read_dir(root.join(dir)).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let name = entry.file_name().into_string().map_err(|name| format!("{dir}: the name {name:?} is not UTF-8"))?;
        if name.starts_with('.') {
            continue;
        }
        let name = format!("{dir}/{name}");
        match entry.file_type().map_err(fault)? {
            kind if kind.is_dir() => walk(root, &name, files)?,
            kind if kind.is_file() => files.push(file(root, &name)?),
            _ => {
                return Err(format!("{name} is neither a file nor a folder; a plugin's frontend cannot contain links"));
            }
        }
    }
    Ok(())
}

fn file(root: &Path, name: &str) -> Result<File, String> {
    let path = root.join(name).into_os_string().into_string();
    let path = path.map_err(|path| format!("the path {path:?} is not UTF-8"))?;
    Ok(File { name: name.to_owned(), path })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;

    /// A folder of its own for a test, gone with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[&str]) -> Self {
            let root = std::env::temp_dir().join(format!("cardinal-macros-{}-{name}", std::process::id()));
            for file in files {
                let path = root.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "{}").unwrap();
            }
            Self(root)
        }

        fn names(&self) -> Result<Vec<String>, String> {
            find(&self.0).map(|files| files.into_iter().map(|file| file.name).collect())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_package_is_its_manifest_its_schema_and_its_frontend_in_order() {
        let files = [
            "src/lib.rs",
            "frontend/z.js",
            "frontend/a/b.css",
            "frontend/a.js",
            "frontend/.hidden",
            "schema.sql",
            "manifest.json",
        ];
        let folder = Folder::new("whole", &files);
        assert_eq!(
            folder.names().unwrap(),
            ["manifest.json", "schema.sql", "frontend/a.js", "frontend/a/b.css", "frontend/z.js"]
        );
        assert_eq!(Folder::new("bare", &["manifest.json"]).names().unwrap(), ["manifest.json"]);
    }

    #[test]
    fn what_is_missing_is_said_in_plain_words() {
        let error = Folder::new("none", &["schema.sql"]).names().unwrap_err();
        assert!(error.starts_with("a plugin needs a manifest.json beside its Cargo.toml"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_the_frontend_is_refused() {
        let folder = Folder::new("link", &["manifest.json", "frontend/a.js"]);
        std::os::unix::fs::symlink("/etc/hostname", folder.0.join("frontend/b.js")).unwrap();
        assert!(folder.names().unwrap_err().contains("frontend/b.js"));
    }
}
