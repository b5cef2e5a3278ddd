//! The database of these settings, for a command that an operator runs: beside a host that is running, or with the host
//! stopped, when the private server is started for as long as the command takes.

use std::path::Path;

use anyhow::{Context as _, bail};

use crate::{
    data_dir::{DataDir, secret_source},
    launch::Launcher,
    postgres::PrivatePostgres,
};
use cardinal_base::config::Config;
use cardinal_database::{
    connect::{ConnectParams, SocketDir},
    roles::RoleNames,
};
use cardinal_schema::{
    migrate,
    prepare::{Preparation, SecretSource},
};

/// Whether there has to be a private database already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingDatabase {
    Refused,
    Made,
}

/// A way to the database, to be closed with [`Access::close`].
#[derive(Debug)]
pub struct Access {
    /// By its folder's real path; [`Access::login`] is the way that works in this process.
    login: ConnectParams,
    pub secret: SecretSource,
    dir: SocketDir,
    postgres: Option<PrivatePostgres>,
    /// Keeps a host from starting meanwhile.
    _data: Option<DataDir>,
}

impl Access {
    /// # Errors
    /// In words for an operator.
    pub async fn open(config: &Config, missing: MissingDatabase) -> anyhow::Result<Self> {
        let data_dir = &config.paths.data_dir;
        let (login, postgres, data) = match &config.database.url {
            Some(url) => (ConnectParams::from_url(url).map_err(anyhow::Error::msg)?, None, None),
            None => private(config, data_dir, missing).await?,
        };
        let dir = SocketDir::open(&login.host, login.port).context("opening the database's socket folder")?;
        let secret = secret_source(config, data_dir)?;
        Ok(Self { login, secret, dir, postgres, _data: data })
    }

    pub fn login(&self) -> ConnectParams {
        self.login.clone().through(&self.dir)
    }

    /// The whole preparation of this database, as `cardinal serve` would make it.
    pub fn preparation(&self) -> Preparation {
        Preparation {
            login: self.login(),
            names: RoleNames::new(&self.login.dbname),
            secret: self.secret.clone(),
            migrations: migrate::COUNT,
            is_beside: false,
        }
    }

    pub async fn close(self) {
        if let Some(postgres) = self.postgres {
            postgres.stop().await;
        }
    }
}

async fn private(
    config: &Config,
    data_dir: &Path,
    missing: MissingDatabase,
) -> anyhow::Result<(ConnectParams, Option<PrivatePostgres>, Option<DataDir>)> {
    if missing == MissingDatabase::Refused && !PrivatePostgres::has_data(data_dir)? {
        bail!(
            "there is no database in DATA_DIR {}: name the folder of the host, or its DATABASE_URL",
            data_dir.display()
        );
    }
    match DataDir::open_unless_used(data_dir)? {
        Ok(data) => {
            let launcher = Launcher::this_program();
            let postgres = PrivatePostgres::start(&data, &launcher, config.database.bin_dir.as_deref()).await?;
            Ok((postgres.superuser().clone(), Some(postgres), Some(data)))
        }
        Err(_holder) => Ok((PrivatePostgres::login_beside(data_dir)?, None, None)),
    }
}
