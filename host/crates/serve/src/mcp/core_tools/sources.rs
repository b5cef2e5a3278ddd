//! Sources of a card, without reading what is in them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use cardinal_cards::card::Card;

/// Each source as its JSON, by its key.
pub(super) fn all(card: &Card) -> serde_json::Result<BTreeMap<String, &RawValue>> {
    #[derive(Deserialize)]
    struct Attributes<'a> {
        #[serde(borrow, default)]
        sources: BTreeMap<String, &'a RawValue>,
    }
    let attributes: Attributes<'_> = serde_json::from_str(card.attributes.get())?;
    Ok(attributes.sources)
}

/// The kind of one source; none when the card has no such source.
pub(super) fn kind(card: &Card, key: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Kind {
        kind: String,
    }
    let entry = *all(card).ok()?.get(key)?;
    serde_json::from_str(entry.get()).ok().map(|Kind { kind }| kind)
}
