//! Which files may be read as plugins, keys or locks: who owns them, and who may write them.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::refusal::{Code, Refusal};
use cardinal_base::account::worker_accounts;

const GROUP_WRITE: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Owner and mode of an opened file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOwner {
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
}

/// The users whose files are trusted: root, the host's own (supervisor's and worker's), and the owner of the program
/// that is running, who could replace it and need not bother with a plugin.
#[derive(Clone, Debug)]
pub struct Owners(Users);

#[derive(Clone, Debug)]
enum Users {
    Only(Vec<u32>),
    Anybody,
}

impl Owners {
    pub fn current() -> Self {
        let own = rustix::process::geteuid().as_raw();
        let mut owners = vec![0, own];
        let workers: Vec<u32> = worker_accounts().iter().map(|account| account.user).collect();
        // The supervisor and commands judge what the worker has written, and a worker what it wrote under its former
        // account.
        if own == 0 || workers.contains(&own) {
            owners.extend(workers);
        }
        owners.extend(fs::metadata("/proc/self/exe").map(|program| program.uid()));
        Self(Users::Only(owners))
    }

    /// For what is shown and never loaded.
    pub fn anybody() -> Self {
        Self(Users::Anybody)
    }

    /// A file or folder that is to be read.
    pub fn check(&self, file: FileOwner, what: &Path) -> Result<(), Refusal> {
        let FileOwner { uid, gid, mode } = file;
        let Users::Only(users) = &self.0 else { return Ok(()) };
        if !users.contains(&uid) {
            let ours = rustix::process::geteuid().as_raw();
            return Err(Refusal::new(Code::UntrustedOwner, format!("{} belongs to another user.", what.display()))
                .expected(format!("owned by root or by the host's user (uid {ours})"))
                .found(format!("uid {uid}")));
        }
        // A group with the number of its owner is the private one that most systems give a user:
        // there, folders are group-writable by default and the group has no other member.
        let shared_group = mode & GROUP_WRITE != 0 && gid != uid;
        if mode & OTHERS_WRITE != 0 || shared_group {
            return Err(Refusal::new(Code::WorldWritable, format!("{} can be written by others.", what.display()))
                .expected("written by its owner alone")
                .found(format!("mode {:04o}, group {gid}", mode & 0o7777))
                .fix(format!("Run: chmod go-w '{}'", what.display())));
        }
        Ok(())
    }

    /// A folder above. In a sticky one (like /tmp) others can't touch what is not theirs, and what
    /// lies in it is checked by itself.
    fn check_above(&self, file: FileOwner, what: &Path) -> Result<(), Refusal> {
        let sticky = file.mode & STICKY != 0;
        self.check(FileOwner { mode: if sticky { 0 } else { file.mode }, ..file }, what)
    }

    /// The plugins folder and every folder above it; the folder without links in its path.
    pub fn check_folder(&self, folder: &Path) -> Result<PathBuf, Refusal> {
        let unreadable = |error: io::Error| {
            Refusal::new(Code::Unreadable, format!("{} cannot be read.", folder.display()))
                .expected("a folder that the host may read")
                .found(error.to_string())
        };
        let folder = fs::canonicalize(folder).map_err(unreadable)?;
        for above in folder.ancestors() {
            let found = fs::symlink_metadata(above).map_err(unreadable)?;
            let file = FileOwner { uid: found.uid(), gid: found.gid(), mode: found.mode() };
            if above == folder { self.check(file, above)? } else { self.check_above(file, above)? }
        }
        Ok(folder)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn owners() -> Owners {
        Owners(Users::Only(vec![0, 1000]))
    }

    fn code(uid: u32, gid: u32, mode: u32) -> Option<Code> {
        owners().check(FileOwner { uid, gid, mode }, Path::new("/x")).err().map(|refusal| refusal.code)
    }

    #[test]
    fn owner_and_mode_decide() {
        assert_eq!(code(1000, 1000, 0o644), None);
        assert_eq!(code(0, 0, 0o755), None);
        assert_eq!(code(1001, 1001, 0o644), Some(Code::UntrustedOwner));
        assert_eq!(code(1000, 1000, 0o646), Some(Code::WorldWritable));
        assert_eq!(code(1000, 50, 0o664), Some(Code::WorldWritable), "a group that others may be in");
        assert_eq!(code(1000, 1000, 0o664), None, "the user's private group");
    }

    #[test]
    fn a_folder_is_judged_with_all_above_it() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("plugins");
        fs::create_dir(&folder).unwrap();
        let owners = Owners::current();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        set(&folder, 0o755);
        assert!(owners.check_folder(&folder).is_ok());
        set(&folder, 0o1777);
        assert_eq!(owners.check_folder(&folder).unwrap_err().code, Code::WorldWritable, "sticky is not enough here");
        set(&folder, 0o755);
        set(above.path(), 0o777);
        assert_eq!(owners.check_folder(&folder).unwrap_err().code, Code::WorldWritable);
        assert_eq!(owners.check_folder(&folder.join("none")).unwrap_err().code, Code::Unreadable);
    }
}
