//! `/v1/admin/pictures`: a picture from the web, read and checked by the host.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    call::{Call, Query},
    http::{body::Body, entity_tag::names_tag, reply::Reply},
    pictures::{Format, MAX_URL, PictureError},
};
use cardinal_base::codes;

/// As long as the host itself keeps one. Credentials decide who gets it, so no cache of many people's may.
const CACHE: &str = "private, max-age=3600";
const BUSY_SECONDS: u32 = 5;

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get("/v1/admin/pictures", show).scope("cards:read").describe(|op| {
        op.named("getPicture", "cards", "A picture from the web, read and checked by the host")
            .notes(
                "JPEG, PNG, WebP, GIF and AVIF of at most 8 MiB, recognised by their content. Private networks are \
                 blocked unless `PICTURE_NETWORKS` allows them.",
            )
            .param("url", "Where the picture is.", json!({"format": "uri", "maxLength": MAX_URL}));
        for format in [Format::Jpeg, Format::Png, Format::WebP, Format::Gif, Format::Avif] {
            let bytes = json!({"type": "string", "format": "binary"});
            op.replies_as(200, "The picture.", format.media_type(), bytes);
        }
        op.unless_known().fails(&[400]).refuses(&[&codes::NOT_FOUND, &codes::UPSTREAM_TIMEOUT, &codes::OVERLOADED]);
    })]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PictureQuery {
    url: String,
}

async fn show(app: &Arc<App>, call: Call<Query<PictureQuery>>) -> ApiResult<Reply> {
    let PictureQuery { url } = call.query()?;
    let outcome = app.pictures.get(&url).await.map_err(|_| {
        ApiError::new(&codes::OVERLOADED)
            .detail("Too many pictures are being fetched at the moment.")
            .retry_after(BUSY_SECONDS)
    })?;
    let picture = outcome.map_err(|error| refusal(&error))?;
    let is_known = call.header(header::IF_NONE_MATCH).is_some_and(|tags| names_tag(tags, &picture.tag));
    let mut reply = Reply::new(if is_known { Body::empty() } else { Body::full(picture.bytes.clone()) });
    if is_known {
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = reply.headers_mut();
    if !is_known {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(picture.format.media_type()));
    }
    headers.insert(header::ETAG, HeaderValue::try_from(&picture.tag).map_err(ApiError::internal)?);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(CACHE));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    Ok(reply)
}

fn refusal(error: &PictureError) -> ApiError {
    let code = match error {
        PictureError::NotAWebAddress | PictureError::TooLong | PictureError::Credentials => &codes::INVALID_REQUEST,
        PictureError::Timeout => &codes::UPSTREAM_TIMEOUT,
        // Not 502: a card with a bad address is no fault of this service, and must not wake its operators.
        _ => &codes::NOT_FOUND,
    };
    let source = std::error::Error::source(error).map(ToString::to_string);
    let refused = ApiError::new(code).detail(error.to_string());
    match source {
        Some(cause) => refused.cause(anyhow::anyhow!(cause)),
        None => refused,
    }
}
