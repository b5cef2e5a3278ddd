//! About how many cards a filter picks, remembered for a few seconds: paging through a list asks
//! once, not once a page.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use time::{Duration, OffsetDateTime};

use super::card_list::Count;
use crate::{
    cards::filter::Filter,
    http::error::{ApiError, ApiResult},
};

const GOOD_FOR: Duration = Duration::seconds(5);
const KEPT: usize = 256;

/// The counts by filter.
#[derive(Default)]
pub struct Estimates(Mutex<HashMap<Vec<u8>, (Count, OffsetDateTime)>>);

impl Estimates {
    /// What is known of `filter`.
    pub fn of(&self, filter: &Filter, now: OffsetDateTime) -> ApiResult<Option<Count>> {
        let key = key(filter)?;
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(kept.get(&key).filter(|(_, at)| now - *at < GOOD_FOR).map(|(count, _)| *count))
    }

    /// Remembers what was found out just now, and not what was known before.
    pub fn learn(&self, filter: &Filter, count: Count, before: Option<Count>, now: OffsetDateTime) -> ApiResult<()> {
        if before == Some(count) {
            return Ok(());
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key(filter)?, (count, now));
        Ok(())
    }
}

fn key(filter: &Filter) -> ApiResult<Vec<u8>> {
    serde_json::to_vec(filter).map_err(ApiError::internal)
}
