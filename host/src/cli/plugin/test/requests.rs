//! Requests to the plugin that is tested.

use std::time::Duration;

use anyhow::Context as _;
use http::{Method, Request, StatusCode};
use serde_json::Value;
use uuid::Uuid;

use crate::cli::client::{Client, RequestError, empty};

/// As long as a call has when the manifest says nothing, and a little more.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);

/// The plugin in its host.
pub(super) struct Subject {
    /// With a key that may do everything.
    pub client: Client,
    /// Its entry in the registry.
    pub item: Value,
    /// The id of a card.
    pub card: String,
}

/// A route with its parameters filled in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub method: Method,
    pub path: String,
    /// As the manifest writes it, for people.
    pub name: String,
    /// A parameter stands for something that is not there.
    pub is_made_up: bool,
}

impl Subject {
    pub(super) fn name(&self) -> &str {
        self.item["name"].as_str().unwrap_or_default()
    }

    pub(super) fn targets(&self) -> Vec<Target> {
        let prefix = self.item["api_prefix"].as_str().unwrap_or_default();
        let routes = self.item["routes"].as_array().into_iter().flatten();
        routes.filter_map(|route| target(route, prefix, &self.card)).collect()
    }

    /// The status of an answer whose body is not waited for, and the code of a problem.
    pub(super) async fn ask(&self, target: &Target) -> anyhow::Result<(StatusCode, String)> {
        let mut request = Request::new(empty());
        *request.method_mut() = target.method.clone();
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, self.client.send(&target.path, request)).await;
        match answer.with_context(|| format!("no answer in {ANSWER_TIMEOUT:?}"))? {
            Ok(answer) => Ok((answer.status(), String::new())),
            Err(RequestError::Refused { status, problem }) => {
                Ok((status, problem["code"].as_str().unwrap_or_default().to_owned()))
            }
            Err(RequestError::Foreign { status, .. }) => Ok((status, String::new())),
            Err(failure) => Err(failure.into()),
        }
    }
}

fn target(route: &Value, prefix: &str, card: &str) -> Option<Target> {
    let (method, template) = (route["method"].as_str()?, route["path"].as_str()?);
    let mut is_made_up = false;
    let part = |part: &str| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
        Some(name) if name.contains("card") => card.to_owned(),
        Some(_) => {
            is_made_up = true;
            Uuid::now_v7().to_string()
        }
        None => part.to_owned(),
    };
    let path = template.split('/').map(part).collect::<Vec<_>>().join("/");
    Some(Target {
        method: method.parse().ok()?,
        path: format!("/v1/admin/plugins/{prefix}{path}"),
        name: format!("{method} {template}"),
        is_made_up,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_stand_for_the_card_or_for_something_made_up() {
        let of = |path: &str| target(&json!({"method": "GET", "path": path}), "notes", "C").unwrap();
        assert_eq!(of("/cards/{card_id}/x").path, "/v1/admin/plugins/notes/cards/C/x");
        assert!(!of("/cards/{card_id}").is_made_up && !of("/").is_made_up);
        let other = of("/notes/{id}");
        assert!(other.is_made_up && !other.path.contains('{') && other.name == "GET /notes/{id}");
    }
}
