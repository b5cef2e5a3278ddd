//! Requests to the plugin that is tested.

use std::time::Duration;

use anyhow::Context as _;
use http::{HeaderValue, Method, Request, StatusCode, header};
use serde_json::Value;
use uuid::Uuid;

use crate::cli::{
    client::{Client, RequestError, empty, full},
    plugin::remote::REGISTRY,
};

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

/// What came back of a request.
pub(super) struct Answer {
    pub status: StatusCode,
    /// Of a problem.
    pub code: String,
    /// What the log calls it, when it is a problem.
    pub request_id: String,
}

impl Answer {
    fn good(status: StatusCode) -> Self {
        Self { status, code: String::new(), request_id: String::new() }
    }

    fn problem(status: StatusCode, problem: &Value) -> Self {
        let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
        Self { status, code: text("code"), request_id: text("request_id") }
    }
}

/// A route with its parameters filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
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

    /// The routes, as the registry lists them.
    pub(super) fn routes(&self) -> impl Iterator<Item = &Value> {
        self.item["routes"].as_array().into_iter().flatten()
    }

    /// Every route.
    pub(super) fn targets(&self) -> Vec<Target> {
        self.routes().filter_map(|route| self.target(route)).collect()
    }

    /// With the id of the card for what speaks of a card, and one that nothing has for the rest.
    pub(super) fn target(&self, route: &Value) -> Option<Target> {
        self.target_with(route, |name| match name.contains("card") {
            true => (self.card.clone(), false),
            false => (Uuid::now_v7().to_string(), true),
        })
    }

    /// `value` gives what stands for a parameter, and whether it was made up.
    pub(super) fn target_with(&self, route: &Value, value: impl Fn(&str) -> (String, bool)) -> Option<Target> {
        target(route, self.item["api_prefix"].as_str().unwrap_or_default(), value)
    }

    /// An answer whose body is not waited for, to a request without a body.
    pub(super) async fn ask(&self, target: &Target) -> anyhow::Result<Answer> {
        self.ask_with(target, None).await
    }

    /// The same with a body that says it is JSON, whatever it is.
    pub(super) async fn ask_with(&self, target: &Target, body: Option<&str>) -> anyhow::Result<Answer> {
        let mut request = Request::new(body.map_or_else(empty, |body| full(body.to_owned())));
        *request.method_mut() = target.method.clone();
        if body.is_some() {
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, self.client.send(&target.path, request)).await;
        match answer.with_context(|| format!("no answer in {ANSWER_TIMEOUT:?}"))? {
            Ok(answer) => Ok(Answer::good(answer.status())),
            Err(RequestError::Refused { status, problem }) => Ok(Answer::problem(status, &problem)),
            Err(RequestError::Foreign { status, .. }) => Ok(Answer::good(status)),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Why a request failed, as the plugin's log has it: the place and the message of a panic, else the error.
    pub(super) async fn find_reason(&self, request_id: &str) -> Option<String> {
        let path = format!("{REGISTRY}/{}/logs?level=error&limit=200", self.name());
        let page = self.client.get(&path).await.ok()?;
        reason_in(page["items"].as_array()?, request_id)
    }
}

/// `lines` are those of the log, the newest first.
fn reason_in(lines: &[Value], request_id: &str) -> Option<String> {
    let lines_of_request = || lines.iter().rev().filter(|line| line["request_id"] == request_id);
    let panic = lines_of_request().find(|line| line["fields"]["panic"] == true);
    // The plugin may have logged errors of its own that did not end the call.
    let failure = panic.or_else(|| lines_of_request().find(|line| line["source"] == "host"));
    let message = failure.or_else(|| lines_of_request().next())?["message"].as_str()?;
    Some(message.strip_prefix("a call failed: ").unwrap_or(message).to_owned())
}

fn target(route: &Value, prefix: &str, value: impl Fn(&str) -> (String, bool)) -> Option<Target> {
    let (method, template) = (route["method"].as_str()?, route["path"].as_str()?);
    let mut is_made_up = false;
    let part = |part: &str| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
        Some(name) => {
            let (value, made_up) = value(name);
            is_made_up |= made_up;
            value
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
    fn a_failure_is_told_by_its_panic_and_else_by_its_first_error() {
        let line = |id: &str, source: &str, message: &str, fields: Value| {
            let mut line = json!({"request_id": id, "source": source, "message": message});
            line["fields"] = fields;
            line
        };
        let lines = [
            line("3", "plugin", "later", json!({})),
            line("1", "host", "a call failed: panic", json!({})),
            line("1", "plugin", "panicked at src/a.rs:1", json!({"panic": true})),
            line("2", "host", "a call failed: error: no such column", json!({})),
            line("2", "plugin", "trying again", json!({})),
            line("3", "plugin", "first", json!({})),
        ];
        assert_eq!(reason_in(&lines, "1").as_deref(), Some("panicked at src/a.rs:1"));
        assert_eq!(reason_in(&lines, "2").as_deref(), Some("error: no such column"));
        assert_eq!(reason_in(&lines, "3").as_deref(), Some("first"));
        assert_eq!(reason_in(&lines, "4"), None);
    }

    #[test]
    fn parameters_stand_for_the_card_or_for_something_made_up() {
        let value = |name: &str| if name == "card_id" { ("C".to_owned(), false) } else { ("7".to_owned(), true) };
        let of = |path: &str| target(&json!({"method": "GET", "path": path}), "notes", value).unwrap();
        assert_eq!(of("/cards/{card_id}/x").path, "/v1/admin/plugins/notes/cards/C/x");
        assert!(!of("/cards/{card_id}").is_made_up && !of("/").is_made_up);
        let other = of("/notes/{id}");
        assert!(other.is_made_up && !other.path.contains('{') && other.name == "GET /notes/{id}");
    }
}
