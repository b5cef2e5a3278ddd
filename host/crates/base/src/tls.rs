//! TLS towards servers of others.

use std::sync::Arc;

use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs},
};

/// Trusts the machine's own authorities as well as the public ones: a server in the same house often has a certificate
/// of the house's own authority.
///
/// # Errors
/// The TLS library refuses its own settings.
pub fn connector() -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    trusting(roots)
}

/// Trusts these authorities alone.
///
/// # Errors
/// As [`connector`].
pub fn trusting(roots: RootCertStore) -> anyhow::Result<TlsConnector> {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
