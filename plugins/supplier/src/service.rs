//! What the plugin does: look at a supplier's page, and keep what it says in a card.

use std::sync::LazyLock;

use cardinal_plugin::serde_json::Value;
use cardinal_plugin::{Error, Level, PluginContext, Result, Uuid, json};
use time::OffsetDateTime;
use tokio::sync::Semaphore;
use url::Url;

use crate::cache::{self, Cached, Item};
use crate::fetch::{self, FetchError, Fetched, Page, Visit};
use crate::politeness::{Sites, Turn};
use crate::settings::Settings;
use supplier_pages::product::{self, Product, charset};

/// The data kind of `provides_kinds` in the manifest. Other plugins look for it in the cards.
pub(crate) const KIND: &str = "supplier";

const NO_PRODUCT: &str =
    "No product was found on this page: neither schema.org data (JSON-LD, microdata) nor OpenGraph describes one.";

/// Of the whole library and not of an instance: a site does not care that the plugin was reloaded.
pub(crate) static SITES: LazyLock<Sites> = LazyLock::new(Sites::default);

/// Pages that are gone through at the same time: a page of 4 MiB can take many times that while it is.
static SEARCHES: Semaphore = Semaphore::const_new(4);

/// The page that is asked for.
pub(crate) struct PageRequest {
    pub address: String,
    /// Not from the cache.
    pub refresh: bool,
}

pub(crate) struct Enriched {
    pub source_key: String,
    /// The card's, now.
    pub version: i64,
    pub product: Product,
}

pub(crate) struct EnrichPreview {
    /// The card's, now.
    pub version: i64,
    pub source_key: String,
    /// What the source holds now.
    pub before: Option<Value>,
    pub product: Product,
}

/// What the page says about its product. Changes nothing but the cache.
pub(crate) async fn preview(ctx: &PluginContext, wanted: &PageRequest) -> Result<Product> {
    let address = read_address(wanted)?;
    product_at(ctx, &address, wanted.refresh).await
}

/// Writes what the page says into the card, as the user who asks for it.
pub(crate) async fn enrich(ctx: &PluginContext, card_id: Uuid, wanted: &PageRequest) -> Result<Enriched> {
    let user = ctx.user()?;
    let address = read_address(wanted)?;
    let product = product_at(ctx, &address, wanted.refresh).await?;
    let source_key = source_key(ctx, &address);
    let version = ctx.enrich_card(card_id, user.id, &source_key, KIND, &product).await?;
    cache::link(ctx, card_id, &address, &source_key).await?;
    Ok(Enriched { source_key, version, product })
}

/// What [`enrich`] would write, and what is there now. Changes nothing but the cache.
pub(crate) async fn preview_enrich(ctx: &PluginContext, card_id: Uuid, wanted: &PageRequest) -> Result<EnrichPreview> {
    let user = ctx.user()?;
    let address = read_address(wanted)?;
    let card = ctx.read_card(card_id, user.id).await?;
    let source_key = source_key(ctx, &address);
    let before = card.sources().remove(&source_key).map(|source| source.data);
    let product = product_at(ctx, &address, wanted.refresh).await?;
    Ok(EnrichPreview { version: card.version, source_key, before, product })
}

/// One source per site: reading a page again replaces what it said before.
pub(crate) fn source_key(ctx: &PluginContext, address: &Url) -> String {
    format!("{}:{}", ctx.name(), address.host_str().unwrap_or_default())
}

/// The pages read so far, newest first.
pub(crate) async fn items(ctx: &PluginContext, limit: u32, before: Option<i64>) -> Result<Vec<Item>> {
    cache::items(ctx, limit, before).await
}

fn read_address(wanted: &PageRequest) -> Result<Url> {
    parse_address(&wanted.address)
}

pub(crate) fn parse_address(address: &str) -> Result<Url> {
    fetch::parse(address).map_err(reply)
}

pub(crate) async fn product_at(ctx: &PluginContext, address: &Url, refresh: bool) -> Result<Product> {
    let settings: Settings = ctx.settings()?;
    let is_fresh = |known: &Cached| !refresh && known.is_fresh(settings.lifetime());
    if let Some(known) = cache::find(ctx, address).await?.filter(is_fresh) {
        ctx.metrics().count("cache_hits", 1);
        return Ok(known.product);
    }
    let turn = SITES.turn(address, settings.manners().delay).await;
    let turn = turn.map_err(|busy| failed(ctx, address, busy.into()))?;
    // Asked again: of many who want the same page at the same time, one reads it for all.
    match cache::find(ctx, address).await? {
        Some(known) if is_fresh(&known) => Ok(known.product),
        known => read(ctx, address, known, turn, &settings).await,
    }
}

/// Reads the page, or hears that it is still what it was.
async fn read(
    ctx: &PluginContext,
    address: &Url,
    known: Option<Cached>,
    turn: Turn,
    settings: &Settings,
) -> Result<Product> {
    let validators = known.as_ref().map(|known| &known.validators);
    let visit = Visit { ctx, sites: &SITES, manners: &settings.manners() };
    let fetched = fetch::page(visit, turn, address, validators).await;
    let (fetched, _turn) = fetched.map_err(|error| failed(ctx, address, error))?;
    let read_at = OffsetDateTime::now_utc();
    let fetched_at = read_at.truncate_to_second();
    let (product, validators) = match (fetched, known) {
        (Fetched::Unchanged(validators), Some(known)) => {
            ctx.metrics().count("pages_unchanged", 1);
            (Product { fetched_at, ..known.product }, validators)
        }
        (Fetched::Unchanged(_), None) => return Err(Error::internal("an unknown page cannot be unchanged")),
        (Fetched::Page(page), _) => {
            ctx.metrics().count("pages_read", 1);
            let validators = page.validators.clone();
            let found = find_product(page).await?;
            (Product { facts: found.facts, url: found.url, fetched_at }, validators)
        }
    };
    let cached = Cached { product, validators, read_at };
    cache::keep(ctx, address, &cached, settings.max_pages()).await?;
    Ok(cached.product)
}

/// A page may have 4 MiB. Going through them on a thread of the host would hold up everybody's
/// requests.
async fn find_product(page: Page) -> Result<product::Found> {
    let permit = SEARCHES.acquire().await?;
    let search = tokio::task::spawn_blocking(move || {
        let _permit = permit; // until the search is over, also when its caller has left
        let html = charset::decode(&page.body, Some(&page.content_type));
        product::find(&html, &page.validators.url)
    });
    let none = || Error::with_code(422, "no-product", NO_PRODUCT).field("/url", "the page shows no product");
    search.await?.ok_or_else(none)
}

/// What the log and what the caller gets to know of a page that could not be read.
pub(crate) fn failed(ctx: &PluginContext, address: &Url, error: FetchError) -> Error {
    ctx.log_with(Level::Info, "a page was not read", &json!({ "url": address, "reason": reason(&error) }));
    reply(error)
}

/// How the caller hears of a page that could not be read.
///
/// Written out and not left to `?`: that would make an internal error of it, of which the client
/// rightly sees nothing.
fn reply(error: FetchError) -> Error {
    let text = error.to_string();
    let detail = sentence(&text);
    match error {
        FetchError::NotAWebAddress | FetchError::TooLong | FetchError::Credentials => {
            Error::unprocessable(detail).field("/url", &text)
        }
        FetchError::RobotsRefused => Error::with_code(422, "robots-refused", detail).field("/url", &text),
        FetchError::RobotsUnavailable(_) => Error::with_code(502, "robots-unavailable", detail),
        FetchError::Busy(wait) => Error::with_code(503, "supplier-busy", detail).retry_after(wait),
        FetchError::OutOfReach(_) | FetchError::NoSuchHost(_) => {
            Error::with_code(422, "address-refused", detail).field("/url", &text)
        }
        FetchError::NotHtml(_) | FetchError::TooLarge | FetchError::TooManyRedirects | FetchError::Compressed => {
            Error::with_code(422, "page-unusable", detail).field("/url", &text)
        }
        FetchError::Timeout => Error::with_code(504, "upstream-timeout", detail),
        FetchError::Overrun(_, wait) => Error::bad_gateway(detail).retry_after(wait),
        FetchError::Status(_) | FetchError::Connect(_) | FetchError::Tls(_) | FetchError::Http(_) => {
            Error::bad_gateway(detail)
        }
        FetchError::Host(error) => error,
    }
}

pub(crate) fn sentence(text: &str) -> String {
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
