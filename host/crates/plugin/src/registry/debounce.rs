//! When what has changed in the plugins folder may be looked at: once it lies still. Pure.
//!
//! Nothing says that a copy is complete, so a package that changes is given time; one that was moved into its place is
//! whole. A package that is gone may be about to be replaced and is given longer, and longest one that looks as if its
//! second half were missing.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    time::{Duration, Instant},
};

use super::folder::{Fingerprint, FolderListing};

/// How long a package must lie still.
const STABLE_AFTER: Duration = Duration::from_millis(800);
/// How long a package must be gone: removing the old one and copying the new one is one change, not two.
const GONE_AFTER: Duration = Duration::from_secs(3);
/// How long the rest of a package that is not complete is waited for before it is refused for it.
pub(super) const COMPLETION: Duration = Duration::from_secs(10);

/// What has changed and was not looked at yet.
#[derive(Default)]
pub(super) struct PendingChanges(HashMap<PathBuf, PathChange>);

struct PathChange {
    to: Option<Fingerprint>,
    since: Instant,
    /// It was moved into its place.
    is_whole: bool,
    /// It was read and is not complete.
    is_half: bool,
}

/// What to do now.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FolderObservation {
    /// Something lies still and wants to be looked at.
    pub due: bool,
    /// What is not to be looked at yet.
    pub unsettled: HashSet<PathBuf>,
    /// What may not be complete yet, should it look so.
    pub incomplete: HashSet<PathBuf>,
    /// When to look again.
    pub wait: Option<Duration>,
}

impl PendingChanges {
    /// The folder as it is `now`, as it was when its packages were read last, and what was moved into it meanwhile.
    pub(super) fn observe(
        &mut self,
        seen: &FolderListing,
        read: &FolderListing,
        moved: &HashSet<PathBuf>,
        now: Instant,
    ) -> FolderObservation {
        self.0.retain(|path, _| seen.get(path) != read.get(path));
        for path in seen.keys().chain(read.keys()).filter(|path| seen.get(*path) != read.get(*path)) {
            let fresh = || PathChange { to: seen.get(path).cloned(), since: now, is_whole: false, is_half: false };
            let changed = self.0.entry(path.clone()).or_insert_with(fresh);
            if changed.to.as_ref() != seen.get(path) {
                *changed = fresh();
            }
            changed.is_whole |= moved.contains(path);
        }
        let mut observed = FolderObservation::default();
        for (path, changed) in &self.0 {
            let lain = now.saturating_duration_since(changed.since);
            if lain < COMPLETION && !changed.is_whole {
                observed.incomplete.insert(path.clone());
            }
            match changed.needs().checked_sub(lain).filter(|left| !left.is_zero()) {
                None => observed.due = true,
                Some(left) => {
                    observed.unsettled.insert(path.clone());
                    observed.wait = Some(observed.wait.map_or(left, |wait| wait.min(left)));
                }
            }
        }
        observed
    }

    /// Those of them that were read and are not complete.
    pub(super) fn mark_incomplete(&mut self, half: &HashSet<PathBuf>) {
        for path in half {
            if let Some(changed) = self.0.get_mut(path) {
                changed.is_half = true;
            }
        }
    }
}

impl PathChange {
    fn needs(&self) -> Duration {
        match (&self.to, self.is_half, self.is_whole) {
            (None, ..) => GONE_AFTER,
            (_, true, _) => COMPLETION,
            (_, _, true) => Duration::ZERO,
            _ => STABLE_AFTER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Packages with so many bytes.
    fn folder(packages: &[(&str, usize)]) -> FolderListing {
        let root = tempfile::tempdir().unwrap();
        for (name, bytes) in packages {
            std::fs::write(root.path().join(format!("{name}.so")), vec![0; *bytes]).unwrap();
        }
        let look = super::super::folder::list(root.path(), &[]).unwrap();
        look.into_iter().map(|(path, seen)| (path.file_name().unwrap().into(), seen)).collect()
    }

    fn set(names: &[&str]) -> HashSet<PathBuf> {
        names.iter().map(|name| PathBuf::from(format!("{name}.so"))).collect()
    }

    #[test]
    fn what_changes_is_waited_for_until_it_lies_still() {
        let (mut pending, now) = (PendingChanges::default(), Instant::now());
        let (nothing, half, whole) = (FolderListing::new(), folder(&[("a", 1)]), folder(&[("a", 2)]));
        let first = pending.observe(&half, &nothing, &set(&[]), now);
        assert_eq!((first.due, first.unsettled, first.wait), (false, set(&["a"]), Some(STABLE_AFTER)));
        let more = pending.observe(&whole, &nothing, &set(&[]), now + STABLE_AFTER - MS);
        assert_eq!((more.due, more.wait), (false, Some(STABLE_AFTER)), "it changed again");
        let still = pending.observe(&whole, &nothing, &set(&[]), now + 2 * STABLE_AFTER);
        assert_eq!((still.due, still.unsettled), (true, set(&[])));
        assert_eq!(
            pending.observe(&whole, &whole, &set(&[]), now + 3 * STABLE_AFTER),
            FolderObservation::default(),
            "it was read"
        );
    }

    #[test]
    fn what_was_moved_into_its_place_is_whole() {
        let (mut pending, now) = (PendingChanges::default(), Instant::now());
        let observed = pending.observe(&folder(&[("a", 1), ("b", 1)]), &FolderListing::new(), &set(&["a"]), now);
        assert_eq!((observed.due, observed.unsettled), (true, set(&["b"])));
        assert_eq!(observed.incomplete, set(&["b"]));
    }

    #[test]
    fn what_is_gone_may_come_back_as_another() {
        let (mut pending, now) = (PendingChanges::default(), Instant::now());
        let (old, new) = (folder(&[("a", 1)]), folder(&[("a", 2)]));
        assert!(!pending.observe(&FolderListing::new(), &old, &set(&[]), now).due);
        assert!(!pending.observe(&FolderListing::new(), &old, &set(&[]), now + GONE_AFTER - MS).due);
        assert!(!pending.observe(&new, &old, &set(&[]), now + GONE_AFTER).due, "it is back");
        assert!(pending.observe(&new, &old, &set(&[]), now + GONE_AFTER + STABLE_AFTER).due);
        let mut pending = PendingChanges::default();
        pending.observe(&FolderListing::new(), &old, &set(&[]), now);
        assert!(pending.observe(&FolderListing::new(), &old, &set(&[]), now + GONE_AFTER).due, "it stays away");
    }

    #[test]
    fn the_rest_of_a_half_is_waited_for_and_not_for_ever() {
        let (mut pending, now) = (PendingChanges::default(), Instant::now());
        let half = folder(&[("a", 1)]);
        pending.observe(&half, &FolderListing::new(), &set(&[]), now);
        let read = pending.observe(&half, &FolderListing::new(), &set(&[]), now + STABLE_AFTER);
        assert_eq!((read.due, read.incomplete), (true, set(&["a"])));
        pending.mark_incomplete(&set(&["a"]));
        assert!(!pending.observe(&half, &FolderListing::new(), &set(&[]), now + 2 * STABLE_AFTER).due);
        let last = pending.observe(&half, &FolderListing::new(), &set(&[]), now + COMPLETION);
        assert_eq!((last.due, last.incomplete), (true, set(&[])), "now it is refused for what it is");
    }
}
