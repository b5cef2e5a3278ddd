//! Small files that only their owner may read, on disk whole or not at all: a half-written secret could never be told
//! from a lost one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use rustix::fs::OFlags;

/// In `DATA_DIR`: what signs login tokens when no setting gives it.
pub const TOKEN_SECRET_FILE: &str = "token-secret";
/// In `DATA_DIR`: the first user's password, when no setting gives it.
pub const BOOTSTRAP_PASSWORD_FILE: &str = "bootstrap-password";

const GROUP_READS: u32 = 0o040;
const EVERYBODY_READS: u32 = 0o004;
/// Our own files with secrets, in `DATA_DIR`.
pub const OWN_SECRETS: [&str; 4] = [TOKEN_SECRET_FILE, "database-secret", "postgres-password", BOOTSTRAP_PASSWORD_FILE];
/// No secret or key is longer; a file that is was not meant.
const MAX_BYTES: u64 = 64 << 10;

/// Reads a regular file of at most 64 KiB, and never waits for it.
///
/// # Errors
/// As for [`read_regular`], and when it holds no text.
pub fn read_small(path: &Path) -> io::Result<String> {
    String::from_utf8(read_regular(path, MAX_BYTES)?).map_err(|_| invalid("it does not hold UTF-8 text".to_owned()))
}

/// Reads a regular file of at most `limit` bytes, and never waits for it. A pipe is refused, also that of a shell's
/// `<(...)`: who writes it may never do so, and it can be read but once while a host reads some files again.
///
/// # Errors
/// As the system reports them; it is something else than such a file. The message fits behind "cannot be read: ".
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Some files of /proc wait for what comes, too, unless they are opened so.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() {
        let found = match () {
            () if kind.is_fifo() => "a pipe",
            () if kind.is_dir() => "a folder",
            () => "a device or a socket",
        };
        return Err(invalid(format!("it is {found}, not a regular file")));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(invalid(format!("it is too large: the most is {limit} bytes")));
    }
    Ok(bytes)
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

/// What the file holds, without the line's end; made first when there is none.
///
/// # Errors
/// The file cannot be read or made, or is empty.
pub fn read_or_make(path: &Path, make: impl FnOnce() -> anyhow::Result<String>) -> anyhow::Result<String> {
    match read_small(path) {
        Ok(text) if text.trim().is_empty() => bail!("{} is empty: put it back from a backup", path.display()),
        Ok(text) => return Ok(text.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    }
    let text = make()?;
    write(path, &text).with_context(|| format!("writing {}", path.display()))?;
    Ok(text)
}

/// Who beside its owner may read a file with a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    Nobody,
    /// A service's group, or that of a container.
    Group,
    Everybody,
}

/// Where container runtimes put secrets, mode 0444: in a container nobody else is there to read them.
const MOUNTED_SECRETS: [&str; 2] = ["/run/secrets", "/var/run/secrets"];

/// Who may read it; a file that cannot be looked at is refused where it is read.
pub fn readers(path: &Path) -> Readers {
    match fs::metadata(path).map_or(0, |found| found.mode()) {
        _ if MOUNTED_SECRETS.iter().any(|folder| path.starts_with(folder)) => Readers::Nobody,
        mode if mode & EVERYBODY_READS != 0 => Readers::Everybody,
        mode if mode & GROUP_READS != 0 => Readers::Group,
        _ => Readers::Nobody,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_small_regular_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
        fs::write(path("large"), vec![b'x'; MAX_BYTES as usize + 1]).unwrap();
        fs::write(path("binary"), [0xff]).unwrap();
        fs::write(path("good"), "secret\n").unwrap();
        std::os::unix::fs::symlink(path("good"), path("link")).unwrap();
        assert_eq!(read_small(&path("link")).unwrap(), "secret\n");
        let refused = [("pipe", "a pipe"), ("", "a folder"), ("large", "too large"), ("binary", "UTF-8")];
        for (name, problem) in refused {
            let error = read_small(&path(name)).unwrap_err().to_string();
            assert!(error.contains(problem), "{name}: {error}");
        }
        assert!(read_small(Path::new("/dev/zero")).unwrap_err().to_string().contains("a device"));
    }
}
