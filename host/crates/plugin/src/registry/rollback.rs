//! The ways back and forth: an operator reloads a plugin, or goes back to a package from before.

use semver::Version;
use serde_json::Value;

use super::{
    PLUGIN_WAIT, Registry, Reload, ScanScope,
    history::{History, PackageRef, RollbackError, RollbackPlan, RollbackTarget},
};
use crate::error::RegistryError;
use cardinal_package::{
    refusal::{Code, Refusal},
    state::State,
};
use cardinal_store::plugins;

/// A roll-back that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollbackReport {
    /// The versions.
    pub from: String,
    pub to: String,
}

/// Where a plugin stands before it goes back.
struct RollbackState {
    state: State,
    /// Hash and version of what serves, and of what lies in the folder.
    serving: Option<(String, Version)>,
    folder: Option<(String, Version)>,
    /// A lower version lies in the folder.
    waiting: bool,
}

impl Registry {
    /// Takes what lies in the folder now as a new generation, also what was rolled back before. When it is refused,
    /// what serves stays in service.
    ///
    /// # Errors
    /// No such plugin; it is disabled; it waits for an operator's word on data that it loses; the database is away.
    pub async fn reload(&self, plugin: &str) -> Result<(), RegistryError> {
        let (state, origin) = {
            let snapshot = self.snapshot();
            let entry = snapshot.entry(plugin).ok_or(RegistryError::NotFound("plugin"))?;
            (entry.state, entry.about.origin.clone())
        };
        if state == State::Disabled {
            return Err(RegistryError::Conflict("The plugin is disabled: enable it.".to_owned()));
        }
        let reload = Reload { plugin: plugin.to_owned(), origin };
        self.walk(ScanScope { reload: Some(reload), ..ScanScope::for_decisions() }).await;
        self.activation.loads.settled(Some(plugin), PLUGIN_WAIT).await;
        match self.snapshot().refused(plugin, Code::DestructiveMigration) {
            Some((in_folder, refusal)) => {
                Err(RegistryError::Destructive { refusal: Box::new(refusal.clone()), sha256: in_folder.sha256.clone() })
            }
            None => Ok(()),
        }
    }

    /// Goes back to a package from before, on every host that has it. With `from` only when that package serves still.
    /// When the other one does not get into service here, everything stays as it was.
    ///
    /// # Errors
    /// No such plugin, no way back; the database is away.
    pub async fn roll_back(
        &self,
        plugin: &str,
        wanted: &RollbackTarget,
        from: Option<&str>,
        by: &Value,
        reason: &str,
    ) -> Result<RollbackReport, RegistryError> {
        let stand = self.stand(plugin)?;
        if from.is_some_and(|from| stand.serving.as_ref().is_none_or(|(sha256, _)| sha256 != from)) {
            return Err(refused(RollbackError::Failed("Another package is in service now.".to_owned())));
        }
        let core = &self.activation.loader.services.core;
        let (versions, losses) = (plugins::versions::all(core).await?, plugins::versions::losses(core).await?);
        let kept = self.kept.for_plugin(plugin);
        let history = History {
            versions: versions.get(plugin).map(Vec::as_slice).unwrap_or_default(),
            losses: losses.get(plugin).map(Vec::as_slice).unwrap_or_default(),
            kept: &kept,
            serving: borrowed(&stand.serving),
        };
        let way = history.rollback_target(wanted, borrowed(&stand.folder), stand.waiting).map_err(refused)?;
        let RollbackPlan { sha256, version: to, aside } = way;
        plugins::versions::roll_back(core, plugin, &aside, &sha256, by, reason).await?;
        self.apply_to(plugin).await;
        let from = stand.serving.or(stand.folder).map(|(_, version)| version.to_string()).unwrap_or_default();
        let now = self.stand(plugin)?;
        if stand.state == State::Disabled || now.serving.is_some_and(|(serving, _)| serving == sha256) {
            return Ok(RollbackReport { from, to: to.to_string() });
        }
        // It would not serve: as it was before, and no host waits for it.
        let aside: Vec<String> = aside.into_iter().map(|(sha256, _)| sha256).collect();
        plugins::versions::take_back(core, plugin, &aside).await?;
        let why = self.snapshot().entry(plugin).and_then(|entry| entry.failure.clone());
        self.apply_to(plugin).await;
        Err(refused(RollbackError::Failed(why.unwrap_or_else(|| format!("{to} could not be put into service.")))))
    }

    fn stand(&self, plugin: &str) -> Result<RollbackState, RegistryError> {
        let snapshot = self.snapshot();
        let entry = snapshot.entry(plugin).ok_or(RegistryError::NotFound("plugin"))?;
        let in_folder = snapshot.in_folder(plugin).and_then(|about| {
            let version = about.manifest.as_ref()?.version.clone();
            Some((about.sha256.clone()?, version))
        });
        let serving = entry.service.as_ref();
        let waits = |refusal: &Refusal| refusal.code == Code::LowerVersion;
        Ok(RollbackState {
            state: entry.state,
            serving: serving.map(|service| (service.sha256.clone(), service.active.manifest.version.clone())),
            folder: in_folder,
            waiting: entry.refusal.as_ref().is_some_and(waits),
        })
    }

    /// Lets a package that was reloaded on an operator's word be put into service again.
    pub(super) async fn taken_back(&self, plugin: &str, sha256: &str) {
        let packages = [sha256.to_owned()];
        if let Err(error) = plugins::versions::take_back(&self.activation.loader.services.core, plugin, &packages).await
        {
            tracing::error!(plugin, error = ?error, "failed to record that the rollback was undone");
        }
    }
}

fn borrowed(package: &Option<(String, Version)>) -> Option<PackageRef<'_>> {
    package.as_ref().map(|(sha256, version)| PackageRef { sha256, version })
}

fn refused(why: RollbackError) -> RegistryError {
    match why {
        RollbackError::Nothing => {
            RegistryError::Conflict("There is no earlier package of this plugin to go back to.".to_owned())
        }
        RollbackError::Unknown => RegistryError::NotFound("version"),
        RollbackError::Destructive(version) => RegistryError::NoWayBack(version.to_string()),
        RollbackError::Failed(why) => RegistryError::Conflict(why),
    }
}
