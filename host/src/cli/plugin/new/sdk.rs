//! Where the crate of a new plugin gets the SDK from.

use std::{
    fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context as _, bail, ensure};
use semver::VersionReq;
use url::Url;

use super::carried::{self, SDK_FOLDER};

/// The folder that this program was built from; there on the machine of who works on it.
const BUILT_FROM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin-abi/sdk");
/// What cargo fetches a repository by.
const GIT_SCHEMES: [&str; 5] = ["https", "http", "ssh", "git", "file"];

/// `--sdk`, as it was typed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SdkChoice {
    Path(PathBuf),
    Git { url: Url, rev: Option<String> },
    Version(String),
    Builtin,
}

impl FromStr for SdkChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "builtin" => Ok(Self::Builtin),
            Some(("path", folder)) if !folder.is_empty() => Ok(Self::Path(folder.into())),
            Some(("version", version)) => match VersionReq::parse(version) {
                Ok(_) => Ok(Self::Version(version.to_owned())),
                Err(error) => Err(format!("{version:?} is not a version: {error}")),
            },
            Some(("git", address)) => git(address),
            _ => Err("expected path:DIR, git:URL[#COMMIT or TAG], version:X or builtin".to_owned()),
        }
    }
}

fn git(address: &str) -> Result<SdkChoice, String> {
    let mut url = Url::parse(address).map_err(|error| format!("{address:?} is not a URL: {error}"))?;
    if !GIT_SCHEMES.contains(&url.scheme()) {
        return Err(format!("{address:?} does not begin with one of {}://", GIT_SCHEMES.join("://, ")));
    }
    let rev = url.fragment().filter(|rev| !rev.is_empty()).map(str::to_owned);
    url.set_fragment(None);
    Ok(SdkChoice::Git { url, rev })
}

/// The SDK as a dependency.
#[derive(Debug)]
pub(super) struct Sdk {
    /// What stands behind `cardinal-plugin =`.
    source: String,
    /// Cargo counts the new crate to the SDK's own workspace.
    pub is_member: bool,
}

impl Sdk {
    /// As chosen; else in the repository that the new crate stands in or that this program was built from, else the
    /// copy that this program carries.
    pub(super) fn find(choice: Option<&SdkChoice>, into: &Path) -> anyhow::Result<Self> {
        let apart = |source| Ok(Self { source, is_member: false });
        match choice {
            Some(SdkChoice::Path(folder)) => {
                ensure!(
                    is_sdk(folder),
                    "--sdk {}: this is not the folder of the crate cardinal-plugin",
                    folder.display()
                );
                Self::in_folder(folder, into)
            }
            Some(SdkChoice::Git { url, rev }) => {
                let rev = rev.as_ref().map(|rev| format!(", rev = {}", quoted(rev))).unwrap_or_default();
                apart(format!("{{ git = {}{rev} }}", quoted(url.as_str())))
            }
            Some(SdkChoice::Version(version)) => apart(quoted(version)),
            Some(SdkChoice::Builtin) => Self::in_folder(&carried::unpack()?, into),
            None => {
                let above = into.ancestors().map(|folder| folder.join(SDK_FOLDER));
                match above.chain([PathBuf::from(BUILT_FROM)]).find(|folder| is_sdk(folder)) {
                    Some(folder) => Self::in_folder(&folder, into),
                    None => Self::in_folder(&carried::unpack()?, into),
                }
            }
        }
    }

    fn in_folder(folder: &Path, into: &Path) -> anyhow::Result<Self> {
        let folder = folder.canonicalize().with_context(|| format!("looking for {}", folder.display()))?;
        let root = folder.parent().and_then(Path::parent);
        let is_member = root.is_some_and(|root| into == root.join("plugins"));
        let Some(path) = folder.to_str() else { bail!("{} is not UTF-8, as Cargo.toml has to be", folder.display()) };
        Ok(Self { source: format!("{{ path = {} }}", quoted(path)), is_member })
    }

    /// The same with the host for tests in it.
    pub(super) fn dev_dependencies(&self) -> String {
        let source = match (self.is_member, self.source.strip_prefix("{ ").and_then(|it| it.strip_suffix(" }"))) {
            (true, _) => "workspace = true".to_owned(),
            (false, Some(table)) => table.to_owned(),
            (false, None) => format!("version = {}", self.source),
        };
        format!("cardinal-plugin = {{ {source}, features = [\"testing\"] }}")
    }

    pub(super) fn dependencies(&self) -> String {
        if self.is_member {
            return "cardinal-plugin.workspace = true\nserde.workspace = true".to_owned();
        }
        format!("cardinal-plugin = {}\nserde = {{ version = \"1\", features = [\"derive\"] }}", self.source)
    }
}

fn is_sdk(folder: &Path) -> bool {
    let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    text.lines().any(|line| line.trim() == "name = \"cardinal-plugin\"")
}

/// A string of TOML, whose escapes are those of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dependency(choice: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        Sdk::find(Some(&choice.parse().unwrap()), folder.path())
            .unwrap()
            .dependencies()
            .lines()
            .next()
            .unwrap()
            .to_owned()
    }

    #[test]
    fn each_source_is_what_cargo_calls_it() {
        assert_eq!(dependency("version:1.2"), r#"cardinal-plugin = "1.2""#);
        assert_eq!(dependency("git:https://x.example/c"), r#"cardinal-plugin = { git = "https://x.example/c" }"#);
        assert_eq!(
            dependency("git:file:///src/cardinal#v1.0.0"),
            r#"cardinal-plugin = { git = "file:///src/cardinal", rev = "v1.0.0" }"#
        );
        assert!(dependency(&format!("path:{BUILT_FROM}")).ends_with("plugin-abi/sdk\" }"));
    }

    #[test]
    fn tests_get_the_same_sdk_with_its_host() {
        let folder = tempfile::tempdir().unwrap();
        let dev = |choice: &str| Sdk::find(Some(&choice.parse().unwrap()), folder.path()).unwrap().dev_dependencies();
        assert_eq!(dev("version:1.2"), r#"cardinal-plugin = { version = "1.2", features = ["testing"] }"#);
        assert_eq!(
            dev("git:https://x.example/c"),
            r#"cardinal-plugin = { git = "https://x.example/c", features = ["testing"] }"#
        );
    }

    #[test]
    fn what_is_no_source_is_refused_with_what_is() {
        for bad in ["", "x", "path:", "git:", "git:acme/cardinal", "git:npm://x", "version:one", "svn:x", "Builtin"] {
            assert!(bad.parse::<SdkChoice>().is_err(), "{bad}");
        }
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = SdkChoice::Path(folder.path().to_owned());
        let error = Sdk::find(Some(&elsewhere), folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("--sdk ") && error.contains("cardinal-plugin"), "{error}");
    }

    #[test]
    fn without_a_choice_the_repository_counts() {
        let folder = tempfile::tempdir().unwrap();
        let found = Sdk::find(None, folder.path()).unwrap();
        assert!(found.source.ends_with("plugin-abi/sdk\" }") && !found.is_member, "{found:?}");
        let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("plugins");
        assert!(Sdk::find(None, &plugins).unwrap().is_member);
    }
}
