//! Names of fields that nothing knows: the reader warns of them, and the JSON Schema has an editor mark them, in the
//! same places.

use std::collections::BTreeSet;

use jsonschema::error::ValidationErrorKind;
use serde_json::json;

use super::{contributes::contributing, *};

/// Every object that a manifest can have stands in it.
fn full() -> Value {
    let jobs = json!([{"name": "refresh", "args_schema": {"properties": {}}}]);
    let with_jobs = with(contributing(), "/backend/jobs", Some(jobs));
    let times = json!([{"job": "refresh", "cron": "15 3 * * *"}]);
    with(with_jobs, "/backend/schedule", Some(times))
}

/// Pointers to the fields that the reader says it does not know.
fn warned_of(document: &Value) -> BTreeSet<String> {
    let (_, warnings) = read(document).unwrap();
    let unknown = warnings.into_iter().filter(|warning| warning.message.starts_with("This field is not known"));
    unknown.map(|warning| warning.pointer).collect()
}

/// Pointers to those that an editor marks.
fn marked_in(document: &Value, validator: &jsonschema::Validator) -> BTreeSet<String> {
    let mut marked = BTreeSet::new();
    for error in validator.iter_errors(document) {
        let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() else {
            panic!("{}: {error}", error.instance_path());
        };
        marked.extend(unexpected.iter().map(|name| format!("{}/{name}", error.instance_path())));
    }
    marked
}

/// Pointers to the objects of a document, the whole included.
fn objects_of(document: &Value) -> Vec<String> {
    let mut pointers = vec![String::new()];
    places(document, String::new(), &mut pointers);
    pointers.retain(|pointer| document.pointer(pointer).is_some_and(Value::is_object));
    pointers
}

/// How many objects of a schema take no other fields than its own.
fn closed_objects(schema: &Value) -> usize {
    let here = usize::from(schema.get("additionalProperties") == Some(&json!(false)));
    let below: usize = match schema {
        Value::Object(map) => map.values().map(closed_objects).sum(),
        Value::Array(items) => items.iter().map(closed_objects).sum(),
        _ => 0,
    };
    here + below
}

#[test]
fn the_reader_and_an_editor_mark_the_same_slips_at_every_level() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert_eq!(marked_in(&full(), &validator), BTreeSet::new());
    // By the place without its numbers: each level once.
    let mut levels = BTreeSet::new();
    for object in objects_of(&full()) {
        let fields: Vec<String> = full().pointer(&object).unwrap().as_object().unwrap().keys().cloned().collect();
        for slip in fields.iter().map(|field| format!("{field}x")).chain(["x".to_owned()]) {
            let document = with(full(), &format!("{object}/{slip}"), Some(json!({})));
            let warned = warned_of(&document);
            assert_eq!(warned, marked_in(&document, &validator), "{object}/{slip}");
            if !warned.is_empty() {
                assert_eq!(warned, BTreeSet::from([format!("{object}/{slip}")]));
                levels.insert(object.replace(|sign: char| sign.is_ascii_digit(), ""));
            }
        }
    }
    assert_eq!(levels.len(), closed_objects(&schema), "a level of the schema was not tried: {levels:?}");
}

#[test]
fn every_field_that_the_schema_describes_is_known_to_the_reader() {
    fn described(schema: &Value, at: &str, found: &mut Vec<String>) {
        for (name, below) in schema["properties"].as_object().into_iter().flatten() {
            found.push(format!("{at}/{name}"));
            described(below, &format!("{at}/{name}"), found);
        }
        if schema["items"].is_object() {
            described(&schema["items"], &format!("{at}/0"), found);
        }
    }
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let mut pointers = Vec::new();
    described(&schema, "", &mut pointers);
    assert!(pointers.len() > 80, "{pointers:?}");
    for pointer in pointers {
        let (object, name) = pointer.rsplit_once('/').unwrap();
        if name == "0" || full().pointer(&pointer).is_some() {
            continue;
        }
        // Null is wrong everywhere, and said to be so of what is known alone.
        let document = with(full(), &pointer, Some(json!(null)));
        let Problems(problems) = read(&document).expect_err(&pointer);
        assert!(problems.iter().any(|problem| problem.pointer.starts_with(object)), "{pointer}: {problems:?}");
    }
}
