//! No input makes the plugin panic. Routes get what does not fit them, tools that read get what fits and is odd.
//!
//! A panic ends its call alone, so the plugin goes on; but its client gets a 500 that nobody meant.

use anyhow::ensure;
use http::Method;
use serde_json::Value;

use super::{
    Outcome, edges,
    requests::{Subject, Target},
    some,
    tools::{CallOutcome, call_tool, listed},
};
use crate::cli::plugin::remote::REGISTRY;

/// In the place of every parameter of a path: numbers at their edges, and characters of several bytes.
const ODD_PARTS: [&str; 6] =
    ["0", "-1", "x", "%F0%9F%98%80%C3%A9", "99999999999999999999", "00000000-0000-0000-0000-000000000000"];
/// Of a GET request; the names are those that lists and columns have.
const ODD_QUERY: &str = "?cursor=%F0%9F%98%80&limit=-1&offset=99999999999999999999&card_ids=x,,%F0%9F%98%80";
/// For the other methods. The empty one is an empty body.
const ODD_BODIES: [&str; 8] = ["", "{", "null", "7", "[]", "{}", "\"\u{1F600}\"", "[[[[[[[[]]]]]]]]"];
/// Characters of arguments that are shown.
const MAX_SHOWN_CHARS: usize = 120;
/// The code of an answer after a panic.
const PANICKED: &str = "plugin-panicked";

pub(super) async fn check(subject: &Subject) -> anyhow::Result<Outcome> {
    let mut tally = Tally::default();
    ask_routes(subject, &mut tally).await?;
    call_tools(subject, &mut tally).await?;
    let path = format!("{REGISTRY}/{}", subject.name());
    let state = subject.client.get(&path).await?["item"]["state"].clone();
    ensure!(state == "active", "the plugin is {state} afterwards");
    Ok(match tally.calls {
        0 => Outcome::Skipped("the plugin has no routes, and no tools that only read".to_owned()),
        calls if tally.panics.is_empty() => Outcome::Good(format!("none in {calls} calls with odd input")),
        _ => Outcome::Bad(some(&tally.panics)),
    })
}

#[derive(Default)]
struct Tally {
    calls: usize,
    panics: Vec<String>,
}

impl Tally {
    /// What was asked, and where the plugin panicked then.
    async fn note(&mut self, subject: &Subject, what: &str, request_id: &str) {
        let place = subject.find_reason(request_id).await;
        self.panics.push(format!("{what} {}", place.as_deref().unwrap_or("panicked; its log says where")));
    }
}

/// Up to the first panic of each route: more of them would take the plugin out of service.
async fn ask_routes(subject: &Subject, tally: &mut Tally) -> anyhow::Result<()> {
    for route in subject.routes() {
        for (target, body) in odd_requests(subject, route) {
            tally.calls += 1;
            let answer = subject.ask_with(&target, body).await?;
            if answer.code == PANICKED {
                let what = match body {
                    Some(body) => format!("{} with the body {body:?}", target.name),
                    None => format!("{} as {}", target.name, target.path),
                };
                tally.note(subject, &what, &answer.request_id).await;
                break;
            }
        }
    }
    Ok(())
}

fn odd_requests(subject: &Subject, route: &Value) -> Vec<(Target, Option<&'static str>)> {
    let Some(usual) = subject.target(route) else { return Vec::new() };
    let odd_parts = ODD_PARTS.iter().filter(|_| usual.name.contains('{'));
    let odd_paths = odd_parts.filter_map(|part| subject.target_with(route, |_| ((*part).to_owned(), true)));
    let mut requests: Vec<_> = odd_paths.map(|target| (target, None)).collect();
    if usual.method == Method::GET {
        requests.push((Target { path: format!("{}{ODD_QUERY}", usual.path), ..usual }, None));
    } else {
        requests.extend(ODD_BODIES.map(|body| (usual.clone(), Some(body))));
    }
    requests
}

/// Those that must be confirmed may change what is outside of the plugin, and are left alone.
async fn call_tools(subject: &Subject, tally: &mut Tally) -> anyhow::Result<()> {
    let listed = listed(&subject.client).await?;
    for tool in subject.item["tools"].as_array().into_iter().flatten() {
        let name = tool["name"].as_str().unwrap_or_default();
        let is_read = tool["scope"].as_str().is_some_and(|scope| scope.ends_with(":read"));
        let Some(listed) = listed.get(name).filter(|_| is_read && tool["requires_confirmation"] != true) else {
            continue;
        };
        for arguments in edges::for_schema(&listed["inputSchema"], &subject.card) {
            tally.calls += 1;
            let answer = call_tool(&subject.client, name, &arguments).await?;
            if matches!(&answer.outcome, CallOutcome::Broke(text) if text.starts_with(PANICKED)) {
                let what = format!("{name} with {}", brief(&arguments.to_string()));
                tally.note(subject, &what, &answer.request_id).await;
                break;
            }
        }
    }
    Ok(())
}

fn brief(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_arguments_are_cut_between_characters() {
        let long = "\u{1F600}".repeat(MAX_SHOWN_CHARS + 1);
        assert_eq!(brief(&long).chars().count(), MAX_SHOWN_CHARS + 1);
        assert_eq!(brief("{}"), "{}");
    }
}
