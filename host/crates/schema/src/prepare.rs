//! The start-up step that brings roles, the core's tables and the grants of a database in line, whatever the login of
//! `DATABASE_URL` may do; and the same step as a script for an administrator.
//!
//! A superuser, or a login that may create roles and owns the database, makes the roles, and nothing else: see
//! [`maker`]. Migrations and grants are the work of the core's owner, who always logs in by itself. Any other login
//! needs the roles to be there, made by the script; then the login of `DATABASE_URL` is not used any more.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rand::RngExt as _;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Transaction};

use self::{
    maker::{Login, Maker},
    roles_sql::Passwords,
};
use super::{migrate, plugin_schema, sql_failure::is_race};
use cardinal_base::config::Secret;
use cardinal_database::{
    connect::{self, ConnectParams},
    roles::{self, RoleNames, RolePasswords},
    sql,
};

mod maker;
mod roles_sql;
mod shared_secret;
mod unsupported;

pub(super) use maker::owns_database_and;
pub use roles_sql::bootstrap_sql;
pub use shared_secret::{keep_secret, secret_in};
pub use unsupported::may_pass;

const GRANTS_SQL: &str = include_str!("../../../../sql/grants.sql");
/// Hosts that start at once meet in catalogs that no lock of ours covers, and at the owner's password.
const RACE_LIMIT: Duration = Duration::from_secs(30);
const RACE_PAUSE_MS: std::ops::Range<u64> = 10..150;

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
pub struct PreparedDatabase {
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
    /// Whether hosts serve another database by the same roles: then plugins' logins that this one has no use for stay
    /// open.
    pub is_beside: bool,
}

/// Brings roles, tables and grants of a database in line with this program.
///
/// # Errors
/// [`SettingsError`](cardinal_base::config::SettingsError) when the operator has to do something about it; else the
/// server's trouble, see [`may_pass`].
pub async fn prepare(login: &ConnectParams, secret: SecretSource) -> anyhow::Result<PreparedDatabase> {
    let names = RoleNames::new(&login.dbname);
    Preparation { login: login.clone(), names, secret, migrations: migrate::COUNT, is_beside: false }.make().await
}

/// Who there is to work with.
enum PreparationLogin {
    /// May make roles.
    Maker(Maker),
    /// Found the roles made, and is their owner.
    Owner(Client, RolePasswords),
}

impl Preparation {
    /// # Errors
    /// As [`prepare`].
    pub async fn make(&self) -> anyhow::Result<PreparedDatabase> {
        let races = Races::begin();
        loop {
            let made = match self.enter().await? {
                PreparationLogin::Maker(mut maker) => self.with_roles(&mut maker).await,
                PreparationLogin::Owner(client, passwords) => self.as_owner(client, passwords).await,
            };
            match made {
                Ok(passwords) => return Ok(PreparedDatabase { names: self.names.clone(), passwords }),
                Err(error) => races.lost(error).await?,
            }
        }
    }

    /// A session of the owner, who may read and write the core's tables, and be nobody else.
    ///
    /// # Errors
    /// As [`prepare`]; the database has no owner yet.
    pub async fn owner_session(&self) -> anyhow::Result<Client> {
        Ok(self.owner().await?.0)
    }

    /// The login by which a program of PostgreSQL works as the owner.
    ///
    /// # Errors
    /// As [`Self::owner_session`].
    pub async fn owner_login(&self) -> anyhow::Result<ConnectParams> {
        let (_, passwords) = self.owner().await?;
        Ok(self.login_of_owner(&passwords))
    }

    /// The login that hosts serve with, for a command that does what a host does.
    ///
    /// # Errors
    /// As [`Self::owner_session`].
    pub async fn core_login(&self) -> anyhow::Result<ConnectParams> {
        let (_, passwords) = self.owner().await?;
        let role = self.names.core();
        let password = passwords.for_role(&role);
        Ok(self.login.with_login(role, password))
    }

    /// The passwords of this database's roles.
    ///
    /// # Errors
    /// As [`Self::owner_session`].
    pub async fn passwords(&self) -> anyhow::Result<RolePasswords> {
        Ok(self.owner().await?.1)
    }

    /// A session of whoever the work begins with: the login, or the owner where the login is good for nothing. It looks
    /// up names in `pg_catalog` alone, and its caller names nothing else in the database, see [`maker`].
    ///
    /// # Errors
    /// As [`prepare`].
    pub async fn session(&self) -> anyhow::Result<Client> {
        match self.enter().await? {
            PreparationLogin::Maker(maker) => maker.into_client().await,
            PreparationLogin::Owner(client, _) => Ok(client),
        }
    }

    async fn enter(&self) -> anyhow::Result<PreparationLogin> {
        let refused = if self.login.user.is_empty() {
            None
        } else {
            match connect::connect(&self.login).await {
                Ok(client) => match Maker::examine(client).await? {
                    Login::MakesRoles(mut maker) => {
                        let owner = self.enter_roles_of_another(&mut maker).await?;
                        return Ok(owner.unwrap_or(PreparationLogin::Maker(maker)));
                    }
                    Login::LacksRights => None,
                },
                Err(error) if unsupported::is_refusal(&error) => Some(error),
                Err(error) => return Err(unsupported::explain(error, &self.login)),
            }
        };
        match (&self.secret, refused) {
            (SecretSource::Known(secret), refused) => self.enter_as_owner(secret, refused).await,
            (SecretSource::InDatabase, Some(error)) => Err(unsupported::explain(error, &self.login)),
            (SecretSource::InDatabase, None) => Err(unsupported::no_right_to_make_roles(&self.login).into()),
        }
    }

    /// Roles that an administrator made by the script are nobody else's to change from PostgreSQL 16 on, also not of a
    /// login that makes roles. The script's secret lets their owner in.
    async fn enter_roles_of_another(&self, maker: &mut Maker) -> anyhow::Result<Option<PreparationLogin>> {
        match &self.secret {
            SecretSource::Known(secret) if !maker.may_change_roles(&self.names).await? => {
                Ok(self.enter_as_owner(secret, None).await.ok())
            }
            _ => Ok(None),
        }
    }

    async fn enter_as_owner(
        &self,
        secret: &Secret,
        refused: Option<tokio_postgres::Error>,
    ) -> anyhow::Result<PreparationLogin> {
        let passwords = RolePasswords::from_secret(secret.clone());
        let login = self.login_of_owner(&passwords);
        match (connect::connect(&login).await, refused) {
            (Ok(client), _) => {
                unsupported::check_server(&client).await?;
                Ok(PreparationLogin::Owner(client, passwords))
            }
            (Err(error), None) if unsupported::is_refusal(&error) => Err(unsupported::no_roles(&login.user).into()),
            (Err(error), None) => Err(unsupported::explain(error, &login)),
            (Err(_), Some(refused)) => Err(unsupported::explain(refused, &self.login)),
        }
    }

    fn login_of_owner(&self, passwords: &RolePasswords) -> ConnectParams {
        let role = self.names.owner();
        let password = passwords.for_role(&role);
        self.login.with_login(role, password)
    }

    async fn connect_owner(&self, passwords: &RolePasswords) -> anyhow::Result<Client> {
        let login = self.login_of_owner(passwords);
        match connect::connect(&login).await {
            // Another host may have set one of its own, see `Races`.
            Err(error) if error.code() == Some(&SqlState::INVALID_PASSWORD) => {
                Err(anyhow::Error::new(error).context("logging in as the owner of the tables"))
            }
            outcome => outcome.map_err(|error| unsupported::explain(error, &login)),
        }
    }

    async fn make_roles(&self, maker: &mut Maker, passwords: Passwords<'_>) -> anyhow::Result<()> {
        let made = maker.make_roles(&self.login, &self.names, passwords).await;
        made.map_err(|error| unsupported::explain_lack_of_rights(error, &self.login))
    }

    async fn open_owner(&self, maker: &mut Maker, passwords: &RolePasswords) -> anyhow::Result<()> {
        let opened = maker.open_owner(&self.names, passwords).await;
        opened.map_err(|error| unsupported::explain_lack_of_rights(error, &self.login))
    }

    async fn with_roles(&self, maker: &mut Maker) -> anyhow::Result<RolePasswords> {
        let (passwords, owner) = self.passwords_and_owner(maker).await?;
        let mut owner = match owner {
            // A database of a newer program is refused before anything of its roles is changed.
            Some(mut owner) => {
                if !migrate::applied(&owner).await?.is_empty() {
                    migrate::pending(&mut owner).await?;
                }
                self.make_roles(maker, Passwords::All(&passwords)).await?;
                owner
            }
            None => {
                self.make_roles(maker, Passwords::All(&passwords)).await?;
                self.connect_owner(&passwords).await?
            }
        };
        self.work_as_owner(&mut owner, &passwords).await?;
        Ok(passwords)
    }

    /// The passwords, and a session of the owner where it can have one already.
    ///
    /// A secret in the database is the owner's to read, and the owner's password is made from it. So the owner gets a
    /// random password for the time that this takes. Hosts that do this at once may take it from each other: who is
    /// refused begins again.
    async fn passwords_and_owner(&self, maker: &mut Maker) -> anyhow::Result<(RolePasswords, Option<Client>)> {
        let has_owner = maker.has_owner(&self.names).await?;
        match &self.secret {
            SecretSource::Known(secret) => {
                let passwords = RolePasswords::from_secret(secret.clone());
                let owner = if has_owner { self.connect_owner(&passwords).await.ok() } else { None };
                Ok((passwords, owner))
            }
            SecretSource::InDatabase => {
                let once = RolePasswords::from_secret(roles::random_secret()?);
                if has_owner {
                    self.open_owner(maker, &once).await?;
                } else {
                    self.make_roles(maker, Passwords::Owner(&once)).await?;
                }
                let mut owner = self.connect_owner(&once).await?;
                let secret = shared_secret::read_or_make(&mut owner).await?;
                Ok((RolePasswords::from_secret(secret), Some(owner)))
            }
        }
    }

    /// The owner of a database that hosts have worked on, for a command beside them.
    async fn owner(&self) -> anyhow::Result<(Client, RolePasswords)> {
        let races = Races::begin();
        loop {
            let found = match self.enter().await? {
                PreparationLogin::Owner(client, passwords) => return Ok((client, passwords)),
                PreparationLogin::Maker(mut maker) => self.owner_by(&mut maker).await,
            };
            match found {
                Ok(found) => return Ok(found),
                Err(error) if unsupported::has_code(&error, &SqlState::UNDEFINED_OBJECT) => {
                    bail!("the database is empty: no host has used it yet");
                }
                Err(error) => races.lost(error).await?,
            }
        }
    }

    async fn owner_by(&self, maker: &mut Maker) -> anyhow::Result<(Client, RolePasswords)> {
        match &self.secret {
            SecretSource::Known(secret) => {
                let passwords = RolePasswords::from_secret(secret.clone());
                if maker.has_owner(&self.names).await?
                    && let Ok(client) = self.connect_owner(&passwords).await
                {
                    return Ok((client, passwords));
                }
                self.open_owner(maker, &passwords).await?;
                Ok((self.connect_owner(&passwords).await?, passwords))
            }
            SecretSource::InDatabase => {
                let once = RolePasswords::from_secret(roles::random_secret()?);
                self.open_owner(maker, &once).await?;
                let client = self.connect_owner(&once).await?;
                let Some(secret) = secret_in(&client).await? else { return Ok((client, once)) };
                let passwords = RolePasswords::from_secret(secret);
                self.open_owner(maker, &passwords).await?;
                Ok((client, passwords))
            }
        }
    }

    /// Without the right to make roles: an administrator made them, with passwords from the same secret.
    async fn as_owner(&self, mut client: Client, passwords: RolePasswords) -> anyhow::Result<RolePasswords> {
        unsupported::check_roles(&client, &self.names).await?;
        self.work_as_owner(&mut client, &passwords).await?;
        Ok(passwords)
    }

    async fn work_as_owner(&self, client: &mut Client, passwords: &RolePasswords) -> anyhow::Result<()> {
        client.batch_execute(migrate::TABLE_SQL).await.context("making the table of migrations")?;
        let tx = client.transaction().await.context("beginning the preparation")?;
        migrate::lock(&tx).await?;
        self.migrate_and_grant(&tx).await?;
        tx.commit().await.context("committing the preparation")?;
        if self.migrations < migrate::COUNT {
            // The provisioner has no rights yet.
            return Ok(());
        }
        let provision = self.names.provision();
        let provisioner = self.login.with_login(&provision, passwords.for_role(&provision));
        plugin_schema::close::close_left_open(&provisioner, &self.names, self.is_beside).await
    }

    async fn migrate_and_grant(&self, tx: &Transaction<'_>) -> anyhow::Result<()> {
        migrate::apply(tx, self.migrations).await?;
        if self.migrations < migrate::COUNT {
            // The grants are of the tables of today.
            return Ok(());
        }
        tx.batch_execute(&sql::fill(GRANTS_SQL, &roles_sql::names_only(&self.names))?)
            .await
            .context("granting rights on the tables")
    }
}

/// How long to go on where others were faster.
struct Races {
    since: Instant,
}

impl Races {
    fn begin() -> Self {
        Self { since: Instant::now() }
    }

    /// Comes back when it is worth trying again.
    async fn lost(&self, error: anyhow::Error) -> anyhow::Result<()> {
        // Refused as the owner, whose password another host has just set; everybody else's refusals have been
        // explained.
        let may_pass =
            |error: &tokio_postgres::Error| is_race(error) || error.code() == Some(&SqlState::INVALID_PASSWORD);
        if self.since.elapsed() > RACE_LIMIT || !unsupported::driver_error(&error).is_some_and(may_pass) {
            return Err(error);
        }
        tracing::debug!(error = format!("{error:#}"), "another host prepares the database; trying again");
        let pause = rand::rng().random_range(RACE_PAUSE_MS);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        Ok(())
    }
}
