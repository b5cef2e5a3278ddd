//! The core's own tools: finding and reading cards.

use std::sync::Arc;

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::plugin_tools;
use crate::{
    cards::filter::ListQuery,
    catalogue::Catalogue,
    http::{
        error::{ApiError, ApiResult},
        reply::Item,
    },
};

/// The scope that both need.
pub const SCOPE: &str = "cards:read";

const SEARCH: &str = "cards_search";
const GET: &str = "cards_get";

/// Their declarations, in the order of their names.
pub fn list() -> Vec<Tool> {
    vec![
        tool(
            GET,
            "Read a card",
            "Reads one product card by its id, with all its attributes and sources.",
            json!({"type": "object", "properties": {"id": {"type": "string", "format": "uuid", "description": "The card's id"}}, "required": ["id"], "additionalProperties": false}),
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
                "limit": {"type": "integer", "minimum": 1, "maximum": 200},
                "cursor": {"type": "string", "description": "next_cursor of the page before"},
            }, "additionalProperties": false}),
        ),
    ]
}

fn tool(name: &'static str, title: &str, description: &'static str, schema: Value) -> Tool {
    let schema = match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    let mut tool = Tool::new_with_raw(name, Some(description.into()), Arc::new(schema));
    tool.title = Some(title.to_owned());
    tool.with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
}

/// Runs the core tool `name`; `None` when there is no such one.
pub async fn run(catalogue: &Catalogue, name: &str, arguments: JsonObject) -> Option<CallToolResult> {
    let declared = list().into_iter().find(|tool| tool.name == name)?;
    let schema = Value::Object((*declared.input_schema).clone());
    if let Ok(validator) = jsonschema::validator_for(&schema)
        && let Some(complaints) = crate::plugin::arguments::complaints(&validator, &arguments)
    {
        return Some(plugin_tools::failure(complaints));
    }
    let outcome = match name {
        GET => get(catalogue, &arguments).await,
        _ => search(catalogue, arguments).await,
    };
    Some(outcome.and_then(result).unwrap_or_else(|error| plugin_tools::failure(plugin_tools::plain(&error))))
}

fn result(text: String) -> ApiResult<CallToolResult> {
    let value = serde_json::from_str(&text).map_err(ApiError::internal)?;
    Ok(plugin_tools::structured(value, text, false))
}

async fn get(catalogue: &Catalogue, arguments: &JsonObject) -> ApiResult<String> {
    let id = arguments.get("id").and_then(Value::as_str).and_then(|id| id.parse().ok());
    let id = id.ok_or_else(|| ApiError::not_found("card"))?;
    let card = catalogue.card(id).await?;
    serde_json::to_string(&Item { item: card }).map_err(ApiError::internal)
}

async fn search(catalogue: &Catalogue, arguments: JsonObject) -> ApiResult<String> {
    let query: ListQuery = crate::http::input::json(Value::Object(arguments).to_string().as_bytes())?;
    serde_json::to_string(&catalogue.page(&query).await?).map_err(ApiError::internal)
}
