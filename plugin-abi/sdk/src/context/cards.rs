//! Cards, for whom the context acts.

use std::future::Future;

use cardinal_plugin_abi::{
    Answer, Fut, Slice, error as codes,
    record::{self, attr},
};
use futures_util::FutureExt;
use serde::Serialize;
use uuid::Uuid;

use super::{PluginContext, parse};
use crate::{Card, CardPage, CardQuery, Error, Result};

impl PluginContext {
    /// Writes one source of a card: `attributes.sources[source_key] = {kind, data, ...}`. Returns the card's new
    /// version.
    ///
    /// A source that is there under the same key is replaced whole. Concurrent writes to one card never lose each
    /// other, whoever makes them, so there is nothing to read first and no version to compare. The write is committed
    /// when the future is ready; when the future is dropped before that, it may or may not have happened.
    ///
    /// `user_id` is the caller's ([`user`](Self::user)), or the service user's ([`service_user`](Self::service_user))
    /// outside a call. The card records it as the one who changed it.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result, Router, Uuid, block_on, json};
    /// use cardinal_plugin::testing::{TestHost, TestRequest, test_card, test_user};
    ///
    /// async fn weigh(ctx: &PluginContext, card: Uuid, grams: u32) -> Result<i64> {
    ///     ctx.enrich_card(card, ctx.user()?.id, "scales:weight", "weight", &json!({ "grams": grams })).await
    /// }
    ///
    /// let manifest = r#"{ "name": "scales", "version": "1.0.0", "provides_kinds": ["weight"] }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new());
    /// let card = host.add_card(test_card("Lamp", json!({})));
    /// let writer = host.call_context(TestRequest::post("/").user(test_user("Ada", &["cards:write"])));
    /// assert_eq!(block_on(weigh(&writer, card, 1_250)).unwrap(), 2);
    /// assert_eq!(host.card(card).sources()["scales:weight"].data["grams"], 1_250);
    ///
    /// let reader = host.call_context(TestRequest::post("/").user(test_user("Bo", &["cards:read"])));
    /// assert_eq!(block_on(weigh(&reader, card, 0)).unwrap_err().code(), Some("insufficient-scope"));
    /// ```
    ///
    /// # Errors
    /// Pass them on with `?`: the client gets the status and the code that belong to them.
    ///
    /// * 403 `insufficient-scope` for a call with neither `plugin:<name>:write` nor `cards:write`, and for another
    ///   user's id
    /// * 404 for a card that does not exist ([`Error::is_not_found`])
    /// * 422 `source-key-invalid` for a `source_key` that is not `<plugin name>:<suffix>`, or is longer than 200 bytes
    /// * 422 `kind-not-declared` for a `kind` that is not in `provides_kinds` of the manifest
    /// * 422 `source-limit-exceeded` for data over 256 KiB of JSON, or a card that has 256 sources
    /// * [`Error::is_retryable`] when too many writes wait for the card, or the host has no database at the moment
    pub fn enrich_card<D: Serialize + ?Sized>(
        &self,
        card_id: Uuid,
        user_id: Uuid,
        source_key: &str,
        kind: &str,
        data: &D,
    ) -> impl Future<Output = Result<i64>> + Send + use<D> {
        let data = serde_json::to_vec(data).map_err(Error::internal);
        let (key, kind) = (source_key.to_owned(), kind.to_owned());
        let answer = data.map(|data| {
            self.acting_for(user_id, move |ctx| {
                let (key, kind) = (Slice::text(&key), Slice::text(&kind));
                let enrich = ctx.core.host.enrich_card();
                enrich(ctx.core.ctx, ctx.call_id(), card_id.into_bytes().into(), key, kind, Slice::new(&data))
            })
        });
        async { version(answer?.await?) }
    }

    /// Reads a card as it is now, sources included.
    ///
    /// A card may have up to 8 MiB of JSON. `user_id` is the one who asks, as in [`enrich_card`](Self::enrich_card).
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result, Router, Uuid, block_on, json};
    /// use cardinal_plugin::testing::{TestHost, TestRequest, test_card};
    ///
    /// /// The pictures that any plugin has found: known by the kind of their source, not by who wrote it.
    /// async fn pictures(ctx: &PluginContext, card: Uuid) -> Result<usize> {
    ///     let card = ctx.read_card(card, ctx.user()?.id).await?;
    ///     let lists = card.sources_of("supplier").into_values().map(|source| source.data["images"].as_array().map(Vec::len));
    ///     Ok(lists.flatten().sum())
    /// }
    ///
    /// let host = TestHost::new(r#"{ "name": "gallery", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let source = json!({ "kind": "supplier", "data": { "images": ["a.jpg", "b.jpg"] } });
    /// let card = host.add_card(test_card("Lamp", json!({ "attributes": { "sources": { "supplier:shop": source } } })));
    /// let ctx = host.call_context(TestRequest::get("/"));
    /// assert_eq!(block_on(pictures(&ctx, card)).unwrap(), 2);
    /// assert!(block_on(pictures(&ctx, Uuid::nil())).unwrap_err().is_not_found());
    /// ```
    ///
    /// # Errors
    /// * [`Error::is_not_found`] when there is no such card, or it has been deleted
    /// * 403 `insufficient-scope` for a call with neither `plugin:<name>:read` nor `cards:read`, and for another user's
    ///   id
    /// * [`Error::is_retryable`] when the host has no database at the moment
    pub fn read_card(&self, card_id: Uuid, user_id: Uuid) -> impl Future<Output = Result<Card>> + Send + use<> {
        let answer = self.card_json(card_id, user_id);
        async { parse(Ok(answer.await?), "card") }
    }

    /// Reads a card as JSON text, with every digit of its numbers.
    ///
    /// The `Value` of [`Card`] rounds numbers beyond 64 bits or a double. `serde_json::value::RawValue` reads parts of
    /// the text as they are, and [`enrich_card`](Self::enrich_card) takes a `RawValue` as its data.
    ///
    /// ```
    /// use cardinal_plugin::serde_json::{self, value::RawValue};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Exact<'a> {
    ///     #[serde(borrow)]
    ///     attributes: &'a RawValue,
    /// }
    ///
    /// # use cardinal_plugin::{json, testing::test_card};
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// # cardinal_plugin::block_on(async {
    /// # let lamp = host.add_card(test_card("Lamp", json!({ "attributes": { "grams": 12.5 } })));
    /// let text = ctx.read_card_json(lamp, ctx.service_user().await?.id).await?;
    /// let exact: Exact = serde_json::from_str(&text)?;
    /// assert!(exact.attributes.get().contains(r#""grams":12.5"#));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of [`read_card`](Self::read_card).
    pub fn read_card_json(&self, card_id: Uuid, user_id: Uuid) -> impl Future<Output = Result<String>> + Send + use<> {
        let answer = self.card_json(card_id, user_id);
        async { String::from_utf8(answer.await?.get().to_vec()).map_err(Error::internal) }
    }

    fn card_json(
        &self,
        card_id: Uuid,
        user_id: Uuid,
    ) -> impl Future<Output = Result<cardinal_plugin_abi::Bytes>> + Send + use<> {
        self.acting_for(user_id, move |ctx| {
            let read = ctx.core.host.read_card();
            read(ctx.core.ctx, ctx.call_id(), card_id.into_bytes().into())
        })
    }

    /// Reads a page of the cards that match `query`.
    ///
    /// A page has 50 cards unless the query says otherwise, at most 200, and ends earlier where it has 16 MiB. Deleted
    /// cards are left out. A card whose sort value changes while the pages are read may come twice, or be missed.
    ///
    /// ```
    /// use cardinal_plugin::{CardQuery, PluginContext, Result, Router, block_on, json};
    /// use cardinal_plugin::testing::{TestHost, test_card};
    ///
    /// async fn count_active(ctx: &PluginContext) -> Result<usize> {
    ///     let (query, mut count) = (CardQuery::new().status("active").limit(200), 0);
    ///     let mut page = ctx.list_cards(query.clone()).await?;
    ///     loop {
    ///         count += page.items.len();
    ///         let Some(cursor) = &page.next_cursor else { return Ok(count) };
    ///         page = ctx.list_cards(query.clone().cursor(cursor)).await?;
    ///     }
    /// }
    ///
    /// let host = TestHost::new(r#"{ "name": "counter", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// (0..250).for_each(|n| drop(host.add_card(test_card(&format!("Lamp {n}"), json!({})))));
    /// host.add_card(test_card("Old lamp", json!({ "status": "archived" })));
    /// assert_eq!(block_on(count_active(&host.context())).unwrap(), 250);
    /// ```
    ///
    /// # Errors
    /// * the status and the code of `GET /v1/admin/master-cards` for a query that it would refuse, and for a cursor of
    ///   another query
    /// * 403 `insufficient-scope` for a call with neither `plugin:<name>:read` nor `cards:read`
    /// * [`Error::is_retryable`] when the host has no database at the moment
    pub fn list_cards(&self, query: CardQuery) -> impl Future<Output = Result<CardPage>> + Send + use<> {
        let answer = serde_json::to_vec(&query).map(|query| {
            let list = self.core.host.list_cards();
            list(self.core.ctx, self.call_id(), Slice::new(&query))
        });
        async { parse(answer?.await, "page of cards") }
    }

    /// Removes one of the plugin's own sources of a card. Returns the card's new version.
    ///
    /// `user_id` is the one who asks, as in [`enrich_card`](Self::enrich_card). Sources of a plugin stay when the
    /// plugin is removed, so a plugin that wants to leave nothing behind removes them itself.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result, Router, Uuid, block_on, json};
    /// use cardinal_plugin::testing::{TestHost, TestRequest, test_card};
    ///
    /// /// Removes the weight; returns whether there was one.
    /// async fn forget(ctx: &PluginContext, card: Uuid) -> Result<bool> {
    ///     match ctx.remove_source(card, ctx.user()?.id, "scales:weight").await {
    ///         Ok(_) => Ok(true),
    ///         Err(error) if error.is_not_found() => Ok(false),
    ///         Err(error) => Err(error),
    ///     }
    /// }
    ///
    /// let host = TestHost::new(r#"{ "name": "scales", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let weight = json!({ "kind": "weight", "data": { "grams": 1_250 } });
    /// let card = host.add_card(test_card("Lamp", json!({ "attributes": { "sources": { "scales:weight": weight } } })));
    /// let ctx = host.call_context(TestRequest::delete("/"));
    /// assert!(block_on(forget(&ctx, card)).unwrap());
    /// assert!(!block_on(forget(&ctx, card)).unwrap());
    /// ```
    ///
    /// # Errors
    /// * [`Error::is_not_found`] when there is no such card or source
    /// * 422 `source-key-invalid` for a source of another plugin
    /// * 403 `insufficient-scope` for a call with neither `plugin:<name>:write` nor `cards:write`, and for another
    ///   user's id
    pub fn remove_source(
        &self,
        card_id: Uuid,
        user_id: Uuid,
        source_key: &str,
    ) -> impl Future<Output = Result<i64>> + Send + use<> {
        let key = source_key.to_owned();
        let answer = self.acting_for(user_id, move |ctx| {
            let remove = ctx.core.host.remove_source();
            remove(ctx.core.ctx, ctx.call_id(), card_id.into_bytes().into(), Slice::text(&key))
        });
        async { version(answer.await?) }
    }

    /// Begins what `ask` asks of the host when `user` is whom the context acts for. The host itself takes no user: it
    /// goes by the call. That an author means another user than that is a mistake that should not pass unseen.
    fn acting_for<T, A>(&self, user: Uuid, ask: A) -> impl Future<Output = Result<T>> + Send + use<T, A>
    where
        T: Send + 'static,
        A: FnOnce(&Self) -> Fut<T> + Send,
    {
        let answer = match self.own_user() {
            Ok(Some(own)) => same_user(own, user).map(|()| PendingRequest::Asked(ask(self))),
            Ok(None) => Ok(PendingRequest::Waiting(self.clone(), ask)),
            Err(error) => Err(error),
        };
        async move {
            match answer? {
                PendingRequest::Asked(answer) => answer.map(|outcome| outcome.map_err(Error::from_host)).await,
                PendingRequest::Waiting(ctx, ask) => {
                    same_user(ctx.service_user().await?.id, user)?;
                    let answer = ask(&ctx);
                    answer.await.map_err(Error::from_host)
                }
            }
        }
    }

    /// Whom the context acts for; `None` when the plugin's own user was not asked for yet.
    fn own_user(&self) -> Result<Option<Uuid>> {
        let Some(call) = &self.call else { return Ok(self.core.service_user.get().copied()) };
        let id = std::str::from_utf8(record::field(&call.head, attr::USER_ID)).unwrap_or_default();
        id.parse().map(Some).map_err(|_| Error::internal("the call has no user"))
    }
}

enum PendingRequest<T, A> {
    Asked(Fut<T>),
    Waiting(PluginContext, A),
}

fn same_user(own: Uuid, asked: Uuid) -> Result<()> {
    if own == asked {
        return Ok(());
    }
    Err(Error::with_code(403, "insufficient-scope", "A plugin acts only for the user who calls it."))
}

/// The host's answer to a write as the card's version.
fn version(answer: Answer) -> Result<i64> {
    let version = i64::try_from(answer.number);
    version.map_err(|_| Error::from_code(codes::INTERNAL, "the host's version of the card is no version"))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn a_version_beyond_those_of_cards_is_an_error() {
        assert_eq!(version(4.into()).unwrap(), 4);
        assert!(version(u64::MAX.into()).is_err());
    }
}
