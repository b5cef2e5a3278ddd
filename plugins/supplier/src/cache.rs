//! The plugin's own tables (`schema.sql`). All its SQL is here.
//!
//! Each function takes a connection for itself and gives it back at its end: none is held while a
//! supplier's site makes us wait.

use std::time::Duration;

use cardinal_plugin::postgres::Json;
use cardinal_plugin::{PluginContext, Result, Uuid};
use serde::Serialize;
use time::OffsetDateTime;
use url::Url;

use crate::product::Product;

/// Pages that no card was enriched from are forgotten after this.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// A page that was read, for the list of them.
#[derive(Debug, Serialize)]
pub struct Item {
    #[serde(skip)]
    pub id: i64,
    /// The address that was asked for; `product.url` is where it led.
    pub url: String,
    pub product: Product,
    /// The cards that were enriched from it, the latest first.
    pub card_ids: Vec<Uuid>,
}

/// The product of the page, if it was read less than `lifetime` ago.
pub async fn fresh(ctx: &PluginContext, address: &Url, lifetime: Duration) -> Result<Option<Product>> {
    const SQL: &str = "SELECT product FROM pages WHERE address = $1 AND fetched_at > $2";
    let since = OffsetDateTime::now_utc() - lifetime;
    let row = ctx.get_plugin_conn().await?.query_opt(SQL, &[&address.as_str(), &since]).await?;
    let product = row.map(|row| row.try_get::<_, Json<Product>>("product")).transpose()?;
    Ok(product.map(|Json(product)| product))
}

/// Remembers a page, and forgets a few old ones.
pub async fn keep(ctx: &PluginContext, address: &Url, product: &Product) -> Result<()> {
    const KEEP: &str = "
        INSERT INTO pages (address, product, fetched_at) VALUES ($1, $2, $3)
        ON CONFLICT (address) DO UPDATE SET product = excluded.product, fetched_at = excluded.fetched_at";
    const FORGET: &str = "
        DELETE FROM pages WHERE id IN (
            SELECT id FROM pages
            WHERE fetched_at < $1 AND NOT EXISTS (SELECT FROM card_pages WHERE page_id = pages.id)
            ORDER BY fetched_at LIMIT 100)";
    let connection = ctx.get_plugin_conn().await?;
    connection.execute(KEEP, &[&address.as_str(), &Json(product), &product.fetched_at]).await?;
    connection.execute(FORGET, &[&(OffsetDateTime::now_utc() - KEPT_FOR)]).await?;
    Ok(())
}

/// Remembers that a card was enriched from a page. A page that was forgotten meanwhile is no loss.
pub async fn link(ctx: &PluginContext, card_id: Uuid, address: &Url, source_key: &str) -> Result<()> {
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
pub async fn items(ctx: &PluginContext, limit: u32, before: Option<i64>) -> Result<Vec<Item>> {
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
