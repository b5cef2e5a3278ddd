//! Statements, parameters and rows as they pass between host and plugin: [`cardinal_plugin_abi::values`], and the
//! description of a type that `db_prepare` answers.

use bytes::{Bytes, BytesMut};
use cardinal_plugin_abi::{host::StmtId, values};
use serde_json::{Value, json};
use tokio_postgres::{
    Statement,
    types::{Format, FromSql, IsNull, Kind, ToSql, Type, to_sql_checked},
};

pub(super) fn describe(number: StmtId, statement: &Statement) -> Value {
    let params: Vec<_> = statement.params().iter().map(describe_type).collect();
    let column =
        |column: &tokio_postgres::Column| json!({ "name": column.name(), "type": describe_type(column.type_()) });
    let columns: Vec<_> = statement.columns().iter().map(column).collect();
    json!({ "statement": number, "params": params, "columns": columns })
}

fn describe_type(of: &Type) -> Value {
    let mut described = json!({ "oid": of.oid(), "name": of.name(), "schema": of.schema() });
    described["kind"] = match of.kind() {
        Kind::Enum(variants) => {
            described["variants"] = json!(variants);
            json!("enum")
        }
        Kind::Pseudo => json!("pseudo"),
        Kind::Array(inner) => json!({ "array": describe_type(inner) }),
        Kind::Range(inner) => json!({ "range": describe_type(inner) }),
        Kind::Multirange(inner) => json!({ "multirange": describe_type(inner) }),
        Kind::Domain(inner) => json!({ "domain": describe_type(inner) }),
        Kind::Composite(fields) => {
            let field = |field: &tokio_postgres::types::Field| {
                let of_type = describe_type(field.type_());
                json!({ "name": field.name(), "type": of_type })
            };
            json!({ "composite": fields.iter().map(field).collect::<Vec<_>>() })
        }
        _ => json!("simple"),
    };
    described
}

/// A parameter as the SDK has encoded it.
#[derive(Debug)]
pub(super) struct RawParam(Option<Bytes>);

impl ToSql for RawParam {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let Some(value) = &self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(value);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Binary
    }

    to_sql_checked!();
}

pub(super) fn read_params(buffer: &[u8]) -> Vec<RawParam> {
    let mut reader = values::Reader::new(buffer);
    std::iter::from_fn(|| reader.next()).map(|value| RawParam(value.map(Bytes::copy_from_slice))).collect()
}

/// A value as PostgreSQL has sent it.
struct RawValue<'a>(&'a [u8]);

impl<'a> FromSql<'a> for RawValue<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

pub(super) fn push_row(batch: &mut Vec<u8>, row: &tokio_postgres::Row) -> Result<(), tokio_postgres::Error> {
    values::push_row(batch, u16::try_from(row.len()).unwrap_or(u16::MAX));
    for i in 0..row.len() {
        let value: Option<RawValue<'_>> = row.try_get(i)?;
        values::push(batch, value.map(|value| value.0));
    }
    Ok(())
}
