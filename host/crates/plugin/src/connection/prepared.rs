//! Prepared statements: their description for the plugin, their parameters, their cache.

use std::{collections::HashMap, num::NonZeroUsize, sync::Arc};

use bytes::{Bytes, BytesMut};
use cardinal_plugin_abi::values;
use serde_json::{Value, json};
use tokio_postgres::{
    Statement,
    error::SqlState,
    types::{Format, IsNull, Kind, ToSql, Type},
};

use crate::fault::Fault;

/// A prepared statement of one connection.
pub(super) struct PreparedStatement {
    pub number: u64,
    pub sql: String,
    pub statement: Statement,
    /// For the plugin, JSON.
    pub description: Bytes,
    /// Whether running it leaves its session as it was.
    pub leaves_no_state: bool,
}

impl PreparedStatement {
    pub(super) fn new(number: u64, sql: String, statement: Statement, leaves_no_state: bool) -> Self {
        let params: Vec<_> = statement.params().iter().map(describe).collect();
        let columns: Vec<_> = statement
            .columns()
            .iter()
            .map(|column| json!({"name": column.name(), "type": describe(column.type_())}))
            .collect();
        let description = json!({"statement": number, "params": params, "columns": columns}).to_string().into();
        Self { number, sql, statement, description, leaves_no_state }
    }

    /// The values of one execution.
    pub(super) fn params(&self, buffer: &Bytes) -> Result<Vec<RawParam>, Fault> {
        let expected = self.statement.params().len();
        let mut reader = values::Reader::new(buffer);
        let mut params = Vec::with_capacity(expected);
        while let Some(value) = reader.next() {
            params.push(RawParam(value.map(|value| buffer.slice_ref(value))));
        }
        if !reader.is_done() {
            return Err(Fault::Invalid("the parameters do not have the layout of the plugin API".to_owned()));
        }
        if params.len() != expected {
            let found = params.len();
            return Err(Fault::Invalid(format!("the statement takes {expected} parameters, {found} were given")));
        }
        Ok(params)
    }
}

fn describe(kind: &Type) -> Value {
    let mut described = json!({"oid": kind.oid(), "name": kind.name(), "schema": kind.schema()});
    let shape = match kind.kind() {
        Kind::Enum(variants) => {
            described["variants"] = json!(variants);
            json!("enum")
        }
        Kind::Pseudo => json!("pseudo"),
        Kind::Array(of) => json!({"array": describe(of)}),
        Kind::Range(of) => json!({"range": describe(of)}),
        Kind::Multirange(of) => json!({"multirange": describe(of)}),
        Kind::Domain(of) => json!({"domain": describe(of)}),
        Kind::Composite(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|field| json!({"name": field.name(), "type": describe(field.type_())})).collect();
            json!({"composite": fields})
        }
        _ => json!("simple"),
    };
    described["kind"] = shape;
    described
}

/// A value in PostgreSQL's binary format, whatever its type: the plugin wrote it, the server reads
/// it, the host looks away.
#[derive(Debug)]
pub(super) struct RawParam(Option<Bytes>);

type ConversionError = Box<dyn std::error::Error + Sync + Send>;

impl ToSql for RawParam {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, ConversionError> {
        match &self.0 {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, ConversionError> {
        self.to_sql(kind, out)
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Binary
    }
}

/// Whether the server has dropped the statement, or its result has another shape by now.
pub(super) fn is_stale(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|fault| {
        *fault.code() == SqlState::INVALID_SQL_STATEMENT_NAME
            || (*fault.code() == SqlState::FEATURE_NOT_SUPPORTED && fault.message().contains("cached plan"))
    })
}

/// Whether SQL text prepares or drops statements by itself.
pub(super) fn handles_statements(sql: &str) -> bool {
    const WORDS: [&str; 3] = ["prepare", "deallocate", "discard"];
    sql.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| WORDS.iter().any(|w| word.eq_ignore_ascii_case(w)))
}

/// Whether SQL text may be more than one statement.
pub(super) fn has_several(sql: &str) -> bool {
    sql.trim_end().trim_end_matches(';').contains(';')
}

/// The statements that a connection keeps prepared; the one unused for longest goes first. A
/// statement that goes is closed on the server when its last user is done.
pub(super) struct Cache {
    limit: NonZeroUsize,
    clock: u64,
    statements: HashMap<String, (u64, Arc<PreparedStatement>)>,
}

impl Cache {
    pub(super) fn new(limit: NonZeroUsize) -> Self {
        Self { limit, clock: 0, statements: HashMap::new() }
    }

    pub(super) fn get(&mut self, sql: &str) -> Option<Arc<PreparedStatement>> {
        self.clock += 1;
        let (used, prepared) = self.statements.get_mut(sql)?;
        *used = self.clock;
        Some(prepared.clone())
    }

    pub(super) fn insert(&mut self, prepared: Arc<PreparedStatement>) {
        self.clock += 1;
        if self.statements.len() >= self.limit.get() && !self.statements.contains_key(&prepared.sql) {
            let oldest = self.statements.iter().min_by_key(|(_, (used, _))| *used).map(|(sql, _)| sql.clone());
            if let Some(sql) = oldest {
                self.statements.remove(&sql);
            }
        }
        self.statements.insert(prepared.sql.clone(), (self.clock, prepared));
    }

    pub(super) fn remove(&mut self, sql: &str) {
        self.statements.remove(sql);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_type_is_described() {
        assert_eq!(describe(&Type::TEXT), json!({"oid": 25, "name": "text", "schema": "pg_catalog", "kind": "simple"}));
        assert_eq!(describe(&Type::INT4_ARRAY)["kind"]["array"]["name"], "int4");
        assert_eq!(describe(&Type::INT4_RANGE)["kind"]["range"]["oid"], 23);
        let mood = Type::new("mood".into(), 7, Kind::Enum(vec!["ok".into()]), "plugin_x".into());
        assert_eq!(describe(&mood)["variants"], json!(["ok"]));
        let domain = Type::new("d".into(), 8, Kind::Domain(mood), "plugin_x".into());
        assert_eq!(describe(&domain)["kind"]["domain"]["kind"], "enum");
    }

    #[test]
    fn statements_made_by_sql_are_seen() {
        for sql in ["PREPARE x AS SELECT 1", "select 1;deallocate all", "DISCARD ALL"] {
            assert!(handles_statements(sql), "{sql}");
        }
        for sql in ["SELECT prepared_at FROM items", "UPDATE t SET discarded = true"] {
            assert!(!handles_statements(sql), "{sql}");
        }
    }
}
