//! Every plugin's walk as far as it goes without activating anything: for `cardinal check`. No plugin's code runs in this
//! process, and no schema.sql at all.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;
use tokio::task::spawn_blocking;

use super::{
    candidate::{self, FoundPackage},
    claims::{Ready, Step},
    policy::{self, Policy},
    read::packages,
    report::PluginReport,
    snapshot::{Before, Entry, Snapshot},
};
use crate::{agreement, library::SealedLibrary, probe::Prober, quarantine::Quarantine};
use cardinal_base::{
    clock::Clock,
    config::{Config, Secret},
    seal::SealingKey,
};
use cardinal_control::crash::history::CrashHistory;
use cardinal_package::{
    compat::Claims,
    kept::Kept,
    manifest::Manifest,
    signature::Keys,
    state::{Code, Refusal, State},
};
use cardinal_store::plugin_state::PluginState;

/// What an operator and the past have decided about plugins.
#[derive(Default)]
pub struct Decided {
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
pub async fn preview(config: &Config, decided: Decided) -> Vec<Preview> {
    let folder = config.paths.plugins_dir.clone();
    let keys = config.plugins.trust_keys.clone();
    let looked = spawn_blocking(move || (packages(&folder), Keys::load(&keys))).await;
    let (listed, keys) = match looked {
        Ok((listed, keys)) => (listed, keys),
        Err(error) => {
            tracing::error!(%error, "looking into the plugins folder failed");
            return Vec::new();
        }
    };
    let (paths, refusal) = match listed {
        Ok((_, paths, refusal)) => (paths, refusal),
        Err(error) => {
            tracing::warn!(folder = %config.paths.plugins_dir.display(), %error, "there is no plugins folder");
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for path in paths {
        let (at, refusal, keys) = (path.clone(), refusal.clone(), keys.clone());
        let read = spawn_blocking(move || candidate::inspect(&at, refusal, &keys)).await;
        found.push(read.unwrap_or_else(|error| FoundPackage::broken(&path, &error)));
    }
    let quarantine = Arc::new(Quarantine::read_only(decided.crashes));
    let key = decided.key.unwrap_or_else(|| SealingKey::derive(&Secret::new("")));
    let policy = Policy::new(
        &config.plugins,
        None,
        key,
        Clock::System,
        quarantine,
        Arc::new(Kept::open(&config.paths.data_dir)),
    );
    let snapshot = Snapshot::default();
    let decided = policy::Decided { states: decided.states, owners: decided.owners, ..policy::Decided::default() };
    let before = Before::new(&snapshot, &found);
    let steps = policy.decide(found, &decided, &before, None).await;
    let mut claims = Claims::default();
    let mut previews = Vec::new();
    for step in steps {
        previews.push(match step {
            Step::Done(entry) | Step::Keep(entry) => Preview::new(entry, None),
            Step::Try(ready) => go_on(*ready, &mut claims).await,
        });
    }
    previews
}

/// Collisions and the probe, for a package that is good by itself.
async fn go_on(ready: Ready, claims: &mut Claims) -> Preview {
    let Ready { about, candidate, settings, .. } = ready;
    if let Err(refusal) = claims.take(&candidate.manifest, &about.origin) {
        return Preview::new(Entry::ended(about, refusal.into()), None);
    }
    if let Err(refusal) = try_out(candidate.package.library.clone(), &candidate.manifest, &settings).await {
        claims.release(&candidate.manifest);
        return Preview::new(Entry::ended(about, refusal.into()), None);
    }
    let schema_sql = candidate.package.schema_sql.clone().unwrap_or_default();
    Preview::new(Entry::at(about, State::Checked), Some(schema_sql))
}

async fn try_out(library: bytes::Bytes, manifest: &Manifest, settings: &Value) -> Result<(), Refusal> {
    let sealed = spawn_blocking(move || SealedLibrary::seal(&library)).await;
    let sealed = sealed.map_err(std::io::Error::other).and_then(|it| it).map_err(|error| {
        Refusal::new(Code::ProbeFailed, "The library could not be copied.").found(error.to_string())
    })?;
    let defaults = manifest.default_settings();
    match Prober::of_this_program().try_out(&sealed, &defaults).await?.exports {
        Ok(exports) => agreement::check(manifest, &exports),
        // With the operator's settings its `routes` may do better.
        Err(_) if settings.as_object() != Some(&defaults) => Ok(()),
        Err(refusal) => Err(refusal),
    }
}

impl Preview {
    fn new(entry: Entry, schema_sql: Option<String>) -> Self {
        Self { report: PluginReport::from_entry(&entry), manifest: entry.about.manifest, schema_sql }
    }
}
