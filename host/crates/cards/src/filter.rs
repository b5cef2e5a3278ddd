//! What a list of cards is asked for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::card::Status;
use crate::error::CardError;

pub const DEFAULT_LIMIT: u32 = 50;
pub const MAX_LIMIT: u32 = 200;
/// From this length on `q` matches anywhere; shorter ones match beginnings.
pub const ANYWHERE_FROM: usize = 3;
const SEARCH_LIMIT: usize = 200;

/// Which cards: what lists, exports and bulk actions have in common.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilterQuery {
    pub q: Option<String>,
    pub status: Option<String>,
    pub kind: Option<String>,
    pub plugin: Option<String>,
    pub missing_kind: Option<String>,
    pub updated_since: Option<String>,
}

/// The query parameters of `GET /master-cards`, also what a plugin may ask for.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    pub limit: Option<u32>,
    pub cursor: Option<String>,
    pub sort: Option<String>,
    // Its fields are texts: values of a flattened struct are never parsed as numbers.
    #[serde(flatten)]
    pub filter: FilterQuery,
    pub fields: Option<String>,
    pub count: Option<String>,
    pub deleted: Option<String>,
}

/// A checked filter. Its serialised form is what a cursor is bound to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Filter {
    pub q: Option<String>,
    pub status: Option<&'static str>,
    pub kind: Option<String>,
    pub plugin: Option<String>,
    pub missing_kind: Option<String>,
    #[serde(with = "time::serde::rfc3339::option")]
    pub updated_since: Option<OffsetDateTime>,
    pub deleted: bool,
}

/// A column that lists are sorted by; ties are broken by the id, so that paging is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Column {
    Title,
    Sku,
    /// Ids are time-ordered, so this is the primary key's own order.
    CreatedAt,
    UpdatedAt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sort {
    pub column: Column,
    pub descending: bool,
}

impl Filter {
    /// Whether it picks among the cards at all.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }
}

/// What an item of a page has, by the names of its members; the first of them are the card's own.
const PAGE_MEMBERS: [&str; 9] =
    ["id", "title", "sku", "status", "attributes", "version", "created_at", "updated_at", "updated_by"];
const CARD_MEMBERS: usize = 8;

impl ListQuery {
    pub fn limit(&self) -> Result<u32, CardError> {
        match self.limit.unwrap_or(DEFAULT_LIMIT) {
            limit @ 1..=MAX_LIMIT => Ok(limit),
            _ => Err(bad(format!("`limit` is 1 to {MAX_LIMIT}."))),
        }
    }

    pub fn sort(&self) -> Result<Sort, CardError> {
        let text = self.sort.as_deref().unwrap_or("-created_at");
        let (descending, name) = text.strip_prefix('-').map_or((false, text), |name| (true, name));
        let column = match name {
            "title" => Column::Title,
            "sku" => Column::Sku,
            "created_at" => Column::CreatedAt,
            "updated_at" => Column::UpdatedAt,
            _ => {
                return Err(bad(
                    "`sort` is one of title, sku, created_at, updated_at, with `-` before it for descending.",
                ));
            }
        };
        Ok(Sort { column, descending })
    }

    pub fn exact_count(&self) -> Result<bool, CardError> {
        match self.count.as_deref() {
            None => Ok(false),
            Some("exact") => Ok(true),
            Some(_) => Err(bad("`count` takes only `exact`.")),
        }
    }

    pub fn filter(&self) -> Result<Filter, CardError> {
        let deleted = match self.deleted.as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(bad("`deleted` is true or false.")),
        };
        Ok(Filter { deleted, ..self.filter.check()? })
    }

    /// The members that cards are cut down to; `id` is always among them.
    pub fn fields(&self) -> Result<Option<Vec<&str>>, CardError> {
        self.fields_among(&PAGE_MEMBERS[..CARD_MEMBERS])
    }

    /// The same for the items of a page, which may have what is not the card's own.
    pub fn page_fields(&self) -> Result<Option<Vec<&str>>, CardError> {
        self.fields_among(&PAGE_MEMBERS)
    }

    fn fields_among(&self, known: &[&'static str]) -> Result<Option<Vec<&str>>, CardError> {
        let Some(list) = self.fields.as_deref() else { return Ok(None) };
        let fields = members(list.split(','), known);
        fields.map(Some).ok_or_else(|| bad(format!("`fields` is a list of {}.", known.join(", "))))
    }
}

impl FilterQuery {
    /// The filter, of cards that are not deleted.
    pub fn check(&self) -> Result<Filter, CardError> {
        let updated_since = match &self.updated_since {
            Some(text) => {
                Some(OffsetDateTime::parse(text, &Rfc3339).map_err(|_| bad("`updated_since` is a time of RFC 3339."))?)
            }
            None => None,
        };
        Ok(Filter {
            q: self.search()?,
            status: self.status()?,
            kind: word(&self.kind, "kind")?,
            plugin: word(&self.plugin, "plugin")?,
            missing_kind: word(&self.missing_kind, "missing_kind")?,
            updated_since,
            deleted: false,
        })
    }

    fn search(&self) -> Result<Option<String>, CardError> {
        let text = self.q.as_deref().map(str::trim).filter(|text| !text.is_empty());
        match text {
            Some(text) if text.chars().count() > SEARCH_LIMIT || text.contains('\0') => {
                Err(bad(format!("`q` has at most {SEARCH_LIMIT} characters, none of them U+0000.")))
            }
            text => Ok(text.map(str::to_owned)),
        }
    }

    fn status(&self) -> Result<Option<&'static str>, CardError> {
        let known = [Status::Draft, Status::Active, Status::Archived].map(Status::name);
        match self.status.as_deref() {
            None => Ok(None),
            Some(text) => match known.into_iter().find(|name| *name == text) {
                Some(name) => Ok(Some(name)),
                None => Err(bad("`status` is draft, active or archived.")),
            },
        }
    }
}

/// The members of a card that a list names, each once, and the id; nothing when one of them is not `known`.
pub fn members<'n>(names: impl Iterator<Item = &'n str>, known: &[&'static str]) -> Option<Vec<&'static str>> {
    let mut members = vec!["id"];
    for name in names {
        let member = known.iter().find(|known| **known == name)?;
        if !members.contains(member) {
            members.push(member);
        }
    }
    Some(members)
}

fn word(value: &Option<String>, name: &str) -> Result<Option<String>, CardError> {
    match value {
        Some(text) if text.is_empty() || text.len() > 200 || text.contains('\0') => {
            Err(bad(format!("`{name}` is not a name.")))
        }
        value => Ok(value.clone()),
    }
}

fn bad(detail: impl Into<String>) -> CardError {
    CardError::Query(detail.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cardinal_base::input;

    use super::*;

    #[test]
    fn a_list_takes_the_filter_beside_its_own_parameters() {
        let query: ListQuery = input::query(Some("limit=7&q=oak&count=exact&status=active")).unwrap();
        assert_eq!(
            (query.limit, query.filter.q.as_deref(), query.count.as_deref()),
            (Some(7), Some("oak"), Some("exact"))
        );
        let query: ListQuery = input::json(br#"{"limit": 7, "missing_kind": "price", "q": null}"#).unwrap();
        assert_eq!((query.limit, query.filter.missing_kind.as_deref(), query.filter.q), (Some(7), Some("price"), None));
    }

    #[test]
    fn what_neither_has_is_refused() {
        for wrong in ["nope=1", "q=a&nope=1", "q=a&q=b", "limit=1&limit=2", "limit=x", "filter=x"] {
            assert!(input::query::<ListQuery>(Some(wrong)).is_err(), "{wrong}");
        }
        for wrong in [r#"{"nope": 1}"#, r#"{"limit": "7"}"#, r#"{"q": 7}"#, "[]", r#"{"q": "a", "q": "b"}"#] {
            assert!(input::json::<ListQuery>(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(input::json::<FilterQuery>(br#"{"deleted": "true"}"#).is_err());
    }
}
