//! The certificate that the host serves TLS with.

use std::{io, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};
use tokio_rustls::rustls::{
    self, InconsistentKeys, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject as _},
    },
};

use super::secret::Secret;
use crate::secret_file::read_small;

/// The only protocol that the host speaks on these connections.
const HTTP_1: &[u8] = b"http/1.1";

/// Where certificate and key lie. The supervisor alone reads them: a worker may not, and asks it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// What they hold, as PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsPair {
    /// The server's certificate and those between it and an authority.
    chain: String,
    key: Secret,
}

/// Why they cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: the file {problem}")]
pub struct TlsError {
    /// The setting that names the file.
    pub setting: &'static str,
    /// Fits behind the file's name.
    pub problem: String,
}

impl TlsFiles {
    /// # Errors
    /// A file cannot be read.
    pub fn read(&self) -> Result<TlsPair, TlsError> {
        let unreadable = |error: io::Error| format!("cannot be read: {error}");
        let chain = read_small(&self.cert).map_err(|error| on_cert(unreadable(error)))?;
        let key = read_small(&self.key).map_err(|error| on_key(unreadable(error)))?;
        Ok(TlsPair { chain, key: Secret::new(key) })
    }
}

impl TlsPair {
    /// What a server needs.
    ///
    /// # Errors
    /// One of them is something else, or the key is not that of the certificate.
    pub fn server_config(&self) -> Result<ServerConfig, TlsError> {
        let of_library = |cause: rustls::Error| on_key(format!("cannot be used: {cause}"));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(of_library)?.with_no_client_auth();
        let mut config = builder.with_single_cert(self.chain()?, self.key()?).map_err(|cause| match cause {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                on_key("holds another key than that of the certificate in TLS_CERT".to_owned())
            }
            rustls::Error::InvalidCertificate(_) => {
                on_cert(format!("holds a certificate that cannot be used: {cause}"))
            }
            cause => of_library(cause),
        })?;
        config.alpn_protocols = vec![HTTP_1.to_vec()];
        config.ticketer = aws_lc_rs::Ticketer::new().map_err(of_library)?;
        Ok(config)
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let chain = CertificateDer::pem_slice_iter(self.chain.as_bytes()).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| on_cert(format!("holds no certificate in PEM: {error}")))?;
        if chain.is_empty() { Err(on_cert("holds no certificate in PEM".to_owned())) } else { Ok(chain) }
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        let text = self.key.expose();
        PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| {
            on_key(match error {
                pem::Error::NoItemsFound if text.contains("ENCRYPTED PRIVATE KEY") => {
                    "is encrypted, and the host has nobody to ask for its password: store it without one, mode 0600"
                        .to_owned()
                }
                pem::Error::NoItemsFound => "holds no private key in PEM".to_owned(),
                error => format!("holds no private key in PEM: {error}"),
            })
        })
    }
}

fn on_cert(problem: String) -> TlsError {
    TlsError { setting: "TLS_CERT", problem }
}

fn on_key(problem: String) -> TlsError {
    TlsError { setting: "TLS_KEY", problem }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    const CERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/self-signed.crt.pem");
    const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/self-signed.key.pem");
    const OTHER_KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls/other.key.pem");

    fn load(cert: &str, key: &str) -> Result<ServerConfig, TlsError> {
        TlsFiles { cert: cert.into(), key: key.into() }.read()?.server_config()
    }

    #[test]
    fn a_certificate_and_its_key_are_taken() {
        assert_eq!(load(CERT, KEY).unwrap().alpn_protocols, [HTTP_1]);
    }

    #[test]
    fn each_mistake_names_its_setting() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let broken = file("broken", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        let encrypted =
            file("encrypted", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
        for (cert, key, setting, wanted) in [
            ("/nowhere/tls.crt", KEY, "TLS_CERT", "cannot be read"),
            (KEY, KEY, "TLS_CERT", "holds no certificate"),
            (&broken, KEY, "TLS_CERT", "that cannot be used"),
            (CERT, "/nowhere/tls.key", "TLS_KEY", "cannot be read"),
            (CERT, CERT, "TLS_KEY", "holds no private key"),
            (CERT, &encrypted, "TLS_KEY", "is encrypted"),
            (CERT, OTHER_KEY, "TLS_KEY", "holds another key"),
        ] {
            let TlsError { setting: found, problem } = load(cert, key).unwrap_err();
            assert!(found == setting && problem.contains(wanted), "{cert} {key}: {found} {problem}");
        }
    }
}
