//! The host's description of a type → [`Type`].

use postgres_types::{Field, Kind, Type};
use serde::Deserialize;
use serde_json::Value;

use crate::{Error, Result};

/// What `db_prepare` answers.
#[derive(Deserialize)]
pub(super) struct PreparedJson {
    pub(super) statement: u64,
    #[serde(default)]
    pub(super) params: Vec<TypeJson>,
    #[serde(default)]
    pub(super) columns: Vec<ColumnJson>,
}

#[derive(Deserialize)]
pub(super) struct ColumnJson {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) of: TypeJson,
}

#[derive(Deserialize)]
pub(super) struct TypeJson {
    oid: u32,
    #[serde(default)]
    name: String,
    #[serde(default)]
    schema: String,
    #[serde(default)]
    kind: Value,
    #[serde(default)]
    variants: Vec<String>,
}

/// Types nest no deeper than this in earnest; a deeper description is refused, not followed.
const DEPTH: usize = 32;

impl TypeJson {
    pub(super) fn build(self) -> Result<Type> {
        self.build_at(0)
    }

    fn build_at(self, depth: usize) -> Result<Type> {
        if let Some(known) = Type::from_oid(self.oid) {
            return Ok(known);
        }
        if depth > DEPTH {
            return Err(malformed("nests too deep"));
        }
        let kind = kind(self.kind, self.variants, depth + 1)?;
        Ok(Type::new(self.name, self.oid, kind, self.schema))
    }
}

fn kind(kind: Value, variants: Vec<String>, depth: usize) -> Result<Kind> {
    let (name, inner) = match kind {
        Value::String(name) => (name, Value::Null),
        Value::Object(object) => object.into_iter().next().ok_or_else(|| malformed("has an empty kind"))?,
        _ => return Err(malformed("has no kind")),
    };
    Ok(match name.as_str() {
        "enum" => Kind::Enum(variants),
        "pseudo" => Kind::Pseudo,
        "array" => Kind::Array(element(inner, depth)?),
        "range" => Kind::Range(element(inner, depth)?),
        "multirange" => Kind::Multirange(element(inner, depth)?),
        "domain" => Kind::Domain(element(inner, depth)?),
        "composite" => Kind::Composite(fields(inner, depth)?),
        _ => Kind::Simple, // "simple", and kinds that a later host may know
    })
}

fn element(inner: Value, depth: usize) -> Result<Type> {
    serde_json::from_value::<TypeJson>(inner).map_err(|error| malformed(&error.to_string()))?.build_at(depth)
}

fn fields(inner: Value, depth: usize) -> Result<Vec<Field>> {
    let columns: Vec<ColumnJson> = serde_json::from_value(inner).map_err(|error| malformed(&error.to_string()))?;
    columns.into_iter().map(|column| Ok(Field::new(column.name, column.of.build_at(depth)?))).collect()
}

fn malformed(why: &str) -> Error {
    Error::internal(format!("the host's description of a type {why}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn build(json: Value) -> Result<Type> {
        serde_json::from_value::<TypeJson>(json)?.build()
    }

    #[test]
    fn every_kind_is_built() {
        let text = json!({ "oid": 25, "name": "text", "schema": "pg_catalog", "kind": "simple" });
        assert_eq!(build(text.clone()).unwrap(), Type::TEXT);
        let mood = json!({ "oid": 90001, "name": "mood", "schema": "s", "kind": "enum", "variants": ["sad", "ok"] });
        assert_eq!(build(mood.clone()).unwrap().kind(), &Kind::Enum(vec!["sad".into(), "ok".into()]));
        let array = build(json!({ "oid": 90002, "name": "_mood", "schema": "s", "kind": { "array": mood } })).unwrap();
        assert!(matches!(array.kind(), Kind::Array(inner) if inner.name() == "mood"));
        let domain = build(json!({ "oid": 90003, "name": "sku", "schema": "s", "kind": { "domain": text } })).unwrap();
        assert_eq!(domain.kind(), &Kind::Domain(Type::TEXT));
        let fields = json!([{ "name": "a", "type": text }]);
        let composite = build(json!({ "oid": 90004, "name": "c", "schema": "s", "kind": { "composite": fields } }));
        assert!(matches!(composite.unwrap().kind(), Kind::Composite(fields) if fields[0].name() == "a"));
        for kind in ["range", "multirange"] {
            let of = build(json!({ "oid": 90005, "name": "r", "schema": "s", "kind": { kind: text } })).unwrap();
            assert!(matches!(of.kind(), Kind::Range(Type::TEXT) | Kind::Multirange(Type::TEXT)));
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        for json in [
            json!({ "oid": 90001, "kind": {} }),
            json!({ "oid": 90001, "kind": { "array": "x" } }),
            json!({ "oid": 90001 }),
        ] {
            assert!(build(json).is_err());
        }
        let deep = (0..100).fold(
            json!({ "oid": 90001, "kind": "simple" }),
            |inner, _| json!({ "oid": 90001, "kind": { "domain": inner } }),
        );
        assert!(build(deep).is_err());
    }
}
