//! The stages that run the plugin's code, each made from the one before: `Approved` → [`Probed`] → [`Loaded`] →
//! [`Migrated`] → [`Created`] → `Active`.

use std::{
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::spawn_blocking,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    candidate::{Candidate, PackageError},
    entry::Service,
    policy::Approved,
    snapshot::Snapshot,
};
use crate::{
    active::Active,
    connection::{LoginRepair, PluginPool},
    context::{PluginIdentity, Services},
    instance::Instance,
    library::{Description, Libraries, Library, SealedLibrary},
    probe::{self, Priority},
    quarantine::Quarantine,
    schema::{self, ProvisionError},
    settings::{self, quoted::Secrets},
};
use cardinal_base::{clock::Clock, memory};
use cardinal_control::{
    crash::{self, PluginTag, current, shm},
    link::SupervisorLink,
};
use cardinal_database::log_failure;
use cardinal_observe::Telemetry;
use cardinal_package::{kept::KeptPackages, manifest::Manifest, refusal::Refusal, stages};
use cardinal_store::plugins;

/// How long a plugin's `routes` function may take; it does no I/O.
const CREATE_LIMIT: Duration = Duration::from_secs(10);

/// How often is looked whether a library still opens.
const OPENING_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Plugins whose code is opened or made side by side. What waits for the database takes no turn, nor does what is tried
/// in a process of its own (`probe/lanes.rs`).
const MAX_LOADS: usize = 4;
/// How long a load waits for its turn. Those before it may hang, and must not hold it up for longer.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(1);

/// What is said of a load whose outcome nobody wants any more.
const SUPERSEDED: &str = "Another version, or other settings, are loaded in its place.";

/// A candidate whose library opened in a process of its own: now, or earlier with the same content.
struct Probed {
    candidate: Candidate,
    tag: PluginTag,
    sealed: SealedLibrary,
}

/// A candidate whose library is open in this process and is the manifest's.
struct Loaded {
    candidate: Candidate,
    tag: PluginTag,
    library: Library,
}

/// One whose roles and schema are there, by its schema.sql.
struct Migrated {
    loaded: Loaded,
    pool: PluginPool,
}

/// One whose instance is made and takes no calls yet.
struct Created {
    candidate: Candidate,
    settings: Value,
    library: Library,
    instance: Instance,
    generation: u64,
}

/// What loading takes.
pub(super) struct Loader {
    host: Uuid,
    pub services: Arc<Services>,
    supervisor: SupervisorLink,
    quarantine: Arc<Quarantine>,
    libraries: Arc<Libraries>,
    permits: Semaphore,
    generations: AtomicU64,
    telemetry: Arc<Telemetry>,
    pub kept: Arc<KeptPackages>,
    clock: Clock,
}

impl Loader {
    pub(super) fn new(
        host: Uuid,
        services: Arc<Services>,
        supervisor: SupervisorLink,
        quarantine: Arc<Quarantine>,
        telemetry: Arc<Telemetry>,
        kept: Arc<KeptPackages>,
        clock: Clock,
    ) -> io::Result<Self> {
        Ok(Self {
            host,
            telemetry,
            kept,
            clock,
            services,
            supervisor,
            quarantine,
            libraries: Arc::default(),
            permits: Semaphore::new(MAX_LOADS),
            generations: AtomicU64::new(1),
        })
    }

    /// From an approved candidate to a plugin that can be called. The turn is given back while the database works.
    /// Once it is superseded, its library is not tried any longer.
    pub(super) async fn load(
        &self,
        approved: Approved,
        superseded: &CancellationToken,
    ) -> Result<Service, PackageError> {
        let Approved { candidate, settings, sealed, priority, .. } = approved;
        let manifest = candidate.manifest();
        let (name, schema) = (manifest.name.clone(), manifest.settings_schema.clone());
        let tag = shm::register(&manifest.name, &manifest.version.to_string(), candidate.sha256());
        let probed = superseded.run_until_cancelled(self.probe(candidate, tag, priority)).await;
        let Some(probed) = probed else { return Err(PackageError::Failed(SUPERSEDED.to_owned())) };
        let probed = probed?;
        let permit = self.acquire_permit(&name).await;
        let loaded = self.open(probed).await?;
        // Before it has a database: from here on a purge is refused.
        let added = plugins::service::add(&self.services.core, self.host, &loaded.candidate.manifest().name).await;
        added.map_err(|_| PackageError::Failed("The database is unreachable.".to_owned()))?;
        drop(permit);
        let migrated = self.migrate(loaded).await?;
        let _permit = self.acquire_permit(&name).await;
        let made = self.serve(migrated, settings.clone()).await;
        // From here on it has the operator's settings, and may quote them.
        made.map_err(|error| error.without(|| Secrets::from_settings(schema.as_ref(), [&settings], &sealed)))
    }

    async fn serve(&self, migrated: Migrated, settings: Value) -> Result<Service, PackageError> {
        self.activate(self.create(migrated, settings).await?).await
    }

    /// A place among those that work side by side. A load that does not get one in time goes on without.
    async fn acquire_permit(&self, plugin: &str) -> Option<SemaphorePermit<'_>> {
        let permit = timeout(PERMIT_TIMEOUT, self.permits.acquire()).await.ok().and_then(Result::ok);
        if permit.is_none() {
            tracing::info!(plugin, at_once = MAX_LOADS, "loading a plugin out of turn: others take long to load");
        }
        permit
    }

    /// Tells the other hosts what is in service here.
    pub(super) async fn announce_in_service(&self, snapshot: &Snapshot) {
        let names: Vec<String> = snapshot.active().map(|active| active.manifest.name.clone()).collect();
        if let Err(error) = plugins::service::set(&self.services.core, self.host, &names).await {
            log_failure!(error, "failed to record for the other hosts which plugins are in service here");
        }
    }

    /// What serves can be gone back to. That it could not be kept takes nothing out of service.
    async fn keep(&self, candidate: Candidate) {
        let (kept, now, plugin) = (Arc::clone(&self.kept), self.clock.now(), candidate.manifest().name.clone());
        let done = spawn_blocking(move || {
            let Manifest { name, version, .. } = candidate.manifest();
            kept.keep(name, version, candidate.package(), now)
        });
        if let Err(error) = done.await.map_err(io::Error::other).and_then(|done| done) {
            tracing::error!(plugin, %error, "failed to keep the package: rolling back to it will not be possible");
        }
    }

    /// Seals a private copy of the library, and opens that in a process of its own if this content was never tried.
    async fn probe(&self, candidate: Candidate, tag: PluginTag, priority: Priority) -> Result<Probed, PackageError> {
        let bytes = candidate.package().library.clone();
        let sealed = blocking(move || SealedLibrary::seal(&bytes)).await?;
        let sealed =
            sealed.map_err(|error| PackageError::Failed(format!("The library could not be copied: {error}")))?;
        if !self.quarantine.was_probed(candidate.sha256()) {
            // What `routes` makes of the operator's settings is seen when it gets them.
            let defaults = candidate.manifest().default_settings();
            self.services.prober.try_out(sealed.fd(), &defaults, priority).await?;
            self.quarantine.probed(candidate.sha256());
        }
        Ok(Probed { candidate, tag, sealed })
    }

    async fn open(&self, Probed { candidate, tag, sealed }: Probed) -> Result<Loaded, PackageError> {
        let libraries = Arc::clone(&self.libraries);
        let mut opened = pin!(blocking(move || {
            let _entered = current::enter(tag);
            libraries.open(sealed, tag)
        }));
        let library = loop {
            match timeout(OPENING_CHECK_INTERVAL, &mut opened).await {
                Ok(opened) => break opened??,
                Err(_) => self.end_if_loader_is_held(),
            }
        };
        shm::located(tag, library.place());
        memory::stays_mapped(library.place());
        same_plugin(candidate.manifest(), library.description())?;
        Ok(Loaded { candidate, tag, library })
    }

    /// A library may hang here that did not where it was tried, and hold what others need: in no other process is it
    /// opened beside them.
    fn end_if_loader_is_held(&self) {
        if let Some(tag) = self.libraries.opening_for(probe::TIME_LIMIT) {
            let plugin = shm::plugin_name(tag);
            tracing::error!(plugin, "the library does not finish opening in the worker, which ends");
            crash::end_for_opening(tag);
        }
    }

    async fn migrate(&self, loaded: Loaded) -> Result<Migrated, PackageError> {
        let (manifest, sha256) = (loaded.candidate.manifest(), loaded.candidate.sha256());
        let database = schema::provision(&self.supervisor, &manifest.name, sha256).await.map_err(|why| match why {
            ProvisionError::Refused(refusal) => PackageError::Refused(refusal),
            ProvisionError::Unavailable(reason) => {
                PackageError::Failed(format!("The plugin has no database: {reason}."))
            }
        })?;
        let size = usize::try_from(manifest.limits.db_connections).unwrap_or(1);
        let (supervisor, name, sha256) = (self.supervisor.clone(), manifest.name.clone(), sha256.to_owned());
        let login_repair = LoginRepair::by(move || {
            let (supervisor, name, sha256) = (supervisor.clone(), name.clone(), sha256.clone());
            async move {
                let made = schema::provision(&supervisor, &name, &sha256).await;
                if let Err(ProvisionError::Unavailable(reason)) = &made {
                    tracing::warn!(plugin = name, reason, "failed to restore the plugin's database login");
                }
                made.is_ok()
            }
        });
        let pool = PluginPool::open(&database, size, &self.services.runtime, Some(login_repair)).map_err(|error| {
            PackageError::Failed(format!(
                "The plugin's database connections could not be set up: \
                {error:#}"
            ))
        })?;
        Ok(Migrated { loaded, pool })
    }

    async fn create(&self, migrated: Migrated, settings: Value) -> Result<Created, PackageError> {
        let Migrated { loaded: Loaded { candidate, tag, library }, pool } = migrated;
        let generation = self.generations.fetch_add(1, Ordering::Relaxed);
        let manifest = candidate.manifest();
        let identity = PluginIdentity {
            name: manifest.name.clone(),
            version: manifest.version.to_string(),
            tag,
            generation,
            provides_kinds: manifest.provides_kinds.clone(),
            jobs: manifest.jobs().to_vec(),
            opens_private_networks: settings::open_private_networks(manifest.settings_schema.as_ref(), &settings),
            settings: settings.clone(),
            pool: Some(pool),
        };
        let (services, opened) = (Arc::clone(&self.services), library.clone());
        let create = blocking(move || Instance::create(&opened, services, identity));
        let instance = match timeout(CREATE_LIMIT, create).await {
            Ok(created) => created??,
            // The thread is lost to it; should it come back, the instance is freed there.
            Err(_) => return Err(probe::routes_hang(CREATE_LIMIT).into()),
        };
        Ok(Created { candidate, settings, library, instance, generation })
    }

    /// Holds what the instance exports against the manifest, and keeps the package.
    async fn activate(&self, created: Created) -> Result<Service, PackageError> {
        let Created { candidate, settings, library, instance, generation } = created;
        let manifest = candidate.manifest().clone();
        let active = Arc::new(Active::build(manifest, instance, generation, &self.services, &self.telemetry)?);
        let (tools, jobs, frontend) = (active.tools()?, active.jobs()?, candidate.frontend());
        let sha256 = candidate.sha256().to_owned();
        self.keep(candidate).await;
        Ok(Service { active, tools, jobs, frontend, library: library.description().clone(), sha256, settings })
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, PackageError> {
    spawn_blocking(work).await.map_err(|error| PackageError::Failed(format!("Loading it failed: {error}")))
}

fn same_plugin(manifest: &Manifest, library: &Description) -> Result<(), Refusal> {
    if library.name == manifest.name && library.version == manifest.version.to_string() {
        return Ok(());
    }
    let expected = format!("{} {}", library.name, library.version);
    let found = format!("{} {}", manifest.name, manifest.version);
    Err(stages::other_manifest(expected, found))
}
