//! Arguments for a tool, made from its `input_schema`: what is required, as the schema wants it.

use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Levels of objects within objects.
const MAX_DEPTH: usize = 8;
/// Characters and items that a schema can ask for at least.
const MAX_LENGTH: u64 = 1_000;

/// Whatever speaks of a card gets the id of `card`.
pub(super) fn for_schema(schema: &Value, card: &str) -> Value {
    object(schema, card, 0)
}

fn object(schema: &Value, card: &str, depth: usize) -> Value {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let members = required.map(|name| (name.to_owned(), value(name, &schema["properties"][name], card, depth + 1)));
    Value::Object(members.collect::<Map<_, _>>())
}

fn value(name: &str, schema: &Value, card: &str, depth: usize) -> Value {
    let given = [&schema["default"], &schema["const"], &schema["examples"][0], &schema["enum"][0]];
    if let Some(given) = given.into_iter().find(|given| !given.is_null()) {
        return given.clone();
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match kind {
        _ if depth > MAX_DEPTH => Value::Null,
        Some("object") => object(schema, card, depth),
        Some("array") => {
            let items = schema["minItems"].as_u64().unwrap_or(0).min(MAX_LENGTH);
            (0..items).map(|_| value(name, &schema["items"], card, depth + 1)).collect()
        }
        Some("integer" | "number") => {
            let bound = [&schema["minimum"], &schema["maximum"]].into_iter().find(|bound| bound.is_number());
            bound.cloned().unwrap_or(json!(1))
        }
        Some("boolean") => json!(false),
        Some("null") => Value::Null,
        _ => json!(text(name, schema, card)),
    }
}

fn text(name: &str, schema: &Value, card: &str) -> String {
    match schema["format"].as_str() {
        Some("uuid") if name.contains("card") => card.to_owned(),
        Some("uuid") => Uuid::now_v7().to_string(),
        Some("uri" | "uri-reference" | "iri") => "https://example.com/".to_owned(),
        Some("date") => "2026-01-31".to_owned(),
        Some("date-time") => "2026-01-31T12:00:00Z".to_owned(),
        Some("email") => "somebody@example.com".to_owned(),
        _ => {
            let min_length = schema["minLength"].as_u64().unwrap_or(1).clamp(1, MAX_LENGTH);
            (0..min_length).map(|_| 'x').collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_arguments_fit_their_schema() {
        let schema = json!({
            "type": "object",
            "properties": {
                "card_id": {"type": "string", "format": "uuid"}, "url": {"type": "string", "format": "uri"},
                "name": {"type": "string", "minLength": 3}, "n": {"type": "integer", "minimum": 5}, "way": {"enum": ["a"]},
                "deep": {"type": "object", "required": ["on"], "properties": {"on": {"type": ["boolean", "null"]}}},
                "list": {"type": "array", "minItems": 2, "items": {"type": "number", "maximum": -1}}, "unasked": {}
            },
            "required": ["card_id", "url", "name", "n", "way", "deep", "list"]
        });
        let expected = json!({
            "card_id": "C", "url": "https://example.com/", "name": "xxx", "n": 5, "way": "a", "deep": {"on": false},
            "list": [-1, -1]
        });
        assert_eq!(for_schema(&schema, "C"), expected);
        assert_eq!(for_schema(&Value::Null, "C"), json!({}));
        // A schema that asks for endless depth or length.
        let mut nested = json!({"type": "string", "minLength": u64::MAX});
        for _ in 0..50 {
            nested = json!({"type": "object", "required": ["x"], "properties": {"x": nested}});
        }
        assert!(for_schema(&nested, "C").to_string().len() < 200);
    }
}
