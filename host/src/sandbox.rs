//! What the system keeps a process of the host from: other processes looking into it (every process that holds
//! secrets), and files and processes of the keeper (the worker, by Landlock).
//!
//! Landlock knows only what is allowed. The worker is allowed all there is when it starts except the hidden paths, so
//! every folder above one of these is allowed entry by entry. What is made there later is out of its reach.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets};
use serde::{Deserialize, Serialize};

/// The first version of Landlock that lets files be moved from folder to folder (Linux 5.19).
const OLDEST: ABI = ABI::V2;
const NEWEST: ABI = ABI::V4;
/// Far more entries than folders above DATA_DIR have; what is beyond is not allowed.
const MAX_RULES: usize = 20_000;

/// Keeps processes of the same user from reading this one's memory and environment or attaching to it, and keeps it
/// and its children from gaining rights by starting a program. A program that it starts has to do this again.
///
/// # Errors
/// The system does not know one of the two.
pub fn close_process() -> anyhow::Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).context("closing this process to others")?;
    rustix::thread::set_no_new_privs(true).context("giving up new privileges")
}

/// Of root's capabilities a worker that runs as root keeps those that get it to its files. Others would let it look into
/// the keeper's process. A program that it starts does not get them back: [`close_process`] sees to that.
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
    ruleset.handle_access(AccessFs::from_all(OLDEST)).and_then(Ruleset::create).is_ok()
}

/// Which files a process may not reach. Paths are absolute and without links.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    pub hidden: Vec<PathBuf>,
    /// Allowed all the same, below something hidden or beside it.
    pub shown: Vec<PathBuf>,
}

impl Sandbox {
    /// From paths as they were set.
    pub fn new(hidden: impl IntoIterator<Item = PathBuf>, shown: impl IntoIterator<Item = PathBuf>) -> Self {
        let real = |path: PathBuf| fs::canonicalize(&path).unwrap_or(path);
        Self { hidden: hidden.into_iter().map(real).collect(), shown: shown.into_iter().map(real).collect() }
    }

    /// Restricts this thread and all that it starts, for good. To be called while there is no other thread. Whether
    /// the system has what it takes.
    ///
    /// # Errors
    /// The system has Landlock and refuses this.
    pub fn enter(&self) -> anyhow::Result<bool> {
        if !is_supported() {
            return Ok(false);
        }
        let access = AccessFs::from_all(NEWEST);
        let ruleset = Ruleset::default().handle_access(access)?.scope(Scope::Signal)?.create()?;
        let rules = path_beneath_rules(self.allowed(), access);
        let status = ruleset.add_rules(rules)?.restrict_self()?;
        Ok(status.ruleset != RulesetStatus::NotEnforced)
    }

    fn allowed(&self) -> Vec<PathBuf> {
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
            // A link leads to a place that is allowed, or is not, by itself.
            if allowed.len() < MAX_RULES && entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                self.allow(&entry.path(), allowed);
            }
        }
    }
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
        let sandbox = Sandbox::new([root.join("data"), root.join("etc/secret")], [root.join("data/packages")]);
        let allowed = sandbox.allowed();
        for path in ["data/packages", "beside", "etc/deep", "etc/other"] {
            assert!(allowed.contains(&root.join(path)), "{path} is not allowed");
        }
        for path in ["", "data", "data/pg", "data/password", "etc", "etc/secret", "link"] {
            assert!(!allowed.contains(&root.join(path)), "{path} is allowed");
        }
        assert!(allowed.contains(&PathBuf::from("/usr")) && !allowed.contains(&PathBuf::from("/")));
    }
}
