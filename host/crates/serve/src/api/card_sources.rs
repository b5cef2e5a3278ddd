//! `/v1/admin/master-cards/{id}/sources`: who wrote what to a card, and whose writer is gone.
//!
//! A reply of its own, because it changes when a plugin is removed and the card, with its version and ETag, does not.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    call::Call,
    http::reply::{self, Reply},
};
use cardinal_base::schema::{Actor, DateTime};

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get("/v1/admin/master-cards/{id}/sources", list).scope("cards:read").describe(|op| {
        op.named("listSources", "cards", "A card's sources without their data")
            .notes("`orphaned` are those whose plugin is no longer installed. They stay until someone removes them.")
            .ok::<Sources>();
    })]
}

#[derive(Serialize, JsonSchema)]
struct Sources {
    /// In the order of their keys.
    items: Vec<ListedSource>,
}

#[derive(Serialize, JsonSchema)]
struct ListedSource {
    source_key: String,
    kind: Option<String>,
    /// Of `data`, as JSON text.
    bytes: usize,
    /// Who wrote it.
    plugin: String,
    plugin_version: Option<String>,
    #[schemars(with = "Option<DateTime>")]
    updated_at: Option<String>,
    /// For whom.
    #[schemars(with = "Option<Actor>")]
    updated_by: Option<Value>,
    /// No plugin of this name is in this host's plugins folder, in whatever state.
    orphaned: bool,
}

#[derive(Deserialize)]
struct Attributes<'a> {
    #[serde(borrow, default)]
    sources: BTreeMap<String, StoredSource<'a>>,
}

/// A source as it stands in the card.
#[derive(Deserialize)]
struct StoredSource<'a> {
    kind: Option<String>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    plugin: Option<String>,
    plugin_version: Option<String>,
    updated_at: Option<String>,
    updated_by: Option<Value>,
}

async fn list(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let id = call.params.id("id", "card")?;
    let card = app.catalogue.card(id).await?;
    app.wait_for_plugins(None).await;
    let snapshot = app.plugins.snapshot();
    let installed = app.plugins.has_looked().then(|| snapshot.names().collect());
    reply::ok(&Sources { items: listed(card.attributes.get(), installed.as_ref())? })
}

/// Until it is known who is `installed`, nobody is missed.
fn listed(attributes: &str, installed: Option<&HashSet<&str>>) -> ApiResult<Vec<ListedSource>> {
    let Attributes { sources } = serde_json::from_str(attributes).map_err(ApiError::internal)?;
    let one = |(source_key, stored): (String, StoredSource<'_>)| {
        // What came by other ways than a plugin may not say it; the key does.
        let plugin = stored.plugin.unwrap_or_else(|| source_key.split(':').next().unwrap_or_default().to_owned());
        ListedSource {
            orphaned: installed.is_some_and(|installed| !installed.contains(plugin.as_str())),
            bytes: stored.data.map_or(0, |data| data.get().len()),
            kind: stored.kind,
            plugin_version: stored.plugin_version,
            updated_at: stored.updated_at,
            updated_by: stored.updated_by,
            plugin,
            source_key,
        }
    };
    Ok(sources.into_iter().map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_orphaned_when_nobody_of_its_plugins_name_is_installed() {
        let attributes = r#"{"colour": 1, "sources": {
            "b:x": {"kind": "k", "data": {"a": 1}, "plugin": "b", "plugin_version": "1.0.0",
                "updated_by": {"kind": "user"}},
            "a:x": {"kind": "k", "data": {}, "plugin": "a"},
            "c:y": {"kind": "k", "data": {}}}}"#;
        let listed = listed(attributes, Some(&HashSet::from(["a", "d"]))).unwrap();
        let shown: Vec<_> =
            listed.iter().map(|one| (one.source_key.as_str(), one.plugin.as_str(), one.bytes, one.orphaned)).collect();
        assert_eq!(shown, [("a:x", "a", 2, false), ("b:x", "b", 8, true), ("c:y", "c", 2, true)]);
    }

    #[test]
    fn a_card_without_sources_has_none() {
        assert!(listed("{}", None).unwrap().is_empty());
    }
}
