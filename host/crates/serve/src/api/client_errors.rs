//! `/v1/admin/plugin-registry/{name}/client-errors`: a plugin's frontend failed in somebody's browser. The log is where
//! its author looks, and the plugin's lines are where an operator does.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::App,
    http::reply::{self, Reply},
    request::Call,
    route,
    router::{Access, Reads, Route, SMALL},
};
use cardinal_base::codes;

/// Reports in a minute: of one plugin, and of one user about it. A tab that fails in a loop tells nothing new.
const PER_PLUGIN: u32 = 120;
const PER_USER: u32 = 30;
const MINUTE: Duration = Duration::from_secs(60);
/// Characters of a text that are shown.
const SHOWN: usize = 1_000;

pub fn routes() -> Vec<Route> {
    vec![
        route!(POST "/v1/admin/plugin-registry/{name}/client-errors", Access::Authenticated, Reads::Json(SMALL), report)
            .describe(|op| {
                op.named("reportClientError", "plugins", "Tell that a plugin's frontend failed in a browser")
                    .notes("For who may read the plugin; at most 30 a minute of one user.")
                    .param("name", "Of the plugin.", json!({}))
                    .reads::<ClientError>()
                    .no_content();
            }),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClientError {
    /// Where it failed: `load`, `activate`, `render`.
    #[serde(default)]
    phase: String,
    #[serde(default)]
    message: String,
    /// Of the plugin that the browser has.
    #[serde(default)]
    version: String,
}

async fn report(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let name = call.params.get("name").unwrap_or_default();
    let snapshot = app.plugins.snapshot();
    let Some(active) = snapshot.active().find(|plugin| plugin.manifest.name == name) else {
        return Err(ApiError::not_found("plugin"));
    };
    let caller = call.caller()?;
    caller.require(&format!("plugin:{name}:read"))?;
    let body: ClientError = call.json()?;
    active.guard.meter.client_errors.count();
    app.client_errors.take(name, caller.user_id, Instant::now())?;
    let [phase, error, version] = [&body.phase, &body.message, &body.version].map(|text| cut(text));
    let user = &caller.username;
    tracing::warn!(
        plugin = name,
        source = "browser",
        phase,
        error,
        version,
        user,
        "the plugin's frontend failed in a browser"
    );
    Ok(reply::no_content())
}

fn cut(text: &str) -> &str {
    text.char_indices().nth(SHOWN).map_or(text, |(end, _)| &text[..end])
}

/// How many were reported in the minute that runs.
#[derive(Debug, Default)]
pub struct ClientErrors(Mutex<Minute>);

#[derive(Debug, Default)]
struct Minute {
    began: Option<Instant>,
    plugins: HashMap<String, (u32, HashMap<Uuid, u32>)>,
}

impl ClientErrors {
    /// Counts a report; 429 when there were too many.
    fn take(&self, plugin: &str, user: Uuid, now: Instant) -> ApiResult<()> {
        let mut minute = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let began = minute.began.filter(|began| now.saturating_duration_since(*began) < MINUTE);
        if began.is_none() {
            *minute = Minute { began: Some(now), ..Minute::default() };
        }
        let left = MINUTE.saturating_sub(now.saturating_duration_since(began.unwrap_or(now)));
        let (all, by_user) = minute.plugins.entry(plugin.to_owned()).or_default();
        if *all < PER_PLUGIN {
            let own = by_user.entry(user).or_default();
            if *own < PER_USER {
                (*all, *own) = (*all + 1, *own + 1);
                return Ok(());
            }
        }
        let seconds = u32::try_from(left.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
        Err(ApiError::new(&codes::RATE_LIMITED).detail("The plugin's failures are known by now.").retry_after(seconds))
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

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut(&"ü".repeat(SHOWN + 1)).chars().count(), SHOWN);
        assert_eq!(cut("short"), "short");
    }
}
