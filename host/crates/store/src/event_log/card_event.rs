//! Events of cards as a reader of pages gets them.

use serde::Serialize;
use serde_json::{Map, Value};

/// Some events of cards, in their order.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct CardEventPage {
    pub items: Vec<CardEvent>,
    /// Where the next page begins.
    pub cursor: i64,
    /// What happened between the reader's place and `cursor` is not known: it looks at all cards.
    pub restart: bool,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct CardEvent {
    pub id: i64,
    /// `card.updated`
    #[serde(rename = "type")]
    pub kind: String,
    /// RFC 3339.
    pub at: String,
    /// `card_id`, `version`, `actor`, and what else there is to say.
    #[serde(flatten)]
    pub data: Map<String, Value>,
}
