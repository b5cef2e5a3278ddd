//! Tools that write cards, in the caller's name and by the rules of the admin API.

use rmcp::model::JsonObject;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use uuid::Uuid;

use super::{
    Answer, Cards, Pin, card_id, parsed,
    view::{Members, One, link},
};
use crate::http::error::{ApiError, ApiResult};
use crate::mcp::Visit;
use cardinal_base::{exact, input};
use cardinal_cards::{
    card::{Card, CardContent, NewCard},
    patch::{CardPatch, Change},
};
use cardinal_store::{
    cards::{self, Precondition},
    catalogue::Catalogue,
    error::StoreError,
};

/// Refuses fields that no card may have.
pub(super) fn check_new(visit: &Visit, arguments: &JsonObject) -> ApiResult<()> {
    new_card(visit, arguments).map(drop)
}

pub(super) async fn create(cards: &Cards, visit: &Visit, arguments: JsonObject) -> ApiResult<Answer> {
    let fields = new_card(visit, &arguments)?;
    let card = cards::insert(&cards.pool, Uuid::now_v7(), fields, &visit.caller.actor()).await?;
    written(cards, &card).await
}

fn new_card(visit: &Visit, arguments: &JsonObject) -> ApiResult<CardContent> {
    Ok(exact::<NewCard>(&as_sent(visit, arguments)?)?.check()?)
}

#[derive(Deserialize)]
struct Target {
    id: String,
    version: i64,
}

/// What `cards_update` is asked to do.
struct Update {
    id: Uuid,
    precondition: Precondition,
    /// As it was sent, without the members that are no fields of a card.
    sent: Box<RawValue>,
    change: Change,
}

impl Update {
    fn read(visit: &Visit, arguments: JsonObject) -> ApiResult<Self> {
        let mut sent = as_sent(visit, &arguments)?;
        let target: Target = serde_json::from_value(Value::Object(arguments)).map_err(ApiError::internal)?;
        sent.remove("id");
        sent.remove("version");
        let change = exact::<CardPatch>(&sent)?.check()?;
        let precondition = Precondition::Versions(vec![target.version]);
        Ok(Self { id: card_id(&target.id)?, precondition, sent: raw(&sent)?, change })
    }
}

/// Refuses fields that no card may have, a card that is not there, and one that is at another version.
pub(super) async fn check_update(cards: &Cards, visit: &Visit, arguments: &JsonObject) -> ApiResult<()> {
    let update = Update::read(visit, arguments.clone())?;
    let card = cards.catalogue.card(update.id).await?;
    Ok(update.precondition.check(card.version)?)
}

/// The version that a person is shown.
pub(super) async fn pin_update(catalogue: &Catalogue, arguments: &JsonObject) -> ApiResult<Pin> {
    let wanted: Target = serde_json::from_value(Value::Object(arguments.clone())).map_err(ApiError::internal)?;
    Ok(Pin::Version(catalogue.card(card_id(&wanted.id)?).await?.version))
}

pub(super) async fn update(cards: &Cards, visit: &Visit, arguments: JsonObject, pin: Option<Pin>) -> ApiResult<Answer> {
    let Update { id, precondition, sent, change } = Update::read(visit, arguments)?;
    let updated = cards::update(&cards.pool, id, &change, &sent, &precondition, &visit.caller.actor()).await;
    match updated {
        Err(StoreError::VersionMismatch { .. }) if pin.is_some() => Ok(Answer::Outdated),
        updated => written(cards, &updated?).await,
    }
}

#[derive(Deserialize)]
struct RestoreArguments {
    id: String,
    version: Option<i64>,
    current_version: Option<i64>,
}

impl RestoreArguments {
    /// The version that the card is at.
    async fn current(&self, catalogue: &Catalogue) -> ApiResult<i64> {
        let id = card_id(&self.id)?;
        if self.version.is_some() {
            return Ok(catalogue.card(id).await?.version);
        }
        let card = catalogue.deleted_card(id).await?;
        Ok(card.ok_or_else(|| ApiError::not_found("deleted card"))?.version)
    }
}

/// Refuses a card that is not there, and one that is at another version.
pub(super) async fn check_restore(cards: &Cards, arguments: &JsonObject) -> ApiResult<()> {
    let wanted: RestoreArguments = parsed(arguments.clone())?;
    Ok(precondition(wanted.current_version).check(wanted.current(&cards.catalogue).await?)?)
}

/// The version that a person is shown.
pub(super) async fn pin_restore(catalogue: &Catalogue, arguments: &JsonObject) -> ApiResult<Pin> {
    let wanted: RestoreArguments = parsed(arguments.clone())?;
    Ok(Pin::Version(wanted.current(catalogue).await?))
}

pub(super) async fn restore(
    cards: &Cards,
    visit: &Visit,
    arguments: JsonObject,
    pin: Option<Pin>,
) -> ApiResult<Answer> {
    let wanted: RestoreArguments = parsed(arguments)?;
    let id = card_id(&wanted.id)?;
    let pinned = if let Some(Pin::Version(version)) = pin { Some(version) } else { None };
    let precondition = precondition(wanted.current_version.or(pinned));
    let actor = visit.caller.actor();
    let restored = match wanted.version {
        Some(version) => cards::restore_version(&cards.pool, id, version, &precondition, &actor).await,
        None => cards::restore(&cards.pool, id, &precondition, &actor).await,
    };
    match restored {
        Err(StoreError::VersionMismatch { .. }) if pinned.is_some() => Ok(Answer::Outdated),
        restored => written(cards, &restored?).await,
    }
}

fn precondition(version: Option<i64>) -> Precondition {
    version.map_or(Precondition::None, |version| Precondition::Versions(vec![version]))
}

/// The arguments with every digit that was sent.
fn as_sent(visit: &Visit, arguments: &JsonObject) -> ApiResult<exact::Object> {
    match &visit.exact_arguments {
        Some(bytes) => serde_json::from_slice(bytes).map_err(ApiError::internal),
        None => exact::Object::parse(&serde_json::to_string(arguments).map_err(ApiError::internal)?)
            .map_err(ApiError::internal),
    }
}

fn raw(object: &exact::Object) -> ApiResult<Box<RawValue>> {
    object.to_raw().map_err(ApiError::internal)
}

fn exact<T: DeserializeOwned>(object: &exact::Object) -> ApiResult<T> {
    Ok(input::exact_json(raw(object)?.get().as_bytes())?)
}

async fn written(cards: &Cards, card: &Card) -> ApiResult<Answer> {
    let kinds = cards.catalogue.kinds(&[card.id]).await?;
    Answer::new(&One { item: Members::written().show(card, &kinds), note: None }, vec![link(card)])
}
