//! The cards of a test, and what happens to them.

use serde_json::Value;
use uuid::Uuid;

use super::{
    TestHost,
    fake_host::{lock, now},
};
use crate::Card;

impl TestHost {
    /// Adds a card and returns its id, or replaces the card of its id. [`test_card`] makes one.
    ///
    /// Followers of card events hear of it. The plugin's database has it from its next connection on.
    ///
    /// ```
    /// use cardinal_plugin::{json, testing::test_card};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let lamp = host.add_card(test_card("Lamp", json!({ "sku": "L1" })));
    /// assert_eq!(host.card(lamp).sku, "L1");
    /// ```
    ///
    /// # Panics
    /// When `card` has no id.
    pub fn add_card(&self, card: Value) -> Uuid {
        let Some(id) = card["id"].as_str().and_then(|id| id.parse().ok()) else { panic!("the card has no id: {card}") };
        let what = match lock(&self.fake.cards).insert(id, card.clone()) {
            Some(_) => "card.updated",
            None => "card.created",
        };
        self.fake.raise(what, &card, &Value::Null);
        id
    }

    /// Returns a card as it is now.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Router, block_on, json, testing::{SERVICE_USER, TestHost, test_card}};
    ///
    /// let manifest = r#"{ "name": "prices", "version": "1.0.0", "provides_kinds": ["price"] }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new());
    /// let lamp = host.add_card(test_card("Lamp", json!({})));
    /// let price = json!({ "cents": 990 });
    /// block_on(host.context().enrich_card(lamp, SERVICE_USER, "prices:shop", "price", &price)).unwrap();
    /// assert_eq!((host.card(lamp).version, &host.card(lamp).sources()["prices:shop"].data), (2, &price));
    /// ```
    ///
    /// # Panics
    /// When there is none of this id.
    pub fn card(&self, id: Uuid) -> Card {
        let card = lock(&self.fake.cards).get(&id).cloned().unwrap_or_default();
        match serde_json::from_value(card) {
            Ok(card) => card,
            Err(error) => panic!("there is no card {id}, or not a whole one: {error}"),
        }
    }

    /// Tells followers of card events about an action on so many cards that they are not named ([`CardChange::Bulk`]).
    /// No card is changed.
    ///
    /// ```
    /// use cardinal_plugin::testing::{TestHost, test_card};
    /// use cardinal_plugin::{CardChange, PluginContext, Router, block_on, json};
    ///
    /// let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let read = |after| block_on(host.context().card_events(after, 100)).unwrap();
    /// let begin = read(None).cursor;
    /// host.raise_bulk_event("archive", 1_200);
    /// let page = read(Some(begin));
    /// assert_eq!((page.items[0].what, &page.items[0].rest["cards"]), (CardChange::Bulk, &json!(1_200)));
    ///
    /// host.add_card(test_card("Lamp", json!({})));
    /// host.forget_card_events();
    /// assert!(read(Some(page.cursor)).restart, "what came since then is not kept any more");
    /// ```
    ///
    /// [`CardChange::Bulk`]: crate::CardChange::Bulk
    pub fn raise_bulk_event(&self, action: &str, cards: usize) {
        self.fake.raise_bulk(action, cards);
    }

    /// Forgets what has happened to cards so far, as a host does after a week: a follower is told to look at all of
    /// them ([`CardEvents::restart`](crate::CardEvents::restart)).
    ///
    /// ```
    /// use cardinal_plugin::{block_on, json, testing::test_card};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "prices", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// let begin = block_on(ctx.card_events(None, 100)).unwrap().cursor;
    /// host.add_card(test_card("Lamp", json!({})));
    /// host.forget_card_events();
    /// assert!(block_on(ctx.card_events(Some(begin), 100)).unwrap().restart);
    /// ```
    pub fn forget_card_events(&self) {
        self.fake.forget_events();
    }
}

/// Makes a card for tests, as [`TestHost::add_card`](super::TestHost::add_card) takes it: with this title, an id and an
/// SKU of its own, `active`, version 1, without sources.
///
/// Fields of `with` replace these; `id`, `sku`, `status`, `attributes`, `version` are those of [`Card`](crate::Card).
///
/// ```
/// use cardinal_plugin::{json, testing::test_card};
///
/// let lamp = test_card("Lamp", json!({ "sku": "L1", "attributes": { "sources": {} } }));
/// assert_eq!((&lamp["sku"], &lamp["status"]), (&json!("L1"), &json!("active")));
/// ```
pub fn test_card(title: &str, with: Value) -> Value {
    let (id, now) = (Uuid::new_v4(), now());
    let mut card = serde_json::json!({
        "id": id, "title": title, "sku": format!("TEST-{id}"), "status": "active", "attributes": {}, "version": 1,
        "created_at": now, "updated_at": now,
    });
    for (name, value) in with.as_object().cloned().unwrap_or_default() {
        card[name] = value;
    }
    if !card["attributes"]["sources"].is_object() {
        card["attributes"]["sources"] = serde_json::json!({});
    }
    card
}
