//! Many cards at once: a feed, or the pages of a sitemap, in the plugin's own task. What it does is noted in `runs`.

use std::future::Future;
use std::time::Duration;

use cardinal_plugin::{Error, Level, PluginContext, Result, Uuid, json};
use time::OffsetDateTime;
use tokio::time::{Instant, sleep};
use url::Url;

use crate::fetch::{self, Visit};
use crate::politeness::MAX_REST;
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
/// A run notes this often that it is alive, and looks whether it was cancelled.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Visits of one address whose site wants a pause first; the run waits as long as the site asks.
const MAX_VISITS: usize = 4;
/// How long a tool waits for a run, and how often it looks.
const WAIT: Duration = Duration::from_secs(45);
const LOOK: Duration = Duration::from_millis(500);

/// Begins a run as the user who asks for it; it goes on as the plugin itself.
pub(crate) async fn start(ctx: &PluginContext, address: &str) -> Result<Run> {
    let (user, address) = (ctx.user()?, parse_address(address)?);
    let run = runs::begin(ctx, address.as_str(), &user.name).await?;
    let (own, id) = (ctx.as_plugin(), run.id);
    drop(ctx.spawn(async move {
        let outcome = tokio::select! {
            outcome = go(&own, id, &address) => outcome,
            () = keep_alive(&own, id) => return,
        };
        let failure = match outcome {
            Ok(()) => None,
            Err(error) => {
                own.log_with(
                    Level::Warn,
                    "a feed was not gone through",
                    &json!({ "url": address, "reason": error.to_string() }),
                );
                Some(Problem { entry: address.to_string(), detail: detail(&error).to_owned() })
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

/// Keeps a run alive, whatever it waits for, until somebody cancels it.
async fn keep_alive(ctx: &PluginContext, run: i64) {
    loop {
        sleep(HEARTBEAT).await;
        match runs::touch(ctx, run).await {
            Ok(true) => {}
            Ok(false) => return,
            // The database may be back before the run counts as interrupted.
            Err(error) => ctx.log(Level::Warn, format!("run {run} could not note that it is alive: {error}")),
        }
    }
}

/// What a run's problems say of an error; what is not for clients is in the log.
fn detail(error: &Error) -> &str {
    error.status().map_or("It failed; the log says why.", |_| error.message())
}

async fn go(ctx: &PluginContext, run: i64, address: &Url) -> Result<()> {
    match retry_after_pauses(|| read(ctx, address)).await? {
        Feed::Products(entries) => enrich(ctx, run, address, &entries).await,
        Feed::Pages(pages) => visit(ctx, run, address, pages, Counts::default()).await,
        Feed::Sitemaps(sitemaps) => {
            let (pages, counts) = read_all(ctx, address, &sitemaps).await?;
            visit(ctx, run, address, pages, counts).await
        }
    }
}

/// The pages of the sitemaps that a list names. One that is damaged or away is a problem of the run, and the others count.
async fn read_all(ctx: &PluginContext, address: &Url, sitemaps: &[Url]) -> Result<(Vec<Url>, Counts)> {
    let (mut pages, mut counts) = (Vec::new(), Counts::default());
    for sitemap in sitemaps.iter().filter(|sitemap| is_same_site(sitemap, address)).take(MAX_SITEMAPS) {
        match retry_after_pauses(|| read(ctx, sitemap)).await {
            Ok(Feed::Pages(more)) => pages.extend(more),
            Ok(_) => counts.fail(sitemap.as_str(), "It is not a sitemap that lists pages."),
            Err(error) if error.is_cancelled() => return Err(error),
            Err(error) => counts.fail(sitemap.as_str(), detail(&error)),
        }
    }
    Ok((pages, counts))
}

/// Asks a site again that is busy, or wants to be left alone for a while, after the time that it asks for.
async fn retry_after_pauses<T, F: Future<Output = Result<T>>>(visit: impl Fn() -> F) -> Result<T> {
    for _ in 1..MAX_VISITS {
        let outcome = visit().await;
        match outcome.as_ref().err().and_then(Error::retry_delay) {
            Some(wait) => sleep(wait.min(MAX_REST)).await,
            None => return outcome,
        }
    }
    visit().await
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

/// Reads the pages of a sitemap one by one, as politely as any page, and enriches the cards with their SKUs. `counts` is of
/// the sitemaps that could not be read.
async fn visit(ctx: &PluginContext, run: i64, address: &Url, mut pages: Vec<Url>, counts: Counts) -> Result<()> {
    pages.retain(|page| is_same_site(page, address));
    pages.truncate(MAX_PAGES);
    let total = pages.len() + usize::try_from(counts.failed).unwrap_or_default();
    if !runs::advance(ctx, run, total, counts).await? {
        return Ok(());
    }
    for part in pages.chunks(PAGE_STEP) {
        let mut counts = Counts::default();
        for page in part {
            let product = match retry_after_pauses(|| product_at(ctx, page, false)).await {
                Ok(product) => product,
                Err(error) if error.is_cancelled() => return Err(error),
                // A page without a product, one that is away: the others count all the same.
                Err(error) => {
                    counts.fail(page.as_str(), detail(&error));
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
        if !runs::advance(ctx, run, total, counts).await? {
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
