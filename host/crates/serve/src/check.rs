//! Whether a host is well: what both `cardinal check` and a worker can look at, because it takes no credential beyond
//! the worker's own. What takes the owner's (roles, migrations, walls between plugins), or opens packages, stays with
//! the command.

pub mod finding;
pub mod machine;
pub mod provider;
pub mod proxy;
pub mod settings;
pub mod tls;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use schemars::JsonSchema;
use serde::Serialize;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::sync::Mutex;

use cardinal_base::{
    config::{Certificate, Config},
    schema::DateTime,
};
use cardinal_store::proxy_routes::ProxyRouteRow;
use finding::{Counts, Finding};
use machine::Asker;

/// Upstreams and the identity provider are asked no more often, however many people look.
const MIN_PAUSE: Duration = Duration::from_secs(10);

/// What a worker has found of its own host.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct SystemCheck {
    pub host_id: uuid::Uuid,
    #[schemars(with = "DateTime")]
    pub checked_at: String,
    /// No finding is an error.
    pub ok: bool,
    pub counts: Counts,
    pub findings: Vec<Finding>,
}

impl SystemCheck {
    pub(crate) async fn make(
        config: &Config,
        certificate: Option<&Certificate>,
        stored: &[ProxyRouteRow],
        host_id: uuid::Uuid,
        now: OffsetDateTime,
    ) -> Result<Self, time::error::Format> {
        let (provider, proxied) = tokio::join!(provider::check(config), proxy::check(config, stored));
        let mut findings = settings::check(config);
        findings.extend(machine::check(config, Asker::Worker));
        findings.extend(
            certificate.into_iter().flat_map(|certificate| tls::check(certificate, &config.http.base_url, now)),
        );
        findings.extend(provider);
        findings.extend(proxied);
        let counts = Counts::from_findings(&findings);
        let checked_at = now.format(&Rfc3339)?;
        Ok(Self { host_id, checked_at, ok: counts.error == 0, counts, findings })
    }
}

/// The last check. Whoever asks while another is made waits for it.
#[derive(Debug, Default)]
pub struct LastCheck(Mutex<Option<(Instant, Arc<SystemCheck>)>>);

impl LastCheck {
    /// The last one while it is fresh, else another.
    pub(crate) async fn read<E>(
        &self,
        make: impl Future<Output = Result<SystemCheck, E>>,
    ) -> Result<Arc<SystemCheck>, E> {
        let mut last = self.0.lock().await;
        if let Some((made, check)) = &*last
            && made.elapsed() < MIN_PAUSE
        {
            return Ok(Arc::clone(check));
        }
        let check = Arc::new(make.await?);
        *last = Some((Instant::now(), Arc::clone(&check)));
        Ok(check)
    }
}
