//! How many failures of plugins' frontends browsers may report.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use uuid::Uuid;

use crate::http::error::{ApiError, ApiResult};
use cardinal_base::codes;

/// Reports in a minute: of one plugin, and of one user about it. A tab that fails in a loop tells nothing new.
const MAX_PER_PLUGIN: u32 = 120;
const MAX_PER_USER: u32 = 30;
const MINUTE: Duration = Duration::from_secs(60);

/// How many were reported in the minute that runs.
#[derive(Debug, Default)]
pub struct ClientErrors(Mutex<Minute>);

#[derive(Debug, Default)]
struct Minute {
    started: Option<Instant>,
    plugins: HashMap<String, (u32, HashMap<Uuid, u32>)>,
}

impl ClientErrors {
    /// Counts a report; 429 when there were too many.
    pub(crate) fn take(&self, plugin: &str, user: Uuid, now: Instant) -> ApiResult<()> {
        let mut minute = self.0.lock();
        let started = minute.started.filter(|started| now.saturating_duration_since(*started) < MINUTE);
        if started.is_none() {
            *minute = Minute { started: Some(now), ..Minute::default() };
        }
        let left = MINUTE.saturating_sub(now.saturating_duration_since(started.unwrap_or(now)));
        let (all, by_user) = minute.plugins.entry(plugin.to_owned()).or_default();
        if *all < MAX_PER_PLUGIN {
            let own = by_user.entry(user).or_default();
            if *own < MAX_PER_USER {
                (*all, *own) = (*all + 1, *own + 1);
                return Ok(());
            }
        }
        let seconds = u32::try_from(left.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
        Err(ApiError::new(&codes::RATE_LIMITED)
            .detail("Enough failures of this plugin have been reported.")
            .retry_after(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_cannot_use_up_what_others_may_report_and_all_together_have_a_bound() {
        let (errors, now) = (ClientErrors::default(), Instant::now());
        let taken =
            |user: u128, at| (0..200).filter(|_| errors.take("supplier", Uuid::from_u128(user), at).is_ok()).count();
        assert_eq!((taken(1, now), taken(2, now)), (30, 30));
        assert!(errors.take("gallery", Uuid::from_u128(1), now).is_ok());
        assert_eq!((3..9).map(|user| taken(user, now)).sum::<usize>(), 60);
        assert_eq!(taken(1, now + MINUTE), 30, "the next minute");
        assert_eq!(errors.take("supplier", Uuid::from_u128(1), now + MINUTE).unwrap_err().status(), 429);
    }
}
