//! Cards as resources: `card://{id}`, their list, and completing an id. Exports of cards are resources, too, which no
//! list shows.

use rmcp::{
    ErrorData,
    model::{CacheScope, ListResourcesResult, ReadResourceResult, ResourceContents, ResourceTemplate},
};
use uuid::Uuid;

use super::{
    card_resource::{JSON, SCHEME, describe, refusal},
    core_tools::{ANSWER_LIMIT, Cards},
    exports,
};
use crate::http::error::{ApiError, ApiResult};
use cardinal_cards::filter::{FilterQuery, ListQuery};
use cardinal_identity::auth::caller::Caller;

/// The scope that reads them.
pub(super) const SCOPE: &str = "cards:read";
pub(super) const TEMPLATE: &str = "card://{id}";
/// What a template's variable is called.
pub(super) const VARIABLE: &str = "id";

const PAGE_SIZE: u32 = 50;
/// Values that the protocol lets a completion have.
const MAX_COMPLETIONS: usize = 100;
/// Hexadecimal digits of an id.
const DIGITS: usize = 32;

pub(super) fn template() -> ResourceTemplate {
    ResourceTemplate::new(TEMPLATE, "card")
        .with_title("Product card")
        .with_description("A card with all its attributes and sources, by its id")
        .with_mime_type(JSON)
}

/// A page of the cards, newest first.
pub(super) async fn list(cards: &Cards, cursor: Option<String>) -> ApiResult<ListResourcesResult> {
    let query = ListQuery { limit: Some(PAGE_SIZE), cursor, ..ListQuery::default() };
    let listing = cards.catalogue.list(&query, false).await?;
    let mut result = ListResourcesResult::with_all_items(listing.cards.iter().map(describe).collect());
    result.next_cursor = cards.catalogue.next_cursor(&listing, listing.cards.len())?;
    result.cache_scope = Some(CacheScope::Private);
    result.ttl_ms = Some(0);
    Ok(result)
}

/// The card of a URI, as JSON, or the export.
pub(super) async fn read(cards: &Cards, caller: &Caller, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    if uri.starts_with(exports::SCHEME) {
        return cards.exports.read(&cards.catalogue, caller, uri).await;
    }
    let refused = |error: ApiError| refusal(&error, uri);
    let id = uri.strip_prefix(SCHEME).and_then(|id| Uuid::try_parse(id).ok());
    let id = id.ok_or_else(|| refused(ApiError::not_found("resource")))?;
    let card = cards.catalogue.card(id).await.map_err(|error| refused(error.into()))?;
    let text = serde_json::to_string(&card).map_err(|error| refused(ApiError::internal(error)))?;
    if text.len() > ANSWER_LIMIT {
        let text = format!(
            "answer-too-large: the card has {} bytes, and a resource at most {ANSWER_LIMIT}. Read it in parts with the \
             tool `cards_get`.",
            text.len()
        );
        return Err(ErrorData::invalid_params(text, None));
    }
    let mut result = ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(JSON)]);
    result.cache_scope = Some(CacheScope::Private);
    result.ttl_ms = Some(0);
    Ok(result)
}

/// Ids of cards for what somebody has typed: the beginning of an id, or text of a SKU or title. The second says whether
/// there are more.
pub(super) async fn complete(cards: &Cards, typed: &str) -> ApiResult<(Vec<String>, bool)> {
    let typed = typed.trim();
    let mut ids: Vec<Uuid> = Vec::new();
    let limit = i64::try_from(MAX_COMPLETIONS).unwrap_or(i64::MAX);
    if let Some((first, last)) = ids_beginning(typed) {
        ids = cardinal_store::cards::ids_between(&cards.pool, first, last, limit + 1).await?;
    }
    let query = ListQuery {
        limit: Some(MAX_COMPLETIONS as u32),
        filter: FilterQuery { q: Some(typed.to_owned()), ..FilterQuery::default() },
        ..ListQuery::default()
    };
    // Text that no list can be searched by completes to nothing.
    let listing = match query.filter() {
        Ok(_) => Some(cards.catalogue.list(&query, false).await?),
        Err(_) => None,
    };
    let mut has_more = false;
    if let Some(listing) = listing {
        has_more = cards.catalogue.next_cursor(&listing, listing.cards.len())?.is_some();
        for card in &listing.cards {
            if !ids.contains(&card.id) {
                ids.push(card.id);
            }
        }
    }
    has_more |= ids.len() > MAX_COMPLETIONS;
    ids.truncate(MAX_COMPLETIONS);
    Ok((ids.iter().map(Uuid::to_string).collect(), has_more))
}

/// The first and the last id that begin with these digits; none for what begins no id.
fn ids_beginning(typed: &str) -> Option<(Uuid, Uuid)> {
    let digits: String = typed.chars().filter(|c| *c != '-').collect();
    if digits.is_empty() || digits.len() > DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let filled = |with: &str| Uuid::try_parse(&format!("{digits}{}", with.repeat(DIGITS - digits.len()))).ok();
    Some((filled("0")?, filled("f")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_id_is_a_range() {
        let range = |typed: &str| ids_beginning(typed).map(|(first, last)| (first.to_string(), last.to_string()));
        let (first, last) = range("0190F7a2-1").unwrap();
        assert_eq!(first, "0190f7a2-1000-0000-0000-000000000000");
        assert_eq!(last, "0190f7a2-1fff-ffff-ffff-ffffffffffff");
        let whole = "0190f7a2-1111-7222-8333-444455556666";
        assert_eq!(range(whole), Some((whole.to_owned(), whole.to_owned())));
        for other in ["", "-", "OAK-1", &"0".repeat(33)] {
            assert_eq!(range(other), None, "{other}");
        }
    }
}
