//! What several parts of the application work with, and those parts made of it.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    audit::Audit,
    jobs::{self, Jobs},
    mcp::{self, confirmation::Confirmations},
};
use cardinal_base::{clock::Clock, config::Config, http_client::HttpClient, page::Cursors, seal::SealingKey};
use cardinal_database::pool::Pools;
use cardinal_identity::{
    auth::{Auth, oidc::Oidc, session_token::KeyRing},
    limit::Limits,
};
use cardinal_observe::{Telemetry, log::Log};
use cardinal_plugin_host::{context::Services, probe::Prober, registry::Registry, watchdog::Watchdog};
use cardinal_store::{catalogue::Catalogue, events::Events};

pub(super) struct SharedParts {
    pub pools: Pools,
    pub clock: Clock,
    pub audit: Arc<Audit>,
    pub catalogue: Arc<Catalogue>,
    pub events: Arc<Events>,
    pub cursors: Cursors,
    pub limits: Arc<Limits>,
    pub http: HttpClient,
}

impl SharedParts {
    pub(super) fn new(
        config: &Config,
        pools: Pools,
        clock: Clock,
        key_ring: &KeyRing,
        stop: &CancellationToken,
    ) -> anyhow::Result<Self> {
        let cursors = Cursors::new(key_ring.derive_key(b"list cursors"));
        Ok(Self {
            audit: Arc::new(Audit::new(pools.core.clone(), clock.clone())),
            catalogue: Arc::new(Catalogue::new(pools.core.clone(), cursors.clone(), clock.clone())),
            events: Arc::new(Events::new(pools.core.clone(), stop)),
            limits: Arc::new(Limits::new(config.auth.key_rate_per_minute)),
            http: HttpClient::new()?,
            pools,
            clock,
            cursors,
        })
    }

    /// What the host does for plugins.
    pub(super) fn plugin_services(&self, config: &Config, prober: Prober, log: &Log) -> anyhow::Result<Arc<Services>> {
        let runtime = tokio::runtime::Handle::current();
        Ok(Arc::new(Services {
            core: self.pools.core.clone(),
            catalogue: Arc::clone(&self.catalogue),
            events: Arc::clone(&self.events),
            execution: config.plugins.execution.clone(),
            prober,
            breaker: config.plugins.breaker.clone(),
            log: log.clone(),
            watchdog: Arc::new(Watchdog::start(runtime.clone())?),
            runtime,
            http: self.http.clone(),
            networks: config.plugins.networks.clone(),
        }))
    }

    /// Of what a person confirms.
    pub(super) fn confirmations(
        &self,
        config: &Config,
        key: &SealingKey,
        stop: &CancellationToken,
    ) -> Arc<Confirmations> {
        Arc::new(Confirmations::new(
            self.pools.core.clone(),
            Arc::clone(&self.audit),
            Arc::clone(&self.catalogue),
            key.clone(),
            config.mcp.confirm,
            &config.http.base_url,
            stop.child_token(),
        ))
    }

    pub(super) fn auth(&self, config: &Config, key_ring: KeyRing) -> anyhow::Result<Arc<Auth>> {
        let base_url = &config.http.base_url;
        let provider = Oidc::configured(&config.auth, base_url, &self.clock)?;
        let token_ttl = Duration::from_secs(u64::from(config.auth.token_ttl_hours) * 3600);
        let (pool, limits) = (self.pools.core.clone(), Arc::clone(&self.limits));
        let auth = Auth::new(pool, self.clock.clone(), key_ring, token_ttl, base_url, limits);
        Ok(Arc::new(auth.with_provider(provider)))
    }

    pub(super) fn jobs(&self, auth: &Arc<Auth>, plugins: &Arc<Registry>, host_id: Uuid) -> Arc<Jobs> {
        let services = jobs::Services {
            pool: self.pools.core.clone(),
            auth: Arc::clone(auth),
            plugins: Arc::clone(plugins),
            audit: Arc::clone(&self.audit),
            clock: self.clock.clone(),
        };
        Arc::new(Jobs::new(services, host_id))
    }

    /// What MCP's tools work with.
    pub(super) fn mcp_services(
        &self,
        config: &Config,
        plugins: &Arc<Registry>,
        jobs: &Arc<Jobs>,
        confirmations: &Arc<Confirmations>,
        telemetry: &Arc<Telemetry>,
        key: &SealingKey,
    ) -> mcp::Services {
        mcp::Services {
            registry: Arc::clone(plugins),
            cards: mcp::Cards {
                catalogue: Arc::clone(&self.catalogue),
                pool: self.pools.core.clone(),
                jobs: Arc::clone(jobs),
                audit: Arc::clone(&self.audit),
                exports: mcp::Exports::new(key.clone(), &config.http.base_url, self.clock.clone()),
            },
            calls: mcp::Calls { audit: Arc::clone(&self.audit), telemetry: Arc::clone(telemetry) },
            confirmations: Arc::clone(confirmations),
            limits: Arc::clone(&self.limits),
        }
    }
}
