//! A plugin as operators see it.

use std::sync::atomic::Ordering;

use serde::Serialize;
use serde_json::{Value, json};

use super::snapshot::{Entry, InService};
use crate::plugin::{
    manifest::CardTab,
    state::{Refusal, State},
};

/// One row of the plugin registry.
#[derive(Serialize)]
pub struct PluginReport {
    pub name: String,
    pub package: String,
    pub state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// In one sentence, whatever keeps the plugin from serving.
    pub reason: Option<String>,
    pub version: Option<String>,
    pub title: Option<String>,
    pub description: Option<String>,
    pub author: Option<String>,
    pub core_version: Option<String>,
    pub plugin_api_version: Option<String>,
    pub sha256: Option<String>,
    pub api_prefix: Option<String>,
    pub tabs: Vec<CardTab>,
    pub provides_kinds: Vec<String>,
    pub reads_kinds: Vec<String>,
    pub routes: Vec<Value>,
    pub tools: Vec<Value>,
    pub warnings: Vec<Value>,
    pub generation: Option<u64>,
    pub counters: Option<Value>,
}

impl PluginReport {
    pub fn of(entry: &Entry) -> Self {
        let manifest = entry.manifest.as_deref();
        let list = |pick: fn(&crate::plugin::manifest::Manifest) -> &Vec<String>| {
            manifest.map(|m| pick(m).clone()).unwrap_or_default()
        };
        Self {
            name: entry.name.clone(),
            package: entry.package.clone(),
            state: entry.state,
            reason: entry.refusal.as_ref().map(|refusal| refusal.reason.clone()).or_else(|| entry.failure.clone()),
            refusal: entry.refusal.clone(),
            version: manifest.map(|m| m.version.to_string()),
            title: manifest.map(|m| m.display_title().to_owned()),
            description: manifest.and_then(|m| m.description.clone()),
            author: manifest.and_then(|m| m.author.clone()),
            core_version: manifest.map(|m| m.engine.core_version.to_string()),
            plugin_api_version: manifest.map(|m| m.engine.plugin_api_version.clone()),
            sha256: entry.sha256.clone(),
            api_prefix: manifest.and_then(|m| m.api_prefix().map(str::to_owned)),
            tabs: manifest.map(|m| m.card_tabs.clone()).unwrap_or_default(),
            provides_kinds: list(|m| &m.provides_kinds),
            reads_kinds: list(|m| &m.reads_kinds),
            routes: entry.service.as_ref().map(routes).unwrap_or_default(),
            tools: entry.service.as_ref().map(tools).unwrap_or_default(),
            warnings: entry.warnings.iter().map(|warning| json!(warning)).collect(),
            generation: entry.service.as_ref().map(|service| service.active.generation),
            counters: entry.service.as_ref().map(counters),
        }
    }
}

fn routes(service: &InService) -> Vec<Value> {
    let routes = service.active.routes();
    routes
        .iter()
        .map(|route| json!({"method": route.method.as_str(), "path": route.template, "scope": route.scope}))
        .collect()
}

fn tools(service: &InService) -> Vec<Value> {
    let tools = service.tools.iter();
    tools
        .map(|entry| {
            json!({
                "name": entry.tool.name,
                "title": entry.tool.title,
                "scope": entry.scope,
                "requires_confirmation": entry.tool.requires_confirmation,
            })
        })
        .collect()
}

fn counters(service: &InService) -> Value {
    let counters = &service.active.guard.counters;
    json!({
        "calls": counters.calls.load(Ordering::Relaxed),
        "errors": counters.errors.load(Ordering::Relaxed),
        "panics": counters.panics.load(Ordering::Relaxed),
        "timeouts": counters.timeouts.load(Ordering::Relaxed),
        "refused": counters.refused.load(Ordering::Relaxed),
        "in_flight": service.active.instance.in_flight(),
    })
}
