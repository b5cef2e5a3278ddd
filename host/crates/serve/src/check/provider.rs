//! The identity provider, where there is one: whether tokens of it could be judged.

use super::finding::Finding;
use cardinal_base::{clock::Clock, config::Config};
use cardinal_identity::auth::oidc::Oidc;

/// Asks the provider once. While it is away, keys that a host has read go on counting: a warning.
pub async fn check(config: &Config) -> Option<Finding> {
    let name = config.auth.auth_url.as_deref().or(config.auth.oidc_issuer.as_deref())?;
    let provider = match Oidc::configured(&config.auth, &config.http.base_url, &Clock::System) {
        Ok(Some(provider)) => provider.try_provider().await,
        Ok(None) => return None,
        Err(error) => Err(error),
    };
    Some(match provider {
        Ok((issuer, keys)) => {
            let message = format!("The identity provider {issuer} publishes {keys} keys for ES384 signatures.");
            Finding::ok("provider-found", "AUTH_URL", message)
        }
        Err(error) => {
            Finding::warning("provider-unusable", "AUTH_URL", "No token of the identity provider could be accepted.")
                .found(format!("{name}: {error:#}"))
                .expected("a discovery document, and a key of EC P-384 for ES384 signatures")
                .fix("Start the provider, correct AUTH_URL (OIDC_ISSUER, OIDC_JWKS_URL), or have it sign with ES384.")
        }
    })
}
