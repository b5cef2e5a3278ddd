//! Plugins whose threads are all held by calls that were given up. A plugin gets fresh threads once; when
//! those are held, too, it is reloaded, and the second time within ten minutes it is set aside.

use std::{collections::HashSet, sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{Registry, entry::Service};
use crate::lane::Relief;
use cardinal_control::crash::record::{ActivePlugin, Cause, Crash, Culprit};

/// How often the threads of plugins are looked at.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

impl Registry {
    /// Looks after plugins that are stuck, as long as the worker lives.
    pub async fn relieve_stuck(self: Arc<Self>) {
        // Generations that something was done about; one for each time, so they stay few.
        let mut done = HashSet::new();
        loop {
            sleep(LOOK_PAUSE).await;
            let stuck = self.snapshot().services().find_map(|service| {
                let active = &service.active;
                let Relief::Exhausted(handlers) = active.instance.relieve() else { return None };
                (!done.contains(&active.generation)).then(|| (Arc::clone(service), handlers))
            });
            if let Some((service, handlers)) = stuck {
                done.insert(service.active.generation);
                let registry = Arc::clone(&self);
                // Another one may be stuck while this one is loaded.
                tokio::spawn(async move { registry.replace_stuck(&service, &handlers).await });
            }
        }
    }

    async fn replace_stuck(&self, service: &Service, handlers: &[u32]) {
        let plugin = &service.active.manifest.name;
        if self.policy.quarantine.blocked(self.blocked(service, handlers)) {
            tracing::error!(plugin, "a plugin holds all its threads again and is set aside until it is released");
            return self.apply_to(plugin).await;
        }
        tracing::error!(plugin, "a plugin holds all its threads, the fresh ones included; it is reloaded");
        if let Err(error) = self.reload(plugin).await {
            tracing::error!(plugin, error = ?error, "failed to reload a plugin that holds all its threads");
        }
    }

    /// What the journal keeps of it.
    fn blocked(&self, service: &Service, handlers: &[u32]) -> Crash {
        let active = &service.active;
        let (name, version) = (active.manifest.name.clone(), active.manifest.version.to_string());
        let sha256 = service.sha256.clone();
        let handler = handlers.first().map(|handler| active.instance.handler_name(*handler).to_owned());
        let calls = active.instance.in_flight();
        let under_way = ActivePlugin { plugin: name.clone(), version: version.clone(), sha256: sha256.clone(), calls };
        Crash {
            at: self.clock.now(),
            cause: Cause::Blocked,
            ended: "the worker goes on".to_owned(),
            plugin: Some(Culprit { name, version, sha256, handler, offset: None }),
            thread: None,
            in_flight: vec![under_way],
            running: Vec::new(),
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }
}
