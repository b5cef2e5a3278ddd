//! The private server's folder: made once, configured at every start.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::fs::OFlags;

use super::{installation::Installation, relay};
use crate::launch::{Account, FOLDER, Launcher};
use crate::server_memory;
use cardinal_base::config::Secret;

pub const SUPERUSER: &str = "cardinal_superuser";
const CLUSTER: &str = "cluster";
const UNFINISHED: &str = "cluster.new";
const SOCKETS: &str = "run";
const PASSWORD_FILE: &str = "initial-password";
const INITDB_TIMEOUT: Duration = Duration::from_secs(120);

/// Everything is set here, nothing by defaults that initdb guesses from the machine. Crash safety (fsync,
/// full_page_writes, synchronous_commit) is PostgreSQL's default and stays untouched.
const SETTINGS: &str = "\
# Written by cardinal at every start; changes are lost.
listen_addresses = ''
unix_socket_directories = '../run'
port = 5432
password_encryption = 'scram-sha-256'
# The host divides them: its own sessions come first, plugins have what is left (host/crates/schema/src/plugin_schema/connections.rs).
max_connections = 800
# A connection that does not log in holds a place that nothing else bounds.
authentication_timeout = 5s
# Room for what plugins' sessions lock between two looks of the watch that ends them (host/crates/schema/src/session_watch.rs).
max_locks_per_transaction = 160
dynamic_shared_memory_type = 'posix'
jit = off
# A plugin could turn it on for itself, and what it is made with may end the process when memory is short.
jit_provider = 'none'
timezone = 'UTC'
log_timezone = 'UTC'
datestyle = 'iso, mdy'
lc_messages = 'C'
default_text_search_config = 'pg_catalog.english'
logging_collector = off
log_destination = 'stderr'
log_checkpoints = off
# A RAISE of a plugin's SQL is no news for the server's log.
log_min_messages = 'error'
# A failed statement is not logged with its text: it may hold a password or a plugin's data.
log_min_error_statement = 'panic'
# By these lines the host knows whose session logs what; it does not pass them on.
log_connections = on
autovacuum_naptime = 15s
# Of one session: what a runaway sort or join writes. An index on some forty million cards needs less.
temp_file_limit = 4GB
";

fn settings(has_clients: bool) -> String {
    let socket_mode = if has_clients { "0770" } else { "0700" };
    let (line_prefix, shared_buffers) = (relay::LINE_PREFIX, server_memory::shared_mebibytes());
    format!(
        "{SETTINGS}shared_buffers = {shared_buffers}MB\nlog_line_prefix = '{line_prefix}'\n\
         unix_socket_permissions = {socket_mode}\n"
    )
}

/// The one way in, for root and for the server's own user alike: over the socket, with a password.
const ACCESS: &str = "# Written by cardinal at every start; changes are lost.\nlocal all all scram-sha-256\n";

/// `DATA_DIR/pg`: `cluster` is PostgreSQL's own folder, `run` holds the socket. Both are the server's user's.
#[derive(Debug, Clone)]
pub(crate) struct ClusterFolder {
    root: PathBuf,
}

impl ClusterFolder {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn cluster(&self) -> PathBuf {
        self.root.join(CLUSTER)
    }

    pub(crate) fn sockets(&self) -> PathBuf {
        self.root.join(SOCKETS)
    }

    /// The major version that made the data, if there is any.
    ///
    /// # Errors
    /// The folder is there and cannot be read.
    pub(crate) fn major(&self) -> anyhow::Result<Option<u32>> {
        let file = self.cluster().join("PG_VERSION");
        match fs::read_to_string(&file) {
            Ok(text) => Ok(Some(text.trim().parse().with_context(|| format!("{} holds no version", file.display()))?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {}", file.display())),
        }
    }

    /// Makes what is missing and writes the configuration.
    ///
    /// # Errors
    /// With the last words of initdb, if it was that.
    ///
    /// `clients` is a group whose members may connect to the socket, beside the server's user and root.
    pub(crate) async fn prepare(
        &self,
        launcher: &Launcher,
        installation: &Installation,
        account: Option<Account>,
        password: &Secret,
        clients: Option<u32>,
    ) -> anyhow::Result<()> {
        make_folder(&self.root, account)?;
        make_folder(&self.sockets(), account)?;
        if let Some(group) = clients {
            // The socket gets the group of its folder, by the folder's mode.
            open_to_group(&self.root, group, 0o710)?;
            open_to_group(&self.sockets(), group, 0o2710)?;
        }
        if self.major()?.is_none() {
            self.create(launcher, installation, account, password).await?;
        }
        check_folder(&self.cluster(), account, 0o077)?;
        write_as(&self.cluster().join("postgresql.conf"), &settings(clients.is_some()), account)?;
        // Settings that ALTER SYSTEM left would win over ours.
        write_as(&self.cluster().join("postgresql.auto.conf"), "", account)?;
        write_as(&self.cluster().join("pg_hba.conf"), ACCESS, account)?;
        write_as(&self.cluster().join("pg_ident.conf"), "", account)
    }

    /// In a folder beside, renamed when complete: an initdb that was cut off is begun anew, never half used.
    async fn create(
        &self,
        launcher: &Launcher,
        installation: &Installation,
        account: Option<Account>,
        password: &Secret,
    ) -> anyhow::Result<()> {
        if self.cluster().exists() {
            bail!(
                "{} is not empty and is not a database: move it away, or choose another DATA_DIR",
                self.cluster().display()
            );
        }
        let unfinished = self.root.join(UNFINISHED);
        let password_file = self.root.join(PASSWORD_FILE);
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).with_context(|| format!("removing {}", unfinished.display()))?;
        }
        check_room(&self.root)?;
        make_folder(&unfinished, account)?;
        write_as(&password_file, &format!("{}\n", password.expose()), account)?;
        let done = initdb(launcher, installation, account, &unfinished).await;
        fs::remove_file(&password_file).with_context(|| format!("removing {}", password_file.display()))?;
        done?;
        fs::rename(&unfinished, self.cluster()).context("putting the new database in its place")?;
        fs::File::open(&self.root)?.sync_all().context("syncing the folder of the new database")
    }
}

/// A new database takes about 40 MiB, and as much again soon.
const MIN_ROOM: u64 = 100 << 20;

fn check_room(folder: &Path) -> anyhow::Result<()> {
    let disk = rustix::fs::statvfs(folder).with_context(|| format!("looking at the disk of {}", folder.display()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free < MIN_ROOM {
        bail!(
            "the disk of {} has {} MiB free, and a new database needs {}: free space, or choose another DATA_DIR \
             (--data-dir)",
            folder.display(),
            free >> 20,
            MIN_ROOM >> 20
        );
    }
    Ok(())
}

async fn initdb(
    launcher: &Launcher,
    installation: &Installation,
    account: Option<Account>,
    folder: &Path,
) -> anyhow::Result<()> {
    let mut command = launcher.server_command(account, folder, &installation.program("initdb"));
    command
        .args(["-D", FOLDER, "-U", SUPERUSER, "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8"])
        .arg("--no-instructions")
        .arg(format!("--pwfile={FOLDER}/../{PASSWORD_FILE}"))
        .stdin(Stdio::null());
    let output = tokio::process::Command::from(command).kill_on_drop(true).output();
    let output = tokio::time::timeout(INITDB_TIMEOUT, output).await;
    let output = output.context("initdb took too long")?.context("starting initdb")?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("initdb could not make the private database ({}): {}", output.status, words.trim());
    }
    Ok(())
}

/// Only the server's user gets in, and a group that was let through (see [`open_to_group`]). An existing folder must be
/// its own already.
fn make_folder(path: &Path, account: Option<Account>) -> anyhow::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => give_to(path, account),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => check_folder(path, account, 0o067),
        Err(error) => Err(error).with_context(|| format!("making {}", path.display())),
    }
}

/// None of the bits `closed` may be set in its mode. A real folder, not a link by which the server's user would have
/// us, as root, write elsewhere.
fn check_folder(path: &Path, account: Option<Account>, closed: u32) -> anyhow::Result<()> {
    let found = fs::symlink_metadata(path).with_context(|| format!("looking at {}", path.display()))?;
    let user = account.map_or_else(|| rustix::process::geteuid().as_raw(), |account| account.user);
    if !found.is_dir() || found.uid() != user || found.mode() & closed != 0 {
        bail!(
            "{} must be a folder of the user with id {user} alone (mode 700); found owner {} and mode {:o}",
            path.display(),
            found.uid(),
            found.mode() & 0o7777
        );
    }
    Ok(())
}

/// Written beside and renamed: the server's user owns the folder and could lay a link where we, as root, would write.
fn write_as(path: &Path, text: &str, account: Option<Account>) -> anyhow::Result<()> {
    let draft = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        if let Some(Account { user, group }) = account {
            std::os::unix::fs::fchown(&file, Some(user), Some(group))?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().with_context(|| format!("writing {}", path.display()))
}

fn open_to_group(path: &Path, group: u32, mode: u32) -> anyhow::Result<()> {
    let folder =
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, rustix::fs::Mode::empty());
    let open = folder.and_then(|folder| {
        rustix::fs::fchown(&folder, None, Some(rustix::fs::Gid::from_raw(group)))?;
        rustix::fs::fchmod(&folder, rustix::fs::Mode::from_raw_mode(mode))
    });
    open.with_context(|| format!("opening {} to the worker's group", path.display()))
}

fn give_to(path: &Path, account: Option<Account>) -> anyhow::Result<()> {
    let Some(Account { user, group }) = account else { return Ok(()) };
    std::os::unix::fs::chown(path, Some(user), Some(group))
        .with_context(|| format!("giving {} to the server's user", path.display()))
}
