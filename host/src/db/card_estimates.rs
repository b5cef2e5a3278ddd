//! About how many cards a filter picks, remembered for a few seconds: paging through a list asks
//! once, not once a page.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use time::{Duration, OffsetDateTime};

use super::card_list;
use super::pool::Pool;
use crate::{
    cards::filter::Filter,
    http::error::{ApiError, ApiResult},
};

const GOOD_FOR: Duration = Duration::seconds(5);
const KEPT: usize = 256;

/// The estimates by filter.
#[derive(Default)]
pub struct Estimates(Mutex<HashMap<Vec<u8>, (i64, OffsetDateTime)>>);

impl Estimates {
    pub async fn get(&self, pool: &Pool, filter: &Filter, now: OffsetDateTime) -> ApiResult<i64> {
        let key = serde_json::to_vec(filter).map_err(ApiError::internal)?;
        if let Some((count, at)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key)
            && now - *at < GOOD_FOR
        {
            return Ok(*count);
        }
        let count = card_list::estimate(pool, filter).await?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key, (count, now));
        Ok(count)
    }
}
