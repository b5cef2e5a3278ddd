//! The nodes of a page and the references between them.

use std::cell::Cell;
use std::collections::HashMap;

use crate::product::json::Json;
use crate::product::text;

/// Bytes of text and nodes that may be looked at. References let a small page name one long node
/// again and again, in circles too, so that the page's own size is no bound.
const FUEL: usize = 8 << 20;

/// What looking at a node costs, beside its text.
const NODE: usize = 256;

/// All values of a page, so that `{"@id": "#offer"}` leads to the offer that stands elsewhere.
pub(super) struct Graph<'a> {
    nodes: HashMap<&'a str, &'a Json>,
    fuel: Cell<usize>,
}

impl<'a> Graph<'a> {
    pub(super) fn over(roots: &'a [Json]) -> Graph<'a> {
        let mut graph = Graph { nodes: HashMap::new(), fuel: Cell::new(FUEL) };
        for root in roots {
            graph.index(root);
        }
        graph
    }

    fn index(&mut self, json: &'a Json) {
        match json {
            Json::List(items) => items.iter().for_each(|item| self.index(item)),
            Json::Object(fields) => {
                if let (Json::Text(id), true) = (json.get("@id"), fields.len() > 1) {
                    self.nodes.entry(id).or_insert(json);
                }
                fields.values().for_each(|value| self.index(value));
            }
            _ => {}
        }
    }

    /// The node that a reference names: `{"@id": "#offer"}`, with nothing beside but a type.
    fn follow(&self, json: &'a Json) -> &'a Json {
        match (json, json.get("@id")) {
            (Json::Object(fields), Json::Text(id)) if fields.keys().all(|key| key.starts_with('@')) => {
                self.nodes.get(id.as_str()).copied().unwrap_or(json)
            }
            _ => json,
        }
    }

    pub(super) fn items(&self, json: &'a Json) -> impl Iterator<Item = &'a Json> {
        json.items().iter().take_while(|_| self.spend(NODE)).map(|item| self.follow(item))
    }

    /// `false` when it is enough.
    pub(super) fn spend(&self, amount: usize) -> bool {
        let left = self.fuel.get().saturating_sub(amount);
        self.fuel.set(left);
        left > 0
    }

    pub(super) fn text(&self, json: &'a Json) -> Option<String> {
        match json {
            Json::Text(words) if self.spend(words.len()) => text::plain(words),
            Json::Number(digits) if self.spend(digits.len()) => Some(digits.clone()),
            Json::List(items) => items.iter().find_map(|item| self.text(item)),
            Json::Object(_) => self.text(json.get("@value")),
            _ => None,
        }
    }

    /// A schema.org name such as `InStock`, or an address: both may stand as a reference.
    pub(super) fn schema_name(&self, json: &'a Json) -> Option<String> {
        let of_reference = |item: &'a Json| self.text(item.get("@id"));
        self.text(json).or_else(|| json.items().iter().find_map(of_reference))
    }
}
