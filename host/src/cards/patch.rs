//! Changing a card by JSON Merge Patch (RFC 7396).

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::card::{Faults, Status};
use crate::http::{error::ApiResult, input::maybe};

/// What a client sends to change a card: null is not a value for any of the fields.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CardPatch {
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "String", length(min = 1, max = 500))]
    title: Option<Option<String>>,
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "String", length(min = 1, max = 120))]
    sku: Option<Option<String>>,
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "Status")]
    status: Option<Option<Status>>,
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "Map<String, Value>")]
    attributes: Option<Option<Map<String, Value>>>,
}

/// A checked change; what is `None` stays.
#[derive(Debug, Default)]
pub struct Change {
    pub title: Option<String>,
    pub sku: Option<String>,
    pub status: Option<Status>,
    /// A merge patch for the attributes, never with `sources`.
    pub attributes: Option<Map<String, Value>>,
}

impl CardPatch {
    pub fn check(self) -> ApiResult<Change> {
        let mut faults = Faults::default();
        let change = Change {
            title: required(self.title, "/title", &mut faults),
            sku: required(self.sku, "/sku", &mut faults),
            status: required(self.status, "/status", &mut faults),
            attributes: required(self.attributes, "/attributes", &mut faults),
        };
        if let Some(title) = &change.title {
            faults.title(title);
        }
        if let Some(sku) = &change.sku {
            faults.sku(sku);
        }
        if let Some(attributes) = &change.attributes {
            faults.attributes(attributes);
        }
        faults.result().map(|()| change)
    }
}

fn required<T>(field: Option<Option<T>>, pointer: &'static str, faults: &mut Faults) -> Option<T> {
    if matches!(field, Some(None)) {
        faults.add(pointer, "This can't be null.");
    }
    field.flatten()
}

/// Applies `patch` to `target` as RFC 7396 says.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(members) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            members.remove(key);
        } else {
            merge(members.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn merges_as_the_standard_shows() {
        for (mut target, patch, result) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a":"b"}), json!(["c"]), json!(["c"])),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (json!([1, 2]), json!({"a":"b","c":null}), json!({"a":"b"})),
            (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        ] {
            merge(&mut target, &patch);
            assert_eq!(target, result);
        }
    }
}
