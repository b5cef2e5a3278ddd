//! A plugin's database: asked of the supervisor, which alone may make roles and run schema.sql.

use cardinal_base::spelling::nearest;
use cardinal_control::link::{PluginDatabase, ProvisionFault, SupervisorLink};
use cardinal_database::roles::plugin_schema_name;
use cardinal_package::{
    package::SCHEMA,
    refusal::{Code, Refusal},
};
use cardinal_schema_sql::{
    self as schema_sql, Statement,
    repeats::Unrepeatable,
    used_types::{self, UsedType},
};

/// Why a plugin has no database.
#[derive(Debug)]
pub(crate) enum ProvisionError {
    Refused(Refusal),
    /// Trying again may help.
    Unavailable(String),
}

/// Brings roles and schema in line with the package that has this content hash.
pub(crate) async fn provision(
    supervisor: &SupervisorLink,
    plugin: &str,
    sha256: &str,
) -> Result<PluginDatabase, ProvisionError> {
    supervisor.provision(plugin, sha256).await.map_err(why)
}

/// Whether a host would run this schema.sql; needs no database. Gives warnings. Blocks.
///
/// # Errors
/// It says something that is not on the list, or is no SQL.
pub(crate) fn check_sql(plugin: &str, schema_sql: Option<&str>) -> Result<Vec<String>, Refusal> {
    let Some(schema_sql) = schema_sql else { return Ok(Vec::new()) };
    match schema_sql::read(&plugin_schema_name(plugin), schema_sql).map_err(|error| why(error.into())) {
        Ok(statements) => Ok(warnings(&statements)),
        Err(ProvisionError::Refused(refusal)) => Err(refusal),
        Err(ProvisionError::Unavailable(reason)) => Err(Refusal::new(Code::SchemaFailed, reason)),
    }
}

fn warnings(statements: &[Statement]) -> Vec<String> {
    let unrepeatable = statements.iter().filter_map(|it| it.unrepeatable.as_ref()).map(|it| {
        let Unrepeatable { what, fix, position } = it;
        format!(
            "{SCHEMA}: {what} at {position} can't run again, as each version's file does over the last one's. {fix}"
        )
    });
    used_types::unknown(statements).into_iter().map(unknown_type).chain(unrepeatable).collect()
}

fn unknown_type(used: &UsedType) -> String {
    let UsedType { name, position } = used;
    let meant = used_types::here(name).or_else(|| nearest(name, used_types::built_in()));
    let guess = meant.map(|name| format!(" Did you mean `{name}`?")).unwrap_or_default();
    format!(
        "{SCHEMA}: the type `{name}` at {position} is not a PostgreSQL type, and this file does not create it.{guess}"
    )
}

fn why(fault: ProvisionFault) -> ProvisionError {
    match fault {
        ProvisionFault::Unavailable(reason) | ProvisionFault::Failed(reason) => ProvisionError::Unavailable(reason),
        ProvisionFault::Refused { code, expected, found, fix, losses } => {
            let known = Code::parse(&code);
            let reason = reason(known).unwrap_or_else(|| format!("The plugin's schema was not created ({code})."));
            let mut refusal = Refusal::new(known.unwrap_or(Code::SchemaFailed), reason);
            if !expected.is_empty() {
                refusal = refusal.expected(expected);
            }
            if !found.is_empty() {
                refusal = refusal.found(found);
            }
            if !fix.is_empty() {
                refusal = refusal.fix(fix);
            }
            ProvisionError::Refused(Refusal { losses: losses.into(), ..refusal })
        }
    }
}

fn reason(code: Option<Code>) -> Option<String> {
    let reason = match code? {
        Code::SchemaFailed => "The plugin's schema.sql failed; none of it was kept.",
        Code::SchemaUnsafe => "The plugin's schema contains something that plugins may not have.",
        Code::SchemaTaken => "The plugin's schema belongs to another owner.",
        Code::PackageChanged => "The plugin's files changed while it was being loaded.",
        Code::DestructiveMigration => "The plugin's new schema.sql would lose data.",
        _ => return None,
    };
    Some(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_nobody_makes_is_a_warning() {
        let text = "create type mood as enum ('good'); create type spans as range (subtype = int8); create table t (a mood,\n\
                    b mood[], c spans_multirange, d u, e datetime, f txet[], g bigserial, h double precision, i oddity);\n\
                    create table s (a t); alter table s rename to u;";
        let said = |name: &str, column, guess: &str| {
            format!(
                "schema.sql: the type `{name}` at line 2, column {column} is not a PostgreSQL type, and this file does \
                 not create it.{guess}"
            )
        };
        let expected = [
            said("datetime", 38, " Did you mean `timestamptz`?"),
            said("txet", 50, " Did you mean `text`?"),
            said("oddity", 93, ""),
        ];
        let unknown = check_sql("notes", Some(text)).unwrap().into_iter().filter(|it| it.contains("the type"));
        assert_eq!(unknown.collect::<Vec<_>>(), expected);
        assert_eq!(check_sql("notes", None).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_cannot_run_again_is_a_warning() {
        let found = |text: &str| check_sql("notes", Some(text)).unwrap();
        let good = "create table if not exists a (i int); create index if not exists b on a (i);
            create sequence if not exists s; create or replace view v as select i from a;
            create type mood as enum ('x'); create domain short as text; drop table if exists gone;
            alter table a add column if not exists j int, drop column if exists k;
            drop view if exists w; create view w as select i from a; insert into a values (1)";
        assert_eq!(found(good), Vec::<String>::new());
        for (text, what) in [
            ("create table a (i int)", "CREATE at line 1, column 1"),
            ("create sequence s", "CREATE at line 1"),
            ("create table if not exists a (i int);\n create index b on a (i)", "CREATE INDEX at line 2, column 2"),
            ("create table if not exists a (i int); create index on a (i)", "an index without a name"),
            ("create view v as select 1 as one", "CREATE OR REPLACE VIEW"),
            ("drop table gone", "IF EXISTS"),
            ("create table if not exists a (i int); alter table a add column j int", "ADD COLUMN"),
            ("create table if not exists a (i int); alter table a drop column i", "DROP COLUMN"),
        ] {
            let said = found(text);
            assert!(
                said.len() == 1 && said[0].contains(what) && said[0].contains("can't run again"),
                "{text}: {said:?}"
            );
        }
    }

    #[test]
    fn the_supervisors_words_are_kept() {
        let fault = ProvisionFault::refused("schema-unsafe", "tables, views and indexes", "function f()", "drop it");
        let ProvisionError::Refused(refusal) = why(fault) else { panic!("a refusal") };
        assert_eq!((refusal.code, refusal.found.as_deref()), (Code::SchemaUnsafe, Some("function f()")));
        assert_eq!(refusal.fix, "drop it");
    }

    #[test]
    fn an_unknown_code_is_still_told() {
        let ProvisionError::Refused(refusal) = why(ProvisionFault::refused("made-up", "", "", "load again")) else {
            panic!("a refusal")
        };
        assert_eq!(refusal.code, Code::SchemaFailed);
        assert!(refusal.reason.contains("made-up"));
    }
}
