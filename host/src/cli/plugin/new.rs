mod carried;
mod crate_name;
mod sdk;
mod template;

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum as _;
use serde_json::json;

use self::{
    sdk::{Sdk, SdkChoice},
    template::Template,
};
use crate::cli::text::{plain, shell_word};
use cardinal_package::{
    compat,
    manifest::{self, Manifest},
    package::MANIFEST,
};

/// Make the crate of a new plugin
///
/// A small plugin that keeps notes on cards, to be turned into what is wanted: it builds and passes its tests as it is.
/// --with says which parts it has. A tab asks the plugin's routes, a page its table by a route, a job its table, and
/// something has to use a table or settings: what a part needs comes along.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal plugin new price-watch
      with all parts
  cardinal plugin new price-watch --with mcp,settings
      tools for MCP clients and settings: no routes, no table, no tab
  cardinal plugin new price-watch --with tab --build vite
      with a tab in TypeScript, which `npm run dev` builds again after each edit
  cardinal plugin new price-watch --into plugins
      inside Cardinal's own repository, as a member of its workspace
  cardinal plugin new price-watch --sdk git:https://github.com/acme/cardinal#v1.0.0")]
pub(super) struct Args {
    /// Name of the plugin and its crate in kebab-case, at most 40 characters; no word of Rust's, such as std or type
    name: String,
    /// Parts of the plugin, separated by commas
    #[arg(long, value_name = "PARTS", value_delimiter = ',', default_values_t = Part::value_variants().to_vec())]
    with: Vec<Part>,
    /// What makes frontend/plugin.js of TypeScript in ui/; without it, that file is what is written
    #[arg(long, value_name = "TOOL")]
    build: Option<Build>,
    /// Folder in which the crate's folder is made
    #[arg(long, value_name = "DIR", default_value = ".")]
    into: PathBuf,
    /// Where the crate gets the SDK: path:DIR, git:URL[#COMMIT or TAG], version:X from the registry, or builtin, the
    /// copy inside this program [default: path: of Cardinal's repository where it is on this machine, else builtin]
    #[arg(long, value_name = "SOURCE")]
    sdk: Option<SdkChoice>,
}

/// What a plugin can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Part {
    /// Routes below /v1/admin/plugins/NAME/
    Routes,
    /// A tab of cards in the Admin UI
    Tab,
    /// A page of its own in the Admin UI's navigation
    Page,
    /// A column of the card list
    Column,
    /// A button on cards, for one and for those that are selected
    Action,
    /// Tables of its own
    Schema,
    /// Tools for MCP clients
    Mcp,
    /// Settings that an operator can change
    Settings,
    /// A job with a schedule
    Job,
}

impl Part {
    const fn name(self) -> &'static str {
        match self {
            Self::Routes => "routes",
            Self::Tab => "tab",
            Self::Page => "page",
            Self::Column => "column",
            Self::Action => "action",
            Self::Schema => "schema",
            Self::Mcp => "mcp",
            Self::Settings => "settings",
            Self::Job => "job",
        }
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

/// What builds a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Build {
    /// TypeScript, by Vite, into one ES module
    Vite,
}

/// The section of templates that is there with it.
const VITE: &str = "vite";

/// A file of the crate: its path, its template, and the parts that need it; none where all do.
type Source = (&'static str, &'static str, &'static [Part]);

/// Parts that the Admin UI draws.
const DRAWN: &[Part] = &[Part::Tab, Part::Page];
/// The section of templates that is there with one of those.
const FRONTEND: &str = "frontend";
/// The same for all that the Admin UI shows.
const CONTRIBUTING: &[Part] = &[Part::Tab, Part::Page, Part::Column, Part::Action];
const CONTRIBUTES: &str = "contributes";
/// Parts that the manifest declares in its `backend`, and the section that is there with one of those.
const SERVED: &[Part] = &[Part::Routes, Part::Job];
const BACKEND: &str = "backend";

macro_rules! scaffold {
    ($file:literal) => {
        include_str!(concat!("../../../../plugin-abi/sdk/scaffold/", $file))
    };
}

/// What stands beside what Vite builds.
const VITE_FILES: [Source; 4] = [
    ("package.json", scaffold!("package.json"), DRAWN),
    ("tsconfig.json", scaffold!("tsconfig.json"), DRAWN),
    ("vite.config.js", scaffold!("vite.config.js"), DRAWN),
    ("ui/plugin.ts", scaffold!("ui/plugin.ts"), DRAWN),
];

const FILES: [Source; 12] = [
    ("Cargo.toml", scaffold!("Cargo.toml.txt"), &[]),
    ("README.md", scaffold!("README.md"), &[]),
    (".gitignore", scaffold!("gitignore.txt"), &[]),
    (MANIFEST, scaffold!("manifest.json"), &[]),
    ("manifest.schema.json", manifest::SCHEMA, &[]),
    ("src/lib.rs", scaffold!("src/lib.rs"), &[]),
    ("src/routes.rs", scaffold!("src/routes.rs"), &[]),
    ("src/service.rs", scaffold!("src/service.rs"), &[]),
    ("src/settings.rs", scaffold!("src/settings.rs"), &[Part::Settings]),
    ("schema.sql", scaffold!("schema.sql"), &[Part::Schema]),
    ("frontend/plugin.js", scaffold!("frontend/plugin.js"), DRAWN),
    ("plugin-host.d.ts", include_str!("../../../../frontend/plugin-host.d.ts"), DRAWN),
];

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    check_name(&args.name)?;
    crate_name::check(&args.name)?;
    let into = args.into.canonicalize().with_context(|| format!("--into {}", args.into.display()))?;
    let folder = into.join(&args.name);
    ensure!(!folder.exists(), "{} already exists", folder.display());
    let sdk = Sdk::find(args.sdk.as_ref(), &into)?;
    let parts = complete(&args.with);
    let is_drawn = parts.iter().any(|part| DRAWN.contains(part));
    ensure!(args.build.is_none() || is_drawn, "--build needs a part that is drawn: --with {}", listed(DRAWN));
    write(&folder, &files(&args.name, &parts, args.build, &sdk)?)?;
    let mut output = std::io::stdout();
    writeln!(output, "{} (with {})", folder.display(), listed(&parts)).context("writing to standard output")?;
    writeln!(output, "Go on: cd {} && cardinal plugin dev", shown(&folder)).context("writing to standard output")
}

/// With what the chosen parts need: a tab, a page and an action ask routes, a page's route and the job use the table,
/// and handlers alone use a table or settings.
fn complete(chosen: &[Part]) -> Vec<Part> {
    let has = |part| chosen.contains(&part);
    let is_needed = |part| match part {
        Part::Routes => has(Part::Tab) || has(Part::Page) || has(Part::Action) || !has(Part::Mcp),
        Part::Schema => has(Part::Page) || has(Part::Job),
        _ => false,
    };
    Part::value_variants().iter().copied().filter(|part| has(*part) || is_needed(*part)).collect()
}

/// Every file of the crate, ready to be written.
fn files(name: &str, parts: &[Part], build: Option<Build>, sdk: &Sdk) -> anyhow::Result<Vec<(&'static str, String)>> {
    let is_built = build == Some(Build::Vite);
    let core = compat::core_version();
    let has_any = |of: &[Part]| of.iter().any(|part| parts.contains(part));
    let template = Template {
        values: vec![
            ("name", name.to_owned()),
            ("snake", name.replace('-', "_")),
            ("title", title(name)),
            ("core", format!("{}.{}.{}", core.major, core.minor, core.patch)),
            ("api", compat::api_version()),
            ("parts", listed(parts)),
            ("dependencies", sdk.dependencies()),
            ("dev_dependencies", sdk.dev_dependencies()),
        ],
        sections: parts
            .iter()
            .map(|part| part.name())
            .chain(sdk.is_member.then_some("member"))
            .chain(has_any(DRAWN).then_some(FRONTEND))
            .chain(has_any(CONTRIBUTING).then_some(CONTRIBUTES))
            .chain(has_any(SERVED).then_some(BACKEND))
            .chain(is_built.then_some(VITE))
            .collect(),
    };
    let built = VITE_FILES.iter().filter(|_| is_built);
    let files = FILES.iter().chain(built).filter(|(_, _, of)| of.is_empty() || has_any(of));
    let fill = |path, text| -> anyhow::Result<String> {
        let filled = template.fill(text).with_context(|| format!("filling {path}"))?;
        Ok(if path == MANIFEST { without_trailing_commas(&filled) } else { filled })
    };
    files.map(|(path, text, _)| Ok((*path, fill(*path, text)?))).collect()
}

/// In the template each member ends with a comma, as any of them may be the last that is there.
fn without_trailing_commas(json: &str) -> String {
    let lines: Vec<&str> = json.lines().collect();
    let next = lines.iter().skip(1).copied().chain([""]);
    let kept = lines.iter().zip(next).map(|(line, next)| match next.trim_start().starts_with(['}', ']']) {
        true => line.strip_suffix(',').unwrap_or(line),
        false => line,
    });
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// All of them or none.
fn write(folder: &Path, files: &[(&str, String)]) -> anyhow::Result<()> {
    let written = files.iter().try_for_each(|(path, text)| {
        let file = folder.join(path);
        let parent = file.parent().unwrap_or(folder);
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
    });
    if written.is_err() {
        // The folder was not there before.
        let _ = fs::remove_dir_all(folder);
    }
    written
}

/// The host's own rules for names, in words on the argument.
fn check_name(name: &str) -> anyhow::Result<()> {
    let engine = json!({"core_version": "*", "plugin_api_version": compat::api_version()});
    let manifest = json!({"name": name, "version": "0.1.0", "engine": engine});
    match Manifest::read(manifest.to_string().as_bytes()) {
        Ok(_) => Ok(()),
        Err(problems) => {
            let expected = problems.0.first().map_or("", |problem| problem.expected.as_str());
            bail!("NAME {:?} is not a valid plugin name; expected {expected}", plain(name))
        }
    }
}

fn listed(parts: &[Part]) -> String {
    parts.iter().map(|part| part.name()).collect::<Vec<_>>().join(", ")
}

/// `price-watch` is "Price watch".
fn title(name: &str) -> String {
    let words = name.replace('-', " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// For a shell.
fn shown(path: &Path) -> String {
    shell_word(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(parts: &[Part]) -> Vec<(&'static str, String)> {
        files("price-watch", parts, Some(Build::Vite), &Sdk::find(None, Path::new("/")).unwrap()).unwrap()
    }

    #[test]
    fn every_combination_has_a_good_manifest_and_nothing_left_to_fill_in() {
        for bits in 0..1 << Part::value_variants().len() {
            let chosen: Vec<Part> =
                Part::value_variants().iter().copied().filter(|part| bits & (1 << *part as u32) != 0).collect();
            let parts = complete(&chosen);
            let files = made(&parts);
            for (path, text) in &files {
                // The host's own files, given as they are; one of them tells of `{{argument}}`.
                let is_ours = !["plugin-host.d.ts", "manifest.schema.json"].contains(path);
                assert!(!is_ours || !text.contains("{{"), "{path}: {text}");
                assert!(!text.contains("\n\n\n"), "{path} with {}: {text}", listed(&parts));
            }
            let text = &files.iter().find(|(path, _)| *path == MANIFEST).unwrap().1;
            assert!(text.contains(r#""$schema": "./manifest.schema.json""#), "{text}");
            assert!(files.iter().any(|(path, _)| *path == "manifest.schema.json"));
            // Cargo makes the lock with the first build, of this crate's dependencies alone, and git keeps it.
            let ignored = &files.iter().find(|(path, _)| *path == ".gitignore").unwrap().1;
            assert!(files.iter().all(|(path, _)| *path != "Cargo.lock") && !ignored.contains("Cargo.lock"));
            let (manifest, warnings) = Manifest::read(text.as_bytes()).unwrap();
            assert_eq!((manifest.name.as_str(), warnings), ("price-watch", vec![]));
            let has = |part| parts.contains(&part);
            assert_eq!(manifest.backend.is_some(), has(Part::Routes) || has(Part::Job));
            assert_eq!(manifest.contributes.card_tabs.len(), usize::from(has(Part::Tab)));
            assert_eq!(manifest.contributes.pages.len(), usize::from(has(Part::Page)));
            assert_eq!(manifest.contributes.list_columns.len(), usize::from(has(Part::Column)));
            assert_eq!(manifest.contributes.card_actions.len(), usize::from(has(Part::Action)));
            assert_eq!(manifest.tools.len(), if has(Part::Mcp) { 2 } else { 0 });
            assert_eq!(manifest.settings_schema.is_some(), has(Part::Settings));
            assert_eq!(files.iter().any(|(path, _)| *path == "schema.sql"), has(Part::Schema));
            assert_eq!(files.iter().any(|(path, _)| *path == "ui/plugin.ts"), has(Part::Tab) || has(Part::Page));
        }
    }

    #[test]
    fn parts_bring_what_they_need() {
        use Part::{Action, Column, Job, Mcp, Page, Routes, Schema, Settings, Tab};
        assert_eq!(complete(&[Action, Mcp]), [Routes, Action, Mcp]);
        assert_eq!(complete(&[Column, Mcp]), [Column, Mcp]);
        assert_eq!(complete(&[Tab]), [Routes, Tab]);
        assert_eq!(complete(&[Page, Mcp]), [Routes, Page, Schema, Mcp]);
        assert_eq!(complete(&[Schema]), [Routes, Schema]);
        assert_eq!(complete(&[Job, Mcp]), [Schema, Mcp, Job]);
        assert_eq!(complete(&[Settings, Mcp]), [Mcp, Settings]);
        assert_eq!(complete(&[]), [Routes]);
    }

    #[test]
    fn a_name_that_no_plugin_can_have_is_refused_as_an_argument() {
        for name in ["Core", "core", "a_b", "", "../x", "-a", "a\"b", "/etc"] {
            let error = check_name(name).unwrap_err().to_string();
            assert!(error.starts_with("NAME ") && !error.contains("manifest"), "{error}");
        }
        check_name("price-watch").unwrap();
    }

    #[test]
    fn a_crate_that_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made");
        let clash = [("a", String::new()), ("a/b", String::new())];
        assert!(write(&made, &clash).is_err() && !made.exists());
    }

    #[test]
    fn a_path_can_be_typed_into_a_shell() {
        assert_eq!(shown(Path::new("/a/b-c.d")), "/a/b-c.d");
        assert_eq!(shown(Path::new("/it's here")), r"'/it'\''s here'");
    }
}
