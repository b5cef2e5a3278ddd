//! The roles of one database: their names and passwords. `sql/README.md` says why each right is there or missing.

use anyhow::Context as _;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use rand::TryRng as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use cardinal_base::{config::Secret, hex::hex, seal::SealingKey};

const SECRET_BYTES: usize = 32;
const SALT_BYTES: usize = 16;

/// Role names of one database: `cardinal_<8 hex digits of its name's hash>_...`. Roles belong to the whole cluster, so
/// that without the digits two databases side by side would share them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleNames {
    prefix: String,
}

impl RoleNames {
    pub fn new(dbname: &str) -> Self {
        let digits = hex(&Sha256::digest(dbname.as_bytes())[..4]);
        Self { prefix: format!("cardinal_{digits}_") }
    }

    pub fn owner(&self) -> String {
        self.named("owner")
    }

    /// Owns the table of cards, and so is who foreign keys to cards are checked as. Nobody logs in as it.
    pub fn cards(&self) -> String {
        self.named("cards")
    }

    pub fn core(&self) -> String {
        self.named("core")
    }

    pub fn reaper(&self) -> String {
        self.named("reaper")
    }

    pub fn provision(&self) -> String {
        self.named("provision")
    }

    /// Has CREATEROLE, and no login: the provisioner's functions run as this role.
    pub fn role_maker(&self) -> String {
        self.named("role_maker")
    }

    /// What the name of every role of this database begins with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The group of every plugin role.
    pub fn plugin(&self) -> String {
        self.named("plugin")
    }

    /// The group that may point foreign keys at cards.
    pub fn plugin_ddl(&self) -> String {
        self.named("plugin_ddl")
    }

    /// The role that runs a plugin's schema.sql and owns its tables.
    pub fn plugin_schema(&self, plugin: &str) -> String {
        self.schema_prefix() + &plugin.replace('-', "_")
    }

    /// The role that a plugin's statements run as.
    pub fn plugin_runtime(&self, plugin: &str) -> String {
        self.runtime_prefix() + &plugin.replace('-', "_")
    }

    /// What the names of all plugins' schema roles begin with.
    pub fn schema_prefix(&self) -> String {
        self.named("s_")
    }

    /// What the names of all plugins' run-time roles begin with.
    pub fn runtime_prefix(&self) -> String {
        self.named("p_")
    }

    fn named(&self, part: &str) -> String {
        format!("{}{part}", self.prefix)
    }
}

/// The schema with a plugin's tables. Names are kebab-case and so have no `_`: two plugins never meet in one.
pub fn plugin_schema_name(plugin: &str) -> String {
    format!("plugin_{}", plugin.replace('-', "_"))
}

/// The plugin whose schema this is.
pub fn plugin_from_schema(schema: &str) -> Option<String> {
    schema.strip_prefix("plugin_").map(|plugin| plugin.replace('_', "-"))
}

/// The plugin whose schema role or run-time role this is, of whichever database.
pub fn plugin_from_role(role: &str) -> Option<String> {
    let (_digits, part) = role.strip_prefix("cardinal_")?.split_once('_')?;
    let plugin = part.strip_prefix("p_").or_else(|| part.strip_prefix("s_"))?;
    Some(plugin.replace('_', "-"))
}

/// Makes each role's password from one secret, so that nothing but the secret has to be kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RolePasswords {
    secret: Secret,
}

impl RolePasswords {
    pub fn from_secret(secret: Secret) -> Self {
        Self { secret }
    }

    pub fn for_role(&self, role: &str) -> Secret {
        Secret::new(hex(&mac(self.secret.expose().as_bytes(), &[b"cardinal-role-v1:", role.as_bytes()])))
    }

    /// The key of the secrets that plugins' settings hold: the same for all hosts of the database.
    pub fn sealing_key(&self) -> SealingKey {
        SealingKey::derive(&self.secret)
    }

    /// What the server stores for the role: sent instead of the password, which a server may write to its log.
    pub fn verifier(&self, role: &str) -> String {
        postgres_protocol::password::scram_sha_256(self.for_role(role).expose().as_bytes())
    }

    /// The same for a plugin's role, with one iteration instead of 4,096. Those keep a guess at a weak password slow,
    /// and nobody guesses these 256 bits; but every start of a host computes them, for each plugin here and at its
    /// login.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn plugin_verifier(&self, role: &str) -> anyhow::Result<String> {
        let mut salt = [0; SALT_BYTES];
        rand::rngs::SysRng.try_fill_bytes(&mut salt).context("getting random numbers")?;
        Ok(verifier_of_one_iteration(self.for_role(role).expose(), &salt))
    }
}

/// As RFC 5802 has it and PostgreSQL writes it. The password is ASCII, which SASLprep leaves as it is.
fn verifier_of_one_iteration(password: &str, salt: &[u8]) -> String {
    let salted = mac(password.as_bytes(), &[salt, &1_u32.to_be_bytes()]);
    let stored_key = Sha256::digest(mac(&salted, &[b"Client Key"]));
    let server_key = mac(&salted, &[b"Server Key"]);
    let [salt, stored_key, server_key] =
        [salt, &stored_key[..], &server_key[..]].map(|bytes| BASE64_STANDARD.encode(bytes));
    format!("SCRAM-SHA-256$1:{salt}${stored_key}:{server_key}")
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC takes a key of any length; the error type says otherwise.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// 256 random bits in hex.
///
/// # Errors
/// The system has no random numbers.
pub fn random_secret() -> anyhow::Result<Secret> {
    let mut bytes = [0; SECRET_BYTES];
    rand::rngs::SysRng.try_fill_bytes(&mut bytes).context("getting random numbers")?;
    Ok(Secret::new(hex(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_plugin_name_fits_a_role_name() {
        let names = RoleNames::new("cardinal");
        let plugin = "a".repeat(40);
        assert!(names.plugin_schema(&plugin).len() <= 63 && names.plugin_runtime(&plugin).len() <= 63);
    }

    #[test]
    fn two_databases_have_no_role_in_common() {
        let (one, other) = (RoleNames::new("one"), RoleNames::new("other"));
        assert_ne!(one.core(), other.core());
        assert_eq!(one.plugin_runtime("price-watch"), format!("{}p_price_watch", one.prefix));
        assert_eq!(plugin_from_role(&one.plugin_runtime("price-watch")).as_deref(), Some("price-watch"));
        assert_eq!(plugin_from_role(&other.plugin_schema("p")).as_deref(), Some("p"));
        for role in [one.core(), one.provision(), "postgres".to_owned(), "cardinal_superuser".to_owned()] {
            assert_eq!(plugin_from_role(&role), None, "{role}");
        }
    }

    #[test]
    fn a_verifier_of_one_iteration_is_what_others_make_of_password_and_salt() {
        // Python: hashlib.pbkdf2_hmac("sha256", b"pencil", bytes(range(16)), 1), and hmac over both names of keys
        let expected = "SCRAM-SHA-256$1:AAECAwQFBgcICQoLDA0ODw==$ulPBEMD7pdxjBcsUkN1eHH+6PaNEw+VlbDgOlKfXVz0=:\
            FLxfly9TUma+46jkj8QyTfQMWRqeNyK1YOt6NKVPr/I=";
        let salt: Vec<u8> = (0..16).collect();
        assert_eq!(verifier_of_one_iteration("pencil", &salt), expected);
    }

    #[test]
    fn each_role_has_a_password_of_its_own() {
        let passwords = RolePasswords::from_secret(Secret::new("secret"));
        assert_ne!(passwords.for_role("a"), passwords.for_role("b"));
        assert_eq!(passwords.for_role("a"), passwords.for_role("a"));
        assert_eq!(passwords.for_role("a").expose().len(), 64);
    }
}
