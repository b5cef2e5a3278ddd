//! The events of this host's plugins: `plugin.changed` and `plugin.removed`.

use std::collections::BTreeMap;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::registry::{PluginReport, Registry};
use cardinal_database::pool::Pool;
use cardinal_package::state::State;
use cardinal_store::{
    event_log::event::{Event, Topic},
    events,
};

/// Name and package: two packages may claim one name.
type PackageKey = (String, String);

/// What a plugin is worth looking at again for.
#[derive(Clone, Debug, PartialEq)]
struct PluginStatus {
    state: State,
    version: Option<String>,
    sha256: Option<String>,
    generation: Option<u64>,
    reason: Option<String>,
    code: Option<&'static str>,
    warnings: Vec<String>,
}

/// Tells of every change until the host stops. That plugins leave when it does is no news of theirs.
pub async fn publish(registry: &Registry, pool: &Pool, host_id: Uuid, stop: &CancellationToken) {
    let mut changes = registry.changes();
    let mut known = BTreeMap::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
        let now = statuses(registry.reports());
        if stop.is_cancelled() {
            return;
        }
        for event in between(&known, &now, host_id) {
            events::raise(pool, &event).await;
        }
        known = now;
    }
}

fn statuses(reports: Vec<PluginReport>) -> BTreeMap<PackageKey, PluginStatus> {
    let status = |report: PluginReport| {
        let status = PluginStatus {
            state: report.state,
            version: report.version,
            sha256: report.sha256,
            generation: report.generation,
            reason: report.reason,
            code: report.refusal.map(|refusal| refusal.code.as_str()),
            warnings: report.warnings,
        };
        ((report.name, report.package), status)
    };
    // What was taken out of the folder is still shown for a while; it is gone all the same.
    reports.into_iter().filter(|report| report.state != State::Retired).map(status).collect()
}

fn between(
    before: &BTreeMap<PackageKey, PluginStatus>,
    now: &BTreeMap<PackageKey, PluginStatus>,
    host_id: Uuid,
) -> Vec<Event> {
    let gone = before.keys().filter(|key| !now.contains_key(*key)).map(|(name, package)| {
        Event::new(Topic::Plugin, "removed", json!({"name": name, "package": package, "host_id": host_id}))
    });
    let changed = now.iter().filter(|(key, status)| before.get(*key) != Some(status)).map(|(key, status)| {
        let data = json!({
            "name": key.0,
            "package": key.1,
            "state": status.state,
            "was": before.get(key).map(|before| before.state),
            "version": status.version,
            "code": status.code,
            "host_id": host_id,
        });
        Event::new(Topic::Plugin, "changed", data)
    });
    gone.chain(changed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(state: State, version: &str) -> PluginStatus {
        let version = Some(version.to_owned());
        PluginStatus { state, version, sha256: None, generation: None, reason: None, code: None, warnings: Vec::new() }
    }

    fn some(statuses: &[(&str, PluginStatus)]) -> BTreeMap<PackageKey, PluginStatus> {
        let named = |(name, status): &(&str, PluginStatus)| (((*name).to_owned(), "folder".to_owned()), status.clone());
        statuses.iter().map(named).collect()
    }

    #[test]
    fn only_what_changed_is_news() {
        let before = some(&[
            ("gone", one(State::Active, "1.0.0")),
            ("same", one(State::Active, "1.0.0")),
            ("upgraded", one(State::Active, "1.0.0")),
        ]);
        let now = some(&[
            ("new", one(State::Refused, "2.0.0")),
            ("same", one(State::Active, "1.0.0")),
            ("upgraded", one(State::Active, "1.1.0")),
        ]);
        let news: Vec<_> = between(&before, &now, Uuid::nil())
            .iter()
            .map(|event| (event.kind(), event.data["name"].clone(), event.data["was"].clone()))
            .collect();
        let expected = [
            ("plugin.removed", json!("gone"), json!(null)),
            ("plugin.changed", json!("new"), json!(null)),
            ("plugin.changed", json!("upgraded"), json!("active")),
        ];
        assert_eq!(news, expected.map(|(kind, name, was)| (kind.to_owned(), name, was)));
        assert!(between(&now, &now, Uuid::nil()).is_empty());
    }
}
