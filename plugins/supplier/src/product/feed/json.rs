//! JSON: a list of objects, or an object with such a list in it.

use serde_json::Value;

use super::{FeedError, MAX_ENTRIES, Record};

pub(super) fn records(file: &str) -> Result<Vec<Record>, FeedError> {
    let document: Value = serde_json::from_str(file).map_err(|error| FeedError::Damaged(error.to_string()))?;
    let list = match &document {
        Value::Array(list) => list,
        Value::Object(fields) => {
            fields.values().filter_map(Value::as_array).max_by_key(|list| list.len()).ok_or(FeedError::Format)?
        }
        _ => return Err(FeedError::Format),
    };
    Ok(list.iter().filter(|entry| entry.is_object()).take(MAX_ENTRIES).map(record).collect())
}

fn record(entry: &Value) -> Record {
    let mut record = Record::default();
    for (name, value) in entry.as_object().into_iter().flatten() {
        add(&mut record, name, value);
        // `"brand": {"name": "Lumo"}` is the field `brandname`.
        for (inner, value) in value.as_object().into_iter().flatten() {
            add(&mut record, &format!("{name}{inner}"), value);
        }
    }
    record
}

fn add(record: &mut Record, name: &str, value: &Value) {
    match value {
        Value::String(text) => record.add(name, text),
        Value::Number(number) => record.add(name, &number.to_string()),
        Value::Array(values) => {
            values.iter().filter(|value| !value.is_array()).for_each(|value| match value.get("url") {
                Some(url) => add(record, name, url),
                None => add(record, name, value),
            })
        }
        Value::Bool(_) | Value::Null | Value::Object(_) => {}
    }
}
