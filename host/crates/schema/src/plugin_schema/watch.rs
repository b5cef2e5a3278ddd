//! A run of schema.sql under a watch that stands outside of it: no setting of its session can lift these limits.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use parking_lot::Mutex;
use tokio_postgres::{CancelToken, Client, NoTls, Row};

use super::{
    CHECKS_TIMEOUT, Step,
    cards_turn::CardsTurn,
    failure::{self, Failure},
    run::{Done, Run},
};
use crate::keyed_tables::{KEYED, STRONG_MODES};
use cardinal_database::roles::{self, RoleNames};
use cardinal_schema_sql::Statement;

/// How long schema.sql may hold locks that others wait for. With the way to notice it and to end the statement, the
/// default is about what is promised.
#[derive(Clone, Copy, Debug)]
pub struct LockLimits {
    /// One that keeps others from writing cards, held or waited for, in all tries together.
    pub cards: Duration,
    /// One on a table with a key to the cards that keeps their removal waiting.
    pub keyed: Duration,
}

impl Default for LockLimits {
    fn default() -> Self {
        Self { cards: Duration::from_millis(950), keyed: Duration::from_millis(1_900) }
    }
}

/// For operators.
const PROMISED_KEYED_LOCK: Duration = Duration::from_secs(2);
const PROMISED_CARDS_LOCK: Duration = Duration::from_secs(1);
/// Locks that schema.sql may hold at once. A server has one table of them, in which every writer and every login needs
/// a place; by default it has room for 6,400.
const MAX_LOCKS: i64 = 3_000;
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// A server that does not answer a cancel request is left to the end of the role's sessions.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// Tables whose rows go or change with a card. Those of the step itself are not there yet for others.
static KEYED_TABLES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "
    WITH RECURSIVE {KEYED}
    SELECT pg_catalog.array_agg(k.relation) FROM keyed k JOIN pg_catalog.pg_class c ON c.oid = k.relation
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1"
    )
});
/// Whether the session holds a lock that keeps others from writing cards, whether it waits for one, its locks, the
/// logins that it waits for (PostgreSQL's own workers have none), and whether it keeps cards from being removed by a
/// lock on one of the tables.
static LOOK: LazyLock<String> = LazyLock::new(|| {
    format!(
        "
    SELECT coalesce(bool_or(l.is_cards AND l.granted), false) AS is_held,
           coalesce(bool_or(l.is_cards AND NOT l.granted), false) AS is_waiting, count(*) AS locks,
           ARRAY(SELECT DISTINCT coalesce(a.usename::text, '') FROM pg_catalog.unnest(pg_catalog.pg_blocking_pids($1)) b (pid)
                 JOIN pg_catalog.pg_stat_activity a ON a.pid = b.pid) AS blockers,
           coalesce(bool_or(l.is_strong AND l.granted AND l.relation = ANY ($2)), false) AS holds_keyed
    FROM (
      SELECT granted, relation, is_strong, is_strong AND relation = 'public.master_cards'::pg_catalog.regclass AS is_cards
      FROM pg_catalog.pg_locks, LATERAL (SELECT locktype = 'relation' AND mode IN
        {STRONG_MODES}) m (is_strong)
      WHERE pid = $1
    ) l"
    )
});

/// What is known of a step over all its tries.
#[derive(Default)]
pub(super) struct Waits {
    /// How long others were kept from writing cards.
    cards: Mutex<Duration>,
    /// Whose locks it waited for last.
    blockers: Mutex<Vec<String>>,
}

impl Waits {
    fn spend(&self, time: Duration) -> Duration {
        let mut cards = self.cards.lock();
        *cards += time;
        *cards
    }

    /// Whether another try would keep writers of cards waiting for longer than is promised.
    pub(super) fn is_over(&self, limits: LockLimits) -> bool {
        self.spend(Duration::ZERO) >= limits.cards
    }

    fn note(&self, blockers: Vec<String>) {
        if !blockers.is_empty() {
            *self.blockers.lock() = blockers;
        }
    }

    /// Whom the step waited for, in words.
    pub(super) fn blockers(&self, names: &RoleNames) -> String {
        let blockers = self.blockers.lock();
        match blockers.as_slice() {
            [] => "another session".to_owned(),
            roles => roles.iter().map(|role| holder(role, names)).collect::<Vec<_>>().join(" and "),
        }
    }
}

fn holder(role: &str, names: &RoleNames) -> String {
    let of_this_database = role.strip_prefix(names.prefix());
    match (of_this_database, roles::plugin_from_role(role)) {
        (Some(part), Some(plugin)) if part.starts_with("s_") => format!("the schema step of plugin {plugin}"),
        (Some(_), Some(plugin)) => format!("a session of plugin {plugin}"),
        (Some("core"), _) => "the host's own work on cards".to_owned(),
        (Some("reaper"), _) => "a removal of cards".to_owned(),
        _ if role.is_empty() => "PostgreSQL's own maintenance of a table".to_owned(),
        _ => format!("a session of the database role {role}"),
    }
}

/// Notes the blockers of a session as long as it is polled.
pub(super) async fn note_blockers(observer: &Client, backend: i32, waits: &Waits) -> anyhow::Error {
    const NONE: [u32; 0] = [];
    let look = async || {
        let statement = observer.prepare(&LOOK).await?;
        loop {
            let row = observer.query_one(&statement, &[&backend, &NONE.as_slice()]).await?;
            waits.note(LockState::read(&row)?.blockers);
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    };
    let Err::<Infallible, tokio_postgres::Error>(error) = look().await;
    anyhow::Error::new(error).context("looking for what a session waits for")
}

/// Runs schema.sql to its end, or ends it.
pub(super) async fn run(
    step: &Step<'_>,
    statements: &[Statement],
    agreed: &[String],
    observer: &Client,
    waits: &Waits,
) -> Result<Done, Failure> {
    let mut run = Run::open(step, statements).await?;
    let (backend, cancel) = (run.backend().await?, run.cancel_token());
    let limit = step.schema_timeout + CHECKS_TIMEOUT;
    let mut turn = CardsTurn::new(observer);
    let is_committing = AtomicBool::new(false);
    let ended = {
        let mut running = pin!(run.run(agreed, &mut turn, &is_committing));
        let broken = tokio::select! {
            done = &mut running => Ok(done),
            () = tokio::time::sleep(limit) => Err(Failure::Refused(failure::took_too_long(step.schema_timeout))),
            broken = broken_limit(step, observer, backend, waits) => Err(broken),
        };
        match broken {
            Ok(done) => done,
            // It has no statement left without a limit of its own.
            Err(_) if is_committing.load(Ordering::Relaxed) => running.await,
            Err(broken) => {
                cancel_query(cancel).await;
                Err(broken)
            }
        }
    };
    turn.give_back().await?;
    ended
}

/// Comes back when the session has kept others from the cards for too long, or has too many locks, and never otherwise.
async fn broken_limit(step: &Step<'_>, observer: &Client, backend: i32, waits: &Waits) -> Failure {
    look(step, observer, backend, waits).await.unwrap_or_else(Failure::Failed)
}

async fn look(step: &Step<'_>, observer: &Client, backend: i32, waits: &Waits) -> anyhow::Result<Failure> {
    let row = observer
        .query_one(KEYED_TABLES.as_str(), &[&step.schema()])
        .await
        .context("listing the tables with keys to the cards")?;
    let keyed: Vec<u32> = row.try_get::<_, Option<_>>(0).context("reading the tables with keys")?.unwrap_or_default();
    let statement = observer.prepare(&LOOK).await.context("preparing to watch the lock on the cards")?;
    let (mut since, mut keyed_since): (Option<Instant>, Option<Instant>) = (None, None);
    loop {
        let row =
            observer.query_one(&statement, &[&backend, &keyed]).await.context("watching the lock on the cards")?;
        let LockState { is_held, is_waiting, locks, blockers, holds_keyed } =
            LockState::read(&row).context("watching the lock on the cards")?;
        waits.note(blockers);
        let now = Instant::now();
        let waited = waits.spend(since.map(|since| now - since).unwrap_or_default());
        since = (is_held || is_waiting).then_some(now);
        if since.is_some() && waited >= step.lock_limits.cards {
            let broken = match is_held {
                true => Failure::Refused(failure::held_cards_too_long(PROMISED_CARDS_LOCK)),
                false => Failure::Busy("the cards could not be locked in time".to_owned()),
            };
            return Ok(broken);
        }
        keyed_since = holds_keyed.then_some(keyed_since.unwrap_or(now));
        if keyed_since.is_some_and(|since| now - since >= step.lock_limits.keyed) {
            return Ok(Failure::Refused(failure::held_keyed_too_long(PROMISED_KEYED_LOCK)));
        }
        if locks > MAX_LOCKS {
            let expected = format!("schema.sql to take no more than {MAX_LOCKS} locks");
            return Ok(Failure::Refused(failure::too_large(expected, "it took more")));
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

struct LockState {
    is_held: bool,
    is_waiting: bool,
    locks: i64,
    blockers: Vec<String>,
    holds_keyed: bool,
}

impl LockState {
    fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            is_held: row.try_get("is_held")?,
            is_waiting: row.try_get("is_waiting")?,
            locks: row.try_get("locks")?,
            blockers: row.try_get("blockers")?,
            holds_keyed: row.try_get("holds_keyed")?,
        })
    }
}

async fn cancel_query(token: CancelToken) {
    match tokio::time::timeout(CANCEL_TIMEOUT, token.cancel_query(NoTls)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "failed to cancel schema.sql; its session is ended"),
        Err(_) => tracing::warn!("cancelling schema.sql took too long; its session is ended"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_waited_for_is_named() {
        let names = RoleNames::new("x");
        let waits = Waits::default();
        assert_eq!(waits.blockers(&names), "another session");
        let roles = [names.plugin_schema("price-watch"), names.plugin_runtime("a"), names.core(), names.reaper()];
        waits.note(roles.into_iter().chain(["postgres".to_owned(), String::new()]).collect());
        waits.note(Vec::new());
        assert_eq!(
            waits.blockers(&names),
            "the schema step of plugin price-watch and a session of plugin a and the host's own work on cards and a removal \
             of cards and a session of the database role postgres and PostgreSQL's own maintenance of a table"
        );
    }
}
