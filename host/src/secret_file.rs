//! Small files that only their owner may read, on disk whole or not at all: a half-written secret could never be told
//! from a lost one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, bail};

use crate::config::Config;

/// In `DATA_DIR`: what signs login tokens when no setting gives it.
pub const TOKEN_SECRET_FILE: &str = "token-secret";
/// In `DATA_DIR`: the first user's password, when no setting gives it.
pub const BOOTSTRAP_PASSWORD_FILE: &str = "bootstrap-password";

const OTHERS_READ: u32 = 0o044;

/// What the file holds, without the line's end; made first when there is none.
///
/// # Errors
/// The file cannot be read or made, or is empty.
pub fn read_or_make(path: &Path, make: impl FnOnce() -> anyhow::Result<String>) -> anyhow::Result<String> {
    match fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => bail!("{} is empty: put it back from a backup", path.display()),
        Ok(text) => return Ok(text.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    }
    let text = make()?;
    write(path, &text).with_context(|| format!("writing {}", path.display()))?;
    Ok(text)
}

/// Who beside its owner may read the file.
pub fn is_open(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.mode() & OTHERS_READ != 0)
}

/// Secrets of containers are often open to read, so that is no reason to refuse them.
pub fn warn_of_readers(config: &Config) {
    for (setting, file) in config.secret_files().into_iter().filter(|(_, file)| is_open(file)) {
        tracing::warn!(setting, file = %file.display(), "others on this machine can read the file with the secret");
    }
}

/// Puts one line in the place of whatever the file held, also when the machine stops in between.
///
/// # Errors
/// As the system reports them.
pub fn write(path: &Path, line: &str) -> io::Result<()> {
    let draft = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    writeln!(file, "{line}")?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    sync_folder(path)
}

/// Makes sure that the name of a file that was made or renamed is on disk too.
///
/// # Errors
/// As the system reports them.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}
