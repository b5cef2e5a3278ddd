//! How frequent the keys of searches are.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwapOption;
use time::{Duration, OffsetDateTime};

use crate::error::StoreError;
use cardinal_database::pool::Connection;

/// How long they are taken for what they were. Cards change; old frequencies make a search slower, never wrong.
const RENEW_AFTER: Duration = Duration::minutes(10);

/// The frequencies as they were read last.
#[derive(Default)]
pub(super) struct KeyFrequencies(ArcSwapOption<FrequencyList>);

/// As the last ANALYZE has found them.
pub(super) struct FrequencyList {
    /// The share of all cards that has the key; of the most frequent keys.
    shares: HashMap<String, f32>,
    read_at: OffsetDateTime,
}

impl KeyFrequencies {
    pub(super) async fn get(&self, client: &Connection, now: OffsetDateTime) -> Result<Arc<FrequencyList>, StoreError> {
        // Both ways: the clock may have been set back.
        if let Some(known) = self.0.load_full()
            && (now - known.read_at).abs() < RENEW_AFTER
        {
            return Ok(known);
        }
        let sql = "SELECT f.key, f.frequency FROM public.card_search_key_frequencies() f";
        let rows = client.query(&client.prepare_cached(sql).await?, &[]).await?;
        let shares = rows.iter().map(|row| Ok((row.try_get("key")?, row.try_get("frequency")?)));
        let shares = shares.collect::<Result<_, tokio_postgres::Error>>()?;
        let list = Arc::new(FrequencyList { shares, read_at: now });
        self.0.store(Some(Arc::clone(&list)));
        Ok(list)
    }
}

impl FrequencyList {
    /// About what share of all cards has the key; 0 where it is not known to be frequent.
    pub(super) fn share(&self, key: impl Iterator<Item = char>) -> f32 {
        self.shares.get(&key.collect::<String>()).copied().unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn new(shares: HashMap<String, f32>) -> Self {
        Self { shares, read_at: OffsetDateTime::UNIX_EPOCH }
    }
}
