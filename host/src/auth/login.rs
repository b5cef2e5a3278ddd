//! Logging in and out by name and password.

use std::net::IpAddr;

use http::header;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Auth, session_token::Claims};
use crate::{
    config::Secret,
    db::{self, pool::Pool, sessions::NewSession},
    http::{codes, error::ApiError},
};

/// A login that worked.
pub struct Opened {
    pub token: String,
    pub expires_in: u64,
    pub user_id: Uuid,
    pub username: String,
}

/// A login that did not.
pub struct Failed {
    pub error: ApiError,
    /// Whose account was meant, when there is such a one.
    pub meant: Option<(Uuid, String)>,
}

impl<E: Into<ApiError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self { error: error.into(), meant: None }
    }
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
) -> Result<Opened, Failed> {
    let attempt = auth.throttle.begin(ip, username).await?;
    let checked = async {
        let user = db::users::by_login(pool, username).await?;
        let stored = user.as_ref().and_then(|user| user.password_hash.clone());
        let genuine = auth.hasher.verify(password, stored).await?;
        Ok::<_, ApiError>((user, genuine))
    };
    let (user, genuine) = match checked.await {
        Ok(checked) => checked,
        Err(error) => {
            attempt.give_back();
            return Err(error.into());
        }
    };
    let meant = user.as_ref().map(|user| (user.id, user.username.clone()));
    let refused = |error| Failed { error, meant };
    let wrong = || ApiError::new(&codes::INVALID_CREDENTIALS).header(header::WWW_AUTHENTICATE, "Bearer");
    let Some(user) = user.filter(|_| genuine) else {
        attempt.failed();
        return Err(refused(wrong()));
    };
    attempt.succeeded();
    if user.disabled_at.is_some() {
        return Err(refused(ApiError::new(&codes::ACCOUNT_DISABLED)));
    }
    let now = auth.clock.now();
    let expires_at = now + auth.token_ttl;
    let session_id = Uuid::now_v7();
    let agent = agent.map(|agent| agent.chars().take(AGENT_LIMIT).collect::<String>());
    let new = NewSession {
        id: session_id,
        user_id: user.id,
        epoch: user.token_epoch,
        expires_at,
        ip: Some(ip),
        user_agent: agent.as_deref(),
    };
    if !db::sessions::open(pool, &new).await? {
        return Err(refused(wrong())); // the account changed while the password was checked
    }
    let claims = Claims {
        session_id,
        user_id: user.id,
        epoch: u32::try_from(user.token_epoch).unwrap_or(0),
        issued: seconds(now),
        expires: seconds(expires_at),
    };
    let (token, expires_in) = (auth.ring.mint(&claims), auth.token_ttl.as_secs());
    Ok(Opened { token, expires_in, user_id: user.id, username: user.username })
}

/// Characters of a User-Agent that are kept with a session.
const AGENT_LIMIT: usize = 200;

fn seconds(at: OffsetDateTime) -> u32 {
    u32::try_from(at.unix_timestamp()).unwrap_or(u32::MAX)
}
