use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};

use cardinal_package::{compat, manifest::Manifest, package::MANIFEST, state::Refusal};

/// The folder that this program was built from; there on the machine of who works on it.
const BUILT_FROM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugin-abi/sdk");

/// Files of the new crate, and what is in them before names are filled in.
const FILES: [(&str, &str); 9] = [
    ("Cargo.toml", include_str!("../../../../plugin-abi/sdk/scaffold/Cargo.toml.txt")),
    ("README.md", include_str!("../../../../plugin-abi/sdk/scaffold/README.md")),
    (MANIFEST, include_str!("../../../../plugin-abi/sdk/scaffold/manifest.json")),
    ("schema.sql", include_str!("../../../../plugin-abi/sdk/scaffold/schema.sql")),
    ("src/lib.rs", include_str!("../../../../plugin-abi/sdk/scaffold/src/lib.rs")),
    ("src/routes.rs", include_str!("../../../../plugin-abi/sdk/scaffold/src/routes.rs")),
    ("src/service.rs", include_str!("../../../../plugin-abi/sdk/scaffold/src/service.rs")),
    ("frontend/plugin.js", include_str!("../../../../plugin-abi/sdk/scaffold/frontend/plugin.js")),
    (".gitignore", include_str!("../../../../plugin-abi/sdk/scaffold/gitignore.txt")),
];

/// Make the crate of a new plugin, with all its parts
///
/// Two routes, a table, two tools, a tab in the Admin UI and a test: a plugin that keeps notes on cards, to be turned
/// into what is wanted. It builds as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal plugin new price-watch
  cardinal plugin new price-watch --into plugins
      inside Cardinal's own repository, as a member of its workspace
  cardinal plugin new price-watch --sdk ~/src/cardinal/plugin-abi/sdk")]
pub struct Args {
    /// Name of the plugin in kebab-case, at most 40 characters
    name: String,
    /// Folder in which the crate's folder is made
    #[arg(long, value_name = "DIR", default_value = ".")]
    into: PathBuf,
    /// Folder of the SDK's crate; looked for above the new crate and where this program was built, unless told
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let into = args.into.canonicalize().with_context(|| format!("looking for {}", args.into.display()))?;
    let folder = into.join(&args.name);
    let surroundings = Surroundings::of(&into, args.sdk.as_deref())?;
    let files: Vec<(&str, String)> =
        FILES.iter().map(|(path, text)| (*path, filled(text, &args.name, &surroundings))).collect();
    judge(&args.name, &files)?;
    ensure!(!folder.exists(), "{} is there already", folder.display());
    for (path, text) in &files {
        let file = folder.join(path);
        let parent = file.parent().unwrap_or(&folder);
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    if let Some(lock) = surroundings.lock.as_ref().filter(|_| !surroundings.is_member) {
        // The versions that the SDK was tested with; cargo takes out what the crate does not need.
        fs::copy(lock, folder.join("Cargo.lock")).context("copying Cargo.lock")?;
    }
    let mut output = std::io::stdout();
    writeln!(output, "{}", folder.display()).context("telling where the crate is")?;
    writeln!(output, "Build it: cardinal plugin build '{}'", folder.display()).context("telling how to build it")
}

/// Where the new crate stands.
struct Surroundings {
    sdk: PathBuf,
    /// Of the SDK's workspace.
    lock: Option<PathBuf>,
    /// Cargo counts it to the SDK's own workspace.
    is_member: bool,
}

impl Surroundings {
    fn of(into: &Path, told: Option<&Path>) -> anyhow::Result<Self> {
        let is_sdk = |folder: &Path| {
            let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
            text.lines().any(|line| line.trim() == "name = \"cardinal-plugin\"")
        };
        let above = into.ancestors().map(|folder| folder.join("plugin-abi/sdk"));
        let places: Vec<PathBuf> = match told {
            Some(folder) => vec![folder.to_owned()],
            None => above.chain([PathBuf::from(BUILT_FROM)]).collect(),
        };
        let Some(sdk) = places.iter().find(|folder| is_sdk(folder)) else {
            match told {
                Some(folder) => bail!("{} is not the crate cardinal-plugin", folder.display()),
                None => {
                    bail!("the SDK was not found: name the folder plugin-abi/sdk of Cardinal's repository with --sdk")
                }
            }
        };
        let sdk = sdk.canonicalize().with_context(|| format!("looking for {}", sdk.display()))?;
        let root = sdk.parent().and_then(Path::parent);
        let is_member = root.is_some_and(|root| into == root.join("plugins"));
        let lock = root.map(|root| root.join("Cargo.lock")).filter(|lock| lock.is_file());
        Ok(Self { sdk, lock, is_member })
    }

    fn dependencies(&self) -> String {
        if self.is_member {
            return "cardinal-plugin.workspace = true\nserde.workspace = true".to_owned();
        }
        let sdk = self.sdk.display().to_string();
        let sdk = sdk.replace('\\', "\\\\").replace('"', "\\\"");
        format!("cardinal-plugin = {{ path = \"{sdk}\" }}\nserde = {{ version = \"1\", features = [\"derive\"] }}")
    }

    /// Profiles belong to a workspace's root; a crate of its own is one, wherever it stands.
    fn profile(&self) -> &'static str {
        if self.is_member {
            return "";
        }
        "\n[profile.release]\npanic = \"unwind\" # the default; a library with \"abort\" is refused\n\n\
         # No part of a workspace that happens to stand above it.\n[workspace]\n"
    }
}

fn filled(text: &str, name: &str, surroundings: &Surroundings) -> String {
    let core = compat::core_version();
    let values = [
        ("name", name.to_owned()),
        ("snake", name.replace('-', "_")),
        ("title", title(name)),
        ("core", format!("{}.{}.{}", core.major, core.minor, core.patch)),
        ("api", compat::api_version()),
        ("dependencies", surroundings.dependencies()),
        ("profile", surroundings.profile().to_owned()),
    ];
    values.iter().fold(text.to_owned(), |text, (place, value)| text.replace(&format!("{{{{{place}}}}}"), value))
}

/// `price-watch` is "Price watch".
fn title(name: &str) -> String {
    let words = name.replace('-', " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// The host's own rules for names and manifests.
fn judge(name: &str, files: &[(&str, String)]) -> anyhow::Result<()> {
    let manifest = files.iter().find(|(path, _)| *path == MANIFEST).map_or("", |(_, text)| text);
    match Manifest::read(manifest.as_bytes()) {
        Ok(_) => Ok(()),
        Err(problems) => bail!("{name:?} cannot be a plugin's name: {}", Refusal::from(problems)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surroundings(is_member: bool) -> Surroundings {
        Surroundings { sdk: PathBuf::from("/sdk"), lock: None, is_member }
    }

    #[test]
    fn every_place_is_filled_in_and_the_manifest_is_good() {
        for (path, text) in FILES {
            let text = filled(text, "price-watch", &surroundings(false));
            assert!(!text.contains("{{"), "{path}: {text}");
            if path == MANIFEST {
                let (manifest, warnings) = Manifest::read(text.as_bytes()).unwrap();
                assert_eq!((manifest.name.as_str(), warnings.len()), ("price-watch", 0));
                assert_eq!(manifest.tools[1].name, "plugin_price_watch_add");
            }
        }
    }

    #[test]
    fn a_name_that_no_plugin_can_have_is_refused() {
        for name in ["Core", "core", "a_b", "", "../x", "-a", "a\"b"] {
            let manifest = filled(FILES[2].1, name, &surroundings(true));
            assert!(judge(name, &[(MANIFEST, manifest)]).is_err(), "{name}");
        }
    }

    #[test]
    fn the_sdk_that_this_program_was_built_with_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let found = Surroundings::of(folder.path(), None).unwrap();
        assert!(found.sdk.ends_with("plugin-abi/sdk") && !found.is_member && found.lock.is_some());
        assert!(Surroundings::of(folder.path(), Some(folder.path())).is_err());
    }
}
