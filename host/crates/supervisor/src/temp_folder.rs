//! The worker's folder for temporary files (`TMPDIR`): the one place beside the packages where it may write. Emptied at
//! each start of the host.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Below `DATA_DIR`.
pub(crate) const FOLDER: &str = "plugin-tmp";
/// Folders in folders that are removed. A plugin can make more than a stack or open files are enough for.
const MAX_DEPTH: usize = 64;

/// An empty folder at this path, for its owner alone. What cannot be removed stays, and is logged.
///
/// # Errors
/// The folder cannot be made, or something else is there.
pub(crate) fn make_empty(path: &Path) -> anyhow::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_dir() => bail!("{} is not a folder: move it away", path.display()),
        Ok(_) => {
            let removed = open_folder(CWD, path).and_then(|folder| remove_entries(&folder, MAX_DEPTH));
            if let Err(error) = removed.and_then(|()| fs::remove_dir(path)) {
                tracing::warn!(%error, path = %path.display(), "failed to remove some of the plugins' temporary \
                    files");
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("looking at {}", path.display())),
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path).with_context(|| format!("making {}", path.display()))
}

/// By open folders, so that a link that is laid meanwhile leads nowhere.
fn remove_entries(folder: &impl AsFd, depth: usize) -> io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        if entry.file_type() == FileType::Directory {
            if depth == 0 {
                return Err(io::Error::other("folders are nested too deeply"));
            }
            remove_entries(&open_folder(folder, name)?, depth - 1)?;
            rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?;
        } else {
            match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn open_folder<P: rustix::path::Arg>(folder: impl AsFd, name: P) -> io::Result<rustix::fd::OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    #[test]
    fn the_folder_is_emptied_and_what_links_lead_to_stays() {
        let data = tempfile::tempdir().unwrap();
        let (folder, outside) = (data.path().join(FOLDER), data.path().join("outside"));
        fs::create_dir_all(folder.join("a/b")).unwrap();
        fs::create_dir(&outside).unwrap();
        for file in [folder.join("a/b/file"), folder.join("file"), outside.join("mine")] {
            fs::write(file, "x").unwrap();
        }
        symlink(&outside, folder.join("a/link")).unwrap();
        make_empty(&folder).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert!(outside.join("mine").exists());
    }

    #[test]
    fn folders_without_end_do_not_end_the_host() {
        let data = tempfile::tempdir().unwrap();
        let folder = data.path().join(FOLDER);
        fs::create_dir_all(folder.join("d/".repeat(2 * MAX_DEPTH))).unwrap();
        make_empty(&folder).unwrap();
        assert!(folder.is_dir());
    }

    #[test]
    fn a_link_in_its_place_is_refused() {
        let data = tempfile::tempdir().unwrap();
        symlink("/", data.path().join(FOLDER)).unwrap();
        assert!(make_empty(&data.path().join(FOLDER)).unwrap_err().to_string().contains("is not a folder"));
    }
}
