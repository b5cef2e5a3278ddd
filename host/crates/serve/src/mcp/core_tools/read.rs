//! Tools that read cards. What they answer fits a model: little by default, and bounded.

use std::collections::BTreeMap;

use rmcp::model::JsonObject;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::{
    ANSWER_LIMIT, Answer, Cards, PAGE_LIMIT, attributes, card_id, parsed,
    view::{Members, Omissions, One, link},
};
use crate::http::error::{ApiError, ApiResult};
use crate::mcp::Visit;
use cardinal_cards::{card::Card, filter::ListQuery};
use cardinal_store::cards::history::HistoryEntry;

/// Cards or changes of a page when no other number is asked for.
const DEFAULT_PAGE_SIZE: u32 = 25;
/// Sources that a note names of a card.
const NAMED_SOURCES: usize = 20;

/// A page as it is answered.
#[derive(Serialize)]
struct PageView {
    items: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_estimate: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// Items as JSON, until a page is full. The first one is always there.
#[derive(Default)]
struct Items {
    items: Vec<Box<RawValue>>,
    bytes: usize,
}

impl Items {
    /// Whether there was room for it.
    fn add(&mut self, item: &impl Serialize, smaller: impl FnOnce() -> ApiResult<Box<RawValue>>) -> ApiResult<bool> {
        let mut item = to_raw_value(item).map_err(ApiError::internal)?;
        if item.get().len() > PAGE_LIMIT {
            item = smaller()?;
        }
        if !self.items.is_empty() && self.bytes + item.get().len() > PAGE_LIMIT {
            return Ok(false);
        }
        self.bytes += item.get().len();
        self.items.push(item);
        Ok(true)
    }
}

pub(super) async fn search(cards: &Cards, arguments: JsonObject) -> ApiResult<Answer> {
    let mut query: ListQuery = parsed(arguments)?;
    let members = match query.fields.take() {
        Some(list) => Members::parse(&list)?,
        None => Members::lean(),
    };
    query.limit.get_or_insert(DEFAULT_PAGE_SIZE);
    let listing = cards.catalogue.list(&query, members.has("attributes")).await?;
    let kinds = match members.has("kinds") {
        true => cards.catalogue.kinds(&listing.cards.iter().map(|card| card.id).collect::<Vec<_>>()).await?,
        false => Default::default(),
    };
    let mut items = Items::default();
    for card in &listing.cards {
        let smaller = || to_raw_value(&members.show_omitting(card, &kinds)).map_err(ApiError::internal);
        if !items.add(&members.show(card, &kinds), smaller)? {
            break;
        }
    }
    let shown = items.items.len();
    let next_cursor = cards.catalogue.next_cursor(&listing, shown)?;
    let ways = "narrow by `q`, `status`, `kind`, `missing_kind`, `plugin` or `updated_since`, or go on with `cursor`";
    // Only before the first page is it known how many came before.
    let total = match query.cursor.is_none() && next_cursor.is_some() {
        true => cards.catalogue.total(&listing).await?,
        false => None,
    };
    let more =
        total.map(|total| total.saturating_sub(i64::try_from(shown).unwrap_or(i64::MAX))).filter(|more| *more > 0);
    let note = next_cursor.is_some().then(|| note(more, ways, shown < listing.cards.len()));
    let total_estimate = Some(total.unwrap_or(listing.total_estimate));
    let view = PageView { items: items.items, next_cursor, total_estimate, note };
    Answer::new(&view, listing.cards.iter().take(shown).map(link).collect())
}

/// Says that there is more, and how to get at it.
fn note(more: Option<i64>, ways: &str, is_cut: bool) -> String {
    let cut = match is_cut {
        true => format!("The page ends early, at {PAGE_LIMIT} bytes. "),
        false => String::new(),
    };
    match more {
        Some(more) => format!("{cut}{more} more: {ways}."),
        None => format!("{cut}There are more: {ways}."),
    }
}

/// Which card, and what of it.
#[derive(Deserialize)]
struct GetArguments {
    id: String,
    fields: Option<String>,
    source: Option<String>,
}

pub(super) async fn get(cards: &Cards, arguments: JsonObject) -> ApiResult<Answer> {
    let wanted: GetArguments = parsed(arguments)?;
    let members = match &wanted.fields {
        Some(list) => Members::parse(list)?,
        None => Members::all(),
    };
    let is_default = wanted.fields.is_none() && wanted.source.is_none();
    let mut card = cards.catalogue.card(card_id(&wanted.id)?).await?;
    let kinds = cards.catalogue.kinds(&[card.id]).await?;
    if let Some(key) = &wanted.source {
        card.attributes = one_source(&card, key)?;
    }
    let mut one = One { item: members.show(&card, &kinds), note: None };
    if is_default && card.attributes.get().len() > PAGE_LIMIT {
        one = One { item: members.show_omitting(&card, &kinds), note: Some(how_to_read_less(&card)) };
    }
    match Answer::new(&one, vec![link(&card)])? {
        Answer::Object(text, _) if text.len() > ANSWER_LIMIT => Ok(too_large(text.len(), &card)),
        answer => Ok(answer),
    }
}

/// Attributes with this source alone.
fn one_source(card: &Card, key: &str) -> ApiResult<Box<RawValue>> {
    let entry = attributes::sources(card)
        .map_err(ApiError::internal)?
        .remove(key)
        .ok_or_else(|| ApiError::not_found("source"))?;
    let attributes = BTreeMap::from([("sources", BTreeMap::from([(key, entry)]))]);
    to_raw_value(&attributes).map_err(ApiError::internal)
}

fn too_large(bytes: usize, card: &Card) -> Answer {
    let refusal = format!("answer-too-large: it has {bytes} bytes, and an answer at most {ANSWER_LIMIT}.");
    Answer::TooLarge(format!("{refusal} {}", how_to_read_less(card)))
}

fn how_to_read_less(card: &Card) -> String {
    let sources = attributes::sources(card).unwrap_or_default();
    let named: Vec<String> = sources
        .iter()
        .take(NAMED_SOURCES)
        .map(|(key, entry)| format!("`{key}` ({} bytes)", entry.get().len()))
        .collect();
    let more = match sources.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let of_sources = match sources.len() {
        0 => "It has no sources.".to_owned(),
        count => format!("It has {count} sources; read one at a time with `source`: {}{more}.", named.join(", ")),
    };
    format!("The card's attributes have {} bytes. {of_sources}", card.attributes.get().len())
}

pub(super) async fn export(cards: &Cards, visit: &Visit, arguments: JsonObject) -> ApiResult<Answer> {
    let link = cards.exports.link(&cards.catalogue, &visit.caller, arguments).await?;
    Answer::new(&link.about, vec![link.resource])
}

#[derive(Deserialize)]
struct HistoryArguments {
    id: String,
    limit: Option<i64>,
    cursor: Option<String>,
}

/// A change whose content was too large for the answer.
#[derive(Serialize)]
struct OmittedLine<'a> {
    #[serde(flatten)]
    line: &'a HistoryEntry,
    omitted: Omissions,
}

pub(super) async fn history(cards: &Cards, arguments: JsonObject) -> ApiResult<Answer> {
    let wanted: HistoryArguments = parsed(arguments)?;
    let limit = wanted.limit.unwrap_or(DEFAULT_PAGE_SIZE.into());
    let id = card_id(&wanted.id)?;
    let history = cards.catalogue.history(id, Some(limit), wanted.cursor.as_deref()).await?;
    let mut items = Items::default();
    for line in &history.lines {
        if !items.add(line, || without_change(line))? {
            break;
        }
    }
    let shown = items.items.len();
    let next_cursor = cards.catalogue.history_cursor(&history, shown)?;
    let note = next_cursor.is_some().then(|| note(None, "go on with `cursor`", shown < history.lines.len()));
    Answer::new(&PageView { items: items.items, next_cursor, total_estimate: None, note }, Vec::new())
}

fn without_change(line: &HistoryEntry) -> ApiResult<Box<RawValue>> {
    let change = to_raw_value(&BTreeMap::<String, ()>::new()).map_err(ApiError::internal)?;
    let omitted = Omissions { attributes: None, change: Some(line.change.get().len()) };
    let (actor, action) = (line.actor.clone(), line.action.clone());
    let line = HistoryEntry { id: line.id, version: line.version, at: line.at, actor, action, change };
    to_raw_value(&OmittedLine { line: &line, omitted }).map_err(ApiError::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_full_at_its_bytes_and_never_empty() {
        let mut items = Items::default();
        let smaller = || Ok(to_raw_value("smaller").unwrap());
        assert!(items.add(&"x".repeat(PAGE_LIMIT), smaller).unwrap());
        assert_eq!(items.items[0].get(), "\"smaller\"");
        let half = "x".repeat(PAGE_LIMIT / 2);
        assert!(items.add(&half, smaller).unwrap() && !items.add(&half, smaller).unwrap());
        assert!(items.bytes <= PAGE_LIMIT);
    }

    #[test]
    fn a_note_says_what_there_is_more() {
        assert_eq!(note(Some(7), "narrow by `q`", false), "7 more: narrow by `q`.");
        assert!(note(None, "x", true).starts_with("The page ends early"));
    }
}
