//! The part of the walk that runs the plugin's code: tried in a child, opened, given its database,
//! made, and held against its manifest.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use serde_json::Value;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::spawn_blocking,
    time::timeout,
};
use uuid::Uuid;

use super::{
    candidate::{Candidate, PackageError},
    snapshot::{Service, Snapshot},
};
use crate::{
    active::Active,
    connection::{Mend, PluginPool},
    context::{PluginIdentity, Services},
    instance::Instance,
    library::{Description, Libraries, Library, SealedLibrary},
    probe,
    quarantine::Quarantine,
    schema::{self, NoDatabase},
};
use cardinal_base::clock::Clock;
use cardinal_control::{
    crash::{PluginTag, current, shm},
    link::KeeperLink,
};
use cardinal_database::log_failure;
use cardinal_observe::Telemetry;
use cardinal_package::{
    kept::Kept,
    manifest::Manifest,
    package::Package,
    state::{Code, Refusal},
};
use cardinal_store::plugin_service;

/// How long a plugin's `routes` function may take; it does no I/O.
const CREATE_LIMIT: Duration = Duration::from_secs(10);

/// Plugins whose code is tried, opened or made side by side. What waits for the database takes no turn.
const LOAD_AT_ONCE: usize = 4;
/// How long a load waits for its turn. Those before it may hang, and must not hold it up for longer.
const TURN_TIMEOUT: Duration = Duration::from_secs(1);

/// What loading takes.
pub(super) struct Loader {
    host: Uuid,
    pub services: Arc<Services>,
    keeper: KeeperLink,
    quarantine: Arc<Quarantine>,
    libraries: Arc<Libraries>,
    turns: Semaphore,
    generations: AtomicU64,
    telemetry: Arc<Telemetry>,
    pub kept: Arc<Kept>,
    clock: Clock,
}

impl Loader {
    pub(super) fn new(
        host: Uuid,
        services: Arc<Services>,
        keeper: KeeperLink,
        quarantine: Arc<Quarantine>,
        telemetry: Arc<Telemetry>,
        kept: Arc<Kept>,
        clock: Clock,
    ) -> io::Result<Self> {
        Ok(Self {
            host,
            telemetry,
            kept,
            clock,
            services,
            keeper,
            quarantine,
            libraries: Arc::default(),
            turns: Semaphore::new(LOAD_AT_ONCE),
            generations: AtomicU64::new(1),
        })
    }

    /// From bytes that were judged good to a plugin that can be called.
    pub(super) async fn load(&self, candidate: Candidate, settings: Value) -> Result<Service, PackageError> {
        let Candidate { manifest, sha256, package, frontend } = candidate;
        let mark = shm::enlist(&manifest.name, &manifest.version.to_string(), &sha256);
        let turn = self.turn().await;
        let library = self.open(package.library.clone(), &manifest, (mark, &sha256)).await?;
        same_plugin(&manifest, library.description())?;
        // Before it has a database: from here on nobody drops it.
        let added = plugin_service::add(&self.services.core, self.host, &manifest.name).await;
        added.map_err(|_| PackageError::Failed("The database is away.".to_owned()))?;
        drop(turn);
        let pool = self.database(&manifest, &sha256).await?;
        let _turn = self.turn().await;
        let generation = self.generations.fetch_add(1, Ordering::Relaxed);
        let identity = PluginIdentity {
            name: manifest.name.clone(),
            version: manifest.version.to_string(),
            mark,
            generation,
            provides_kinds: manifest.provides_kinds.clone(),
            settings: settings.clone(),
            pool: Some(pool),
        };
        let instance = self.create(library.clone(), identity).await?;
        let active = Arc::new(Active::build(manifest, instance, generation, &self.services, &self.telemetry)?);
        let tools = active.tools()?;
        let library = library.description().clone();
        self.keep(&active.manifest, package).await;
        Ok(Service { active, tools, frontend, library, sha256, settings })
    }

    /// A place among those that work side by side, or none when it takes too long to get one.
    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        timeout(TURN_TIMEOUT, self.turns.acquire()).await.ok()?.ok()
    }

    /// Tells the other hosts what is in service here.
    pub(super) async fn tell_in_service(&self, snapshot: &Snapshot) {
        let names: Vec<String> = snapshot.active().map(|active| active.manifest.name.clone()).collect();
        if let Err(error) = plugin_service::set(&self.services.core, self.host, &names).await {
            log_failure!(error, "the other hosts could not be told which plugins are in service here");
        }
    }

    /// What serves can be gone back to. That it could not be kept takes nothing out of service.
    async fn keep(&self, manifest: &Manifest, package: Arc<Package>) {
        let (kept, name, version) = (Arc::clone(&self.kept), manifest.name.clone(), manifest.version.clone());
        let now = self.clock.now();
        let done = spawn_blocking(move || kept.keep(&name, &version, &package, now)).await;
        if let Err(error) = done.map_err(io::Error::other).and_then(|done| done) {
            let plugin = &manifest.name;
            tracing::error!(plugin, %error, "the package could not be kept: there will be no way back to it");
        }
    }

    async fn open(
        &self,
        bytes: Bytes,
        manifest: &Manifest,
        (mark, sha256): (PluginTag, &str),
    ) -> Result<Library, PackageError> {
        let sealed = blocking(move || SealedLibrary::seal(&bytes)).await?;
        let sealed =
            sealed.map_err(|error| PackageError::Failed(format!("The library could not be copied: {error}")))?;
        if !self.quarantine.was_probed(sha256) {
            // What `routes` makes of the operator's settings is seen when it gets them.
            self.services.prober.try_out(&sealed, &manifest.default_settings()).await?;
            self.quarantine.probed(sha256);
        }
        let libraries = Arc::clone(&self.libraries);
        let opened = blocking(move || {
            let _entered = current::enter(mark);
            libraries.open(sealed)
        });
        let library = opened.await??;
        shm::located(mark, library.place());
        Ok(library)
    }

    async fn database(&self, manifest: &Manifest, sha256: &str) -> Result<PluginPool, PackageError> {
        let database = schema::provision(&self.keeper, &manifest.name, sha256).await.map_err(|why| match why {
            NoDatabase::Refused(refusal) => PackageError::Refused(refusal),
            NoDatabase::Unavailable(reason) => PackageError::Failed(format!("The plugin has no database: {reason}.")),
        })?;
        let size = usize::try_from(manifest.limits.db_connections).unwrap_or(1);
        let (keeper, name, sha256) = (self.keeper.clone(), manifest.name.clone(), sha256.to_owned());
        let mend = Mend::by(move || {
            let (keeper, name, sha256) = (keeper.clone(), name.clone(), sha256.clone());
            async move {
                let made = schema::provision(&keeper, &name, &sha256).await;
                if let Err(NoDatabase::Unavailable(reason)) = &made {
                    tracing::warn!(plugin = name, reason, "the plugin's database login was not put back");
                }
                made.is_ok()
            }
        });
        PluginPool::open(&database, size, &self.services.runtime, Some(mend))
            .map_err(|error| PackageError::Failed(format!("The plugin's connections could not be made: {error:#}")))
    }

    async fn create(&self, library: Library, identity: PluginIdentity) -> Result<Instance, PackageError> {
        let services = Arc::clone(&self.services);
        let create = blocking(move || Instance::create(&library, services, identity));
        match timeout(CREATE_LIMIT, create).await {
            Ok(created) => Ok(created??),
            // The thread is lost to it; should it come back, the instance is freed there.
            Err(_) => Err(probe::routes_hang(CREATE_LIMIT).into()),
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, PackageError> {
    spawn_blocking(work).await.map_err(|error| PackageError::Failed(format!("Loading it failed: {error}")))
}

fn same_plugin(manifest: &Manifest, library: &Description) -> Result<(), Refusal> {
    if library.name == manifest.name && library.version == manifest.version.to_string() {
        return Ok(());
    }
    Err(Refusal::new(Code::ManifestMismatch, "manifest.json is not the one that the library was built with.")
        .expected(format!("{} {}", library.name, library.version))
        .found(format!("{} {}", manifest.name, manifest.version)))
}
