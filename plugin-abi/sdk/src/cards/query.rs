//! Which cards a plugin asks for.

use serde::Serialize;
use serde_json::Value;

/// Which cards [`list_cards`](crate::PluginContext::list_cards) returns: all of them, unless narrowed.
///
/// Filters are combined with *and*; setting one twice replaces it. Nothing is checked here: the host refuses a query
/// that it does not understand.
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

    /// Goes on where [`CardPage::next_cursor`] of the same query left off. With another query the cursor is refused;
    /// the limit may differ.
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
    ///
    /// [`CardPage::next_cursor`]: crate::CardPage::next_cursor
    #[must_use]
    pub fn cursor(self, cursor: &str) -> Self {
        self.with("cursor", cursor.into())
    }

    /// Sorts by `title`, `sku`, `created_at` or `updated_at`; with `-` before it, descending. It is `-created_at` when
    /// it is not set.
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

    /// Selects cards with this text in the title or the SKU, in any case. From three characters on it matches anywhere,
    /// a shorter one at the beginning. At most 200 characters.
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

    /// Sets any parameter of `GET /v1/admin/master-cards` by its name, for those that have no method here:
    /// `updated_since`, `deleted`, and those that came later than this SDK. `fields` makes cards that [`Card`] cannot
    /// be read from.
    ///
    /// ```
    /// use cardinal_plugin::{CardQuery, json, serde_json};
    ///
    /// let query = CardQuery::new().limit(20).with("updated_since", "2026-01-01T00:00:00Z".into());
    /// assert_eq!(serde_json::to_value(query)?, json!({ "limit": 20, "updated_since": "2026-01-01T00:00:00Z" }));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// ```
    ///
    /// [`Card`]: crate::Card
    #[must_use]
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.fields.insert(name.to_owned(), value);
        self
    }
}
