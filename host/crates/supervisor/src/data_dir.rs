//! The folder with everything the host keeps: made private, used by one supervisor at a time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use uuid::Uuid;

use cardinal_base::{
    config::{Config, Secret},
    secret_file,
};
use cardinal_database::roles;
use cardinal_schema::prepare::SecretSource;

const LOCK_FILE: &str = "lock";
const ROLE_SECRET_FILE: &str = "database-secret";
const HOST_ID_FILE: &str = "host-id";
const OTHERS_WRITE: u32 = 0o022;
const GROUP: u32 = 0o070;
const OTHERS_WALK: u32 = 0o001;
const GROUP_WALKS: u32 = 0o010;

/// `DATA_DIR`, held: as long as this value lives, no other supervisor gets it.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    group: Option<u32>,
    lock: File,
}

impl DataDir {
    /// Makes the folder when it is missing and takes it.
    ///
    /// # Errors
    /// In words for an operator: another supervisor has it, or it is not safe to keep secrets in.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        match Self::open_unless_used(path)? {
            Ok(data) => Ok(data),
            Err(holder) => bail!(
                "another cardinal (process {holder}) is using DATA_DIR {}: stop it, or give this one a DATA_DIR of its own",
                path.display()
            ),
        }
    }

    /// As [`DataDir::open`], for who can work beside a supervisor too; else the supervisor's process number.
    ///
    /// # Errors
    /// In words for an operator.
    pub(crate) fn open_unless_used(path: &Path) -> anyhow::Result<Result<Self, String>> {
        make_private(path)?;
        Ok(take(path)?.map(|lock| Self { path: path.to_owned(), group: None, lock }))
    }

    /// The process number of the supervisor that has the folder; makes nothing.
    pub fn holder(path: &Path) -> Option<String> {
        let mut lock = File::open(path.join(LOCK_FILE)).ok()?;
        // Shared: trying again shows whether a supervisor only starts at this moment or serves.
        if !matches!(lock.try_lock_shared(), Err(fs::TryLockError::WouldBlock)) {
            return None;
        }
        let mut holder = String::new();
        let _ = lock.read_to_string(&mut holder);
        Some(holder.trim().to_owned())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets members of this group walk through the folder, to what in it is open to them. A folder that its operator
    /// has opened to another group stays as it is.
    ///
    /// # Errors
    /// The folder is not ours to open.
    pub(crate) fn open_to_group(&mut self, group: u32) -> io::Result<()> {
        let found = fs::metadata(&self.path)?;
        let is_anothers = found.mode() & GROUP != 0 && ![0, group].contains(&found.gid());
        if found.mode() & OTHERS_WALK == 0 && !is_anothers {
            std::os::unix::fs::chown(&self.path, None, Some(group))?;
            // Rights that root's group had are not the new one's.
            let mode = (found.mode() & 0o7777 & !GROUP) | GROUP_WALKS;
            fs::set_permissions(&self.path, fs::Permissions::from_mode(mode))?;
        }
        self.group = Some(group);
        Ok(())
    }

    /// The group that the folder was opened to.
    pub fn group(&self) -> Option<u32> {
        self.group
    }

    /// Names this host among those that share a database; made once.
    ///
    /// # Errors
    /// The file cannot be read or made, or holds something else.
    pub fn host_id(&self) -> anyhow::Result<Uuid> {
        let path = self.path.join(HOST_ID_FILE);
        let text = secret_file::read_or_make(&path, || Ok(Uuid::now_v7().to_string()))?;
        text.parse().with_context(|| format!("{} does not hold a host id", path.display()))
    }

    /// A secret that is made at random on first use.
    ///
    /// # Errors
    /// The file cannot be read or made, or is empty.
    pub fn secret(&self, file: &str) -> anyhow::Result<Secret> {
        let path = self.path.join(file);
        let text = secret_file::read_or_make(&path, || Ok(roles::random_secret()?.expose().to_owned()))?;
        Ok(Secret::new(text))
    }

    /// Writes a file, whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&self, file: &str, text: &str) -> anyhow::Result<()> {
        let path = self.path.join(file);
        secret_file::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    pub fn has(&self, file: &str) -> bool {
        self.path.join(file).exists()
    }
}

impl Drop for DataDir {
    /// Closing the file would not do: a child between its fork and its exec has it open, too, and with it the lock.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

/// A folder for us alone. One that is there already is only looked at: it may be meant for more than us.
fn make_private(path: &Path) -> anyhow::Result<()> {
    // The worker's account has to get through the folders above, which are not only ours.
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = fs::create_dir_all(above).and_then(|()| fs::DirBuilder::new().recursive(true).mode(0o700).create(path));
    made.map_err(|error| explain(path, &error))?;
    let found = fs::metadata(path).with_context(|| format!("looking at DATA_DIR {}", path.display()))?;
    let me = rustix::process::geteuid().as_raw();
    if found.uid() != me && me != 0 {
        bail!("DATA_DIR {} belongs to another user (id {}, this is {me})", path.display(), found.uid());
    }
    if found.mode() & OTHERS_WRITE != 0 {
        bail!(
            "DATA_DIR {} may be written to by other users (mode {:o}): run `chmod go-w` on it or choose another folder",
            path.display(),
            found.mode() & 0o7777
        );
    }
    Ok(())
}

fn explain(path: &Path, error: &io::Error) -> anyhow::Error {
    let (path, me) = (path.display(), rustix::process::geteuid().as_raw());
    match error.kind() {
        io::ErrorKind::PermissionDenied => anyhow::anyhow!(
            "DATA_DIR {path} cannot be created: this user (id {me}) may not write there. Name a folder of this user \
             (--data-dir), or have root create it: install -d -m 700 -o {me} '{path}'"
        ),
        _ => anyhow::anyhow!("DATA_DIR {path} cannot be created: {error}"),
    }
}

fn take(path: &Path) -> anyhow::Result<Result<File, String>> {
    let file = path.join(LOCK_FILE);
    let mut lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&file)
        .with_context(|| format!("opening {}", file.display()))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = lock.read_to_string(&mut holder);
            return Ok(Err(holder.trim().to_owned()));
        }
        Err(fs::TryLockError::Error(error)) => return Err(error).context(format!("locking {}", file.display())),
    }
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", std::process::id()).with_context(|| format!("writing {}", file.display()))?;
    Ok(Ok(lock))
}

/// Where the secret of the role passwords comes from, with these settings.
pub(crate) fn secret_source(config: &Config, data: &Path) -> anyhow::Result<SecretSource> {
    Ok(match &config.database.secret_file {
        Some(file) => {
            let text = secret_file::read_small(file).with_context(|| format!("reading {}", file.display()))?;
            SecretSource::Known(Secret::new(text.trim()))
        }
        None if config.database.url.is_none() => {
            let secret = || Ok(roles::random_secret()?.expose().to_owned());
            SecretSource::Known(Secret::new(secret_file::read_or_make(&data.join(ROLE_SECRET_FILE), secret)?))
        }
        None => SecretSource::InDatabase,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_second_supervisor_is_told_who_has_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let first = DataDir::open(&path).unwrap();
        let refused = DataDir::open(&path).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(first);
        DataDir::open(&path).unwrap();
    }

    #[test]
    fn a_copy_of_the_lock_in_a_child_does_not_keep_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let first = DataDir::open(&path).unwrap();
        // What a fork leaves with the child until it executes its program.
        let _copy = first.lock.try_clone().unwrap();
        drop(first);
        DataDir::open(&path).unwrap();
    }

    #[test]
    fn secrets_and_the_host_id_stay_and_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let data = DataDir::open(&path).unwrap();
        let (secret, id) = (data.secret("some-secret").unwrap(), data.host_id().unwrap());
        assert_eq!(data.secret("some-secret").unwrap(), secret);
        assert_eq!(data.host_id().unwrap(), id);
        let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("some-secret"))), (0o700, 0o600));
    }

    #[test]
    fn folders_above_are_made_as_any_others() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("var/data"), folder.path().join("other"));
        DataDir::open(&path).unwrap();
        fs::create_dir(&other).unwrap();
        let mode = |folder: &Path| fs::metadata(folder).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder.path().join("var")), mode(&path)), (mode(&other), 0o700));
    }

    #[test]
    fn a_folder_is_opened_to_a_group_unless_it_is_another_groups() {
        if !rustix::process::geteuid().is_root() {
            return; // only root can give a folder to a group that it is not in
        }
        for (before, group, after) in [(0o700, 0, (0o710, 7)), (0o750, 0, (0o710, 7)), (0o750, 8, (0o750, 8))] {
            let folder = tempfile::tempdir().unwrap();
            std::os::unix::fs::chown(folder.path(), None, Some(group)).unwrap();
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(before)).unwrap();
            DataDir::open(folder.path()).unwrap().open_to_group(7).unwrap();
            let found = fs::metadata(folder.path()).unwrap();
            assert_eq!((found.mode() & 0o7777, found.gid()), after);
        }
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o770)).unwrap();
        let refused = DataDir::open(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("chmod go-w"), "{refused}");
    }
}
