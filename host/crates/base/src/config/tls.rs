//! The certificate that the host serves TLS with.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use tokio_rustls::rustls::{
    self, InconsistentKeys, RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use super::{certificate::Certificate, secret::Secret};
use crate::secret_file::{Readers, read_small, readers};

/// The first byte of a client that speaks TLS: the type of the record that its handshake begins with.
pub const HANDSHAKE_RECORD: u8 = 22;
/// The only protocol that the host speaks on these connections.
const HTTP_1: &[u8] = b"http/1.1";
/// In the first line of every private key.
const KEY_MARK: &str = "PRIVATE KEY";

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
    chain: Secret,
    key: Secret,
}

/// Why they cannot be used. What the files hold is in no message, not even a part of it.
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
    /// A file cannot be read, or one with a key can be read by everybody.
    pub fn read(&self) -> Result<TlsPair, TlsError> {
        let unreadable = |error: io::Error| format!("cannot be read: {error}");
        let chain = read_small(&self.cert).map_err(|error| on_cert(unreadable(error)))?;
        let key = read_small(&self.key).map_err(|error| on_key(unreadable(error)))?;
        if readers(&self.key) == Readers::Everybody {
            return Err(on_key(open_to_all("")));
        }
        if chain.contains(KEY_MARK) && readers(&self.cert) == Readers::Everybody {
            return Err(on_cert(open_to_all("holds a private key, too, and ")));
        }
        Ok(TlsPair { chain: Secret::new(chain), key: Secret::new(key) })
    }

    /// Those that hold a key: some keep both in one file.
    pub fn with_a_key(&self) -> Vec<&Path> {
        let cert_has_one = read_small(&self.cert).is_ok_and(|text| text.contains(KEY_MARK));
        [self.key.as_path()].into_iter().chain(cert_has_one.then_some(self.cert.as_path())).collect()
    }
}

fn open_to_all(before: &str) -> String {
    format!(
        "{before}can be read by every user of this machine: run `chmod 0600` on it, and change the key if someone may \
         have read it"
    )
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
                on_cert("holds a certificate that cannot be used: it must be of X.509 version 3".to_owned())
            }
            _ => on_key(
                "holds a key of a kind that is not known here: use ECDSA, Ed25519 or RSA with 2048 bits or more"
                    .to_owned(),
            ),
        })?;
        config.alpn_protocols = vec![HTTP_1.to_vec()];
        config.ticketer = aws_lc_rs::Ticketer::new().map_err(of_library)?;
        Ok(config)
    }

    /// The server's own certificate. None where its dates cannot be read.
    pub fn certificate(&self) -> Option<Certificate> {
        Certificate::new(self.chain().ok()?.swap_remove(0))
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let chain = CertificateDer::pem_slice_iter(self.chain.expose().as_bytes()).collect::<Result<Vec<_>, _>>();
        // The reader's own error repeats what it has read, which may be a key.
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| on_cert("holds no certificate in PEM, or a damaged one".to_owned()))?;
        for (index, between) in chain.iter().enumerate().skip(1) {
            // The library itself looks at the first alone.
            RootCertStore::empty().add(between.clone()).map_err(|_| {
                on_cert(format!(
                    "holds a certificate that cannot be used: number {} of the chain is damaged",
                    index + 1
                ))
            })?;
        }
        Ok(chain)
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        let text = self.key.expose();
        if text.contains("ENCRYPTED") {
            let problem =
                "is encrypted, and the host has nobody to ask for its password: store it without one, mode 0600";
            return Err(on_key(problem.to_owned()));
        }
        PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| {
            on_key(
                "holds no private key in PEM, or a damaged one: each line of it must be a line of its own".to_owned(),
            )
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
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn known(name: &str) -> String {
        fs::read_to_string(format!("{}/tests/tls/{name}.pem", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
            let path = self.0.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }

        fn load(&self, cert: &str, key: &str) -> Result<ServerConfig, TlsError> {
            let files = TlsFiles { cert: self.file("crt", cert, 0o644), key: self.file("key", key, 0o600) };
            files.read()?.server_config()
        }
    }

    fn folder() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    #[test]
    fn a_certificate_and_its_key_are_taken() {
        let (folder, cert, key) = (folder(), known("self-signed.crt"), known("self-signed.key"));
        assert_eq!(folder.load(&cert, &key).unwrap().alpn_protocols, [HTTP_1]);
        assert!(folder.load(&(cert.clone() + &known("other.crt")), &key).is_ok(), "a chain");
        assert!(folder.load(&cert.replace('\n', "\r\n"), &("comment\n".to_owned() + &key)).is_ok());
    }

    #[test]
    fn each_mistake_names_its_setting() {
        let (cert, key) = (known("self-signed.crt"), known("self-signed.key"));
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        let folder = folder();
        for (cert, key, setting, wanted) in [
            ("", &*key, "TLS_CERT", "holds no certificate"),
            (broken, &key, "TLS_CERT", "cannot be used"),
            (&(cert.clone() + broken), &key, "TLS_CERT", "number 2 of the chain"),
            (&(cert.clone() + &key), &key, "TLS_CERT", "every user of this machine"),
            (&cert, &cert, "TLS_KEY", "holds no private key"),
            (&cert, encrypted, "TLS_KEY", "is encrypted"),
            (&cert, &known("other.key"), "TLS_KEY", "holds another key"),
        ] {
            let TlsError { setting: found, problem } = folder.load(cert, key).unwrap_err();
            assert!(found == setting && problem.contains(wanted), "{cert} {key}: {found} {problem}");
        }
        let files = TlsFiles { cert: folder.file("crt", &cert, 0o644), key: folder.file("key", &key, 0o644) };
        assert!(files.read().unwrap_err().problem.contains("chmod 0600"));
        let missing = TlsFiles { cert: files.cert, key: "/nowhere/key".into() };
        assert!(missing.read().unwrap_err().problem.starts_with("cannot be read"));
    }

    #[test]
    fn no_message_holds_a_part_of_a_key() {
        let (folder, cert, key) = (folder(), known("self-signed.crt"), known("self-signed.key"));
        let secret = key.lines().nth(1).unwrap();
        let damaged = [
            key.replace('\n', ""),
            key.replace('\n', " "),
            key.replace('\n', "\\n"),
            key.replacen('\n', "", 1),
            key[..key.len() / 2].to_owned(),
            key.replace(secret, &secret[..secret.len() - 3]),
        ];
        for text in damaged {
            for (cert, key) in [(&cert, &text), (&text, &key)] {
                let Err(error) = folder.load(cert, key) else { panic!("{text:?} was taken") };
                let shown = format!("{error} {error:?}");
                let bytes = format!("{}, {}", secret.as_bytes()[0], secret.as_bytes()[1]);
                assert!(!shown.contains(&secret[..8]) && !shown.contains(&bytes), "{shown}");
            }
        }
    }

    #[test]
    fn a_file_with_both_is_one_with_a_key() {
        let (folder, cert, key) = (folder(), known("self-signed.crt"), known("self-signed.key"));
        let both = folder.file("both", &(cert.clone() + &key), 0o600);
        let files = TlsFiles { cert: both.clone(), key: folder.file("key", &key, 0o600) };
        assert_eq!(files.with_a_key(), [files.key.as_path(), &both]);
        let files = TlsFiles { cert: folder.file("crt", &cert, 0o644), ..files };
        assert_eq!(files.with_a_key(), [files.key.as_path()]);
    }
}
