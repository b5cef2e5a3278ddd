//! What of its manifest the host holds a plugin to.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The parts of a manifest that the host checks calls against.
#[derive(Default, Deserialize)]
pub(super) struct Rules {
    pub(super) name: String,
    #[serde(default)]
    pub(super) version: String,
    #[serde(default)]
    pub(super) provides_kinds: Vec<String>,
    #[serde(default)]
    settings_schema: Value,
    #[serde(default)]
    pub(super) mcp: Tools,
    #[serde(default)]
    pub(super) backend: Option<Backend>,
}

#[derive(Default, Deserialize)]
pub(super) struct Tools {
    #[serde(default)]
    pub(super) tools: Vec<Tool>,
}

#[derive(Deserialize)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) handler: String,
    preview: Option<String>,
}

impl Tool {
    /// The handlers that it names: its own, and that of its preview.
    pub(super) fn handlers(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.handler).chain(&self.preview)
    }
}

#[derive(Deserialize)]
pub(super) struct Backend {
    pub(super) routes: Option<Vec<Route>>,
    #[serde(default)]
    pub(super) jobs: Vec<DeclaredJob>,
}

#[derive(Deserialize)]
pub(super) struct DeclaredJob {
    pub(super) name: String,
}

#[derive(Deserialize)]
pub(super) struct Route {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) handler: Option<String>,
}

impl Rules {
    /// The defaults of `settings_schema`, with `settings` over them.
    pub(super) fn settings(&self, settings: &Value) -> Value {
        let properties = self.settings_schema.get("properties").and_then(Value::as_object);
        let default = |(name, field): (&String, &Value)| Some((name.clone(), field.get("default")?.clone()));
        let mut all: Map<String, Value> = properties.into_iter().flatten().filter_map(default).collect();
        all.extend(settings.as_object().cloned().unwrap_or_default());
        all.into()
    }
}
