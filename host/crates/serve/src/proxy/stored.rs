//! Routes that are set at run time: kept in the database, brought to every host that shares it.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::Mutex;

use super::Proxy;
use crate::http::error::{ApiError, ApiResult};
use cardinal_base::config::ProxyRoute;
use cardinal_database::pool::Pool;
use cardinal_store::{
    cards::Precondition,
    proxy_routes::{self, ProxyRouteRow, ProxyRoutesRecord},
};

/// How often a host looks whether another one has changed them; the contract allows 5 s.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);

/// The routes of `PROXY_ROUTES`, and which version of the stored ones is in force beside them.
pub struct StoredRoutes {
    settings: Vec<ProxyRoute>,
    /// Held from a read of the table until what was read is in force: of two of these, the older never comes last.
    in_force: Mutex<i64>,
}

impl StoredRoutes {
    pub(crate) fn new(settings: Vec<ProxyRoute>) -> Self {
        Self { settings, in_force: Mutex::new(0) }
    }

    /// The stored routes as they are now, which are then in force here.
    pub(crate) async fn read(&self, pool: &Pool, proxy: &Proxy) -> ApiResult<ProxyRoutesRecord> {
        let mut in_force = self.in_force.lock().await;
        let stored = proxy_routes::get(pool).await?;
        if stored.version != *in_force {
            self.put_in_force(proxy, &stored)?;
            *in_force = stored.version;
        }
        Ok(stored)
    }

    /// Stores `lines` in the place of all others; gives what was there before and what is there now.
    pub(crate) async fn replace(
        &self,
        pool: &Pool,
        proxy: &Proxy,
        lines: Vec<ProxyRouteRow>,
        precondition: &Precondition,
        by: &Value,
    ) -> ApiResult<(ProxyRoutesRecord, ProxyRoutesRecord)> {
        let mut in_force = self.in_force.lock().await;
        let (before, version) = proxy_routes::replace(pool, &lines, precondition, by).await?;
        let stored = ProxyRoutesRecord { version, lines };
        self.put_in_force(proxy, &stored)?;
        *in_force = version;
        Ok((before, stored))
    }

    /// Follows what other hosts set, while this one lives.
    pub(crate) async fn follow(&self, pool: &Pool, proxy: &Proxy) {
        let mut every = tokio::time::interval(REFRESH_INTERVAL);
        loop {
            every.tick().await;
            if let Err(error) = self.look(pool, proxy).await {
                tracing::debug!(error = ?error, "failed to read the stored proxy routes; the current ones stay");
            }
        }
    }

    async fn look(&self, pool: &Pool, proxy: &Proxy) -> ApiResult<()> {
        let version = proxy_routes::version(pool).await?;
        if version == *self.in_force.lock().await {
            return Ok(());
        }
        let stored = self.read(pool, proxy).await?;
        tracing::info!(version = stored.version, routes = stored.lines.len(), "the proxy routes have changed");
        proxy.warn_of_shared_origin();
        Ok(())
    }

    fn put_in_force(&self, proxy: &Proxy, stored: &ProxyRoutesRecord) -> ApiResult<()> {
        let mut routes = self.settings.clone();
        for line in &stored.lines {
            if routes.iter().any(|route| route.prefix == line.prefix) {
                tracing::warn!(prefix = line.prefix, "a stored proxy route stands behind one of PROXY_ROUTES");
                continue;
            }
            // Another version of the host may have stored what this one does not take.
            match ProxyRoute::parse(&line.prefix, &line.upstream) {
                Ok(route) => routes.push(route),
                Err(error) => tracing::error!(prefix = line.prefix, error, "a stored proxy route is not valid"),
            }
        }
        proxy.set_routes(&routes).map_err(ApiError::internal)
    }
}
