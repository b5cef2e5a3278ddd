//! `cards_bulk_update`: the same thing done to many cards, as a job of the admin API. It shows first what it would do.

use rmcp::model::JsonObject;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Answer, Cards, Pin, attributes, parsed};
use crate::audit::AuditAction;
use crate::http::error::{ApiError, ApiResult};
use crate::jobs::bulk::{Action, Bulk, BulkRequest};
use crate::mcp::Visit;
use cardinal_base::input::{self, escape};
use cardinal_cards::{
    card::{Card, Status},
    filter::{FilterQuery, ListQuery},
};
use cardinal_store::{catalogue::Catalogue, error::StoreError};

/// Cards whose changes are shown beforehand.
const SAMPLE: u32 = 5;

/// What the tool is asked for.
#[derive(Deserialize)]
struct Arguments {
    action: Action,
    ids: Option<Vec<Uuid>>,
    filter: Option<FilterQuery>,
    source_key: Option<String>,
    key: Option<String>,
    value: Option<Value>,
    dry_run: Option<bool>,
    expected_count: Option<i64>,
}

/// How many cards an action is for, and what it would change of the first of them.
pub(in crate::mcp) struct Preview {
    pub count: i64,
    /// Ids that name no card, or a deleted one.
    missing: i64,
    sample: Vec<SampleCard>,
}

/// A card, and what would change of it.
#[derive(Serialize)]
struct SampleCard {
    id: Uuid,
    sku: String,
    title: String,
    changes: Vec<Value>,
}

/// Whether a call only shows what it would do.
pub(super) fn is_dry_run(arguments: &JsonObject) -> bool {
    arguments.get("dry_run") != Some(&Value::Bool(false))
}

/// Refuses a call that would not run: of wrong arguments, of a caller without the rights, or for another number of
/// cards than there are.
pub(super) async fn check(cards: &Cards, visit: &Visit, arguments: &JsonObject) -> ApiResult<()> {
    checked(cards, visit, arguments)?;
    let wanted: Arguments = parsed(arguments.clone())?;
    let Some(expected) = wanted.expected_count else {
        let detail = "Say how many cards it is for: the `count` of a call with `dry_run: true`.";
        return Err(ApiError::invalid("/expected_count", detail));
    };
    match count(&cards.catalogue, &wanted).await? {
        count if count == expected => Ok(()),
        count => Err(StoreError::CountMoved { count, expected }.into()),
    }
}

/// The cards that a person is shown, where a filter picks them.
pub(super) async fn pin(catalogue: &Catalogue, arguments: &JsonObject) -> ApiResult<Option<Pin>> {
    let wanted: Arguments = parsed(arguments.clone())?;
    if wanted.ids.is_some() {
        return Ok(None);
    }
    match catalogue.digest(&wanted.query()).await? {
        Some(digest) => Ok(Some(Pin::Cards(digest))),
        None => Err(uncountable()),
    }
}

pub(super) async fn update(cards: &Cards, visit: &Visit, arguments: JsonObject, pin: Option<Pin>) -> ApiResult<Answer> {
    let mut bulk = checked(cards, visit, &arguments)?;
    let wanted: Arguments = parsed(arguments)?;
    if wanted.dry_run != Some(false) {
        let Preview { count, missing, sample } = Preview::find(&cards.catalogue, &wanted).await?;
        let note = format!(
            "Nothing was changed. To do it, call again with `dry_run: false` and `expected_count: {count}`; a person \
             confirms it."
        );
        let answer = json!({"dry_run": true, "count": count, "missing": missing, "sample": sample, "note": note});
        return Answer::new(&answer, Vec::new());
    }
    if let Some(Pin::Cards(digest)) = pin {
        bulk.expected.digest = Some(digest);
    }
    let job = match cards.jobs.start(&visit.caller, visit.request_id.as_str(), bulk).await {
        Err(StoreError::SelectionMoved) => return Ok(Answer::Outdated),
        started => started?,
    };
    let (target, detail) = (Some(job.id.to_string()), json!({"action": job.action, "total": job.total}));
    visit.record(&cards.audit, AuditAction::StartJob, target, Some(detail)).await;
    let item = cards.jobs.show(&job).await?;
    let note = "The job runs by itself. `jobs_get` says how far it is.";
    Answer::new(&json!({"dry_run": false, "count": job.total, "item": item, "note": note}), Vec::new())
}

/// The action as the admin API takes it, checked as there.
fn checked(cards: &Cards, visit: &Visit, arguments: &JsonObject) -> ApiResult<Bulk> {
    // A number that would be rounded is refused, with its place.
    if let Some(sent) = &visit.exact_arguments {
        input::json::<IgnoredAny>(sent)?;
    }
    let member =
        |name: &str| arguments.get(name).filter(|value| !value.is_null()).map(|value| (name.to_owned(), value.clone()));
    let mut wanted: JsonObject = ["action", "ids", "filter", "expected_count"].into_iter().filter_map(member).collect();
    let args: JsonObject = ["source_key", "key", "value"].into_iter().filter_map(member).collect();
    wanted.insert("args".to_owned(), args.into());
    let wanted: BulkRequest = parsed(wanted)?;
    // The tool has as its own arguments what the admin API has in `args`.
    cards.jobs.check(wanted, &visit.caller).map_err(|error| error.without_prefix("/args"))
}

/// How many cards it is for. Ids count whether there is such a card or not, as they do in the job.
async fn count(catalogue: &Catalogue, wanted: &Arguments) -> ApiResult<i64> {
    if let Some(ids) = wanted.distinct_ids() {
        return i64::try_from(ids.len()).map_err(ApiError::internal);
    }
    let count = catalogue.count(&wanted.query()).await?;
    count.ok_or_else(uncountable)
}

fn uncountable() -> ApiError {
    ApiError::invalid("/filter", "These cards take too long to count. Narrow the filter.")
}

impl Arguments {
    fn distinct_ids(&self) -> Option<Vec<Uuid>> {
        let mut ids = self.ids.clone()?;
        ids.sort_unstable();
        ids.dedup();
        Some(ids)
    }

    fn query(&self) -> ListQuery {
        ListQuery { limit: Some(SAMPLE), filter: self.filter.clone().unwrap_or_default(), ..ListQuery::default() }
    }

    /// What would become of a card, by JSON pointer; an empty one is the card itself.
    fn changes(&self, card: &Card) -> Vec<Value> {
        let status = |after: Status| {
            let change = json!({"pointer": "/status", "before": card.status, "after": after.name()});
            Vec::from_iter((card.status != after.name()).then_some(change))
        };
        match self.action {
            Action::Archive => status(Status::Archived),
            Action::Activate => status(Status::Active),
            Action::Draft => status(Status::Draft),
            Action::Delete => {
                vec![json!({"pointer": "", "before": {"title": card.title, "sku": card.sku, "status": card.status}})]
            }
            Action::RemoveSource => {
                let key = self.source_key.as_deref().unwrap_or_default();
                let kind = attributes::source_kind(card, key);
                let pointer = format!("/attributes/sources/{}", escape(key));
                Vec::from_iter(kind.map(|kind| json!({"pointer": pointer, "before": {"kind": kind}})))
            }
            Action::SetAttribute | Action::RemoveAttribute => Vec::from_iter(self.attribute_change(card)),
            Action::PluginTool => Vec::new(),
        }
    }

    fn attribute_change(&self, card: &Card) -> Option<Value> {
        let key = self.key.as_deref().unwrap_or_default();
        let before = attributes::find(card, key);
        if before == self.value {
            return None;
        }
        let mut change = json!({"pointer": format!("/attributes/{}", escape(key))});
        for (name, value) in [("before", before), ("after", self.value.clone())] {
            if let Some(value) = value {
                change[name] = value;
            }
        }
        Some(change)
    }
}

impl Preview {
    /// What a call with these arguments would do; they are those of [`check`].
    pub(in crate::mcp) async fn for_call(catalogue: &Catalogue, arguments: JsonObject) -> ApiResult<Self> {
        Self::find(catalogue, &parsed(arguments)?).await
    }

    async fn find(catalogue: &Catalogue, wanted: &Arguments) -> ApiResult<Self> {
        let count = count(catalogue, wanted).await?;
        let (missing, cards) = match wanted.distinct_ids() {
            Some(ids) => (count - catalogue.count_existing(&ids).await?, find_first(catalogue, &ids).await?),
            None => {
                let of_attributes = [Action::RemoveSource, Action::SetAttribute, Action::RemoveAttribute];
                let with_attributes = of_attributes.contains(&wanted.action);
                (0, catalogue.list(&wanted.query(), with_attributes).await?.cards)
            }
        };
        let sample =
            cards.into_iter().map(|card| SampleCard { changes: wanted.changes(&card), ..SampleCard::from(card) });
        Ok(Self { count, missing, sample: sample.collect() })
    }

    /// What would change of the sample, each pointer with the card's SKU before it.
    pub(in crate::mcp) fn changes(self) -> Vec<Value> {
        let mut changes = Vec::new();
        for card in self.sample {
            for mut change in card.changes {
                change["pointer"] =
                    format!("/{}{}", escape(&card.sku), change["pointer"].as_str().unwrap_or_default()).into();
                changes.push(change);
            }
        }
        changes
    }
}

impl From<Card> for SampleCard {
    fn from(card: Card) -> Self {
        Self { id: card.id, sku: card.sku, title: card.title, changes: Vec::new() }
    }
}

/// The first of these cards that are there.
async fn find_first(catalogue: &Catalogue, ids: &[Uuid]) -> ApiResult<Vec<Card>> {
    let mut cards = Vec::new();
    for id in ids.iter().take(SAMPLE as usize) {
        match catalogue.card(*id).await {
            Ok(card) => cards.push(card),
            Err(StoreError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(cards)
}
