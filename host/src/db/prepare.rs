//! The start-up step that brings roles, the core's tables and the grants of a database in line, in one transaction,
//! whatever the login of `DATABASE_URL` may do; and the same step as a script for an administrator.
//!
//! A superuser, or a login that may create roles and owns the database, does all of it. Any other login needs the roles
//! to be there, made by the script; then the core's owner logs in by itself, with the password from the secret, and the
//! login of `DATABASE_URL` is not used any more.

use anyhow::Context as _;
use tokio_postgres::{Client, Transaction};

use super::connect::{self, ConnectParams};
use super::roles::{self, RoleNames, RolePasswords};
use super::{migrate, sql};
use crate::config::Secret;

mod unfit;

pub use unfit::may_pass;

const ROLES_SQL: &str = include_str!("../../../sql/roles.sql");
const GRANTS_SQL: &str = include_str!("../../../sql/grants.sql");
/// Two hosts that start at once may meet in catalogs that no lock of ours covers.
const TRIES: u32 = 5;

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

/// A database and how to bring it in line.
#[derive(Debug, Clone)]
pub struct Preparation {
    pub login: ConnectParams,
    pub names: RoleNames,
    pub secret: SecretSource,
    /// How many of the core's migrations to run at most; a restore stops where its archive was made.
    pub migrations: usize,
}

/// Brings roles, tables and grants of a database in line with this program.
///
/// # Errors
/// [`BadSettings`](crate::config::BadSettings) when the operator has to do something about it; else the server's trouble, see [`may_pass`].
pub async fn prepare(login: &ConnectParams, secret: SecretSource) -> anyhow::Result<Prepared> {
    let names = RoleNames::of_database(&login.dbname);
    Preparation { login: login.clone(), names, secret, migrations: migrate::COUNT }.make().await
}

/// Who there is to work with.
enum Entered {
    /// May make roles.
    Maker(Client),
    /// Found the roles made, and is their owner.
    Owner(Client, RolePasswords),
}

impl Preparation {
    /// # Errors
    /// As [`prepare`].
    pub async fn make(&self) -> anyhow::Result<Prepared> {
        let passwords = match self.enter().await? {
            Entered::Maker(client) => self.with_roles(client).await?,
            Entered::Owner(client, passwords) => self.as_owner(client, passwords).await?,
        };
        Ok(Prepared { names: self.names.clone(), passwords })
    }

    /// A session that may read and write the core's tables, and be nobody else.
    ///
    /// # Errors
    /// As [`prepare`].
    pub async fn owner_session(&self) -> anyhow::Result<Client> {
        match self.enter().await? {
            Entered::Owner(client, _) => Ok(client),
            Entered::Maker(client) => {
                let role = sql::identifier(&self.names.owner());
                client.batch_execute(&format!("SET ROLE {role}")).await.context("becoming the owner of the tables")?;
                Ok(client)
            }
        }
    }

    /// A session of whoever the work begins with: the login, or the owner where the login is good for nothing.
    ///
    /// # Errors
    /// As [`prepare`].
    pub async fn session(&self) -> anyhow::Result<Client> {
        Ok(match self.enter().await? {
            Entered::Maker(client) | Entered::Owner(client, _) => client,
        })
    }

    /// The login by which a program of PostgreSQL works as the owner, and the role that it has to take for that.
    ///
    /// # Errors
    /// As [`prepare`].
    pub async fn owner_login(&self) -> anyhow::Result<(ConnectParams, Option<String>)> {
        Ok(match self.enter().await? {
            Entered::Maker(_) => (self.login.clone(), Some(self.names.owner())),
            Entered::Owner(_, passwords) => {
                let owner = self.names.owner();
                (self.login.with_login(&owner, passwords.of(&owner)), None)
            }
        })
    }

    async fn enter(&self) -> anyhow::Result<Entered> {
        let refused = if self.login.user.is_empty() {
            None
        } else {
            match connect::connect(&self.login).await {
                Ok(client) => {
                    unfit::check_server(&client).await?;
                    if may_make_roles(&client).await? {
                        return Ok(Entered::Maker(client));
                    }
                    None
                }
                Err(error) if unfit::is_refusal(&error) => Some(error),
                Err(error) => return Err(unfit::explain(error, &self.login)),
            }
        };
        match (&self.secret, refused) {
            (SecretSource::Known(secret), refused) => self.enter_as_owner(secret, refused).await,
            (SecretSource::InDatabase, Some(error)) => Err(unfit::explain(error, &self.login)),
            (SecretSource::InDatabase, None) => Err(unfit::no_right_to_make_roles(&self.login).into()),
        }
    }

    async fn enter_as_owner(&self, secret: &Secret, refused: Option<tokio_postgres::Error>) -> anyhow::Result<Entered> {
        let passwords = RolePasswords::from_secret(secret.clone());
        let role = self.names.owner();
        let login = self.login.with_login(&role, passwords.of(&role));
        match (connect::connect(&login).await, refused) {
            (Ok(client), _) => {
                unfit::check_server(&client).await?;
                Ok(Entered::Owner(client, passwords))
            }
            (Err(error), None) if unfit::is_refusal(&error) => Err(unfit::no_roles(&role).into()),
            (Err(error), None) => Err(unfit::explain(error, &login)),
            (Err(_), Some(refused)) => Err(unfit::explain(refused, &self.login)),
        }
    }

    async fn with_roles(&self, mut client: Client) -> anyhow::Result<RolePasswords> {
        let mut tries = 1;
        loop {
            match self.try_with_roles(&mut client).await {
                Ok(passwords) => return Ok(passwords),
                Err(error) if tries < TRIES && unfit::driver_error(&error).is_some_and(is_race) => {
                    tracing::debug!(error = format!("{error:#}"), "another host prepares the database; trying again");
                    tries += 1;
                }
                Err(error) => return Err(unfit::explain_lack_of_rights(error, &self.login)),
            }
        }
    }

    async fn try_with_roles(&self, client: &mut Client) -> anyhow::Result<RolePasswords> {
        client.batch_execute(migrate::TABLE_SQL).await.context("making the table of migrations")?;
        let work = client.transaction().await.context("beginning the preparation")?;
        migrate::lock(&work).await?;
        let secret = match &self.secret {
            SecretSource::Known(secret) => secret.clone(),
            SecretSource::InDatabase => shared_secret(&work).await?,
        };
        let passwords = RolePasswords::from_secret(secret);
        let roles_sql = sql::fill(ROLES_SQL, &places(&self.login.dbname, &self.names, &passwords, OwnerLogin::Closed))?;
        work.batch_execute(&roles_sql).await.context("making the roles")?;
        let owner = sql::identifier(&self.names.owner());
        work.batch_execute(&format!(
            "ALTER TABLE public.core_migrations OWNER TO {owner};
             ALTER TABLE IF EXISTS public.cardinal_secret OWNER TO {owner}"
        ))
        .await
        .context("giving the tables to their owner")?;
        work.batch_execute(&format!("SET LOCAL ROLE {owner}")).await.context("becoming the owner of the tables")?;
        self.migrate_and_grant(&work).await?;
        work.commit().await.context("committing the preparation")?;
        Ok(passwords)
    }

    /// Without the right to make roles: an administrator made them, with passwords from the same secret.
    async fn as_owner(&self, mut client: Client, passwords: RolePasswords) -> anyhow::Result<RolePasswords> {
        unfit::check_roles(&client, &self.names).await?;
        client.batch_execute(migrate::TABLE_SQL).await.context("making the table of migrations")?;
        let work = client.transaction().await.context("beginning the preparation")?;
        migrate::lock(&work).await?;
        self.migrate_and_grant(&work).await?;
        work.commit().await.context("committing the preparation")?;
        Ok(passwords)
    }

    async fn migrate_and_grant(&self, work: &Transaction<'_>) -> anyhow::Result<()> {
        migrate::apply(work, self.migrations).await?;
        if self.migrations < migrate::COUNT {
            // The grants are of the tables of today.
            return Ok(());
        }
        work.batch_execute(&sql::fill(GRANTS_SQL, &names_only(&self.names))?)
            .await
            .context("granting rights on the tables")
    }
}

async fn may_make_roles(client: &Client) -> anyhow::Result<bool> {
    owns_database_and(client, "rolcreaterole").await
}

/// Whether this login is a superuser, or owns its database and has an attribute of `pg_roles`.
pub(super) async fn owns_database_and(client: &Client, attribute: &'static str) -> anyhow::Result<bool> {
    let sql = format!(
        "SELECT r.rolsuper OR (r.{attribute} AND pg_catalog.pg_has_role(d.datdba, 'USAGE'))
         FROM pg_catalog.pg_roles r, pg_catalog.pg_database d
         WHERE r.rolname = current_user AND d.datname = current_database()"
    );
    let row = client.query_one(&sql, &[]).await.context("asking what the login may do")?;
    Ok(row.try_get(0)?)
}

/// Concurrent DDL: unique violations in catalogs, "tuple concurrently updated", deadlocks.
pub(super) fn is_race(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| ["23505", "42P07", "42710", "XX000", "40001", "40P01"].contains(&code.code()))
}

/// The secret that hosts without a secret file share, where there is one. Asked as the owner of the core's tables.
///
/// # Errors
/// As the server reports them.
pub async fn secret_in(owner: &Client) -> anyhow::Result<Option<Secret>> {
    let known = owner.query_one("SELECT to_regclass('public.cardinal_secret') IS NOT NULL", &[]).await?;
    if !known.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let row = owner.query_opt("SELECT secret FROM public.cardinal_secret", &[]).await.context("reading the secret")?;
    Ok(row.map(|row| row.try_get::<_, String>(0)).transpose()?.map(Secret::new))
}

/// Has hosts of another, new database share this secret.
///
/// # Errors
/// As the server reports them.
pub async fn keep_secret(login: &ConnectParams, secret: &Secret) -> anyhow::Result<()> {
    let mut client = connect::connect(login).await.context("logging in to the new database")?;
    let work = client.transaction().await?;
    work.batch_execute(SECRET_TABLE_SQL).await.context("making the table of the role secret")?;
    work.execute("INSERT INTO public.cardinal_secret (secret) VALUES ($1)", &[&secret.expose()]).await?;
    Ok(work.commit().await?)
}

const SECRET_TABLE_SQL: &str = "
    CREATE TABLE IF NOT EXISTS public.cardinal_secret (
      only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
      secret   text NOT NULL
    );
    REVOKE ALL ON public.cardinal_secret FROM PUBLIC";

/// One secret for all hosts of a database that has no secret file: made by the first, in a table that only the owner
/// of the core's tables can read.
async fn shared_secret(work: &Transaction<'_>) -> anyhow::Result<Secret> {
    work.batch_execute(SECRET_TABLE_SQL).await.context("making the table of the role secret")?;
    let fresh = roles::random_secret()?;
    work.execute("INSERT INTO public.cardinal_secret (secret) VALUES ($1) ON CONFLICT DO NOTHING", &[&fresh.expose()])
        .await?;
    let row = work.query_one("SELECT secret FROM public.cardinal_secret", &[]).await?;
    Ok(Secret::new(row.try_get::<_, String>(0)?))
}

/// Whether the owner of the core's tables can log in: only where there is nobody else to do its work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnerLogin {
    Closed,
    Open,
}

fn names_only(names: &RoleNames) -> Vec<(&'static str, String)> {
    [
        ("owner", names.owner()),
        ("core", names.core()),
        ("reaper", names.reaper()),
        ("provision", names.provision()),
        ("role_maker", names.role_maker()),
        ("plugin", names.plugin()),
        ("plugin_ddl", names.plugin_ddl()),
    ]
    .map(|(place, name)| (place, sql::identifier(&name)))
    .into()
}

fn places(
    dbname: &str,
    names: &RoleNames,
    passwords: &RolePasswords,
    owner: OwnerLogin,
) -> Vec<(&'static str, String)> {
    let verifier = |role: String| sql::literal(&passwords.verifier(&role));
    let mut places = names_only(names);
    places.push(("database", sql::identifier(dbname)));
    places.push(("role_prefix", sql::literal(names.prefix())));
    places.push(("core_password", verifier(names.core())));
    places.push(("reaper_password", verifier(names.reaper())));
    places.push(("provision_password", verifier(names.provision())));
    places.push((
        "owner_login",
        match owner {
            OwnerLogin::Closed => "NOLOGIN".to_owned(),
            OwnerLogin::Open => format!("LOGIN CONNECTION LIMIT 20 PASSWORD {}", verifier(names.owner())),
        },
    ));
    places
}

/// What an administrator runs once, so that a host without rights of its own finds its roles made: one transaction of
/// plain SQL, for psql and any other client. Passwords are in it as SCRAM verifiers only.
///
/// # Errors
/// `sql/roles.sql` and this program are out of step.
pub fn bootstrap_sql(dbname: &str, secret: &Secret) -> anyhow::Result<String> {
    let names = RoleNames::of_database(dbname);
    let passwords = RolePasswords::from_secret(secret.clone());
    let roles_sql = sql::fill(ROLES_SQL, &places(dbname, &names, &passwords, OwnerLogin::Open))?;
    let (name, text) = (sql::identifier(dbname), sql::literal(dbname));
    Ok(format!(
        "-- The roles of Cardinal {version} for the database {name}, to be run once by an administrator who is connected\n\
         -- to that database: a superuser, or who may create roles and owns it. Running it again does no harm.\n\
         -- Plugins that are added later need nothing more.\n\
         BEGIN;\n\
         DO $$ BEGIN\n  \
           IF current_database() <> {text} THEN\n    \
             RAISE EXCEPTION 'this is for the database %, and you are connected to %: connect to the first', {text}, current_database();\n  \
           END IF;\n  \
           IF current_setting('server_version_num')::int < {oldest} THEN\n    \
             RAISE EXCEPTION 'Cardinal needs PostgreSQL {oldest_major} or newer, this is %', current_setting('server_version');\n  \
           END IF;\n\
         END $$;\n\n{roles_sql}\nCOMMIT;\n",
        version = env!("CARGO_PKG_VERSION"),
        oldest = unfit::OLDEST_SERVER,
        oldest_major = unfit::OLDEST_SERVER / 10_000,
    ))
}
