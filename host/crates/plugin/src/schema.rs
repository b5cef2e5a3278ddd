//! A plugin's database: asked of the supervisor, which alone may make roles and run schema.sql.

use cardinal_control::link::{PluginDatabase, ProvisionFault, SupervisorLink};
use cardinal_database::roles::plugin_schema_name;
use cardinal_package::state::{Code, Refusal};
use cardinal_schema_sql as schema_sql;

/// Why a plugin has no database.
#[derive(Debug)]
pub enum ProvisionError {
    Refused(Refusal),
    /// Trying again may help.
    Unavailable(String),
}

/// Brings roles and schema in line with the package that has this content hash.
pub async fn provision(
    supervisor: &SupervisorLink,
    plugin: &str,
    sha256: &str,
) -> Result<PluginDatabase, ProvisionError> {
    supervisor.provision(plugin, sha256).await.map_err(why)
}

/// Whether a host would run this schema.sql; needs no database. Blocks.
///
/// # Errors
/// It says something that is not on the list, or is no SQL.
pub fn check_sql(plugin: &str, schema_sql: Option<&str>) -> Result<(), Refusal> {
    let Some(schema_sql) = schema_sql else { return Ok(()) };
    match schema_sql::read(&plugin_schema_name(plugin), schema_sql).map_err(|error| why(error.into())) {
        Ok(_) => Ok(()),
        Err(ProvisionError::Refused(refusal)) => Err(refusal),
        Err(ProvisionError::Unavailable(reason)) => Err(Refusal::new(Code::SchemaFailed, reason)),
    }
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
