//! The table `master_cards`: reading, making, changing, deleting. Sources of cards are in `sources`.

pub mod bulk;
pub(crate) mod estimates;
pub mod expiry;
pub(crate) mod export;
pub mod history;
pub mod import;
pub mod list;
pub mod sources;

use deadpool_postgres::Transaction;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use tokio_postgres::{
    Row,
    types::{Json, ToSql},
};
use uuid::Uuid;

use sources::WriteOutcome;

use crate::{error::StoreError, reaper};
use cardinal_base::db_error;
use cardinal_cards::{
    card::{Card, CardContent},
    fields::Fields,
    patch::Change,
};
use cardinal_database::pool::Pool;

pub(crate) const COLUMNS: &str =
    "c.id, c.title, c.sku, c.status, c.attributes, c.version, c.created_at, c.updated_at, c.deleted_at";
/// The same with an empty object for the attributes, which may be megabytes.
pub(crate) const COLUMNS_WITHOUT_ATTRIBUTES: &str =
    "c.id, c.title, c.sku, c.status, '{}'::jsonb, c.version, c.created_at, c.updated_at, c.deleted_at";

/// By place and not by name: a list has 200 cards, and a look-up by name compares up to nine names for each value.
pub(super) fn from_row(row: &Row) -> Card {
    Card {
        id: row.get(0),
        title: row.get(1),
        sku: row.get(2),
        status: row.get(3),
        attributes: row.get::<_, Json<Box<RawValue>>>(4).0,
        version: row.get(5),
        created_at: row.get(6),
        updated_at: row.get(7),
        deleted_at: row.get(8),
    }
}

/// The card, unless it is deleted.
pub async fn get(pool: &Pool, id: Uuid) -> Result<Option<Card>, StoreError> {
    let client = pool.get().await?;
    let sql = format!("SELECT {COLUMNS} FROM public.master_cards c WHERE c.id = $1 AND c.deleted_at IS NULL");
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[&id]).await?;
    pool.note_message(row.as_ref().map_or(0, Row::raw_size_bytes));
    Ok(row.map(|row| from_row(&row)))
}

/// A card that is deleted and not purged yet.
pub(crate) async fn get_deleted(pool: &Pool, id: Uuid) -> Result<Option<Card>, StoreError> {
    let client = pool.get().await?;
    let sql = format!(
        "SELECT {COLUMNS_WITHOUT_ATTRIBUTES} FROM public.master_cards c WHERE c.id = $1 AND c.deleted_at IS NOT NULL"
    );
    let row = client.query_opt(&client.prepare_cached(&sql).await?, &[&id]).await?;
    Ok(row.map(|row| from_row(&row)))
}

/// How many of these are there and not deleted.
pub async fn count_existing(pool: &Pool, ids: &[Uuid]) -> Result<i64, StoreError> {
    let client = pool.get().await?;
    let sql = "SELECT count(*) FROM public.master_cards c WHERE c.id = ANY($1) AND c.deleted_at IS NULL";
    Ok(client.query_one(&client.prepare_cached(sql).await?, &[&ids]).await?.get(0))
}

/// What [`restore_version`] would make of a card; none when its history does not tell.
pub async fn fields_at(pool: &Pool, id: Uuid, version: i64) -> Result<Option<Fields>, StoreError> {
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    let fields = history::fields_at(&transaction, id, version).await?;
    transaction.commit().await?;
    pool.note_message(fields.as_ref().map_or(0, |fields| fields.attributes.size()));
    Ok(fields)
}

/// A new card, with its first line of history.
pub async fn insert(pool: &Pool, id: Uuid, fields: CardContent, actor: &Value) -> Result<Card, StoreError> {
    let CardContent { title, sku, status, attributes } = fields;
    pool.note_message(attributes.get().len());
    let client = pool.get().await?;
    let sql = format!(
        "WITH c AS (INSERT INTO public.master_cards AS c (id, title, sku, status, attributes) VALUES ($1, $2, $3, $4, $5) RETURNING {COLUMNS}), \
         h AS (INSERT INTO public.card_history (id, card_id, version, actor, action, change) \
               SELECT $6, c.id, c.version, $7, 'create', $8 FROM c) \
         SELECT {COLUMNS} FROM c"
    );
    let change =
        HistoryFields { version: None, title: &title, sku: &sku, status: status.name(), attributes: &attributes };
    let (attributes, change) = (Json(&attributes), Json(&change));
    let statement = client.prepare_cached(&sql).await?;
    let row = client
        .query_one(&statement, &[&id, &title, &sku, &status.name(), &attributes, &Uuid::now_v7(), actor, &change])
        .await
        .map_err(sku_taken)?;
    Ok(from_row(&row))
}

/// What the history says of all fields.
#[derive(Debug, Serialize)]
struct HistoryFields<'a, A: Serialize> {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<i64>,
    title: &'a str,
    sku: &'a str,
    status: &'a str,
    attributes: &'a A,
}

fn sku_taken(error: tokio_postgres::Error) -> StoreError {
    match db_error::violated(&error) {
        Some("master_cards_sku") => StoreError::SkuTaken("Another card has this SKU."),
        _ => error.into(),
    }
}

/// What `If-Match` asks of a card before it is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    None,
    /// `*`: it must exist, which it must anyway.
    Exists,
    /// One of these versions.
    Versions(Vec<i64>),
}

impl Precondition {
    /// Refuses a card that is at another version.
    pub fn check(&self, current: i64) -> Result<(), StoreError> {
        match self {
            Self::Versions(versions) if !versions.contains(&current) => Err(StoreError::VersionMismatch { current }),
            _ => Ok(()),
        }
    }
}

/// Changes a card. The row is locked while the merge patch is worked out, so that nothing that
/// others write meanwhile is lost; `sources` stays whatever it is. What changes nothing makes no version.
pub async fn update(
    pool: &Pool,
    id: Uuid,
    change: &Change,
    sent: &RawValue,
    precondition: &Precondition,
    actor: &Value,
) -> Result<Card, StoreError> {
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    let card = lock(&transaction, id).await?;
    pool.note_message(card.attributes.get().len().max(sent.get().len()));
    precondition.check(card.version)?;
    let mut fields = Fields::from_card(&card)?;
    fields.change(change)?;
    let Some(card) = store(&transaction, id, &fields).await? else { return Ok(card) };
    remember(&transaction, &card, actor, "update", &Json(sent)).await?;
    transaction.commit().await?;
    Ok(card)
}

/// Makes title, SKU, status and attributes what they were at an earlier version; sources stay as they are.
pub async fn restore_version(
    pool: &Pool,
    id: Uuid,
    version: i64,
    precondition: &Precondition,
    actor: &Value,
) -> Result<Card, StoreError> {
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    let card = lock(&transaction, id).await?;
    pool.note_message(card.attributes.get().len());
    precondition.check(card.version)?;
    if !(1..=card.version).contains(&version) {
        return Err(StoreError::Version(format!("The card has the versions 1 to {}.", card.version)));
    }
    let earlier = history::fields_at(&transaction, id, version).await?;
    let earlier = earlier.ok_or(StoreError::NotFound("version of this card"))?;
    pool.note_message(earlier.attributes.size());
    let Some(card) = store(&transaction, id, &earlier).await? else { return Ok(card) };
    let Fields { title, sku, status, attributes } = &earlier;
    let change = HistoryFields { version: Some(version), title, sku, status, attributes };
    remember(&transaction, &card, actor, "restore", &Json(&change)).await?;
    transaction.commit().await?;
    Ok(card)
}

/// Writes what a card has become; none when that is what it was, to the last digit.
async fn store(transaction: &Transaction<'_>, id: Uuid, fields: &Fields) -> Result<Option<Card>, StoreError> {
    let sql = format!(
        "UPDATE public.master_cards AS c SET title = $2, sku = $3, status = $4, \
         attributes = $5::jsonb || jsonb_build_object('sources', c.attributes->'sources'), \
         version = c.version + 1, updated_at = now() \
         WHERE c.id = $1 AND (c.title <> $2 OR c.sku <> $3 OR c.status <> $4 \
           OR (c.attributes - 'sources')::text <> ($5::jsonb)::text) RETURNING {COLUMNS}"
    );
    let statement = transaction.prepare_cached(&sql).await?;
    let attributes = Json(&fields.attributes);
    let row = transaction
        .query_opt(&statement, &[&id, &fields.title, &fields.sku, &fields.status, &attributes])
        .await
        .map_err(sku_taken)?;
    Ok(row.as_ref().map(from_row))
}

/// Removes a source of a card that is at a version which the caller names.
pub async fn remove_source(
    pool: &Pool,
    id: Uuid,
    key: &str,
    precondition: &Precondition,
    actor: &Value,
) -> Result<WriteOutcome, StoreError> {
    if !matches!(precondition, Precondition::Versions(_)) {
        return sources::remove(pool, id, key, actor).await;
    }
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    let Some(row) = lock_row(&transaction, "c.version", id).await? else {
        return Ok(WriteOutcome::NoCard);
    };
    precondition.check(row.get(0))?;
    let statement = transaction.prepare_cached(sources::REMOVE).await?;
    let removed = transaction.query_opt(&statement, &[&id, &key, &Uuid::now_v7(), &actor]).await?;
    transaction.commit().await?;
    Ok(removed.map_or(WriteOutcome::NoSource, |row| WriteOutcome::Version(row.get(0))))
}

/// 404 unless there is such a card, deleted or not.
pub(crate) async fn check_known(pool: &Pool, id: Uuid) -> Result<(), StoreError> {
    let client = pool.get().await?;
    let sql = "SELECT FROM public.master_cards WHERE id = $1";
    let row = client.query_opt(&client.prepare_cached(sql).await?, &[&id]).await?;
    row.map(drop).ok_or(StoreError::NotFound("card"))
}

/// Ids of cards that are not deleted, from `first` to `last`.
pub async fn ids_between(pool: &Pool, first: Uuid, last: Uuid, limit: i64) -> Result<Vec<Uuid>, StoreError> {
    let client = pool.get().await?;
    let sql =
        "SELECT id FROM public.master_cards WHERE id BETWEEN $1 AND $2 AND deleted_at IS NULL ORDER BY id LIMIT $3";
    let rows = client.query(&client.prepare_cached(sql).await?, &[&first, &last, &limit]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Hides a card.
pub async fn delete(pool: &Pool, id: Uuid, precondition: &Precondition, actor: &Value) -> Result<(), StoreError> {
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    let card = lock(&transaction, id).await?;
    pool.note_message(card.attributes.get().len());
    precondition.check(card.version)?;
    let sql = format!(
        "UPDATE public.master_cards AS c SET deleted_at = now(), version = c.version + 1, updated_at = now() WHERE c.id = $1 RETURNING {COLUMNS}"
    );
    let card = from_row(&transaction.query_one(&sql, &[&id]).await?);
    remember(&transaction, &card, actor, "delete", &json!({})).await?;
    transaction.commit().await?;
    Ok(())
}

/// Brings a hidden card back.
pub async fn restore(pool: &Pool, id: Uuid, precondition: &Precondition, actor: &Value) -> Result<Card, StoreError> {
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    let sql = format!(
        "UPDATE public.master_cards AS c SET deleted_at = NULL, version = c.version + 1, updated_at = now() \
         WHERE c.id = $1 AND c.deleted_at IS NOT NULL RETURNING {COLUMNS}"
    );
    let row = transaction.query_opt(&sql, &[&id]).await.map_err(sku_taken)?;
    let card = from_row(&row.ok_or(StoreError::NotFound("deleted card"))?);
    pool.note_message(card.attributes.get().len());
    // Refused, the transaction is dropped and the card stays hidden.
    precondition.check(card.version - 1)?;
    remember(&transaction, &card, actor, "restore", &json!({})).await?;
    transaction.commit().await?;
    Ok(card)
}

/// Checks what `If-Match` asks of a card that is hidden.
pub async fn check_hidden(pool: &Pool, id: Uuid, precondition: &Precondition) -> Result<(), StoreError> {
    let client = pool.get().await?;
    let sql = "SELECT version FROM public.master_cards WHERE id = $1 AND deleted_at IS NOT NULL";
    let row = client.query_opt(&client.prepare_cached(sql).await?, &[&id]).await?;
    precondition.check(row.ok_or(StoreError::NotFound("card"))?.get(0))
}

/// Removes a hidden card for good, as the reaper: the core itself has no right to delete cards.
pub async fn purge(reaper: &Pool, id: Uuid) -> Result<(), StoreError> {
    match reaper::remove_cards(reaper, &[id], reaper::CARD_TIMEOUT).await {
        Ok(0) => Err(StoreError::NotFound("deleted card")),
        Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn lock(transaction: &Transaction<'_>, id: Uuid) -> Result<Card, StoreError> {
    let row = lock_row(transaction, COLUMNS, id).await?;
    row.map(|row| from_row(&row)).ok_or(StoreError::NotFound("card"))
}

/// Locks a card that is not deleted against other changes.
async fn lock_row(transaction: &Transaction<'_>, columns: &str, id: Uuid) -> Result<Option<Row>, StoreError> {
    let sql = format!(
        "SELECT {columns} FROM public.master_cards c WHERE c.id = $1 AND c.deleted_at IS NULL FOR NO KEY UPDATE"
    );
    Ok(transaction.query_opt(&transaction.prepare_cached(&sql).await?, &[&id]).await?)
}

async fn remember(
    transaction: &Transaction<'_>,
    card: &Card,
    actor: &Value,
    action: &str,
    change: &(dyn ToSql + Sync),
) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO public.card_history (id, card_id, version, actor, action, change) VALUES ($1, $2, $3, $4, $5, $6)";
    let statement = transaction.prepare_cached(sql).await?;
    transaction.execute(&statement, &[&Uuid::now_v7(), &card.id, &card.version, actor, &action, change]).await?;
    Ok(())
}
