//! A card as a resource, and the error for a resource that could not be read.

use rmcp::{ErrorData, model::Resource};
use serde_json::json;

use super::plugin_tools;
use crate::http::error::ApiError;
use cardinal_cards::card::Card;

pub(super) const SCHEME: &str = "card://";
pub(super) const JSON: &str = "application/json";

/// A card as clients see it in a list, or as a link.
pub(super) fn describe(card: &Card) -> Resource {
    Resource::new(format!("{SCHEME}{}", card.id), &card.sku).with_title(&card.title).with_mime_type(JSON)
}

/// The JSON-RPC error for what could not be listed, read or completed.
pub(super) fn refusal(error: &ApiError, uri: &str) -> ErrorData {
    let (text, status) = (plugin_tools::plain(error), error.status());
    if status == http::StatusCode::NOT_FOUND {
        return ErrorData::resource_not_found("Resource not found", Some(json!({"uri": uri})));
    }
    if status.is_client_error() {
        return ErrorData::invalid_params(text, None);
    }
    tracing::warn!(?error, "failed to read a resource");
    ErrorData::internal_error(text, None)
}
