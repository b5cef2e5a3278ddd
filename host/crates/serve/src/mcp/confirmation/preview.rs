//! What a plugin's tool would change, as the plugin says it: its manifest names a handler that gets the same arguments
//! with its caller's rights to read alone.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::mcp::{Visit, narrowing, plugin_tools};
use cardinal_base::{exact, input::escape};
use cardinal_plugin_host::registry::ToolEntry;

/// How long a person may have to wait for it.
const TIMEOUT: Duration = Duration::from_secs(8);
/// Bytes of it: as much as of the arguments.
const LIMIT: usize = 64 << 10;

/// An answer in the host's own form, of one card.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Changes {
    #[serde(default)]
    card_id: Option<Uuid>,
    #[serde(default)]
    version: Option<i64>,
    changes: Vec<Change>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Change {
    pointer: String,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    before: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    after: Option<Value>,
}

/// A member that is there, null or not.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// `{card_id, version, changes}`, or `{card_id, version, changes, problem}` where the plugin has not said it.
pub(super) async fn find(entry: &ToolEntry, visit: &Visit, arguments: &str) -> Value {
    let visit = Visit { caller: narrowing::reading(&visit.caller), ..visit.clone().unheard() };
    let timeout = entry.timeout.min(TIMEOUT);
    let shown = match plugin_tools::preview(entry, &visit, arguments.to_owned().into(), timeout, LIMIT).await {
        Ok(bytes) => read(&bytes),
        Err(problem) => Err(problem),
    };
    shown.unwrap_or_else(|problem| {
        tracing::warn!(tool = entry.tool.name, request_id = %visit.request_id, problem, "no preview of a tool call");
        json!({"card_id": null, "version": null, "changes": [], "problem": problem})
    })
}

/// The answer as a difference. One in another form than ours has its members as what would be there afterwards.
fn read(bytes: &[u8]) -> Result<Value, String> {
    let not_an_object = || "plugin-error: the preview is not a JSON object.".to_owned();
    let text = std::str::from_utf8(bytes).map_err(|_| not_an_object())?;
    // A person would see a number that a double has rounded.
    if exact::first_inexact(text).is_some() {
        return Err("plugin-error: the preview has a number with too many digits.".to_owned());
    }
    let members: Map<String, Value> = serde_json::from_str(text).map_err(|_| not_an_object())?;
    if let Ok(changes) = serde_json::from_value::<Changes>(Value::Object(members.clone())) {
        return serde_json::to_value(changes).map_err(|_| not_an_object());
    }
    let change = |(name, after): (&String, &Value)| json!({"pointer": format!("/{}", escape(name)), "after": after});
    let changes: Vec<Value> = members.iter().map(change).collect();
    Ok(json!({"card_id": null, "version": null, "changes": changes}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_difference_in_any_form() {
        let own = json!({"card_id": Uuid::from_u128(1), "version": 3, "changes": [
            {"pointer": "/title", "before": null, "after": "B"}, {"pointer": "/sku", "before": "a"},
        ]});
        assert_eq!(read(own.to_string().as_bytes()), Ok(own));
        let other = json!({"a/b": 1, "changes": "many"});
        let changes = json!([{"pointer": "/a~1b", "after": 1}, {"pointer": "/changes", "after": "many"}]);
        assert_eq!(
            read(other.to_string().as_bytes()),
            Ok(json!({"card_id": null, "version": null, "changes": changes}))
        );
        for wrong in ["[]", "7", "", "{\"a\":12345678901234567890.5}", "\u{fffd}"] {
            assert!(read(wrong.as_bytes()).unwrap_err().starts_with("plugin-error"), "{wrong}");
        }
    }
}
