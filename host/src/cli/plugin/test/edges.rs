//! Arguments at the edges of what a tool's `input_schema` lets in.

use serde_json::{Value, json};

use super::arguments;

/// Characters of a text that is long, where the schema has no bound.
const LONG: u64 = 5_000;
/// A character of four bytes: whoever cuts a text by bytes cuts through it.
const WIDE: &str = "\u{1F600}";

/// The usual arguments once for each edge of each member, with that in its place.
pub(super) fn for_schema(schema: &Value, card: &str) -> Vec<Value> {
    let usual = arguments::for_schema(schema, card);
    let members = schema["properties"].as_object().into_iter().flatten();
    members.flat_map(|(name, of)| edges(of).into_iter().map(|edge| with(&usual, name, edge))).collect()
}

fn with(arguments: &Value, name: &str, value: Value) -> Value {
    let mut changed = arguments.clone();
    changed[name] = value;
    changed
}

fn edges(schema: &Value) -> Vec<Value> {
    let number = |name: &str, usual: i64| match &schema[name] {
        bound if bound.is_number() => bound.clone(),
        _ => json!(usual),
    };
    let is_free = ["enum", "const", "pattern"].iter().all(|name| schema[*name].is_null());
    match schema["type"].as_str().or_else(|| schema["type"][0].as_str()) {
        Some("string") if schema["format"] == "uuid" => vec![json!("00000000-0000-0000-0000-000000000000")],
        Some("string") if is_free => {
            let min_length = schema["minLength"].as_u64().unwrap_or(0);
            let max_length = schema["maxLength"].as_u64().unwrap_or(LONG).clamp(min_length, LONG.max(min_length));
            [min_length, max_length].iter().map(|length| json!(wide(*length))).collect()
        }
        Some("integer") => vec![number("minimum", i64::MIN), json!(0), number("maximum", i64::MAX)],
        Some("number") => vec![number("minimum", i64::MIN), json!(0.5), number("maximum", i64::MAX)],
        Some("boolean") => vec![json!(true), json!(false)],
        Some("array") => vec![json!([])],
        Some("object") => vec![json!({})],
        _ => Vec::new(),
    }
}

fn wide(length: u64) -> String {
    (0..length.min(LONG)).map(|_| WIDE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_is_put_to_its_edges_while_the_others_stay() {
        let schema = json!({
            "properties": {
                "card_id": {"type": "string", "format": "uuid"},
                "text": {"type": "string", "minLength": 1, "maxLength": 3},
                "limit": {"type": "integer", "minimum": 1, "maximum": 9},
                "order": {"type": "string", "enum": ["up"]}
            },
            "required": ["card_id"]
        });
        let found = for_schema(&schema, "C");
        let of = |name: &str| -> Vec<_> { found.iter().filter_map(|one| one.get(name)).collect() };
        assert_eq!(of("limit"), [1, 0, 9]);
        assert_eq!(of("text"), [WIDE, &WIDE.repeat(3)]);
        assert!(of("order").is_empty() && of("card_id").len() == found.len(), "{found:?}");
        let free = for_schema(&json!({"properties": {"text": {"type": "string"}}}), "C");
        assert_eq!(free, [json!({"text": ""}), json!({"text": wide(LONG)})]);
        assert!(for_schema(&Value::Null, "C").is_empty());
    }
}
