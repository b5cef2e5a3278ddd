//! Host functions on cards. In a call they act for its caller, otherwise for the plugin's own user.

use std::sync::Arc;

use cardinal_identity::auth::caller::Caller;
use cardinal_plugin_abi::{Answer, Bytes, CallId, CtxId, Fut, Slice, host::Id};
use uuid::Uuid;

use super::{
    call::{CallScope, Waiting},
    host_fn::{begin, find_call, text},
    scope::Scope,
};
use crate::{
    context::{PluginContext, Source},
    fault::Fault,
};

pub(super) extern "C" fn read_card(ctx: CtxId, call: CallId, card: Id) -> Fut<Bytes> {
    begin(ctx, |scope| {
        let (acting, card) = (CardCall::new(scope, find_call(ctx, call)?), Uuid::from_bytes(card.bytes));
        Ok(async move { Ok(Bytes::from(acting.context().read_card(acting.caller(), card).await?)) })
    })
}

pub(super) extern "C" fn list_cards(ctx: CtxId, call: CallId, query: Slice<'_>) -> Fut<Bytes> {
    begin(ctx, |scope| {
        let (acting, query) = (CardCall::new(scope, find_call(ctx, call)?), text(query, "the query")?);
        Ok(async move { Ok(Bytes::from(acting.context().list_cards(acting.caller(), &query).await?)) })
    })
}

/// No [`CardCall`], whose time counts as the database's: this waits for an event.
pub(super) extern "C" fn card_events(ctx: CtxId, call: CallId, query: Slice<'_>) -> Fut<Bytes> {
    begin(ctx, |scope| {
        let (scope, call, query) = (Arc::clone(scope), find_call(ctx, call)?, text(query, "the query")?);
        Ok(async move {
            let caller = call.as_ref().map(|call| &*call.caller);
            Ok(Bytes::from(scope.context.card_events(caller, &query).await?))
        })
    })
}

pub(super) extern "C" fn enrich_card(
    ctx: CtxId,
    call: CallId,
    card: Id,
    source_key: Slice<'_>,
    kind: Slice<'_>,
    data: Slice<'_>,
) -> Fut<Answer> {
    begin(ctx, |scope| {
        let (acting, card) = (CardCall::new(scope, find_call(ctx, call)?), Uuid::from_bytes(card.bytes));
        let (key, kind, data) = (text(source_key, "source_key")?, text(kind, "kind")?, text(data, "data")?);
        Ok(async move {
            let source = Source { card, key: &key, kind: &kind, data: &data };
            let caller = acting.current_caller().await?;
            acting.context().enrich_card(caller.as_deref(), source).await.map(Answer::from)
        })
    })
}

pub(super) extern "C" fn remove_source(ctx: CtxId, call: CallId, card: Id, source_key: Slice<'_>) -> Fut<Answer> {
    begin(ctx, |scope| {
        let (acting, card) = (CardCall::new(scope, find_call(ctx, call)?), Uuid::from_bytes(card.bytes));
        let key = text(source_key, "source_key")?;
        Ok(async move {
            let caller = acting.current_caller().await?;
            acting.context().remove_source(caller.as_deref(), card, &key).await.map(Answer::from)
        })
    })
}

/// Who asks; a call waits for the database while this lives.
struct CardCall {
    scope: Arc<Scope>,
    call: Option<Arc<CallScope>>,
    _waiting: Option<Waiting>,
}

impl CardCall {
    fn new(scope: &Arc<Scope>, call: Option<Arc<CallScope>>) -> Self {
        let waiting = Waiting::start(call.as_ref());
        Self { scope: Arc::clone(scope), call, _waiting: waiting }
    }

    fn context(&self) -> &PluginContext {
        &self.scope.context
    }

    /// Who may write by now; `None`: the plugin itself.
    async fn current_caller(&self) -> Result<Option<Arc<Caller>>, Fault> {
        match &self.call {
            Some(call) => Ok(Some(call.current_caller().await?)),
            None => Ok(None),
        }
    }

    /// `None`: the plugin itself.
    fn caller(&self) -> Option<&Caller> {
        self.call.as_ref().map(|call| &*call.caller)
    }
}
