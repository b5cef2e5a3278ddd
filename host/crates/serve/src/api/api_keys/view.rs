//! An API key as clients see it.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use cardinal_base::schema::DateTime;
use cardinal_store::api_keys::KeyRecord;

/// A key as it is shown: never the key itself.
#[derive(Serialize, JsonSchema)]
pub struct ApiKey<'a> {
    id: Uuid,
    name: &'a str,
    /// Its first and last characters.
    key_hint: &'a str,
    owner_id: Uuid,
    scopes: &'a [String],
    /// Null is no limit.
    rate_limit: Option<RateShown>,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<DateTime>")]
    expires_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "DateTime")]
    created_at: OffsetDateTime,
    /// At most a minute late.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<DateTime>")]
    last_used_at: Option<OffsetDateTime>,
    last_used_ip: Option<IpAddr>,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<DateTime>")]
    revoked_at: Option<OffsetDateTime>,
    revoked_reason: Option<&'a str>,
    /// The key that this one was rotated from. Both go when one of them is revoked.
    replaces_id: Option<Uuid>,
    /// The key that was rotated from this one and is not revoked.
    replaced_by_id: Option<Uuid>,
    /// The key that this one was made with, or its successor. This one holds no scope that its maker lacks,
    /// shares its rate, and goes when it is revoked.
    made_by_key_id: Option<Uuid>,
    /// Good at `/api` and `/api/mcp` alone.
    mcp_only: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct RateShown {
    per_minute: i32,
    burst: Option<i32>,
}

/// The one answer that shows a key.
#[derive(Serialize, JsonSchema)]
pub(super) struct NewApiKey<'a> {
    pub item: ApiKey<'a>,
    /// Shown here only.
    pub key: &'a str,
}

pub fn show(key: &KeyRecord) -> ApiKey<'_> {
    ApiKey {
        id: key.id,
        name: &key.name,
        key_hint: &key.key_hint,
        owner_id: key.owner_id,
        scopes: &key.scopes,
        rate_limit: key.rate_per_minute.map(|per_minute| RateShown { per_minute, burst: key.rate_burst }),
        expires_at: key.expires_at,
        created_at: key.created_at,
        last_used_at: key.last_used_at,
        last_used_ip: key.last_used_ip,
        revoked_at: key.revoked_at,
        revoked_reason: key.revoked_reason.as_deref(),
        replaces_id: key.replaces_id,
        replaced_by_id: key.replaced_by_id,
        made_by_key_id: key.made_by_key_id,
        mcp_only: key.mcp_only,
    }
}
