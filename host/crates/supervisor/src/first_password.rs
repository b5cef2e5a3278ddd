//! The password of the first start: named to the operator as long as it lets the first user in, and gone from
//! `DATA_DIR` once it does not.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use cardinal_base::{
    config::{Config, Secret},
    password,
    secret_file::BOOTSTRAP_PASSWORD_FILE,
};
use cardinal_control::link::FirstLogin;

/// Where it may stand.
#[derive(Debug, Clone)]
pub(crate) struct FirstPassword {
    made: PathBuf,
    set: Option<Secret>,
    set_in: Option<PathBuf>,
}

impl FirstPassword {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            made: config.paths.data_dir.join(BOOTSTRAP_PASSWORD_FILE),
            set: config.auth.bootstrap_password.clone(),
            set_in: config.auth.bootstrap_password_file.clone(),
        }
    }

    /// Name and place of the password for a first login, while there is one. Removes a file whose password is another
    /// one.
    pub(crate) fn look(&self, login: &FirstLogin) -> Option<String> {
        let opens = |secret: &Secret| {
            login.password_hash.as_deref().is_some_and(|stored| match password::verify(secret, stored) {
                Ok(is_genuine) => is_genuine,
                Err(error) => {
                    tracing::warn!(error = format!("{error:#}"), "failed to compare the first user's password");
                    true // the file is not removed for that
                }
            })
        };
        let made = fs::read_to_string(&self.made).ok().map(|text| Secret::new(text.trim()));
        let place = match (&self.set, made) {
            (Some(set), _) if opens(set) => Some(match &self.set_in {
                Some(file) => format!("the password in {}", file.display()),
                None => "the password of ADMIN_BOOTSTRAP_PASSWORD".to_owned(),
            }),
            (_, Some(made)) if opens(&made) => Some(format!("the password in {}", self.made.display())),
            (_, Some(_)) => {
                self.remove();
                None
            }
            (_, None) => None,
        };
        place.filter(|_| login.is_enabled).map(|place| format!("{}, {place}", login.username))
    }

    fn remove(&self) {
        match fs::remove_file(&self.made) {
            Ok(()) => tracing::info!(file = %self.made.display(), "removed the first password: another one is set"),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(%error, file = %self.made.display(), "failed to remove the first password")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_named_while_it_is_good_and_its_file_goes_when_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("bootstrap-password");
        fs::write(&made, "first one\n").unwrap();
        let hash = |text: &str| password::hash(&Secret::new(text)).unwrap();
        let login = |password_hash| FirstLogin { username: "admin".to_owned(), password_hash, is_enabled: true };
        let first = FirstPassword { made: made.clone(), set: None, set_in: None };
        let good = login(Some(hash("first one")));
        assert_eq!(first.look(&good), Some(format!("admin, the password in {}", made.display())));
        assert_eq!(first.look(&FirstLogin { is_enabled: false, ..good.clone() }), None);
        assert!(made.exists(), "an account that is disabled may be enabled again");
        // A setting counts by what it holds, not by being set.
        let set = FirstPassword { set: Some(Secret::new("set later")), ..first.clone() };
        assert_eq!(set.look(&good), first.look(&good));
        let by_setting = set.look(&login(Some(hash("set later"))));
        assert_eq!(by_setting.as_deref(), Some("admin, the password of ADMIN_BOOTSTRAP_PASSWORD"));
        assert!(made.exists());
        assert_eq!(first.look(&login(Some(hash("changed")))), None);
        assert!(!made.exists());
    }
}
