//! What one version of a plugin offers that another does not.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use cardinal_package::{kept::KeptPackages, manifest::Manifest, owners::Owners, package};

/// What clients see of a plugin.
#[derive(Debug, Default)]
pub(super) struct PublicSurface {
    /// `None` when the manifest leaves it to the library, which only tells once it is loaded.
    routes: Option<BTreeSet<String>>,
    tools: BTreeSet<String>,
    provides: BTreeSet<String>,
    reads: BTreeSet<String>,
    tabs: BTreeSet<String>,
    /// Pages, list columns and card actions.
    contributions: BTreeSet<String>,
    prefix: Option<String>,
    /// Names of the operator's settings; `None` where the host did not say.
    settings: Option<BTreeSet<String>>,
}

/// What a package would take the place of.
#[derive(Debug)]
pub(super) struct Before {
    pub plugin: String,
    pub version: String,
    pub sha256: Option<String>,
    pub surface: PublicSurface,
}

impl Before {
    /// What serves, from the registry of the host that runs.
    pub(super) fn serving(registry: &[Value]) -> Vec<Self> {
        let text = |report: &Value, member: &str| report[member].as_str().map(str::to_owned);
        let active = registry.iter().filter(|report| report["state"] == "active");
        let before = active.map(|report| Self {
            plugin: text(report, "name").unwrap_or_default(),
            version: text(report, "version").unwrap_or_else(|| "an unknown version".to_owned()),
            sha256: text(report, "sha256"),
            surface: PublicSurface::serving(report),
        });
        before.collect()
    }

    /// What a host that is stopped had in service last: the packages that it keeps tell. Blocks.
    pub(super) fn kept(data_dir: &Path) -> Vec<Self> {
        let kept = KeptPackages::open(data_dir);
        let last = |plugin: String| {
            let last = kept.for_plugin(&plugin).into_iter().next()?;
            // Nothing of it is loaded: whose files they are matters to the host alone.
            let package = package::read_for(&kept.find(&plugin, &last.sha256)?, &Owners::anybody()).ok()?;
            let (manifest, _) = Manifest::read(&package.manifest).ok()?;
            let surface = PublicSurface::from_manifest(&manifest);
            Some(Self { plugin, version: last.version.to_string(), sha256: Some(last.sha256), surface })
        };
        kept.plugins().into_iter().filter_map(last).collect()
    }
}

/// The difference of two faces, a line each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub lost: Vec<String>,
    pub gained: Vec<String>,
}

impl PublicSurface {
    pub(super) fn from_manifest(manifest: &Manifest) -> Self {
        let declared = |backend: &cardinal_package::manifest::Backend| {
            let routes = backend.routes.as_ref()?;
            Some(routes.iter().map(|route| format!("{} {}", route.method, route.path)).collect())
        };
        Self {
            routes: manifest.backend.as_ref().map_or(Some(BTreeSet::new()), declared),
            tools: manifest.tools.iter().map(|tool| tool_line(&tool.name, tool.requires_confirmation)).collect(),
            provides: manifest.provides_kinds.iter().cloned().collect(),
            reads: manifest.reads_kinds.iter().cloned().collect(),
            tabs: manifest.contributes.card_tabs.iter().map(|tab| tab.id.clone()).collect(),
            contributions: manifest.contributes.ids().map(|(what, id)| format!("{what} {id}")).collect(),
            prefix: manifest.api_prefix().map(str::to_owned),
            settings: Some(setting_names(manifest.settings_schema.as_ref().unwrap_or(&Value::Null))),
        }
    }

    /// From the registry's report of what serves.
    pub(super) fn serving(report: &Value) -> Self {
        let items = |member: &str| report[member].as_array().into_iter().flatten();
        let texts = |member: &str| items(member).filter_map(|it| it.as_str().map(str::to_owned)).collect();
        let text = |it: &Value, member: &str| it[member].as_str().unwrap_or_default().to_owned();
        Self {
            routes: Some(items("routes").map(|it| format!("{} {}", text(it, "method"), text(it, "path"))).collect()),
            tools: items("tools").map(|it| tool_line(&text(it, "name"), it["requires_confirmation"] == true)).collect(),
            provides: texts("provides_kinds"),
            reads: texts("reads_kinds"),
            tabs: items("tabs").map(|it| text(it, "id")).collect(),
            contributions: [("page", "pages"), ("list column", "list_columns"), ("card action", "card_actions")]
                .iter()
                .flat_map(|(what, list)| items(list).map(move |it| format!("{what} {}", text(it, "id"))))
                .collect(),
            prefix: report["api_prefix"].as_str().map(str::to_owned),
            settings: report.get("settings_schema").map(setting_names),
        }
    }
}

fn tool_line(name: &str, confirmed: bool) -> String {
    if confirmed { format!("{name} (confirmed)") } else { name.to_owned() }
}

/// The schema's own properties.
fn setting_names(schema: &Value) -> BTreeSet<String> {
    schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

/// What is lost and gained on the way from `before` to `after`.
pub(super) fn between(before: &PublicSurface, after: &PublicSurface) -> Change {
    let mut change = Change::default();
    if before.prefix != after.prefix {
        let name = |prefix: &Option<String>| prefix.clone().unwrap_or_else(|| "none".to_owned());
        change.lost.push(format!("apiPrefix {}", name(&before.prefix)));
        change.gained.push(format!("apiPrefix {}", name(&after.prefix)));
    }
    if let (Some(before), Some(after)) = (&before.routes, &after.routes) {
        change.compare("route", before, after);
    }
    if let (Some(before), Some(after)) = (&before.settings, &after.settings) {
        change.compare("setting", before, after);
    }
    change.compare("tool", &before.tools, &after.tools);
    change.compare("provided kind", &before.provides, &after.provides);
    change.compare("read kind", &before.reads, &after.reads);
    change.compare("tab", &before.tabs, &after.tabs);
    change.compare("contributed", &before.contributions, &after.contributions);
    change
}

impl Change {
    fn compare(&mut self, what: &str, before: &BTreeSet<String>, after: &BTreeSet<String>) {
        self.lost.extend(before.difference(after).map(|it| format!("{what} {it}")));
        self.gained.extend(after.difference(before).map(|it| format!("{what} {it}")));
    }

    pub(super) fn describe(&self) -> String {
        let list =
            |prefix: &str, lines: &[String]| lines.iter().map(|line| format!("{prefix}{line}")).collect::<Vec<_>>();
        let lines = [list("-", &self.lost), list("+", &self.gained)].concat();
        if lines.is_empty() { "the same routes, tools, kinds and tabs".to_owned() } else { lines.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest(routes: Value, tools: Value, kinds: Value) -> Manifest {
        let document = json!({"name": "a", "version": "1.1.0", "provides_kinds": kinds,
            "engine": {"core_version": ">=1.0.0", "plugin_api_version": "1"},
            "backend": {"apiPrefix": "a", "routes": routes}, "mcp": {"tools": tools}});
        Manifest::read(document.to_string().as_bytes()).unwrap().0
    }

    #[test]
    fn what_goes_and_what_comes_is_named() {
        let serving = json!({"api_prefix": "a", "routes": [{"method": "GET", "path": "/items"}],
            "tools": [{"name": "plugin_a_run", "requires_confirmation": false}], "provides_kinds": ["x"]});
        let tool =
            json!([{"name": "plugin_a_run", "description": "d", "handler": "run", "requires_confirmation": true}]);
        let next = manifest(json!([{"method": "GET", "path": "/things"}]), tool, json!(["x", "y"]));
        let change = between(&PublicSurface::serving(&serving), &PublicSurface::from_manifest(&next));
        assert_eq!(change.lost, ["route GET /items", "tool plugin_a_run"]);
        assert_eq!(change.gained, ["route GET /things", "tool plugin_a_run (confirmed)", "provided kind y"]);
        assert!(change.describe().starts_with("-route GET /items, "));
    }

    #[test]
    fn settings_are_compared_where_the_host_has_told_them() {
        let schema = |names: &[&str]| {
            let properties: serde_json::Map<String, Value> =
                names.iter().map(|it| ((*it).to_owned(), json!({}))).collect();
            json!({"type": "object", "properties": properties})
        };
        let mut next = manifest(json!([]), json!([]), json!([]));
        next.settings_schema = Some(schema(&["limit", "token"]));
        let serving = json!({"api_prefix": "a", "settings_schema": schema(&["limit", "site"])});
        let change = between(&PublicSurface::serving(&serving), &PublicSurface::from_manifest(&next));
        assert_eq!((change.lost, change.gained), (vec!["setting site".to_owned()], vec!["setting token".to_owned()]));
        assert_eq!(
            between(&PublicSurface::serving(&json!({"api_prefix": "a"})), &PublicSurface::from_manifest(&next)),
            Change::default()
        );
    }

    #[test]
    fn routes_that_the_manifest_does_not_name_are_not_guessed() {
        let serving = json!({"api_prefix": "a", "routes": [{"method": "GET", "path": "/items"}]});
        let mut next = manifest(json!([]), json!([]), json!([]));
        next.backend.as_mut().unwrap().routes = None;
        assert_eq!(between(&PublicSurface::serving(&serving), &PublicSurface::from_manifest(&next)), Change::default());
    }
}
