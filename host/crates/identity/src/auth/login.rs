//! Logging in and out by name and password.

use std::{net::IpAddr, time::Duration};

use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Auth, session_token::Claims, throttle::Rule};
use crate::error::AuthError;
use crate::limit::addresses::Network;
use cardinal_base::{codes, config::Secret};
use cardinal_database::pool::Pool;
use cardinal_store::{error::StoreError, login_failures::Subject, sessions::NewSession};

/// A login that worked.
pub struct SuccessfulLogin {
    pub token: String,
    pub expires_in: u64,
    pub user_id: Uuid,
    pub username: String,
}

/// A login that did not.
pub struct LoginError {
    pub error: AuthError,
    /// Whose account was meant, when there is such a one.
    pub meant: Option<(Uuid, String)>,
}

impl From<AuthError> for LoginError {
    fn from(error: AuthError) -> Self {
        Self { error, meant: None }
    }
}

impl From<StoreError> for LoginError {
    fn from(error: StoreError) -> Self {
        AuthError::from(error).into()
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
) -> Result<SuccessfulLogin, LoginError> {
    let find = async || {
        let user = cardinal_store::users::by_login(pool, username).await?;
        let stored = user.as_ref().and_then(|user| user.password_hash.clone());
        Ok((user, stored))
    };
    let (user, is_right) = check(auth, pool, ip, username, password, find).await?;
    let meant = user.as_ref().map(|user| (user.id, user.username.clone()));
    let refused = |error| LoginError { error, meant };
    let wrong = || AuthError::Unauthorized {
        code: &codes::INVALID_CREDENTIALS,
        challenge: Some("Bearer".to_owned()),
        detail: None,
        reason: None,
    };
    let Some(user) = user.filter(|_| is_right) else {
        return Err(refused(wrong()));
    };
    if user.disabled_at.is_some() {
        return Err(refused(AuthError::Disabled { detail: None }));
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
    if !cardinal_store::sessions::open(pool, &new).await? {
        return Err(refused(wrong())); // the account changed while the password was checked
    }
    let claims = Claims {
        session_id,
        user_id: user.id,
        epoch: u32::try_from(user.token_epoch).unwrap_or(0),
        issued: seconds(now),
        expires: seconds(expires_at),
    };
    let (token, expires_in) = (auth.key_ring.mint(&claims), auth.token_ttl.as_secs());
    Ok(SuccessfulLogin { token, expires_in, user_id: user.id, username: user.username })
}

/// Whether a password is right, of whom `find` finds with the hash that is stored; slowed down as [`super::throttle`]
/// says. Cheap refusals come first: nothing is looked up before it is this try's turn to be hashed.
pub async fn check<T>(
    auth: &Auth,
    pool: &Pool,
    ip: IpAddr,
    name: &str,
    password: Secret,
    find: impl AsyncFnOnce() -> Result<(T, Option<String>), AuthError>,
) -> Result<(T, bool), AuthError> {
    let entry = auth.throttle.enter(ip, name, &password);
    let (attempt, permit, subjects) = loop {
        let attempt = auth.throttle.begin(&entry).await?;
        let subjects = subjects(attempt.rules(), ip, name);
        let counted = async {
            let permit = auth.hasher.acquire(attempt.rank()).await?;
            Ok::<_, AuthError>((cardinal_store::login_failures::begin(pool, &subjects).await?, permit))
        };
        match counted.await {
            Ok((Ok(()), permit)) => break (attempt, permit, subjects),
            Ok((Err(waits), permit)) => {
                drop(permit);
                attempt.delayed(&waits);
            }
            Err(error) => {
                attempt.give_back();
                if error.code().name == codes::OVERLOADED.name {
                    auth.throttle.expect(&entry, Duration::ZERO);
                }
                return Err(error);
            }
        }
    };
    let checked = async {
        let (found, stored) = find().await?;
        Ok::<_, AuthError>((found, auth.hasher.verify(permit, password, stored).await?))
    };
    let (outcome, is_over) = match checked.await {
        Ok((found, true)) => {
            attempt.succeeded();
            (Ok((found, true)), true)
        }
        Ok((found, false)) => {
            attempt.failed();
            return Ok((found, false));
        }
        Err(error) => {
            attempt.give_back();
            (Err(error), false)
        }
    };
    if let Err(error) = cardinal_store::login_failures::give_back(pool, &subjects, is_over).await {
        tracing::debug!(?error, "a successful login counts as a failed one for fifteen minutes");
    }
    outcome
}

/// What the hosts count for a try: its place; where that is not known, its address and its name as well.
fn subjects(rules: &[Rule], ip: IpAddr, name: &str) -> Vec<Subject> {
    let (network, name) = (Network::from(ip).to_string(), name.to_lowercase());
    let kind = if rules.len() == 1 { "known place" } else { "place" };
    let parts = [[kind, &network, &name], ["address", &network, ""], ["name", "", &name]];
    let subject = |(rule, parts): (&Rule, [&str; 3])| Subject {
        key: parts
            .iter()
            .fold(Sha256::new(), |hash, part| hash.chain_update(part).chain_update([0]))
            .finalize()
            .to_vec(),
        free: i32::try_from(rule.free).unwrap_or(i32::MAX),
        first_ms: rule.first as f64,
        longest_ms: rule.max_delay as f64,
    };
    rules.iter().zip(parts).map(subject).collect()
}

/// Characters of a User-Agent that are kept with a session.
const AGENT_LIMIT: usize = 200;

fn seconds(at: OffsetDateTime) -> u32 {
    u32::try_from(at.unix_timestamp()).unwrap_or(u32::MAX)
}
