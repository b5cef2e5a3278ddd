//! JSON: a list of objects, or an object with such a list in it.

use std::collections::BTreeMap;

use super::{FeedError, MAX_ENTRIES, Record};
use crate::product::json::Json;

type Fields = BTreeMap<String, Json>;

pub(super) fn records(file: &str) -> Result<Vec<Record>, FeedError> {
    let document = Json::parse_whole(file).map_err(|error| FeedError::Damaged(error.to_string()))?;
    let list = match &document {
        Json::List(list) => list,
        Json::Object(fields) => {
            fields.values().filter_map(as_list).max_by_key(|list| list.len()).ok_or(FeedError::Format)?
        }
        _ => return Err(FeedError::Format),
    };
    Ok(list.iter().filter_map(as_object).take(MAX_ENTRIES).map(record).collect())
}

fn as_list(value: &Json) -> Option<&Vec<Json>> {
    if let Json::List(list) = value { Some(list) } else { None }
}

fn as_object(value: &Json) -> Option<&Fields> {
    if let Json::Object(fields) = value { Some(fields) } else { None }
}

fn record(entry: &Fields) -> Record {
    let mut record = Record::default();
    for (name, value) in entry {
        add(&mut record, name, value);
        // `"brand": {"name": "Lumo"}` is the field `brandname`.
        for (inner, value) in as_object(value).into_iter().flatten() {
            add(&mut record, &format!("{name}{inner}"), value);
        }
    }
    record
}

fn add(record: &mut Record, name: &str, value: &Json) {
    match value {
        Json::Text(text) | Json::Number(text) => record.add(name, text),
        Json::List(values) => {
            for value in values.iter().filter(|value| as_list(value).is_none()) {
                match value.get("url") {
                    Json::Nothing => add(record, name, value),
                    url => add(record, name, url),
                }
            }
        }
        Json::Nothing | Json::Object(_) => {}
    }
}
