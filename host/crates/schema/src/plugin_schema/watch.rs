//! A run of schema.sql under a watch that stands outside of it: no setting of its session can lift these limits.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio_postgres::{CancelToken, Client, NoTls};

use super::{
    CHECKS_TIMEOUT, Step,
    run::{self, Done, Failure, Run},
};
use cardinal_control::link::ProvisionFault;
use cardinal_schema_sql::Statement;

/// How long schema.sql may hold, or wait for, a lock that keeps others from writing cards. With the way to notice it and
/// to end the statement this stays below the two seconds that are promised.
const CARDS_LOCK_LIMIT: Duration = Duration::from_millis(1500);
/// As operators are told.
const PROMISED_CARDS_LOCK: Duration = Duration::from_secs(2);
/// Locks that schema.sql may hold at once. A server has one table of them, in which every writer and every login needs a
/// place; by default it has room for 6,400.
const MAX_LOCKS: i64 = 3_000;
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// A server that does not answer a cancel request is left to the end of the role's sessions.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs schema.sql to its end, or ends it.
pub(super) async fn run(
    step: &Step<'_>,
    statements: &[Statement],
    agreed: &[String],
    observer: &Client,
) -> Result<Done, Failure> {
    let mut run = Run::open(step, statements).await?;
    let (backend, cancel) = (run.backend().await?, run.cancel_token());
    let limit = step.schema_timeout + CHECKS_TIMEOUT;
    let fault = tokio::select! {
        done = run.run(agreed) => return done,
        () = tokio::time::sleep(limit) => run::took_too_long(step.schema_timeout),
        broken = broken_limit(observer, backend) => broken?,
    };
    cancel_query(cancel).await;
    Err(Failure::Refused(fault))
}

/// Comes back when the session has held the cards for too long, or too many locks, and never otherwise.
async fn broken_limit(observer: &Client, backend: i32) -> anyhow::Result<ProvisionFault> {
    let asked =
        "SELECT coalesce(bool_or(locktype = 'relation' AND relation = 'public.master_cards'::pg_catalog.regclass
                   AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')), false),
                   count(*)
                 FROM pg_catalog.pg_locks WHERE pid = $1";
    let asked = observer.prepare(asked).await.context("preparing to watch the lock on the cards")?;
    let mut since = None;
    loop {
        let row = observer.query_one(&asked, &[&backend]).await.context("watching the lock on the cards")?;
        since = match row.try_get(0).context("watching the lock on the cards")? {
            true => since.or_else(|| Some(Instant::now())),
            false => None,
        };
        if since.is_some_and(|since: Instant| since.elapsed() >= CARDS_LOCK_LIMIT) {
            return Ok(run::held_cards_too_long(PROMISED_CARDS_LOCK));
        }
        let locks: i64 = row.try_get(1).context("counting the locks of schema.sql")?;
        if locks > MAX_LOCKS {
            return Ok(run::too_large(format!("schema.sql to take no more than {MAX_LOCKS} locks"), "it took more"));
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

async fn cancel_query(token: CancelToken) {
    match tokio::time::timeout(CANCEL_TIMEOUT, token.cancel_query(NoTls)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "schema.sql could not be cancelled; its session is ended"),
        Err(_) => tracing::warn!("schema.sql could not be cancelled in time; its session is ended"),
    }
}
