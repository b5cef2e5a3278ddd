//! Text that cannot be a parameter: names and literals in DDL, and the templates below `sql/`.

/// First in a transaction in which no name may mean anything that another role made. By transaction, since a pooler may
/// not carry a session's settings from one to the next.
pub const CATALOG_NAMES_ONLY: &str = "SET LOCAL search_path = pg_catalog, pg_temp";

/// A quoted identifier.
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A quoted literal that means the same whatever `standard_conforming_strings` is.
pub fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Puts values in the places of a template that are named `{{name}}`.
///
/// # Errors
/// A place that no value was given for: the template and its caller are out of step.
pub fn fill(template: &str, values: &[(&str, String)]) -> anyhow::Result<String> {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").ok_or_else(|| anyhow::anyhow!("a place without an end"))?;
        let value = values.iter().find(|(known, _)| *known == name);
        let (_, value) = value.ok_or_else(|| anyhow::anyhow!("nothing known for the place {name:?}"))?;
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_and_literals_cannot_end_early() {
        assert_eq!(identifier(r#"a"b"#), r#""a""b""#);
        assert_eq!(literal(r"it's \ fine"), r"E'it''s \\ fine'");
    }

    #[test]
    fn places_are_filled_and_unknown_ones_refused() {
        let values = [("x", "1".to_owned()), ("y", "{{x}}".to_owned())];
        assert_eq!(fill("a {{x}} b {{y}} c", &values).unwrap(), "a 1 b {{x}} c");
        assert!(fill("{{z}}", &values).is_err());
        assert!(fill("{{x", &values).is_err());
    }
}
