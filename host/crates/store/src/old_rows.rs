//! Rows that are past their time.

use crate::error::StoreError;
use cardinal_database::pool::Pool;

/// Removes them some at a time, so that no statement locks many; gives how many. Of `delete`, `$1` is the age in days
/// and `$2` how many rows it may remove.
pub(crate) async fn remove(pool: &Pool, delete: &str, days: i32, at_once: i64) -> Result<u64, StoreError> {
    let client = pool.get().await?;
    let mut removed = 0;
    loop {
        let some = client.execute(delete, &[&days, &at_once]).await?;
        removed += some;
        if some < at_once.unsigned_abs() {
            return Ok(removed);
        }
    }
}
