//! Reports of rows that an import refuses, for the errors of its job: line, SKU, and the values of the wrong fields.

use serde_json::Value;

use crate::{error::CardError, row::RowError};

/// Characters of a wrong value that a report repeats.
const MAX_VALUE_CHARS: usize = 80;

/// The report of `error` in the row at `line`; `value` finds the text of a field by its pointer.
pub(super) fn describe(
    error: &CardError,
    line: i64,
    sku: Option<&str>,
    value: impl Fn(&str) -> Option<String>,
) -> Value {
    let mut report = RowError::from(error).report(line, sku.filter(|sku| !sku.is_empty()));
    for field in report["errors"].as_array_mut().into_iter().flatten() {
        let Some(found) = field["pointer"].as_str().filter(|pointer| !pointer.is_empty()).and_then(&value) else {
            continue;
        };
        field["value"] = shorten(found).into();
    }
    report
}

/// The same for a line of JSON. Reads the line a second time: only a refused row pays for it.
pub(super) fn describe_json(error: &CardError, at: i64, line: &[u8]) -> Value {
    let row: Value = serde_json::from_slice(line).unwrap_or_default();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    describe(error, at, row["sku"].as_str(), |pointer| row.pointer(pointer).map(text))
}

fn shorten(value: String) -> String {
    match value.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value,
    }
}
