//! What a client may write of a card, and what it was at an earlier version.

use serde_json::{Map, Value};

use super::{
    card::{Card, Status},
    patch::{self, Change},
};
use crate::http::error::{ApiError, ApiResult};

/// A card without what only the host writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields {
    pub title: String,
    pub sku: String,
    pub status: String,
    /// Without `sources`.
    pub attributes: Map<String, Value>,
}

impl Fields {
    pub fn of(card: &Card) -> ApiResult<Self> {
        let mut attributes: Map<String, Value> =
            serde_json::from_str(card.attributes.get()).map_err(ApiError::internal)?;
        attributes.remove("sources");
        Ok(Self { title: card.title.clone(), sku: card.sku.clone(), status: card.status.clone(), attributes })
    }

    pub fn change(&mut self, change: &Change) {
        if let Some(title) = &change.title {
            self.title.clone_from(title);
        }
        if let Some(sku) = &change.sku {
            self.sku.clone_from(sku);
        }
        if let Some(status) = change.status {
            status.name().clone_into(&mut self.status);
        }
        if let Some(attributes) = &change.attributes {
            self.merge(attributes);
        }
    }

    /// What the lines of a card's history make of it, oldest first: one that says all its fields (its making, an earlier
    /// restore) and the merge patches after it. None when there is no such line.
    pub fn at(lines: &[Line]) -> Option<Self> {
        let first = lines.iter().rposition(Line::is_whole)?;
        let mut fields = Self { status: Status::default().name().to_owned(), ..Self::default() };
        for (index, Line { change, .. }) in lines[first..].iter().enumerate() {
            let text = |name: &str| change.get(name).and_then(Value::as_str).map(str::to_owned);
            fields.title = text("title").unwrap_or(fields.title);
            fields.sku = text("sku").unwrap_or(fields.sku);
            fields.status = text("status").unwrap_or(fields.status);
            match change.get("attributes").and_then(Value::as_object) {
                // Its own nulls are values: only those of a patch remove.
                Some(attributes) if index == 0 => fields.attributes.clone_from(attributes),
                Some(attributes) => fields.merge(attributes),
                None => {}
            }
        }
        fields.attributes.remove("sources");
        Some(fields)
    }

    fn merge(&mut self, patch: &Map<String, Value>) {
        let mut attributes = Value::Object(std::mem::take(&mut self.attributes));
        patch::merge(&mut attributes, &Value::Object(patch.clone()));
        if let Value::Object(merged) = attributes {
            self.attributes = merged;
        }
    }
}

/// A line of a card's history: what was done, and what was sent.
pub struct Line {
    pub action: String,
    pub change: Value,
}

impl Line {
    /// Whether it says what all fields became, and not what became of some; a restore then names its version, and an
    /// import always does.
    fn is_whole(&self) -> bool {
        let known = ["title", "sku"].iter().all(|name| self.change.get(name).is_some_and(Value::is_string));
        known && (["create", "import"].contains(&self.action.as_str()) || self.change.get("version").is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(action: &str, change: Value) -> Line {
        Line { action: action.to_owned(), change }
    }

    fn made() -> Line {
        let attributes = json!({"x": {"y": null}, "sources": {}});
        line("create", json!({"title": "a", "sku": "1", "status": "draft", "attributes": attributes}))
    }

    fn attributes(lines: &[Line]) -> Value {
        Value::Object(Fields::at(lines).unwrap().attributes)
    }

    #[test]
    fn an_earlier_version_is_the_making_and_the_patches_after_it() {
        let lines = [
            made(),
            line("update", json!({"title": "b"})),
            line("update", json!({"attributes": {"x": {"z": 1}, "w": 2}})),
            line("delete", json!({})),
            line("restore", json!({})),
            line("update", json!({"status": "active", "attributes": {"x": {"z": null}}})),
        ];
        let at = |count: usize| Fields::at(&lines[..count]).unwrap();
        assert_eq!(attributes(&lines[..1]), json!({"x": {"y": null}}), "a null in a card is a value");
        assert_eq!((at(2).title.as_str(), at(2).sku.as_str()), ("b", "1"));
        assert_eq!(attributes(&lines[..5]), json!({"x": {"y": null, "z": 1}, "w": 2}));
        assert_eq!(attributes(&lines), json!({"x": {"y": null}, "w": 2}));
        assert_eq!((at(5).status.as_str(), at(6).status.as_str()), ("draft", "active"));
    }

    #[test]
    fn a_restore_begins_anew_and_a_patch_of_everything_does_not() {
        let all = json!({"title": "p", "sku": "p", "status": "active", "attributes": {"p": 1}});
        let mut restored = all.clone();
        restored["version"] = json!(1);
        assert_eq!(attributes(&[made(), line("update", all.clone())]), json!({"x": {"y": null}, "p": 1}));
        assert_eq!(attributes(&[made(), line("restore", restored)]), json!({"p": 1}));
        assert_eq!(attributes(&[made(), line("import", all.clone())]), json!({"p": 1}));
        assert_eq!(Fields::at(&[line("update", all)]), None);
        assert_eq!(Fields::at(&[]), None);
    }
}
