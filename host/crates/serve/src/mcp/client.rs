//! What a client says of itself, and how it learns that its call goes on.

use std::{borrow::Cow, cell::RefCell, sync::Arc};

use rmcp::{
    RoleServer,
    model::{ClientCapabilities, Implementation, ProgressToken},
    service::RequestContext,
};
use serde::{Deserialize, Serialize};

use super::Visit;
use cardinal_observe::trace::Trace;

/// Characters that are kept of a client's name and of its version.
const NAME_LIMIT: usize = 100;
/// Bytes of what a client says of itself that are remembered.
const REMEMBERED_LIMIT: usize = 1_024;

thread_local! {
    static LATEST_INFO: RefCell<Latest<Option<Arc<str>>>> = RefCell::default();
    static LATEST_CAPABILITIES: RefCell<Latest<bool>> = RefCell::default();
}

/// What the text means that came last on this thread: a client says the same of itself in every message.
#[derive(Default)]
struct Latest<T> {
    text: String,
    meaning: T,
}

impl<T: Clone> Latest<T> {
    fn get(&mut self, text: &str, read: impl FnOnce(&str) -> T) -> T {
        if self.text == text {
            return self.meaning.clone();
        }
        let meaning = read(text);
        if text.len() <= REMEMBERED_LIMIT {
            text.clone_into(&mut self.text);
            self.meaning = meaning.clone();
        }
        meaning
    }
}

/// Who the client says it is. Of a message by itself nobody has said it; there the protocol library names itself.
pub(super) fn info(visit: &Visit, context: &RequestContext<RoleServer>) -> Option<Implementation> {
    if visit.session.is_some() { context.client_info() } else { context.meta.client_info() }
}

/// As it may be shown: what a client calls itself is anything.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(NAME_LIMIT).collect()
}

/// What every client says of itself; most say no more.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientName<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    version: Cow<'a, str>,
}

/// What a client says it is, as the audit log keeps it: a JSON object. None for what the protocol library would not
/// take.
pub(super) fn read(json: &str) -> Option<Arc<str>> {
    LATEST_INFO.with_borrow_mut(|latest| latest.get(json, parse))
}

/// Whether the protocol library would take this for a client's capabilities.
pub(super) fn are_capabilities(json: &str) -> bool {
    let parse = |json: &str| json.starts_with('{') && serde_json::from_str::<ClientCapabilities>(json).is_ok();
    LATEST_CAPABILITIES.with_borrow_mut(|latest| latest.get(json, parse))
}

fn parse(json: &str) -> Option<Arc<str>> {
    if !json.starts_with('{') {
        return None; // serde takes a list of the members for one, too
    }
    match serde_json::from_str::<ClientName<'_>>(json) {
        Ok(ClientName { name, version }) => describe(&name, &version),
        Err(_) => describe_info(&serde_json::from_str(json).ok()?),
    }
}

pub(super) fn describe_info(info: &Implementation) -> Option<Arc<str>> {
    describe(&info.name, &info.version)
}

fn describe(name: &str, version: &str) -> Option<Arc<str>> {
    let client = ClientName { name: shown(name).into(), version: shown(version).into() };
    serde_json::to_string(&client).ok().map(Arc::from)
}

/// The place in its own trace that the client calls from.
pub(super) fn trace(context: &RequestContext<RoleServer>) -> Option<Trace> {
    Trace::from_parent(context.meta.get("traceparent")?.as_str()?.as_bytes())
}

/// What notifications about the call are marked with, where the client has asked for some and hears them.
pub(super) fn progress_token(visit: &Visit, context: &RequestContext<RoleServer>) -> Option<ProgressToken> {
    context.meta.get_progress_token().filter(|_| visit.reads_events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_what_its_own_message_says() {
        let describe = |json: &str| read(json).map(|client| client.to_string());
        let named = |name: &str| format!(r#"{{"name":"{name}","version":"1"}}"#);
        for name in ["a", "b", "b", "a"] {
            assert_eq!(describe(&named(name)), Some(named(name)));
        }
        let more = r#"{"version": "1", "name": "a\u0007", "title": "An agent", "websiteUrl": "https://a.example"}"#;
        assert_eq!(describe(more), Some(named("a")), "it is shown without what controls a terminal");
        for wrong in [
            "",
            "[\"a\",\"1\"]",
            r#"{"name":"a"}"#,
            r#"{"name":"a","version":1}"#,
            r#"{"name":"a","name":"a","version":"1"}"#,
        ] {
            assert_eq!((describe(wrong), describe(wrong)), (None, None), "{wrong}");
        }
        assert_eq!(describe(&named("a")), Some(named("a")));
    }

    #[test]
    fn what_is_too_long_to_be_remembered_is_read_each_time() {
        let mut latest = Latest::<usize>::default();
        let long = "x".repeat(REMEMBERED_LIMIT + 1);
        assert_eq!(
            [latest.get("ab", str::len), latest.get(&long, str::len), latest.get("ab", |_| 7)],
            [2, long.len(), 2]
        );
    }

    #[test]
    fn capabilities_are_an_object_of_objects() {
        for (json, are) in
            [("{}", true), (r#"{"elicitation":{"form":{}}}"#, true), (r#"{"roots":7}"#, false), ("[]", false)]
        {
            assert_eq!([are_capabilities(json), are_capabilities(json)], [are, are], "{json}");
        }
    }
}
