//! The core's migrations: each runs once, as the owner, in the transaction that also sets roles and grants, and is
//! recorded with its checksum. History that differs from this program's is refused, never repaired.

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};
use tokio_postgres::Transaction;

use cardinal_base::hex::hex;

struct Migration {
    version: i32,
    name: &'static str,
    sql: &'static str,
}

macro_rules! migrations {
    ($($version:literal $name:literal),* $(,)?) => {
        [$(Migration {
            version: $version,
            name: $name,
            sql: include_str!(concat!("../../../../sql/migrations/", $name, ".sql")),
        }),*]
    };
}

/// In order; a test compares the list with the folder.
const MIGRATIONS: &[Migration] = &migrations![
    1 "0001_core",
    2 "0002_reaper_fence",
    3 "0003_plugin_schema_steps",
    4 "0004_rate_budgets",
    5 "0005_identity",
    6 "0006_events",
    7 "0007_jobs",
    8 "0008_views_and_proxy_routes",
    9 "0009_plugin_operations",
    10 "0010_catalogue",
    11 "0011_plugin_owners",
    12 "0012_plugin_operators",
    13 "0013_key_lineage",
    14 "0014_login_failures",
    15 "0015_card_walks",
    16 "0016_card_size",
    17 "0017_identity_changes",
    18 "0018_approvals",
    19 "0019_card_lists",
    20 "0020_approval_reasons",
    21 "0021_card_search",
    22 "0022_approval_pins",
    23 "0023_plugin_jobs",
    24 "0024_card_times",
    25 "0025_card_lines",
    26 "0026_tool_call_lines",
    27 "0027_card_parts",
    28 "0028_card_beginnings",
    29 "0029_card_key_frequencies",
];

/// How many there are.
pub const COUNT: usize = MIGRATIONS.len();

/// Where it is recorded what was run. Its lock is also what makes hosts that start together take turns: a plugin's
/// role cannot take it, as it could an advisory lock.
pub(super) const TABLE_SQL: &str = "
    CREATE TABLE IF NOT EXISTS public.core_migrations (
      version    integer PRIMARY KEY,
      name       text NOT NULL,
      checksum   bytea NOT NULL,
      core       text NOT NULL,
      applied_at timestamptz NOT NULL DEFAULT now()
    )";

pub(super) async fn lock(tx: &Transaction<'_>) -> anyhow::Result<()> {
    // Conflicts with itself and with writers, not with the core's reads of the table.
    tx.batch_execute("LOCK TABLE public.core_migrations IN SHARE ROW EXCLUSIVE MODE")
        .await
        .context("waiting for another host to finish its migrations")
}

/// What was run here, as `version:checksum`, in order; empty for a database that no host has prepared yet. Any role may
/// ask that may read the table.
pub async fn applied(client: &tokio_postgres::Client) -> anyhow::Result<Vec<String>> {
    let known = client.query_one("SELECT to_regclass('public.core_migrations') IS NOT NULL", &[]).await?;
    if !known.try_get::<_, bool>(0)? {
        return Ok(Vec::new());
    }
    let rows = client
        .query("SELECT version, checksum FROM public.core_migrations ORDER BY version", &[])
        .await
        .context("reading which migrations were run")?;
    let entry = |row: &tokio_postgres::Row| -> anyhow::Result<String> {
        Ok(format!("{}:{}", row.try_get::<_, i32>("version")?, hex(row.try_get("checksum")?)))
    };
    rows.iter().map(entry).collect()
}

/// Whether what was applied is a beginning of this program's migrations.
pub fn knows(applied: &[String]) -> bool {
    let own = MIGRATIONS.iter().map(|migration| format!("{}:{}", migration.version, hex(&checksum(migration))));
    applied.len() <= COUNT && own.zip(applied).all(|(own, entry)| own == *entry)
}

/// What of this program's migrations was not run here yet.
///
/// # Errors
/// The database's history is not this program's, in words for an operator; or it cannot be read.
pub async fn pending(client: &mut tokio_postgres::Client) -> anyhow::Result<Vec<&'static str>> {
    let tx = client.transaction().await.context("reading which migrations were run")?;
    let applied = history(&tx).await?;
    check(&applied, MIGRATIONS)?;
    Ok(MIGRATIONS[applied.len()..].iter().map(|migration| migration.name).collect())
}

/// Runs what has not been run. The caller holds the lock and is the owner.
pub(super) async fn apply(tx: &Transaction<'_>, at_most: usize) -> anyhow::Result<()> {
    apply_list(tx, &MIGRATIONS[..at_most.min(COUNT)]).await
}

async fn apply_list(tx: &Transaction<'_>, list: &[Migration]) -> anyhow::Result<()> {
    let applied = history(tx).await?;
    check(&applied, list)?;
    for migration in &list[applied.len()..] {
        if let Some(cards) = many_cards(tx).await? {
            tracing::info!(
                migration = migration.name,
                cards,
                "migrating the database; a million cards take about a minute"
            );
        }
        tx.batch_execute(migration.sql).await.with_context(|| format!("running migration {}", migration.name))?;
        tx.execute(
            "INSERT INTO public.core_migrations (version, name, checksum, core) VALUES ($1, $2, $3, $4)",
            &[&migration.version, &migration.name, &checksum(migration).as_slice(), &env!("CARGO_PKG_VERSION")],
        )
        .await
        .with_context(|| format!("recording migration {}", migration.name))?;
        tracing::info!(migration = migration.name, "migrated the database");
    }
    Ok(())
}

/// About how many cards there are, when that is so many that a migration takes more than a moment.
async fn many_cards(tx: &Transaction<'_>) -> anyhow::Result<Option<i64>> {
    let sql = "SELECT reltuples::bigint FROM pg_catalog.pg_class WHERE oid = to_regclass('public.master_cards') AND reltuples > 10000";
    let row = tx.query_opt(sql, &[]).await.context("estimating the number of cards")?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

#[derive(Debug)]
struct AppliedMigration {
    version: i32,
    name: String,
    checksum: Vec<u8>,
    core: String,
}

async fn history(tx: &Transaction<'_>) -> anyhow::Result<Vec<AppliedMigration>> {
    let rows = tx
        .query("SELECT version, name, checksum, core FROM public.core_migrations ORDER BY version", &[])
        .await
        .context("reading which migrations were run")?;
    let applied = |row: &tokio_postgres::Row| -> anyhow::Result<AppliedMigration> {
        Ok(AppliedMigration {
            version: row.try_get("version")?,
            name: row.try_get("name")?,
            checksum: row.try_get("checksum")?,
            core: row.try_get("core")?,
        })
    };
    rows.iter().map(applied).collect()
}

/// The history must be a beginning of the list, letter by letter.
fn check(applied: &[AppliedMigration], list: &[Migration]) -> anyhow::Result<()> {
    for (index, done) in applied.iter().enumerate() {
        let Some(known) = list.get(index) else {
            bail!(
                "the database is newer than this program: it is at migration {} ({}), made by Cardinal {}; this is \
                 Cardinal {} and knows {} migrations. Start Cardinal {} or newer, or restore an older backup",
                applied.last().map_or(done.version, |last| last.version),
                applied.last().map_or(done.name.as_str(), |last| last.name.as_str()),
                done.core,
                env!("CARGO_PKG_VERSION"),
                list.len(),
                done.core,
            );
        };
        if done.version != known.version || done.checksum != checksum(known).as_slice() {
            bail!(
                "migration {} of the database ({}, run by Cardinal {}) is not the one that this program has under \
                 that number ({}): the file was changed after it had been run. Use the program that made the \
                 database, or a new database",
                done.version,
                done.name,
                done.core,
                known.name,
            );
        }
    }
    Ok(())
}

fn checksum(migration: &Migration) -> [u8; 32] {
    Sha256::digest(migration.sql.as_bytes()).into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn done(migration: &Migration) -> AppliedMigration {
        AppliedMigration {
            version: migration.version,
            name: migration.name.to_owned(),
            checksum: checksum(migration).to_vec(),
            core: "1.0.0".to_owned(),
        }
    }

    #[test]
    fn the_list_is_the_folder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../sql/migrations");
        let mut files: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        let listed: Vec<String> = MIGRATIONS.iter().map(|migration| format!("{}.sql", migration.name)).collect();
        assert_eq!(files, listed);
        assert!(MIGRATIONS.is_sorted_by(|one, next| one.version < next.version));
        for migration in MIGRATIONS {
            assert!(migration.name.starts_with(&format!("{:04}_", migration.version)));
        }
    }

    #[test]
    fn a_beginning_of_the_list_is_fine() {
        let applied: Vec<AppliedMigration> = MIGRATIONS.iter().map(done).collect();
        for length in 0..=applied.len() {
            check(&applied[..length], MIGRATIONS).unwrap();
        }
    }

    #[test]
    fn an_edited_migration_is_refused_by_name() {
        let mut applied = vec![done(&MIGRATIONS[0])];
        applied[0].checksum[0] ^= 1;
        let refused = check(&applied, MIGRATIONS).unwrap_err().to_string();
        assert!(refused.contains("0001_core") && refused.contains("changed after"), "{refused}");
    }

    #[test]
    fn a_newer_database_is_refused_with_both_versions() {
        let mut applied: Vec<AppliedMigration> = MIGRATIONS.iter().map(done).collect();
        applied.push(AppliedMigration {
            version: applied.len() as i32 + 1,
            name: "9999_future".to_owned(),
            checksum: vec![0; 32],
            core: "2.5.0".to_owned(),
        });
        let refused = check(&applied, MIGRATIONS).unwrap_err().to_string();
        assert!(refused.contains("2.5.0") && refused.contains("9999_future"), "{refused}");
    }
}
