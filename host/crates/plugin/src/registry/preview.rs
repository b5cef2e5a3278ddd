//! Every plugin's walk as far as it goes without activating anything: for `cardinal check`. No plugin's code runs in
//! this process, and no schema.sql at all.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;
use tokio::task::spawn_blocking;

use super::{
    candidate::{Candidate, FoundPackage},
    decisions,
    entry::Entry,
    policy::{Approved, Policy, Step},
    read::{ScannedFolder, scan_folder},
    report::PluginReport,
    snapshot::{Before, Snapshot},
};
use crate::{
    agreement,
    library::SealedLibrary,
    probe::{Priority, ProbeOutcome, Prober},
    quarantine::Quarantine,
};
use cardinal_base::{
    clock::Clock,
    config::{Config, Secret},
    seal::SealingKey,
};
use cardinal_control::crash::history::CrashHistory;
use cardinal_package::{
    compat::Claims,
    kept::KeptPackages,
    manifest::Manifest,
    refusal::{Code, Refusal},
    state::State,
};
use cardinal_store::plugins::state::PluginState;

/// What an operator and the past have decided about plugins.
#[derive(Default)]
pub struct Decisions {
    pub states: HashMap<String, PluginState>,
    pub owners: HashMap<String, Option<String>>,
    pub crashes: CrashHistory,
    /// Opens what of the settings is sealed; none where nothing is stored.
    pub key: Option<SealingKey>,
}

/// A package, and how far it got.
pub struct Preview {
    pub report: PluginReport,
    pub manifest: Option<Manifest>,
    /// Of a package that may be tried; empty when it has none.
    pub schema_sql: Option<String>,
}

/// Looks at all packages of the plugins folder, in the order of their names.
pub async fn preview(config: &Config, decided: Decisions) -> Vec<Preview> {
    let folder = config.paths.plugins_dir.clone();
    let scanned = match spawn_blocking(move || scan_folder(&folder)).await {
        Ok(scanned) => scanned,
        Err(error) => {
            tracing::error!(%error, "failed to read the plugins folder");
            return Vec::new();
        }
    };
    let ScannedFolder { packages, .. } = match scanned {
        Ok(scanned) => scanned,
        Err(error) => {
            tracing::warn!(folder = %config.paths.plugins_dir.display(), %error, "there is no plugins folder");
            return Vec::new();
        }
    };
    let quarantine = Arc::new(Quarantine::read_only(decided.crashes));
    let key = decided.key.unwrap_or_else(|| SealingKey::derive(&Secret::new("")));
    let policy = Policy::new(
        &config.plugins,
        None,
        key,
        Clock::System,
        quarantine,
        Arc::new(KeptPackages::open(&config.paths.data_dir)),
    );
    let (keys, rule) = policy.trust_rule().await;
    let mut found = Vec::new();
    for scanned in packages {
        let (path, keys, rule) = (scanned.path().to_owned(), keys.clone(), rule.clone());
        let examined = spawn_blocking(move || FoundPackage::examine(scanned, &keys, &rule)).await;
        found.push(examined.unwrap_or_else(|error| FoundPackage::broken(&path, &error)));
    }
    let snapshot = Snapshot::default();
    let decided =
        decisions::Decisions { states: decided.states, owners: decided.owners, ..decisions::Decisions::default() };
    let before = Before::new(&snapshot, &found);
    let steps = policy.decide(found, &decided, &before, None);
    let mut claims = Claims::default();
    let mut previews = Vec::new();
    for step in steps {
        previews.push(match step {
            Step::Done(entry) | Step::Keep(entry) => Preview::new(entry, None),
            Step::Load(approved) => go_on(*approved, &mut claims).await,
        });
    }
    previews
}

/// Collisions and the probe, for a package that is good by itself.
async fn go_on(approved: Approved, claims: &mut Claims) -> Preview {
    let Approved { about, candidate, settings, .. } = approved;
    if let Err(refusal) = claims.take(candidate.manifest(), &about.origin) {
        return Preview::new(Entry::ended(about, refusal.into()), None);
    }
    if let Err(refusal) = try_out(&candidate, &settings).await {
        claims.release(candidate.manifest());
        return Preview::new(Entry::ended(about, refusal.into()), None);
    }
    let schema_sql = candidate.package().schema_sql.clone().unwrap_or_default();
    Preview::new(Entry::at(about, State::Checked), Some(schema_sql))
}

async fn try_out(candidate: &Candidate, settings: &Value) -> Result<(), Refusal> {
    let (manifest, library) = (candidate.manifest(), candidate.package().library.clone());
    let sealed = spawn_blocking(move || SealedLibrary::seal(&library)).await;
    let sealed = sealed.map_err(std::io::Error::other).and_then(|it| it).map_err(|error| {
        Refusal::new(Code::ProbeFailed, "The library could not be copied.").found(error.to_string())
    })?;
    let defaults = manifest.default_settings();
    match Prober::from_current_exe().try_out(sealed.fd(), &defaults, Priority::New).await? {
        ProbeOutcome::Made(exports) => agreement::check(manifest, &exports),
        // With the operator's settings its `routes` may do better.
        ProbeOutcome::NotMade { .. } if settings.as_object() != Some(&defaults) => Ok(()),
        ProbeOutcome::NotMade { refusal, .. } => Err(refusal),
    }
}

impl Preview {
    fn new(entry: Entry, schema_sql: Option<String>) -> Self {
        Self { report: PluginReport::from_entry(&entry), manifest: entry.about.manifest, schema_sql }
    }
}
