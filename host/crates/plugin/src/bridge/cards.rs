//! The doors to the catalogue.

use cardinal_plugin_abi::{Bytes, CallId, CtxId, Fut, Slice, host::Id};
use uuid::Uuid;

use super::{
    door::{begin, call_of, text},
    waits::Waiting,
};
use crate::context::Source;

pub(super) extern "C" fn read_card(ctx: CtxId, call: CallId, card: Id, user: Id) -> Fut<Bytes> {
    begin(ctx, |scope| {
        let (scope, call) = (scope.clone(), call_of(ctx, call)?);
        let (card, user) = (Uuid::from_bytes(card.bytes), Uuid::from_bytes(user.bytes));
        let waiting = Waiting::start(call.as_ref());
        Ok(async move {
            let _waiting = waiting;
            let caller = call.as_ref().map(|call| &*call.caller);
            Ok(Bytes::from(scope.context.read_card(caller, card, user).await?))
        })
    })
}

pub(super) extern "C" fn list_cards(ctx: CtxId, call: CallId, user: Id, query: Slice<'_>) -> Fut<Bytes> {
    begin(ctx, |scope| {
        let (scope, call) = (scope.clone(), call_of(ctx, call)?);
        let (user, query) = (Uuid::from_bytes(user.bytes), text(query, "the query")?);
        let waiting = Waiting::start(call.as_ref());
        Ok(async move {
            let _waiting = waiting;
            let caller = call.as_ref().map(|call| &*call.caller);
            Ok(Bytes::from(scope.context.list_cards(caller, user, &query).await?))
        })
    })
}

pub(super) extern "C" fn enrich_card(
    ctx: CtxId,
    call: CallId,
    card: Id,
    user: Id,
    source_key: Slice<'_>,
    kind: Slice<'_>,
    data: Slice<'_>,
) -> Fut<u64> {
    begin(ctx, |scope| {
        let (scope, call) = (scope.clone(), call_of(ctx, call)?);
        let (card, user) = (Uuid::from_bytes(card.bytes), Uuid::from_bytes(user.bytes));
        let (key, kind, data) = (text(source_key, "source_key")?, text(kind, "kind")?, text(data, "data")?);
        let waiting = Waiting::start(call.as_ref());
        Ok(async move {
            let _waiting = waiting;
            let caller = call.as_ref().map(|call| &*call.caller);
            scope.context.enrich_card(caller, Source { card, user, key: &key, kind: &kind, data: &data }).await
        })
    })
}

pub(super) extern "C" fn remove_source(
    ctx: CtxId,
    call: CallId,
    card: Id,
    user: Id,
    source_key: Slice<'_>,
) -> Fut<u64> {
    begin(ctx, |scope| {
        let (scope, call) = (scope.clone(), call_of(ctx, call)?);
        let (card, user) = (Uuid::from_bytes(card.bytes), Uuid::from_bytes(user.bytes));
        let key = text(source_key, "source_key")?;
        let waiting = Waiting::start(call.as_ref());
        Ok(async move {
            let _waiting = waiting;
            let caller = call.as_ref().map(|call| &*call.caller);
            scope.context.remove_source(caller, card, user, &key).await
        })
    })
}
