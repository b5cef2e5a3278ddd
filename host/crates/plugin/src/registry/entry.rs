//! One plugin of a snapshot: its package, what became of it, and what serves.

use std::sync::Arc;

use serde_json::Value;

use super::candidate::{PackageError, PackageSummary};
use crate::{
    active::{Active, JobEntry, ToolEntry},
    frontend::Bundle,
    library::Description,
};
use cardinal_control::crash::history::QuarantinedPackage;
use cardinal_package::{refusal::Refusal, state::State};

/// What is said of a package whose files are still being written.
const UNSETTLED: &str = "Its files are still changing. It is read once they stop.";

/// What is said of a plugin whose library, schema or `routes` takes its time.
const LOADING: &str = "Its package is being loaded.";

/// What is said of a plugin that was removed.
const REMOVED_REASON: &str = "Its package is not in this host's plugins folder. Its data is kept until it is purged.";

/// A plugin that was found, and where its walk ended.
#[derive(Clone)]
pub(super) struct Entry {
    pub about: PackageSummary,
    pub state: State,
    /// Of a plugin in service: why the files that lie there now do not replace what serves.
    pub refusal: Option<Refusal>,
    pub failure: Option<String>,
    pub quarantine: Option<Box<QuarantinedPackage>>,
    pub service: Option<Arc<Service>>,
    /// The files that lie there now, when something else serves in their place.
    pub pending: Option<Box<PackageSummary>>,
    /// The load that is under way, by its number.
    pub loading: Option<u64>,
}

/// What a plugin in service is made of.
pub(super) struct Service {
    pub active: Arc<Active>,
    pub tools: Vec<Arc<ToolEntry>>,
    pub jobs: Vec<Arc<JobEntry>>,
    pub frontend: Option<Arc<Bundle>>,
    pub library: Description,
    pub sha256: String,
    pub settings: Value,
}

impl Entry {
    pub(super) fn at(about: PackageSummary, state: State) -> Self {
        Self {
            about,
            state,
            refusal: None,
            failure: None,
            quarantine: None,
            service: None,
            pending: None,
            loading: None,
        }
    }

    /// One whose load is under way.
    pub(super) fn loading(about: PackageSummary, number: u64) -> Self {
        Self { failure: Some(LOADING.to_owned()), loading: Some(number), ..Self::at(about, State::Checked) }
    }

    /// One that was removed from the folder.
    pub(super) fn gone(about: PackageSummary) -> Self {
        Self { failure: Some(REMOVED_REASON.to_owned()), ..Self::at(about, State::Retired) }
    }

    /// One that took the worker down.
    pub(super) fn quarantined(about: PackageSummary, why: QuarantinedPackage) -> Self {
        Self { quarantine: Some(Box::new(why)), ..Self::at(about, State::Quarantined) }
    }

    /// One whose walk ended before it was in service.
    pub(super) fn ended(about: PackageSummary, why: PackageError) -> Self {
        match why {
            PackageError::Failed(reason) => Self::failed(about, reason),
            PackageError::Unsettled => {
                Self { failure: Some(UNSETTLED.to_owned()), ..Self::at(about, State::Discovered) }
            }
            PackageError::Refused(refusal) => {
                let mut entry = Self::at(about, State::Refused);
                entry.refuse(refusal);
                entry
            }
        }
    }

    pub(super) fn in_service(about: PackageSummary, service: Arc<Service>) -> Self {
        Self { service: Some(service), ..Self::at(about, State::Active) }
    }

    pub(super) fn failed(about: PackageSummary, reason: String) -> Self {
        tracing::error!(plugin = about.name, package = about.origin, reason, "a plugin failed");
        Self { failure: Some(reason), ..Self::at(about, State::Failed) }
    }

    /// What serves in the place of these files, which are no good (yet).
    pub(super) fn behind(self, about: PackageSummary, service: Arc<Service>) -> Self {
        if !matches!(self.state, State::Discovered | State::Checked) {
            let (plugin, package) = (&about.name, &self.about.origin);
            tracing::warn!(plugin, package, "the version that was loaded before stays in service");
        }
        let about = PackageSummary { origin: self.about.origin.clone(), ..about };
        // What is still being written or loaded is not known yet; what lies there is shown once, whatever stands in for
        // it.
        let pending = match self.state {
            State::Discovered | State::Checked => None,
            _ => self.pending.or(Some(Box::new(self.about))),
        };
        Self { pending, about, state: State::Active, service: Some(service), ..self }
    }

    /// The same, when the kept package that was to serve in its place would not.
    pub(super) fn without_stand_in(self, ended: &Entry) -> Self {
        let why = ended.refusal.as_ref().map(|refusal| &refusal.reason).or(ended.failure.as_ref());
        let version = ended.about.manifest.as_ref().map(|manifest| manifest.version.to_string()).unwrap_or_default();
        let failure = format!("Going back to {version} failed: {}", why.map_or("", String::as_str));
        Self { failure: Some(failure), ..self }
    }

    pub(super) fn refuse(&mut self, refusal: Refusal) {
        let PackageSummary { name, origin, .. } = &self.about;
        let refusal = refusal.for_plugin(name);
        tracing::warn!(plugin = name, package = origin, code = %refusal.code, %refusal, "a plugin was refused");
        (self.state, self.refusal, self.service) = (State::Refused, Some(refusal), None);
    }
}
