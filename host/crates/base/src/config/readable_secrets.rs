//! Files with secrets that others can read.

use super::{Config, Fault, SettingsError};
use crate::secret_file::{OWN_SECRETS, Readers, readers};

/// Refuses files with secrets that every user of this machine can read, those that a setting names and our own.
///
/// # Errors
/// [`SettingsError`], with what to run.
pub fn refuse_readable_secrets(config: &Config) -> Result<(), SettingsError> {
    let own = OWN_SECRETS.map(|file| ("DATA_DIR", config.paths.data_dir.join(file)));
    let named = config.secret_files().into_iter().map(|(setting, file)| (setting, file.to_owned()));
    let mut faults = Vec::new();
    for (setting, file) in named.chain(own) {
        match readers(&file) {
            Readers::Nobody => {}
            Readers::Group => {
                tracing::warn!(setting, file = %file.display(), "the file with the secret can be read by its group");
            }
            Readers::Everybody => faults.push(Fault {
                setting: setting.to_owned(),
                problem: format!(
                    "every user of this machine can read the secret in {0}: run `chmod 0600 '{0}'`, and change the \
                     secret if someone may have read it",
                    file.display()
                ),
            }),
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(SettingsError(faults)) }
}
