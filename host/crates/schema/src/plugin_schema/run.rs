//! The run of schema.sql: its statements in one transaction, each in a `DO` block, where PostgreSQL itself refuses to
//! begin, commit or roll back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio_postgres::error::SqlState;
use tokio_postgres::{CancelToken, Client, Transaction};

use super::{
    LOCK_TIMEOUT, Step,
    block::{in_block, random_tag},
    card_keys::{CardKeys, NewKey},
    card_lock::CardLock,
    cards_turn::CardsTurn,
    catalog, constraints,
    diff::{self, Holders},
    failure::{Failure, too_large},
    late_checks::{Admission, Late, validate_checks},
    rows::RowChanges,
    types,
};
use cardinal_control::link::ProvisionFault;
use cardinal_database::{connect, sql};
use cardinal_schema_sql::Statement;

/// Of a statement that may have to lock the cards: their writers queue behind it while it waits.
const DROP_LOCK_TIMEOUT: &str = "200ms";
const LOOK_TIMEOUT: &str = "10s";
/// Before each statement anew. What it is told is ASCII: whatever an earlier one did, it is read as it was printed.
const STATEMENT_SETTINGS: &str = "SET LOCAL client_encoding = 'UTF8'; SET LOCAL standard_conforming_strings = on; \
    SET LOCAL backslash_quote = safe_encoding;";
/// Of a plugin's schema.
const MAX_RELATIONS: i64 = 1_000;

/// A run of schema.sql: its session, which others watch and end.
pub(super) struct Run<'a> {
    step: &'a Step<'a>,
    statements: &'a [Statement],
    session: Client,
    started: Instant,
}

/// What a run did.
pub(super) struct Done {
    /// What is gone, which is nothing beyond what was agreed to.
    pub lost: Vec<String>,
}

impl<'a> Run<'a> {
    /// Logged in as the schema role, not SET ROLE: there is nothing to go back to.
    pub(super) async fn open(step: &'a Step<'a>, statements: &'a [Statement]) -> anyhow::Result<Self> {
        let role = step.names.plugin_schema(step.plugin);
        let login = step.provisioner.with_login(&role, step.passwords.for_role(&role));
        let session = connect::connect(&login).await.context("logging in as the plugin's schema role")?;
        Ok(Self { step, statements, session, started: Instant::now() })
    }

    pub(super) async fn backend(&self) -> anyhow::Result<i32> {
        connect::backend_pid(&self.session).await.context("asking which session it is")
    }

    pub(super) fn cancel_token(&self) -> CancelToken {
        self.session.cancel_token()
    }

    /// In one transaction: the statements of schema.sql, then what they did to the tables, then what they left, and
    /// last the keys to the cards. From the first lock on the cards on, nothing runs that cannot be interrupted.
    ///
    /// Sets `is_committing` before the commit: who ends the run after that would not know what became of it.
    pub(super) async fn run(
        &mut self,
        agreed: &[String],
        turn: &mut CardsTurn<'_>,
        is_committing: &AtomicBool,
    ) -> Result<Done, Failure> {
        let (step, schema, started) = (self.step, self.step.schema(), self.started);
        let runtime_role = step.names.plugin_runtime(step.plugin);
        let tx = self.session.transaction().await.context("beginning schema.sql")?;
        tx.batch_execute(&look_settings()).await.context("preparing the transaction of schema.sql")?;
        let before = Before::look(&tx, &schema).await?;
        prepare(&tx, &schema, &runtime_role).await?;
        let mut notes = Notes::new(&schema, &before.holders)?;
        notes.run_all(&tx, step, self.statements, started, turn).await?;
        let Notes { card_keys, rows, late, .. } = notes;
        let lost = before.losses(&tx, &schema, rows).await?;
        if let Some(refusal) = diff::refusal(&lost, agreed).filter(|_| !step.replay) {
            return Err(Failure::Refused(refusal));
        }
        let late = late.finish(&tx).await?;
        let keys = card_keys.give_up_places(&tx, time_left(step, started)).await?;
        keys.index(&tx).await?;
        keys.index_further(&tx).await?;
        if !step.replay {
            check_indexes(&tx, &schema, &before.unindexed).await?;
        }
        let questions = catalog::Questions::prepare(&tx).await?;
        if let Some(refusal) = step.catalog_refusal(&tx, &questions).await? {
            return Err(Failure::Refused(refusal));
        }
        grant(&tx, &schema, &runtime_role).await?;
        if !keys.is_empty() {
            turn.take().await?;
        }
        let made = keys.make(&tx).await?;
        if let Some(refusal) = catalog::actions_refusal(&tx, &questions, &schema).await? {
            return Err(Failure::Refused(refusal));
        }
        is_committing.store(true, Ordering::Relaxed);
        tx.commit().await.map_err(|error| Failure::from_statement(error, None))?;
        turn.give_back().await?;
        let end = Instant::now() + step.schema_timeout;
        self.validate_keys(&made, end).await?;
        validate_checks(&self.session, step, &late, end).await?;
        Ok(Done { lost })
    }

    /// Keys to the cards, checked once more, without the lock that writers of cards wait for. Their rows were checked
    /// before the commit and new ones always are, so a key that PostgreSQL has no time to validate holds all the same.
    async fn validate_keys(&self, made: &[NewKey], end: Instant) -> Result<(), Failure> {
        for made in made.iter().filter(|made| made.is_checked) {
            constraints::limit(&self.session, end).await?;
            let Err(error) = constraints::validate(&self.session, &made.key).await else { continue };
            match error.code() {
                _ if constraints::ran_out_of_time(&error) => {
                    tracing::warn!(
                        plugin = self.step.plugin,
                        key = made.key.name,
                        "no time to validate a key to the cards; it holds for new rows"
                    );
                }
                // A card was removed between the check and the lock: the next run finds the row before it commits.
                Some(&SqlState::FOREIGN_KEY_VIOLATION) => {
                    constraints::drop(&self.session, &made.key).await?;
                    return Err(Failure::Busy("a card was removed meanwhile".to_owned()));
                }
                _ => return Err(Failure::Failed(anyhow::Error::new(error).context("validating a key to the cards"))),
            }
        }
        Ok(())
    }
}

fn time_left(step: &Step<'_>, started: Instant) -> Duration {
    step.schema_timeout.saturating_sub(started.elapsed())
}

/// What the schema had before the run.
struct Before {
    holders: Holders,
    relations: i64,
    unindexed: Vec<String>,
}

impl Before {
    async fn look(tx: &Transaction<'_>, schema: &str) -> anyhow::Result<Self> {
        Ok(Self {
            holders: diff::holders(tx, schema).await?,
            relations: relations(tx, schema).await?,
            unindexed: catalog::unindexed_keys(tx, schema).await?,
        })
    }

    /// What is gone once all statements have run.
    async fn losses(&self, tx: &Transaction<'_>, schema: &str, rows: RowChanges) -> Result<Vec<String>, Failure> {
        // What waited for the commit happens now, before it is looked at.
        tx.batch_execute("SET CONSTRAINTS ALL IMMEDIATE")
            .await
            .map_err(|error| Failure::from_statement(error, None))?;
        tx.batch_execute(&look_settings()).await.context("preparing the look at what schema.sql did")?;
        check_size(tx, schema, self.relations).await?;
        let after = diff::holders(tx, schema).await?;
        let mut lost = diff::lost(&self.holders, &after);
        lost.extend(rows.finish(tx, schema, &self.holders).await?);
        remove_repeated(&mut lost);
        Ok(lost)
    }
}

/// What is known of a run while its statements are under way.
struct Notes<'a> {
    schema: &'a str,
    before: &'a Holders,
    lock: CardLock<'a>,
    card_keys: CardKeys<'a>,
    late: Late<'a>,
    rows: RowChanges,
}

impl<'a> Notes<'a> {
    fn new(schema: &'a str, before: &'a Holders) -> anyhow::Result<Self> {
        let (lock, card_keys) = (CardLock::new(schema), CardKeys::new(schema, &random_tag()?));
        Ok(Self { schema, before, lock, card_keys, late: Late::new(schema), rows: RowChanges::new(before) })
    }

    async fn run_all(
        &mut self,
        tx: &Transaction<'_>,
        step: &Step<'_>,
        statements: &[Statement],
        started: Instant,
        turn: &mut CardsTurn<'_>,
    ) -> Result<(), Failure> {
        for (at, statement) in statements.iter().enumerate() {
            if types::is_made(tx, self.schema, statement).await? {
                // A step that comes from a backup was made before types were compared, or has passed.
                if !step.replay {
                    self.compare_type(tx, statement, &statements[at + 1..], time_left(step, started)).await?;
                }
                continue;
            }
            if statement.may_lock_cards() {
                turn.take().await?;
            }
            self.run(tx, statement, time_left(step, started)).await?;
            if !self.lock.is_taken() {
                turn.give_back().await?;
            }
        }
        Ok(())
    }

    /// Holds a type that is there against the statement that would make it, which runs for that and is undone.
    async fn compare_type(
        &self,
        tx: &Transaction<'_>,
        statement: &Statement,
        later: &[Statement],
        left: Duration,
    ) -> Result<(), Failure> {
        self.lock.admit(tx, statement, &self.card_keys).await?;
        let settings = statement_settings(self.lock.limit(left), false);
        types::compare(tx, self.schema, statement, later, &settings).await
    }

    /// Runs a statement within the time that is left.
    async fn run(&mut self, tx: &Transaction<'_>, statement: &Statement, left: Duration) -> Result<(), Failure> {
        self.lock.admit(tx, statement, &self.card_keys).await?;
        let writes = self.rows.prepare(tx, self.schema, self.before, statement).await?;
        let settings = statement_settings(self.lock.limit(left), statement.may_lock_cards());
        let late = self.late.admit(tx, statement, self.before).await?;
        let text = match &late {
            Admission::AsWritten => self.card_keys.hold_places(tx, statement).await?,
            Admission::NotValid { looks } => {
                for look in looks {
                    let look = format!("{settings}; {look}");
                    tx.batch_execute(&look).await.map_err(|error| Failure::from_statement(error, Some(statement)))?;
                }
                statement.with_checks_not_valid()
            }
        };
        self.lock.run(tx, statement, &format!("{settings}; {}", in_block(&text)?)).await?;
        if matches!(late, Admission::NotValid { .. }) {
            self.late.remember(tx).await?;
        }
        self.card_keys.remember(tx, statement).await?;
        Ok(self.rows.note(tx, self.schema, self.before, statement, &writes).await?)
    }
}

fn statement_settings(limit: Duration, may_lock: bool) -> String {
    let lock_timeout = if may_lock { DROP_LOCK_TIMEOUT } else { LOCK_TIMEOUT };
    let limit = limit.as_millis().max(1);
    format!("{STATEMENT_SETTINGS} SET LOCAL statement_timeout = {limit}; SET LOCAL lock_timeout = '{lock_timeout}'")
}

fn remove_repeated(lost: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    lost.retain(|loss| seen.insert(loss.clone()));
}

/// An index that a removal of cards needs stays for as long as its key: without it, removing any card reads the whole
/// table. Keys that had none before are left as they are. In a replay the tables are as they were when the backup was
/// made.
async fn check_indexes(tx: &Transaction<'_>, schema: &str, before: &[String]) -> Result<(), Failure> {
    let mut unindexed = catalog::unindexed_keys(tx, schema).await?;
    unindexed.retain(|column| !before.contains(column));
    if unindexed.is_empty() {
        return Ok(());
    }
    Err(Failure::Refused(ProvisionFault::refused(
        "schema-failed",
        "each key to the cards to keep an index that begins with its column",
        format!("no index any more for {}", unindexed.join(", ")),
        "Make another index on the column before this one is dropped, or drop the key with it.",
    )))
}

/// A schema that is larger already, from an older version, does not grow.
async fn check_size(tx: &Transaction<'_>, schema: &str, before: i64) -> Result<(), Failure> {
    let relations = relations(tx, schema).await?;
    if relations <= MAX_RELATIONS.max(before) {
        return Ok(());
    }
    let expected = format!("at most {MAX_RELATIONS} tables, partitions, indexes, sequences and views");
    Err(Failure::Refused(too_large(expected, format!("{relations} in schema {schema}"))))
}

async fn relations(tx: &Transaction<'_>, schema: &str) -> anyhow::Result<i64> {
    let sql = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_class c
                 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1";
    tx.query_one(sql, &[&schema]).await.and_then(|row| row.try_get(0)).context("counting what the schema has")
}

/// No name in a look at the catalog can mean anything of the plugin's.
fn look_settings() -> String {
    format!("{}; SET LOCAL statement_timeout = '{LOOK_TIMEOUT}'", sql::CATALOG_NAMES_ONLY)
}

/// The plugin's names are looked for in its schema while its statements run; they name it anyway, but for texts such as
/// `nextval('items_id_seq')`.
async fn prepare(tx: &Transaction<'_>, schema: &str, runtime_role: &str) -> anyhow::Result<()> {
    let (schema, runtime_role) = (sql::identifier(schema), sql::identifier(runtime_role));
    tx.batch_execute(&format!(
        "SET LOCAL search_path = {schema}, pg_temp;
         SET LOCAL lock_timeout = '{LOCK_TIMEOUT}';
         SET LOCAL client_connection_check_interval = '1s';
         ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {runtime_role};
         ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT USAGE, SELECT ON SEQUENCES TO {runtime_role}",
    ))
    .await
    .context("preparing the transaction of schema.sql")
}

/// On the tables and sequences that are there now, older ones included.
async fn grant(tx: &Transaction<'_>, schema: &str, runtime_role: &str) -> anyhow::Result<()> {
    let (schema, runtime_role) = (sql::identifier(schema), sql::identifier(runtime_role));
    tx.batch_execute(&format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {runtime_role};
         GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {runtime_role}"
    ))
    .await
    .context("granting the plugin its tables")
}
