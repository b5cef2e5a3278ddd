//! From a credential to a [`Caller`]: one rule of detection, three methods, no falling through.

pub mod api_key;
pub mod authority;
pub mod bearer;
mod cache;
pub mod caller;
pub mod credential;
mod follow;
pub mod login;
pub mod oidc;
pub mod password;

pub mod session_token;
pub mod throttle;
pub mod username;

use std::{net::IpAddr, sync::Arc};

use uuid::Uuid;

use self::{
    api_key::PlainKey,
    bearer::Token,
    cache::{Cache, Resolution},
    caller::{Caller, CallerKind, SharedCaller},
    oidc::{Identity, Oidc, OidcError},
    password::Hasher,
    session_token::{KeyRing, SessionTokenError},
    throttle::Throttle,
};
use crate::error::AuthError;
use crate::limit::{KeyRate, Limits};
use cardinal_base::{
    clock::Clock,
    codes::{self, Code},
    scope::{self, ScopeSet},
};
use cardinal_database::pool::Pool;
use cardinal_store::{
    api_keys::{KnownKey, lineage::Maker},
    error::StoreError,
    users::User,
};

/// The kind of the users of an identity provider.
const OIDC: &str = "oidc";

/// Places that are learned in one statement; as many as are kept.
const MAX_LEARNED_PLACES: i64 = 20_000;

/// How long looking a credential up may take; then the database counts as away.
const LOOKUP_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

async fn look_up<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match tokio::time::timeout(LOOKUP_TIMEOUT, work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(StoreError::Outage(anyhow::anyhow!("a credential was not looked up in {LOOKUP_TIMEOUT:?}"))),
    }
}

/// Everything that authentication keeps.
pub struct Auth {
    pub clock: Clock,
    pub key_ring: KeyRing,
    pub hasher: Hasher,
    pub throttle: Throttle,
    pub token_ttl: std::time::Duration,
    /// The identity provider, when one is configured.
    pub oidc: Option<Arc<Oidc>>,
    /// Where a client that has no token is sent: the resource metadata of the MCP endpoint.
    challenge: String,
    pool: Pool,
    limits: Arc<Limits>,
    keys: Cache,
    sessions: Cache,
    jwts: Cache,
    follower: follow::Follower,
    uses: cache::Uses,
    seen: cache::Uses,
}

impl Auth {
    pub fn new(
        pool: Pool,
        clock: Clock,
        key_ring: KeyRing,
        token_ttl: std::time::Duration,
        base_url: &str,
        limits: Arc<Limits>,
    ) -> Self {
        let challenge = format!(r#"resource_metadata="{base_url}/.well-known/oauth-protected-resource/api""#);
        Self {
            clock,
            key_ring,
            hasher: Hasher::default(),
            throttle: Throttle::default(),
            token_ttl,
            oidc: None,
            challenge,
            pool,
            limits,
            keys: Cache::default(),
            sessions: Cache::default(),
            jwts: Cache::default(),
            follower: follow::Follower::default(),
            uses: cache::Uses::default(),
            seen: cache::Uses::default(),
        }
    }

    /// Accepts the JWTs of an identity provider too.
    #[must_use]
    pub fn with_provider(mut self, oidc: Option<Oidc>) -> Self {
        self.oidc = oidc.map(Arc::new);
        self
    }

    /// The system's user `uid` at the socket in `DATA_DIR`, who needs no credential.
    pub async fn local(&self, uid: u32) -> Result<SharedCaller, AuthError> {
        match look_up(cardinal_store::users::first_owner(&self.pool)).await? {
            Some(owner) => Ok(Arc::new(Caller::local(uid, owner))),
            None => Err(AuthError::Disabled { detail: Some("There is no owner yet to act as.") }),
        }
    }

    /// Who sends these values of `Authorization`. Refused without a credential or with a bad one, and when nobody can
    /// say.
    pub async fn identify<'a>(
        &self,
        authorization: impl Iterator<Item = &'a [u8]>,
        peer: IpAddr,
    ) -> Result<SharedCaller, AuthError> {
        let fresh = if self.follower.is_current() { cache::CACHE_TTL } else { cache::UNFOLLOWED_TTL };
        let token =
            bearer::read(authorization).map_err(|reason| self.unauthorized(&codes::INVALID_TOKEN, Some(reason)))?;
        match token {
            None => Err(self.unauthorized(&codes::MISSING_TOKEN, None)),
            Some(Token::ApiKey(text)) => self.by_key(text, peer, fresh).await,
            Some(Token::Hmac(text)) => self.by_session(text, peer, fresh).await,
            Some(Token::Jwt(text)) => self.by_jwt(text, fresh).await,
        }
    }

    async fn by_key(&self, text: &str, peer: IpAddr, fresh: time::Duration) -> Result<SharedCaller, AuthError> {
        // The checksum turns noise away before anything is looked up.
        let key = PlainKey::parse(text).ok_or_else(|| self.unauthorized(&codes::INVALID_TOKEN, None))?;
        let hash = key.hash();
        let now = self.clock.now();
        let load = || async {
            let Some(known) = look_up(cardinal_store::api_keys::by_hash(&self.pool, &hash)).await? else {
                return Ok(Resolution::Nobody);
            };
            if known.record.revoked_at.is_some_and(|at| at <= self.clock.now()) {
                return Ok(Resolution::Revoked);
            }
            Ok(found(&known.owner, |owner| key_caller(&known, &self.user_rights(owner), &self.limits)))
        };
        let caller = self.accept(self.keys.get(&hash, now, fresh, load).await?)?;
        if let Some((id, _)) = &caller.key {
            self.uses.note(*id, now, peer);
        }
        Ok(caller)
    }

    async fn by_session(&self, text: &str, peer: IpAddr, fresh: time::Duration) -> Result<SharedCaller, AuthError> {
        let claims = self.key_ring.verify(text, self.clock.unix()).map_err(|refused| match refused {
            SessionTokenError::Invalid => self.unauthorized(&codes::INVALID_TOKEN, None),
            SessionTokenError::Expired => self.unauthorized(&codes::EXPIRED_TOKEN, None),
        })?;
        let load = || async {
            let Some(session) = look_up(cardinal_store::sessions::find(&self.pool, claims.session_id)).await? else {
                return Ok(Resolution::Nobody);
            };
            let ended = session.revoked || i64::from(claims.epoch) != i64::from(session.user.token_epoch);
            if ended || session.user.id != claims.user_id {
                return Ok(Resolution::Revoked);
            }
            Ok(found(&session.user, |user| session_caller(claims.session_id, session.expires_at, user, &self.limits)))
        };
        let key: [u8; 32] = api_key::hash(text);
        let now = self.clock.now();
        let caller = self.accept(self.sessions.get(&key, now, fresh, load).await?)?;
        self.seen.note(claims.session_id, now, peer);
        Ok(caller)
    }

    async fn by_jwt(&self, text: &str, fresh: time::Duration) -> Result<SharedCaller, AuthError> {
        // Without an identity provider there is nobody whose signature would count.
        let Some(oidc) = &self.oidc else {
            return Err(self.unauthorized(&codes::INVALID_TOKEN, Some("This server does not accept JWTs.")));
        };
        let hash = api_key::hash(text);
        let load = || async {
            let identity = oidc.verify(text, &hash).await.map_err(|failure| self.jwt_failure(failure))?;
            let user = cardinal_store::oidc_users::find_or_create(
                &self.pool,
                &identity.issuer,
                &identity.subject,
                &identity.name,
            );
            let user = look_up(user).await?;
            Ok(found(&user, |user| jwt_caller(&identity, user, &self.user_rights(user), &self.limits)))
        };
        self.accept(self.jwts.get(&hash, self.clock.now(), fresh, load).await?)
    }

    /// The most that a user may do, by whatever credential: its role, and for the users of an identity provider what
    /// the operator lets it vouch for, a role or not. Without the provider they may nothing.
    fn user_rights(&self, user: &User) -> ScopeSet {
        if user.kind != OIDC {
            return role_scopes(user);
        }
        let max_scopes = self.oidc.as_ref().map(|oidc| oidc.max_scopes.clone()).unwrap_or_default();
        if user.role.is_some() { max_scopes.intersect(&role_scopes(user)) } else { max_scopes }
    }

    fn jwt_failure(&self, failure: OidcError) -> AuthError {
        match failure {
            OidcError::Refused(oidc::JwtError::Expired) => self.unauthorized(&codes::EXPIRED_TOKEN, None),
            OidcError::Refused(oidc::JwtError::Invalid(reason)) => {
                let challenge = Some(self.challenge_for(&codes::INVALID_TOKEN));
                let reason = Some(format!("the JWT is refused: {reason}"));
                AuthError::Unauthorized { code: &codes::INVALID_TOKEN, challenge, detail: None, reason }
            }
            OidcError::Unavailable(retry_after) => AuthError::NoProvider { retry_after },
        }
    }

    fn accept(&self, found: Resolution) -> Result<SharedCaller, AuthError> {
        match found {
            Resolution::Caller(caller) if caller.has_expired(self.clock.now()) => {
                Err(self.unauthorized(&codes::EXPIRED_TOKEN, None))
            }
            Resolution::Caller(caller) => Ok(caller),
            Resolution::Nobody => Err(self.unauthorized(&codes::INVALID_TOKEN, None)),
            Resolution::Revoked => Err(self.unauthorized(&codes::REVOKED_TOKEN, None)),
            Resolution::Disabled => Err(AuthError::Disabled { detail: None }),
        }
    }

    /// 401 with the challenge of RFC 6750: no error attribute when no token was shown.
    pub fn unauthorized(&self, code: &'static Code, detail: Option<&'static str>) -> AuthError {
        AuthError::Unauthorized { code, challenge: Some(self.challenge_for(code)), detail, reason: None }
    }

    fn challenge_for(&self, code: &Code) -> String {
        match code.name {
            "missing-token" => format!("Bearer {}", self.challenge),
            _ => format!(r#"Bearer error="invalid_token", error_description="{}", {}"#, code.title, self.challenge),
        }
    }

    /// A refusal for want of a scope tells an OAuth client what to ask its provider for, and where. All of it: some
    /// clients ask for just the scopes that they are given here, and would lose what they have.
    pub fn step_up(&self, refusal: AuthError, caller: &Caller, scope: &str) -> AuthError {
        let AuthError::InsufficientScope { scope: missing, .. } = &refusal else { return refusal };
        if caller.kind != CallerKind::Oidc {
            return refusal;
        }
        let wanted = match caller.scopes.as_text() {
            "" => scope.to_owned(),
            held => format!("{held} {scope}"),
        };
        let challenge = format!(r#"Bearer error="insufficient_scope", scope="{wanted}", {}"#, self.challenge);
        AuthError::InsufficientScope { scope: missing.clone(), challenge }
    }

    /// Whether a token of the caller's user can have this scope, if its client asks the provider for it.
    pub fn can_step_up(&self, caller: &Caller, scope: &str) -> bool {
        let allowed = self.oidc.as_ref().is_some_and(|oidc| oidc.max_scopes.holds(scope));
        let by_role = caller.role.as_deref().is_none_or(|role| scope::for_role(role).holds(scope));
        caller.kind == CallerKind::Oidc && allowed && by_role
    }

    /// How often credentials were known already, by their kind.
    pub fn cache_counts(&self) -> [(&'static str, cache::Counts); 2] {
        [("api_key", self.keys.counts()), ("session", self.sessions.counts())]
    }

    /// Learns where names have logged in, at whichever host, after the session `after`; gives the last one.
    pub async fn learn_places(&self, after: Uuid) -> Result<Uuid, StoreError> {
        let (last, places) = cardinal_store::sessions::places(&self.pool, after, MAX_LEARNED_PLACES).await?;
        self.throttle.learn(&places);
        Ok(last.unwrap_or(after))
    }

    /// Records when keys were last used and sessions last seen; called every few seconds and at the end.
    pub async fn flush_uses(&self) -> Result<(), StoreError> {
        let uses = self.uses.take();
        if !uses.is_empty()
            && let Err(error) = cardinal_store::api_keys::touch(&self.pool, &uses).await
        {
            self.uses.put_back(uses);
            return Err(error);
        }
        let seen = self.seen.take();
        if seen.is_empty() {
            return Ok(());
        }
        let times: Vec<_> = seen.iter().map(|(id, at, _)| (*id, *at)).collect();
        let written = cardinal_store::sessions::touch(&self.pool, &times).await;
        if written.is_err() {
            self.seen.put_back(seen);
        }
        written
    }
}

fn found(user: &User, make: impl FnOnce(&User) -> Caller) -> Resolution {
    if user.disabled_at.is_some() { Resolution::Disabled } else { Resolution::Caller(Arc::new(make(user))) }
}

fn role_scopes(user: &User) -> ScopeSet {
    user.role.as_deref().map(scope::for_role).unwrap_or_default()
}

fn key_caller(known: &KnownKey, rights: &ScopeSet, limits: &Limits) -> Caller {
    let KnownKey { record, owner, makers } = known;
    let own = KeyRate {
        budget: record.budget_key_id.unwrap_or(record.id),
        per_minute: record.rate_per_minute,
        burst: record.rate_burst,
    };
    // Narrowing a maker narrows what it made, in the rows; a host of an older version does not do that.
    let living = makers.iter().filter_map(|maker| maker.scopes.as_ref()).map(ScopeSet::lenient);
    let scopes = living.fold(ScopeSet::lenient(&record.scopes).intersect(rights), |held, maker| held.intersect(&maker));
    let rate =
        |maker: &Maker| KeyRate { budget: maker.budget, per_minute: maker.rate_per_minute, burst: maker.rate_burst };
    Caller {
        kind: CallerKind::ApiKey,
        key: Some((record.id, record.name.clone())),
        makers: makers.iter().map(|maker| maker.id).collect(),
        expires_at: record.expires_at,
        allowances: limits.key_allowances(std::iter::once(own).chain(makers.iter().map(rate))),
        is_mcp_only: record.mcp_only,
        ..user_caller(owner, scopes)
    }
}

fn session_caller(session_id: Uuid, expires_at: time::OffsetDateTime, user: &User, limits: &Limits) -> Caller {
    Caller {
        session_id: Some(session_id),
        expires_at: Some(expires_at),
        allowances: limits.user_allowances(user.id),
        ..user_caller(user, role_scopes(user))
    }
}

/// What the token grants, less what its holder may not do.
fn jwt_caller(identity: &Identity, user: &User, rights: &ScopeSet, limits: &Limits) -> Caller {
    Caller {
        kind: CallerKind::Oidc,
        expires_at: Some(identity.expires_at),
        allowances: limits.user_allowances(user.id),
        ..user_caller(user, identity.scopes.intersect(rights))
    }
}

fn user_caller(user: &User, scopes: ScopeSet) -> Caller {
    let (user_kind, role) = (user.kind.clone(), user.role.clone());
    Caller { user_kind, role, ..Caller::new(user.id, &user.username, scopes) }
}
