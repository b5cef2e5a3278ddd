//! What the plugin does: look at a supplier's page, and keep what it says in a card.

use std::time::Duration;

use cardinal_plugin::{Error, Level, PluginContext, Result, Uuid, json};
use serde::Deserialize;
use time::OffsetDateTime;
use url::Url;

use crate::cache::{self, Item};
use crate::fetch::address::Reach;
use crate::fetch::{self, FetchError};
use crate::product::{self, Product, charset};

/// The data kind of `provides_kinds` in the manifest. Other plugins look for it in the cards.
const KIND: &str = "supplier";

const NO_PRODUCT: &str = "No product was found on this page: neither schema.org data nor OpenGraph describes one.";

/// The page that is asked for.
pub struct Page {
    pub address: String,
    /// Not from the cache.
    pub refresh: bool,
}

pub struct Enriched {
    pub source_key: String,
    /// The card's, now.
    pub version: i64,
    pub product: Product,
}

/// The operator's settings. Their defaults stand in the manifest's `settings_schema`.
#[derive(Deserialize)]
struct Settings {
    allow_private_addresses: bool,
    cache_ttl_seconds: u32,
}

/// What the page says about its product. Changes nothing but the cache.
pub async fn preview(ctx: &PluginContext, page: &Page) -> Result<Product> {
    let address = read_address(page)?;
    product_at(ctx, &address, page.refresh).await
}

/// Writes what the page says into the card, as the user who asks for it.
pub async fn enrich(ctx: &PluginContext, card_id: Uuid, page: &Page) -> Result<Enriched> {
    let user = ctx.user()?;
    let address = read_address(page)?;
    let product = product_at(ctx, &address, page.refresh).await?;
    // One source per site: reading a page again replaces what it said before.
    let source_key = format!("{}:{}", ctx.name(), address.host_str().unwrap_or_default());
    let version = ctx.enrich_card(card_id, user.id, &source_key, KIND, &product).await?;
    cache::link(ctx, card_id, &address, &source_key).await?;
    Ok(Enriched { source_key, version, product })
}

/// The pages read so far, newest first.
pub async fn items(ctx: &PluginContext, limit: u32, before: Option<i64>) -> Result<Vec<Item>> {
    cache::items(ctx, limit, before).await
}

fn read_address(page: &Page) -> Result<Url> {
    fetch::parse(&page.address).map_err(|error| reply(&error))
}

async fn product_at(ctx: &PluginContext, address: &Url, refresh: bool) -> Result<Product> {
    let settings: Settings = ctx.settings()?;
    let lifetime = Duration::from_secs(settings.cache_ttl_seconds.into());
    if !refresh && let Some(product) = cache::fresh(ctx, address, lifetime).await? {
        ctx.metrics().count("cache_hits", 1);
        return Ok(product);
    }
    let product = read_product(ctx, address, &settings).await?;
    cache::keep(ctx, address, &product).await?;
    Ok(product)
}

async fn read_product(ctx: &PluginContext, address: &Url, settings: &Settings) -> Result<Product> {
    let reach = if settings.allow_private_addresses { Reach::PrivateNetworks } else { Reach::Internet };
    let page = match fetch::page(address, reach).await {
        Ok(page) => page,
        Err(error) => {
            ctx.log_with(Level::Info, "a page was not read", &json!({ "url": address, "reason": reason(&error) }));
            return Err(reply(&error));
        }
    };
    ctx.metrics().count("pages_read", 1);
    let (url, fetched_at) = (page.url.clone(), OffsetDateTime::now_utc().truncate_to_second());
    // A page may have 4 MiB. Going through them here would hold up everybody's requests.
    let facts = tokio::task::spawn_blocking(move || {
        let html = charset::decode(&page.body, Some(&page.content_type));
        product::find(&html, &page.url)
    });
    match facts.await? {
        Some(facts) => Ok(Product { facts, url, fetched_at }),
        None => Err(Error::with_code(422, "no-product", NO_PRODUCT).field("/url", "the page shows no product")),
    }
}

/// How the caller hears of a page that could not be read.
///
/// Written out and not left to `?`: that would make an internal error of it, of which the client
/// rightly sees nothing.
fn reply(error: &FetchError) -> Error {
    let text = error.to_string();
    let detail = sentence(&text);
    match error {
        FetchError::NotAWebAddress | FetchError::TooLong | FetchError::Credentials => {
            Error::unprocessable(detail).field("/url", &text)
        }
        FetchError::OutOfReach(_) => Error::with_code(422, "address-refused", detail).field("/url", &text),
        FetchError::NotHtml(_) | FetchError::TooLarge | FetchError::TooManyRedirects | FetchError::Compressed => {
            Error::with_code(422, "page-unusable", detail).field("/url", &text)
        }
        FetchError::Timeout => Error::with_code(504, "upstream-timeout", detail),
        FetchError::Status(_)
        | FetchError::NoSuchHost(_)
        | FetchError::Connect(_)
        | FetchError::Tls(_)
        | FetchError::Http(_) => Error::bad_gateway(detail),
    }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

/// The failure with its causes, for the log alone.
fn reason(error: &FetchError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause {
        text = format!("{text}: {deeper}");
        cause = deeper.source();
    }
    text
}
