//! What a client says of itself, and how it learns that its call goes on.

use std::{borrow::Cow, sync::Arc};

use rmcp::{
    RoleServer,
    model::{Implementation, ProgressToken},
    service::RequestContext,
};
use serde::{Deserialize, Serialize};

use super::Visit;
use cardinal_observe::trace::Trace;

/// Characters that are kept of a client's name and of its version.
const NAME_LIMIT: usize = 100;

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

/// What a client says it is, as the audit log keeps it: a JSON object. None for what the protocol library would not take.
pub(super) fn read(json: &str) -> Option<Arc<str>> {
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
