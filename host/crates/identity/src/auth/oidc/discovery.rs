//! The provider's discovery document: which issuer its tokens name and where its keys are.

use anyhow::{Context, ensure};
use serde::Deserialize;
use url::Url;

use cardinal_base::config::is_safe_provider;

const DOCUMENT: &str = "/.well-known/openid-configuration";
/// Where a provider may stand below its address, in the order that is tried.
const PLACES: [&str; 2] = ["/oidc", ""];

/// What discovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProviderMetadata {
    pub issuer: String,
    pub keys_at: Url,
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    jwks_uri: String,
}

/// The addresses of the document below `base`.
pub(super) fn addresses(base: &str) -> impl Iterator<Item = anyhow::Result<Url>> {
    let base = base.trim_end_matches('/').to_owned();
    PLACES.into_iter().map(move |place| Ok(Url::parse(&format!("{base}{place}{DOCUMENT}"))?))
}

/// Reads the document found `at` one of the addresses below `base`. `expected` is the issuer that
/// an operator has set, if one did.
///
/// # Errors
/// It is no such document, is somebody else's, or sends us to where keys can be forged.
pub(super) fn read(document: &[u8], at: &Url, base: &str, expected: Option<&str>) -> anyhow::Result<ProviderMetadata> {
    let Document { issuer, jwks_uri } = serde_json::from_slice(document).context("it is not a discovery document")?;
    // A document that names another issuer than the one asked is a misconfiguration or a mix-up attack.
    let base = base.trim_end_matches('/');
    let named = issuer.trim_end_matches('/');
    let fits = expected == Some(&*issuer) || PLACES.iter().any(|place| named.strip_prefix(base) == Some(place));
    ensure!(fits, "its issuer {issuer:?} is not {base} or {base}/oidc; set OIDC_ISSUER if that is intended");
    let keys_at = Url::parse(&jwks_uri).context("its jwks_uri is not a URL")?;
    // In clear only from this machine, and only when the document itself came from it that way.
    let safe = is_safe_provider(&keys_at) && (keys_at.scheme() == "https" || at.scheme() == "http");
    ensure!(safe, "its jwks_uri {jwks_uri:?} is neither https nor on this machine");
    Ok(ProviderMetadata { issuer: expected.map_or(issuer, str::to_owned), keys_at })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "https://auth.example.com";

    fn found(base: &str, issuer: &str, keys: &str, expected: Option<&str>) -> anyhow::Result<ProviderMetadata> {
        let document = serde_json::json!({"issuer": issuer, "jwks_uri": keys, "more": [1]}).to_string();
        read(document.as_bytes(), &Url::parse(base).unwrap(), base, expected)
    }

    #[test]
    fn is_looked_for_below_oidc_first() {
        let addresses: Vec<_> = addresses("https://auth.example.com/").map(|at| at.unwrap().to_string()).collect();
        assert_eq!(
            addresses,
            [
                "https://auth.example.com/oidc/.well-known/openid-configuration",
                "https://auth.example.com/.well-known/openid-configuration"
            ]
        );
    }

    #[test]
    fn its_issuer_is_the_address_asked() {
        for issuer in [BASE, "https://auth.example.com/", "https://auth.example.com/oidc"] {
            let discovered = found(BASE, issuer, "https://keys.example.net/jwks?a=b", None).unwrap();
            assert_eq!(
                (discovered.issuer.as_str(), discovered.keys_at.host_str().unwrap()),
                (issuer, "keys.example.net")
            );
        }
        for issuer in
            ["https://evil.example.com", "https://auth.example.com.evil.net", "https://auth.example.com/other"]
        {
            assert!(found(BASE, issuer, "https://auth.example.com/jwks", None).is_err(), "{issuer}");
        }
    }

    #[test]
    fn an_operators_issuer_wins() {
        let public = "https://id.example.com/realms/shop";
        let discovered = found(BASE, public, "https://auth.example.com/jwks", Some(public)).unwrap();
        assert_eq!(discovered.issuer, public);
        assert_eq!(found(BASE, BASE, "https://auth.example.com/jwks", Some(public)).unwrap().issuer, public);
        assert!(found(BASE, "https://third.example.com", "https://auth.example.com/jwks", Some(public)).is_err());
    }

    #[test]
    fn keys_come_over_tls_or_from_this_machine() {
        assert!(found(BASE, BASE, "http://auth.example.com/jwks", None).is_err());
        assert!(found(BASE, BASE, "http://127.0.0.1/jwks", None).is_err());
        assert!(found(BASE, BASE, "file:///etc/passwd", None).is_err());
        let local = "http://127.0.0.1:4000";
        assert!(found(local, local, "http://127.0.0.1:4000/jwks", None).is_ok());
        assert!(found(local, local, "http://192.0.2.1/jwks", None).is_err());
    }
}
