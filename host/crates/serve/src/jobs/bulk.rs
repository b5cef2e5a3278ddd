//! What a bulk action is: which cards, what is done to each, and what its starter must be allowed to do.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::tool;
use crate::http::error::{ApiError, ApiResult};
use cardinal_cards::{
    card::Status,
    error::CardError,
    filter::{Filter, FilterQuery},
    source::{self, KEY_LIMIT},
};
use cardinal_identity::auth::caller::{Caller, insufficient};
use cardinal_plugin_host::registry::Registry;
use cardinal_store::{cards::bulk::BulkAction, jobs::Expectation};

/// Cards that can be named one by one; more are picked by a filter.
pub(crate) const IDS_LIMIT: usize = 10_000;

/// Bytes of a value that cards are given. Each card's history keeps it.
const VALUE_LIMIT: usize = 64 << 10;

/// The argument under which a job says that it only counts, as an import does.
pub(super) const DRY_RUN: &str = "dry_run";

/// A bulk action, as it is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BulkRequest {
    pub(super) action: Action,
    pub(super) ids: Option<Vec<Uuid>>,
    pub(super) filter: Option<FilterQuery>,
    pub(super) expected_count: Option<i64>,
    #[serde(default)]
    pub(super) dry_run: bool,
    #[serde(default)]
    pub(super) args: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Archive,
    Activate,
    Draft,
    Delete,
    RemoveSource,
    SetAttribute,
    RemoveAttribute,
    PluginTool,
}

/// The cards, checked.
pub enum Cards {
    Ids(Vec<Uuid>),
    Filter(Filter),
}

/// A bulk action, checked; what is stored of it is its name and its arguments.
pub struct Bulk {
    pub action: Action,
    pub args: Map<String, Value>,
    pub cards: Cards,
    pub expected: Expectation,
}

impl Action {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Activate => "activate",
            Self::Draft => "draft",
            Self::Delete => "delete",
            Self::RemoveSource => "remove_source",
            Self::SetAttribute => "set_attribute",
            Self::RemoveAttribute => "remove_attribute",
            Self::PluginTool => "plugin_tool",
        }
    }

    /// As it is stored.
    pub fn named(name: &str) -> Option<Self> {
        let statuses = [Self::Archive, Self::Activate, Self::Draft];
        let others = [Self::Delete, Self::RemoveSource, Self::SetAttribute, Self::RemoveAttribute, Self::PluginTool];
        statuses.into_iter().chain(others).find(|action| action.name() == name)
    }

    /// What is done to each card; `None` is a tool's business.
    pub(crate) fn bulk_action(self, args: &Value) -> Option<BulkAction> {
        let text = |name: &str| args.get(name)?.as_str().map(str::to_owned);
        match self {
            Self::Archive => Some(BulkAction::SetStatus(Status::Archived.name())),
            Self::Activate => Some(BulkAction::SetStatus(Status::Active.name())),
            Self::Draft => Some(BulkAction::SetStatus(Status::Draft.name())),
            Self::Delete => Some(BulkAction::Delete),
            Self::RemoveSource => Some(BulkAction::RemoveSource(text("source_key")?)),
            Self::SetAttribute => Some(BulkAction::SetAttribute(text("key")?, args.get("value")?.clone())),
            Self::RemoveAttribute => Some(BulkAction::RemoveAttribute(text("key")?)),
            Self::PluginTool => None,
        }
    }
}

impl BulkRequest {
    /// What is wrong with it is 422; what the caller may not do is 403.
    pub(crate) fn check(self, caller: &Caller, registry: &Registry) -> ApiResult<Bulk> {
        let is_counted = self.expected_count.is_some();
        let bulk = self.check_uncounted(caller, registry)?;
        // An empty filter picks every card there is.
        if matches!(bulk.cards, Cards::Filter(_)) && !is_counted {
            let detail = "Required with a filter: how many cards it matches, as `count=exact` of the list reports.";
            return Err(ApiError::invalid("/expected_count", detail));
        }
        Ok(bulk)
    }

    /// The same of what may not be run yet: nobody need know how many cards it is for.
    pub(crate) fn check_uncounted(self, caller: &Caller, registry: &Registry) -> ApiResult<Bulk> {
        if self.action != Action::PluginTool && !caller.holds("cards:write") {
            return Err(insufficient("cards:write").into());
        }
        let cards = match (self.ids, self.filter) {
            (Some(ids), None) => Cards::Ids(distinct(ids)?),
            (None, Some(filter)) => Cards::Filter(checked(&filter)?),
            _ => {
                return Err(ApiError::invalid("/ids", "Give either `ids` or `filter`.")
                    .field("/filter", "Give either `ids` or `filter`."));
            }
        };
        if self.expected_count.is_some_and(|count| count < 0) {
            return Err(ApiError::invalid("/expected_count", "Expected a number of cards."));
        }
        check_args(self.action, &self.args)?;
        if self.action == Action::PluginTool {
            tool::Task::read(&self.args)?.check(caller, registry)?;
        }
        let mut args = self.args;
        if self.dry_run {
            args.insert(DRY_RUN.to_owned(), Value::Bool(true));
        }
        Ok(Bulk {
            action: self.action,
            args,
            cards,
            expected: Expectation { count: self.expected_count, digest: None },
        })
    }
}

fn check_args(action: Action, args: &Map<String, Value>) -> ApiResult<()> {
    let known: &[&str] = match action {
        Action::RemoveSource => &["source_key"],
        Action::SetAttribute => &["key", "value"],
        Action::RemoveAttribute => &["key"],
        Action::PluginTool => &["tool", "arguments", "card_argument"],
        Action::Archive | Action::Activate | Action::Draft | Action::Delete => &[],
    };
    if let Some(unknown) = args.keys().find(|name| !known.contains(&name.as_str())) {
        let pointer = format!("/args/{}", cardinal_base::input::escape(unknown));
        return Err(ApiError::invalid(pointer, "This action has no such argument."));
    }
    if matches!(action, Action::SetAttribute | Action::RemoveAttribute) {
        check_attribute(args, action == Action::SetAttribute)?;
    }
    if action == Action::RemoveSource {
        let key = args.get("source_key").and_then(Value::as_str).unwrap_or_default();
        if key.is_empty() || key.len() > KEY_LIMIT || key.contains('\0') {
            return Err(ApiError::invalid(
                "/args/source_key",
                format!("A source key of 1 to {KEY_LIMIT} bytes is needed."),
            ));
        }
    }
    Ok(())
}

/// The same of an attribute's name and value as for a card by itself.
fn check_attribute(args: &Map<String, Value>, is_set: bool) -> ApiResult<()> {
    let key = args.get("key").and_then(Value::as_str).unwrap_or_default();
    if key.is_empty() || key.contains('\0') {
        return Err(ApiError::invalid("/args/key", "The name of an attribute is needed."));
    }
    if key == "sources" {
        return Err(ApiError::invalid("/args/key", "Sources are written by plugins, not through the card."));
    }
    if !is_set {
        return Ok(());
    }
    let value = args.get("value").filter(|value| !value.is_null());
    let Some(value) = value.map(Value::to_string) else {
        return Err(ApiError::invalid("/args/value", "A value is needed; `remove_attribute` removes the attribute."));
    };
    if value.len() > VALUE_LIMIT {
        let detail = format!("The value has {} bytes; at most {VALUE_LIMIT} are accepted.", value.len());
        return Err(ApiError::invalid("/args/value", detail));
    }
    source::check_member(&value).map_err(|broken| ApiError::invalid("/args/value", broken.detail))
}

fn distinct(mut ids: Vec<Uuid>) -> ApiResult<Vec<Uuid>> {
    if ids.is_empty() || ids.len() > IDS_LIMIT {
        let detail =
            format!("1 to {IDS_LIMIT} ids are accepted, {} were sent; use `filter` for more cards.", ids.len());
        return Err(ApiError::invalid("/ids", detail));
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// The same words as for the list, about a body instead of a query.
fn checked(filter: &FilterQuery) -> ApiResult<Filter> {
    filter.check().map_err(|error| match error {
        CardError::Query(detail) => ApiError::invalid("/filter", detail),
        other => other.into(),
    })
}
