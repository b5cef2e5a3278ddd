//! The roles of one database: their names, their passwords, and the start-up step that brings them, the core's
//! tables and the grants in line, in one transaction. `sql/README.md` says why each right is there or missing.

use anyhow::{Context as _, bail};
use hmac::{Hmac, KeyInit as _, Mac as _};
use rand::TryRng as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio_postgres::{Client, Transaction};

use super::connect::{self, ConnectParams};
use super::{migrate, sql};
use crate::config::Secret;

const ROLES_SQL: &str = include_str!("../../../sql/roles.sql");
const GRANTS_SQL: &str = include_str!("../../../sql/grants.sql");
const SECRET_BYTES: usize = 32;
/// Two hosts that start at once may meet in catalogs that no lock of ours covers.
const BOOTSTRAP_TRIES: u32 = 5;

/// Role names of one database: `cardinal_<8 hex digits of its name's hash>_...`. Roles belong to the whole cluster, so
/// that without the digits two databases side by side would share them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleNames {
    prefix: String,
}

impl RoleNames {
    pub fn of_database(dbname: &str) -> Self {
        let digits = hex(&Sha256::digest(dbname.as_bytes())[..4]);
        Self { prefix: format!("cardinal_{digits}_") }
    }

    pub fn owner(&self) -> String {
        self.named("owner")
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
        self.named(&format!("s_{}", plugin.replace('-', "_")))
    }

    /// The role that a plugin's statements run as.
    pub fn plugin_runtime(&self, plugin: &str) -> String {
        self.named(&format!("p_{}", plugin.replace('-', "_")))
    }

    fn named(&self, part: &str) -> String {
        format!("{}{part}", self.prefix)
    }
}

/// The schema with a plugin's tables. Names are kebab-case and so have no `_`: two plugins never meet in one.
pub fn plugin_schema_name(plugin: &str) -> String {
    format!("plugin_{}", plugin.replace('-', "_"))
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

    pub fn of(&self, role: &str) -> Secret {
        // HMAC takes a key of any length; the error type says otherwise.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.secret.expose().as_bytes()) else {
            return Secret::new(String::new());
        };
        mac.update(b"cardinal-role-v1:");
        mac.update(role.as_bytes());
        Secret::new(hex(&mac.finalize().into_bytes()))
    }

    /// What the server stores for the role: sent instead of the password, which a server may write to its log.
    pub(super) fn verifier(&self, role: &str) -> String {
        postgres_protocol::password::scram_sha_256(self.of(role).expose().as_bytes())
    }
}

/// Where the secret of the role passwords comes from.
#[derive(Debug, Clone)]
pub enum SecretSource {
    /// Given: by `DATABASE_SECRET_FILE`, or kept beside the private server.
    Known(Secret),
    /// Kept in the database itself, where every host that shares it finds the same one. Only the owner reads it.
    InDatabase,
}

/// What [`prepare`] leaves behind for the other processes.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub names: RoleNames,
    pub passwords: RolePasswords,
}

/// Brings roles, tables and grants of a database in line with this program.
///
/// # Errors
/// With what an operator can do about it: the login lacks rights, or the database is newer than the program.
pub async fn prepare(login: &ConnectParams, secret: SecretSource) -> anyhow::Result<Prepared> {
    let names = RoleNames::of_database(&login.dbname);
    let client = connect::connect(login).await.context("connecting to the database")?;
    if may_make_roles(&client).await? {
        return prepare_with_roles(client, login, names, secret).await;
    }
    let SecretSource::Known(secret) = secret else {
        bail!(
            "the login {:?} of DATABASE_URL may not make roles: use a superuser, or a login with CREATEROLE that owns \
             the database {:?}, or let an administrator make the roles with the output of `cardinal database \
             bootstrap-sql` and name its secret in DATABASE_SECRET_FILE",
            login.user,
            login.dbname
        );
    };
    drop(client);
    prepare_as_owner(login, names, RolePasswords::from_secret(secret)).await
}

async fn may_make_roles(client: &Client) -> anyhow::Result<bool> {
    let row = client
        .query_one(
            "SELECT r.rolsuper OR (r.rolcreaterole AND pg_catalog.pg_has_role(d.datdba, 'USAGE'))
             FROM pg_catalog.pg_roles r, pg_catalog.pg_database d
             WHERE r.rolname = current_user AND d.datname = current_database()",
            &[],
        )
        .await
        .context("asking what the login may do")?;
    Ok(row.try_get(0)?)
}

async fn prepare_with_roles(
    mut client: Client,
    login: &ConnectParams,
    names: RoleNames,
    source: SecretSource,
) -> anyhow::Result<Prepared> {
    let mut tries = 1;
    loop {
        match try_prepare(&mut client, &login.dbname, &names, &source).await {
            Ok(passwords) => return Ok(Prepared { names, passwords }),
            Err(error) if tries < BOOTSTRAP_TRIES && driver_error(&error).is_some_and(is_race) => {
                tracing::debug!(error = format!("{error:#}"), "another host prepares the database; trying again");
                tries += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Concurrent DDL: unique violations in catalogs, "tuple concurrently updated", deadlocks.
pub(super) fn is_race(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| ["23505", "42P07", "42710", "XX000", "40001", "40P01"].contains(&code.code()))
}

/// Whether the database was just not there: not reached, starting, stopping or full.
pub fn may_pass(error: &anyhow::Error) -> bool {
    driver_error(error)
        .is_some_and(|error| error.code().is_none_or(|code| ["08", "53", "57"].contains(&&code.code()[..2])))
}

fn driver_error(error: &anyhow::Error) -> Option<&tokio_postgres::Error> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

async fn try_prepare(
    client: &mut Client,
    dbname: &str,
    names: &RoleNames,
    source: &SecretSource,
) -> anyhow::Result<RolePasswords> {
    client.batch_execute(migrate::TABLE_SQL).await.context("making the table of migrations")?;
    let work = client.transaction().await.context("beginning the preparation")?;
    migrate::lock(&work).await?;
    let secret = match source {
        SecretSource::Known(secret) => secret.clone(),
        SecretSource::InDatabase => shared_secret(&work).await?,
    };
    let passwords = RolePasswords::from_secret(secret);
    let values = places(dbname, names, Some(&passwords));
    work.batch_execute(&sql::fill(ROLES_SQL, &values)?).await.context("making the roles")?;
    let owner = sql::identifier(&names.owner());
    work.batch_execute(&format!(
        "ALTER TABLE public.core_migrations OWNER TO {owner};
         ALTER TABLE IF EXISTS public.cardinal_secret OWNER TO {owner}"
    ))
    .await
    .context("giving the tables to their owner")?;
    migrate_and_grant(&work, &values, &owner).await?;
    work.commit().await.context("committing the preparation")?;
    Ok(passwords)
}

/// Without the right to make roles: an administrator made them, with passwords from the same secret.
async fn prepare_as_owner(
    login: &ConnectParams,
    names: RoleNames,
    passwords: RolePasswords,
) -> anyhow::Result<Prepared> {
    let owner = login.with_login(names.owner(), passwords.of(&names.owner()));
    let mut client = connect::connect(&owner).await.with_context(|| {
        format!(
            "the role {} does not let this host in: run the output of `cardinal database bootstrap-sql` as an \
             administrator of the database, and give the secret that it names in DATABASE_SECRET_FILE",
            owner.user
        )
    })?;
    client.batch_execute(migrate::TABLE_SQL).await.context("making the table of migrations")?;
    let work = client.transaction().await.context("beginning the preparation")?;
    migrate::lock(&work).await?;
    let values = places(&login.dbname, &names, None);
    migrate_and_grant(&work, &values, &sql::identifier(&names.owner())).await?;
    work.commit().await.context("committing the preparation")?;
    Ok(Prepared { names, passwords })
}

async fn migrate_and_grant(
    work: &Transaction<'_>,
    values: &[(&'static str, String)],
    owner: &str,
) -> anyhow::Result<()> {
    work.batch_execute(&format!("SET LOCAL ROLE {owner}")).await.context("becoming the owner of the tables")?;
    migrate::apply(work).await?;
    work.batch_execute(&sql::fill(GRANTS_SQL, values)?).await.context("granting rights on the tables")?;
    Ok(())
}

/// One secret for all hosts of a database that has no secret file: made by the first, in a table that only the owner
/// of the core's tables can read.
async fn shared_secret(work: &Transaction<'_>) -> anyhow::Result<Secret> {
    work.batch_execute(
        "CREATE TABLE IF NOT EXISTS public.cardinal_secret (
           only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
           secret   text NOT NULL
         );
         REVOKE ALL ON public.cardinal_secret FROM PUBLIC",
    )
    .await
    .context("making the table of the role secret")?;
    let fresh = random_secret()?;
    work.execute("INSERT INTO public.cardinal_secret (secret) VALUES ($1) ON CONFLICT DO NOTHING", &[&fresh.expose()])
        .await?;
    let row = work.query_one("SELECT secret FROM public.cardinal_secret", &[]).await?;
    Ok(Secret::new(row.try_get::<_, String>(0)?))
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

fn places(dbname: &str, names: &RoleNames, passwords: Option<&RolePasswords>) -> Vec<(&'static str, String)> {
    let mut places = vec![
        ("database", sql::identifier(dbname)),
        ("owner", sql::identifier(&names.owner())),
        ("core", sql::identifier(&names.core())),
        ("reaper", sql::identifier(&names.reaper())),
        ("provision", sql::identifier(&names.provision())),
        ("plugin", sql::identifier(&names.plugin())),
        ("plugin_ddl", sql::identifier(&names.plugin_ddl())),
    ];
    if let Some(passwords) = passwords {
        let verifier = |role: String| sql::literal(&passwords.verifier(&role));
        places.push(("core_password", verifier(names.core())));
        places.push(("reaper_password", verifier(names.reaper())));
        places.push(("provision_password", verifier(names.provision())));
    }
    places
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_plugin_name_fits_a_role_name() {
        let names = RoleNames::of_database("cardinal");
        let plugin = "a".repeat(40);
        assert!(names.plugin_schema(&plugin).len() <= 63 && names.plugin_runtime(&plugin).len() <= 63);
    }

    #[test]
    fn two_databases_have_no_role_in_common() {
        let (one, other) = (RoleNames::of_database("one"), RoleNames::of_database("other"));
        assert_ne!(one.core(), other.core());
        assert_eq!(one.plugin_runtime("price-watch"), format!("{}p_price_watch", one.prefix));
    }

    #[test]
    fn each_role_has_a_password_of_its_own() {
        let passwords = RolePasswords::from_secret(Secret::new("secret"));
        assert_ne!(passwords.of("a"), passwords.of("b"));
        assert_eq!(passwords.of("a"), passwords.of("a"));
        assert_eq!(passwords.of("a").expose().len(), 64);
    }
}
