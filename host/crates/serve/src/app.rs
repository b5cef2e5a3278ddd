//! Everything that the worker serves with, built once and in order. No globals.

mod shared;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::Context;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::shared::SharedParts;
use crate::http::error::ApiResult;
use crate::{
    audit::{Audit, AuditAction},
    check::LastCheck,
    client_errors::ClientErrors,
    http::{compression::Compression, cors::Origins, forwarded::UndeclaredProxies, host::Hosts, path::PLUGIN_PATHS},
    jobs::Jobs,
    mcp::{Mcp, confirmation::Confirmations},
    openapi::Documents,
    pictures::Pictures,
    proxy::{Proxy, stored::StoredRoutes},
    router::{self, Router},
    tls::Tls,
};
use cardinal_base::{
    clock::Clock, config::Config, http_client::HttpClient, page::Cursors, password, seal::SealingKey,
    secret_file::BOOTSTRAP_PASSWORD_FILE,
};
use cardinal_control::link::{FirstLogin, SupervisorLink, WorkerStart};
use cardinal_database::{log_failure, pool::Pools};
use cardinal_identity::{
    auth::{Auth, password::Hasher, session_token::KeyRing},
    limit::Limits,
};
use cardinal_observe::{Telemetry, log::Log, spans::Spans};
use cardinal_plugin_host::{
    probe::Prober,
    quarantine::Quarantine,
    registry::{HostIdentity, Registry},
};
use cardinal_store::{
    catalogue::Catalogue,
    events::{Events, stream_slots::StreamSlots},
    kinds::Kinds,
};

/// The application.
pub struct App {
    pub config: Config,
    pub base_url: String,
    pub clock: Clock,
    pub pools: Pools,
    pub audit: Arc<Audit>,
    pub auth: Arc<Auth>,
    pub limits: Arc<Limits>,
    pub catalogue: Arc<Catalogue>,
    pub events: Arc<Events>,
    pub cursors: Cursors,
    pub compression: Compression,
    pub origins: Origins,
    pub hosts: Hosts,
    pub undeclared_proxies: UndeclaredProxies,
    pub routes: Router<App>,
    pub plugins: Arc<Registry>,
    pub quarantine: Arc<Quarantine>,
    pub supervisor: SupervisorLink,
    pub mcp: Arc<Mcp>,
    pub confirmations: Arc<Confirmations>,
    pub proxy: Proxy,
    pub proxy_routes: StoredRoutes,
    pub kinds: Kinds,
    pub jobs: Arc<Jobs>,
    pub pictures: Pictures,
    /// Where the listeners speak TLS.
    pub tls: Option<Arc<Tls>>,
    /// For requests of the host's own.
    pub http: HttpClient,
    pub documents: Documents,
    pub client_errors: ClientErrors,
    pub last_check: LastCheck,
    /// Of plugins' lines.
    pub log_readers: Arc<StreamSlots>,
    pub telemetry: Arc<Telemetry>,
    pub log: Log,
    pub host_id: Uuid,
    /// The first user is there and the plugins have been walked through.
    pub ready: AtomicBool,
    pub draining: AtomicBool,
}

/// A row of the table of routes.
pub(crate) type Route = router::Route<App>;

/// What a worker is built of, beside its settings.
pub(crate) struct Parts {
    pub pools: Pools,
    pub clock: Clock,
    pub link: SupervisorLink,
    pub log: Log,
    pub prober: Prober,
    pub routes: Vec<Route>,
    pub tls: Option<Arc<Tls>>,
}

/// Who may read plugins' lines along at a time: on a host, and as one user.
const LOG_READERS: usize = 64;
const LOG_READERS_PER_USER: usize = 8;
const DEFAULT_USERNAME: &str = "admin";
const MIN_GOOD_PASSWORD_BYTES: usize = 8;

impl App {
    pub(crate) fn build(start: WorkerStart, parts: Parts, stop: &CancellationToken) -> anyhow::Result<Self> {
        let Parts { pools, clock, link, log, prober, routes, tls } = parts;
        let (config, host_id) = (start.config, start.host_id);
        let key_ring = KeyRing::derive([start.token_secret.expose().as_bytes()]);
        let key = SealingKey::import(&start.sealing_key).context("the supervisor sent no key for plugins' settings")?;
        let spans = Spans::new(config.observe.otlp_endpoint.is_some());
        let telemetry = Arc::new(Telemetry::new(clock.now(), start.worker_restarts, spans));
        let quarantine = Arc::new(Quarantine::new(start.crashes, start.probed, link.clone()));
        quarantine.replay(&log);

        let shared = SharedParts::new(&config, pools, clock, &key_ring, stop)?;
        let services = shared.plugin_services(&config, prober, &log)?;
        let identity = HostIdentity { host: host_id, key: key.clone() };
        let (kept_out, counted, clock) = (Arc::clone(&quarantine), Arc::clone(&telemetry), shared.clock.clone());
        let plugins = Arc::new(Registry::new(&config, identity, services, link.clone(), kept_out, clock, counted)?);
        let confirmations = shared.confirmations(&config, &key, stop);
        let auth = shared.auth(&config, key_ring)?;
        let jobs = shared.jobs(&auth, &plugins, host_id);
        let services = shared.mcp_services(&config, &plugins, &jobs, &confirmations, &telemetry, &key);
        let mcp = Arc::new(Mcp::new(services, Arc::clone(&auth), key, stop));

        let base_url = config.http.base_url.clone();
        let hosts = Hosts::new(&base_url, &config.http.allowed_hosts, &config.http.proxy_hosts);
        let shares_origin = !hosts.set_the_proxy_apart() && config.http.admin_listen_addr.is_none();
        let SharedParts { pools, clock, audit, catalogue, events, cursors, limits, http } = shared;
        Ok(Self {
            mcp,
            confirmations,
            jobs,
            pictures: Pictures::new(http.clone(), config.http.picture_networks.clone()),
            http,
            events,
            catalogue,
            cursors,
            plugins,
            quarantine,
            supervisor: link,
            host_id,
            ready: AtomicBool::new(false),
            audit,
            auth,
            limits,
            compression: Compression::default(),
            origins: Origins::new(&base_url, &config.http.cors_origins),
            proxy: Proxy::new(&config.proxy, host_id, shares_origin)?,
            proxy_routes: StoredRoutes::new(config.proxy.routes.clone()),
            kinds: Kinds::default(),
            documents: Documents::default(),
            client_errors: ClientErrors::default(),
            last_check: LastCheck::default(),
            log_readers: Arc::new(StreamSlots::new(LOG_READERS, LOG_READERS_PER_USER)),
            hosts,
            undeclared_proxies: UndeclaredProxies::default(),
            routes: Router::new(routes, &PLUGIN_PATHS, &telemetry.requests)?,
            telemetry,
            log,
            draining: AtomicBool::new(false),
            tls,
            config,
            base_url,
            clock,
            pools,
        })
    }

    /// Makes the first user when there is none. What is set later never overwrites one.
    pub(crate) async fn bootstrap(&self) -> anyhow::Result<()> {
        let pool = &self.pools.core;
        if cardinal_store::users::any(pool).await? {
            return Ok(());
        }
        let auth = &self.config.auth;
        let name = auth.bootstrap_username.as_deref().unwrap_or(DEFAULT_USERNAME);
        let (password, made_up) = match &auth.bootstrap_password {
            Some(password) => (password.clone(), false),
            None => (password::generate(), true),
        };
        if password.expose().len() < MIN_GOOD_PASSWORD_BYTES {
            tracing::warn!(
                "ADMIN_BOOTSTRAP_PASSWORD is shorter than {MIN_GOOD_PASSWORD_BYTES} bytes; change it after the first login"
            );
        }
        let hash = Hasher::default().hash(password.clone()).await?;
        // The file comes first: a password that nobody can read is worse than a file for nobody.
        let file = self.config.paths.data_dir.join(BOOTSTRAP_PASSWORD_FILE);
        if made_up {
            let left = self.supervisor.bootstrap_password(Some(password.clone())).await;
            left.context("writing the bootstrap password")?;
        }
        let id = Uuid::now_v7();
        let made = cardinal_store::users::bootstrap(pool, id, name, &hash).await?;
        if made {
            let actor = serde_json::json!({"kind": "host", "id": self.host_id, "name": "bootstrap"});
            self.audit.done_by(actor, None, String::new(), AuditAction::Bootstrap, Some(id.to_string()), None).await;
        }
        match (made, made_up) {
            (true, true) => {
                tracing::info!(username = name, file = %file.display(), "created the first user; its password is in \
                    the file");
            }
            (true, false) => tracing::info!(username = name, "created the first user"),
            // Another host on this database was first.
            (false, true) => drop(self.supervisor.bootstrap_password(None).await),
            (false, false) => {}
        }
        Ok(())
    }
}

impl App {
    /// A worker that was just started knows no plugins yet: waits for them, or for the one with this prefix alone, as
    /// others may take longer.
    pub(crate) async fn wait_for_plugins(&self, prefix: Option<&str>) {
        if !self.ready.load(Ordering::Acquire) {
            Box::pin(self.plugins.first_look(prefix)).await;
        }
    }

    /// How the user whom the first start made can log in now.
    pub(crate) async fn first_login(&self) -> ApiResult<Option<FirstLogin>> {
        let first = cardinal_store::users::first(&self.pools.core).await?;
        Ok(first.map(|user| FirstLogin {
            is_enabled: user.disabled_at.is_none(),
            username: user.username,
            password_hash: user.password_hash,
        }))
    }

    /// After a password was changed or an account removed: a first password that is not good any more is put away.
    pub(crate) async fn review_first_password(&self) {
        match self.first_login().await {
            Ok(Some(login)) => self.supervisor.first_login(login),
            Ok(None) => {}
            Err(error) => log_failure!(error, "failed to look up the first user"),
        }
    }
}
