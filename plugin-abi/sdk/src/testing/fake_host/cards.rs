//! Cards as the host keeps them: the rights of a call, the rules of sources, pages.
//!
//! They are those of `host/crates/plugin/src/context.rs` and `host/crates/cards`, with the same codes and statuses.

use std::{collections::BTreeMap, ops::RangeInclusive};

use cardinal_plugin_abi::{CallId, Error, error as codes, error::flags};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{FakeHost, lock, now};
use crate::User;

/// The largest `data` of a source, as JSON text: the host's own limit.
const DATA_LIMIT: usize = 256 << 10;
/// Cards on a page when the query says nothing, and how many it may ask for.
const PAGE: usize = 50;
const LIMITS: RangeInclusive<usize> = 1..=200;
/// What cards can be sorted by.
const SORTS: [&str; 4] = ["title", "sku", "created_at", "updated_at"];

/// An error as the host gives it.
fn refusal(code: u32, detail: &str, details: &Value) -> Error {
    let error = Error::new(code, detail);
    Error { flags: flags::PUBLIC | flags::HOST, details: details.to_string().into(), ..error }
}

fn refused(code: &str, detail: &str) -> Error {
    refusal(codes::REFUSED, detail, &json!({ "status": 422, "code": code }))
}

fn not_found(detail: &str) -> Error {
    refusal(codes::NOT_FOUND, detail, &json!({ "status": 404, "code": "not-found" }))
}

fn malformed(detail: &str) -> Error {
    refusal(codes::REFUSED, detail, &json!({ "status": 400, "code": "invalid-request" }))
}

fn foreign_cursor() -> Error {
    let details = json!({ "status": 400, "code": "invalid-cursor" });
    refusal(codes::REFUSED, "The cursor is not one of this list.", &details)
}

impl FakeHost {
    /// The rights come from the call. (That an author names its user is the SDK's to check.)
    pub(super) fn authorize(&self, call: CallId, access: &str) -> Result<(), Error> {
        let Some(rules) = self.rules.as_ref().filter(|_| call != 0) else { return Ok(()) };
        let callers = lock(&self.callers);
        let caller = callers.get(&call).ok_or_else(|| Error::new(codes::BAD_HANDLE, "the call is over"))?;
        let own = format!("plugin:{}:{access}", rules.name);
        if holds(caller, &own) || holds(caller, &format!("cards:{access}")) {
            return Ok(());
        }
        let details = json!({ "status": 403, "code": "insufficient-scope", "required_scope": own });
        Err(refusal(codes::FORBIDDEN, &format!("This needs the scope `{own}`."), &details))
    }

    pub(super) fn card_json(&self, id: Uuid) -> Result<String, Error> {
        let cards = lock(&self.cards);
        cards.get(&id).map(ToString::to_string).ok_or_else(|| not_found("There is no such card."))
    }

    pub(super) fn enrich(&self, id: Uuid, key: &str, kind: &str, data: &str) -> Result<u64, Error> {
        let mut version = "";
        if let Some(rules) = &self.rules {
            check_key(&rules.name, key)?;
            if !rules.provides_kinds.iter().any(|known| known == kind) {
                let detail = format!("The kind {kind:?} is not among the plugin's provides_kinds.");
                return Err(refused("kind-not-declared", &detail));
            }
            version = &rules.version;
        }
        if data.len() > DATA_LIMIT {
            return Err(refused("source-limit-exceeded", "The data is over 256 KiB."));
        }
        let data: Value = serde_json::from_str(data)
            .map_err(|error| Error::new(codes::INVALID_ARGUMENT, format!("data is not JSON: {error}")))?;
        let plugin = key.split(':').next().unwrap_or_default();
        let entry =
            json!({ "kind": kind, "data": data, "plugin": plugin, "plugin_version": version, "updated_at": now() });
        let more = json!({ "source_key": key, "kind": kind });
        self.change(id, "card.enriched", more, |sources| {
            sources.insert(key.to_owned(), entry);
            true
        })
    }

    pub(super) fn remove(&self, id: Uuid, key: &str) -> Result<u64, Error> {
        if let Some(rules) = &self.rules {
            check_key(&rules.name, key)?;
        }
        let more = json!({ "source_key": key });
        self.change(id, "card.source-removed", more, |sources| sources.remove(key).is_some())
    }

    /// Changes the sources of a card; gives the card's new version.
    fn change(
        &self,
        id: Uuid,
        what: &str,
        more: Value,
        change: impl FnOnce(&mut Map<String, Value>) -> bool,
    ) -> Result<u64, Error> {
        let mut cards = lock(&self.cards);
        let card = cards.get_mut(&id).ok_or_else(|| not_found("There is no such card."))?;
        let sources = card.pointer_mut("/attributes/sources").and_then(Value::as_object_mut);
        if !sources.is_some_and(change) {
            return Err(not_found("The card has no such source."));
        }
        let version = card["version"].as_u64().unwrap_or_default() + 1;
        card["version"] = version.into();
        card["updated_at"] = now().into();
        self.raise(what, card, &more);
        Ok(version)
    }

    /// A page of the cards, with the parameters that the host's own list has.
    pub(super) fn page(&self, query: &str) -> Result<String, Error> {
        let query: Map<String, Value> = serde_json::from_str(query)
            .map_err(|error| Error::new(codes::INVALID_ARGUMENT, format!("the query: {error}")))?;
        let text = |name: &str| query.get(name).and_then(Value::as_str);
        let cards = lock(&self.cards);
        let mut found: Vec<_> = cards.values().filter(|card| fits(card, &text)).collect();
        let sort = text("sort").unwrap_or("-created_at");
        let (sort, is_descending) = (sort.strip_prefix('-').unwrap_or(sort), sort.starts_with('-'));
        if !SORTS.contains(&sort) {
            return Err(malformed(
                "`sort` is one of title, sku, created_at, updated_at, with `-` before it for descending.",
            ));
        }
        let limit = query.get("limit").map_or(Some(PAGE as u64), Value::as_u64);
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| LIMITS.contains(limit));
        let limit = limit.ok_or_else(|| malformed("`limit` is 1 to 200."))?;
        found.sort_by(|one, other| sort_key(one, sort).cmp(sort_key(other, sort)));
        if is_descending {
            found.reverse();
        }
        let list = list_key(&query);
        let from = text("cursor").map_or(Some(0), |cursor| cursor.strip_suffix(&list)?.parse().ok());
        let from = from.ok_or_else(foreign_cursor)?.min(found.len());
        let to = (from + limit).min(found.len());
        let next = (to < found.len()).then(|| format!("{to}{list}"));
        Ok(json!({ "items": found[from..to], "next_cursor": next }).to_string())
    }
}

fn sort_key<'c>(card: &'c Value, sort: &str) -> &'c str {
    let text = card[sort].as_str().unwrap_or_default();
    // A time whose fraction ends earlier has fewer digits before its Z.
    if sort.ends_with("_at") { text.trim_end_matches('Z') } else { text }
}

/// What all pages of one list have in common: a cursor of another list is refused.
fn list_key(query: &Map<String, Value>) -> String {
    let mut common = query.clone();
    common.retain(|name, _| name != "cursor" && name != "limit");
    format!(" of {}", Value::Object(common))
}

/// Whether a card is one of those that a query asks for.
fn fits<'q>(card: &Value, text: &impl Fn(&str) -> Option<&'q str>) -> bool {
    let sources: BTreeMap<String, Value> = card
        .pointer("/attributes/sources")
        .map_or_else(BTreeMap::new, |sources| Deserialize::deserialize(sources).unwrap_or_default());
    let has = |field: &str, wanted: &str| sources.values().any(|source| source[field] == wanted);
    let word = text("q").map(str::to_lowercase);
    let contains = |field: &str, word: &str| card[field].as_str().is_some_and(|own| own.to_lowercase().contains(word));
    text("kind").is_none_or(|kind| has("kind", kind))
        && text("missing_kind").is_none_or(|kind| !has("kind", kind))
        && text("plugin").is_none_or(|plugin| has("plugin", plugin))
        && text("status").is_none_or(|status| card["status"] == status)
        && word.is_none_or(|word| contains("title", &word) || contains("sku", &word))
}

fn check_key(plugin: &str, key: &str) -> Result<(), Error> {
    match key.strip_prefix(plugin).and_then(|rest| rest.strip_prefix(':')) {
        Some(suffix) if !suffix.is_empty() => Ok(()),
        _ => Err(refused("source-key-invalid", &format!("A source key of this plugin begins with \"{plugin}:\"."))),
    }
}

/// Whether the user's scopes cover `wanted`; `*` in one stands for any part.
fn holds(user: &User, wanted: &str) -> bool {
    let covers = |scope: &String| {
        let (own, wanted): (Vec<_>, Vec<_>) = (scope.split(':').collect(), wanted.split(':').collect());
        *scope == "*"
            || (own.len() == wanted.len() && own.iter().zip(&wanted).all(|(own, wanted)| own == wanted || *own == "*"))
    };
    user.scopes.iter().any(covers)
}
