//! Cards as plugins see them.
//!
//! All types here are read from the host's JSON. They are `#[non_exhaustive]`: a later host may say more, and a test
//! makes cards with `testing::test_card`.

mod query;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

pub use self::query::CardQuery;

/// A master card, as [`PluginContext::read_card`](crate::PluginContext::read_card) and
/// [`list_cards`](crate::PluginContext::list_cards) give it.
///
/// It is a copy of the card at one `version`. Nothing is written by changing it: a plugin writes sources with
/// [`enrich_card`](crate::PluginContext::enrich_card), and never another part of a card.
///
/// ```
/// use cardinal_plugin::{Card, json, serde_json};
///
/// let card: Card = serde_json::from_value(json!({
///     "id": "0190d3a0-0000-7000-8000-000000000001", "title": "Lamp", "sku": "L1", "status": "active", "version": 3,
///     "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-02T00:00:00Z",
///     "attributes": { "colour": "red", "sources": {
///         "supplier:shop": { "kind": "supplier", "data": { "price": "9.90" }, "plugin": "supplier" },
///         "notes:all": { "kind": "note", "data": { "count": 2 }, "plugin": "notes" },
///     } },
/// }))?;
/// assert_eq!((card.title.as_str(), &card.attributes["colour"]), ("Lamp", &json!("red")));
/// assert_eq!(card.sources().len(), 2);
/// assert_eq!(card.sources_of("note")["notes:all"].data["count"], 2);
/// # Ok::<(), cardinal_plugin::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Card {
    /// The id, which a card keeps for ever.
    pub id: Uuid,
    /// The title: at most 500 characters.
    #[serde(default)]
    pub title: String,
    /// The stock-keeping unit, unique among cards: at most 120 characters.
    #[serde(default)]
    pub sku: String,
    /// `draft`, `active` or `archived`.
    #[serde(default)]
    pub status: String,
    /// A JSON object with everything else, `sources` included. Numbers beyond 64 bits or a double are rounded;
    /// [`read_card_json`](crate::PluginContext::read_card_json) has every digit.
    #[serde(default)]
    pub attributes: Value,
    /// The version: 1 for a new card, and one more with each change of the card or of its sources.
    #[serde(default)]
    pub version: i64,
    /// When the card was created, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When the card or one of its sources was last changed, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}

impl Card {
    /// Returns what plugins have written to the card, by source key (`<plugin>:<suffix>`).
    ///
    /// This is how plugins exchange data: a reader picks entries by their kind. An entry that is not shaped as a source
    /// is left out. The map is made anew by each call, so keep it when you need it twice.
    ///
    /// ```
    /// use cardinal_plugin::{json, testing::test_card};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let price = json!({ "kind": "price", "data": { "eur": "9.90" }, "plugin": "shop" });
    /// let lamp = host.add_card(test_card("Lamp", json!({ "attributes": { "sources": { "shop:lamp": price } } })));
    /// let sources = host.card(lamp).sources();
    /// assert_eq!(sources["shop:lamp"].data["eur"], "9.90");
    /// ```
    pub fn sources(&self) -> BTreeMap<String, Source> {
        let Some(Value::Object(sources)) = self.attributes.get("sources") else { return BTreeMap::new() };
        let source = |(key, value): (&String, &Value)| Some((key.clone(), Source::deserialize(value).ok()?));
        sources.iter().filter_map(source).collect()
    }

    /// Returns the sources of one kind, by source key, whichever plugin wrote them.
    ///
    /// A manifest lists the kinds that its plugin reads in `reads_kinds`.
    ///
    /// ```
    /// use cardinal_plugin::Card;
    ///
    /// /// The best rating that any plugin has found.
    /// fn best_rating(card: &Card) -> Option<u64> {
    ///     card.sources_of("rating").into_values().filter_map(|source| source.data["stars"].as_u64()).max()
    /// }
    /// # use cardinal_plugin::{json, testing::test_card};
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let rating = |stars| json!({ "kind": "rating", "data": { "stars": stars } });
    /// # let note = json!({ "kind": "note", "data": {} });
    /// # let sources = json!({ "shop:lamp": rating(3), "forum:lamp": rating(5), "notes:all": note });
    /// # let lamp = host.add_card(test_card("Lamp", json!({ "attributes": { "sources": sources } })));
    /// # assert_eq!(best_rating(&host.card(lamp)), Some(5));
    /// ```
    pub fn sources_of(&self, kind: &str) -> BTreeMap<String, Source> {
        self.sources().into_iter().filter(|(_, source)| source.kind == kind).collect()
    }
}

/// An entry of a card's `attributes.sources`. The host has checked the kind and who wrote it, not the shape of the
/// data.
///
/// ```
/// use cardinal_plugin::{Source, json, serde_json};
///
/// let source: Source = serde_json::from_value(json!({
///     "kind": "price", "data": { "eur": "9.90" }, "plugin": "shop", "plugin_version": "1.4.0",
/// }))?;
/// assert_eq!((source.kind.as_str(), source.plugin.as_deref()), ("price", Some("shop")));
/// assert_eq!(source.data["eur"], "9.90");
/// # Ok::<(), cardinal_plugin::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Source {
    /// The kind of data, one of `provides_kinds` of the plugin that wrote it.
    pub kind: String,
    /// The data, shaped as the kind says: at most 256 KiB as JSON text.
    pub data: Value,
    /// The name of the plugin that wrote it.
    #[serde(default)]
    pub plugin: Option<String>,
    /// The version which that plugin had then.
    #[serde(default)]
    pub plugin_version: Option<String>,
    /// When it was written, RFC 3339 in UTC.
    #[serde(default)]
    pub updated_at: Option<String>,
}

/// A page of cards.
///
/// ```
/// use cardinal_plugin::{CardQuery, json, testing::test_card};
///
/// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
/// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// # let ctx = host.context();
/// # cardinal_plugin::block_on(async {
/// host.add_card(test_card("Lamp", json!({})));
/// let page = ctx.list_cards(CardQuery::new()).await?;
/// assert_eq!((page.items.len(), page.next_cursor), (1, None));
/// # Ok::<(), cardinal_plugin::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CardPage {
    /// The cards, in the order of the query.
    pub items: Vec<Card>,
    /// Where the next page begins, for [`CardQuery::cursor`]; `None` on the last page.
    #[serde(default)]
    pub next_cursor: Option<String>,
}
