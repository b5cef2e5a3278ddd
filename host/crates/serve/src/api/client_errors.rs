//! `/v1/admin/plugin-registry/{name}/client-errors`: a plugin's frontend failed in somebody's browser. The log is where
//! its author looks, and the plugin's lines are where an operator does.

use std::{sync::Arc, time::Instant};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    call::{Call, Json, NoQuery},
    http::reply::{self, Reply},
};

/// The phase of a frontend that held up its page.
const HANG: &str = "hang";
/// Characters of a text that are shown.
const MAX_SHOWN_CHARS: usize = 1_000;

pub(super) fn routes() -> Vec<Route> {
    vec![Route::post("/v1/admin/plugin-registry/{name}/client-errors", report).plugin_read().describe(|op| {
        op.named("reportClientError", "plugins", "Report that a plugin's frontend failed in a browser")
            .notes("At most 30 a minute per user.")
            .param("name", "The plugin's name.", json!({}))
            .no_content();
    })]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClientError {
    /// Where it failed: `load`, `activate`, `register`, `render`, `late`; `hang` when it held up the page for seconds.
    #[serde(default)]
    phase: String,
    #[serde(default)]
    message: String,
    /// Of the plugin that the browser has.
    #[serde(default)]
    version: String,
}

async fn report(app: &Arc<App>, call: Call<NoQuery, Json<ClientError>>) -> ApiResult<Reply> {
    let name = call.params.get("name").unwrap_or_default();
    let snapshot = app.plugins.snapshot();
    let Some(active) = snapshot.active().find(|plugin| plugin.manifest.name == name) else {
        return Err(ApiError::not_found("plugin"));
    };
    let caller = call.caller()?;
    let body = call.body()?;
    active.guard.meter.client_errors.count();
    if body.phase == HANG {
        active.guard.meter.client_hangs.count();
    }
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
    text.char_indices().nth(MAX_SHOWN_CHARS).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut(&"ü".repeat(MAX_SHOWN_CHARS + 1)).chars().count(), MAX_SHOWN_CHARS);
        assert_eq!(cut("short"), "short");
    }
}
