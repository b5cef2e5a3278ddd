use std::{
    fs,
    io::{ErrorKind, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use http::Method;
use rustix::fs::{CWD, RenameFlags};
use serde_json::Value;

use super::remote::{REGISTRY, block_on, describe};
use crate::cli::{
    client::{Client, RequestError},
    text::{plain, print_line},
};
use cardinal_base::config::{ClientSettings, PluginsDir};
use cardinal_package::{
    manifest,
    package::{self, FRONTEND, Form, MANIFEST, Package, SCHEMA},
    signature::{SUFFIX, SUMS},
};
use cardinal_plugin_host::inspect::inspect;

/// How often the host is asked what became of the package.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// What a file that is not to be looked at yet begins with.
const DRAFT: &str = ".cardinal-install-";

/// Put a plugin into a host's PLUGINS_DIR and wait until it serves
///
/// The package is checked as by `cardinal plugin check`, copied whole or not at all, and takes the place of the
/// package of the same plugin that lies there. Then the host is asked to look, and prints the plugin's state:
/// exit 0 when it is in service, 1 when it is not, with the reason. To be run on the host's own machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal plugin install target/release/libnotes.so
  cardinal plugin install notes/ --plugins-dir /var/lib/cardinal/plugins --data-dir /var/lib/cardinal/data")]
pub(super) struct Args {
    /// A shared library that carries everything, or a plugin's folder
    package: PathBuf,
    /// Seconds to wait for the host; 0 does not ask it at all
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
    #[command(flatten)]
    plugins_dir: PluginsDir,
    #[command(flatten)]
    host: ClientSettings,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.host.read()?)?;
    let configured = args.plugins_dir.read()?;
    let source = args.package.canonicalize().with_context(|| format!("looking for {}", args.package.display()))?;
    let package = checked(&source)?;
    let name = manifest::hints(&package.manifest).name.context("the plugin has no name")?;
    block_on(async {
        let folder = match configured {
            Some(folder) => folder,
            None => find_folder(&client).await.unwrap_or_else(|_| PluginsDir::usual()),
        };
        let placed = place(&package, &source, &name, &folder)?;
        print_line(&format!("{} is in {}", plain(&name), placed.display()))?;
        if args.wait == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        // As the host sees it: the file's name is part of the hash.
        let sha256 = checked(&placed)?.sha256;
        match client.ask(Method::POST, "/v1/admin/plugin-registry/rescan", None).await {
            Err(RequestError::Unreachable { host, .. }) => {
                print_line(&format!("{host} is not running; it loads the plugin when it starts."))?;
                Ok(ExitCode::SUCCESS)
            }
            Err(failure) => Err(failure.into()),
            Ok(_) => outcome(&client, &name, &sha256, Duration::from_secs(args.wait)).await,
        }
    })
}

/// The folder of a host that runs on this machine.
pub(super) async fn find_folder(client: &Client) -> anyhow::Result<PathBuf> {
    let system = client.get("/v1/admin/system").await?;
    let folder = PathBuf::from(system["settings"]["PLUGINS_DIR"].as_str().context("the host reports no PLUGINS_DIR")?);
    ensure!(folder.is_dir(), "the host's PLUGINS_DIR {} is not on this machine", folder.display());
    Ok(folder)
}

pub(super) fn checked(path: &Path) -> anyhow::Result<Package> {
    match inspect(path) {
        (seen, Some(package)) if seen.ok => Ok(package),
        (seen, _) => match seen.refusal {
            Some(refusal) => Err(anyhow::Error::new(refusal).context(path.display().to_string())),
            None => bail!("{} cannot be read", path.display()),
        },
    }
}

/// Copies the package into the folder, in the place of what lies there of the same plugin.
pub(super) fn place(package: &Package, source: &Path, name: &str, folder: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let before = find_packages(name, folder)?;
    ensure!(before.len() < 2, "{name} is in {} more than once: remove all but one of its packages", folder.display());
    let before = before.into_iter().next();
    let same_form = |path: &&PathBuf| path.is_dir() == (package.form == Form::Folder);
    let target = match before.as_ref().filter(same_form) {
        Some(there) => there.clone(),
        None if package.form == Form::Folder => folder.join(name),
        None => folder.join(format!("{name}.so")),
    };
    match package.form {
        Form::SingleFile => place_file(package, &target)?,
        Form::Folder => place_folder(package, source, &target, folder)?,
    }
    if let Some(other) = before.filter(|before| *before != target) {
        remove(&other)?;
    }
    Ok(target)
}

/// What lies there of a plugin, in whatever form.
pub(super) fn find_packages(name: &str, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let found = package::find(folder).with_context(|| format!("reading {}", folder.display()))?;
    let is_it = |path: &PathBuf| {
        let manifest = package::read_manifest(path);
        manifest.and_then(|bytes| manifest::hints(&bytes).name).as_deref() == Some(name)
    };
    Ok(found.into_iter().filter(is_it).collect())
}

fn place_file(package: &Package, target: &Path) -> anyhow::Result<()> {
    let mut signature = target.as_os_str().to_owned();
    signature.push(SUFFIX);
    let signature = PathBuf::from(signature);
    match &package.signature {
        // First: a library without its signature is refused, a signature without its library is nobody's.
        Some(bytes) => put(&signature, bytes)?,
        None => match fs::remove_file(&signature) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("removing {}", signature.display()));
            }
            _ => {}
        },
    }
    put(target, &package.library)
}

/// Under its name only when it is whole.
fn put(target: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let folder = target.parent().unwrap_or(Path::new("."));
    let mode = fs::Permissions::from_mode(0o644);
    let mut file = tempfile::Builder::new()
        .prefix(DRAFT)
        .tempfile_in(folder)
        .with_context(|| format!("writing into {}", folder.display()))?;
    file.write_all(bytes).context("writing the file")?;
    file.as_file().set_permissions(mode).context("setting the file's mode")?;
    file.as_file().sync_all().context("writing the file")?;
    file.persist(target).with_context(|| format!("writing {}", target.display()))?;
    Ok(())
}

/// The files that count, and a signature over them; made beside and exchanged in one step.
fn place_folder(package: &Package, source: &Path, target: &Path, folder: &Path) -> anyhow::Result<()> {
    let draft = tempfile::Builder::new()
        .prefix(DRAFT)
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir_in(folder)
        .with_context(|| format!("writing into {}", folder.display()))?;
    let at = draft.path();
    put(&at.join(MANIFEST), &package.manifest)?;
    put(&at.join(&package.library_name), &package.library)?;
    if let Some(sql) = &package.schema_sql {
        put(&at.join(SCHEMA), sql.as_bytes())?;
    }
    for (name, bytes) in &package.frontend {
        let file = at.join(FRONTEND).join(name);
        let parent = file.parent().unwrap_or(at);
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        put(&file, bytes)?;
    }
    if let Some(signature) = &package.signature {
        put(&at.join(format!("{SUMS}{SUFFIX}")), signature)?;
        let sums = source.join(SUMS);
        if let Ok(bytes) = fs::read(&sums) {
            put(&at.join(SUMS), &bytes)?;
        }
    }
    if target.exists() {
        // What was there is in the draft's place then, and goes with it.
        if rustix::fs::renameat_with(CWD, at, CWD, target, RenameFlags::EXCHANGE).is_ok() {
            return Ok(());
        }
        // Not every file system can exchange two names: there is a moment without the folder.
        let old = tempfile::Builder::new().prefix(DRAFT).tempdir_in(folder).context("moving the old folder away")?;
        fs::rename(target, old.path().join("old")).context("moving the old folder away")?;
        return fs::rename(draft.keep(), target).with_context(|| format!("writing {}", target.display()));
    }
    fs::rename(draft.keep(), target).with_context(|| format!("writing {}", target.display()))
}

pub(super) fn remove(path: &Path) -> anyhow::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.with_context(|| format!("removing {}", path.display()))
}

async fn outcome(client: &Client, name: &str, sha256: &str, timeout: Duration) -> anyhow::Result<ExitCode> {
    let (code, item) = decided(client, name, sha256, timeout).await?;
    print_line(describe(&item).trim_end())?;
    Ok(ExitCode::from(code))
}

/// Waits until the host has decided about this very package: the exit code, and the plugin's entry in the registry.
pub(super) async fn decided(
    client: &Client,
    name: &str,
    sha256: &str,
    timeout: Duration,
) -> anyhow::Result<(u8, Value)> {
    let started = Instant::now();
    loop {
        let registry = client.get(REGISTRY).await?;
        let items = registry["items"].as_array().into_iter().flatten();
        let item = items.filter(|item| item["name"] == name).max_by_key(|item| item["sha256"] == sha256);
        match item.and_then(|item| Some((verdict(item, sha256)?, item))) {
            Some((code, item)) => return Ok((code, item.clone())),
            None if started.elapsed() > timeout => {
                bail!(
                    "the host is not done with {name} after {} seconds; see `cardinal plugin list`",
                    timeout.as_secs()
                );
            }
            None => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

/// The exit code, once there is one.
fn verdict(item: &Value, sha256: &str) -> Option<u8> {
    let is_this_one = item["sha256"] == sha256;
    match item["state"].as_str()? {
        "active" if is_this_one && item["refusal"].is_null() => Some(0),
        // The package before stays in service, because this one is refused.
        "active" => item["refusal"].is_object().then_some(1),
        "refused" | "failed" | "quarantined" | "disabled" => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_host_has_decided_when_this_package_serves_or_cannot() {
        let item =
            |state: &str, sha256: &str, refusal: Value| json!({"state": state, "sha256": sha256, "refusal": refusal});
        assert_eq!(verdict(&item("active", "new", Value::Null), "new"), Some(0));
        assert_eq!(verdict(&item("active", "old", Value::Null), "new"), None, "it has not looked yet");
        assert_eq!(verdict(&item("active", "old", json!({"code": "bad-manifest"})), "new"), Some(1));
        assert_eq!(verdict(&item("refused", "new", json!({"code": "bad-manifest"})), "new"), Some(1));
        assert_eq!(verdict(&item("disabled", "new", Value::Null), "new"), Some(1));
        assert_eq!(verdict(&item("loaded", "new", Value::Null), "new"), None);
    }
}
