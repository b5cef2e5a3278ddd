//! Keys of searches that many cards have. At a million cards each takes the index milliseconds to read and rules out
//! little, so that a search leaves them out where it has others.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use time::{Duration, OffsetDateTime};

use crate::error::StoreError;
use cardinal_database::pool::Connection;

/// How long they are taken for what they were. Cards change; old keys make a search slower, never wrong.
const RENEW_AFTER: Duration = Duration::minutes(10);

/// The keys as they were read last.
#[derive(Default)]
pub(super) struct FrequentKeys(ArcSwapOption<KeyList>);

struct KeyList {
    keys: Vec<String>,
    read_at: OffsetDateTime,
}

impl FrequentKeys {
    pub(super) async fn get(&self, client: &Connection, now: OffsetDateTime) -> Result<Vec<String>, StoreError> {
        // Both ways: the clock may have been set back.
        if let Some(known) = self.0.load().as_ref()
            && (now - known.read_at).abs() < RENEW_AFTER
        {
            return Ok(known.keys.clone());
        }
        let sql = "SELECT public.card_search_frequent_keys()";
        let keys: Vec<String> = client.query_one(&client.prepare_cached(sql).await?, &[]).await?.try_get(0)?;
        self.0.store(Some(Arc::new(KeyList { keys: keys.clone(), read_at: now })));
        Ok(keys)
    }
}
