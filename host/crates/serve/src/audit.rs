//! Who did what: one row per administrative act, written when it is done. Refused attempts are written at once the
//! first time and then summed up: one row per caller, act and minute, so that a flood fills neither the memory nor
//! the table. Calls of tools are many, too, see [`tool_calls`].

mod tool_calls;

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use time::{Duration, OffsetDateTime};
use tokio::sync::Notify;
use uuid::Uuid;

pub use self::tool_calls::ToolCall;
pub use crate::audit_action::AuditAction;
use crate::call::CallHead;
use crate::http::error::ApiResult;
use cardinal_base::clock::Clock;
use cardinal_database::pool::Pool;
use cardinal_identity::{
    auth::caller::{Caller, CallerKind},
    limit::addresses::Network,
};
use cardinal_store::audit::{self, Detail, Entry};
use tool_calls::ToolCalls;

/// How long refusals of one caller and act are summed up.
const WINDOW: Duration = Duration::minutes(1);
/// Callers and acts whose refusals are summed up at the same time; what comes beyond is summed up by act alone.
const WINDOWS: usize = 4_096;

/// Whose refusals are summed up together: the caller, or the address of who is none.
#[derive(Clone, PartialEq, Eq, Hash)]
enum RefusalSubject {
    Known(Uuid),
    Stranger(Network, Option<Uuid>),
    Others,
}

struct Window {
    entry: Entry,
    /// How many of `entry.count` the table has already.
    written: i32,
    started_at: OffsetDateTime,
}

/// The one door to the audit log.
pub struct Audit {
    pool: Pool,
    clock: Clock,
    windows: Mutex<HashMap<(RefusalSubject, AuditAction), Window>>,
    calls: ToolCalls,
    /// Rings when something is to be written.
    entry_added: Notify,
}

/// A name that a log may show: whose account was meant by somebody who is not logged in.
pub(crate) struct NamedAccount {
    pub id: Uuid,
    pub name: String,
}

impl Audit {
    pub fn new(pool: Pool, clock: Clock) -> Self {
        let (windows, calls) = Default::default();
        Self { pool, clock, windows, calls, entry_added: Notify::new() }
    }

    /// Records what the call's caller did: the action that its route's row names.
    pub async fn done(&self, call: &CallHead, target: Option<String>, detail: Option<Value>) {
        match call.audits {
            Some(action) => self.done_as(call, action, target, detail).await,
            None => tracing::error!(path = call.uri.path(), "the route's row names no audit action for what was done"),
        }
    }

    /// The same for an action that depends on what was asked for.
    pub(crate) async fn done_as(
        &self,
        call: &CallHead,
        act: AuditAction,
        target: Option<String>,
        detail: Option<Value>,
    ) {
        let (actor, ip) = Self::subject(call);
        self.done_by(actor, ip, call.request_id.to_string(), act, target, detail).await;
    }

    /// Records an act of the call's caller on several targets, a line each.
    pub(crate) async fn done_to_each(&self, call: &CallHead, act: AuditAction, targets: Vec<(String, Value)>) {
        let (actor, ip) = Self::subject(call);
        let actor = raw(&actor);
        let (at, action, request_id) = (self.clock.now(), act.name(), call.request_id.to_string());
        let entry = |(target, detail)| Entry {
            actor: Arc::clone(&actor),
            action,
            target: Some(target),
            outcome: "ok",
            ip,
            request_id: request_id.clone(),
            detail: Some(Detail::Object(raw(&detail))),
            count: 1,
            first_at: None,
            at,
        };
        let entries: Vec<Entry> = targets.into_iter().map(entry).collect();
        if let Err(error) = audit::add_all(&self.pool, &entries).await {
            tracing::error!(?entries, ?error, "failed to write audit lines");
        }
    }

    /// Whom a line names, and from where; at the host's own socket there is no address.
    fn subject(call: &CallHead) -> (Value, Option<IpAddr>) {
        let actor = call.caller().map_or(Value::Null, |caller| caller.actor());
        let is_local = call.caller().is_ok_and(|caller| matches!(caller.kind, CallerKind::Local { .. }));
        (actor, (!is_local).then_some(call.peer))
    }

    /// Records what `actor` did. A row that can't be written doesn't undo what was done; the log has it instead.
    pub async fn done_by(
        &self,
        actor: Value,
        ip: Option<IpAddr>,
        request_id: String,
        act: AuditAction,
        target: Option<String>,
        detail: Option<Value>,
    ) {
        let at = self.clock.now();
        let action = act.name();
        let (actor, detail) = (raw(&actor), detail.as_ref().map(raw).map(Detail::Object));
        let entry =
            Entry { actor, action, target, outcome: "ok", ip, request_id, detail, count: 1, first_at: None, at };
        self.add(&entry).await;
    }

    /// Records a tool call, together with others that end meanwhile. The call waits for it only when too many do.
    pub async fn called(&self, call: ToolCall) {
        match self.calls.push(call) {
            true => self.entry_added.notify_one(),
            false => self.calls.make_room(&self.pool).await,
        }
    }

    pub fn now(&self) -> OffsetDateTime {
        self.clock.now()
    }

    /// Records the tool calls that have ended, for who reads the log now.
    pub(crate) async fn write_calls(&self) {
        self.calls.write(&self.pool).await;
    }

    /// Counts an attempt of a caller that was refused.
    pub fn refused(
        &self,
        caller: &Caller,
        ip: IpAddr,
        request_id: String,
        act: AuditAction,
        target: Option<String>,
        code: &str,
    ) {
        let subject = RefusalSubject::Known(caller.key.as_ref().map_or(caller.user_id, |(id, _)| *id));
        self.count(subject, act, |at| Entry { target, ..refusal(at, &caller.actor(), ip, request_id, act, code) });
    }

    /// Counts an attempt of somebody who is not logged in. What they typed as a name is kept only when it is an
    /// account's: it may have been a password.
    pub(crate) fn refused_stranger(
        &self,
        ip: IpAddr,
        meant: Option<NamedAccount>,
        request_id: String,
        act: AuditAction,
        code: &str,
    ) {
        let subject = RefusalSubject::Stranger(ip.into(), meant.as_ref().map(|meant| meant.id));
        self.count(subject, act, |at| {
            let actor = match meant {
                Some(NamedAccount { id, name }) => json!({"kind": "user", "id": id, "name": name}),
                None => json!({"kind": "user", "id": null, "name": null}),
            };
            refusal(at, &actor, ip, request_id, act, code)
        });
    }

    fn count(&self, subject: RefusalSubject, act: AuditAction, first: impl FnOnce(OffsetDateTime) -> Entry) {
        let now = self.clock.now();
        let mut windows = self.windows.lock();
        let known = windows.contains_key(&(subject.clone(), act));
        let full = !known && windows.len() >= WINDOWS;
        let key = if full { (RefusalSubject::Others, act) } else { (subject, act) };
        let window = windows.entry(key).or_insert_with(|| {
            let mut entry = first(now);
            if full {
                entry.actor = raw(&json!({"kind": "others", "id": null, "name": null}));
                entry.ip = None;
            }
            Window { entry, written: 0, started_at: now }
        });
        window.entry.count = window.entry.count.saturating_add(1);
        window.entry.at = now;
        window.entry.first_at.get_or_insert(now);
        if window.written == 0 {
            self.entry_added.notify_one();
        }
    }

    /// Waits until something is to be written.
    pub(crate) async fn until_added(&self) {
        self.entry_added.notified().await;
    }

    /// Records what waits: tool calls, and refusals, the first of a window now, the rest when its minute is over, or
    /// now when this is the end.
    pub(crate) async fn write_waiting(&self, is_end: bool) {
        self.write_calls().await;
        for entry in self.due(is_end) {
            self.add(&entry).await;
        }
    }

    fn due(&self, is_end: bool) -> Vec<Entry> {
        let now = self.clock.now();
        let mut due = Vec::new();
        let mut windows = self.windows.lock();
        windows.retain(|_, window| {
            let over = is_end || now - window.started_at >= WINDOW;
            let unwritten = window.entry.count - window.written;
            if unwritten > 0 && (over || window.written == 0) {
                due.push(window.take(unwritten));
            }
            !over
        });
        due
    }

    async fn add(&self, entry: &Entry) {
        if let Err(error) = audit::add(&self.pool, entry).await {
            tracing::error!(?entry, ?error, "failed to write an audit line");
        }
    }
}

/// As a row holds it; what comes from a `Value` can always be written.
fn raw(value: &Value) -> Arc<RawValue> {
    to_raw_value(value).map_or_else(|_| Arc::from(RawValue::NULL.to_owned()), Arc::from)
}

/// The row of refusals, of which none is counted yet.
fn refusal(at: OffsetDateTime, actor: &Value, ip: IpAddr, request_id: String, act: AuditAction, code: &str) -> Entry {
    let (action, outcome, detail) = (act.name(), "refused", Some(Detail::Object(raw(&json!({"code": code})))));
    let actor = raw(actor);
    Entry { actor, action, target: None, outcome, ip: Some(ip), request_id, detail, count: 0, first_at: Some(at), at }
}

impl Window {
    fn take(&mut self, unwritten: i32) -> Entry {
        let row = Entry {
            actor: Arc::clone(&self.entry.actor),
            target: self.entry.target.clone(),
            request_id: self.entry.request_id.clone(),
            detail: self.entry.detail.clone(),
            count: unwritten,
            ..self.entry
        };
        self.written = self.entry.count;
        self.entry.first_at = None; // the next row begins with what comes after this one
        row
    }
}

/// Whether an answer is the refusal of an act: who may not, not what was wrong with it.
pub fn is_refusal<T>(outcome: &ApiResult<T>) -> Option<&str> {
    outcome.as_ref().err().filter(|error| error.status() == StatusCode::FORBIDDEN).map(|error| error.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: OffsetDateTime = time::macros::datetime!(2026-01-01 00:00 UTC);
    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn audit() -> Audit {
        let nowhere = tokio_postgres::Config::new;
        let pools = cardinal_database::pool::Pools::new(nowhere(), nowhere()).unwrap();
        Audit::new(pools.core, Clock::manual(AT))
    }

    fn guess(audit: &Audit, from: IpAddr) {
        audit.refused_stranger(from, None, "r".into(), AuditAction::LogIn, "invalid-credentials");
    }

    #[test]
    fn the_first_refusal_is_written_at_once_and_the_rest_when_the_minute_is_over() {
        let audit = audit();
        guess(&audit, HERE);
        let first = audit.due(false);
        assert_eq!((first.len(), first[0].count, first[0].first_at), (1, 1, Some(AT)));
        for second in 1..=5 {
            audit.clock.advance(std::time::Duration::from_secs(1));
            guess(&audit, HERE);
            assert!(audit.due(false).is_empty(), "{second}");
        }
        audit.clock.advance(std::time::Duration::from_secs(55));
        let rest = audit.due(false);
        assert_eq!((rest.len(), rest[0].count, rest[0].at), (1, 5, AT + Duration::seconds(5)));
        assert_eq!(rest[0].first_at, Some(AT + Duration::SECOND));
        assert!(audit.windows.lock().is_empty());
    }

    #[test]
    fn at_the_end_everything_is_written() {
        let audit = audit();
        (0..3).for_each(|_| guess(&audit, HERE));
        assert_eq!(audit.due(true)[0].count, 3);
        assert!(audit.due(true).is_empty());
    }

    #[test]
    fn a_flood_from_many_addresses_is_bounded() {
        let audit = audit();
        for i in 0..10_000_u32 {
            guess(&audit, IpAddr::from(i.to_be_bytes()));
        }
        assert_eq!(audit.windows.lock().len(), WINDOWS + 1);
        let due = audit.due(true);
        assert_eq!(due.iter().map(|entry| entry.count).sum::<i32>(), 10_000);
        assert!(due.iter().any(|entry| entry.actor.get().contains("others") && entry.ip.is_none()));
    }
}
