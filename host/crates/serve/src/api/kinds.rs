//! `/v1/admin/kinds`: who writes and reads each kind of data, and how many cards have it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schemars::JsonSchema;
use serde::Serialize;

use crate::http::error::ApiResult;
use crate::{
    app::{App, Route},
    call::Call,
    http::reply::{self, Reply},
};
use cardinal_package::state::State;
use cardinal_plugin_host::registry::PluginReport;

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get("/v1/admin/kinds", list).scope("plugins:read").describe(|op| {
        op.named("listKinds", "plugins", "Who writes and reads each kind of data, and how many cards have it")
            .ok::<Kinds>();
    })]
}

#[derive(Serialize, JsonSchema)]
struct Kinds {
    /// In the order of their names.
    items: Vec<Kind>,
}

/// A kind of data.
#[derive(Default, Serialize, JsonSchema)]
struct Kind {
    kind: String,
    /// Active plugins that write it.
    provided_by: BTreeSet<String>,
    /// Active plugins that read it.
    read_by: BTreeSet<String>,
    /// Plugins that would write or read it, and are disabled, refused or failed.
    inactive: BTreeSet<String>,
    /// Cards with a source of this kind; deleted ones count until they are purged.
    cards: i64,
    /// Whether `cards` is the database's estimate.
    cards_is_estimate: bool,
    /// Cards have it, and no plugin that is installed writes it.
    orphaned: bool,
    /// What an operator should look at.
    warning: Option<String>,
}

async fn list(app: &Arc<App>, _: Call) -> ApiResult<Reply> {
    let stored = app.kinds.stored(&app.pools.core, app.clock.now()).await?;
    reply::ok(&Kinds { items: put_together(&stored, &app.plugins.reports()) })
}

fn put_together(stored: &[cardinal_store::kinds::StoredKind], plugins: &[PluginReport]) -> Vec<Kind> {
    let mut kinds: BTreeMap<&str, Kind> = BTreeMap::new();
    let mut provided: BTreeSet<&str> = BTreeSet::new();
    // One whose package was taken out of the folder writes and reads no more.
    for plugin in plugins.iter().filter(|plugin| plugin.state != State::Retired) {
        let is_active = plugin.state == State::Active;
        for kind in &plugin.provides_kinds {
            let entry = kinds.entry(kind).or_default();
            let names = if is_active { &mut entry.provided_by } else { &mut entry.inactive };
            names.insert(plugin.name.clone());
            provided.insert(kind);
        }
        for kind in &plugin.reads_kinds {
            let entry = kinds.entry(kind).or_default();
            let names = if is_active { &mut entry.read_by } else { &mut entry.inactive };
            names.insert(plugin.name.clone());
        }
    }
    for known in stored {
        let entry = kinds.entry(&known.kind).or_default();
        (entry.cards, entry.cards_is_estimate) = (known.cards, known.is_estimate);
        entry.orphaned = !provided.contains(known.kind.as_str());
    }
    let finish = |(name, kind): (&str, Kind)| Kind { kind: name.to_owned(), warning: warning(&kind), ..kind };
    kinds.into_iter().map(finish).collect()
}

fn warning(kind: &Kind) -> Option<String> {
    let names = |names: &BTreeSet<String>| names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    if !kind.read_by.is_empty() && kind.provided_by.is_empty() {
        return Some(format!("Read by {}, and no active plugin writes it.", names(&kind.read_by)));
    }
    kind.orphaned.then(|| "Cards have it, and no plugin that is installed writes it.".to_owned())
}
