//! The core's own tools: finding and reading cards.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use serde::Deserialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::plugin_tools;
use crate::http::error::{ApiError, ApiResult};
use crate::http::reply::Item;
use cardinal_cards::{
    card::{Card, PartialCard},
    filter::ListQuery,
};
use cardinal_store::catalogue::Catalogue;

/// The scope that both need.
pub const SCOPE: &str = "cards:read";

const SEARCH: &str = "cards_search";
const GET: &str = "cards_get";
/// Bytes of an answer: far more than a model reads, and a bound for what it makes the host hold.
const ANSWER_LIMIT: usize = 1 << 20;
/// What a larger answer is refused with names so many of a card's sources.
const NAMED_SOURCES: usize = 20;
const FIELDS: &str = "Only these members of a card, by commas, for example `title,sku,status`";

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(declare);
static VALIDATORS: LazyLock<Vec<Option<jsonschema::Validator>>> = LazyLock::new(|| {
    let schemas = TOOLS.iter().map(|tool| Value::Object((*tool.input_schema).clone()));
    schemas.map(|schema| jsonschema::validator_for(&schema).ok()).collect()
});

/// Their declarations, in the order of their names.
pub fn list() -> &'static [Tool] {
    &TOOLS
}

fn declare() -> Vec<Tool> {
    vec![
        tool(
            GET,
            "Read a card",
            "Reads one product card by its id, with all its attributes and sources.",
            json!({"type": "object", "properties": {
                "id": {"type": "string", "format": "uuid", "description": "The card's id"},
                "fields": {"type": "string", "description": FIELDS},
                "source": {"type": "string", "description": "Only this one of its sources, by its key, in place of all attributes"},
            }, "required": ["id"], "additionalProperties": false}),
            json!({"type": "object", "properties": {"item": {"type": "object", "description": "The card"}}, "required": ["item"]}),
        ),
        tool(
            SEARCH,
            "Search cards",
            "Finds product cards by words of their title or SKU and gives a page of them.",
            json!({"type": "object", "properties": {
                "q": {"type": "string", "description": "Text in the title or SKU"},
                "status": {"enum": ["draft", "active", "archived"]},
                "kind": {"type": "string", "description": "Only cards with a source of this kind"},
                "missing_kind": {"type": "string", "description": "Only cards without a source of this kind"},
                "sort": {"enum": ["title", "-title", "sku", "-sku", "created_at", "-created_at", "updated_at", "-updated_at"]},
                "fields": {"type": "string", "description": FIELDS},
                "limit": {"type": "integer", "minimum": 1, "maximum": 200},
                "cursor": {"type": "string", "description": "next_cursor of the page before"},
            }, "additionalProperties": false}),
            json!({"type": "object", "properties": {
                "items": {"type": "array", "items": {"type": "object"}, "description": "The cards"},
                "next_cursor": {"type": ["string", "null"], "description": "The `cursor` of the next page; null or absent on the last"},
            }, "required": ["items"]}),
        ),
    ]
}

fn tool(name: &'static str, title: &str, description: &'static str, input: Value, output: Value) -> Tool {
    let object = |schema: Value| match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => Arc::default(),
    };
    let tool = Tool::new_with_raw(name, Some(description.into()), object(input));
    let mut tool = tool.with_raw_output_schema(object(output));
    tool.title = Some(title.to_owned());
    tool.with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
}

/// Runs the core tool `name`; `None` when there is no such one.
pub async fn run(catalogue: &Catalogue, name: &str, arguments: JsonObject) -> Option<CallToolResult> {
    let at = list().iter().position(|tool| tool.name == name)?;
    if let Some(Some(validator)) = VALIDATORS.get(at)
        && let Some(complaints) = cardinal_plugin_host::arguments::complaints(validator, &arguments)
    {
        return Some(plugin_tools::failure(complaints));
    }
    let outcome = match name {
        GET => get(catalogue, arguments).await,
        _ => search(catalogue, arguments).await,
    };
    Some(outcome.unwrap_or_else(|error| plugin_tools::failure(plugin_tools::plain(&error))))
}

/// The answer, unless it is larger than an answer may be: then `advice` says how to ask for less.
fn result(text: String, advice: impl FnOnce() -> String) -> ApiResult<CallToolResult> {
    if text.len() > ANSWER_LIMIT {
        let refusal = format!("answer-too-large: it has {} bytes, and an answer at most {ANSWER_LIMIT}.", text.len());
        return Ok(plugin_tools::failure(format!("{refusal} {}", advice())));
    }
    let value = serde_json::from_str(&text).map_err(ApiError::internal)?;
    Ok(plugin_tools::structured(value, text))
}

/// Which card, and what of it.
#[derive(Deserialize)]
struct GetArguments {
    id: String,
    fields: Option<String>,
    source: Option<String>,
}

async fn get(catalogue: &Catalogue, arguments: JsonObject) -> ApiResult<CallToolResult> {
    let wanted: GetArguments = serde_json::from_value(Value::Object(arguments)).map_err(ApiError::internal)?;
    let query = ListQuery { fields: wanted.fields, ..ListQuery::default() };
    let fields = query.fields()?;
    let id = wanted.id.parse().map_err(|_| ApiError::not_found("card"))?;
    let mut card = catalogue.card(id).await?;
    if let Some(key) = &wanted.source {
        let entry = sources(&card)?.remove(key).ok_or_else(|| ApiError::not_found("source"))?;
        let attributes = BTreeMap::from([("sources", BTreeMap::from([(key, entry)]))]);
        card.attributes = to_raw_value(&attributes).map_err(ApiError::internal)?;
    }
    let text = match fields {
        Some(fields) => serde_json::to_string(&Item { item: PartialCard::new(card.clone(), &fields) }),
        None => serde_json::to_string(&Item { item: &card }),
    };
    result(text.map_err(ApiError::internal)?, || how_to_read_less(&card))
}

fn sources(card: &Card) -> ApiResult<BTreeMap<String, &RawValue>> {
    #[derive(Deserialize)]
    struct Attributes<'a> {
        #[serde(borrow, default)]
        sources: BTreeMap<String, &'a RawValue>,
    }
    let attributes: Attributes<'_> = serde_json::from_str(card.attributes.get()).map_err(ApiError::internal)?;
    Ok(attributes.sources)
}

fn how_to_read_less(card: &Card) -> String {
    let sources = sources(card).unwrap_or_default();
    let named: Vec<String> = sources
        .iter()
        .take(NAMED_SOURCES)
        .map(|(key, entry)| format!("`{key}` ({} bytes)", entry.get().len()))
        .collect();
    let more = match sources.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "Leave out the attributes with `fields` (`title,sku,status`), or read one source at a time with `source`. The \
         card has {} sources: {}{more}.",
        sources.len(),
        named.join(", ")
    )
}

async fn search(catalogue: &Catalogue, arguments: JsonObject) -> ApiResult<CallToolResult> {
    let query: ListQuery = cardinal_base::input::json(Value::Object(arguments).to_string().as_bytes())?;
    let text = serde_json::to_string(&catalogue.page(&query).await?).map_err(ApiError::internal)?;
    result(text, || {
        "Ask for fewer cards with `limit`, or for fewer of their members with `fields` (`title,sku,status`).".to_owned()
    })
}
