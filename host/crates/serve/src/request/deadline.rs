//! How long the core works on one request.

use std::time::Duration;

use crate::app::App;
use crate::http::error::{ApiError, ApiResult};
use cardinal_base::codes;

/// Longer than this no endpoint of the core works on one request.
const CORE_ANSWER: Duration = Duration::from_secs(30);
/// How often a request that takes long looks whether the database answers at all.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The core's own endpoints wait for nothing but the database. One that is stopped, not gone, answers nothing and
/// closes nothing, so a connection alone never shows it.
pub(super) async fn in_time<T, E: Into<ApiError>>(
    app: &App,
    mut work: impl Future<Output = Result<T, E>> + Unpin,
) -> ApiResult<T> {
    let mut left = CORE_ANSWER;
    loop {
        match tokio::time::timeout(CHECK_INTERVAL, &mut work).await {
            Ok(outcome) => return outcome.map_err(Into::into),
            Err(_) => left = left.saturating_sub(CHECK_INTERVAL),
        }
        if left.is_zero() || app.pools.core.is_given_up() {
            let waited = CORE_ANSWER - left;
            let cause = anyhow::anyhow!("the database gave no answer in {waited:?}");
            return Err(ApiError::new(&codes::DATABASE_UNAVAILABLE).cause(cause));
        }
    }
}
