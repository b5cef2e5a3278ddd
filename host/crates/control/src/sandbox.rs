//! What the system keeps a process of the host from: other processes looking into it (every process that holds
//! secrets), and files and processes of the supervisor (the worker, by Landlock and a filter of system calls).
//!
//! Landlock knows only what is allowed. The worker may read all there is when it starts except the hidden paths, so
//! every folder above one of these is allowed entry by entry; what is made there later is out of its reach. It may
//! write to the few places that it is given and nowhere else: whoever writes as the supervisor's user becomes the
//! supervisor (a program in `PATH`, a shell's start file).

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets};
use serde::{Deserialize, Serialize};

pub mod descriptor_calls;
mod filter;
mod mounts;
pub mod probe;
mod probe_calls;
pub mod programs;
pub mod system_calls;

/// The first version of Landlock that lets files be moved from folder to folder (Linux 5.19).
const MIN_LANDLOCK_ABI: ABI = ABI::V2;
/// The one that knows of signals and abstract sockets (Linux 6.12). A kernel that knows less enforces less.
const NEWEST: ABI = ABI::V6;
/// Far more entries than folders above DATA_DIR have; what is beyond is not allowed.
const MAX_RULES: usize = 20_000;
/// Devices that take what nobody wants; programs open them without a second thought.
const HARMLESS_DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];
/// Where the shared memory of others lies, a PostgreSQL of the same user among them.
const SHARED_MEMORY: &str = "/dev/shm";
/// Whoever reads one of its user's takes what is typed there.
const TERMINALS: &str = "/dev/pts";

/// Keeps processes of the same user from reading this one's memory and environment or attaching to it, and keeps it
/// and its children from gaining rights by starting a program. A program that it starts has to do this again.
///
/// # Errors
/// The system does not know one of the two.
pub fn close_process() -> anyhow::Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).context("closing this process to others")?;
    rustix::thread::set_no_new_privs(true).context("giving up new privileges")
}

/// Of root's capabilities a worker that runs as root keeps those that get it to its files. Others would let it look
/// into the supervisor's process. A program that it starts does not get them back: [`close_process`] sees to that.
///
/// # Errors
/// The system refuses.
pub fn give_up_capabilities() -> anyhow::Result<()> {
    let kept = CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER;
    let now = rustix::thread::capabilities(None).context("asking for the capabilities")?;
    let kept = kept & now.permitted;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).context("giving up capabilities")
}

/// Whether this system has a Landlock that will do.
pub fn is_supported() -> bool {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset.handle_access(AccessFs::from_all(MIN_LANDLOCK_ABI)).and_then(Ruleset::create).is_ok()
}

/// Which files a process may reach. Paths are absolute and without links.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    pub hidden: Vec<PathBuf>,
    /// May be read all the same, below something hidden or beside it.
    pub shown: Vec<PathBuf>,
    /// May be read and written; nothing else may be written.
    pub writable: Vec<PathBuf>,
    /// It may make unix sockets that connect by a path; pairs it may make anyway.
    pub unix_sockets: bool,
}

/// How far the system keeps a process apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxStatus {
    pub files: bool,
    pub system_calls: bool,
}

impl Sandbox {
    /// From paths as they were set. A hidden path is hidden wherever else its file system is mounted, too.
    pub fn new(
        hidden: impl IntoIterator<Item = PathBuf>,
        shown: impl IntoIterator<Item = PathBuf>,
        writable: impl IntoIterator<Item = PathBuf>,
    ) -> Self {
        let real = |path: PathBuf| fs::canonicalize(&path).unwrap_or(path);
        let mut hidden: Vec<PathBuf> =
            hidden.into_iter().map(real).chain([SHARED_MEMORY, TERMINALS].map(PathBuf::from)).collect();
        let mounts = mounts::read();
        hidden.extend(hidden.clone().iter().flat_map(|path| mounts::aliases(&mounts, path)));
        Self {
            hidden,
            shown: shown.into_iter().map(real).collect(),
            writable: writable.into_iter().map(real).collect(),
            unix_sockets: true,
        }
    }

    /// Restricts this thread and all that it starts, for good. To be called while there is no other thread. Tells what
    /// the system has of what it takes.
    ///
    /// # Errors
    /// The system has Landlock and refuses this.
    pub fn enter(&self) -> anyhow::Result<SandboxStatus> {
        let files = is_supported() && self.restrict_files()?;
        let system_calls = match system_calls::restrict(self.unix_sockets) {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(%error, "this system does not filter system calls");
                false
            }
        };
        Ok(SandboxStatus { files, system_calls })
    }

    fn restrict_files(&self) -> anyhow::Result<bool> {
        let ruleset = Ruleset::default().handle_access(AccessFs::from_all(NEWEST))?.scope(Scope::from_all(NEWEST))?;
        let ruleset = ruleset.create()?;
        let ruleset = ruleset.add_rules(path_beneath_rules(self.readable(), AccessFs::from_read(NEWEST)))?;
        let ruleset = ruleset.add_rules(path_beneath_rules(&self.writable, writing()))?;
        let devices = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
        let ruleset = ruleset.add_rules(path_beneath_rules(HARMLESS_DEVICES, devices))?;
        Ok(ruleset.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
    }

    fn readable(&self) -> Vec<PathBuf> {
        let mut allowed = self.shown.clone();
        self.allow(Path::new("/"), &mut allowed);
        allowed
    }

    fn allow(&self, path: &Path, allowed: &mut Vec<PathBuf>) {
        if !self.hidden.iter().any(|hidden| hidden.starts_with(path)) {
            allowed.push(path.to_owned());
            return;
        }
        if self.hidden.iter().any(|hidden| hidden == path) {
            return;
        }
        // A folder that cannot be listed is one whose entries are not ours to know.
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            // A link leads to a place that is allowed, or is not, by itself. A disk has all files, hidden ones, too.
            let is_place = |kind: fs::FileType| !kind.is_symlink() && !kind.is_block_device();
            if allowed.len() < MAX_RULES && entry.file_type().is_ok_and(is_place) {
                self.allow(&entry.path(), allowed);
            }
        }
    }
}

/// Everything but making devices, and commanding them.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_hidden_paths_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for made in ["data/packages", "data/pg", "beside", "etc/deep"] {
            fs::create_dir_all(root.join(made)).unwrap();
        }
        for made in ["data/password", "etc/secret", "etc/other"] {
            fs::write(root.join(made), "x").unwrap();
        }
        std::os::unix::fs::symlink(root.join("data"), root.join("link")).unwrap();
        let sandbox = Sandbox::new([root.join("data"), root.join("etc/secret")], [root.join("data/packages")], []);
        let allowed = sandbox.readable();
        for path in ["data/packages", "beside", "etc/deep", "etc/other"] {
            assert!(allowed.contains(&root.join(path)), "{path} is not allowed");
        }
        for path in ["", "data", "data/pg", "data/password", "etc", "etc/secret", "link"] {
            assert!(!allowed.contains(&root.join(path)), "{path} is allowed");
        }
        assert!(allowed.contains(&PathBuf::from("/usr")) && !allowed.contains(&PathBuf::from("/")));
        for path in ["/dev", SHARED_MEMORY, TERMINALS] {
            assert!(!allowed.contains(&PathBuf::from(path)), "{path} is allowed");
        }
        let is_disk = |path: &PathBuf| fs::metadata(path).is_ok_and(|it| it.file_type().is_block_device());
        assert!(!allowed.iter().any(is_disk));
    }
}
