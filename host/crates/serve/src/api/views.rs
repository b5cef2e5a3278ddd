//! `/v1/admin/views`: saved list views. Each is its owner's alone: of a key, of whoever the key belongs to.

use std::{collections::BTreeMap, sync::Arc};

use http::{StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    call::{Call, Json, MergePatch, NoQuery, if_match, names_version, with_etag},
    http::reply::{self, Item, Reply},
};
use cardinal_base::{
    codes,
    input::{self, maybe},
};
use cardinal_cards::filter::ListQuery;
use cardinal_store::views::{self, Content, View};

/// Views of one owner.
const MAX_VIEWS: i64 = 200;
const NAME_LIMIT: usize = 120;
/// Bytes of a filter as it is stored.
const FILTER_LIMIT: usize = 4_096;
const COLUMNS_LIMIT: usize = 50;
const COLUMN_LIMIT: usize = 200;
/// Parameters of the list that say where in it one is, or that a view has members of its own for.
const NOT_FILTERS: [&str; 5] = ["limit", "cursor", "sort", "fields", "count"];

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/views", list).scope("cards:read").describe(|op| {
            op.named("listViews", "views", "One's saved list views, by name").ok::<Views>();
        }),
        Route::post("/v1/admin/views", create).scope("cards:read").describe(|op| {
            op.named("createView", "views", "Save a list view")
                .created::<Item<View>>()
                .etag()
                .refuses(&[&codes::NAME_TAKEN, &codes::CONFLICT]);
        }),
        Route::get("/v1/admin/views/{id}", get).scope("cards:read").describe(|op| {
            op.named("getView", "views", "One saved view").ok::<Item<View>>().unless_known();
        }),
        Route::patch("/v1/admin/views/{id}", update).scope("cards:read").describe(|op| {
            op.named("updateView", "views", "Change a saved view (JSON Merge Patch)")
                .if_match()
                .ok::<Item<View>>()
                .etag()
                .refuses(&[&codes::NAME_TAKEN]);
        }),
        Route::delete("/v1/admin/views/{id}", delete).scope("cards:read").describe(|op| {
            op.named("deleteView", "views", "Remove a saved view").if_match().no_content();
        }),
    ]
}

#[derive(Serialize, JsonSchema)]
struct Views {
    items: Vec<View>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewView {
    #[schemars(length(min = 1, max = 120))]
    name: String,
    /// Query parameters of the list of cards, such as `{"status": "active", "missing_kind": "supplier"}`.
    #[serde(default)]
    filter: Map<String, Value>,
    sort: Option<String>,
    #[schemars(length(max = 50))]
    columns: Option<Vec<String>>,
}

/// `filter` is replaced as a whole by a merge patch's rules: members that are null go.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ViewPatch {
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "String", length(min = 1, max = 120))]
    name: Option<Option<String>>,
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "Option<Map<String, Value>>")]
    filter: Option<Option<Map<String, Value>>>,
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "Option<String>")]
    sort: Option<Option<String>>,
    #[serde(default, deserialize_with = "maybe::present")]
    #[schemars(with = "Option<Vec<String>>", length(max = 50))]
    columns: Option<Option<Vec<String>>>,
}

async fn list(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    reply::ok(&Views { items: views::list(&app.pools.core, call.caller()?.user_id).await? })
}

async fn create(app: &Arc<App>, call: Call<NoQuery, Json<NewView>>) -> ApiResult<Reply> {
    let NewView { name, filter, sort, columns } = call.body()?;
    let content = checked(Content { name, filter, sort, columns })?;
    let made = views::insert(&app.pools.core, call.caller()?.user_id, &content, MAX_VIEWS).await?;
    let view = made.ok_or_else(|| {
        ApiError::new(&codes::CONFLICT).detail(format!("You have {MAX_VIEWS} views already; remove one of them first."))
    })?;
    with_etag(reply::created(&format!("/v1/admin/views/{}", view.id), &Item { item: &view })?, view.version)
}

async fn get(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let id = call.params.id("id", "view")?;
    let view = views::get(&app.pools.core, call.caller()?.user_id, id).await?;
    let view = view.ok_or_else(|| ApiError::not_found("view"))?;
    if call.header(header::IF_NONE_MATCH).is_some_and(|tags| names_version(tags, view.version)) {
        return with_etag(reply::status(StatusCode::NOT_MODIFIED), view.version);
    }
    with_etag(reply::ok(&Item { item: &view })?, view.version)
}

async fn update(app: &Arc<App>, call: Call<NoQuery, MergePatch<ViewPatch>>) -> ApiResult<Reply> {
    let id = call.params.id("id", "view")?;
    let precondition = if_match(&call)?;
    let patch = call.body()?;
    let owner = call.caller()?.user_id;
    let view = views::update(&app.pools.core, owner, id, &precondition, |now| checked(patch.onto(now)?)).await??;
    with_etag(reply::ok(&Item { item: &view })?, view.version)
}

async fn delete(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let id = call.params.id("id", "view")?;
    views::delete(&app.pools.core, call.caller()?.user_id, id, &if_match(&call)?).await?;
    Ok(reply::no_content())
}

impl ViewPatch {
    fn onto(self, now: View) -> ApiResult<Content> {
        let mut filter = now.filter;
        match self.filter {
            None => {}
            Some(None) => filter.clear(),
            Some(Some(changes)) => {
                for (name, value) in changes {
                    match value {
                        Value::Null => drop(filter.remove(&name)),
                        value => drop(filter.insert(name, value)),
                    }
                }
            }
        }
        Ok(Content {
            name: maybe::not_null(self.name, "/name")?.unwrap_or(now.name),
            filter,
            sort: self.sort.unwrap_or(now.sort),
            columns: self.columns.unwrap_or(now.columns),
        })
    }
}

/// The content as it is stored, or all that is wrong with it.
fn checked(mut content: Content) -> ApiResult<Content> {
    let mut faults: Vec<(String, String)> = Vec::new();
    content.name = content.name.trim().to_owned();
    let length = content.name.chars().count();
    if !(1..=NAME_LIMIT).contains(&length) || content.name.chars().any(char::is_control) {
        faults.push(("/name".into(), format!("1 to {NAME_LIMIT} characters, none of them a control character.")));
    }
    faults.extend(filter_faults(&content.filter));
    if let Some(sort) = &content.sort
        && let Err(error) = as_the_list_reads_it(&[("sort", sort)]).and_then(|query| Ok(query.sort().map(drop)?))
    {
        faults.push(("/sort".into(), words(&error)));
    }
    for (i, column) in content.columns.iter().flatten().enumerate() {
        faults.extend(column_fault(column).map(|fault| (format!("/columns/{i}"), fault)));
    }
    if content.columns.as_ref().is_some_and(|columns| columns.len() > COLUMNS_LIMIT) {
        faults.push(("/columns".into(), format!("At most {COLUMNS_LIMIT}.")));
    }
    if faults.is_empty() {
        return Ok(content);
    }
    let error = ApiError::new(&codes::VALIDATION_FAILED);
    Err(faults.into_iter().fold(error, |error, (pointer, detail)| error.field(pointer, detail)))
}

/// Each parameter is read by the list's own code, alone first so that the one at fault can be named, then all together.
fn filter_faults(filter: &Map<String, Value>) -> Vec<(String, String)> {
    if serde_json::to_vec(filter).map_or(usize::MAX, |bytes| bytes.len()) > FILTER_LIMIT {
        return vec![("/filter".into(), format!("At most {FILTER_LIMIT} bytes of JSON."))];
    }
    let mut faults = Vec::new();
    let mut texts = BTreeMap::new();
    for (name, value) in filter {
        let read = text(value).and_then(|text| {
            if NOT_FILTERS.contains(&name.as_str()) {
                return Err("This parameter of the list is not a filter.".to_owned());
            }
            let query = as_the_list_reads_it(&[(name, &text)]).and_then(|query| Ok(query.filter()?));
            query.map(|_| text).map_err(|error| words(&error))
        });
        match read {
            Ok(text) => drop(texts.insert(name.as_str(), text)),
            Err(detail) => faults.push((format!("/filter/{}", input::escape(name)), detail)),
        }
    }
    let pairs: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
    if faults.is_empty()
        && let Err(error) = as_the_list_reads_it(&pairs).and_then(|query| Ok(query.filter()?))
    {
        faults.push(("/filter".into(), words(&error)));
    }
    faults
}

fn as_the_list_reads_it(pairs: &[(&str, &str)]) -> ApiResult<ListQuery> {
    let query = serde_urlencoded::to_string(pairs).map_err(ApiError::internal)?;
    Ok(input::query(Some(&query))?)
}

/// A value as it stands in a query.
fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        _ => Err("A text, a number, true or false.".to_owned()),
    }
}

fn words(error: &ApiError) -> String {
    error.client_detail().unwrap_or("This is not valid.").to_owned()
}

/// A member of a card, or a path into its attributes.
fn column_fault(column: &str) -> Option<String> {
    let is_name = column.chars().count() <= COLUMN_LIMIT && !column.chars().any(char::is_control);
    let member = match column.strip_prefix("attributes.") {
        Some("") => false,
        Some(_) => true,
        None => as_the_list_reads_it(&[("fields", column)]).is_ok_and(|query| query.fields().is_ok()),
    };
    (!is_name || !member)
        .then(|| format!("A member of a card, or a path such as attributes.brand; at most {COLUMN_LIMIT} characters."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pointers(content: Value) -> Vec<String> {
        let NewView { name, filter, sort, columns } = serde_json::from_value(content).unwrap();
        let checked = checked(Content { name, filter, sort, columns });
        checked.err().map(|e| e.fields().iter().map(|field| field.0.clone()).collect()).unwrap_or_default()
    }

    #[test]
    fn a_view_is_checked_as_the_list_is() {
        let good = json!({"name": "Mine", "filter": {"status": "active", "q": "lamp", "deleted": false},
            "sort": "-updated_at", "columns": ["title", "attributes.brand"]});
        assert!(pointers(good).is_empty());
        assert_eq!(
            pointers(json!({"name": " ", "filter": {"status": "gone", "nope": "x", "limit": 5, "q": null, "a/b": "x"},
                "sort": "price", "columns": ["title", "price", "attributes."]})),
            [
                "/name",
                "/filter/a~1b",
                "/filter/limit",
                "/filter/nope",
                "/filter/q",
                "/filter/status",
                "/sort",
                "/columns/1",
                "/columns/2"
            ]
        );
        assert_eq!(pointers(json!({"name": "x", "filter": {"q": "y".repeat(5000)}})), ["/filter"]);
        assert_eq!(pointers(json!({"name": "x", "columns": vec!["sku"; 51]})), ["/columns"]);
    }
}
