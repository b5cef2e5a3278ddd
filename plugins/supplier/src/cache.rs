//! The plugin's own tables (`schema.sql`). All its SQL is here.
//!
//! Each function takes a connection for itself and gives it back at its end: none is held while a
//! supplier's site makes us wait.

use std::collections::HashMap;
use std::time::Duration;

use cardinal_plugin::postgres::{Json, ToSql};
use cardinal_plugin::{PluginContext, Result, Uuid};
use serde::Serialize;
use time::OffsetDateTime;
use url::Url;

use crate::fetch::Validators;
use supplier_pages::product::Product;

/// Pages that no card was enriched from are forgotten after this.
const CACHE_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// A page that was read, for the list of them.
#[derive(Debug, Serialize)]
pub(crate) struct Item {
    #[serde(skip)]
    pub id: i64,
    /// The address that was asked for; `product.url` is where it led.
    pub url: String,
    pub product: Product,
    /// The cards that were enriched from it, the latest first.
    pub card_ids: Vec<Uuid>,
}

/// A page as it was read last.
pub(crate) struct Cached {
    pub product: Product,
    pub validators: Validators,
    pub read_at: OffsetDateTime,
}

impl Cached {
    pub(crate) fn is_fresh(&self, lifetime: Duration) -> bool {
        self.read_at > OffsetDateTime::now_utc() - lifetime
    }
}

/// The page, if it is known. What another version of the plugin found in it does not count: this one
/// may find more.
pub(crate) async fn find(ctx: &PluginContext, address: &Url) -> Result<Option<Cached>> {
    const SQL: &str = "
        SELECT product, fetched_at, found_at, etag, last_modified FROM pages WHERE address = $1 AND read_by = $2";
    let row = ctx.get_plugin_conn().await?.query_opt(SQL, &[&address.as_str(), &ctx.version()]).await?;
    row.map(|row| {
        let Json(product) = row.try_get("product")?;
        let url = Url::parse(row.try_get("found_at")?)?;
        let validators = Validators { url, etag: row.try_get("etag")?, last_modified: row.try_get("last_modified")? };
        Ok(Cached { product, validators, read_at: row.try_get("fetched_at")? })
    })
    .transpose()
}

/// Remembers a page, and forgets a few: those that nobody needs any more, and the oldest when there
/// are too many.
pub(crate) async fn keep(ctx: &PluginContext, address: &Url, page: &Cached, max_pages: i64) -> Result<()> {
    const KEEP: &str = "
        INSERT INTO pages (address, product, fetched_at, found_at, etag, last_modified, read_by)
        VALUES ($1, $2, $3, $4, $5, $6, $7)
        ON CONFLICT (address) DO UPDATE SET
            product = excluded.product, fetched_at = excluded.fetched_at, found_at = excluded.found_at,
            etag = excluded.etag, last_modified = excluded.last_modified, read_by = excluded.read_by";
    const FORGET: &str = "
        DELETE FROM pages WHERE id IN (
            SELECT id FROM pages
            WHERE fetched_at < $1 AND NOT EXISTS (SELECT FROM card_pages WHERE page_id = pages.id)
            ORDER BY fetched_at LIMIT 100)
        OR id IN (SELECT id FROM pages ORDER BY fetched_at DESC OFFSET $2 LIMIT 100)";
    let Cached { product, validators, read_at } = page;
    let connection = ctx.get_plugin_conn().await?;
    let values: [&(dyn ToSql + Sync); 7] = [
        &address.as_str(),
        &Json(product),
        read_at,
        &validators.url.as_str(),
        &validators.etag,
        &validators.last_modified,
        &ctx.version(),
    ];
    connection.execute(KEEP, &values).await?;
    connection.execute(FORGET, &[&(OffsetDateTime::now_utc() - CACHE_TTL), &max_pages]).await?;
    Ok(())
}

/// Remembers that a card was enriched from a page. A page that was forgotten meanwhile is no loss.
pub(crate) async fn link(ctx: &PluginContext, card_id: Uuid, address: &Url, source_key: &str) -> Result<()> {
    const SQL: &str = "
        INSERT INTO card_pages (card_id, page_id, source_key)
        SELECT $1, id, $3 FROM pages WHERE address = $2
        ON CONFLICT (card_id, page_id) DO UPDATE SET source_key = excluded.source_key, enriched_at = now()";
    let connection = ctx.get_plugin_conn().await?;
    connection.execute(SQL, &[&card_id, &address.as_str(), &source_key]).await?;
    Ok(())
}

/// The pages read so far, newest first, below the id `before`.
///
/// By key, not by offset: a page that is read meanwhile moves nothing, and the last page of the
/// list costs as little as the first.
pub(crate) async fn items(ctx: &PluginContext, limit: u32, before: Option<i64>) -> Result<Vec<Item>> {
    const SQL: &str = "
        SELECT id, address, product,
               ARRAY(SELECT card_id FROM card_pages WHERE page_id = pages.id
                     ORDER BY enriched_at DESC LIMIT 100) AS card_ids
        FROM pages WHERE id < $1 ORDER BY id DESC LIMIT $2";
    let before = before.unwrap_or(i64::MAX);
    let connection = ctx.get_plugin_conn().await?;
    let rows = connection.query(SQL, &[&before, &i64::from(limit)]).await?;
    rows.iter()
        .map(|row| {
            let Json(product) = row.try_get("product")?;
            Ok(Item {
                id: row.try_get("id")?,
                url: row.try_get("address")?,
                product,
                card_ids: row.try_get("card_ids")?,
            })
        })
        .collect()
}

/// The cards with these SKUs.
pub(crate) async fn cards(ctx: &PluginContext, skus: &[&str]) -> Result<HashMap<String, Uuid>> {
    const SQL: &str = "SELECT sku, id FROM public.master_cards WHERE deleted_at IS NULL AND sku = ANY ($1)";
    let rows: Vec<(String, Uuid)> = ctx.get_plugin_conn().await?.query_as(SQL, &[&skus]).await?;
    Ok(rows.into_iter().collect())
}
