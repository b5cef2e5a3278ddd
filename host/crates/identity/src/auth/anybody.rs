//! Only in a build with the feature `without-authentication`: the caller that everybody is.

use std::sync::{Arc, OnceLock};

use uuid::Uuid;

use super::caller::{Caller, SharedCaller};
use cardinal_base::scope::ScopeSet;

/// Holds every scope and has no limit: all that the request doesn't pay for is authentication.
pub fn caller() -> SharedCaller {
    static ANYBODY: OnceLock<SharedCaller> = OnceLock::new();
    Arc::clone(ANYBODY.get_or_init(|| {
        tracing::warn!("this build lets in everybody: it is for measuring, never for serving");
        Arc::new(Caller::new(Uuid::nil(), "anybody", ScopeSet::all()))
    }))
}
