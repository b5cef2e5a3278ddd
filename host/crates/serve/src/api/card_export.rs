//! `/v1/admin/master-cards/export`: all cards that a filter picks, as a stream.

use std::sync::Arc;

use futures_util::StreamExt as _;
use http::{HeaderName, HeaderValue, Method, header};
use http_body::Frame;
use http_body_util::StreamBody;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    call::{Call, Query},
    http::{body::Body, reply::Reply},
};
use cardinal_base::codes;
use cardinal_cards::filter::{FilterQuery, ListQuery, MAX_LIMIT};
use cardinal_store::catalogue::Format;

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get("/v1/admin/master-cards/export", export).scope("cards:read").describe(|op| {
        op.named("exportCards", "cards", "All cards that match a filter, as of one moment, oldest first")
            .notes("If the export fails, the connection is aborted: an answer that ends normally is complete.")
            .param("format", "The format of the cards.", json!({"enum": ["ndjson", "csv"], "default": "ndjson"}))
            .param(
                "spreadsheet",
                "CSV for a spreadsheet: a text that it would compute (one that begins with =, +, -, @, a tab or a \
                 line break, and is not a plain number) gets a leading apostrophe. For reading only: an import takes \
                 the apostrophe as part of the text.",
                json!({"enum": ["true", "false"], "default": "false"}),
            )
            .card_filter()
            .param("ids", "Only these cards of them: up to 200 ids, separated by commas.", json!({}))
            .param(
                "fields",
                "Members of a line, or columns; `id` is always included.",
                json!({"examples": ["title,sku"]}),
            )
            .replies_as(200, "The cards.", NDJSON, json!({"type": "string"}))
            .replies_as(200, "The cards.", CSV, json!({"type": "string"}));
    })]
}

const NDJSON: &str = "application/x-ndjson";
const CSV: &str = "text/csv";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExportQuery {
    format: Option<String>,
    spreadsheet: Option<String>,
    #[serde(flatten)]
    filter: FilterQuery,
    ids: Option<String>,
    fields: Option<String>,
    deleted: Option<String>,
}

impl ExportQuery {
    fn format(&self) -> ApiResult<Format> {
        let refused = |detail| Err(ApiError::new(&codes::INVALID_REQUEST).detail(detail));
        let for_spreadsheets = match self.spreadsheet.as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return refused("`spreadsheet` is true or false."),
        };
        match (self.format.as_deref(), for_spreadsheets) {
            (None | Some("ndjson"), false) => Ok(Format::Ndjson),
            (Some("csv"), false) => Ok(Format::Csv),
            (Some("csv"), true) => Ok(Format::CsvForSpreadsheets),
            (None | Some("ndjson"), true) => refused("`spreadsheet` needs `format=csv`."),
            (Some(_), _) => refused("`format` is ndjson or csv."),
        }
    }

    fn ids(&self) -> ApiResult<Option<Vec<Uuid>>> {
        let Some(text) = &self.ids else { return Ok(None) };
        let ids = text.split(',').map(Uuid::try_parse).collect::<Result<Vec<_>, _>>().unwrap_or_default();
        if ids.is_empty() || ids.len() > MAX_LIMIT as usize {
            let detail = format!("`ids` is 1 to {MAX_LIMIT} ids, separated by commas.");
            return Err(ApiError::new(&codes::INVALID_REQUEST).detail(detail));
        }
        Ok(Some(ids))
    }

    /// What it has in common with the list.
    fn list(self) -> ListQuery {
        ListQuery { filter: self.filter, fields: self.fields, deleted: self.deleted, ..ListQuery::default() }
    }
}

async fn export(app: &Arc<App>, call: Call<Query<ExportQuery>>) -> ApiResult<Reply> {
    let query = call.query()?;
    let (format, ids) = (query.format()?, query.ids()?);
    let list = query.list();
    // HEAD gets the same errors as GET.
    let body = if call.method == Method::HEAD {
        list.filter().and(list.fields().map(drop))?;
        Body::empty()
    } else {
        let pieces = app.catalogue.export(&list, ids, format).await?;
        Body::stream(StreamBody::new(pieces.map(|piece| piece.map(Frame::data))))
    };
    let mut reply = Reply::new(body);
    let headers = reply.headers_mut();
    const CSV_WITH_HEAD: &str = "text/csv; charset=utf-8; header=present";
    let (media_type, ending) = match format {
        Format::Ndjson => (NDJSON, ".ndjson"),
        Format::Csv => (CSV_WITH_HEAD, ".csv"),
        Format::CsvForSpreadsheets => (CSV_WITH_HEAD, "-spreadsheet.csv"),
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let name = format!("attachment; filename=\"cards-{}{ending}\"", app.clock.now().date());
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::try_from(name).map_err(ApiError::internal)?);
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(reply)
}
