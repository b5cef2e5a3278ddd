//! Everything that the worker serves with, built once and in order. No globals.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::http::error::ApiResult;
use crate::{
    audit::{Audit, AuditAction},
    client_errors::ClientErrors,
    http::{compression::Compression, cors::Origins, forwarded::UndeclaredProxies, host::Hosts, path::PLUGIN_PATHS},
    jobs::{self, Jobs},
    mcp::{self, Mcp, confirmation::Confirmations},
    openapi::Documents,
    pictures::Pictures,
    proxy::{Proxy, stored::StoredRoutes},
    router::{self, Router},
};
use cardinal_base::{
    clock::Clock, config::Config, http_client::HttpClient, page::Cursors, password, seal::SealingKey,
    secret_file::BOOTSTRAP_PASSWORD_FILE,
};
use cardinal_control::link::{FirstLogin, SupervisorLink, WorkerStart};
use cardinal_database::{log_failure, pool::Pools};
use cardinal_identity::{
    auth::{Auth, oidc::Oidc, password::Hasher, session_token::Ring},
    limit::Limits,
};
use cardinal_observe::{Telemetry, log::Log};
use cardinal_plugin_host::{
    context::Services,
    probe::Prober,
    quarantine::Quarantine,
    registry::{HostIdentity, Registry},
    watchdog::Watchdog,
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
    pub documents: Documents,
    pub client_errors: ClientErrors,
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
pub type Route = router::Route<App>;

/// What a worker is built of, beside its settings.
pub struct Parts {
    pub pools: Pools,
    pub clock: Clock,
    pub link: SupervisorLink,
    pub log: Log,
    pub prober: Prober,
    pub routes: Vec<Route>,
}

/// Who may read plugins' lines along at a time: on a host, and as one user.
const LOG_READERS: usize = 64;
const LOG_READERS_PER_USER: usize = 8;
const DEFAULT_USERNAME: &str = "admin";
const SHORTEST_GOOD_PASSWORD: usize = 8;

impl App {
    pub fn build(start: WorkerStart, parts: Parts, stop: &CancellationToken) -> anyhow::Result<Self> {
        let Parts { pools, clock, link, log, prober, routes } = parts;
        let config = start.config;
        let ring = Ring::derive([start.token_secret.expose().as_bytes()]);
        let base_url = config.http.base_url.clone();
        let limits = Arc::new(Limits::new(config.auth.key_rate_per_minute));
        let token_ttl = Duration::from_secs(u64::from(config.auth.token_ttl_hours) * 3600);
        let cursors = Cursors::new(ring.sibling(b"list cursors"));
        let catalogue = Arc::new(Catalogue::new(pools.core.clone(), cursors.clone(), clock.clone()));
        let audit = Arc::new(Audit::new(pools.core.clone(), clock.clone()));
        let events = Arc::new(Events::new(pools.core.clone(), stop));
        let http = HttpClient::new()?;
        let services = Arc::new(Services {
            core: pools.core.clone(),
            catalogue: Arc::clone(&catalogue),
            events: Arc::clone(&events),
            execution: config.plugins.execution.clone(),
            prober,
            breaker: config.plugins.breaker.clone(),
            log: log.clone(),
            watchdog: Arc::new(Watchdog::start(tokio::runtime::Handle::current())?),
            runtime: tokio::runtime::Handle::current(),
            http: http.clone(),
            networks: config.plugins.networks.clone(),
        });
        let provider = Oidc::configured(&config.auth, &base_url, &clock)?;
        let telemetry = Arc::new(Telemetry::new(clock.now(), start.worker_restarts));
        let quarantine = Arc::new(Quarantine::new(start.crashes, start.probed, link.clone()));
        quarantine.replay(&log);
        let key = SealingKey::import(&start.sealing_key).context("the supervisor sent no key for plugins' settings")?;
        let (quarantine_too, counted) = (Arc::clone(&quarantine), Arc::clone(&telemetry));
        let supervisor = link.clone();
        let own = HostIdentity { host: start.host_id, key: key.clone() };
        let plugins = Arc::new(Registry::new(&config, own, services, link, quarantine_too, clock.clone(), counted)?);
        let hosts = Hosts::new(&base_url, &config.http.allowed_hosts, &config.http.proxy_hosts);
        let shares_origin = !hosts.set_the_proxy_apart() && config.http.admin_listen_addr.is_none();
        let confirmations = Arc::new(Confirmations::new(
            pools.core.clone(),
            Arc::clone(&audit),
            Arc::clone(&catalogue),
            key.clone(),
            config.mcp.confirm,
            &base_url,
            stop.child_token(),
        ));
        let auth = Arc::new(
            Auth::new(pools.core.clone(), clock.clone(), ring, token_ttl, &base_url, Arc::clone(&limits))
                .with_provider(provider),
        );
        let jobs = jobs::Services {
            pool: pools.core.clone(),
            auth: Arc::clone(&auth),
            plugins: Arc::clone(&plugins),
            audit: Arc::clone(&audit),
            clock: clock.clone(),
        };
        let jobs = Arc::new(Jobs::new(jobs, start.host_id));
        let services = mcp::Services {
            registry: Arc::clone(&plugins),
            cards: mcp::Cards {
                catalogue: Arc::clone(&catalogue),
                pool: pools.core.clone(),
                jobs: Arc::clone(&jobs),
                audit: Arc::clone(&audit),
                exports: mcp::Exports::new(key.clone(), &base_url, clock.clone()),
            },
            calls: mcp::Calls { audit: Arc::clone(&audit), telemetry: Arc::clone(&telemetry) },
            confirmations: Arc::clone(&confirmations),
        };
        Ok(Self {
            mcp: Arc::new(Mcp::new(services, Arc::clone(&auth), key, stop)),
            confirmations,
            jobs,
            pictures: Pictures::new(http, config.http.picture_networks.clone()),
            events,
            catalogue,
            cursors,
            plugins,
            quarantine,
            supervisor,
            host_id: start.host_id,
            ready: AtomicBool::new(false),
            audit,
            auth,
            limits,
            compression: Compression::default(),
            origins: Origins::new(&base_url, &config.http.cors_origins),
            proxy: Proxy::new(&config.proxy, start.host_id, shares_origin)?,
            proxy_routes: StoredRoutes::new(config.proxy.routes.clone()),
            kinds: Kinds::default(),
            documents: Documents::default(),
            client_errors: ClientErrors::default(),
            log_readers: Arc::new(StreamSlots::new(LOG_READERS, LOG_READERS_PER_USER)),
            hosts,
            undeclared_proxies: UndeclaredProxies::default(),
            routes: Router::new(routes, &PLUGIN_PATHS, &telemetry.requests)?,
            telemetry,
            log,
            draining: AtomicBool::new(false),
            config,
            base_url,
            clock,
            pools,
        })
    }

    /// Makes the first user when there is none. What is set later never overwrites one.
    pub async fn bootstrap(&self) -> anyhow::Result<()> {
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
        if password.expose().len() < SHORTEST_GOOD_PASSWORD {
            tracing::warn!(
                "ADMIN_BOOTSTRAP_PASSWORD is shorter than {SHORTEST_GOOD_PASSWORD} bytes; change it after the first login"
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
                tracing::info!(username = name, file = %file.display(), "the first user was made; its password is in the file");
            }
            (true, false) => tracing::info!(username = name, "the first user was made"),
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
    pub async fn wait_for_plugins(&self, prefix: Option<&str>) {
        if !self.ready.load(Ordering::Acquire) {
            Box::pin(self.plugins.first_look(prefix)).await;
        }
    }

    /// How the user whom the first start made can log in now.
    pub async fn first_login(&self) -> ApiResult<Option<FirstLogin>> {
        let first = cardinal_store::users::first(&self.pools.core).await?;
        Ok(first.map(|user| FirstLogin {
            is_enabled: user.disabled_at.is_none(),
            username: user.username,
            password_hash: user.password_hash,
        }))
    }

    /// After a password was changed or an account removed: a first password that is not good any more is put away.
    pub async fn review_first_password(&self) {
        match self.first_login().await {
            Ok(Some(login)) => self.supervisor.first_login(login),
            Ok(None) => {}
            Err(error) => log_failure!(error, "the first user could not be looked up"),
        }
    }
}
