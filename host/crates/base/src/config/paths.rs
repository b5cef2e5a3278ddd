use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(super) use super::reader::absolute;
use super::reader::{Reader, SettingsError};

pub(super) const DEFAULT_DATA_DIR: &str = "./var/data";
/// Below a plugin's crate: where the host keeps everything that `cardinal plugin dev` starts.
pub const DEV_DATA_DIR: &str = "target/cardinal/data";
const DEFAULT_PLUGINS_DIR: &str = "./var/plugins";
const OTHERS_WRITE: u32 = 0o022;

/// The host's folders; absolute, so that a process with another working directory finds them too.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Paths {
    pub data_dir: PathBuf,
    pub plugins_dir: PathBuf,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Folders")]
#[group(skip)]
pub(super) struct Args {
    /// Folder for everything the host keeps, made when missing, e.g. /var/lib/cardinal [default: ./var/data]
    #[arg(long, env, value_name = "DIR")]
    data_dir: Option<String>,
    /// Folder with the plugins, e.g. /usr/lib/cardinal/plugins [default: ./var/plugins]
    #[arg(long, env, value_name = "DIR")]
    plugins_dir: Option<String>,
}

/// The data folder alone, for a command that works on what the host keeps.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub(super) struct DataDirArg {
    /// Folder of the host, e.g. /var/lib/cardinal [default: ./var/data]
    #[arg(long, env, value_name = "DIR", help_heading = "The host")]
    data_dir: Option<String>,
}

impl From<DataDirArg> for Args {
    fn from(arg: DataDirArg) -> Self {
        Self { data_dir: arg.data_dir, plugins_dir: None }
    }
}

/// The plugins folder alone, for a command that puts something into it.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct PluginsDir {
    /// The host's folder with the plugins, e.g. /usr/lib/cardinal/plugins
    /// [default: what a host that runs says, else ./var/plugins]
    #[arg(long, env, value_name = "DIR", help_heading = "The host")]
    plugins_dir: Option<String>,
}

impl PluginsDir {
    /// What was said, if anything was.
    ///
    /// # Errors
    /// It is no folder.
    pub fn read(&self) -> Result<Option<PathBuf>, SettingsError> {
        let mut reader = Reader::default();
        let set = reader.optional("PLUGINS_DIR", &self.plugins_dir, folder);
        reader.finish(set)
    }

    /// Where nobody says anything.
    pub fn usual() -> PathBuf {
        absolute(DEFAULT_PLUGINS_DIR).unwrap_or_else(|_| DEFAULT_PLUGINS_DIR.into())
    }
}

impl Paths {
    pub(super) fn read(args: &Args, reader: &mut Reader) -> Paths {
        let mut folder = |setting, raw, default: &str| {
            let folder = reader.optional(setting, raw, folder);
            folder.or_else(|| absolute(default).ok()).unwrap_or_else(|| PathBuf::from(default))
        };
        Paths {
            data_dir: folder("DATA_DIR", &args.data_dir, DEFAULT_DATA_DIR),
            plugins_dir: folder("PLUGINS_DIR", &args.plugins_dir, DEFAULT_PLUGINS_DIR),
        }
    }
}

/// Where this process looks for programs: the folders of `PATH` that nobody but root and this user may write to.
pub fn program_folders() -> Vec<PathBuf> {
    let folders = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    folders.into_iter().flatten().filter(|folder| folder.is_absolute() && is_own(folder)).collect()
}

fn is_own(folder: &Path) -> bool {
    let me = rustix::process::geteuid().as_raw();
    std::fs::metadata(folder).is_ok_and(|found| [0, me].contains(&found.uid()) && found.mode() & OTHERS_WRITE == 0)
}

/// A missing folder is fine (it is made, or the plugins are none yet); a file in its place is not.
pub(super) fn folder(text: &str) -> Result<PathBuf, String> {
    let path = absolute(text)?;
    match std::fs::metadata(&path) {
        Ok(found) if !found.is_dir() => Err(format!("{} is not a folder", path.display())),
        _ => Ok(path),
    }
}

pub(super) fn existing_file(text: &str) -> Result<PathBuf, String> {
    let path = absolute(text)?;
    match std::fs::metadata(&path) {
        Ok(found) if found.is_file() => Ok(path),
        Ok(_) => Err(format!("{} is not a file", path.display())),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
    }
}
