//! Checks of a plugin's tables and domains, which stand aside while its rows come in.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio_postgres::Client;

use super::is_of_the_tables;

/// A check that stands aside while rows come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: String,
    add: String,
    /// `None` where it was NOT VALID.
    validate: Option<String>,
}

/// Checks of tables and domains, outermost first, and NOT NULL that older rows need not hold to (PostgreSQL 18). Those
/// that a table inherits go with the ones above.
const CHECKS: &str = "
    SELECT k.conname::text, o.owner,
           'ALTER ' || o.owner || format(' DROP CONSTRAINT %I', k.conname) AS remove,
           'ALTER ' || o.owner || format(' ADD CONSTRAINT %I %s', k.conname, pg_get_constraintdef(k.oid))
             || CASE WHEN k.convalidated THEN ' NOT VALID' ELSE '' END AS add,
           CASE WHEN k.convalidated THEN 'ALTER ' || o.owner || format(' VALIDATE CONSTRAINT %I', k.conname) END AS validate
    FROM pg_constraint k JOIN pg_namespace n ON n.oid = k.connamespace,
         LATERAL (SELECT CASE k.conrelid WHEN 0 THEN 'DOMAIN ' || k.contypid::regtype ELSE 'TABLE ' || k.conrelid::regclass END) o (owner)
    WHERE n.nspname = $1 AND (k.contype = 'c' OR k.contype = 'n' AND NOT k.convalidated) AND k.coninhcount = 0 ORDER BY k.oid";
/// Tables below one another, each with the same check by itself.
const MAX_LEVELS: usize = 100;

/// Takes the checks of a plugin's schema away. Rows came in that were older than a check, or fit one that looks at the
/// clock: they come back all the same.
///
/// # Errors
/// As the server reports them.
pub async fn checks_aside(client: &Client, schema: &str) -> anyhow::Result<Vec<Check>> {
    let mut checks = Vec::new();
    for _ in 0..MAX_LEVELS {
        let rows = client.query(CHECKS, &[&schema]).await.with_context(|| format!("listing checks of {schema}"))?;
        if rows.is_empty() {
            break;
        }
        for row in rows {
            client.batch_execute(row.try_get("remove")?).await.context("taking checks away")?;
            let (name, owner): (String, String) = (row.try_get("conname")?, row.try_get("owner")?);
            let name = format!("check {name} of {}", owner.to_lowercase());
            checks.push(Check { name, add: row.try_get("add")?, validate: row.try_get("validate")? });
        }
    }
    // One of a table below, which it has by itself, is made before the one above it merges with it.
    checks.reverse();
    Ok(checks)
}

/// Puts the checks back, and has the rows checked within this time. Gives those that stay NOT VALID, each with why.
///
/// # Errors
/// As the server reports them.
pub async fn checks_again(client: &Client, checks: &[Check], limit: Duration) -> anyhow::Result<Vec<String>> {
    let (end, mut open) = (Instant::now() + limit, Vec::new());
    for check in checks {
        client.batch_execute(&check.add).await.with_context(|| format!("putting {} back", check.name))?;
    }
    for check in checks {
        let Some(validate) = &check.validate else { continue };
        let left = end.saturating_duration_since(Instant::now()).as_millis().max(1);
        let begin = format!("SAVEPOINT validation; SET LOCAL statement_timeout = {left}; {validate}");
        let end = match client.batch_execute(&begin).await {
            Ok(()) => "RELEASE validation; SET LOCAL statement_timeout = 0",
            Err(error) => {
                let error = anyhow::Error::new(error).context(format!("validating {}", check.name));
                if !is_of_the_tables(&error) {
                    return Err(error);
                }
                open.push(format!("{error:#}"));
                "ROLLBACK TO validation; RELEASE validation"
            }
        };
        client.batch_execute(end).await.context("ending a validation")?;
    }
    Ok(open)
}
