//! Exports of the cards that a filter picks, as resources: `cards_export` gives a link, and who has had it reads the
//! cards there. All that a link stands for lies sealed in it and opens for its caller alone, so that nothing is kept
//! meanwhile.

use std::{pin::pin, time::Duration};

use futures_util::StreamExt as _;
use rmcp::{
    ErrorData,
    model::{CacheScope, JsonObject, ReadResourceResult, Resource, ResourceContents},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use url::form_urlencoded;
use uuid::Uuid;

use super::{card_resource::refusal, sessions};
use crate::http::error::{ApiError, ApiResult};
use cardinal_base::{clock::Clock, seal::SealingKey};
use cardinal_cards::filter::ListQuery;
use cardinal_identity::auth::caller::Caller;
use cardinal_store::catalogue::{Catalogue, Format};

pub(super) const SCHEME: &str = "export://";
const PREFIX: &str = "export://cards/";
/// Bytes of an export that is read as a resource: a client gets it in one message, and so does whoever reads that.
const READ_LIMIT: usize = 4 << 20;
/// How long reading may take.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a link is good.
const LINK_AGE: time::Duration = time::Duration::HOUR;
/// Bytes of a link; a longer one is none of ours.
const LINK_LIMIT: usize = 8 << 10;

/// Makes links and reads what they stand for.
#[derive(Clone)]
pub struct Exports {
    key: SealingKey,
    base_url: String,
    clock: Clock,
}

/// What a link stands for.
#[derive(Serialize, Deserialize)]
struct Export {
    /// As a list takes it: filters and `fields`.
    query: JsonObject,
    format: FileFormat,
    /// Seconds since 1970.
    until: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FileFormat {
    #[default]
    Ndjson,
    Csv,
    CsvForSpreadsheets,
}

/// A link that was made, and its text for a model.
pub(super) struct Link {
    pub resource: Resource,
    pub about: Value,
}

impl FileFormat {
    /// How it is written, its media type and its name.
    const fn traits(self) -> (Format, &'static str, &'static str) {
        match self {
            Self::Ndjson => (Format::Ndjson, "application/x-ndjson", "cards.ndjson"),
            Self::Csv => (Format::Csv, "text/csv", "cards.csv"),
            Self::CsvForSpreadsheets => (Format::CsvForSpreadsheets, "text/csv", "cards-spreadsheet.csv"),
        }
    }

    /// As the admin API is asked for it.
    const fn parameters(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Ndjson => &[("format", "ndjson")],
            Self::Csv => &[("format", "csv")],
            Self::CsvForSpreadsheets => &[("format", "csv"), ("spreadsheet", "true")],
        }
    }
}

impl Exports {
    pub fn new(key: SealingKey, base_url: &str, clock: Clock) -> Self {
        Self { key, base_url: base_url.to_owned(), clock }
    }

    /// A link to the cards that the arguments pick, for this caller.
    pub(super) async fn link(
        &self,
        catalogue: &Catalogue,
        caller: &Caller,
        mut arguments: JsonObject,
    ) -> ApiResult<Link> {
        let format = arguments.remove("format").map(serde_json::from_value).transpose().map_err(ApiError::internal)?;
        let query = list(&arguments)?;
        query.fields()?;
        let count = catalogue.count(&query).await?;
        let until = self.clock.now() + LINK_AGE;
        let export = Export { query: arguments, format: format.unwrap_or_default(), until: until.unix_timestamp() };
        let text = serde_json::to_vec(&export).map_err(ApiError::internal)?;
        let sealed = self.key.seal(&place(sessions::owner(caller)), &text).map_err(ApiError::internal)?;
        let (_, mime_type, name) = export.format.traits();
        let uri = format!("{PREFIX}{sealed}");
        let resource = Resource::new(&uri, name).with_title("Exported cards").with_mime_type(mime_type);
        let rest_url = self.rest_url(&export);
        let about = json!({
            "uri": uri,
            "mime_type": mime_type,
            "count": count,
            "expires_at": until.format(&Rfc3339).map_err(ApiError::internal)?,
            "rest_url": rest_url,
            "note": format!(
                "Read it with `resources/read`, with this same credential, up to {READ_LIMIT} bytes. What is larger comes \
                 from `rest_url`, to a credential that is good for the admin API."
            ),
        });
        Ok(Link { resource, about })
    }

    /// The cards that a link stands for now, as a file's text.
    pub(super) async fn read(
        &self,
        catalogue: &Catalogue,
        caller: &Caller,
        uri: &str,
    ) -> Result<ReadResourceResult, ErrorData> {
        let unknown = || refusal(&ApiError::not_found("resource"), uri);
        let export = self.open(sessions::owner(caller), uri).ok_or_else(unknown)?;
        if export.until < self.clock.now().unix_timestamp() {
            let text = "export-expired: this link was good for an hour. Call `cards_export` again.";
            return Err(ErrorData::invalid_params(text, None));
        }
        let (format, mime_type, _) = export.format.traits();
        let whole = match tokio::time::timeout(READ_TIMEOUT, collect(catalogue, &export, format)).await {
            Err(_) => Err(format!("export-timeout: it is not finished within {} s.", READ_TIMEOUT.as_secs())),
            Ok(Ok(None)) => Err(format!("export-too-large: it has over {READ_LIMIT} bytes.")),
            Ok(Ok(Some(text))) => Ok(text),
            Ok(Err(error)) => return Err(refusal(&error, uri)),
        };
        let text = whole.map_err(|why| {
            let text = format!(
                "{why} Narrow it by filters or `fields`, or have it streamed to a credential that is good for the \
                 admin API: GET {}",
                self.rest_url(&export)
            );
            ErrorData::invalid_params(text, None)
        })?;
        let mut result = ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(mime_type)]);
        result.cache_scope = Some(CacheScope::Private);
        result.ttl_ms = Some(0);
        Ok(result)
    }

    fn open(&self, owner: Uuid, uri: &str) -> Option<Export> {
        let sealed = uri.strip_prefix(PREFIX).filter(|_| uri.len() <= LINK_LIMIT)?;
        let text = self.key.open(&place(owner), sealed).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn rest_url(&self, export: &Export) -> String {
        let url = format!("{}/v1/admin/master-cards/export?", self.base_url);
        let start = url.len();
        let mut query = form_urlencoded::Serializer::for_suffix(url, start);
        query.extend_pairs(export.format.parameters());
        query.extend_pairs(export.query.iter().filter_map(|(name, value)| Some((name, value.as_str()?))));
        query.finish()
    }
}

/// The text of an export; none when it is too large.
async fn collect(catalogue: &Catalogue, export: &Export, format: Format) -> ApiResult<Option<String>> {
    let mut pieces = pin!(catalogue.export(&list(&export.query)?, None, format).await?);
    let mut text = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(ApiError::internal)?;
        if text.len() + piece.len() > READ_LIMIT {
            return Ok(None);
        }
        text.extend_from_slice(&piece);
    }
    String::from_utf8(text).map(Some).map_err(ApiError::internal)
}

/// The list that the arguments stand for.
fn list(arguments: &JsonObject) -> ApiResult<ListQuery> {
    let query: ListQuery = cardinal_base::input::json(Value::Object(arguments.clone()).to_string().as_bytes())?;
    query.filter()?;
    Ok(query)
}

/// Where a link opens that is this caller's.
fn place(owner: Uuid) -> String {
    format!("mcp export {owner}")
}

#[cfg(test)]
mod tests {
    use cardinal_base::config::Secret;

    use time::OffsetDateTime;

    use super::*;

    fn exports() -> Exports {
        let clock = Clock::manual(OffsetDateTime::UNIX_EPOCH);
        Exports::new(SealingKey::derive(&Secret::new("one")), "https://shop.example.com", clock)
    }

    fn export(query: Value) -> Export {
        serde_json::from_value(json!({"query": query, "format": "csv_for_spreadsheets", "until": 7})).unwrap()
    }

    #[test]
    fn a_link_opens_for_its_owner_alone() {
        let (exports, owner) = (exports(), Uuid::from_u128(1));
        let text = serde_json::to_vec(&export(json!({"q": "oak"}))).unwrap();
        let uri = format!("{PREFIX}{}", exports.key.seal(&place(owner), &text).unwrap());
        assert_eq!(exports.open(owner, &uri).unwrap().query["q"], "oak");
        assert!(exports.open(Uuid::from_u128(2), &uri).is_none());
        assert!(exports.open(owner, &format!("{uri}A")).is_none());
        assert!(exports.open(owner, &format!("{PREFIX}{}", "A".repeat(LINK_LIMIT))).is_none());
        let session = exports.key.seal(&format!("mcp session {owner}"), &text).unwrap();
        assert!(exports.open(owner, &format!("{PREFIX}{session}")).is_none(), "another thing of the same owner");
    }

    #[test]
    fn the_admin_api_has_the_same_export() {
        let export = export(json!({"q": "oak & ash", "status": "active"}));
        assert_eq!(
            exports().rest_url(&export),
            "https://shop.example.com/v1/admin/master-cards/export?format=csv&spreadsheet=true&q=oak+%26+ash&status=active"
        );
    }
}
