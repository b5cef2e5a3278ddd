//! Logging in and out by name and password.

use std::net::IpAddr;

use http::header;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Auth, session_token::Claims};
use crate::{
    config::Secret,
    db::{self, pool::Pool},
    http::{
        codes,
        error::{ApiError, ApiResult},
    },
};

/// A login that worked.
pub struct Opened {
    pub token: String,
    pub expires_in: u64,
    pub user_id: Uuid,
}

/// Checks name and password and opens a session. The same 401 in the same time for a wrong name
/// and a wrong password.
pub async fn open(
    auth: &Auth,
    pool: &Pool,
    username: &str,
    password: Secret,
    ip: IpAddr,
    agent: Option<&str>,
) -> ApiResult<Opened> {
    let now = auth.clock.now();
    if let Some(wait) = auth.throttle.wait(ip, username, auth.clock.unix()) {
        return Err(ApiError::new(&codes::RATE_LIMITED).detail("Too many failed logins.").retry_after(wait));
    }
    let user = db::users::by_login(pool, username).await?;
    let stored = user.as_ref().and_then(|user| user.password_hash.clone());
    let genuine = auth.hasher.verify(password, stored).await?;
    let Some(user) = user.filter(|_| genuine) else {
        auth.throttle.failed(ip, username, auth.clock.unix());
        return Err(ApiError::new(&codes::INVALID_CREDENTIALS).header(header::WWW_AUTHENTICATE, "Bearer"));
    };
    auth.throttle.succeeded(ip, username);
    if user.disabled_at.is_some() {
        return Err(ApiError::new(&codes::ACCOUNT_DISABLED));
    }
    let expires_at = now + auth.token_ttl;
    let session_id = Uuid::now_v7();
    let agent = agent.map(|agent| agent.chars().take(AGENT_LIMIT).collect::<String>());
    db::sessions::open(pool, session_id, user.id, expires_at, Some(ip), agent.as_deref()).await?;
    let claims = Claims {
        session_id,
        user_id: user.id,
        epoch: u32::try_from(user.token_epoch).unwrap_or(0),
        issued: seconds(now),
        expires: seconds(expires_at),
    };
    Ok(Opened { token: auth.ring.mint(&claims), expires_in: auth.token_ttl.as_secs(), user_id: user.id })
}

/// Characters of a User-Agent that are kept with a session.
const AGENT_LIMIT: usize = 200;

fn seconds(at: OffsetDateTime) -> u32 {
    u32::try_from(at.unix_timestamp()).unwrap_or(u32::MAX)
}
