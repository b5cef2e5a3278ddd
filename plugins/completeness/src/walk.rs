//! The plugin's own tasks: one scores what changes, event by event; one walks over all cards, when the rules have
//! changed or events are not known. Both keep their place in the database and go on after a restart; of several hosts
//! one walks.

use std::time::Duration;

use cardinal_plugin::{CardChange, CardEvents, CardQuery, Error, Level, PluginContext, Result, Uuid};
use tokio::sync::Notify;

use crate::scores;
use crate::service;
use crate::settings::Settings;

/// Cards that are read at a time: the host's largest page.
const PAGE: u32 = 200;
/// Between two pages, so that the walk leaves the machine to others.
const STEP_PAUSE: Duration = Duration::from_millis(50);
/// How often is looked whether there is something to do.
const IDLE: Duration = Duration::from_secs(10);
/// After a failure.
const RETRY: Duration = Duration::from_secs(30);
/// When all cards are looked at again although the rules are the same: whatever went wrong mends itself in a day.
const RECHECK_HOURS: i32 = 24;

/// Somebody has asked for a walk. Of the whole library: instances come and go with the settings.
static WAKE: Notify = Notify::const_new();

pub(crate) fn start(ctx: &PluginContext) {
    drop(ctx.spawn(run(ctx.as_plugin())));
    drop(ctx.spawn(follow(ctx.as_plugin())));
}

async fn follow(ctx: PluginContext) {
    let after = loop {
        match scores::event_cursor(&ctx).await {
            Ok(after) => break after,
            Err(error) if error.is_cancelled() => return,
            Err(error) => ctx.log(Level::Warn, format!("card events wait: {error}")),
        }
        tokio::time::sleep(RETRY).await;
    };
    ctx.follow_card_events(after, |page| deal_with(ctx.clone(), page)).await;
}

/// Scores the cards of a page of events that are not scored since. Every host does so; what one has done, others skip.
pub(crate) async fn deal_with(ctx: PluginContext, page: CardEvents) -> Result<()> {
    if page.restart || page.items.iter().any(|event| event.what == CardChange::Bulk) {
        restart(&ctx).await?;
    }
    let foreign = page.items.iter().filter(|event| event.plugin() != Some(ctx.name()));
    let (ids, versions): (Vec<Uuid>, Vec<i64>) =
        foreign.filter_map(|event| Some((event.card_id?, event.version.unwrap_or(i64::MAX)))).unzip();
    let (settings, user) = (ctx.settings()?, ctx.service_user().await?.id);
    let mut cards = Vec::new();
    for id in scores::outdated(&ctx, &ids, &versions).await? {
        match ctx.read_card(id, user).await {
            Ok(card) => cards.push(card),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    service::score_all(&ctx, &cards, &settings).await?;
    scores::keep_event_cursor(&ctx, page.cursor).await
}

/// Lets the walk begin anew, now.
pub(crate) async fn restart(ctx: &PluginContext) -> Result<()> {
    scores::restart_walk(ctx).await?;
    WAKE.notify_one();
    Ok(())
}

async fn run(ctx: PluginContext) {
    let holder = Uuid::new_v4();
    loop {
        let pause = match step(&ctx, holder).await {
            Ok(true) => STEP_PAUSE,
            Ok(false) => IDLE,
            Err(error) if error.is_cancelled() => return,
            Err(error) => {
                ctx.log(Level::Warn, format!("the walk over the cards pauses: {error}"));
                RETRY
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = WAKE.notified() => {}
        }
    }
}

/// One page of the walk, when it is due and ours. Whether there may be more to do.
pub(crate) async fn step(ctx: &PluginContext, holder: Uuid) -> Result<bool> {
    let settings: Settings = ctx.settings()?;
    let rules = settings.fingerprint()?;
    let Some(place) = scores::take_walk(ctx, holder, &rules, RECHECK_HOURS).await? else { return Ok(false) };
    if place.done == 0 {
        scores::count_cards(ctx).await?;
    }
    // The order of the primary key: cards that are added meanwhile come last, none is passed over.
    let query = CardQuery::new().sort("created_at").limit(PAGE);
    let query = place.next_cursor.as_deref().map_or(query.clone(), |cursor| query.cursor(cursor));
    let page = match ctx.list_cards(query).await {
        Err(error) if is_invalid_cursor(&error) => {
            scores::restart_walk(ctx).await?;
            return Ok(true);
        }
        page => page?,
    };
    service::score_all(ctx, &page.items, &settings).await?;
    let cards = i64::try_from(page.items.len()).unwrap_or(0);
    scores::advance(ctx, holder, &rules, cards, page.next_cursor.as_deref()).await?;
    Ok(page.next_cursor.is_some())
}

/// The host may read its cursors no longer: after a restore, or by another secret.
fn is_invalid_cursor(error: &Error) -> bool {
    error.code() == Some("invalid-cursor")
}
