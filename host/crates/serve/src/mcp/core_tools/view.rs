//! Cards as the tools show them: the members that were asked for, within bounds.

use std::collections::HashMap;

use rmcp::model::Resource;
use serde::Serialize;
use uuid::Uuid;

use crate::http::error::{ApiError, ApiResult};
use crate::mcp::card_resource;
use cardinal_cards::{
    card::{Card, PartialCard},
    filter::members,
};

const KNOWN: [&str; 9] = ["id", "title", "sku", "status", "kinds", "attributes", "version", "created_at", "updated_at"];
/// What a list shows of a card.
const LEAN: [&str; 5] = ["id", "title", "sku", "status", "kinds"];
/// What a tool that has written a card shows of it.
const WRITTEN: [&str; 6] = ["id", "title", "sku", "status", "kinds", "version"];

/// Members of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Members(Vec<&'static str>);

impl Members {
    pub(super) fn lean() -> Self {
        Self(LEAN.to_vec())
    }

    pub(super) fn written() -> Self {
        Self(WRITTEN.to_vec())
    }

    pub(super) fn all() -> Self {
        Self(KNOWN.to_vec())
    }

    /// Those of a comma-separated list, and the id.
    pub(super) fn parse(list: &str) -> ApiResult<Self> {
        let members = members(list.split(',').map(str::trim), &KNOWN);
        let refuse = || ApiError::invalid("/fields", format!("It is a list of {}.", KNOWN.join(", ")));
        members.map(Self).ok_or_else(refuse)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }

    fn without_attributes(&self) -> Self {
        Self(self.0.iter().copied().filter(|name| *name != "attributes").collect())
    }

    /// The card with these members.
    pub(super) fn show(&self, card: &Card, kinds: &HashMap<Uuid, Vec<String>>) -> CardView {
        CardView {
            card: PartialCard::new(card.clone(), &self.0),
            kinds: self.has("kinds").then(|| kinds.get(&card.id).cloned().unwrap_or_default()),
            omitted: None,
        }
    }

    /// The same without attributes, which are said to be missing.
    pub(super) fn show_omitting(&self, card: &Card, kinds: &HashMap<Uuid, Vec<String>>) -> CardView {
        let omitted = Omissions { attributes: Some(card.attributes.get().len()), change: None };
        CardView { omitted: Some(omitted), ..self.without_attributes().show(card, kinds) }
    }
}

/// A card with some of its members.
#[derive(Serialize)]
pub(super) struct CardView {
    #[serde(flatten)]
    card: PartialCard,
    #[serde(skip_serializing_if = "Option::is_none")]
    kinds: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<Omissions>,
}

/// What was too large, with its bytes.
#[derive(Serialize)]
pub(super) struct Omissions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<usize>,
}

/// The answer about one card.
#[derive(Serialize)]
pub(super) struct One {
    pub item: CardView,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A link to the card.
pub(super) fn link(card: &Card) -> Resource {
    card_resource::describe(card)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_named_by_commas() {
        assert_eq!(Members::parse("sku, kinds,sku").unwrap().0, ["id", "sku", "kinds"]);
        for wrong in ["", "sources", "sku;title"] {
            assert!(Members::parse(wrong).is_err(), "{wrong}");
        }
        assert!(!Members::all().without_attributes().has("attributes"));
    }
}
