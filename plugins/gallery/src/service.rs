//! What the plugin does: list a card's pictures, make thumbnails of them, keep which one was chosen.

use std::time::Duration;

use bytes::Bytes;
use cardinal_plugin::{Card, Error, Level, PluginContext, Result, Uuid, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::cache::{self, CachedPicture};
use crate::fetch::{self, FetchError};
use crate::pictures::{self, MAIN_KIND, Pictures};
use crate::settings::Settings;
use crate::thumbnail::{self, PictureError, Thumbnail};

/// Pictures that are read at a time: with the largest file this is what reading takes of the memory.
static READS: Semaphore = Semaphore::const_new(6);
/// Pictures that are decoded at a time: each takes megabytes and a core.
static DECODES: Semaphore = Semaphore::const_new(2);
/// How long a call waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(20);
/// When a call may come again that got none.
const BUSY_PAUSE: Duration = Duration::from_secs(2);

/// The key of the choice in the card.
fn choice_key(ctx: &PluginContext) -> String {
    format!("{}:main", ctx.name())
}

async fn read_card(ctx: &PluginContext, card_id: Uuid) -> Result<Card> {
    ctx.read_card(card_id, ctx.user()?.id).await
}

pub(crate) async fn list(ctx: &PluginContext, card_id: Uuid) -> Result<Pictures> {
    Ok(Pictures::from_card(&read_card(ctx, card_id).await?, &choice_key(ctx)))
}

/// The thumbnail of one of the card's pictures. Others are not read: this is no proxy for any address.
pub(crate) async fn thumbnail(ctx: &PluginContext, card_id: Uuid, url: &str, size: u32) -> Result<Thumbnail> {
    if !thumbnail::SIZES.contains(&size) {
        return Err(Error::unprocessable("A thumbnail has 160, 320 or 640 pixels.").field("/size", "is another number"));
    }
    let pictures = list(ctx, card_id).await?;
    if !pictures.has(url) && pictures.main.as_ref().is_none_or(|main| main.url != url) {
        return Err(Error::not_found("The card has no such picture."));
    }
    let settings: Settings = ctx.settings()?;
    let known = match cache::find(ctx, url, size, settings.keep_days).await? {
        Some(known) => {
            ctx.metrics().count("cache_hits", 1);
            known
        }
        None => {
            let made = make(ctx, url, size, &settings).await?;
            cache::keep(ctx, url, size, &made, settings.max_thumbnails()).await?;
            made
        }
    };
    match known {
        CachedPicture::Thumbnail(thumbnail) => Ok(thumbnail),
        CachedPicture::Unusable { code, detail } => {
            Err(Error::with_code(422, &code, detail).field("/url", "cannot be shown"))
        }
    }
}

/// Reads and decodes the picture. What is its own fault is an outcome to be kept, other failures are not.
async fn make(ctx: &PluginContext, url: &str, size: u32, settings: &Settings) -> Result<CachedPicture> {
    let file = {
        let _turn = turn(&READS).await?;
        fetch::file(ctx, url, settings.max_bytes()).await
    };
    let file = match file {
        Ok(file) => file,
        Err(error) => return unread(ctx, url, error),
    };
    ctx.metrics().count("pictures_read", 1);
    match decode(file, size, settings.max_pixels()).await? {
        Ok(thumbnail) => Ok(CachedPicture::Thumbnail(thumbnail)),
        Err(error) => {
            log(ctx, url, &error);
            Ok(CachedPicture::Unusable { code: "picture-unusable".into(), detail: sentence(&error.to_string()) })
        }
    }
}

/// Decoding on a thread of the host would hold up everybody's requests.
async fn decode(file: Bytes, size: u32, max_pixels: u64) -> Result<Result<Thumbnail, PictureError>> {
    let turn = turn(&DECODES).await?;
    let work = tokio::task::spawn_blocking(move || {
        let _turn = turn; // until the work is done, also when its caller has left
        thumbnail::make(&file, size, max_pixels)
    });
    Ok(work.await?)
}

async fn turn(turns: &'static Semaphore) -> Result<tokio::sync::SemaphorePermit<'static>> {
    match timeout(TURN_TIMEOUT, turns.acquire()).await {
        Ok(turn) => Ok(turn?),
        Err(_) => {
            let detail = "Many pictures are being read at the moment: try again in a few seconds.";
            Err(Error::with_code(503, "gallery-busy", detail).retry_after(BUSY_PAUSE))
        }
    }
}

fn unread(ctx: &PluginContext, url: &str, error: FetchError) -> Result<CachedPicture> {
    log(ctx, url, &error);
    let detail = sentence(&error.to_string());
    let unusable = |code: &str| Ok(CachedPicture::Unusable { code: code.into(), detail: detail.clone() });
    match error {
        FetchError::NotAWebAddress | FetchError::TooManyRedirects | FetchError::TooLarge(_) => {
            unusable("picture-unusable")
        }
        // Not kept: the operator may open the network the next moment.
        FetchError::OutOfReach(_) | FetchError::NoSuchHost(_) => {
            Err(Error::with_code(422, "address-refused", detail).field("/url", "cannot be shown"))
        }
        FetchError::Status(status) if status.is_client_error() => unusable("picture-unusable"),
        FetchError::Timeout => Err(Error::with_code(504, "upstream-timeout", detail)),
        FetchError::Status(_) | FetchError::Connect(_) | FetchError::Tls(_) | FetchError::Http(_) => {
            Err(Error::bad_gateway(detail))
        }
        FetchError::Host(error) => Err(error),
    }
}

/// Keeps the choice in the card, as the user who makes it. Gives the card's new version.
pub(crate) async fn choose(ctx: &PluginContext, card_id: Uuid, url: &str) -> Result<i64> {
    if !list(ctx, card_id).await?.has(url) {
        let error = Error::unprocessable("The card has no such picture: choose one that the list has.");
        return Err(error.field("/url", "is no picture of this card"));
    }
    ctx.enrich_card(card_id, ctx.user()?.id, &choice_key(ctx), MAIN_KIND, &pictures::choice(url)).await
}

/// Removes the choice; a card without one stays as it is.
pub(crate) async fn forget(ctx: &PluginContext, card_id: Uuid) -> Result<i64> {
    let card = read_card(ctx, card_id).await?;
    let key = choice_key(ctx);
    if !card.sources().contains_key(&key) {
        return Ok(card.version);
    }
    ctx.remove_source(card_id, ctx.user()?.id, &key).await
}

/// The failure with its causes, for the log alone.
fn log(ctx: &PluginContext, url: &str, error: &dyn std::error::Error) {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        reason = format!("{reason}: {deeper}");
        cause = deeper.source();
    }
    ctx.log_with(Level::Info, "a picture was not read", &json!({ "url": url, "reason": reason }));
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}
