//! Files that the supervisor reads and writes for the worker, which cannot reach them: with them it could change what
//! plugins are trusted by.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use cardinal_base::{
    config::{Config, Secret, Trust},
    secret_file::{self, BOOTSTRAP_PASSWORD_FILE},
};
use cardinal_package::trust::Lock;

/// Where they are, and whether the lock may be written.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    lock: PathBuf,
    trust: Trust,
    bootstrap_password: PathBuf,
}

impl Files {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            lock: config.plugins.lock_file.clone(),
            trust: config.plugins.trust,
            bootstrap_password: config.paths.data_dir.join(BOOTSTRAP_PASSWORD_FILE),
        }
    }

    /// # Errors
    /// As the system reports them; the lock is damaged.
    pub(crate) fn read_lock(&self) -> io::Result<String> {
        Ok(serde_json::to_string(&Lock::load(&self.lock)?)?)
    }

    /// # Errors
    /// As the system reports them; the lock is the operator's alone, or this is none.
    pub(crate) fn write_lock(&self, lock: &str) -> io::Result<()> {
        if self.trust != Trust::Record {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "PLUGIN_TRUST is not record"));
        }
        serde_json::from_str::<Lock>(lock)?.save(&self.lock)
    }

    /// Writes the password, or removes it.
    ///
    /// # Errors
    /// As the system reports them.
    pub(crate) fn bootstrap_password(&self, password: Option<&Secret>) -> io::Result<()> {
        match password {
            Some(password) => secret_file::write(&self.bootstrap_password, password.expose()),
            None => match fs::remove_file(&self.bootstrap_password) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_the_operators_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("plugins.lock");
        for (trust, is_written) in [(Trust::Lock, false), (Trust::Signed, false), (Trust::Record, true)] {
            let files = Files { lock: lock.clone(), trust, bootstrap_password: folder.path().join("password") };
            assert!(files.write_lock("no lock").is_err());
            assert_eq!(files.write_lock(r#"{"plugins": {}}"#).is_ok(), is_written, "{trust:?}");
            assert_eq!(lock.exists(), is_written);
            assert_eq!(files.read_lock().unwrap(), r#"{"plugins":{}}"#);
        }
    }
}
