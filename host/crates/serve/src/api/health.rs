//! `/healthz`: the process is alive. `/readyz`: it can serve. Neither says more than that.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http::StatusCode;
use serde_json::json;

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    call::{AnyQuery, Call},
    http::reply::{self, Reply},
    router::AddressLimit,
};
use cardinal_base::codes;
use cardinal_store::error::StoreError;

/// How long the database may take to say that it is there.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// A query is ignored: balancers add one to get past caches, or to tell whose probe it is, and a host must not look
/// dead for it.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/healthz", alive)
            .public()
            .describe(|op| {
                op.named("getHealth", "system", "Whether the process is alive").replies_as(
                    200,
                    "The process is alive.",
                    "text/plain",
                    json!({"type": "string"}),
                );
            })
            .address_limit(AddressLimit::Exempt)
            .polled(),
        Route::get("/readyz", ready)
            .public()
            .describe(|op| {
                op.named("getReadiness", "system", "Whether the host can serve").replies_as(
                    200,
                    "The host can serve.",
                    "text/plain",
                    json!({"type": "string"}),
                );
            })
            .address_limit(AddressLimit::Exempt)
            .polled(),
    ]
}

async fn alive(_: &Arc<App>, _: Call<AnyQuery>) -> ApiResult<Reply> {
    Ok(reply::text(StatusCode::OK, "text/plain; charset=utf-8", "ok\n"))
}

async fn ready(app: &Arc<App>, _: Call<AnyQuery>) -> ApiResult<Reply> {
    if app.draining.load(Ordering::Acquire) {
        return Err(ApiError::new(&codes::DRAINING));
    }
    if !app.ready.load(Ordering::Acquire) {
        return Err(ApiError::new(&codes::STARTING));
    }
    match tokio::time::timeout(PING_TIMEOUT, ask_database(app)).await {
        Ok(Ok(())) => Ok(reply::text(StatusCode::OK, "text/plain; charset=utf-8", "ready\n")),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(ApiError::new(&codes::DATABASE_UNAVAILABLE)),
    }
}

/// Whether the database answers at all.
pub(crate) async fn ask_database(app: &App) -> Result<(), StoreError> {
    app.pools.core.get().await?.simple_query("").await?;
    Ok(())
}
