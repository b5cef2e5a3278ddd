//! Which packages of a plugin may serve, by what served before and what was decided about it. Pure.
//!
//! Schema only moves forward, so going back is for an operator, or for the error rate, to decide: a lower version in
//! the folder waits, a package that was rolled back stays out, and nothing goes back past a confirmed loss of data.

use semver::Version;

use cardinal_package::{
    kept::KeptPackage,
    refusal::{Code, Refusal},
};
use cardinal_store::plugins::versions::{Loss, PluginVersion};

/// One of a plugin's packages.
#[derive(Clone, Copy)]
pub(super) struct PackageRef<'p> {
    pub sha256: &'p str,
    pub version: &'p Version,
}

impl<'p> From<&'p KeptPackage> for PackageRef<'p> {
    fn from(kept: &'p KeptPackage) -> Self {
        Self { sha256: &kept.sha256, version: &kept.version }
    }
}

/// What is known of one plugin's packages.
pub(super) struct History<'h> {
    /// What was decided, on any host.
    pub versions: &'h [PluginVersion],
    pub losses: &'h [Loss],
    /// What this host has, the one that was put into service last first.
    pub kept: &'h [KeptPackage],
    /// What serves here now.
    pub serving: Option<PackageRef<'h>>,
}

/// The package that is to be gone back to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RollbackTarget {
    /// The one before.
    #[default]
    Before,
    Version(String),
    Sha256(String),
}

/// How to go back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RollbackPlan {
    /// Hash of what is gone back to.
    pub sha256: String,
    pub version: Version,
    /// Hashes and versions of what must not be put into service again by itself.
    pub aside: Vec<(String, String)>,
}

/// Why there is no way back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RollbackError {
    /// No other package of the plugin is there.
    Nothing,
    /// None of that version or hash is there.
    Unknown,
    /// A loss of data was confirmed for this version since.
    Destructive(String),
    /// It was tried: the active package stays in service.
    Failed(String),
}

impl History<'_> {
    /// Why a package in the folder may not serve by itself; with `taken_back` one that was rolled back may.
    pub(super) fn refusal(&self, sha256: &str, version: &Version, taken_back: bool) -> Option<Refusal> {
        if let Some(aside) = self.find(sha256).and_then(|it| it.set_aside.as_ref()).filter(|_| !taken_back) {
            let refusal = Refusal::new(Code::RolledBack, format!("This package was rolled back: {}", aside.reason));
            return Some(refusal.expected("another package").found(format!("{version}, {sha256}")));
        }
        if let Some(loss) = self.loss_since(sha256, version) {
            let refusal = Refusal::new(Code::DestructiveMigration, "Data that this version needs is gone.");
            let refusal = refusal.expected(format!("the {loss} for which the loss was confirmed, or a later version"));
            let refusal = refusal.found(format!("{version}, {sha256}"));
            return Some(refusal.fix(format!("Put that {loss} or a later version into the folder.")));
        }
        let current = self.current().filter(|current| current.sha256 != sha256)?.version;
        if version.cmp_precedence(current).is_ge() {
            return None;
        }
        let refusal = Refusal::new(Code::LowerVersion, "A lower version waits for an operator's decision.");
        Some(refusal.expected(format!("{current} or later")).found(version.to_string()))
    }

    /// What serves in the place of a package that may not, the best first.
    pub(super) fn fallbacks<'k>(&'k self, but: &str) -> impl Iterator<Item = &'k KeptPackage> {
        let but = but.to_owned();
        self.kept.iter().filter(move |it| {
            it.sha256 != but && !self.is_set_aside(&it.sha256) && self.loss_since(&it.sha256, &it.version).is_none()
        })
    }

    pub(super) fn is_set_aside(&self, sha256: &str) -> bool {
        self.find(sha256).is_some_and(|it| it.set_aside.is_some())
    }

    /// How to go back from what serves (or, when nothing does, from what lies in the folder). `waiting` is the lower
    /// version that lies there.
    pub(super) fn rollback_target(
        &self,
        wanted: &RollbackTarget,
        folder: Option<PackageRef<'_>>,
        waiting: bool,
    ) -> Result<RollbackPlan, RollbackError> {
        let now = self.serving.or(folder).ok_or(RollbackError::Nothing)?;
        let in_folder = folder.filter(|it| it.sha256 != now.sha256);
        let kept = self.kept.iter().map(PackageRef::from).filter(|it| it.sha256 != now.sha256);
        let to = match wanted {
            RollbackTarget::Before => match in_folder.filter(|_| waiting) {
                Some(lower) => lower,
                None => self.before(now, kept)?,
            },
            RollbackTarget::Version(version) => in_folder
                .into_iter()
                .chain(kept)
                .find(|it| it.version.to_string() == *version)
                .ok_or(RollbackError::Unknown)?,
            RollbackTarget::Sha256(sha256) => {
                in_folder.into_iter().chain(kept).find(|it| it.sha256 == sha256).ok_or(RollbackError::Unknown)?
            }
        };
        if let Some(loss) = self.loss_since(to.sha256, to.version) {
            return Err(RollbackError::Destructive(loss));
        }
        let aside = self.in_the_way(to, now, folder);
        Ok(RollbackPlan { sha256: to.sha256.to_owned(), version: to.version.clone(), aside })
    }

    /// The one before: served last of those that are no later version.
    fn before<'k>(
        &self,
        now: PackageRef<'_>,
        kept: impl Iterator<Item = PackageRef<'k>>,
    ) -> Result<PackageRef<'k>, RollbackError> {
        let mut none = RollbackError::Nothing;
        for it in kept {
            if self.is_set_aside(it.sha256) || it.version.cmp_precedence(now.version).is_gt() {
                continue;
            }
            match self.loss_since(it.sha256, it.version) {
                None => return Ok(it),
                Some(loss) => none = RollbackError::Destructive(loss),
            }
        }
        Err(none)
    }

    /// What would be put into service again in its place: what serves, what lies in the folder, what served since, and
    /// later versions.
    fn in_the_way(
        &self,
        to: PackageRef<'_>,
        now: PackageRef<'_>,
        folder: Option<PackageRef<'_>>,
    ) -> Vec<(String, String)> {
        let place = self.kept.iter().position(|it| it.sha256 == to.sha256);
        let later =
            self.kept.iter().enumerate().filter(|(at, it)| {
                place.is_some_and(|place| *at < place) || it.version.cmp_precedence(to.version).is_gt()
            });
        let later = later.map(|(_, it)| PackageRef::from(it));
        let mut aside: Vec<(String, String)> = Vec::new();
        for it in [now].into_iter().chain(folder).chain(later) {
            if it.sha256 != to.sha256 && aside.iter().all(|(other, _)| other != it.sha256) {
                aside.push((it.sha256.to_owned(), it.version.to_string()));
            }
        }
        aside
    }

    /// What a lower version is lower than: what serves, else what served last.
    fn current(&self) -> Option<PackageRef<'_>> {
        let kept = self.kept.iter().map(PackageRef::from);
        self.serving.into_iter().chain(kept).find(|it| !self.is_set_aside(it.sha256))
    }

    /// The version since which data of this package is gone.
    pub(super) fn loss_since(&self, sha256: &str, version: &Version) -> Option<String> {
        let first = self.find(sha256).and_then(|it| it.activated_at);
        let lost = self.losses.iter().find(|loss| {
            let order = Version::parse(&loss.version).map(|later| version.cmp_precedence(&later));
            // Of two builds of one version the one that served before is the older.
            order.is_ok_and(|order| order.is_lt() || (order.is_eq() && first.is_some_and(|first| first < loss.at)))
        });
        lost.map(|loss| loss.version.clone())
    }

    fn find(&self, sha256: &str) -> Option<&PluginVersion> {
        self.versions.iter().find(|it| it.sha256 == sha256)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use time::{Duration, OffsetDateTime};

    use super::*;
    use cardinal_store::plugins::versions::SetAside;

    fn version(minor: u64) -> Version {
        Version::new(1, minor, 0)
    }

    fn at(second: i64) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + Duration::seconds(second)
    }

    /// Kept packages `1.<minor>.0`, whose hash is the number of the minor version.
    fn kept(minors: &[u64]) -> Vec<KeptPackage> {
        let package =
            |minor: &u64| KeptPackage { sha256: minor.to_string(), version: version(*minor), activated_at: at(0) };
        minors.iter().map(package).collect()
    }

    fn decided(minor: u64, aside: bool) -> PluginVersion {
        let aside = aside.then(|| SetAside { at: at(0), by: Value::Null, reason: "it was bad".to_owned() });
        PluginVersion {
            sha256: minor.to_string(),
            version: version(minor).to_string(),
            activated_at: Some(at(i64::try_from(minor).unwrap())),
            set_aside: aside,
        }
    }

    struct Case {
        versions: Vec<PluginVersion>,
        losses: Vec<Loss>,
        kept: Vec<KeptPackage>,
        serving: Option<(String, Version)>,
    }

    impl Case {
        fn new(kept_minors: &[u64], aside: &[u64], serving: Option<u64>) -> Self {
            let versions = kept_minors.iter().map(|minor| decided(*minor, aside.contains(minor))).collect();
            let serving = serving.map(|minor| (minor.to_string(), version(minor)));
            Self { versions, losses: Vec::new(), kept: kept(kept_minors), serving }
        }

        fn history(&self) -> History<'_> {
            let serving = self.serving.as_ref().map(|(sha256, version)| PackageRef { sha256, version });
            History { versions: &self.versions, losses: &self.losses, kept: &self.kept, serving }
        }

        fn code(&self, minor: u64) -> Option<Code> {
            self.history().refusal(&minor.to_string(), &version(minor), false).map(|refusal| refusal.code)
        }

        fn back(
            &self,
            wanted: &RollbackTarget,
            folder: u64,
            waiting: bool,
        ) -> Result<(u64, Vec<String>), RollbackError> {
            let (sha256, version) = (folder.to_string(), version(folder));
            let way = self.history().rollback_target(
                wanted,
                Some(PackageRef { sha256: &sha256, version: &version }),
                waiting,
            )?;
            Ok((way.version.minor, way.aside.into_iter().map(|(sha256, _)| sha256).collect()))
        }
    }

    #[test]
    fn a_lower_version_waits_and_a_later_one_does_not() {
        let case = Case::new(&[2, 1], &[], Some(2));
        assert_eq!((case.code(3), case.code(2)), (None, None));
        assert_eq!((case.code(1), case.code(0)), (Some(Code::LowerVersion), Some(Code::LowerVersion)));
        assert_eq!(case.history().refusal("other", &version(2), false), None, "the same version again is no way back");
        assert_eq!(Case::new(&[2], &[], None).code(1), Some(Code::LowerVersion), "it served before the restart");
        assert_eq!(Case::new(&[], &[], None).code(1), None, "the first one");
        assert_eq!(Case::new(&[], &[], Some(2)).code(1), Some(Code::LowerVersion), "it could not be kept");
    }

    #[test]
    fn what_was_rolled_back_stays_out_until_it_is_taken_back() {
        let case = Case::new(&[1, 2], &[2], Some(1));
        assert_eq!(case.code(2), Some(Code::RolledBack));
        assert_eq!(case.history().refusal("2", &version(2), true), None);
        assert_eq!(case.history().refusal("other", &version(2), false), None, "another build of that version");
        let fallback = |case: &Case| case.history().fallbacks("2").next().map(|it| it.version.minor);
        assert_eq!(fallback(&case), Some(1));
        assert_eq!(fallback(&Case::new(&[2], &[2], None)), None);
    }

    #[test]
    fn one_goes_back_step_by_step() {
        let before = RollbackTarget::Before;
        assert_eq!(Case::new(&[3, 2, 1], &[], Some(3)).back(&before, 3, false), Ok((2, vec!["3".into()])));
        let again = Case::new(&[2, 3, 1], &[3], Some(2)).back(&before, 3, false);
        assert_eq!(again, Ok((1, vec!["2".into(), "3".into()])));
        assert_eq!(Case::new(&[1, 2, 3], &[2, 3], Some(1)).back(&before, 3, false), Err(RollbackError::Nothing));
        assert_eq!(Case::new(&[3], &[], Some(3)).back(&before, 3, false), Err(RollbackError::Nothing));
        assert_eq!(Case::new(&[3, 2], &[], None).back(&before, 3, false), Ok((2, vec!["3".into()])), "nothing serves");
    }

    #[test]
    fn one_goes_where_one_wants() {
        let case = Case::new(&[3, 2, 1], &[], Some(3));
        let (one, two) = (RollbackTarget::Version("1.1.0".to_owned()), RollbackTarget::Sha256("2".to_owned()));
        assert_eq!(case.back(&one, 3, false), Ok((1, vec!["3".into(), "2".into()])));
        assert_eq!(case.back(&two, 3, false), Ok((2, vec!["3".into()])));
        assert_eq!(case.back(&RollbackTarget::Version("9.9.9".to_owned()), 3, false), Err(RollbackError::Unknown));
        assert_eq!(
            case.back(&RollbackTarget::Before, 0, true),
            Ok((0, vec!["3".into(), "2".into(), "1".into()])),
            "the folder's"
        );
        let forward = Case::new(&[1, 2], &[2], Some(1)).back(&two, 2, false);
        assert_eq!(forward, Ok((2, vec!["1".into()])), "and forward again");
    }

    #[test]
    fn nothing_goes_back_past_a_loss_of_data() {
        let mut case = Case::new(&[3, 2, 1], &[], Some(3));
        case.losses.push(Loss { version: "1.3.0".to_owned(), at: at(3) });
        assert_eq!(case.back(&RollbackTarget::Before, 3, false), Err(RollbackError::Destructive("1.3.0".to_owned())));
        assert_eq!(
            case.back(&RollbackTarget::Sha256("1".to_owned()), 3, false),
            Err(RollbackError::Destructive("1.3.0".to_owned()))
        );
        assert_eq!(case.code(2), Some(Code::DestructiveMigration));
        assert_eq!((case.code(3), case.code(4)), (None, None));
        assert!(case.history().fallbacks("3").next().is_none());
        case.versions[1].version = "1.3.0".to_owned();
        let same = case.history().refusal("2", &version(3), false).map(|refusal| refusal.code);
        assert_eq!(same, Some(Code::DestructiveMigration), "another build of that version, from before");
    }
}
