//! What stands between this host and its PostgreSQL: nothing, or a pooler, which may not carry everything that a
//! session has from one transaction to the next.

use tokio_postgres::error::SqlState;

use cardinal_base::config::SettingsError;
use cardinal_database::connect::{ConnectParams, connect};

/// A session setting that is sent at the start, as those of plugins are.
const SOME_OPTION: &str = "-c search_path=pg_catalog";

/// Whether the database takes session settings at the start of a connection; true while nobody can say. Each login has
/// its settings by ALTER ROLE, too, so it can do without.
///
/// # Errors
/// [`SettingsError`] when prepared statements do not outlive a transaction: everything that the host does needs them.
pub async fn takes_options(login: &ConnectParams) -> Result<bool, SettingsError> {
    match forgets_statements(login).await {
        Ok(false) => {}
        Ok(true) => {
            let problem = "leads through a pooler that forgets prepared statements after each transaction; use its \
                           session pooling, or PgBouncer 1.21 or newer with max_prepared_statements (sql/README.md)";
            return Err(SettingsError::one("DATABASE_URL", problem));
        }
        // The worker waits for the database; it says what is wrong.
        Err(error) => {
            tracing::warn!(%error, "cannot determine whether there is a pooler in front of the database");
            return Ok(true);
        }
    }
    Ok(connect(&login.clone().with_options(SOME_OPTION)).await.is_ok())
}

/// A pooler that lends its connections for one transaction prepares on one of them. While that one is taken by somebody
/// else's transaction, the statement is looked for on another.
async fn forgets_statements(login: &ConnectParams) -> Result<bool, tokio_postgres::Error> {
    let (ours, others) = (connect(login).await?, connect(login).await?);
    let statement = ours.prepare("SELECT 1").await?;
    others.batch_execute("BEGIN; SELECT 1").await?;
    let found = ours.query(&statement, &[]).await;
    others.batch_execute("ROLLBACK").await?;
    match found {
        Err(error) if error.code() == Some(&SqlState::INVALID_SQL_STATEMENT_NAME) => Ok(true),
        Err(error) => Err(error),
        Ok(_) => Ok(false),
    }
}
