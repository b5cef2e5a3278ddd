//! The table `identity_changes`: whose rights have changed, at whichever host.

use std::collections::HashSet;

use deadpool_postgres::ClientWrapper;
use uuid::Uuid;

use crate::error::StoreError;
use cardinal_database::pool::Pool;

/// Changes that are read one by one; of more, everything is forgotten.
const MAX_CHANGES: i64 = 10_000;

/// Whose rights have changed.
#[derive(Debug, Default)]
pub struct Changes {
    pub users: HashSet<Uuid>,
    pub keys: HashSet<Uuid>,
    pub sessions: HashSet<Uuid>,
    /// There are more than are read one by one.
    pub is_everything: bool,
}

/// Where a reader goes on.
#[derive(Debug, Default)]
pub struct Position {
    /// Transactions from this one on may not have ended at the last read.
    horizon: i64,
    /// What has been read of them.
    seen: HashSet<i64>,
}

/// The changes after `position`, which moves on. `None` begins with what is committed from now on.
pub async fn after(client: &ClientWrapper, position: &mut Option<Position>) -> Result<Changes, StoreError> {
    let mut changes = Changes::default();
    let before = position.take();
    let from = before.as_ref().map_or(i64::MAX, |before| before.horizon);
    // One statement has one snapshot: what it does not see yet was written by transactions from its `xmin` on.
    let sql = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS horizon, c.number,
           c.xid::text::bigint AS xid, c.kind, c.subject
         FROM (SELECT) AS one LEFT JOIN LATERAL (
           SELECT * FROM public.identity_changes WHERE xid >= $1::bigint::text::xid8 LIMIT $2) AS c ON true";
    let rows = client.query(&client.prepare_cached(sql).await?, &[&from, &(MAX_CHANGES + 1)]).await?;
    let horizon = rows.first().map_or(0, |row| row.get("horizon"));
    let known = before.map(|before| before.seen).unwrap_or_default();
    let mut seen = HashSet::new();
    for row in &rows {
        let Some(number) = row.get::<_, Option<i64>>("number") else { continue };
        if row.get::<_, i64>("xid") >= horizon {
            seen.insert(number);
        }
        if known.contains(&number) {
            continue;
        }
        let subjects = match row.get("kind") {
            "user" => &mut changes.users,
            "key" => &mut changes.keys,
            _ => &mut changes.sessions,
        };
        subjects.insert(row.get("subject"));
    }
    changes.is_everything = i64::try_from(rows.len()).unwrap_or(i64::MAX) > MAX_CHANGES;
    *position = Some(Position { horizon, seen });
    Ok(changes)
}

/// Removes what every host has read long ago.
pub async fn sweep(pool: &Pool) -> Result<(), StoreError> {
    let client = pool.get().await?;
    let sql = "DELETE FROM public.identity_changes WHERE at < clock_timestamp() - interval '10 minutes'";
    client.execute(sql, &[]).await?;
    Ok(())
}
