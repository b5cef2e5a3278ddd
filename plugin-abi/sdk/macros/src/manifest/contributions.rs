//! What a plugin adds to the Admin UI, and the features that it requires of a host.

use super::{Faults, is_kebab};
use crate::{
    json::{Node, Value},
    sources::distance,
};

const FORMATS: [&str; 4] = ["text", "number", "percent", "date"];
const ACTION_METHODS: [&str; 4] = ["POST", "PUT", "PATCH", "DELETE"];
const ACTION_PLACES: [&str; 2] = ["card", "selection"];
/// As in `host/crates/package/src/compat.rs`, which the test below holds this against. A later host may know more.
const FEATURES: [&str; 15] = [
    "backend.jobs",
    "backend.routes",
    "backend.schedule",
    "card-events",
    "contributes.cardActions",
    "contributes.cardTabs",
    "contributes.cardTabs.frame",
    "contributes.listColumns",
    "contributes.pages",
    "http-client",
    "listen",
    "mcp.prompts",
    "mcp.tools",
    "requires",
    "settings_schema",
];
/// A name that differs by no more letters from one that is known is taken for a typing error.
const NEAR: usize = 3;

impl Faults {
    pub(super) fn contributions(&mut self, document: &Node) {
        let Some(contributes) = document.get("contributes") else { return };
        for (list, what) in
            [("cardTabs", "tab"), ("pages", "page"), ("listColumns", "list column"), ("cardActions", "card action")]
        {
            let items = contributes.get(list).map(Node::list).unwrap_or_default();
            self.named(items, what);
            for item in items {
                match list {
                    "cardTabs" => self.tab(item),
                    "listColumns" => self.column(item, document),
                    "cardActions" => self.action(item, document),
                    _ => {}
                }
            }
        }
        self.drawn(contributes, document);
    }

    /// Each has a label and an id of its own.
    fn named(&mut self, items: &[Node], what: &str) {
        let mut seen: Vec<&str> = Vec::new();
        for item in items {
            self.text(item, "label", &format!("the label of the {what}"));
            let Some(id) = self.text(item, "id", &format!("the id of the {what}")) else { continue };
            let is_tab = what == "tab";
            if is_tab && (id.is_empty() || id.chars().any(char::is_whitespace)) {
                self.add(item, format!("the tab's id \"{id}\" must be a word without spaces"));
            }
            if !is_tab && !is_kebab(id) {
                let expected = "lower-case words joined by hyphens, at most 40 characters";
                self.add(item, format!("the id \"{id}\" of the {what} must be {expected}"));
            }
            if seen.contains(&id) {
                self.add(item, format!("there are two {what}s of the id \"{id}\""));
            }
            seen.push(id);
        }
    }

    fn tab(&mut self, tab: &Node) {
        if let Some(frame) = tab.get("frame")
            && !matches!(frame.value, Value::Other)
        {
            self.add(frame, "`frame` must be true or false");
        }
    }

    fn column(&mut self, column: &Node, document: &Node) {
        if let Some(format) = column.get("format")
            && !format.text().is_some_and(|format| FORMATS.contains(&format))
        {
            self.add(format, format!("`format` must be one of {}", FORMATS.join(", ")));
        }
        if let Some(route) = column.get("route") {
            let Some(path) = self.text(column, "route", "the path of a GET route of the plugin") else { return };
            if column.get("kind").is_some() || column.get("value").is_some() {
                self.add(column, "a column has a `route`, or `kind` and `value`, not both");
            }
            return self.route_exists(route, "GET", path, document);
        }
        if let Some(kind) = self.text(column, "kind", "one of `provides_kinds`, unless the column has a `route`") {
            let own = document.get("provides_kinds").map(Node::list).unwrap_or_default();
            if !own.iter().any(|own| own.text() == Some(kind)) {
                self.add(column, format!("the kind \"{kind}\" of the column is none of `provides_kinds`"));
            }
        }
        if let Some(value) = self.text(column, "value", "a JSON pointer such as \"/score\"")
            && (!value.starts_with('/') || !value.split('~').skip(1).all(|rest| rest.starts_with(['0', '1'])))
        {
            self.add(column, format!("`value` is \"{value}\" and must be a JSON pointer such as \"/score\""));
        }
    }

    fn action(&mut self, action: &Node, document: &Node) {
        if let Some(on) = action.get("on") {
            let places = on.list();
            let known = |place: &Node| place.text().is_some_and(|place| ACTION_PLACES.contains(&place));
            if places.is_empty() || !places.iter().all(known) {
                self.add(on, "`on` must be a list of \"card\", \"selection\" or both");
            }
        }
        let Some(route) = action.get("route") else {
            if let Some(confirm) = action.get("confirm") {
                self.add(confirm, "`confirm` needs a `route` beside it; a dialog of the frontend asks by itself");
            }
            return;
        };
        let Some(path) = self.text(route, "path", "a path such as \"/items\"") else { return };
        let method = route.get("method").map_or(Some("POST"), Node::text).unwrap_or_default();
        if !ACTION_METHODS.contains(&method) {
            return self.add(route, format!("`method` of an action must be one of {}", ACTION_METHODS.join(", ")));
        }
        self.route_exists(route, method, path, document);
    }

    /// Without a list of routes the library decides, which a host sees.
    fn route_exists(&mut self, at: &Node, method: &str, path: &str, document: &Node) {
        if path.contains(['{', '}']) || !path.starts_with('/') {
            return self.add(at, format!("the path \"{path}\" must begin with / and have no placeholders"));
        }
        let is_it = |route: &Node| {
            let text = |name| route.get(name).and_then(Node::text);
            (text("method"), text("path")) == (Some(method), Some(path))
        };
        let declared = document.get("backend").map(|backend| backend.get("routes").map(Node::list));
        let is_missing = match declared {
            Some(Some(routes)) => !routes.iter().any(is_it),
            Some(None) => false,
            None => true,
        };
        if is_missing {
            self.add(at, format!("there is no route {method} {path} in `backend.routes`"));
        }
    }

    /// What is drawn needs a module, and a module something to draw.
    fn drawn(&mut self, contributes: &Node, document: &Node) {
        let list = |name| contributes.get(name).map(Node::list).unwrap_or_default();
        let by_frontend = list("cardActions").iter().filter(|action| action.get("route").is_none());
        let first = list("cardTabs").iter().chain(list("pages")).chain(by_frontend).next();
        let has_main = document.get("frontend").and_then(|frontend| frontend.get("main")).is_some();
        if let Some(first) = first.filter(|_| !has_main) {
            self.add(first, "`frontend.main` is missing: the file below frontend/ that draws this");
        }
    }

    /// A host refuses what it does not know; here only what cannot be meant is known to be wrong.
    pub(super) fn requires(&mut self, requires: &Node) {
        if !matches!(requires.value, Value::List(_)) {
            return self.add(requires, "`requires` must be a list of features");
        }
        for feature in requires.list() {
            let Some(name) = feature.text() else {
                self.add(feature, "a feature in `requires` must be a text");
                continue;
            };
            let near = FEATURES.iter().min_by_key(|known| distance(known, name));
            if let Some(near) = near.filter(|near| (1..=NEAR).contains(&distance(near, name))) {
                self.add(feature, format!("no host has the feature \"{name}\"; did you mean \"{near}\"?"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FEATURES;

    #[test]
    fn the_features_are_those_of_the_host() {
        let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../host/crates/package/src/compat.rs");
        let text = std::fs::read_to_string(host).unwrap();
        let (_, list) = text.split_once("pub const FEATURES").unwrap();
        let (list, _) = list.split_once("];").unwrap();
        let known: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert_eq!(known, FEATURES);
    }
}
