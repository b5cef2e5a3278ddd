//! Checking a tool's arguments and results against its schemas, so that no handler sees what it didn't ask for, and no
//! client what it wasn't promised.

use cardinal_base::printable::cut;
use serde_json::{Map, Value};

/// Faults that are reported of one call.
const REPORTED: usize = 10;
/// Bytes of a fault that repeats the value; of a longer one the value is left out, and what is left is cut.
const LINE_LIMIT: usize = 300;

/// What is wrong with `arguments`, a line each with the JSON pointer; `None` when nothing is.
pub fn complaints(validator: &jsonschema::Validator, arguments: &Map<String, Value>) -> Option<String> {
    faults(validator, arguments).map(|lines| format!("The arguments are not valid.\n{lines}"))
}

/// Where an object does not fit a schema, a line each with the JSON pointer; `None` when it fits.
pub fn faults(validator: &jsonschema::Validator, object: &Map<String, Value>) -> Option<String> {
    let object = Value::Object(object.clone());
    let lines: Vec<String> = validator
        .iter_errors(&object)
        .take(REPORTED)
        .map(|error| {
            let pointer = error.instance_path().to_string();
            let fault = error.to_string();
            let fault = if fault.len() > LINE_LIMIT { error.masked().to_string() } else { fault };
            format!(
                "{}: {}",
                if pointer.is_empty() { "/".into() } else { cut(pointer, LINE_LIMIT) },
                cut(fault, LINE_LIMIT)
            )
        })
        .collect();
    if lines.is_empty() { None } else { Some(lines.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_each_argument_that_is_wrong() {
        let schema = json!({"type": "object", "properties": {"url": {"type": "string"}},
            "required": ["url"], "additionalProperties": false});
        let validator = jsonschema::validator_for(&schema).unwrap();
        let check = |value: Value| complaints(&validator, value.as_object().unwrap());
        assert_eq!(check(json!({"url": "x"})), None);
        assert!(check(json!({"url": 3})).unwrap().contains("/url"));
        assert!(check(json!({})).unwrap().contains("url"));
        assert!(check(json!({"url": "x", "more": 1})).unwrap().contains("more"));
        let long = check(json!({"url": ["x".repeat(LINE_LIMIT)]})).unwrap();
        assert!(long.contains("/url: ") && long.contains("string") && !long.contains("xx"), "{long}");
        let name = check(Value::Object([("ä".repeat(LINE_LIMIT), json!(1))].into_iter().collect())).unwrap();
        assert!(name.len() < 3 * LINE_LIMIT && name.contains("…"), "{name}");
    }
}
