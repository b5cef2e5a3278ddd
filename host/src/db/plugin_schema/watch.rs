//! A run of schema.sql under a watch that stands outside of it: no setting of its session can lift these limits.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio_postgres::{CancelToken, Client, NoTls};

use super::run::{self, Done, Failure, Run};
use super::{CHECKS_TIMEOUT, Step};
use crate::schema_sql::Statement;

/// How long schema.sql may hold, or wait for, a lock that keeps others from writing cards. With the way to notice it and
/// to end the statement this stays below the two seconds that are promised.
const CARDS_LOCK_LIMIT: Duration = Duration::from_millis(1500);
/// As operators are told.
const PROMISED_CARDS_LOCK: Duration = Duration::from_secs(2);
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
        held = cards_are_held(observer, backend) => {
            held?;
            run::held_cards_too_long(PROMISED_CARDS_LOCK)
        }
    };
    cancel_query(cancel).await;
    Err(Failure::Refused(fault))
}

/// Comes back when the session has held the cards for too long, and never otherwise.
async fn cards_are_held(observer: &Client, backend: i32) -> anyhow::Result<()> {
    let asked = "SELECT EXISTS (
                   SELECT FROM pg_catalog.pg_locks WHERE pid = $1 AND locktype = 'relation'
                   AND relation = 'public.master_cards'::pg_catalog.regclass
                   AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))";
    let asked = observer.prepare(asked).await.context("preparing to watch the lock on the cards")?;
    let mut since = None;
    loop {
        let row = observer.query_one(&asked, &[&backend]).await.context("watching the lock on the cards")?;
        since = match row.try_get(0).context("watching the lock on the cards")? {
            true => since.or_else(|| Some(Instant::now())),
            false => None,
        };
        if since.is_some_and(|since: Instant| since.elapsed() >= CARDS_LOCK_LIMIT) {
            return Ok(());
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
