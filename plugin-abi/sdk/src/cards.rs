//! Cards as plugins see them, and users.

use std::collections::BTreeMap;

use cardinal_plugin_abi::record::{self, attr};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{Error, Result};

/// A master card.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Card {
    /// Its id.
    pub id: Uuid,
    /// Its title.
    #[serde(default)]
    pub title: String,
    /// Its stock-keeping unit, unique among cards.
    #[serde(default)]
    pub sku: String,
    /// `draft`, `active` or `archived`.
    #[serde(default)]
    pub status: String,
    /// Everything else, `sources` included.
    #[serde(default)]
    pub attributes: Value,
    /// One more with each change.
    #[serde(default)]
    pub version: i64,
    /// When it was made.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When it was last changed.
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}

impl Card {
    /// What plugins have written to it, by source key. This is how plugins exchange data: a reader
    /// picks entries by their kind.
    pub fn sources(&self) -> BTreeMap<String, Source> {
        let Some(Value::Object(sources)) = self.attributes.get("sources") else { return BTreeMap::new() };
        let source = |(key, value): (&String, &Value)| Some((key.clone(), Source::deserialize(value).ok()?));
        sources.iter().filter_map(source).collect()
    }

    /// The sources of one kind.
    pub fn sources_of(&self, kind: &str) -> BTreeMap<String, Source> {
        self.sources().into_iter().filter(|(_, source)| source.kind == kind).collect()
    }
}

/// An entry of a card's `attributes.sources`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Source {
    /// The kind of data, as its plugin declared it.
    pub kind: String,
    /// The data, shaped as the kind says.
    pub data: Value,
    /// The plugin that wrote it.
    #[serde(default)]
    pub plugin: Option<String>,
    /// That plugin's version.
    #[serde(default)]
    pub plugin_version: Option<String>,
    /// When, RFC 3339.
    #[serde(default)]
    pub updated_at: Option<String>,
}

/// Which cards [`list_cards`](crate::PluginContext::list_cards) gives: all, unless narrowed.
///
/// ```
/// use cardinal_plugin::CardQuery;
///
/// let query = CardQuery::new().kind("supplier").sort("-updated_at").limit(50);
/// ```
#[derive(Clone, Debug, Default, Serialize)]
pub struct CardQuery {
    #[serde(flatten)]
    fields: serde_json::Map<String, Value>,
}

impl CardQuery {
    /// All cards, the host's order and page size.
    pub fn new() -> Self {
        Self::default()
    }

    /// At most so many, 1 to 200.
    #[must_use]
    pub fn limit(self, limit: u32) -> Self {
        self.with("limit", limit.into())
    }

    /// From where [`CardPage::next_cursor`] of the same query left off.
    #[must_use]
    pub fn cursor(self, cursor: &str) -> Self {
        self.with("cursor", cursor.into())
    }

    /// `title`, `sku`, `created_at` or `updated_at`; with `-` before it, descending.
    #[must_use]
    pub fn sort(self, sort: &str) -> Self {
        self.with("sort", sort.into())
    }

    /// Text in title or SKU.
    #[must_use]
    pub fn text(self, q: &str) -> Self {
        self.with("q", q.into())
    }

    /// `draft`, `active` or `archived`.
    #[must_use]
    pub fn status(self, status: &str) -> Self {
        self.with("status", status.into())
    }

    /// With a source of this kind.
    #[must_use]
    pub fn kind(self, kind: &str) -> Self {
        self.with("kind", kind.into())
    }

    /// Without a source of this kind.
    #[must_use]
    pub fn missing_kind(self, kind: &str) -> Self {
        self.with("missing_kind", kind.into())
    }

    /// With a source of this plugin.
    #[must_use]
    pub fn plugin(self, plugin: &str) -> Self {
        self.with("plugin", plugin.into())
    }

    /// Any parameter of the host's list by its name, for those that came later than this SDK.
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.fields.insert(name.to_owned(), value);
        self
    }
}

/// A page of cards.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CardPage {
    /// The cards.
    pub items: Vec<Card>,
    /// Where the next page begins; none at the end.
    #[serde(default)]
    pub next_cursor: Option<String>,
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct User {
    /// The id: what `enrich_card` and `read_card` take as `user_id`.
    pub id: Uuid,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// How they came in.
    #[serde(default)]
    pub kind: UserKind,
    /// What the call may do: `cards:read`, `plugin:supplier:write`, `*`, ...
    #[serde(default)]
    pub scopes: Vec<String>,
}

/// How a user came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UserKind {
    /// A person who logged in.
    User,
    /// A program with an API key; the id is its owner's.
    ApiKey,
    /// Somebody whom the identity provider vouches for.
    Oidc,
    /// The plugin itself.
    Plugin,
    /// A command on the host's own machine; the id is an owner's.
    Local,
    /// A kind that this SDK does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

impl User {
    /// The caller in a request's head; the text says what is wrong with it.
    pub(crate) fn read(head: &[u8]) -> Result<Self, String> {
        let text = |number| std::str::from_utf8(record::field(head, number)).map_err(|error| error.to_string());
        let id = text(attr::USER_ID)?.parse().map_err(|_| "the call has no user".to_owned())?;
        let kind = UserKind::deserialize(Value::from(text(attr::USER_KIND)?)).unwrap_or_default();
        let scopes = text(attr::SCOPES)?.split_ascii_whitespace().map(str::to_owned).collect();
        Ok(Self { id, name: text(attr::USER_NAME)?.to_owned(), kind, scopes })
    }

    pub(crate) fn parse(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).map_err(|error| Error::internal(format!("the host's user: {error}")))
    }
}
