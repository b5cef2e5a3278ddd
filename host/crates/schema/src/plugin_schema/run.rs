//! The run of schema.sql: its statements in one transaction, each in a `DO` block, where PostgreSQL itself refuses to
//! begin, commit or roll back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rand::TryRng as _;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::{CancelToken, Client, Transaction};

use super::{
    ProvisionFault, Step, StepError,
    card_keys::{CardKeys, NewKey},
    card_lock::CardLock,
    cards_turn::CardsTurn,
    catalog,
    diff::{self, Holders},
    keys,
    late_checks::{Admission, Late, validate_checks},
    rows::RowChanges,
};
use cardinal_base::{hex::hex, printable::plain};
use cardinal_database::{connect, sql};
use cardinal_schema_sql::Statement;

pub(super) const LOCK_TIMEOUT: &str = "1s";
/// Of a statement that may have to lock the cards: their writers queue behind it while it waits.
const DROP_LOCK_TIMEOUT: &str = "200ms";
const LOOK_TIMEOUT: &str = "10s";
/// Before each statement anew. What it is told is ASCII: whatever an earlier one did, it is read as it was printed.
const STATEMENT_SETTINGS: &str = "SET LOCAL client_encoding = 'UTF8'; SET LOCAL standard_conforming_strings = on; \
    SET LOCAL backslash_quote = safe_encoding;";
/// Of a plugin's schema.
const MAX_RELATIONS: i64 = 1_000;
const TAG_BYTES: usize = 16;

/// How a run of schema.sql ended badly. Its transaction is gone in every case.
#[derive(Debug)]
pub(super) enum Failure {
    /// A lock that others held; the same may work next time.
    Busy(String),
    Refused(ProvisionFault),
    Failed(anyhow::Error),
}

impl Failure {
    /// With one more thing to know about what was found.
    pub(super) fn adding(mut self, more: &str) -> Self {
        if let Self::Refused(ProvisionFault::Refused { found, .. }) = &mut self {
            found.push_str("; ");
            found.push_str(more);
        }
        self
    }
}

/// Locks of others stand in the way, and may be gone the next time. A look at the catalog waits for them, too.
pub(super) fn is_busy(code: &SqlState) -> bool {
    [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE].contains(code)
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let said = error.chain().find_map(|cause| cause.downcast_ref::<tokio_postgres::Error>()?.as_db_error());
        match said.filter(|said| is_busy(said.code())) {
            Some(said) => Self::Busy(describe(said, None)),
            None => Self::Failed(error),
        }
    }
}

impl From<Failure> for StepError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(fault) => Self::Refused(fault),
            Failure::Failed(error) => Self::Failed(error),
            Failure::Busy(met) => Self::Refused(waited_in_vain(&met, 1, "another session")),
        }
    }
}

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
        let (step, schema) = (self.step, self.step.schema());
        let (statements, started) = (self.statements, self.started);
        let runtime_role = step.names.plugin_runtime(step.plugin);
        let work = self.session.transaction().await.context("beginning schema.sql")?;
        work.batch_execute(&look_settings()).await.context("preparing the transaction of schema.sql")?;
        let before = diff::holders(&work, &schema).await?;
        let relations_before = relations(&work, &schema).await?;
        prepare(&work, &schema, &runtime_role).await?;
        let mut notes = Notes::new(&schema, &before)?;
        for statement in statements {
            if statement.may_lock_cards() {
                turn.take().await?;
            }
            notes.run(&work, statement, step.schema_timeout.saturating_sub(started.elapsed())).await?;
            if !notes.lock.is_taken() {
                turn.give_back().await?;
            }
        }
        let Notes { card_keys, rows, late, .. } = notes;
        // What waited for the commit happens now, before it is looked at.
        work.batch_execute("SET CONSTRAINTS ALL IMMEDIATE").await.map_err(|error| judged(error, None))?;
        work.batch_execute(&look_settings()).await.context("preparing the look at what schema.sql did")?;
        check_size(&work, &schema, relations_before).await?;
        let after = diff::holders(&work, &schema).await?;
        let mut lost = diff::lost(&before, &after);
        lost.extend(rows.finish(&work, &schema, &before).await?);
        remove_repeated(&mut lost);
        if let Some(refusal) = diff::refusal(&lost, agreed).filter(|_| !step.replay) {
            return Err(Failure::Refused(refusal));
        }
        let late = late.finish(&work).await?;
        let keys = card_keys.give_up_places(&work, step.schema_timeout.saturating_sub(started.elapsed())).await?;
        keys.index(&work).await?;
        if let Some(refusal) = step.catalog_refusal(&work).await? {
            return Err(Failure::Refused(refusal));
        }
        grant(&work, &schema, &runtime_role).await?;
        if !keys.is_empty() {
            turn.take().await?;
        }
        let made = keys.make(&work).await?;
        if let Some(refusal) = catalog::actions_refusal(&work, &schema).await? {
            return Err(Failure::Refused(refusal));
        }
        is_committing.store(true, Ordering::Relaxed);
        work.commit().await.map_err(|error| judged(error, None))?;
        turn.give_back().await?;
        let end = Instant::now() + step.schema_timeout;
        self.validate_keys(&made, end).await?;
        validate_checks(&self.session, step, &late, end).await?;
        Ok(Done { lost })
    }

    /// Keys to the cards, checked once more, without the lock that writers of cards wait for. Their rows were checked before
    /// the commit and new ones always are, so a key that PostgreSQL has no time to validate holds all the same.
    async fn validate_keys(&self, made: &[NewKey], end: Instant) -> Result<(), Failure> {
        for made in made.iter().filter(|made| made.is_checked) {
            let left = end.saturating_duration_since(Instant::now()).as_millis().max(1);
            let limits = format!("SET lock_timeout = '{LOCK_TIMEOUT}'; SET statement_timeout = {left}");
            self.session.batch_execute(&limits).await.context("preparing to validate keys")?;
            let Err(error) = keys::validate(&self.session, &made.key).await else { continue };
            match error.code() {
                _ if keys::ran_out_of_time(&error) => {
                    tracing::warn!(
                        plugin = self.step.plugin,
                        key = made.key.name,
                        "no time to validate a key to the cards; it holds for new rows"
                    );
                }
                // A card was removed between the check and the lock: the next run finds the row before it commits.
                Some(&SqlState::FOREIGN_KEY_VIOLATION) => {
                    keys::drop(&self.session, &made.key).await?;
                    return Err(Failure::Busy("a card was removed meanwhile".to_owned()));
                }
                _ => return Err(Failure::Failed(anyhow::Error::new(error).context("validating a key to the cards"))),
            }
        }
        Ok(())
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
        let (lock, card_keys) = (CardLock::new(schema), CardKeys::new(schema)?);
        Ok(Self { schema, before, lock, card_keys, late: Late::new(schema), rows: RowChanges::new(before) })
    }

    /// Runs a statement within the time that is left.
    async fn run(&mut self, work: &Transaction<'_>, statement: &Statement, left: Duration) -> Result<(), Failure> {
        self.lock.admit(work, statement, &self.card_keys).await?;
        let writes = self.rows.prepare(work, self.schema, self.before, statement).await?;
        let settings = statement_settings(self.lock.limit(left), statement.may_lock_cards());
        let late = self.late.admit(work, statement, self.before).await?;
        let text = match &late {
            Admission::AsWritten => self.card_keys.hold_places(work, statement).await?,
            Admission::NotValid { looks } => {
                for look in looks {
                    let look = format!("{settings}; {look}");
                    work.batch_execute(&look).await.map_err(|error| judged(error, Some(statement)))?;
                }
                statement.with_checks_not_valid()
            }
        };
        self.lock.run(work, statement, &format!("{settings}; {}", in_block(&text)?)).await?;
        if matches!(late, Admission::NotValid { .. }) {
            self.late.remember(work).await?;
        }
        self.card_keys.remember(work, statement).await?;
        Ok(self.rows.note(work, self.schema, self.before, statement, &writes).await?)
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

/// Whoever works with many relations at once takes as many locks, for which the server has one table.
pub(super) fn too_large(expected: String, found: impl Into<String>) -> ProvisionFault {
    let fix = "Make fewer tables, partitions and indexes; many in small steps, in the schema.sql of several versions.";
    ProvisionFault::refused("schema-failed", expected, found, fix)
}

/// A schema that is larger already, from an older version, does not grow.
async fn check_size(work: &Transaction<'_>, schema: &str, before: i64) -> Result<(), Failure> {
    let relations = relations(work, schema).await?;
    if relations <= MAX_RELATIONS.max(before) {
        return Ok(());
    }
    let expected = format!("at most {MAX_RELATIONS} tables, partitions, indexes, sequences and views");
    Err(Failure::Refused(too_large(expected, format!("{relations} in schema {schema}"))))
}

async fn relations(work: &Transaction<'_>, schema: &str) -> anyhow::Result<i64> {
    let asked = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_class c
                 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1";
    work.query_one(asked, &[&schema]).await.and_then(|row| row.try_get(0)).context("counting what the schema has")
}

/// What was in the way may be gone the next time.
pub(super) fn waited_in_vain(met: &str, tries: u32, blockers: &str) -> ProvisionFault {
    ProvisionFault::Unavailable(format!(
        "schema.sql waited for {blockers}, {tries} times ({met}); the host tries again, less and less often; when that has \
         ended, scan the plugins again"
    ))
}

pub(super) fn took_too_long(limit: Duration) -> ProvisionFault {
    ProvisionFault::refused(
        "schema-failed",
        format!("schema.sql to be done within {} s", limit.as_secs()),
        "it was still running",
        "Move long work out of schema.sql into the plugin.",
    )
}

/// What takes a lock on the cards keeps it to the end of the transaction.
pub(super) fn held_cards_too_long(limit: Duration) -> ProvisionFault {
    ProvisionFault::refused(
        "schema-failed",
        format!("schema.sql to keep others from writing cards for no more than {} s", limit.as_secs()),
        "it still held its lock on public.master_cards, which a new or dropped key to the cards takes",
        "Drop fewer tables with keys to public.master_cards in one version, or do long work in the plugin when it runs.",
    )
}

/// What changes a table locks it to the end of the transaction, and every removal of a card waits for it.
pub(super) fn held_keyed_too_long(limit: Duration) -> ProvisionFault {
    ProvisionFault::refused(
        "schema-failed",
        format!("schema.sql to lock a table with a key to the cards for no more than {} s", limit.as_secs()),
        "it still held its lock on such a table, and no card could be removed meanwhile",
        "Put what takes long, such as filling another table, before the first ALTER TABLE, CREATE INDEX or DROP on a table with \
         a key to public.master_cards, or into a version of its own; fill a large table in the plugin, when it runs.",
    )
}

/// No name in a look at the catalog can mean anything of the plugin's.
fn look_settings() -> String {
    format!("{}; SET LOCAL statement_timeout = '{LOOK_TIMEOUT}'", sql::CATALOG_NAMES_ONLY)
}

/// The plugin's names are looked for in its schema while its statements run; they name it anyway, but for texts such as
/// `nextval('items_id_seq')`.
async fn prepare(work: &Transaction<'_>, schema: &str, runtime_role: &str) -> anyhow::Result<()> {
    let (schema, runtime_role) = (sql::identifier(schema), sql::identifier(runtime_role));
    work.batch_execute(&format!(
        "SET LOCAL search_path = {schema}, pg_temp;
         SET LOCAL lock_timeout = '{LOCK_TIMEOUT}';
         SET LOCAL client_connection_check_interval = '1s';
         ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {runtime_role};
         ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT USAGE, SELECT ON SEQUENCES TO {runtime_role}",
    ))
    .await
    .context("preparing the transaction of schema.sql")
}

/// One statement, in a block that cannot be left: PostgreSQL itself refuses there to begin, commit or roll back. The tag
/// is random, so that no text can contain it and end the block early.
fn in_block(statement: &str) -> anyhow::Result<String> {
    block_of(&format!("BEGIN EXECUTE {}; END", sql::literal(statement)))
}

pub(super) fn block_of(body: &str) -> anyhow::Result<String> {
    let tag = format!("$block_{}$", random_tag()?);
    Ok(format!("DO {tag} {body} {tag}"))
}

/// What no text of a file can know.
pub(super) fn random_tag() -> anyhow::Result<String> {
    let mut bytes = [0; TAG_BYTES];
    rand::rngs::SysRng.try_fill_bytes(&mut bytes).context("getting random numbers")?;
    Ok(hex(&bytes))
}

/// On the tables and sequences that are there now, older ones included.
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
pub(super) fn judged(error: tokio_postgres::Error, statement: Option<&Statement>) -> Failure {
    let Some(said) = error.as_db_error() else {
        return Failure::Failed(anyhow::Error::new(error).context("running schema.sql"));
    };
    let refuse = |code| {
        let expected = "schema.sql to run without an error";
        Failure::Refused(ProvisionFault::refused("schema-failed", expected, describe(said, statement), advice(code)))
    };
    match said.code().code() {
        _ if is_busy(said.code()) => Failure::Busy(describe(said, statement)),
        code @ ("53200" | "53400") => refuse(code),
        code if code.starts_with("53") || code.starts_with("08") || code.starts_with("57P") => {
            Failure::Failed(anyhow::Error::new(error).context("running schema.sql"))
        }
        code => refuse(code),
    }
}

fn describe(said: &DbError, statement: Option<&Statement>) -> String {
    let mut text = format!("{} {}", said.code().code(), said.message());
    if let Some(detail) = said.detail() {
        text.push_str(&format!(" ({detail})"));
    }
    if let Some(statement) = statement {
        text.push_str(&format!(", in the statement at {}", statement.position));
    }
    plain(&text)
}

fn advice(code: &str) -> &'static str {
    match code {
        "42501" => {
            "Keep to the plugin's own schema; of the core only public.master_cards may be referenced, by its id."
        }
        "53200" => {
            "Ask for less at once: views that read one another several times, and large values, multiply what they need."
        }
        "53400" => "Sort and join less in one statement, or fill the tables when the plugin runs.",
        "57014" => "Move long work out of schema.sql into the plugin.",
        "42P07" => "Write IF NOT EXISTS, so that schema.sql can run again over what is there.",
        "42710" => {
            "Give it a name of its own. Before a constraint that an earlier version may have made, write ALTER TABLE ... DROP \
             CONSTRAINT IF EXISTS."
        }
        _ => "Correct schema.sql.",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn two_blocks_never_have_the_same_tag() {
        let (one, other) = (in_block("select 1").unwrap(), in_block("select 1").unwrap());
        assert_ne!(one, other);
        assert!(one.starts_with("DO $block_") && one.ends_with('$'));
    }
}
