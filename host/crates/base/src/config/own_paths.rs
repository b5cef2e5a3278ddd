//! The paths that are the host's own: no proxied prefix may take one.

/// First segments that are ours and never the proxy's.
const OWN: &[&str] = &["v1", "api", "admin", "healthz", "readyz", "metrics", "problems"];
const OWN_WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Whether a plain path is one of our own.
pub fn is_own(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    OWN.iter().any(|own| first.eq_ignore_ascii_case(own)) || below_well_known(path)
}

fn below_well_known(path: &str) -> bool {
    path.get(..OWN_WELL_KNOWN.len()).is_some_and(|start| start.eq_ignore_ascii_case(OWN_WELL_KNOWN))
}
