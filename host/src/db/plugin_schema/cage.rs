//! The cage: schema.sql inside one `DO` block, where PostgreSQL itself refuses to begin, commit or roll back.

use std::time::Duration;

use anyhow::Context as _;
use rand::TryRng as _;
use tokio_postgres::Transaction;
use tokio_postgres::error::{DbError, ErrorPosition};

use super::{ProvisionFault, Step, Trouble, diff, safety};
use crate::db::{connect, sql};
use crate::hex::hex;

const LOCK_TIMEOUT: &str = "3s";
const TAG_BYTES: usize = 16;

/// How a run of schema.sql ended badly. Its transaction is gone in every case.
#[derive(Debug)]
pub(super) enum Failure {
    /// A lock that others held; the same may work next time.
    Busy(tokio_postgres::Error),
    Refused(ProvisionFault),
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(fault) => Self::Refused(fault),
            Failure::Failed(error) => Self::Failed(error),
            Failure::Busy(error) => Self::Failed(anyhow::Error::new(error).context("schema.sql met other work")),
        }
    }
}

/// As the plugin's schema role in one transaction: schema.sql, then what it did to the tables, then what it left. Gives
/// what was lost, which is nothing beyond what was agreed to.
pub(super) async fn run(step: &Step<'_>, agreed: &[String]) -> Result<Vec<String>, Failure> {
    let role = step.names.plugin_schema(step.plugin);
    let login = step.provisioner.with_login(&role, step.passwords.of(&role));
    // Logged in as that role, not SET ROLE: there is nothing to go back to.
    let mut session = connect::connect(&login).await.context("logging in as the plugin's schema role")?;
    let work = session.transaction().await.context("beginning schema.sql")?;
    let schema = step.schema();
    let runtime_role = step.names.plugin_runtime(step.plugin);
    prepare(&work, &schema, &runtime_role, step.schema_timeout).await?;
    let before = diff::tables(&work, &schema).await?;
    work.batch_execute(&caged(step.schema_sql)?).await.map_err(|error| judged(error, step.schema_sql))?;
    settle(&work).await.map_err(|error| judged(error, step.schema_sql))?;
    let after = diff::tables(&work, &schema).await?;
    let lost = diff::lost(&before, &after);
    if let Some(refusal) = diff::refusal(&lost, agreed).filter(|_| !step.replay) {
        return Err(Failure::Refused(refusal));
    }
    if let Some(refusal) = safety::refusal(&work, step).await? {
        return Err(Failure::Refused(refusal));
    }
    grant(&work, &schema, &runtime_role).await?;
    work.commit().await.map_err(|error| judged(error, step.schema_sql))?;
    Ok(lost)
}

pub(super) fn took_too_long(limit: Duration) -> Trouble {
    Trouble::Refused(ProvisionFault::refused(
        "schema-failed",
        format!("schema.sql to be done within {} s", limit.as_secs()),
        "it was still running",
        "move long work out of schema.sql into the plugin",
    ))
}

async fn prepare(work: &Transaction<'_>, schema: &str, runtime_role: &str, timeout: Duration) -> anyhow::Result<()> {
    let (schema, runtime_role) = (sql::identifier(schema), sql::identifier(runtime_role));
    work.batch_execute(&format!(
        "SET LOCAL search_path = {schema}, pg_temp;
         SET LOCAL lock_timeout = '{LOCK_TIMEOUT}';
         SET LOCAL statement_timeout = {};
         SET LOCAL client_connection_check_interval = '1s';
         ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {runtime_role};
         ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT USAGE, SELECT ON SEQUENCES TO {runtime_role}",
        timeout.as_millis()
    ))
    .await
    .context("preparing the transaction of schema.sql")
}

/// The tag is random, so that no file can contain it and end the block early.
fn caged(schema_sql: &str) -> anyhow::Result<String> {
    let mut bytes = [0; TAG_BYTES];
    rand::rngs::SysRng.try_fill_bytes(&mut bytes).context("getting random numbers")?;
    let tag = format!("$cage_{}$", hex(&bytes));
    Ok(format!("DO {tag} BEGIN EXECUTE {}; END {tag}", sql::literal(schema_sql)))
}

/// Whatever schema.sql put off to the commit happens now, before it is looked at; and what it changed of the session
/// must not colour the look.
async fn settle(work: &Transaction<'_>) -> Result<(), tokio_postgres::Error> {
    work.batch_execute(
        "SET CONSTRAINTS ALL IMMEDIATE; RESET ROLE; SET LOCAL search_path = pg_catalog; SET LOCAL statement_timeout = '30s'",
    )
    .await
}

/// What a schema.sql revoked of its own run-time role, and what older versions made before the defaults stood.
async fn grant(work: &Transaction<'_>, schema: &str, runtime_role: &str) -> anyhow::Result<()> {
    let (schema, runtime_role) = (sql::identifier(schema), sql::identifier(runtime_role));
    work.batch_execute(&format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {runtime_role};
         GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {runtime_role}"
    ))
    .await
    .context("granting the plugin its tables")
}

/// What PostgreSQL says about schema.sql: the author's mistake, other work in the way, or a database that is not there.
fn judged(error: tokio_postgres::Error, schema_sql: &str) -> Failure {
    let Some(said) = error.as_db_error() else {
        return Failure::Failed(anyhow::Error::new(error).context("running schema.sql"));
    };
    match said.code().code() {
        "55P03" | "40P01" | "40001" => Failure::Busy(error),
        code if code.starts_with("53") || code.starts_with("08") || code.starts_with("57P") => {
            Failure::Failed(anyhow::Error::new(error).context("running schema.sql"))
        }
        code => Failure::Refused(ProvisionFault::refused(
            "schema-failed",
            "schema.sql to run without an error",
            told(said, schema_sql),
            advice(code),
        )),
    }
}

fn told(said: &DbError, schema_sql: &str) -> String {
    let mut text = format!("{} {}", said.code().code(), said.message());
    if let Some(detail) = said.detail() {
        text.push_str(&format!(" ({detail})"));
    }
    if let Some(ErrorPosition::Internal { position, query }) = said.position()
        && query == schema_sql
    {
        text.push_str(&format!(", line {}", line_at(schema_sql, *position)));
    }
    text
}

/// PostgreSQL counts characters from 1.
fn line_at(text: &str, position: u32) -> usize {
    let before = text.chars().take((position as usize).saturating_sub(1));
    before.filter(|character| *character == '\n').count() + 1
}

fn advice(code: &str) -> &'static str {
    match code {
        "0A000" => {
            "schema.sql runs inside one transaction of the host: take BEGIN, COMMIT, ROLLBACK and CONCURRENTLY out"
        }
        "42501" => {
            "keep to the plugin's own schema; of the core only public.master_cards may be read and referenced, by its id"
        }
        "57014" => "move long work out of schema.sql into the plugin",
        "42P07" | "42710" => "write IF NOT EXISTS, so that schema.sql can run again over what is there",
        _ => "correct schema.sql",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn two_cages_never_have_the_same_tag() {
        let (one, other) = (caged("select 1").unwrap(), caged("select 1").unwrap());
        assert_ne!(one, other);
        assert!(one.starts_with("DO $cage_") && one.ends_with('$'));
    }

    #[test]
    fn a_position_is_told_as_a_line() {
        let text = "eins\nzwölf\ndrei";
        assert_eq!((line_at(text, 1), line_at(text, 7), line_at(text, 12)), (1, 2, 3));
        assert_eq!(line_at(text, 0), 1);
    }
}
