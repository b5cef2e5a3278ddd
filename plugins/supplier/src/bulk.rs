//! Many cards at once: a feed, or the pages of a sitemap, as a job that the host runs, shows and cancels.

use std::collections::HashMap;
use std::future::Future;

use cardinal_plugin::futures::{StreamExt, stream};
use cardinal_plugin::{Error, Job, PluginContext, Result, Uuid, json};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tokio::time::sleep;
use url::Url;

use crate::cache;
use crate::fetch::{self, Visit};
use crate::politeness::MAX_REST;
use crate::service::{KIND, SITES, failed, parse_address, product_at, sentence, source_key};
use crate::settings::Settings;
use supplier_pages::product::feed::{self, Entry, Feed};
use supplier_pages::product::{Product, charset};

/// As the manifest calls it.
pub(crate) const JOB: &str = "feed";
/// Entries between two checkpoints.
const STEP: usize = 100;
/// Cards that are written at the same time.
const WRITES: usize = 8;
const MAX_PAGES: usize = 5_000;
/// Sitemaps that a list of them leads to.
const MAX_SITEMAPS: usize = 20;
/// Visits of one address whose site wants a pause first; the job waits as long as the site asks.
const MAX_VISITS: usize = 4;

#[derive(Deserialize)]
struct FeedArgs {
    url: String,
}

/// How far a job is: its checkpoint.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Reached {
    entries: usize,
    enriched: u64,
    unmatched: u64,
}

/// Queues the job for the user who asks for it.
pub(crate) async fn start(ctx: &PluginContext, address: &str) -> Result<Uuid> {
    let address = parse_address(address)?;
    ctx.start_job(JOB, &json!({ "url": address.as_str() })).await
}

/// The job. What it writes, it writes for whoever started it.
pub(crate) async fn go_through(ctx: PluginContext, job: Job) -> Result<()> {
    let FeedArgs { url } = job.args()?;
    let address = parse_address(&url)?;
    let run = Run { ctx: &ctx, job: &job, user: ctx.user()?.id, reached: job.checkpoint()?.unwrap_or_default() };
    job.progress(0, None, "Reading the feed");
    match retry_after_pauses(|| read(&ctx, &address)).await? {
        Feed::Products(entries) => run.enrich(&address, &entries).await,
        Feed::Pages(pages) => run.visit(&address, pages).await,
        Feed::Sitemaps(sitemaps) => {
            let pages = run.read_all(&address, &sitemaps).await?;
            run.visit(&address, pages).await
        }
    }
}

/// A run of the job, which may go on where an earlier one was.
struct Run<'j> {
    ctx: &'j PluginContext,
    job: &'j Job,
    user: Uuid,
    reached: Reached,
}

impl Run<'_> {
    /// The pages of the sitemaps that a list names. One that is damaged or away is noted, and the others count.
    async fn read_all(&self, address: &Url, sitemaps: &[Url]) -> Result<Vec<Url>> {
        let mut pages = Vec::new();
        for sitemap in sitemaps.iter().filter(|sitemap| is_same_site(sitemap, address)).take(MAX_SITEMAPS) {
            match retry_after_pauses(|| read(self.ctx, sitemap)).await {
                Ok(Feed::Pages(more)) => pages.extend(more),
                Ok(_) => self.fail(sitemap.as_str(), "It is not a sitemap that lists pages."),
                Err(error) if error.is_cancelled() => return Err(error),
                Err(error) => self.fail(sitemap.as_str(), detail(&error)),
            }
        }
        Ok(pages)
    }

    /// Writes what a feed says into the cards with its SKUs.
    async fn enrich(mut self, address: &Url, entries: &[Entry]) -> Result<()> {
        let now = OffsetDateTime::now_utc().truncate_to_second();
        // Beside what the site's pages say: a feed often says less, and would take it away.
        let key = format!("{}:feed", source_key(self.ctx, address));
        for part in entries.get(self.reached.entries..).unwrap_or_default().chunks(STEP) {
            let skus: Vec<&str> = part.iter().filter_map(|entry| entry.facts.sku.as_deref()).collect();
            let known = cache::cards(self.ctx, &skus).await?;
            // The last entry for a card is the one that counts.
            let mut wanted = HashMap::new();
            for entry in part {
                match entry.facts.sku.as_deref().and_then(|sku| known.get(sku)) {
                    Some(card) => drop(wanted.insert(*card, entry)),
                    None => self.reached.unmatched += 1,
                }
            }
            let mut writes = Vec::with_capacity(wanted.len());
            for (card, entry) in wanted {
                let url = entry.url.clone().unwrap_or_else(|| address.clone());
                writes.push(self.write(card, &key, Product { facts: entry.facts.clone(), url, fetched_at: now }));
            }
            let written: Vec<Result<bool>> = stream::iter(writes).buffer_unordered(WRITES).collect().await;
            for is_enriched in written {
                self.reached.enriched += u64::from(is_enriched?);
            }
            self.advance(part.len(), entries.len()).await?;
        }
        self.advance(0, entries.len()).await
    }

    /// Reads the pages of a sitemap one by one, as politely as any page, and enriches the cards with their SKUs.
    async fn visit(mut self, address: &Url, mut pages: Vec<Url>) -> Result<()> {
        pages.retain(|page| is_same_site(page, address));
        pages.truncate(MAX_PAGES);
        self.advance(0, pages.len()).await?;
        for page in pages.get(self.reached.entries..).unwrap_or_default() {
            match retry_after_pauses(|| product_at(self.ctx, page, false)).await {
                Ok(product) => self.keep(page, product).await?,
                Err(error) if error.is_cancelled() => return Err(error),
                // A page without a product, one that is away: the others count all the same.
                Err(error) => self.fail(page.as_str(), detail(&error)),
            }
            self.advance(1, pages.len()).await?;
        }
        Ok(())
    }

    /// Writes what a page says into the card with its SKU.
    async fn keep(&mut self, page: &Url, product: Product) -> Result<()> {
        let card = match product.facts.sku.as_deref() {
            Some(sku) => cache::cards(self.ctx, &[sku]).await?.remove(sku),
            None => None,
        };
        match card {
            Some(card) => {
                let is_enriched = self.write(card, &source_key(self.ctx, page), product).await?;
                self.reached.enriched += u64::from(is_enriched);
            }
            None => self.reached.unmatched += 1,
        }
        Ok(())
    }

    /// Whether the card has it now. One that takes no more is noted, the others go on.
    async fn write(&self, card: Uuid, key: &str, product: Product) -> Result<bool> {
        match self.ctx.enrich_card(card, self.user, key, KIND, &product).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_cancelled() => Err(error),
            Err(error) => {
                self.fail(product.facts.sku.as_deref().unwrap_or_default(), detail(&error));
                Ok(false)
            }
        }
    }

    fn fail(&self, entry: &str, detail: &str) {
        self.job.fail("not-enriched", detail, &json!({ "entry": entry }));
    }

    /// Says how far the job is, and keeps it.
    async fn advance(&mut self, entries: usize, total: usize) -> Result<()> {
        self.reached.entries += entries;
        let Reached { entries, enriched, unmatched } = self.reached;
        let text = format!("Enriched: {enriched}. Without a card: {unmatched}.");
        self.job.progress(number(entries), Some(number(total)), text);
        self.job.save(&self.reached).await
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// What a job's errors say of one; what is not for clients is in the log.
fn detail(error: &Error) -> &str {
    error.status().map_or("It failed; the log says why.", |_| error.message())
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

/// A sitemap speaks for its own site alone.
fn is_same_site(one: &Url, other: &Url) -> bool {
    one.host() == other.host() && one.port_or_known_default() == other.port_or_known_default()
}
