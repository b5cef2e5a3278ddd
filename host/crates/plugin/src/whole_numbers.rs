//! Whole numbers that were written with a fraction or an exponent. To JSON Schema `1.0` is an integer; to who reads it
//! into one it is none.

use serde_json::{Map, Value};

/// Schemas that are looked at for one value, and how deep they lie in each other: recursive ones have no end.
const MAX_STEPS: usize = 10_000;
const MAX_DEPTH: usize = 128;
/// Beyond it a double leaves integers out.
const MAX_SAFE: f64 = 9_007_199_254_740_991.0;

/// Writes numbers of `object` as integers where `schema` wants them. Whether anything has changed.
pub fn fit(schema: &Map<String, Value>, object: &mut Map<String, Value>) -> bool {
    let mut walk = Walk { root: schema, steps: MAX_STEPS, depth: 0, has_changed: false };
    walk.object(schema, object);
    walk.has_changed
}

struct Walk<'s> {
    root: &'s Map<String, Value>,
    steps: usize,
    depth: usize,
    has_changed: bool,
}

impl<'s> Walk<'s> {
    fn value(&mut self, schema: &'s Value, value: &mut Value) {
        match value {
            Value::Object(object) => self.below(schema, |walk, schema| walk.object(schema, object)),
            Value::Array(items) => self.below(schema, |walk, schema| walk.items(schema, items)),
            Value::Number(_) => self.below(schema, |walk, schema| walk.number(schema, value)),
            _ => {}
        }
    }

    /// One schema deeper, unless that goes too far.
    fn below(&mut self, schema: &'s Value, look: impl FnOnce(&mut Self, &'s Map<String, Value>)) {
        if let Some(schema) = schema.as_object().filter(|_| self.steps > 0 && self.depth < MAX_DEPTH) {
            (self.steps, self.depth) = (self.steps - 1, self.depth + 1);
            look(self, schema);
            self.depth -= 1;
        }
    }

    fn number(&mut self, schema: &'s Map<String, Value>, value: &mut Value) {
        let written = value.as_f64().filter(|_| value.is_f64() && wants_integer(schema));
        if let Some(whole) = written.filter(|it| it.fract() == 0.0 && it.abs() <= MAX_SAFE) {
            *value = (whole as i64).into();
            self.has_changed = true;
        }
        for branch in self.branches(schema) {
            self.below(branch, |walk, branch| walk.number(branch, value));
        }
    }

    fn object(&mut self, schema: &'s Map<String, Value>, object: &mut Map<String, Value>) {
        for (name, member) in object.iter_mut() {
            let own = schema.get("properties").and_then(|properties| properties.get(name));
            if let Some(schema) = own.or_else(|| schema.get("additionalProperties")) {
                self.value(schema, member);
            }
        }
        for branch in self.branches(schema) {
            self.below(branch, |walk, branch| walk.object(branch, object));
        }
    }

    fn items(&mut self, schema: &'s Map<String, Value>, items: &mut [Value]) {
        let first = schema.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (at, item) in items.iter_mut().enumerate() {
            if let Some(schema) = first.get(at).or_else(|| schema.get("items")) {
                self.value(schema, item);
            }
        }
        for branch in self.branches(schema) {
            self.below(branch, |walk, branch| walk.items(branch, items));
        }
    }

    /// Other schemas of the same value.
    fn branches(&self, schema: &'s Map<String, Value>) -> Vec<&'s Value> {
        let lists = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|list| schema.get(list)?.as_array());
        let referred = schema.get("$ref").and_then(Value::as_str).and_then(|reference| self.refer(reference));
        lists.flatten().chain(referred).collect()
    }

    /// What stands at `#/$defs/name`.
    fn refer(&self, reference: &str) -> Option<&'s Value> {
        let path = reference.strip_prefix("#/")?;
        match path.split_once('/') {
            Some((first, rest)) => self.root.get(first)?.pointer(&format!("/{rest}")),
            None => self.root.get(path),
        }
    }
}

fn wants_integer(schema: &Map<String, Value>) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == "integer",
        Some(Value::Array(several)) => {
            several.iter().any(|it| it == "integer") && !several.iter().any(|it| it == "number")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fitted(schema: Value, object: Value) -> (bool, String) {
        let mut object = object.as_object().unwrap().clone();
        let has_changed = fit(schema.as_object().unwrap(), &mut object);
        (has_changed, Value::Object(object).to_string())
    }

    #[test]
    fn integers_are_written_as_such_where_they_are_wanted() {
        let schema = json!({
            "properties": {
                "n": {"type": "integer"}, "maybe": {"type": ["integer", "null"]}, "x": {"type": "number"},
                "deep": {"$ref": "#/$defs/deep"}, "list": {"prefixItems": [{}], "items": {"type": "integer"}},
            },
            "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "$defs": {"deep": {"properties": {"n": {"type": "integer"}}, "allOf": [{"properties": {"m": {"type": "integer"}}}]}},
        });
        let sent =
            json!({"n": 1.0, "maybe": -2e3, "x": 1.0, "deep": {"n": 3.0, "m": 4.0}, "list": [5.0, 6.0], "more": 7.0});
        let written = r#"{"deep":{"m":4,"n":3},"list":[5.0,6],"maybe":-2000,"more":7,"n":1,"x":1.0}"#;
        assert_eq!(fitted(schema.clone(), sent), (true, written.to_owned()));
        // What is none stays, to be refused.
        let sent = json!({"n": 1.5, "maybe": 1e300, "more": "7.0"});
        let text = sent.to_string();
        assert_eq!(fitted(schema, sent), (false, text));
    }

    #[test]
    fn a_schema_without_an_end_is_given_up() {
        let twice = json!({"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]});
        let schema = json!({"$defs": {"a": twice}, "properties": {"n": {"$ref": "#/$defs/a"}}, "allOf": [{"$ref": "#/$defs/a"}]});
        assert!(!fitted(schema, json!({"n": 1.0})).0);
    }
}
