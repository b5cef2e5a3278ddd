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
    /// Writes one source of a card: `attributes.sources[source_key] = {kind, data, ...}`. Gives the
    /// card's new version. Concurrent writes to one card never lose each other.
    ///
    /// `user_id` is the caller's ([`user`](Self::user)), or the service user's outside a call.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result, Uuid, json};
    ///
    /// async fn weigh(ctx: &PluginContext, card: Uuid, grams: u32) -> Result<i64> {
    ///     ctx.enrich_card(card, ctx.user()?.id, "scales:weight", "weight", &json!({ "grams": grams })).await
    /// }
    /// ```
    ///
    /// # Errors
    /// The host refuses a `source_key` that is not `<plugin name>:<suffix>`, a `kind` that the
    /// manifest does not declare in `provides_kinds`, an unknown card, data over the limits
    /// (256 KiB, 256 sources a card), another user's id, and a call without the right to write.
    /// These errors can be passed on with `?`: the client gets the fitting status.
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

    /// Reads a card.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result, Uuid};
    ///
    /// /// The pictures that any plugin has found: known by the kind of their source, not by who wrote it.
    /// async fn pictures(ctx: &PluginContext, card: Uuid) -> Result<usize> {
    ///     let card = ctx.read_card(card, ctx.user()?.id).await?;
    ///     let lists = card.sources_of("supplier").into_values().map(|source| source.data["images"].as_array().map(Vec::len));
    ///     Ok(lists.flatten().sum())
    /// }
    /// ```
    ///
    /// # Errors
    /// When there is no such card ([`Error::is_not_found`]), or the call may not read cards.
    pub fn read_card(&self, card_id: Uuid, user_id: Uuid) -> impl Future<Output = Result<Card>> + Send + use<> {
        let answer = self.card_json(card_id, user_id);
        async { parse(Ok(answer.await?), "card") }
    }

    /// The card as JSON text, with every digit of its numbers: the `Value` of [`Card`] rounds those beyond 64 bits or a
    /// double. `serde_json::value::RawValue` reads parts of it and is taken by [`enrich_card`](Self::enrich_card) as it is.
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

    /// A page of cards that match `query`, which the service user reads outside a call.
    ///
    /// ```
    /// use cardinal_plugin::{CardQuery, PluginContext, Result};
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
    /// ```
    ///
    /// # Errors
    /// A query that the list of the API would refuse, with what is wrong; a cursor of another query; a call that may not
    /// read cards.
    pub fn list_cards(&self, query: CardQuery) -> impl Future<Output = Result<CardPage>> + Send + use<> {
        let answer = serde_json::to_vec(&query).map(|query| {
            let list = self.core.host.list_cards();
            list(self.core.ctx, self.call_id(), Slice::new(&query))
        });
        async { parse(answer?.await, "page of cards") }
    }

    /// Removes one of the plugin's own sources of a card. Gives the card's new version.
    ///
    /// ```
    /// use cardinal_plugin::{PluginContext, Result, Uuid};
    ///
    /// /// Whether there was one.
    /// async fn forget(ctx: &PluginContext, card: Uuid) -> Result<bool> {
    ///     match ctx.remove_source(card, ctx.user()?.id, "scales:weight").await {
    ///         Ok(_) => Ok(true),
    ///         Err(error) if error.is_not_found() => Ok(false),
    ///         Err(error) => Err(error),
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// When there is no such card or source ([`Error::is_not_found`]), for a source of another plugin, and for a call without
    /// the right to write.
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
                PendingRequest::Asked(answer) => answer.map(|outcome| outcome.map_err(Error::of_host)).await,
                PendingRequest::Waiting(ctx, ask) => {
                    same_user(ctx.service_user().await?.id, user)?;
                    let answer = ask(&ctx);
                    answer.await.map_err(Error::of_host)
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
    version.map_err(|_| Error::of_code(codes::INTERNAL, "the host's version of the card is no version"))
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
