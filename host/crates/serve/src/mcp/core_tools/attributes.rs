//! Attributes and sources of a card, without reading what is not asked for.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use cardinal_base::exact;
use cardinal_cards::card::Card;

/// Each source as its JSON, by its key.
pub(super) fn sources(card: &Card) -> serde_json::Result<BTreeMap<String, &RawValue>> {
    #[derive(Deserialize)]
    struct Attributes<'a> {
        #[serde(borrow, default)]
        sources: BTreeMap<String, &'a RawValue>,
    }
    let attributes: Attributes<'_> = serde_json::from_str(card.attributes.get())?;
    Ok(attributes.sources)
}

/// The kind of one source; none when the card has no such source.
pub(super) fn source_kind(card: &Card, key: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Kind {
        kind: String,
    }
    let entry = *sources(card).ok()?.get(key)?;
    serde_json::from_str(entry.get()).ok().map(|Kind { kind }| kind)
}

/// The attribute of this name, to be shown: one with a number that a `Value` would round is its text.
pub(super) fn find(card: &Card, key: &str) -> Option<Value> {
    let attributes: BTreeMap<String, &RawValue> = serde_json::from_str(card.attributes.get()).ok()?;
    let text = attributes.get(key)?.get();
    match exact::first_inexact(text) {
        Some(_) => Some(text.into()),
        None => serde_json::from_str(text).ok(),
    }
}
