//! Cards that were deleted longer ago than they are kept: the reaper removes them for good, some at a time.

use std::collections::BTreeMap;

use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    cards::{card_in_use, purge},
    fault,
    pool::Pool,
};
use crate::http::{codes, error::ApiResult};

/// Cards that one statement removes: what else they take along is locked meanwhile.
const BATCH: i64 = 200;

/// What a round has done.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub cards: u64,
    /// Cards that a plugin's tables still refer to, by plugin. They are tried again in the next round.
    pub in_use: BTreeMap<String, u64>,
}

/// Removes what was deleted before `before`, oldest first. A card that somebody still refers to stops no other.
pub async fn remove(reaper: &Pool, before: OffsetDateTime) -> ApiResult<Removed> {
    let mut removed = Removed::default();
    let mut place = (OffsetDateTime::UNIX_EPOCH, Uuid::nil());
    loop {
        let batch = next(reaper, before, place).await?;
        let Some(last) = batch.last() else { return Ok(removed) };
        place = *last;
        let ids: Vec<Uuid> = batch.iter().map(|(_, id)| *id).collect();
        match together(reaper, &ids).await? {
            Some(cards) => removed.cards += cards,
            None => one_by_one(reaper, &ids, &mut removed).await?,
        }
    }
}

async fn next(
    reaper: &Pool,
    before: OffsetDateTime,
    place: (OffsetDateTime, Uuid),
) -> ApiResult<Vec<(OffsetDateTime, Uuid)>> {
    let client = reaper.get().await?;
    let sql = "SELECT deleted_at, id FROM public.master_cards \
               WHERE deleted_at IS NOT NULL AND deleted_at < $1 AND (deleted_at, id) > ($2, $3) \
               ORDER BY deleted_at, id LIMIT $4";
    let rows = client.query(&client.prepare_cached(sql).await?, &[&before, &place.0, &place.1, &BATCH]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// How many went; none when one of them is in use, and then nothing went.
async fn together(reaper: &Pool, ids: &[Uuid]) -> ApiResult<Option<u64>> {
    let client = reaper.get().await?;
    // A card may have been brought back since it was looked at.
    let sql = "DELETE FROM public.master_cards WHERE id = ANY ($1) AND deleted_at IS NOT NULL";
    match client.execute(&client.prepare_cached(sql).await?, &[&ids]).await {
        Ok(cards) => Ok(Some(cards)),
        // Whatever goes wrong with one of them must not keep the others; what is wrong with all is found out again.
        Err(error) if !fault::is_unavailable(&error) => Ok(None),
        Err(error) => Err(card_in_use(error)),
    }
}

async fn one_by_one(reaper: &Pool, ids: &[Uuid], removed: &mut Removed) -> ApiResult<()> {
    for id in ids {
        match purge(reaper, *id).await {
            Ok(()) => removed.cards += 1,
            Err(error) if error.code() == codes::CARD_IN_USE.name => {
                let plugin = error.member("plugin").and_then(|name| name.as_str()).unwrap_or_default().to_owned();
                *removed.in_use.entry(plugin).or_default() += 1;
            }
            Err(error) if error.code() == codes::NOT_FOUND.name => {}
            Err(error) if error.code() == codes::INTERNAL_ERROR.name => {
                tracing::warn!(card = %id, ?error, "a deleted card could not be removed");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
