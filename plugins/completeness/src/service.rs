//! What the plugin does: score cards, keep the scores, and say which cards need work most.

use cardinal_plugin::{Card, Level, PluginContext, Result, Uuid, json};
use serde::Serialize;

use crate::check::{self, Score};
use crate::scores::{self, Progress, ScoreRow, WorstCard, WorstQuery};
use crate::settings::Settings;

/// The data kind of `provides_kinds` in the manifest.
pub(crate) const KIND: &str = "completeness";

#[derive(Serialize)]
pub(crate) struct CardScore {
    pub card_id: Uuid,
    #[serde(flatten)]
    pub score: Score,
}

/// A card's score as it is now, whatever is kept of it.
pub(crate) async fn card(ctx: &PluginContext, card_id: Uuid) -> Result<CardScore> {
    let settings: Settings = ctx.settings()?;
    let card = ctx.read_card(card_id, ctx.user()?.id).await?;
    let score = check::score(&card, &settings, KIND);
    scores::keep(ctx, &[row(&card, &score, card.version)]).await?;
    Ok(CardScore { card_id, score })
}

fn row(card: &Card, score: &Score, version: i64) -> ScoreRow {
    ScoreRow { card_id: card.id, score: score.score, missing: score.missing.clone(), version }
}

/// Scores cards in the plugin's own name and keeps what came of it.
pub(crate) async fn score_all(ctx: &PluginContext, cards: &[Card], settings: &Settings) -> Result<()> {
    let user = ctx.service_user().await?.id;
    let mut rows = Vec::with_capacity(cards.len());
    for card in cards {
        let score = check::score(card, settings, KIND);
        let version = publish(ctx, user, card, &score, settings.write_to_cards).await?;
        rows.push(row(card, &score, version));
    }
    scores::keep(ctx, &rows).await?;
    ctx.metrics().count("cards_scored", cards.len() as u64);
    Ok(())
}

/// Writes the score into its card, or removes it from there, when the card does not have it so. Gives the card's
/// version.
async fn publish(ctx: &PluginContext, user: Uuid, card: &Card, score: &Score, is_wanted: bool) -> Result<i64> {
    let key = format!("{}:score", ctx.name());
    let data = json!({ "score": score.score, "missing": score.missing });
    let known = card.attributes.get("sources").and_then(|sources| sources.get(&key));
    let written = match (is_wanted, known) {
        (true, Some(known)) if known["data"] == data => return Ok(card.version),
        (true, _) => ctx.enrich_card(card.id, user, &key, KIND, &data).await,
        (false, Some(_)) => ctx.remove_source(card.id, user, &key).await,
        (false, None) => return Ok(card.version),
    };
    match written {
        Err(error) if error.is_cancelled() || error.is_retryable() => Err(error),
        // The card is gone, or full: the others go on.
        Err(error) => {
            let fields = json!({ "card_id": card.id, "reason": error.to_string() });
            ctx.log_with(Level::Warn, "a score was not written into its card", &fields);
            Ok(card.version)
        }
        written => written,
    }
}

pub(crate) async fn worst(ctx: &PluginContext, query: &WorstQuery<'_>) -> Result<Vec<WorstCard>> {
    scores::worst(ctx, query).await
}

#[derive(Serialize)]
pub(crate) struct Summary {
    cards: i64,
    complete: i64,
    average: Option<f64>,
    tenths: [i64; 10],
    missing: Vec<BrokenRule>,
    walk: Progress,
}

#[derive(Serialize)]
struct BrokenRule {
    rule: String,
    text: String,
    cards: i64,
}

pub(crate) async fn summary(ctx: &PluginContext) -> Result<Summary> {
    let settings: Settings = ctx.settings()?;
    let (mut cards, mut complete, mut sum, mut tenths) = (0, 0, 0, [0; 10]);
    for part in scores::tenths(ctx, &settings.statuses).await? {
        (cards, complete, sum) = (cards + part.cards, complete + part.complete, sum + part.sum);
        if let Some(tenth) = usize::try_from(part.tenth).ok().and_then(|at| tenths.get_mut(at)) {
            *tenth = part.cards;
        }
    }
    let average = (cards > 0).then(|| (10.0 * sum as f64 / cards as f64).round() / 10.0);
    let broken = scores::broken_rules(ctx, &settings.statuses).await?;
    let describe = |(rule, cards): (String, i64)| BrokenRule { text: check::text_of(&rule, &settings), rule, cards };
    let missing = broken.into_iter().map(describe).collect();
    let walk = scores::progress(ctx, &settings.fingerprint()?).await?;
    Ok(Summary { cards, complete, average, tenths, missing, walk })
}
