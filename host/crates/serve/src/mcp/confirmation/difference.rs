//! What a call would change of cards. Of a plugin's tool the plugin alone knows, and says it where its manifest names a
//! preview.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{preview, question::ToolCall};
use crate::http::error::{ApiError, ApiResult};
use crate::mcp::core_tools::{self, Preview};
use cardinal_base::{exact, input::escape};
use cardinal_cards::{card::Card, fields::Fields};
use cardinal_store::{catalogue::Catalogue, error::StoreError};

const CARDS_BULK_UPDATE: &str = "cards_bulk_update";
const CARDS_CREATE: &str = "cards_create";
const CARDS_RESTORE: &str = "cards_restore";
const CARDS_UPDATE: &str = "cards_update";
/// Members of a card that these tools set.
const MEMBERS: [&str; 4] = ["title", "sku", "status", "attributes"];
/// Members that are compared one by one; what lies deeper is shown whole.
const DEPTH: usize = 8;

/// `{card_id, version, count?, changes: [{pointer, before?, after?}], problem?}`; `None` where it cannot be known.
pub(super) async fn find(catalogue: &Catalogue, call: &ToolCall<'_>) -> ApiResult<Option<Value>> {
    if let Some(entry) = call.tool.preview {
        return Ok(Some(preview::find(entry, call.visit, &call.arguments).await));
    }
    if call.plugin.is_some() {
        return Ok(None);
    }
    let Some(tool) = core_tools::find(call.tool.name) else { return Ok(None) };
    let arguments = tool.read_arguments(&call.arguments)?;
    let mut wanted = exact::Object::parse(&call.arguments).map_err(ApiError::internal)?;
    wanted.retain(|name| MEMBERS.contains(&name));
    match call.tool.name {
        CARDS_CREATE => {
            let mut card = exact::Object::default();
            card.replace_members(&wanted);
            Ok(Some(shown(None, None, changes(&exact::Object::default(), &card)?)))
        }
        CARDS_UPDATE => {
            let Some(card) = card(catalogue, &arguments).await? else { return Ok(None) };
            let before = members(&Fields::from_card(&card).map_err(ApiError::internal)?)?;
            let mut after = before.clone();
            after.merge(&wanted).map_err(ApiError::internal)?;
            Ok(Some(shown(Some(card.id), Some(card.version), changes(&before, &after)?)))
        }
        CARDS_RESTORE => match arguments.get("version").and_then(Value::as_i64) {
            Some(version) => restored(catalogue, &arguments, version).await,
            None => brought_back(catalogue, &arguments).await,
        },
        CARDS_BULK_UPDATE => {
            let preview = Preview::for_call(catalogue, arguments).await?;
            let count = preview.count;
            Ok(Some(json!({"card_id": null, "version": null, "count": count, "changes": preview.changes()})))
        }
        _ => Ok(None),
    }
}

/// What a card would become that is made what it was at `version`.
async fn restored(catalogue: &Catalogue, arguments: &Map<String, Value>, version: i64) -> ApiResult<Option<Value>> {
    let Some(card) = card(catalogue, arguments).await? else { return Ok(None) };
    if version > card.version {
        return Ok(None);
    }
    let earlier = match catalogue.fields_at(card.id, version).await {
        Ok(Some(earlier)) => earlier,
        Ok(None) | Err(StoreError::Version(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let (before, after) = (members(&Fields::from_card(&card).map_err(ApiError::internal)?)?, members(&earlier)?);
    Ok(Some(shown(Some(card.id), Some(card.version), changes(&before, &after)?)))
}

/// A deleted card, of which nothing is seen now.
async fn brought_back(catalogue: &Catalogue, arguments: &Map<String, Value>) -> ApiResult<Option<Value>> {
    let Some(id) = card_id(arguments) else { return Ok(None) };
    let Some(card) = catalogue.deleted_card(id).await? else { return Ok(None) };
    let after = json!({"title": card.title, "sku": card.sku, "status": card.status});
    Ok(Some(shown(Some(card.id), Some(card.version), vec![json!({"pointer": "", "after": after})])))
}

/// The card that the arguments name; a call for one that is not there fails by itself.
async fn card(catalogue: &Catalogue, arguments: &Map<String, Value>) -> ApiResult<Option<Card>> {
    let Some(id) = card_id(arguments) else { return Ok(None) };
    match catalogue.card(id).await {
        Ok(card) => Ok(Some(card)),
        Err(StoreError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn card_id(arguments: &Map<String, Value>) -> Option<Uuid> {
    arguments.get("id").and_then(Value::as_str).and_then(|id| Uuid::try_parse(id).ok())
}

/// What of a card these tools can change: `sources` are the plugins'.
fn members(fields: &Fields) -> ApiResult<exact::Object> {
    let Fields { title, sku, status, attributes } = fields;
    let members = json!({"title": title, "sku": sku, "status": status}).to_string();
    let mut members = exact::Object::parse(&members).map_err(ApiError::internal)?;
    members.insert("attributes", attributes.to_raw().map_err(ApiError::internal)?);
    Ok(members)
}

fn shown(card_id: Option<Uuid>, version: Option<i64>, changes: Vec<Value>) -> Value {
    json!({"card_id": card_id, "version": version, "changes": changes})
}

fn changes(before: &exact::Object, after: &exact::Object) -> ApiResult<Vec<Value>> {
    let read = |object: &exact::Object| {
        let text = object.to_raw().map_err(ApiError::internal)?;
        exact::readable(text.get()).ok_or_else(|| ApiError::internal(anyhow::anyhow!("a card is nested too deeply")))
    };
    let mut changes = Vec::new();
    compare("", Some(&read(before)?), Some(&read(after)?), DEPTH, &mut changes);
    Ok(changes)
}

fn compare(pointer: &str, before: Option<&Value>, after: Option<&Value>, depth: usize, changes: &mut Vec<Value>) {
    if before == after {
        return;
    }
    if let (Some(Value::Object(old)), Some(Value::Object(new))) = (before, after)
        && depth > 0
    {
        let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for name in names {
            let pointer = format!("{pointer}/{}", escape(name));
            compare(&pointer, old.get(name), new.get(name), depth - 1, changes);
        }
        return;
    }
    let mut change = json!({"pointer": pointer});
    for (name, value) in [("before", before), ("after", after)] {
        if let Some(value) = value {
            change[name] = value.clone();
        }
    }
    changes.push(change);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(json: &str) -> exact::Object {
        exact::Object::parse(json).unwrap()
    }

    #[test]
    fn a_change_names_what_was_and_what_would_be() {
        let before = exact(r#"{"title": "A", "attributes": {"size": {"w": 1, "h": 2}, "a/b": 1, "gone": true}}"#);
        let mut after = before.clone();
        let patch = r#"{"title": "B", "attributes": {"size": {"w": 3}, "a/b": 2, "gone": null, "new": [1]}}"#;
        after.merge(&exact(patch)).unwrap();
        let expected = json!([
            {"pointer": "/attributes/a~1b", "before": 1, "after": 2},
            {"pointer": "/attributes/gone", "before": true},
            {"pointer": "/attributes/new", "after": [1]},
            {"pointer": "/attributes/size/w", "before": 1, "after": 3},
            {"pointer": "/title", "before": "A", "after": "B"},
        ]);
        assert_eq!(Value::Array(changes(&before, &after).unwrap()), expected);
        assert!(changes(&before, &before).unwrap().is_empty());
    }

    #[test]
    fn a_long_number_hides_no_change() {
        let (before, after) =
            (r#"{"n": 0.12345678901234567890, "s": "a"}"#, r#"{"n": 0.12345678901234567891, "s": "b"}"#);
        let expected = json!([
            {"pointer": "/n", "before": "0.12345678901234567890 (number)", "after": "0.12345678901234567891 (number)"},
            {"pointer": "/s", "before": "a", "after": "b"},
        ]);
        assert_eq!(Value::Array(changes(&exact(before), &exact(after)).unwrap()), expected);
    }
}
