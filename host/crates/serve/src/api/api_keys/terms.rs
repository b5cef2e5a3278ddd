//! The terms of a key: what it may be given, by whom, and for how long. A key or a JWT gives no more than it has
//! itself: no scope, no longer life, no higher rate.

use schemars::JsonSchema;
use serde::Deserialize;
use time::{Duration, OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339};

use crate::http::error::{ApiError, ApiResult};
use cardinal_base::{
    codes,
    input::maybe,
    scope::{self, ScopeSet},
};
use cardinal_identity::{
    auth::{
        authority,
        caller::{Caller, insufficient},
    },
    limit::gcra,
};

const NAME_LIMIT: usize = 120;
const MAX_RATE: i64 = 100_000_000;
const MAX_DAYS: i64 = 3_650;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rate {
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "Option<i64>", range(min = 1, max = 100_000_000))]
    per_minute: Option<Option<i64>>,
    #[schemars(range(min = 1, max = 100_000_000))]
    burst: Option<i64>,
}

impl Rate {
    /// As a patch of what a key has: a burst alone leaves the other number as it is. None where it says nothing.
    pub(super) fn over(self, per_minute: Option<i32>) -> Option<Self> {
        if self.per_minute.is_none() && self.burst.is_none() {
            return None;
        }
        let per_minute = self.per_minute.or_else(|| per_minute.map(|rate| Some(i64::from(rate))));
        Some(Self { per_minute, ..self })
    }
}

/// Requests a minute and burst; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub per_minute: Option<i32>,
    pub burst: Option<i32>,
}

/// Keys of which each was made with the one before: every call of the last one may count on as many budgets.
const MAX_LINEAGE: usize = 8;

/// The most that a caller may give: nothing bounds a person who has logged in.
pub(super) struct Bounds {
    until: Option<OffsetDateTime>,
    rate: Option<Limit>,
}

impl Bounds {
    pub(super) fn from_caller(caller: &Caller) -> Self {
        if caller.session_id.is_some() {
            return Self { until: None, rate: None };
        }
        // As `i32`, since a row holds no more.
        let bounded = |rate: u32| i32::try_from(rate).unwrap_or(i32::MAX);
        let min_of =
            |rate: fn(gcra::Limit) -> u32| caller.allowances.iter().map(|own| bounded(rate(own.limit()))).min();
        let (per_minute, burst) = (min_of(|limit| limit.per_minute), min_of(|limit| limit.burst));
        Self { until: caller.expires_at, rate: per_minute.map(|_| Limit { per_minute, burst }) }
    }

    /// The end of a key's life; without one, that of who gives it.
    pub(super) fn expiry(&self, requested: Option<OffsetDateTime>) -> ApiResult<Option<OffsetDateTime>> {
        match (requested, self.until) {
            (Some(at), Some(end)) if at > end => Err(more("a longer life")),
            (requested, end) => Ok(requested.or(end)),
        }
    }

    /// The same for a life that is to have no end.
    pub(super) fn endless(&self) -> ApiResult<()> {
        if self.until.is_some() { Err(more("a longer life")) } else { Ok(()) }
    }

    /// The rate; when nothing was asked for, no more than that of who gives it.
    pub(super) fn rate(&self, requested: Option<Option<Rate>>, default: u32) -> ApiResult<Limit> {
        let is_requested = requested.is_some();
        let wanted = rate(requested, default)?;
        let Some(own) = self.rate else { return Ok(wanted) };
        let over = |wanted: Option<i32>, own: Option<i32>| match (wanted, own) {
            (Some(wanted), Some(own)) => wanted > own,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        if !over(wanted.per_minute, own.per_minute) && !over(wanted.burst, own.burst) {
            return Ok(wanted);
        }
        if is_requested { Err(more("a higher rate")) } else { Ok(own) }
    }
}

fn more(what: &str) -> ApiError {
    ApiError::new(&codes::FORBIDDEN).detail(format!("A key or a JWT can't give a key {what} than it has itself."))
}

/// Either a time or a number of days from now.
pub(super) fn lifetime(
    at: Option<String>,
    days: Option<i64>,
    now: OffsetDateTime,
) -> ApiResult<Option<OffsetDateTime>> {
    match (at, days) {
        (Some(_), Some(_)) => Err(ApiError::invalid("/expires_in_days", "Give either expires_at or expires_in_days.")),
        (Some(at), None) => expiry(&at, now).map(Some),
        (None, Some(days @ 1..=MAX_DAYS)) => Ok(Some(now + Duration::days(days))),
        (None, Some(_)) => Err(ApiError::invalid("/expires_in_days", format!("1 to {MAX_DAYS} days."))),
        (None, None) => Ok(None),
    }
}

/// 403 when the caller is a key that too many others lead to.
pub(super) fn may_make_keys(caller: &Caller) -> ApiResult<()> {
    if caller.makers.len() + 1 < MAX_LINEAGE {
        return Ok(());
    }
    Err(ApiError::new(&codes::FORBIDDEN)
        .detail(format!("A chain of keys has at most {MAX_LINEAGE} keys, and this is the last one.")))
}

/// The scopes as they are stored; nobody can grant what they lack.
pub(super) fn grantable(caller: &Caller, scopes: &[String]) -> ApiResult<Vec<String>> {
    if scopes.is_empty() || scopes.len() > scope::SCOPE_LIMIT {
        return Err(ApiError::invalid("/scopes", format!("1 to {} scopes are needed.", scope::SCOPE_LIMIT)));
    }
    let wanted = ScopeSet::strict(scopes)
        .map_err(|at| ApiError::invalid(format!("/scopes/{at}"), scope::explain_unknown(&scopes[at])))?;
    if let Some(at) = scopes.iter().position(|name| name == scope::APPROVE) {
        return Err(ApiError::invalid(format!("/scopes/{at}"), "Only a login can answer confirmations, never a key."));
    }
    match authority::lacked(caller, scopes) {
        Some(missing) => Err(insufficient(missing).into()),
        None => Ok(wanted.to_strings()),
    }
}

pub(super) fn name(text: &str) -> ApiResult<String> {
    let text = text.trim();
    match text.chars().count() {
        1..=NAME_LIMIT if !text.chars().any(char::is_control) => Ok(text.to_owned()),
        _ => Err(ApiError::invalid("/name", format!("1 to {NAME_LIMIT} characters are needed."))),
    }
}

pub(super) fn expiry(text: &str, now: OffsetDateTime) -> ApiResult<OffsetDateTime> {
    let at = OffsetDateTime::parse(text, &Rfc3339)
        .map_err(|_| ApiError::invalid("/expires_at", "A time of RFC 3339 is required."))?;
    if at <= now {
        return Err(ApiError::invalid("/expires_at", "This time is in the past."));
    }
    // As the database keeps it and gives it back.
    let at = at.checked_to_offset(UtcOffset::UTC).and_then(|at| at.replace_nanosecond(at.microsecond() * 1_000).ok());
    at.ok_or_else(|| ApiError::invalid("/expires_at", "This time is too far away."))
}

/// Requests a minute and burst: absent is the setting, null is no limit.
fn rate(requested: Option<Option<Rate>>, default: u32) -> ApiResult<Limit> {
    const NONE: Limit = Limit { per_minute: None, burst: None };
    let default = i64::from(default);
    let (per_minute, burst) = match requested {
        None => (default, None),
        Some(None) => return Ok(NONE),
        Some(Some(Rate { per_minute: Some(None), burst: None })) => return Ok(NONE),
        Some(Some(Rate { per_minute: Some(None), burst: Some(_) })) => {
            return Err(ApiError::invalid("/rate_limit/burst", "A burst needs a limit."));
        }
        Some(Some(Rate { per_minute, burst })) => (per_minute.flatten().unwrap_or(default), burst),
    };
    let bounded = |value: i64, pointer: &str| match i32::try_from(value) {
        Ok(value @ 1..) if i64::from(value) <= MAX_RATE => Ok(value),
        _ => Err(ApiError::invalid(pointer, format!("1 to {MAX_RATE}."))),
    };
    let per_minute = bounded(per_minute, "/rate_limit/per_minute")?;
    let burst = bounded(burst.unwrap_or(i64::from(per_minute).div_euclid(10).max(1)), "/rate_limit/burst")?;
    Ok(Limit { per_minute: Some(per_minute), burst: Some(burst) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: OffsetDateTime = time::macros::datetime!(2026-01-01 00:00 UTC);

    fn parse_rate(json: serde_json::Value) -> Option<Option<Rate>> {
        Some(serde_json::from_value(json).unwrap())
    }

    fn bounds(per_minute: i32, burst: i32) -> Bounds {
        Bounds { until: Some(NOW), rate: Some(Limit { per_minute: Some(per_minute), burst: Some(burst) }) }
    }

    #[test]
    fn a_key_gives_no_longer_life_and_no_higher_rate_than_its_own() {
        let own = bounds(100, 10);
        assert_eq!(own.expiry(None).unwrap(), Some(NOW));
        assert!(own.expiry(Some(NOW)).is_ok() && own.expiry(Some(NOW + Duration::SECOND)).is_err());
        assert!(own.endless().is_err());
        assert_eq!(own.rate(None, 6000).unwrap(), Limit { per_minute: Some(100), burst: Some(10) });
        for more in [
            serde_json::json!(null),
            serde_json::json!({"per_minute": 101, "burst": 1}),
            serde_json::json!({"per_minute": 100, "burst": 11}),
        ] {
            assert_eq!(own.rate(parse_rate(more), 6000).unwrap_err().code(), "forbidden");
        }
        assert!(own.rate(parse_rate(serde_json::json!({"per_minute": 100})), 6000).is_ok());
        let free = Bounds { until: None, rate: None };
        assert_eq!(free.rate(parse_rate(serde_json::json!(null)), 6000).unwrap().per_minute, None);
        assert!(free.endless().is_ok());
    }

    #[test]
    fn a_burst_alone_leaves_the_rate_as_it_is() {
        let patched = |json: serde_json::Value, present: Option<i32>| {
            let patch: Rate = serde_json::from_value(json).unwrap();
            let limit = rate(Some(Some(patch.over(present).unwrap())), 6000).unwrap();
            (limit.per_minute, limit.burst)
        };
        assert_eq!(patched(serde_json::json!({"burst": 9}), Some(50)), (Some(50), Some(9)));
        assert_eq!(patched(serde_json::json!({"per_minute": 100}), Some(50)), (Some(100), Some(10)));
        assert_eq!(patched(serde_json::json!({"burst": 9}), None), (Some(6000), Some(9)));
        let nothing: Rate = serde_json::from_value(serde_json::json!({})).unwrap();
        assert!(nothing.over(Some(50)).is_none());
    }

    #[test]
    fn times_are_utc_to_the_microsecond() {
        let at = expiry("2030-01-01T02:00:00.1234567+02:00", NOW).unwrap();
        assert_eq!(at.format(&Rfc3339).unwrap(), "2030-01-01T00:00:00.123456Z");
        assert!(expiry("9999-12-31T23:59:59-01:00", NOW).is_err());
    }

    proptest! {
        #[test]
        fn any_number_is_a_rate_or_refused(per_minute: i64, burst: Option<i64>) {
            let wanted = parse_rate(serde_json::json!({"per_minute": per_minute, "burst": burst}));
            if let Ok(limit) = rate(wanted, 6000) {
                prop_assert_eq!(limit.per_minute.map(i64::from), Some(per_minute));
                prop_assert!((1..=MAX_RATE).contains(&per_minute) && limit.burst.is_some_and(|burst| burst >= 1));
            }
        }

        #[test]
        fn any_text_is_a_time_to_come_or_refused(text in "\\PC{0,40}|20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z", days: i64) {
            prop_assert!(expiry(&text, NOW).is_err() || expiry(&text, NOW).unwrap() > NOW);
            prop_assert_eq!(lifetime(None, Some(days), NOW).is_ok(), (1..=MAX_DAYS).contains(&days));
        }

        #[test]
        fn any_text_is_a_name_or_refused(text in "\\PC{0,140}|[\\x00-\\x7f]{0,140}") {
            if let Ok(name) = name(&text) {
                prop_assert!((1..=NAME_LIMIT).contains(&name.chars().count()) && !name.chars().any(char::is_control));
            }
        }
    }
}
