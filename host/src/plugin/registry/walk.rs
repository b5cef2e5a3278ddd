//! The walk of one plugin: each step takes what the one before has made sure of, and can end it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::time::timeout;

use super::snapshot::{Entry, InService};
use crate::{
    link::{KeeperLink, PluginDatabase},
    plugin::{
        active::Active,
        compat,
        connection::PluginPool,
        context::{PluginIdentity, Services},
        frontend::Bundle,
        instance::Instance,
        library::{Libraries, Library, SealedLibrary},
        manifest::{self, Manifest},
        package::{self, Package},
        preflight,
        probe::Prober,
        schema::{self, NoDatabase},
        settings,
        state::{Code, Refusal, State},
    },
};

/// A plugin's `routes` does no I/O; one that takes this long is stuck.
const CREATE_LIMIT: Duration = Duration::from_secs(10);

/// What became of a package when it was read.
pub struct Read {
    pub entry: Entry,
    /// There when nothing speaks against it so far.
    pub accepted: Option<Accepted>,
}

/// A package that may be loaded.
pub struct Accepted {
    pub package: Package,
    pub manifest: Manifest,
    pub frontend: Option<Arc<Bundle>>,
}

/// What loading needs of the host.
pub struct Step {
    pub services: Arc<Services>,
    pub libraries: Arc<Libraries>,
    pub link: KeeperLink,
    pub generation: u64,
    pub environment: Option<Value>,
    pub stored: Option<Value>,
}

/// Why a plugin is not in service.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The host could not do its part.
    #[error("{0}")]
    Failed(String),
}

impl Fault {
    pub fn note(self, entry: &mut Entry) {
        match self {
            Self::Refused(refusal) => {
                entry.state = State::Refused;
                entry.refusal = Some(refusal);
            }
            Self::Failed(failure) => {
                entry.state = State::Failed;
                entry.failure = Some(failure);
            }
        }
    }
}

/// Found → Read → Trusted → Preflighted → Compatible. No code of the plugin runs.
pub async fn read(path: PathBuf) -> Read {
    let label = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let read = tokio::task::spawn_blocking({
        let label = label.clone();
        move || judge(&path, &label)
    })
    .await;
    read.unwrap_or_else(|error| {
        tracing::error!(package = label, %error, "reading a plugin package broke down");
        let entry =
            Entry { failure: Some("The package could not be read.".to_owned()), ..blank(&label, State::Failed) };
        Read { entry, accepted: None }
    })
}

fn blank(label: &str, state: State) -> Entry {
    Entry {
        package: label.to_owned(),
        name: label.to_owned(),
        state,
        refusal: None,
        failure: None,
        sha256: None,
        manifest: None,
        warnings: Vec::new(),
        service: None,
    }
}

fn judge(path: &Path, label: &str) -> Read {
    let mut entry = blank(label, State::Discovered);
    match judge_into(path, &mut entry) {
        Ok(accepted) => {
            entry.state = State::Checked;
            Read { entry, accepted: Some(accepted) }
        }
        Err(refusal) => {
            tracing::warn!(package = entry.package, plugin = entry.name, %refusal, "the plugin is refused");
            entry.state = State::Refused;
            entry.refusal = Some(refusal);
            Read { entry, accepted: None }
        }
    }
}

fn judge_into(path: &Path, entry: &mut Entry) -> Result<Accepted, Refusal> {
    let package = package::read(path)?;
    entry.sha256 = Some(package.sha256.clone());
    if let Some(name) = manifest::name_hint(&package.manifest) {
        entry.name = name;
    }
    let (manifest, warnings) = Manifest::read(&package.manifest)?;
    entry.name.clone_from(&manifest.name);
    entry.manifest = Some(Arc::new(manifest.clone()));
    entry.warnings = warnings;
    preflight::check(&package.library)?;
    compat::check_engine(&manifest.engine, &compat::core_version(), &compat::api_version())?;
    let frontend = frontend(&package, &manifest)?;
    Ok(Accepted { package, manifest, frontend })
}

/// Probed → Loaded → Migrated → Created → Active.
pub async fn into_service(accepted: Accepted, step: Step) -> Result<InService, Fault> {
    let Accepted { package, manifest, frontend } = accepted;
    let settings =
        settings::resolve(manifest.settings_schema.as_ref(), step.environment.as_ref(), step.stored.as_ref())?;
    let sealed = SealedLibrary::seal(&package.library)
        .map_err(|error| Fault::Failed(format!("The library could not be copied: {error}.")))?;
    Prober::of_this_program().try_open(&sealed).await?;
    let library = open(Arc::clone(&step.libraries), sealed).await?;
    described(&library, &manifest)?;
    let database = schema::provision(&step.link, &manifest.name, &package.sha256).await.map_err(no_database)?;
    let identity = identity(&manifest, &step, settings, &database)?;
    let instance = create(library, Arc::clone(&step.services), identity).await?;
    let active = Arc::new(Active::build(manifest, instance, step.generation)?);
    Ok(InService { tools: active.tools()?, active, frontend, stored: step.stored })
}

/// The files that the Admin UI may load; a package without `frontend.main` has none.
fn frontend(package: &Package, manifest: &Manifest) -> Result<Option<Arc<Bundle>>, Refusal> {
    let Some(main) = &manifest.frontend_main else { return Ok(None) };
    Bundle::build(&manifest.name, main, package.frontend.clone()).map(Arc::new).map(Some)
}

async fn open(libraries: Arc<Libraries>, sealed: SealedLibrary) -> Result<Library, Fault> {
    let opened = tokio::task::spawn_blocking(move || libraries.open(sealed)).await;
    Ok(opened.map_err(|error| Fault::Failed(format!("Opening the library broke down: {error}.")))??)
}

/// The library says itself which plugin it is; a manifest of another build is found out here.
fn described(library: &Library, manifest: &Manifest) -> Result<(), Refusal> {
    let theirs = library.description();
    if theirs.name == manifest.name && theirs.version == manifest.version.to_string() {
        return Ok(());
    }
    Err(Refusal::new(Code::ManifestMismatch, "Manifest and library are not of the same build.")
        .expected(format!("{} {}", manifest.name, manifest.version))
        .found(format!("a library of {} {}", theirs.name, theirs.version)))
}

fn no_database(why: NoDatabase) -> Fault {
    match why {
        NoDatabase::Unavailable(reason) => Fault::Failed(reason),
        NoDatabase::Refused(refusal) => Fault::Refused(refusal),
    }
}

fn identity(
    manifest: &Manifest,
    step: &Step,
    settings: Value,
    database: &PluginDatabase,
) -> Result<PluginIdentity, Fault> {
    let size = usize::try_from(manifest.limits.db_connections).unwrap_or(1);
    let pool = PluginPool::open(database, size, &step.services.runtime)
        .map_err(|error| Fault::Failed(format!("The plugin's pool could not be made: {error:#}.")))?;
    Ok(PluginIdentity {
        name: manifest.name.clone(),
        version: manifest.version.to_string(),
        generation: step.generation,
        provides_kinds: manifest.provides_kinds.clone(),
        settings,
        pool: Some(pool),
    })
}

async fn create(library: Library, services: Arc<Services>, identity: PluginIdentity) -> Result<Instance, Fault> {
    let creating = tokio::task::spawn_blocking(move || Instance::create(&library, services, identity));
    match timeout(CREATE_LIMIT, creating).await {
        Ok(Ok(created)) => Ok(created?),
        Ok(Err(error)) => Err(Fault::Failed(format!("Making the plugin's instance broke down: {error}."))),
        Err(_) => Err(Refusal::new(Code::CreateFailed, "The plugin's `routes` function does not return.")
            .expected(format!("an answer within {CREATE_LIMIT:?}"))
            .into()),
    }
}
