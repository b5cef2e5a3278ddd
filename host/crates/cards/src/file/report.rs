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
    make_storable(&mut report);
    report
}

/// PostgreSQL stores no U+0000, and what is wrong with the row may be just that: its symbol stands for it.
fn make_storable(report: &mut Value) {
    match report {
        Value::String(text) if text.contains('\0') => *text = text.replace('\0', "\u{2400}"),
        Value::Array(items) => items.iter_mut().for_each(make_storable),
        Value::Object(members) => members.values_mut().for_each(make_storable),
        _ => {}
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_stored_is_told_by_its_symbol() {
        let line = br#"{"sku":"a\u0000b","title":"\u0000"}"#;
        let error = CardError::field("/title", "No.");
        let report = describe_json(&error, 3, line);
        assert_eq!((&report["sku"], &report["errors"][0]["value"]), (&"a\u{2400}b".into(), &"\u{2400}".into()));
        assert!(!report.to_string().contains("u0000"), "{report}");
    }
}
