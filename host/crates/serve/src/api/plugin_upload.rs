//! `POST /v1/admin/plugin-registry/upload`: a signed plugin over the network, where an operator has allowed it. The
//! body is the one file that `cardinal plugin pack` makes; the minisign file beside it comes in a header. And its
//! counterpart, `DELETE /v1/admin/plugin-registry/{name}/package`, for one that does not serve.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::StatusCode;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::plugin_registry::RegistryItem;
use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    audit::AuditAction,
    call::{Call, CallHead, NoQuery, RawBody},
    http::{
        reply::{self, Reply},
        request_body::RequestBody,
    },
};
use cardinal_base::codes;
use cardinal_package::signature::SIGNATURE_LIMIT;
use cardinal_plugin_host::registry::upload::{UPLOAD_LIMIT, UploadReport, not_written};

/// The minisign file of the library, in base64.
const SIGNATURE: &str = "plugin-signature";
/// How long nothing may come.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long all of it may take.
const WHOLE: Duration = Duration::from_secs(15 * 60);

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/v1/admin/plugin-registry/upload", upload)
            .scope("plugins:manage")
            .audits(AuditAction::UploadPlugin)
            .describe(|op| {
                op.named("uploadPlugin", "plugins", "Put a signed plugin into the plugins folder of this host")
                    .notes(
                        "The body is one library that carries everything, as `cardinal plugin pack` makes it; the \
                         header `Plugin-Signature` is its minisign file in base64. Off unless the operator has set \
                         PLUGIN_UPLOAD=on.",
                    )
                    .header("Plugin-Signature", "The minisign file of the library, in base64.")
                    .body("application/octet-stream", json!({"type": "string", "format": "binary"}))
                    .replies_with::<RegistryItem>(201, "Stored in the plugins folder; this is its state.")
                    .fails(&[408, 413])
                    .refuses(&[&codes::CONFLICT, &codes::FORBIDDEN, &codes::VALIDATION_FAILED, &codes::STORAGE_FULL]);
            }),
        Route::delete("/v1/admin/plugin-registry/{name}/package", remove)
            .scope("plugins:manage")
            .audits(AuditAction::RemovePlugin)
            .describe(|op| {
                op.named("removePluginPackage", "plugins", "Remove a plugin's package from this host's folder")
                    .notes(
                        "For a package that lies there as an upload puts it there, `<name>.so`, and that does not \
                         serve: disabled, refused, failed or quarantined. Its data, its settings and what it wrote \
                         into cards stay. Off unless the operator has set PLUGIN_UPLOAD=on.",
                    )
                    .param("name", "The plugin's name.", json!({}))
                    .no_content()
                    .refuses(&[&codes::CONFLICT, &codes::FORBIDDEN]);
            }),
    ]
}

async fn remove(app: &Arc<App>, call: Call<NoQuery>) -> ApiResult<Reply> {
    let name = call.params.get("name").unwrap_or_default().to_owned();
    app.wait_for_plugins(None).await;
    if !app.plugins.has_upload(&name) {
        return Err(ApiError::not_found("package"));
    }
    allowed(app)?;
    let removed = app.plugins.remove_upload(&name).await?;
    let detail = json!({"version": removed.version, "sha256": removed.sha256});
    app.audit.done(&call, Some(name), Some(detail)).await;
    Ok(reply::no_content())
}

/// The operator's leave, which is off by default.
fn allowed(app: &App) -> ApiResult<()> {
    if app.config.plugins.upload && !app.config.plugins.trust_keys.is_empty() {
        return Ok(());
    }
    let detail =
        "Plugins can't be uploaded to this host or removed: PLUGIN_UPLOAD=on and a key in PLUGIN_TRUST_KEYS allow it.";
    Err(ApiError::new(&codes::FORBIDDEN).detail(detail))
}

async fn upload(app: &Arc<App>, call: Call<NoQuery, RawBody>) -> ApiResult<Reply> {
    let (call, mut stream) = call.into_stream();
    let UploadReport { name, version, sha256, signed_by } = receive(app, &call, &mut stream).await?;
    let detail = json!({"version": version, "sha256": sha256, "signed_by": signed_by});
    app.audit.done(&call, Some(name.clone()), Some(detail)).await;
    reply::json(StatusCode::CREATED, &RegistryItem::find(app, app.plugins.reports(), &name)?)
}

async fn receive(app: &App, call: &CallHead, stream: &mut RequestBody) -> ApiResult<UploadReport> {
    allowed(app)?;
    let signature = signature(call)?;
    if stream.size_hint().lower() > UPLOAD_LIMIT {
        return Err(too_large());
    }
    let (draft, file) = app.plugins.draft().await?;
    let mut file = tokio::fs::File::from_std(file);
    match tokio::time::timeout(WHOLE, write(stream, &mut file)).await {
        Ok(written) => written?,
        Err(_) => return Err(ApiError::new(&codes::REQUEST_TIMEOUT)),
    }
    Ok(draft.install(file.into_std().await, signature).await?)
}

fn signature(call: &CallHead) -> ApiResult<Vec<u8>> {
    let wrong = |detail: &str| ApiError::new(&codes::INVALID_REQUEST).detail(detail);
    let text = call.headers.get(SIGNATURE).ok_or_else(|| {
        wrong(
            "Send the package's minisign file in the header Plugin-Signature, in base64: only signed plugins are \
             accepted.",
        )
    })?;
    let bytes = STANDARD.decode(text.as_bytes()).map_err(|_| wrong("Plugin-Signature is not base64."))?;
    if bytes.len() as u64 > SIGNATURE_LIMIT {
        return Err(wrong("Plugin-Signature is too long for a minisign file."));
    }
    Ok(bytes)
}

async fn write(stream: &mut RequestBody, file: &mut tokio::fs::File) -> ApiResult<()> {
    let mut length = 0;
    loop {
        let frame = tokio::time::timeout(IDLE_TIMEOUT, stream.frame()).await;
        let Some(frame) = frame.map_err(|_| ApiError::new(&codes::REQUEST_TIMEOUT))? else { break };
        let broken = |error: hyper::Error| {
            let cause = anyhow::Error::new(error).context("reading an upload");
            ApiError::new(&codes::INVALID_REQUEST).detail("The body ended before it was complete.").cause(cause)
        };
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        length += data.len() as u64;
        if length > UPLOAD_LIMIT {
            return Err(too_large());
        }
        file.write_all(&data).await.map_err(not_written)?;
    }
    Ok(file.flush().await.map_err(not_written)?)
}

fn too_large() -> ApiError {
    ApiError::new(&codes::PAYLOAD_TOO_LARGE).detail(format!("A package has at most {UPLOAD_LIMIT} bytes."))
}
