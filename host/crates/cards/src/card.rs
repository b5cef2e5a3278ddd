//! A master card and what its fields may hold.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    error::{CardError, FieldError},
    source::{self, SourceError},
};
use cardinal_base::{
    codes,
    exact::Object,
    schema::{Actor, DateTime},
};

pub(crate) const TITLE_LIMIT: usize = 500;
pub(crate) const SKU_LIMIT: usize = 120;
/// A card as the API shows it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Card {
    pub id: Uuid,
    pub title: String,
    pub sku: String,
    #[schemars(with = "Status")]
    pub status: String,
    /// As PostgreSQL wrote it: nobody on the way to the reader needs to know what is in it.
    #[schemars(with = "Attributes")]
    pub attributes: Box<RawValue>,
    pub version: i64,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "DateTime")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "DateTime")]
    pub updated_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<DateTime>")]
    pub deleted_at: Option<OffsetDateTime>,
}

/// `attributes` of a card.
#[derive(JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
#[allow(dead_code, reason = "a description of what is JSON all the way through")]
pub struct Attributes {
    /// What plugins know of the product, by source key (`<plugin>:<suffix>`).
    sources: std::collections::BTreeMap<String, Source>,
}

/// A source of a card.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "see `Attributes`")]
struct Source {
    /// What `data` is of.
    kind: String,
    data: Value,
    plugin: Option<String>,
    plugin_version: Option<String>,
    #[schemars(with = "Option<DateTime>")]
    updated_at: Option<String>,
    updated_by: Option<Actor>,
}

/// A card with some of its members, each as it is in [`Card`].
#[derive(Debug, Serialize)]
pub struct PartialCard {
    id: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sku: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<i64>,
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    created_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    updated_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    deleted_at: Option<OffsetDateTime>,
    /// Not in a [`Card`]: its history says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_by: Option<Value>,
}

impl PartialCard {
    pub fn new(card: Card, members: &[&str]) -> Self {
        let has = |name: &str| members.contains(&name);
        Self {
            id: card.id,
            title: has("title").then_some(card.title),
            sku: has("sku").then_some(card.sku),
            status: has("status").then_some(card.status),
            attributes: has("attributes").then_some(card.attributes),
            version: has("version").then_some(card.version),
            created_at: has("created_at").then_some(card.created_at),
            updated_at: has("updated_at").then_some(card.updated_at),
            deleted_at: card.deleted_at.filter(|_| has("deleted_at")),
            updated_by: None,
        }
    }

    /// With who changed it last, by card.
    #[must_use]
    pub fn with_actor(self, actors: &mut HashMap<Uuid, Value>) -> Self {
        Self { updated_by: actors.remove(&self.id), ..self }
    }
}

/// Where a card stands in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    #[default]
    Draft,
    Active,
    Archived,
}

impl Status {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Active => "active",
            Self::Archived => "archived",
        }
    }
}

/// What a client sends to make a card.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCard {
    #[schemars(length(min = 1, max = 500))]
    pub title: String,
    #[schemars(length(min = 1, max = 120))]
    pub sku: String,
    #[serde(default)]
    pub status: Status,
    #[serde(default, deserialize_with = "cardinal_base::input::maybe::present")]
    #[schemars(with = "Map<String, Value>")]
    pub attributes: Option<Option<Object>>,
}

/// A new card whose fields are as they may be. Its attributes have the empty `sources` that every card has.
pub struct CardContent {
    pub title: String,
    pub sku: String,
    pub status: Status,
    pub attributes: Box<RawValue>,
}

impl NewCard {
    /// Checks every field and gives all that is wrong at once.
    pub fn check(self) -> Result<CardContent, CardError> {
        let mut faults = Faults::default();
        faults.title(&self.title);
        faults.sku(&self.sku);
        let mut attributes = match self.attributes {
            Some(None) => {
                faults.add("/attributes", "Attributes can't be null; leave them out or send an object.");
                Object::default()
            }
            Some(Some(attributes)) => attributes,
            None => Object::default(),
        };
        faults.attributes(&attributes);
        faults.result()?;
        let sources = Object::default().to_raw()?;
        attributes.insert("sources", sources);
        Ok(CardContent { title: self.title, sku: self.sku, status: self.status, attributes: attributes.to_raw()? })
    }
}

/// Everything that is wrong with a card's fields.
#[derive(Default)]
pub struct Faults {
    found: Vec<(&'static str, String)>,
    /// How many of them are sources over a limit.
    over_limits: usize,
}

impl Faults {
    pub fn add(&mut self, pointer: &'static str, detail: impl Into<String>) {
        self.found.push((pointer, detail.into()));
    }

    pub fn source(&mut self, pointer: &'static str, broken: SourceError) {
        self.over_limits += usize::from(broken.code == codes::SOURCE_LIMIT_EXCEEDED.name);
        self.add(pointer, broken.detail);
    }

    /// What a field is set to, where it is sent: it may be left out, and not be null.
    pub fn required<T>(&mut self, field: Option<Option<T>>, pointer: &'static str) -> Option<T> {
        if matches!(field, Some(None)) {
            self.add(pointer, "This can't be null.");
        }
        field.flatten()
    }

    pub fn title(&mut self, title: &str) {
        self.text("/title", title, TITLE_LIMIT);
    }

    pub fn sku(&mut self, sku: &str) {
        self.text("/sku", sku, SKU_LIMIT);
        if sku.trim() != sku {
            self.add("/sku", "A SKU can't begin or end with white space.");
        }
    }

    fn text(&mut self, pointer: &'static str, text: &str, limit: usize) {
        let length = text.chars().count();
        if text.trim().is_empty() || length > limit {
            self.add(pointer, format!("1 to {limit} characters are needed, {length} were sent."));
        } else if text.contains('\0') {
            self.add(pointer, "The character U+0000 can't be stored.");
        }
    }

    /// Attributes that a client sends: an object of any JSON but `sources`, which only plugins write.
    pub fn attributes(&mut self, attributes: &Object) {
        if attributes.contains_key("sources") {
            self.add("/attributes/sources", "Sources are written by plugins, not through the card.");
        }
        for (name, value) in attributes.iter() {
            if let Err(broken) = source::check_member(value.get()) {
                return self.add("/attributes", broken.detail);
            }
            if name.contains('\0') {
                return self.add("/attributes", "The character U+0000 can't be stored.");
            }
        }
    }

    pub fn result(self) -> Result<(), CardError> {
        if self.found.is_empty() {
            return Ok(());
        }
        let are_limits = self.over_limits == self.found.len();
        let fields = self.found.into_iter().map(|(pointer, detail)| FieldError { pointer: pointer.to_owned(), detail });
        Err(if are_limits { CardError::SourceLimits(fields.collect()) } else { CardError::Fields(fields.collect()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(body: Value) -> Vec<String> {
        let card: NewCard = cardinal_base::input::exact_json(body.to_string().as_bytes()).unwrap();
        card.check().err().map(|e| e.fields().iter().map(|field| field.pointer.clone()).collect()).unwrap_or_default()
    }

    #[test]
    fn names_every_field_that_is_wrong() {
        assert!(check(json!({"title": "a", "sku": "b"})).is_empty());
        assert_eq!(
            check(json!({"title": " ", "sku": "x".repeat(121), "attributes": null})),
            ["/title", "/sku", "/attributes"]
        );
        assert_eq!(check(json!({"title": "a", "sku": "b", "attributes": {"sources": {}}})), ["/attributes/sources"]);
        assert_eq!(
            check(json!({"title": "a\u{0}", "sku": "b", "attributes": {"x": ["\u{0}"]}})),
            ["/title", "/attributes"]
        );
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels: usize| (1..levels).fold(json!(1), |inner, _| json!([inner]));
        let card = |levels: usize| json!({"title": "a", "sku": "b", "attributes": {"x": nested(levels)}});
        assert!(check(card(64)).is_empty());
        assert_eq!(check(card(65)), ["/attributes"]);
    }
}
