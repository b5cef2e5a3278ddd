//! The process that the operator starts. It never opens a plugin: it holds the listening sockets, the private
//! PostgreSQL and the credentials of owner and provisioner, and keeps a worker alive that has none of these.

use std::io::IsTerminal as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    announce::{self, Announcement},
    backoff::Backoff,
    bind,
    control_service::ControlService,
    crashes::Crashes,
    data_dir::{DataDir, secret_source},
    files::Files,
    first_password::FirstPassword,
    launch::{Account, Launcher},
    local::LocalListener,
    orphans,
    postgres::PrivatePostgres,
    provision::{Job, Task},
    provisioner::Provisioner,
    starting::StartingAnswers,
    temp_folder,
    tls::{self, TlsSource},
    worker::{self, Worker},
    worker_account,
};
use cardinal_base::{
    clock::Clock,
    config::{self, Config, Secret},
    memory,
    secret_file::TOKEN_SECRET_FILE,
};
use cardinal_control::{
    crash::history::CrashHistory,
    link::{ListenerUse, WorkerDatabase, WorkerStart},
    local_socket::LocalSocket,
    sandbox::{self, Sandbox},
};
use cardinal_database::connect::{ConnectParams, SocketDir};
use cardinal_package::kept;
use cardinal_schema::{
    plugin_schema::review,
    pooler,
    prepare::{self, PreparedDatabase},
    session_watch,
};

/// Threads that wait for disks.
const MAX_FILE_THREADS: usize = 16;
const MIN_TOKEN_SECRET_BYTES: usize = 32;
const DATABASE_RETRY: Duration = Duration::from_secs(2);
const DATABASE_WAIT_LOG_INTERVAL: Duration = Duration::from_secs(30);

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// In words for an operator, when it cannot start.
pub fn serve(config: Config) -> anyhow::Result<()> {
    // One thread, this one, spawns every child: they end with the thread that made them.
    let runtime = runtime().context("starting the runtime")?;
    runtime.block_on(async {
        let mut stop = StopSignals::new()?;
        let started = tokio::select! {
            started = Supervisor::start(config) => started?,
            () = stop.next() => {
                tracing::info!("stopped before the start was complete");
                return Ok(());
            }
        };
        if let Some(postgres) = started.serve(stop).await {
            postgres.stop().await;
        }
        Ok(())
    })
}

/// With a thread for what waits for disks that is there from the start and stays: in a container that has no room for
/// another one, where a plugin took all, work waits for this one.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(MAX_FILE_THREADS).thread_keep_alive(FOR_EVER).build()?;
    runtime.block_on(runtime.spawn_blocking(|| {}))?;
    Ok(runtime)
}

/// Everything that outlives a worker.
struct Supervisor {
    launcher: Launcher,
    account: Option<Account>,
    /// As it was read; `start` has what workers may know.
    config: Config,
    start: WorkerStart,
    listeners: Vec<OwnedFd>,
    local: LocalSocket,
    control: ControlService,
    postgres: Option<PrivatePostgres>,
    _data: DataDir,
}

impl Supervisor {
    async fn start(mut config: Config) -> anyhow::Result<Self> {
        let launcher = Launcher::this_program();
        config::refuse_readable_secrets(&config)?;
        let mut data = DataDir::open(&config.paths.data_dir)?;
        make_plugins_dir(&config.paths.plugins_dir);
        let (uses, listeners) = listen(&mut config)?;
        let local = LocalSocket::new(data.path());
        let local_listener = listen_locally(&local, &config)?;
        announce::write_addresses(&data, &config)?;
        let (announcement, first) = (Announcement::new(&config), FirstPassword::new(&config));
        let tls = TlsSource::new(config.http.tls.clone());
        let answers = StartingAnswers::begin(&listeners, &tls, &config.http.base_url)
            .context("preparing answers to clients that come too early")?;
        let account = worker_account::prepare(&config, &mut data, &launcher).await?;
        warn_without_landlock(account);
        let (postgres, login) = database(&config, &data, &launcher).await?;
        let (prepared, start_options) = prepare(&config, &data, &login).await?;
        let job = job(&config, &login, &prepared, start_options);
        tokio::spawn(session_watch::watch(job.provisioner.clone(), job.names.clone()));
        tokio::spawn(review_schemas(job.clone()));
        let provisioner = Provisioner::new(launcher.clone(), job);
        let files = Files::new(&config);
        let crashes = Crashes::open(data.path());
        let mut control = ControlService::new(Clock::System, crashes, provisioner, announcement, first, files, tls);
        control.local = local_listener;
        let start = worker_start(config.clone(), account, &login, &prepared, &data, uses)?;
        drop(answers);
        Ok(Self { launcher, account, config, start, listeners, local, control, postgres, _data: data })
    }

    /// Keeps a worker alive until the first signal, then drains it; the second ends it at once.
    async fn serve(mut self, mut stop: StopSignals) -> Option<PrivatePostgres> {
        let mut backoff = Backoff::default();
        tokio::spawn(memory::give_back());
        tokio::spawn(memory::settle(1));
        tokio::spawn(orphans::reap());
        loop {
            let started = Instant::now();
            self.start.crashes = self.control.crashes.history().clone();
            self.start.probed = self.control.probed();
            let mut may_recover = false;
            let ended = match Worker::start(&self.launcher, self.account, &self.start, &self.listeners).await {
                Ok(mut worker) => tokio::select! {
                    exit = worker.wait_for_exit(&mut self.control) => {
                        let ended = worker::describe_exit(exit.status);
                        may_recover = self.control.record_exit(exit);
                        ended
                    }
                    () = stop.next() => {
                        tracing::info!("stopping");
                        // Ours would go on filling a queue that is not emptied.
                        self.listeners.clear();
                        self.control.local = None;
                        self.local.remove();
                        let grace = self.start.config.http.shutdown_grace;
                        worker.drain(&mut self.control, grace, stop.next()).await;
                        return self.postgres;
                    }
                },
                Err(error) => format!("{error:#}"),
            };
            self.start.worker_restarts += 1;
            // Links may lead elsewhere by now.
            self.start.sandbox =
                Sandbox { unix_sockets: self.start.sandbox.unix_sockets, ..worker_sandbox(&self.config) };
            if may_recover {
                backoff = Backoff::default(); // what ended it is quarantined
            }
            let wait = backoff.after_death(started, Instant::now());
            tracing::error!(ended, wait_ms = wait.as_millis(), "the worker ended on its own; starting it again");
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stop.next() => {
                    self.local.remove();
                    return self.postgres;
                }
            }
        }
    }
}

/// An account of the worker's own keeps it from the supervisor's files, too.
fn warn_without_landlock(account: Option<Account>) {
    if account.is_none() && !sandbox::is_supported() {
        tracing::warn!(
            "plugins' native code is not kept apart from this host: this system has no Landlock (Linux 5.19 or newer), and \
             the worker runs as the host's own user; a plugin can read and change that user's files, the host's secrets \
             among them. Start the host as root, or switch Landlock on (lsm=landlock,...)"
        );
    }
}

/// So that a plugin can be dropped in at any time. A folder that cannot be made (a read-only system) has no plugins.
fn make_plugins_dir(path: &Path) {
    let is_there = path.is_dir();
    match std::fs::DirBuilder::new().recursive(true).mode(0o755).create(path) {
        Ok(()) if is_there => {}
        Ok(()) => tracing::info!(path = %path.display(), "created PLUGINS_DIR, a folder without plugins"),
        Err(error) => tracing::warn!(
            %error,
            path = %path.display(),
            "PLUGINS_DIR cannot be created, so there are no plugins: create it, or name another folder (--plugins-dir)"
        ),
    }
}

/// Binds everything there is to bind, before anything else is touched.
fn listen(config: &mut Config) -> anyhow::Result<(Vec<ListenerUse>, Vec<OwnedFd>)> {
    let main = bind::bind("LISTEN_ADDR", config.http.listen_addr)?;
    config.http.bound(main.local_addr().context("asking for the bound address")?);
    let (mut uses, mut listeners) = (vec![ListenerUse::Main], vec![OwnedFd::from(main)]);
    let others = [
        (ListenerUse::Admin, "ADMIN_LISTEN_ADDR", config.http.admin_listen_addr.as_mut()),
        (ListenerUse::Metrics, "METRICS_ADDR", config.observe.metrics_addr.as_mut()),
    ];
    for (purpose, setting, address) in others {
        let Some(address) = address else { continue };
        let listener = bind::bind(setting, *address)?;
        *address = listener.local_addr().context("asking for the bound address")?;
        uses.push(purpose);
        listeners.push(listener.into());
    }
    Ok((uses, listeners))
}

/// Without it the host serves as well; commands on this machine then need a key.
fn listen_locally(local: &LocalSocket, config: &Config) -> anyhow::Result<Option<LocalListener>> {
    let token = local.new_token().context("making the token of the local socket")?;
    match local.bind().and_then(|listener| LocalListener::start(listener, token, &config.http.base_url)) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) => {
            tracing::warn!(%error, socket = %local, "commands on this machine need a key: the local socket cannot be made");
            Ok(None)
        }
    }
}

/// The login that makes roles: of the private server, or of `DATABASE_URL`.
async fn database(
    config: &Config,
    data: &DataDir,
    launcher: &Launcher,
) -> anyhow::Result<(Option<PrivatePostgres>, ConnectParams)> {
    if let Some(url) = &config.database.url {
        return Ok((None, ConnectParams::from_url(url).map_err(anyhow::Error::msg)?));
    }
    let postgres = PrivatePostgres::start(data, launcher, config.database.bin_dir.as_deref()).await?;
    let login = postgres.superuser().clone();
    Ok((Some(postgres), login))
}

/// Also whether plugins' connections can be given their settings at the start.
async fn prepare(config: &Config, data: &DataDir, login: &ConnectParams) -> anyhow::Result<(PreparedDatabase, bool)> {
    let secret = secret_source(config, data.path())?;
    let dir = SocketDir::open(&login.host, login.port).context("opening the database's socket folder")?;
    let reachable = login.clone().through(&dir);
    let (started, mut logged) = (Instant::now(), None::<Instant>);
    loop {
        match prepare::prepare(&reachable, secret.clone()).await {
            Ok(prepared) => {
                let start_options = start_options(config, &reachable, &prepared).await?;
                return Ok((prepared, start_options));
            }
            Err(error) if prepare::may_pass(&error) => {
                if logged.is_none_or(|at| at.elapsed() >= DATABASE_WAIT_LOG_INTERVAL) {
                    logged = Some(Instant::now());
                    let (error, seconds) = (format!("{error:#}"), started.elapsed().as_secs());
                    tracing::warn!(error, seconds, "waiting for the database: start it, or correct DATABASE_URL");
                }
                tokio::time::sleep(DATABASE_RETRY).await;
            }
            Err(error) => return Err(error.context("preparing the database")),
        }
    }
}

/// Beside the start: nobody logs in meanwhile but plugins whose step has looked.
async fn review_schemas(job: Job) {
    let reviewed = async {
        let (_dir, provisioner) = job.provisioner()?;
        review::review_schemas(&provisioner, &job.names).await
    };
    if let Err(error) = reviewed.await {
        tracing::warn!(error = format!("{error:#}"), "plugins' schemas could not be looked at");
    }
}

async fn start_options(config: &Config, login: &ConnectParams, prepared: &PreparedDatabase) -> anyhow::Result<bool> {
    if config.database.url.is_none() {
        return Ok(true); // the private server has no pooler
    }
    let core = prepared.names.core();
    let taken = pooler::takes_options(&login.with_login(core.clone(), prepared.passwords.for_role(&core))).await?;
    if !taken {
        tracing::info!("a pooler takes no session settings at the start; those of the roles are in force");
    }
    Ok(taken && config.database.prepared)
}

fn job(config: &Config, login: &ConnectParams, prepared: &PreparedDatabase, start_options: bool) -> Job {
    let provision = prepared.names.provision();
    Job {
        task: Task::Purge { plugin: String::new() }, // a place for the task of each process
        paths: config.paths.clone(),
        plugins: config.plugins.clone(),
        observe: config.observe.clone(),
        provisioner: login.with_login(&provision, prepared.passwords.for_role(&provision)),
        names: prepared.names.clone(),
        passwords: prepared.passwords.clone(),
        start_options,
    }
}

/// What the worker may know: neither `DATABASE_URL` nor what passwords are made from.
fn worker_start(
    mut config: Config,
    account: Option<Account>,
    login: &ConnectParams,
    prepared: &PreparedDatabase,
    data: &DataDir,
    listeners: Vec<ListenerUse>,
) -> anyhow::Result<WorkerStart> {
    let token_secret = token_secret(&config, data)?;
    let mut sandbox = worker_sandbox(&config);
    // Landlock knows no rule for sockets that have a path, and those of its own user are open to it: a session's D-Bus,
    // an ssh agent, Docker. So it makes no such socket at all, unless it needs one for the database.
    sandbox.unix_sockets = account.is_some() || login.host.starts_with('/');
    // That there is one may be known, and no more.
    config.database.url = config.database.url.map(|_| cardinal_base::config::Secret::new(""));
    config.database.secret_file = None;
    let role = |name: String| login.with_login(name.clone(), prepared.passwords.for_role(&name));
    Ok(WorkerStart {
        database: WorkerDatabase {
            core: role(prepared.names.core()),
            reaper: role(prepared.names.reaper()),
            roles: prepared.names.clone(),
            dbname: login.dbname.clone(),
        },
        sealing_key: prepared.passwords.sealing_key().export(),
        config,
        host_id: data.host_id()?,
        listeners,
        worker_restarts: 0,
        crashes: CrashHistory::default(),
        probed: Vec::new(),
        token_secret,
        sandbox,
    })
}

/// What signs logins; made once where no setting gives it.
fn token_secret(config: &Config, data: &DataDir) -> anyhow::Result<Secret> {
    if let Some(secret) = &config.auth.token_secret {
        return Ok(secret.clone());
    }
    let secret = data.secret(TOKEN_SECRET_FILE)?;
    if secret.expose().len() < MIN_TOKEN_SECRET_BYTES {
        anyhow::bail!(
            "{} is damaged: it has fewer than {MIN_TOKEN_SECRET_BYTES} bytes; remove it to end all logins and make a new one",
            data.path().join(TOKEN_SECRET_FILE).display()
        );
    }
    Ok(secret)
}

/// The worker gets to none of the supervisor's files: the secrets, the cluster, what plugins are trusted by. It writes
/// where it keeps packages, where its temporary files are, and where uploads go.
fn worker_sandbox(config: &Config) -> Sandbox {
    let data_dir = &config.paths.data_dir;
    let secrets = config.secret_files().into_iter().map(|(_, file)| file.to_owned());
    let hidden = [data_dir.clone()].into_iter().chain(config.database.secret_file.clone()).chain(secrets);
    let hidden = hidden.chain(config.http.tls.iter().flat_map(tls::key_folders));
    let shown = [config.paths.plugins_dir.clone()].into_iter().chain(config.plugins.trust_keys.clone());
    let written = [data_dir.join(kept::FOLDER), data_dir.join(temp_folder::FOLDER)];
    let uploads = config.plugins.upload.then(|| config.paths.plugins_dir.clone());
    Sandbox::new(hidden, shown, written.into_iter().chain(uploads))
}

/// SIGTERM and SIGINT, which mean the same; and SIGHUP, which means it where a terminal was closed.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl StopSignals {
    fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listening for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => {
                    if std::io::stderr().is_terminal() {
                        return;
                    }
                    // Scripts that renew a certificate send it to whatever serves.
                    tracing::info!(
                        "SIGHUP changes nothing: new TLS files are in force by themselves, and other settings need a restart"
                    );
                }
            }
        }
    }
}
