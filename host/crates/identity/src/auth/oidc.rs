//! JWTs of an identity provider: ES384, meant for us, signed by a key that the provider publishes.

mod discovery;
mod fetch;
mod jwks;
#[cfg(test)]
mod sample;
mod source;
mod token;
mod verified;

use std::sync::Arc;

use url::Url;

use self::{
    source::{Provider, RefreshOutcome, Source, State},
    token::{Claims, Jwt},
    verified::TokenCache,
};
pub use self::{
    token::{JwtError, LEEWAY},
    verified::Identity,
};
use cardinal_base::{
    clock::Clock,
    config,
    scope::{APPROVE, ScopeSet, UNATTENDED},
};

/// How often a token waits for keys: once for a fetch that is under way already, once for its own.
const WAITS: usize = 2;

/// Why a token is not accepted.
#[derive(Debug, PartialEq, Eq)]
pub enum OidcError {
    Refused(JwtError),
    /// Nobody can say; how many seconds later it is worth asking again.
    Unavailable(u32),
}

/// The identity provider, as far as tokens are concerned.
pub struct Oidc {
    source: Source,
    verified: TokenCache,
    audience: String,
    /// The most that a token may grant.
    pub max_scopes: ScopeSet,
    clock: Clock,
}

impl Oidc {
    /// `None` when no provider is configured.
    ///
    /// # Errors
    /// TLS is not to be had on this machine.
    pub fn configured(settings: &config::Auth, base_url: &str, clock: &Clock) -> anyhow::Result<Option<Self>> {
        let (base, issuer) = (settings.auth_url.clone(), settings.oidc_issuer.clone());
        if base.is_none() && issuer.is_none() {
            return Ok(None);
        }
        let keys_at = settings.oidc_jwks_url.as_deref().map(Url::parse).transpose()?;
        let (granted, never): (Vec<_>, Vec<_>) =
            settings.oidc_max_scopes.iter().partition(|scope| can_be_a_tokens(scope));
        if !never.is_empty() {
            tracing::warn!(scopes = ?never, "OIDC_MAX_SCOPES names scopes that no token can have; they are ignored");
        }
        Ok(Some(Self {
            source: Source::new(Provider { base, issuer, keys_at }, clock.clone())?,
            verified: TokenCache::default(),
            audience: format!("{base_url}/api"),
            max_scopes: ScopeSet::lenient(granted),
            clock: clock.clone(),
        }))
    }

    /// Keeps the provider's keys fresh, for ever.
    pub async fn keep_fresh(&self) {
        self.source.keep(|keys| self.verified.withdraw(keys, self.clock.now())).await;
    }

    /// Asks the provider once: its issuer, and how many keys it has for tokens that are taken here.
    ///
    /// # Errors
    /// It cannot be asked, or publishes nothing of use, in words.
    pub async fn try_provider(&self) -> anyhow::Result<(String, usize)> {
        self.source.try_once().await
    }

    /// Where clients get tokens, as far as it is known.
    pub fn issuer(&self) -> Option<String> {
        self.source.issuer()
    }

    /// What clients should ask the provider for: as much as a token may grant.
    pub fn scopes_to_ask_for(&self) -> Vec<String> {
        let scopes = self.max_scopes.to_strings();
        if scopes.iter().any(|scope| scope == "*") {
            config::DEFAULT_OIDC_MAX_SCOPES.map(str::to_owned).to_vec()
        } else {
            scopes
        }
    }

    /// Whom `text` is about. `hash` is the token's, for the memory of what has been verified.
    pub async fn verify(&self, text: &str, hash: &[u8; 32]) -> Result<Arc<Identity>, OidcError> {
        if let Some(identity) = self.verified.get(hash, self.clock.now()) {
            return Ok(identity);
        }
        let jwt = Jwt::parse(text).map_err(OidcError::Refused)?;
        let mut state = self.source.state();
        let mut waits = WAITS;
        loop {
            if let Some(identity) = self.validate(&jwt, &state).map_err(OidcError::Refused)? {
                self.verified.keep(hash, Arc::clone(&identity), self.clock.now());
                return Ok(identity);
            }
            if waits == 0 {
                return Err(self.unsettled(&state));
            }
            waits -= 1;
            match self.source.later_than(state.round).await {
                RefreshOutcome::State(later) => state = later,
                RefreshOutcome::NotYet => return Err(self.unavailable(&state)),
                RefreshOutcome::No => return Err(self.unsettled(&state)),
            }
        }
    }

    /// The identity, or `None` when no key that is known has signed the token.
    fn validate(&self, jwt: &Jwt<'_>, state: &State) -> Result<Option<Arc<Identity>>, JwtError> {
        let Some(trusted) = &state.trusted else { return Ok(None) };
        // Claims before the signature: what is not meant for us costs no cryptography.
        jwt.claims.validate(&trusted.issuer, &self.audience, self.clock.now())?;
        let signed_by = trusted.keys.signer(jwt.key_id.as_deref(), jwt.message, jwt.signature);
        Ok(signed_by.map(|signed_by| Arc::new(self.identity(&jwt.claims, signed_by))))
    }

    /// No known key has signed it. While the provider can't be asked it may be a new key's token, and an
    /// outage must not log anybody out.
    fn unsettled(&self, state: &State) -> OidcError {
        if state.failed || state.trusted.is_none() {
            return self.unavailable(state);
        }
        OidcError::Refused(JwtError::Invalid("no key of the provider has signed it"))
    }

    fn unavailable(&self, state: &State) -> OidcError {
        OidcError::Unavailable(state.retry_after(self.clock.now()))
    }

    fn identity(&self, claims: &Claims, signed_by: [u8; 32]) -> Identity {
        Identity {
            issuer: claims.iss.clone(),
            subject: claims.sub.clone(),
            name: claims.name().to_owned(),
            scopes: claims.scopes().intersect(&self.max_scopes),
            expires_at: claims.expires_at(),
            signed_by,
        }
    }
}

/// Confirmations are answered by a person who has logged in here, and waived for a key that was made for it.
fn can_be_a_tokens(scope: &String) -> bool {
    ![APPROVE, UNATTENDED].contains(&scope.as_str()) && ScopeSet::strict(std::slice::from_ref(scope)).is_ok()
}

#[cfg(test)]
mod tests;
