//! The certificate that workers serve with. It outlives them: files that are broken take no certificate away.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_rustls::TlsAcceptor;

use cardinal_base::config::{TlsFiles, TlsPair};
use cardinal_control::link::TlsReading;

/// Folders of fewer parts hold more than keys, as `/etc` does.
const MIN_COMPONENTS: usize = 3;

/// The files, and what they held when they could be used last.
pub(crate) struct TlsSource {
    files: Option<TlsFiles>,
    latest: Mutex<Option<TlsPair>>,
}

impl TlsSource {
    pub(crate) fn new(files: Option<TlsFiles>) -> Self {
        let source = Self { files, latest: Mutex::new(None) };
        source.read();
        source
    }

    /// With what the files held when they could be used last; none of a host in clear.
    pub(crate) fn acceptor(&self) -> Option<TlsAcceptor> {
        let config = self.latest.lock().as_ref()?.server_config().ok()?;
        Some(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reads the files again.
    pub(crate) fn read(&self) -> TlsReading {
        let Some(files) = &self.files else {
            return TlsReading { pair: None, problem: Some("TLS_CERT is not set".to_owned()) };
        };
        let mut latest = self.latest.lock();
        let read = files.read().and_then(|pair| {
            // What was good before still is.
            if latest.as_ref() != Some(&pair) {
                pair.server_config()?;
            }
            Ok(pair)
        });
        let problem = match read {
            Ok(pair) => {
                *latest = Some(pair);
                None
            }
            Err(error) => Some(error.to_string()),
        };
        TlsReading { pair: latest.clone(), problem }
    }
}

/// Folders that keys come and go in, which workers are kept from: where a key is a link, as certbot and Kubernetes have
/// it, the next one will lie beside that which it leads to now.
pub(crate) fn key_folders(files: &TlsFiles) -> Vec<PathBuf> {
    let program = std::env::current_exe().unwrap_or_default();
    let is_own = |folder: &PathBuf| folder.components().count() >= MIN_COMPONENTS && !program.starts_with(folder);
    let folders = files.with_a_key().into_iter().filter(|key| key.is_symlink()).flat_map(|key| {
        let target = key.canonicalize().ok();
        [Some(key.to_owned()), target].into_iter().flatten().filter_map(|key| key.parent().map(Path::to_owned))
    });
    folders.filter(is_own).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, os::unix::fs::symlink};

    use super::*;

    fn files(folder: &Path) -> TlsFiles {
        TlsFiles { cert: folder.join("crt"), key: folder.join("key") }
    }

    fn put(files: &TlsFiles, cert: &str, key: &str) {
        let known = |name: String| format!("{}/../base/tests/tls/{name}.pem", env!("CARGO_MANIFEST_DIR"));
        fs::copy(known(format!("{cert}.crt")), &files.cert).unwrap();
        fs::copy(known(format!("{key}.key")), &files.key).unwrap();
        fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn what_cannot_be_used_leaves_what_could() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let source = TlsSource::new(Some(files.clone()));
        assert!(source.read().pair.is_none() && source.read().problem.is_some());
        put(&files, "self-signed", "self-signed");
        let first = source.read();
        assert!(first.pair.is_some() && first.problem.is_none());
        put(&files, "other", "self-signed");
        let half = source.read();
        assert!(half.pair == first.pair && half.problem.unwrap().contains("another key"));
        fs::set_permissions(&files.key, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(source.read().problem.unwrap().contains("every user"));
        put(&files, "other", "other");
        let second = source.read();
        assert!(second.pair != first.pair && second.problem.is_none());
    }

    #[test]
    fn the_folders_of_a_key_that_is_a_link_are_its_own_and_its_targets() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (live, archive) = (root.join("live"), root.join("archive"));
        fs::create_dir(&live).and(fs::create_dir(&archive)).unwrap();
        let plain = files(&archive);
        put(&plain, "other", "other");
        assert_eq!(key_folders(&plain), Vec::<PathBuf>::new(), "what lies beside it may be anything");
        symlink(&plain.key, live.join("key")).unwrap();
        fs::copy(&plain.cert, live.join("crt")).unwrap();
        assert_eq!(key_folders(&files(&live)), [live, archive]);
    }
}
