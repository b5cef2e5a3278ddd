//! `/v1/admin/master-cards/import`: cards out of a file, as a job.

use std::sync::Arc;

use http::header;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::jobs;
use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    audit::AuditAction,
    call::{Call, Query, RawBody},
    http::reply::Reply,
    jobs::import::{
        self, NewImport, Upload,
        intake::{self, Intake},
    },
};
use cardinal_base::{codes, input};
use cardinal_cards::{
    file::Format,
    row::{Mode, Terms},
};
use cardinal_identity::auth::credential::Credential;

pub(super) fn routes() -> Vec<Route> {
    vec![Route::post("/v1/admin/master-cards/import", import).scope("cards:write").describe(|op| {
        op.named("importCards", "cards", "Import cards from a file, as a job")
            .notes(
                "A row has `title` and `sku`, and optionally `status` and `attributes`; a CSV column \
                 `attributes.<name>` is one attribute, `ignored.<name>` is left out. Rows are written as they arrive; \
                 the answer comes when the whole body has been read, and bad rows are errors of the job, with their \
                 lines. `args.columns` of the job lists the columns of a CSV file that are `imported` and those that \
                 are `ignored`.",
            )
            .param(
                "mode",
                "What an existing SKU means: an error, or an update of its card.",
                json!({"enum": ["create", "upsert"], "default": "create"}),
            )
            .param("dry_run", "Only report what would happen.", json!({"default": false}))
            .param("atomic", "All rows or none; up to 100,000.", json!({"default": false}))
            .param(
                "sources",
                "Whether to import ids and sources, as an export writes them; `keep` needs the scope `*`.",
                json!({"enum": ["ignore", "keep"], "default": "ignore"}),
            )
            .param("file", "The file's name, as the list of jobs shows it.", json!({"maxLength": FILE_NAME_LIMIT}))
            // Whatever it is: bad rows are the job's errors, and not the request's.
            .body("application/x-ndjson", json!({"examples": ["{\"title\": \"A chair\", \"sku\": \"C-1\"}\n"]}))
            .body("text/csv", json!({"examples": ["title,sku,attributes.brand\nA chair,C-1,Northwind\n"]}))
            .accepted::<super::jobs::JobItem>();
    })]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ImportQuery {
    mode: Option<String>,
    dry_run: Option<bool>,
    atomic: Option<bool>,
    sources: Option<String>,
    file: Option<String>,
}

/// Characters of a file's name.
const FILE_NAME_LIMIT: usize = 200;

impl ImportQuery {
    fn file(self) -> ApiResult<Option<String>> {
        match self.file {
            Some(name) if name.chars().count() > FILE_NAME_LIMIT || name.contains(char::is_control) => {
                let detail = format!("`file` is a name of up to {FILE_NAME_LIMIT} characters.");
                Err(ApiError::new(&codes::INVALID_REQUEST).detail(detail))
            }
            name => Ok(name.filter(|name| !name.is_empty())),
        }
    }

    fn terms(&self) -> ApiResult<Terms> {
        let refused = |detail: &str| Err(ApiError::new(&codes::INVALID_REQUEST).detail(detail));
        let mode = match self.mode.as_deref() {
            None | Some("create") => Mode::Create,
            Some("upsert") => Mode::Upsert,
            Some(_) => return refused("`mode` is create or upsert."),
        };
        let keeps_sources = match self.sources.as_deref() {
            None | Some("ignore") => false,
            Some("keep") => true,
            Some(_) => return refused("`sources` is ignore or keep."),
        };
        let (dry_run, atomic) = (self.dry_run.unwrap_or(false), self.atomic.unwrap_or(false));
        Ok(Terms { mode, dry_run, atomic, keeps_sources })
    }
}

async fn import(app: &Arc<App>, call: Call<Query<ImportQuery>, RawBody>) -> ApiResult<Reply> {
    let file = call.query()?.file()?;
    let (format, is_gzip, terms, permit) = admitted(app, &call)?;
    let (call, stream) = call.into_stream();
    let upload = Upload::begin(Intake::new(stream, is_gzip), format, terms).await?;
    let caller = call.caller()?;
    let mut args = serde_json::to_value(terms).map_err(ApiError::internal)?;
    args["format"] = match format {
        Format::Ndjson => "ndjson".into(),
        Format::Csv => "csv".into(),
    };
    if let Some(name) = file {
        args["file"] = name.into();
    }
    if let Some(columns) = upload.columns() {
        args["columns"] = serde_json::to_value(columns).map_err(ApiError::internal)?;
    }
    let new = NewImport {
        user_id: caller.user_id,
        actor: caller.actor(),
        credential: serde_json::to_value(Credential::from_caller(caller)).map_err(ApiError::internal)?,
        request_id: call.request_id.to_string(),
        args: args.clone(),
        terms,
    };
    let begun = import::begin(&app.jobs, permit, new, upload).await?;
    // At once: it goes on when its sender is gone.
    app.audit.done_as(&call, AuditAction::ImportCards, Some(begun.job.id.to_string()), Some(args)).await;
    jobs::accepted(app, &begun.read(&app.jobs).await?).await
}

/// What is asked for and a place for it, before anything of the body is looked at.
fn admitted(
    app: &App,
    call: &Call<Query<ImportQuery>, RawBody>,
) -> ApiResult<(Format, bool, Terms, OwnedSemaphorePermit)> {
    let format = import::format(input::media_type(&call.headers).as_deref())?;
    if input::is_other_charset(&call.headers) {
        return Err(ApiError::new(&codes::UNSUPPORTED_MEDIA_TYPE).detail("Send the file as UTF-8."));
    }
    let is_gzip = intake::is_gzip(call.header(header::CONTENT_ENCODING))?;
    let terms = call.query()?.terms()?;
    if terms.keeps_sources {
        call.caller()?.require("*")?;
    }
    Ok((format, is_gzip, terms, import::admit(&app.jobs)?))
}
