//! The private PostgreSQL: found, made, started on a unix socket without a TCP port, watched, started again when it
//! dies on its own, and stopped with the host.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal};
use tokio::process::Child;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;

pub mod account;
pub mod cluster;
pub mod installation;
mod reach;
mod relay;
mod stale;

use crate::{
    backoff::Backoff,
    data_dir::DataDir,
    launch::{Account, FOLDER, Launcher},
};
use cardinal_base::{config::Secret, secret_file};
use cardinal_database::connect::{self, ConnectParams, SocketDir};
use cardinal_schema::host_database;
use cluster::ClusterFolder;
use installation::Installation;
use relay::LogTail;

/// Below `DATA_DIR`.
pub(crate) const SERVER_FOLDER: &str = "pg";
pub const DATABASE: &str = "cardinal";
const PORT: u16 = 5432;
const PASSWORD_FILE: &str = "postgres-password";
/// A server that says nothing at all for this long will not come.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// After a crash it first reads back its log, which takes as long as it takes; it says so meanwhile.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(3600);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const FAST_STOP_TIMEOUT: Duration = Duration::from_secs(30);
const IMMEDIATE_STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A running private server. To be stopped with [`PrivatePostgres::stop`]; when its supervisor just ends, it ends too.
#[derive(Debug)]
pub struct PrivatePostgres {
    superuser: ConnectParams,
    stop: oneshot::Sender<()>,
    watch: JoinHandle<()>,
}

/// All that is needed to start the server once more.
#[derive(Debug, Clone)]
struct Server {
    launcher: Launcher,
    installation: Installation,
    account: Option<Account>,
    folder: ClusterFolder,
    last_lines: LogTail,
}

impl PrivatePostgres {
    /// Starts the server of this `DATA_DIR`, making it first when there is none, and returns once it answers. Must be
    /// called on a thread that lives as long as the process (see [`Launcher::command`]).
    ///
    /// # Errors
    /// In words for an operator: no PostgreSQL of the right version, a folder that cannot be used, a server that ends.
    pub async fn start(data: &DataDir, launcher: &Launcher, bin_dir: Option<&Path>) -> anyhow::Result<Self> {
        let folder = ClusterFolder::new(data.path().join(SERVER_FOLDER));
        let account = account::for_server(&data.path().join(SERVER_FOLDER))?;
        let major = folder.major()?;
        if major.is_some() && !data.has(PASSWORD_FILE) {
            bail!("{} is missing: put it back from a backup", data.path().join(PASSWORD_FILE).display());
        }
        let installation = installation::choose(bin_dir, data.path(), major)?;
        let installation = reach::reachable(installation, account, launcher).await?;
        let password = data.secret(PASSWORD_FILE)?;
        folder.prepare(launcher, &installation, account, &password, data.group()).await?;
        stale::clear(&folder.cluster(), &folder.sockets()).await?;
        tracing::info!(major = installation.major, programs = %installation.bin_dir.display(), "starting PostgreSQL");
        let superuser = superuser(&folder.sockets(), password)?;
        let server =
            Server { launcher: launcher.clone(), installation, account, folder, last_lines: LogTail::default() };
        let mut child = server.spawn()?;
        server.until_ready(&mut child, &superuser).await?;
        make_database(&superuser).await?;
        let (stop, stopped) = oneshot::channel();
        let watch = tokio::spawn(server.watch(child, stopped));
        Ok(Self { superuser: ConnectParams { dbname: DATABASE.to_owned(), ..superuser }, stop, watch })
    }

    /// The administrator's login of a server that another process started in this folder.
    ///
    /// # Errors
    /// There is no such server, or its password is lost.
    pub fn login_beside(data_dir: &Path) -> anyhow::Result<ConnectParams> {
        let file = data_dir.join(PASSWORD_FILE);
        let password = secret_file::read_small(&file).with_context(|| format!("reading {}", file.display()))?;
        let folder = ClusterFolder::new(data_dir.join(SERVER_FOLDER));
        let login = superuser(&folder.sockets(), Secret::new(password.trim()))?;
        Ok(ConnectParams { dbname: DATABASE.to_owned(), ..login })
    }

    /// Whether this folder holds the data of a private server.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn has_data(data_dir: &Path) -> anyhow::Result<bool> {
        Ok(ClusterFolder::new(data_dir.join(SERVER_FOLDER)).major()?.is_some())
    }

    /// The server's own administrator, at the host's database.
    pub fn superuser(&self) -> &ConnectParams {
        &self.superuser
    }

    /// A fast shutdown: sessions are ended, everything committed is on disk.
    pub async fn stop(self) {
        // The other end is gone only when the watch has ended.
        let _ = self.stop.send(());
        if let Err(error) = self.watch.await {
            tracing::error!(%error, "the watch over PostgreSQL failed");
        }
    }
}

fn superuser(sockets: &Path, password: Secret) -> anyhow::Result<ConnectParams> {
    let host = sockets.to_str().context("DATA_DIR is not UTF-8")?.to_owned();
    Ok(ConnectParams {
        host,
        port: PORT,
        dbname: "postgres".to_owned(),
        user: cluster::SUPERUSER.to_owned(),
        password,
        options: String::new(),
        writable: false,
    })
}

impl Server {
    fn spawn(&self) -> anyhow::Result<Child> {
        let program: PathBuf = self.installation.program("postgres");
        let mut command = self.launcher.server_command(self.account, &self.folder.cluster(), &program);
        let (theirs, messages) = relay::channel().context("making the socket for PostgreSQL's log")?;
        command.args(["-D", FOLDER]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(theirs);
        let child = tokio::process::Command::from(command).spawn().context("starting PostgreSQL")?;
        tokio::spawn(relay::relay(messages, self.last_lines.clone()));
        Ok(child)
    }

    async fn until_ready(&self, child: &mut Child, login: &ConnectParams) -> anyhow::Result<()> {
        let dir = SocketDir::open(&login.host, login.port).context("opening the socket's folder")?;
        let login = login.clone().through(&dir);
        let started = Instant::now();
        let mut timeout = SILENCE_TIMEOUT;
        loop {
            if let Some(status) = child.try_wait().context("watching PostgreSQL")? {
                bail!("PostgreSQL failed to start ({status}): {}", self.last_lines.text());
            }
            match connect::connect(&login).await {
                Ok(_) => return Ok(()),
                Err(error) if error.code() == Some(&SqlState::CANNOT_CONNECT_NOW) => timeout = RECOVERY_TIMEOUT,
                Err(error) if error.code().is_some() => {
                    return Err(error).context("logging in to the private PostgreSQL");
                }
                Err(_) => {}
            }
            if started.elapsed() > timeout {
                bail!("PostgreSQL did not answer within {} s: {}", timeout.as_secs(), self.last_lines.text());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Starts the server again each time it ends, until the stop.
    async fn watch(self, mut child: Child, mut stopped: oneshot::Receiver<()>) {
        let mut backoff = Backoff::default();
        let mut started = Instant::now();
        loop {
            let status = tokio::select! {
                _ = &mut stopped => return stop(child).await,
                status = child.wait() => status,
            };
            log_exit(status);
            loop {
                let wait = backoff.after_death(started, Instant::now());
                tokio::select! {
                    _ = &mut stopped => return,
                    () = tokio::time::sleep(wait) => {}
                }
                started = Instant::now();
                match self.start_again().await {
                    Ok(again) => {
                        child = again;
                        break;
                    }
                    Err(error) => tracing::error!(error = format!("{error:#}"), "failed to start PostgreSQL again"),
                }
            }
        }
    }

    async fn start_again(&self) -> anyhow::Result<Child> {
        stale::clear(&self.folder.cluster(), &self.folder.sockets()).await?;
        self.spawn()
    }
}

fn log_exit(status: std::io::Result<ExitStatus>) {
    match status {
        Ok(status) => tracing::error!(%status, "PostgreSQL ended on its own; starting it again"),
        Err(error) => tracing::error!(%error, "lost track of PostgreSQL; starting it again"),
    }
}

/// Fast, then immediate, then by force; a server ended that way recovers at its next start.
async fn stop(mut child: Child) {
    let steps = [
        (Signal::INT, FAST_STOP_TIMEOUT),
        (Signal::QUIT, IMMEDIATE_STOP_TIMEOUT),
        (Signal::KILL, IMMEDIATE_STOP_TIMEOUT),
    ];
    for (signal, timeout) in steps {
        let Some(pid) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).unwrap_or_default())) else { return };
        let _ = rustix::process::kill_process(pid, signal);
        if let Ok(status) = tokio::time::timeout(timeout, child.wait()).await {
            tracing::info!(status = status.map_or_else(|e| e.to_string(), |s| s.to_string()), "PostgreSQL stopped");
            return;
        }
        tracing::warn!("PostgreSQL does not stop; insisting");
    }
}

async fn make_database(login: &ConnectParams) -> anyhow::Result<()> {
    let dir = SocketDir::open(&login.host, login.port).context("opening the socket's folder")?;
    let client = connect::connect(&login.clone().through(&dir)).await.context("logging in to make the database")?;
    host_database::make(&client, DATABASE).await
}
