//! How a login reaches its database, and the trick that keeps a long path to a unix socket short enough.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use tokio_postgres::GenericClient;
use tokio_postgres::config::{Host, TargetSessionAttrs};

use cardinal_base::config::Secret;

/// `sockaddr_un` has 108 bytes with the closing zero.
const MAX_SOCKET_PATH: usize = 107;
/// What sessions of the host say that they are.
pub const APPLICATION_NAME: &str = "cardinal";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long logging in may take, which is more than to connect: who accepts and says nothing is no database.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(15);
/// Unacknowledged data for this long ends a TCP connection: a database that vanished must not hold a request forever.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);

/// One login at one database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectParams {
    /// The socket's folder when it begins with `/`, else one or more host names separated by commas.
    pub host: String,
    pub port: u16,
    pub dbname: String,
    pub user: String,
    pub password: Secret,
    /// Session settings sent at start, as `-c name=value ...`; empty behind a pooler that refuses them.
    #[serde(default)]
    pub options: String,
    /// Whether only a server that takes writes will do, of several hosts.
    #[serde(default)]
    pub writable: bool,
}

impl ConnectParams {
    pub fn pg_config(&self) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        for host in self.host.split(',') {
            config.host(host);
        }
        config.port(self.port).dbname(&self.dbname).user(&self.user).password(self.password.expose());
        config.application_name(APPLICATION_NAME).connect_timeout(CONNECT_TIMEOUT).tcp_user_timeout(TCP_USER_TIMEOUT);
        if !self.options.is_empty() {
            config.options(&self.options);
        }
        if self.writable {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        config
    }

    /// From a `DATABASE_URL` that `config` has checked.
    ///
    /// # Errors
    /// A plain sentence, without the URL in it, when the URL uses something that is not supported.
    pub fn from_url(url: &Secret) -> Result<Self, String> {
        let parsed: tokio_postgres::Config =
            url.expose().parse().map_err(|error| format!("DATABASE_URL cannot be read: {error}"))?;
        let hosts = parsed.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => Ok(name.clone()),
            Host::Unix(dir) => dir.to_str().map(str::to_owned).ok_or("DATABASE_URL: the socket's folder is not UTF-8"),
        });
        let hosts = hosts.collect::<Result<Vec<_>, _>>()?;
        let ports = parsed.get_ports();
        if ports.iter().any(|port| Some(port) != ports.first()) {
            return Err("DATABASE_URL: all hosts must have the same port".to_owned());
        }
        let password = parsed.get_password().map(String::from_utf8_lossy).unwrap_or_default();
        Ok(Self {
            host: hosts.join(","),
            port: ports.first().copied().unwrap_or(5432),
            dbname: parsed.get_dbname().unwrap_or_default().to_owned(),
            user: parsed.get_user().unwrap_or_default().to_owned(),
            password: Secret::new(password),
            options: String::new(),
            writable: parsed.get_target_session_attrs() == TargetSessionAttrs::ReadWrite || hosts.len() > 1,
        })
    }

    pub fn with_login(&self, user: impl Into<String>, password: Secret) -> Self {
        Self { user: user.into(), password, ..self.clone() }
    }

    pub fn with_options(mut self, options: impl Into<String>) -> Self {
        self.options = options.into();
        self
    }

    /// The same login by the way that `dir` found.
    pub fn through(mut self, dir: &SocketDir) -> Self {
        if let Some(short) = &dir.short {
            self.host.clone_from(short);
        }
        self
    }
}

/// A way to the socket's folder that fits a socket address. A folder whose path is too long is held open instead and
/// reached through `/proc/self/fd`; that name is good in this process only, and only while this value lives.
#[derive(Debug)]
pub struct SocketDir {
    short: Option<String>,
    _held: Option<OwnedFd>,
}

impl SocketDir {
    /// `host` as in [`ConnectParams`]; for anything but an over-long folder there is nothing to do.
    ///
    /// # Errors
    /// The folder is too long to name and cannot be opened.
    pub fn open(host: &str, port: u16) -> std::io::Result<Self> {
        let length = host.len() + format!("/.s.PGSQL.{port}").len();
        if !host.starts_with('/') || length <= MAX_SOCKET_PATH {
            return Ok(Self { short: None, _held: None });
        }
        let held = rustix::fs::open(
            Path::new(host),
            OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(Self { short: Some(format!("/proc/self/fd/{}", held.as_raw_fd())), _held: Some(held) })
    }
}

/// The number by which the server knows a session.
///
/// # Errors
/// As the driver reports them.
pub async fn backend_pid(session: &impl GenericClient) -> Result<i32, tokio_postgres::Error> {
    session.query_one("SELECT pg_catalog.pg_backend_pid()", &[]).await?.try_get(0)
}

/// Opens one connection outside of any pool; its driver runs until the client is dropped.
///
/// # Errors
/// As the driver reports them; and where the server does not let anybody in within 15 seconds.
pub async fn connect(params: &ConnectParams) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let config = params.pg_config();
    let login = tokio::time::timeout(LOGIN_TIMEOUT, config.connect(tokio_postgres::NoTls)).await;
    // The driver makes this error for its blocking half alone, and has no other for one of its callers to make.
    let (client, connection) = login.unwrap_or_else(|_| Err(tokio_postgres::Error::__private_api_timeout()))?;
    tokio::spawn(async move {
        // The client sees the same failure at its next statement; here it is only told to the log.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "database connection ended");
        }
    });
    Ok(client)
}
