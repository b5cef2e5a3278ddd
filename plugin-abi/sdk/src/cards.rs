//! Cards as plugins see them, and users.
//!
//! All types here are read from the host's JSON. They are `#[non_exhaustive]`: a later host may say more, and a test makes
//! cards with `testing::test_card`.

use std::collections::BTreeMap;

use cardinal_plugin_abi::record::{self, attr};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{Error, Result};

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
    /// This is how plugins exchange data: a reader picks entries by their kind. An entry that is not shaped as a source is
    /// left out. The map is made anew by each call, so keep it when you need it twice.
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

/// An entry of a card's `attributes.sources`. The host has checked the kind and who wrote it, not the shape of the data.
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

/// Which cards [`list_cards`](crate::PluginContext::list_cards) returns: all of them, unless narrowed.
///
/// Filters are combined with *and*; setting one twice replaces it. Nothing is checked here: the host refuses a query that
/// it does not understand.
///
/// ```
/// use cardinal_plugin::{CardQuery, PluginContext, Router, block_on, json};
/// use cardinal_plugin::testing::{TestHost, test_card};
///
/// let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// host.add_card(test_card("Oak table", json!({ "status": "draft" })));
/// host.add_card(test_card("Oak chair", json!({})));
/// let drafts = CardQuery::new().text("oak").status("draft").missing_kind("supplier").sort("-updated_at").limit(50);
/// let page = block_on(host.context().list_cards(drafts)).unwrap();
/// assert_eq!(page.items.iter().map(|card| card.title.as_str()).collect::<Vec<_>>(), ["Oak table"]);
///
/// let refused = block_on(host.context().list_cards(CardQuery::new().limit(201))).unwrap_err();
/// assert_eq!(refused.code(), Some("invalid-request"));
/// ```
#[derive(Clone, Debug, Default, Serialize)]
pub struct CardQuery {
    #[serde(flatten)]
    fields: serde_json::Map<String, Value>,
}

impl CardQuery {
    /// Selects all cards that are not deleted, the newest first, 50 on a page.
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
    /// assert_eq!(page.items[0].title, "Lamp");
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of cards on a page: 1 to 200, 50 when it is not set. The host refuses any other number.
    ///
    /// ```
    /// use cardinal_plugin::CardQuery;
    ///
    /// # use cardinal_plugin::{json, testing::test_card};
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # ["Lamp", "Chair", "Table"].map(|title| host.add_card(test_card(title, json!({}))));
    /// # cardinal_plugin::block_on(async {
    /// let page = ctx.list_cards(CardQuery::new().limit(2)).await?;
    /// assert!(page.items.len() == 2 && page.next_cursor.is_some());
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn limit(self, limit: u32) -> Self {
        self.with("limit", limit.into())
    }

    /// Goes on where [`CardPage::next_cursor`] of the same query left off. With another query the cursor is refused; the
    /// limit may differ.
    ///
    /// ```
    /// use cardinal_plugin::CardQuery;
    ///
    /// # use cardinal_plugin::{json, testing::test_card};
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # ["Lamp", "Chair", "Table"].map(|title| host.add_card(test_card(title, json!({}))));
    /// # cardinal_plugin::block_on(async {
    /// let query = CardQuery::new().sort("title").limit(2);
    /// let first = ctx.list_cards(query.clone()).await?;
    /// let Some(cursor) = first.next_cursor else { return Ok(()) };
    /// let second = ctx.list_cards(query.cursor(&cursor)).await?;
    /// assert_eq!(second.items[0].title, "Table");
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn cursor(self, cursor: &str) -> Self {
        self.with("cursor", cursor.into())
    }

    /// Sorts by `title`, `sku`, `created_at` or `updated_at`; with `-` before it, descending. It is `-created_at` when it
    /// is not set.
    ///
    /// ```
    /// use cardinal_plugin::CardQuery;
    ///
    /// # use cardinal_plugin::{json, testing::test_card};
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # ["Lamp", "Chair", "Table"].map(|title| host.add_card(test_card(title, json!({}))));
    /// # cardinal_plugin::block_on(async {
    /// let page = ctx.list_cards(CardQuery::new().sort("-title")).await?;
    /// let titles: Vec<_> = page.items.iter().map(|card| card.title.as_str()).collect();
    /// assert_eq!(titles, ["Table", "Lamp", "Chair"]);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn sort(self, sort: &str) -> Self {
        self.with("sort", sort.into())
    }

    /// Selects cards with this text in the title or the SKU, in any case. From three characters on it matches anywhere, a
    /// shorter one at the beginning. At most 200 characters.
    ///
    /// ```
    /// use cardinal_plugin::CardQuery;
    ///
    /// # use cardinal_plugin::{json, testing::test_card};
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # ["Desk lamp", "Chair"].map(|title| host.add_card(test_card(title, json!({}))));
    /// # cardinal_plugin::block_on(async {
    /// let lamps = ctx.list_cards(CardQuery::new().text("LAMP")).await?;
    /// assert_eq!((lamps.items.len(), lamps.items[0].title.as_str()), (1, "Desk lamp"));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn text(self, q: &str) -> Self {
        self.with("q", q.into())
    }

    /// Selects cards with this status: `draft`, `active` or `archived`.
    ///
    /// ```
    /// use cardinal_plugin::{CardQuery, json, testing::test_card};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # cardinal_plugin::block_on(async {
    /// host.add_card(test_card("Lamp", json!({})));
    /// host.add_card(test_card("Chair", json!({ "status": "draft" })));
    /// let drafts = ctx.list_cards(CardQuery::new().status("draft")).await?;
    /// assert_eq!((drafts.items.len(), drafts.items[0].title.as_str()), (1, "Chair"));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn status(self, status: &str) -> Self {
        self.with("status", status.into())
    }

    /// Selects cards with at least one source of this kind.
    ///
    /// ```
    /// use cardinal_plugin::CardQuery;
    ///
    /// # use cardinal_plugin::{json, testing::test_card};
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # let sources = json!({ "shop:lamp": { "kind": "price", "data": {}, "plugin": "shop" } });
    /// # host.add_card(test_card("Lamp", json!({ "attributes": { "sources": sources } })));
    /// # host.add_card(test_card("Chair", json!({})));
    /// # cardinal_plugin::block_on(async {
    /// let priced = ctx.list_cards(CardQuery::new().kind("price")).await?;
    /// assert_eq!((priced.items.len(), priced.items[0].title.as_str()), (1, "Lamp"));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn kind(self, kind: &str) -> Self {
        self.with("kind", kind.into())
    }

    /// Selects cards without any source of this kind: the ones that an enricher has still to look at.
    ///
    /// ```
    /// use cardinal_plugin::CardQuery;
    ///
    /// # use cardinal_plugin::{json, testing::test_card};
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # let sources = json!({ "shop:lamp": { "kind": "price", "data": {}, "plugin": "shop" } });
    /// # host.add_card(test_card("Lamp", json!({ "attributes": { "sources": sources } })));
    /// # host.add_card(test_card("Chair", json!({})));
    /// # cardinal_plugin::block_on(async {
    /// let unpriced = ctx.list_cards(CardQuery::new().missing_kind("price").sort("created_at")).await?;
    /// assert_eq!((unpriced.items.len(), unpriced.items[0].title.as_str()), (1, "Chair"));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn missing_kind(self, kind: &str) -> Self {
        self.with("missing_kind", kind.into())
    }

    /// Selects cards with at least one source that this plugin wrote.
    ///
    /// ```
    /// use cardinal_plugin::CardQuery;
    ///
    /// # use cardinal_plugin::{json, testing::test_card};
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # let sources = json!({ "shop:lamp": { "kind": "price", "data": {}, "plugin": "shop" } });
    /// # host.add_card(test_card("Lamp", json!({ "attributes": { "sources": sources } })));
    /// # host.add_card(test_card("Chair", json!({})));
    /// # cardinal_plugin::block_on(async {
    /// let of_the_shop = ctx.list_cards(CardQuery::new().plugin("shop")).await?;
    /// assert_eq!((of_the_shop.items.len(), of_the_shop.items[0].title.as_str()), (1, "Lamp"));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn plugin(self, plugin: &str) -> Self {
        self.with("plugin", plugin.into())
    }

    /// Sets any parameter of `GET /v1/admin/master-cards` by its name, for those that have no method here: `updated_since`,
    /// `deleted`, and those that came later than this SDK. `fields` makes cards that [`Card`] cannot be read from.
    ///
    /// ```
    /// use cardinal_plugin::{CardQuery, json, serde_json};
    ///
    /// let query = CardQuery::new().limit(20).with("updated_since", "2026-01-01T00:00:00Z".into());
    /// assert_eq!(serde_json::to_value(query)?, json!({ "limit": 20, "updated_since": "2026-01-01T00:00:00Z" }));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// ```
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.fields.insert(name.to_owned(), value);
        self
    }
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

/// A user: the one who calls ([`PluginContext::user`](crate::PluginContext::user)), or the plugin itself
/// ([`service_user`](crate::PluginContext::service_user)).
///
/// In tests `testing::test_user` makes one.
///
/// ```
/// use cardinal_plugin::testing::{TestRequest, test_user};
///
/// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
/// # let host = TestHost::new(r#"{ "name": "notes", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// let ctx = host.call_context(TestRequest::get("/").user(test_user("Ada", &["cards:read"])));
/// let user = ctx.user()?;
/// assert_eq!((user.name.as_str(), user.scopes), ("Ada", vec!["cards:read".to_owned()]));
/// # Ok::<(), cardinal_plugin::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct User {
    /// The id: what `enrich_card` and `read_card` take as `user_id`. For an API key it is that of the key's owner.
    pub id: Uuid,
    /// The name, for people. It may change, and is no key.
    #[serde(default)]
    pub name: String,
    /// How the user was authenticated.
    #[serde(default)]
    pub kind: UserKind,
    /// What the call may do: `cards:read`, `plugin:supplier:write`, `*`, ... Empty for the service user.
    #[serde(default)]
    pub scopes: Vec<String>,
}

/// How a user was authenticated.
///
/// The host may add kinds: treat [`Unknown`](Self::Unknown) as a user about whom only the scopes are known.
///
/// ```
/// use cardinal_plugin::{User, UserKind};
///
/// /// Programs get the numbers, people a sentence.
/// fn wants_numbers(user: &User) -> bool {
///     matches!(user.kind, UserKind::ApiKey | UserKind::Plugin)
/// }
/// assert!(!wants_numbers(&cardinal_plugin::testing::test_user("Ada", &[])));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UserKind {
    /// A person who logged in.
    User,
    /// A program with an API key; the id is its owner's.
    ApiKey,
    /// A person or program that an OpenID Connect provider vouches for.
    Oidc,
    /// The plugin itself.
    Plugin,
    /// A command on the host's own machine; the id is that of an owner.
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
