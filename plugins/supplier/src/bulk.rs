//! Many cards at once: a feed, or the pages of a sitemap, in the plugin's own task. What it does is noted in `runs`.

use std::time::Duration;

use cardinal_plugin::{Error, Level, PluginContext, Result, Uuid, json};
use time::OffsetDateTime;
use tokio::time::{Instant, sleep};
use url::Url;

use crate::fetch::{self, Visit};
use crate::product::feed::{self, Entry, Feed};
use crate::product::{Product, charset};
use crate::runs::{self, Counts, Problem, Run};
use crate::service::{KIND, SITES, failed, parse_address, product_at, sentence};
use crate::settings::Settings;

/// Entries between two notes of how far a run is.
const STEP: usize = 100;
/// Pages between two of them: each takes a visit.
const PAGE_STEP: usize = 5;
const MAX_PAGES: usize = 5_000;
/// Sitemaps that a list of them leads to.
const MAX_SITEMAPS: usize = 20;
/// How long a tool waits for a run, and how often it looks.
const WAIT: Duration = Duration::from_secs(45);
const LOOK: Duration = Duration::from_millis(500);

/// Begins a run as the user who asks for it; it goes on as the plugin itself.
pub(crate) async fn start(ctx: &PluginContext, address: &str) -> Result<Run> {
    let (user, address) = (ctx.user()?, parse_address(address)?);
    let run = runs::begin(ctx, address.as_str(), &user.name).await?;
    let (own, id) = (ctx.as_plugin(), run.id);
    drop(ctx.spawn(async move {
        let failure = match go(&own, id, &address).await {
            Ok(()) => None,
            Err(error) => {
                own.log_with(
                    Level::Warn,
                    "a feed was not gone through",
                    &json!({ "url": address, "reason": error.to_string() }),
                );
                let detail = error.status().map_or("It failed; the log says why.", |_| error.message()).to_owned();
                Some(Problem { entry: address.to_string(), detail })
            }
        };
        if let Err(error) = runs::finish(&own, id, failure.as_ref()).await {
            own.log(Level::Error, format!("the end of run {id} was not noted: {error}"));
        }
    }));
    Ok(run)
}

/// Waits for a run and says how far it is.
pub(crate) async fn wait(ctx: &PluginContext, mut run: Run) -> Result<Run> {
    let end = Instant::now() + WAIT;
    while run.state == "running" && Instant::now() < end {
        let text = format!("{} entries, {} cards enriched", run.done, run.enriched);
        ctx.progress(run.done.into(), run.total.map(f64::from), text);
        sleep(LOOK).await;
        run = runs::get(ctx, run.id).await?;
    }
    Ok(run)
}

async fn go(ctx: &PluginContext, run: i64, address: &Url) -> Result<()> {
    match read(ctx, address).await? {
        Feed::Products(entries) => enrich(ctx, run, address, &entries).await,
        Feed::Pages(pages) => visit(ctx, run, address, pages).await,
        Feed::Sitemaps(sitemaps) => {
            let mut pages = Vec::new();
            for sitemap in sitemaps.iter().filter(|sitemap| is_same_site(sitemap, address)).take(MAX_SITEMAPS) {
                if let Feed::Pages(more) = read(ctx, sitemap).await? {
                    pages.extend(more);
                }
            }
            visit(ctx, run, address, pages).await
        }
    }
}

async fn read(ctx: &PluginContext, address: &Url) -> Result<Feed> {
    let manners = ctx.settings::<Settings>()?.manners();
    let turn = SITES.turn(address, manners.delay).await.map_err(|busy| failed(ctx, address, busy.into()))?;
    let visit = Visit { ctx, sites: &SITES, manners: &manners };
    let file = fetch::feed(visit, turn, address).await.map_err(|error| failed(ctx, address, error))?;
    let base = address.clone();
    // Megabytes would hold up the plugin's other tasks.
    let read =
        tokio::task::spawn_blocking(move || feed::read(&charset::decode(&file.body, Some(&file.content_type)), &base));
    let unusable = |error: feed::FeedError| Error::with_code(422, "feed-unusable", sentence(&error.to_string()));
    read.await?.map_err(unusable)
}

/// Writes what a feed says into the cards with its SKUs.
async fn enrich(ctx: &PluginContext, run: i64, address: &Url, entries: &[Entry]) -> Result<()> {
    let now = OffsetDateTime::now_utc().truncate_to_second();
    // Beside what the site's pages say: a feed often says less, and would take it away.
    let key = format!("{}:feed", source_key(ctx, address));
    for part in entries.chunks(STEP) {
        let skus: Vec<&str> = part.iter().filter_map(|entry| entry.facts.sku.as_deref()).collect();
        let (cards, mut counts) = (runs::cards(ctx, &skus).await?, Counts::default());
        for entry in part {
            let sku = entry.facts.sku.as_deref().unwrap_or_default();
            let Some(card) = cards.get(sku) else {
                counts.unmatched += 1;
                continue;
            };
            let url = entry.url.clone().unwrap_or_else(|| address.clone());
            let product = Product { facts: entry.facts.clone(), url, fetched_at: now };
            write(ctx, *card, &key, &product, &mut counts).await?;
        }
        if !runs::advance(ctx, run, entries.len(), counts).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// Reads the pages of a sitemap one by one, as politely as any page, and enriches the cards with their SKUs.
async fn visit(ctx: &PluginContext, run: i64, address: &Url, mut pages: Vec<Url>) -> Result<()> {
    pages.retain(|page| is_same_site(page, address));
    pages.truncate(MAX_PAGES);
    for part in pages.chunks(PAGE_STEP) {
        let mut counts = Counts::default();
        for page in part {
            let product = match product_at(ctx, page, false).await {
                Ok(product) => product,
                Err(error) if error.is_cancelled() => return Err(error),
                // A page without a product, one that is away: the others count all the same.
                Err(error) => {
                    counts.fail(
                        page.as_str(),
                        error.status().map_or("It failed; the log says why.", |_| error.message()),
                    );
                    continue;
                }
            };
            let Some(sku) = product.facts.sku.clone() else {
                counts.unmatched += 1;
                continue;
            };
            match runs::cards(ctx, &[&sku]).await?.get(&sku) {
                Some(card) => write(ctx, *card, &source_key(ctx, page), &product, &mut counts).await?,
                None => counts.unmatched += 1,
            }
        }
        if !runs::advance(ctx, run, pages.len(), counts).await? {
            return Ok(());
        }
    }
    Ok(())
}

/// The source of the site that `address` is on.
fn source_key(ctx: &PluginContext, address: &Url) -> String {
    format!("{}:{}", ctx.name(), address.host_str().unwrap_or_default())
}

/// Writes as the plugin itself. A card that takes no more is counted, the others go on.
async fn write(ctx: &PluginContext, card: Uuid, key: &str, product: &Product, counts: &mut Counts) -> Result<()> {
    let user = ctx.service_user().await?.id;
    match ctx.enrich_card(card, user, key, KIND, product).await {
        Ok(_) => counts.enriched += 1,
        Err(error) if error.is_cancelled() => return Err(error),
        Err(error) => counts.fail(product.facts.sku.as_deref().unwrap_or_default(), error.message()),
    }
    Ok(())
}

/// A sitemap speaks for its own site alone.
fn is_same_site(one: &Url, other: &Url) -> bool {
    one.host() == other.host() && one.port_or_known_default() == other.port_or_known_default()
}
