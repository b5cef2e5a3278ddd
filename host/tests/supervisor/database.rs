//! The shared server and the databases of the tests.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use cardinal_base::config::Secret;
use cardinal_control::link::{PluginDatabase, ProvisionFault};
use cardinal_database::connect::{self, ConnectParams, SocketDir};
use cardinal_schema::{
    plugin_schema::{LockLimits, SCHEMA_TIMEOUT, Step, StepError},
    prepare::{self, PreparedDatabase, SecretSource},
};
use cardinal_supervisor::{data_dir::DataDir, launch::Launcher, postgres::PrivatePostgres};
use tokio_postgres::Client;

/// Where nobody waits for a step's locks: a busy machine needs longer than others may wait.
pub(crate) const PATIENT: LockLimits = LockLimits { cards: SCHEMA_TIMEOUT, keyed: SCHEMA_TIMEOUT };
pub(crate) const CARDINAL: &str = env!("CARGO_BIN_EXE_cardinal");

/// A folder of this test run; those of earlier runs, which nothing removes at their end, are removed by the next.
pub(crate) fn scratch() -> &'static Path {
    static SCRATCH: OnceLock<PathBuf> = OnceLock::new();
    SCRATCH.get_or_init(|| {
        let all = std::env::temp_dir().join("cardinal-supervisor-tests");
        std::fs::create_dir_all(&all).unwrap();
        for old in std::fs::read_dir(&all).unwrap().flatten() {
            let pid = old.file_name().into_string().unwrap();
            if !Path::new("/proc").join(pid).exists() {
                let _ = std::fs::remove_dir_all(old.path());
            }
        }
        let own = all.join(std::process::id().to_string());
        std::fs::create_dir_all(&own).unwrap();
        own
    })
}

/// The PostgreSQL to test with, when another than the machine's newest is wanted.
pub(crate) fn programs() -> Option<PathBuf> {
    std::env::var_os("POSTGRES_BIN_DIR").map(PathBuf::from)
}

/// The login of the shared server's administrator, at its database `postgres`.
fn server() -> &'static ConnectParams {
    static SERVER: OnceLock<ConnectParams> = OnceLock::new();
    SERVER.get_or_init(|| shared_server("shared", programs()))
}

/// A server for the whole run.
fn shared_server(name: &'static str, programs: Option<PathBuf>) -> ConnectParams {
    let (sender, receiver) = mpsc::channel();
    // The server ends with the thread that started it, so that thread stays.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let data = DataDir::open(&scratch().join(name)).unwrap();
            let postgres =
                PrivatePostgres::start(&data, &Launcher::program(CARDINAL), programs.as_deref()).await.unwrap();
            forget_crashes(postgres.superuser()).await;
            sender.send(postgres.superuser().clone()).unwrap();
            std::future::pending::<()>().await;
        });
    });
    let login: ConnectParams = receiver.recv().unwrap();
    // Kept for the whole run: the short way to the socket lives as long as this does.
    let dir = Box::leak(Box::new(SocketDir::open(&login.host, login.port).unwrap()));
    ConnectParams { dbname: "postgres".to_owned(), ..login.through(dir) }
}

/// What the login of `DATABASE_URL` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Login {
    Superuser,
    /// May create roles and owns the database.
    Owner,
    /// May do nothing: an administrator ran the output of `cardinal database bootstrap-sql`.
    Plain,
}

/// Where a test is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    server: &'static ConnectParams,
    pub login: Login,
}

impl Place {
    /// `None` on a machine that has no server of this version and none to download.
    pub(crate) fn new(major: u32, login: Login) -> Option<Self> {
        static SERVERS: [OnceLock<Option<ConnectParams>>; 4] = [const { OnceLock::new() }; 4];
        const NAMES: [&str; 4] = ["pg15", "pg16", "pg17", "pg18"];
        let index = (major - 15) as usize;
        let server = SERVERS[index].get_or_init(|| {
            let programs = programs_of(major)?;
            Some(shared_server(NAMES[index], Some(programs)))
        });
        server.as_ref().map(|server| Self { server, login })
    }

    /// One server of all, for what takes too long to be done on each.
    pub(crate) fn is_newest(&self) -> bool {
        Place::new(18, Login::Superuser).is_some_and(|newest| std::ptr::eq(newest.server, self.server))
            && self.login == Login::Superuser
    }

    /// An empty database, and the login that `DATABASE_URL` would name.
    pub(crate) async fn empty_database(&self) -> (ConnectParams, ConnectParams) {
        let admin = empty_database_at(self.server).await;
        let name = format!("{:?}_of_{}", self.login, admin.dbname).to_lowercase();
        let client = connect::connect(&admin).await.unwrap();
        let made = match self.login {
            Login::Superuser => return (admin.clone(), admin),
            Login::Owner => format!(
                "CREATE ROLE {name} LOGIN CREATEROLE PASSWORD 'x'; ALTER DATABASE {} OWNER TO {name}",
                admin.dbname
            ),
            Login::Plain => format!(
                "CREATE ROLE {name} LOGIN PASSWORD 'x'; {}",
                prepare::bootstrap_sql(&admin.dbname, &Secret::new(SECRET)).unwrap()
            ),
        };
        client.batch_execute(&made).await.unwrap();
        let login = admin.with_login(name, Secret::new("x"));
        (admin, login)
    }

    pub(crate) async fn database(&self) -> Database {
        let (admin, login) = self.empty_database().await;
        Database::prepared(admin, &login).await
    }
}

/// Whether `scripts/test --long` runs.
pub(crate) fn is_long_run() -> bool {
    std::env::var_os("LONG_TESTS").is_some()
}

/// For what depends on neither version nor login: the newest server, and the oldest as well in a long run.
pub(crate) fn superuser_places() -> impl Iterator<Item = Place> {
    let majors: &[u32] = if is_long_run() { &[15, 18] } else { &[18] };
    majors.iter().filter_map(|major| Place::new(*major, Login::Superuser))
}

/// An empty database at each of them.
pub(crate) async fn superuser_databases() -> Vec<Database> {
    let mut databases = Vec::new();
    for place in superuser_places() {
        databases.push(place.database().await);
    }
    databases
}

/// Debian's, or fetched by the function of the scripts.
fn programs_of(major: u32) -> Option<PathBuf> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/lib.sh");
    let script = "set -euo pipefail; source \"$1\"; test_postgres \"$2\"";
    let output = std::process::Command::new("bash")
        .args(["-c", script, "test"])
        .arg(scripts)
        .arg(major.to_string())
        .stderr(std::process::Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "no PostgreSQL {major} to test with");
    let folder = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    Some(folder).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// This one server need not survive the machine, and waiting for a busy disk is most of what its tests would do. Tests
/// of crashes start servers of their own. Nor may the logs of four such servers fill a small disk.
async fn forget_crashes(login: &ConnectParams) {
    let dir = SocketDir::open(&login.host, login.port).unwrap();
    let client = connect::connect(&login.clone().through(&dir)).await.unwrap();
    for setting in ["fsync = off", "max_wal_size = '128MB'", "min_wal_size = '32MB'"] {
        client.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await.unwrap();
    }
    client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
}

thread_local! {
    /// The databases of this thread's test, dropped when it ends: hundreds of them would fill a small disk.
    static MADE: RefCell<MadeDatabases> = const { RefCell::new(MadeDatabases(Vec::new())) };
}

struct MadeDatabases(Vec<ConnectParams>);

impl Drop for MadeDatabases {
    fn drop(&mut self) {
        for database in self.0.drain(..) {
            // Fails when the tests are at their end, where their servers end as well.
            let _ = dropper().send(database);
        }
    }
}

/// A thread for it, since one that ends can't wait for a server.
fn dropper() -> &'static Sender<ConnectParams> {
    static DROPPER: OnceLock<Sender<ConnectParams>> = OnceLock::new();
    DROPPER.get_or_init(|| {
        let (send, databases) = mpsc::channel::<ConnectParams>();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            for database in databases {
                runtime.block_on(drop_database(database));
            }
        });
        send
    })
}

/// What can't be dropped stays: a prepared transaction, a server that a test has ended.
async fn drop_database(database: ConnectParams) {
    let server = ConnectParams { dbname: "postgres".to_owned(), ..database.clone() };
    let Ok(client) = connect::connect(&server).await else { return };
    let _ = client.batch_execute(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", database.dbname)).await;
}

/// One database, prepared as a host prepares its own.
pub(crate) struct Database {
    pub admin: ConnectParams,
    pub prepared: PreparedDatabase,
    /// As which a host starts.
    login: ConnectParams,
}

/// An empty database.
pub(crate) async fn empty_database() -> ConnectParams {
    empty_database_at(server()).await
}

async fn empty_database_at(server: &ConnectParams) -> ConnectParams {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let client = connect::connect(server).await.unwrap();
    client.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.unwrap();
    let database = ConnectParams { dbname: name, ..server.clone() };
    MADE.with_borrow_mut(|made| made.0.push(database.clone()));
    database
}

/// Of a plugin's pool.
pub(crate) const CONNECTIONS: u32 = 4;
pub(crate) const SECRET: &str = "the secret of the tests, of a good length";

pub(crate) fn secret() -> SecretSource {
    SecretSource::Known(Secret::new(SECRET))
}

impl Database {
    pub(crate) async fn new() -> Self {
        let admin = empty_database().await;
        let prepared = prepare::prepare(&admin, secret()).await.unwrap();
        Self { login: admin.clone(), admin, prepared }
    }

    /// As the login of `DATABASE_URL` prepares it.
    pub(crate) async fn prepared(admin: ConnectParams, login: &ConnectParams) -> Self {
        let prepared = prepare::prepare(login, secret()).await.unwrap();
        Self { login: login.clone(), admin, prepared }
    }

    /// What a further host on this database does at its start.
    pub(crate) async fn start_again(&self) {
        prepare::prepare(&self.login, secret()).await.unwrap();
    }

    /// What an administrator does after an update, where the host's login may do nothing.
    pub(crate) async fn run_script_again(&self) {
        let script = prepare::bootstrap_sql(&self.admin.dbname, &Secret::new(SECRET)).unwrap();
        self.admin().await.batch_execute(&script).await.unwrap();
    }

    pub(crate) fn login(&self, role: &str) -> ConnectParams {
        self.admin.with_login(role, self.prepared.passwords.for_role(role))
    }

    pub(crate) async fn admin(&self) -> Client {
        connect::connect(&self.admin).await.unwrap()
    }

    pub(crate) async fn core(&self) -> Client {
        connect::connect(&self.login(&self.prepared.names.core())).await.unwrap()
    }

    pub(crate) async fn reaper(&self) -> Client {
        connect::connect(&self.login(&self.prepared.names.reaper())).await.unwrap()
    }

    pub(crate) async fn provisioner(&self) -> Client {
        connect::connect(&self.login(&self.prepared.names.provision())).await.unwrap()
    }

    pub(crate) async fn card(&self, sku: &str) -> uuid::Uuid {
        let id = uuid::Uuid::now_v7();
        let insert = "INSERT INTO public.master_cards (id, title, sku) VALUES ($1, 'a card', $2)";
        self.core().await.execute(insert, &[&id, &sku]).await.unwrap();
        id
    }

    /// A schema step as the provision process makes it.
    pub(crate) async fn provision(&self, plugin: &str, schema_sql: &str) -> Result<PluginDatabase, ProvisionFault> {
        self.provision_within(SCHEMA_TIMEOUT, plugin, schema_sql).await
    }

    /// The same, for a file that does much while it locks the cards.
    pub(crate) async fn provision_patiently(
        &self,
        plugin: &str,
        schema_sql: &str,
    ) -> Result<PluginDatabase, ProvisionFault> {
        let provisioner = self.login(&self.prepared.names.provision());
        let step = Step { lock_limits: PATIENT, ..self.step(&provisioner, plugin, schema_sql) };
        step.make().await.map_err(fault)
    }

    /// A step whose losses were agreed to.
    pub(crate) async fn replay(&self, plugin: &str, schema_sql: &str) -> PluginDatabase {
        self.replay_within(PATIENT, plugin, schema_sql).await.unwrap_or_else(|error| panic!("{error:?}"))
    }

    pub(crate) async fn replay_within(
        &self,
        lock_limits: LockLimits,
        plugin: &str,
        schema_sql: &str,
    ) -> Result<PluginDatabase, StepError> {
        let provisioner = self.login(&self.prepared.names.provision());
        let step = Step { replay: true, lock_limits, ..self.step(&provisioner, plugin, schema_sql) };
        step.make().await
    }

    pub(crate) fn step<'a>(&'a self, provisioner: &'a ConnectParams, plugin: &'a str, schema_sql: &'a str) -> Step<'a> {
        Step {
            plugin,
            version: "1.0.0",
            package: "",
            schema_sql,
            connections: CONNECTIONS,
            provisioner,
            names: &self.prepared.names,
            passwords: &self.prepared.passwords,
            start_options: true,
            schema_timeout: SCHEMA_TIMEOUT,
            lock_limits: LockLimits::default(),
            is_kept: false,
            replay: false,
        }
    }

    pub(crate) async fn provision_within(
        &self,
        schema_timeout: Duration,
        plugin: &str,
        schema_sql: &str,
    ) -> Result<PluginDatabase, ProvisionFault> {
        let provisioner = self.login(&self.prepared.names.provision());
        let step = Step { schema_timeout, ..self.step(&provisioner, plugin, schema_sql) };
        step.make().await.map_err(fault)
    }

    /// Lets this session do by hand, as any role, what the fence keeps roles from that did not log in themselves.
    pub(crate) async fn open_fence(&self, session: &impl tokio_postgres::GenericClient) {
        let fence = "SELECT FROM pg_event_trigger WHERE evtname = 'cardinal_ddl_fence'";
        if session.query_opt(fence, &[]).await.unwrap().is_some() {
            session.batch_execute("ALTER EVENT TRIGGER cardinal_ddl_fence DISABLE").await.unwrap();
        }
    }

    /// Tables of a plugin's schema, by name.
    pub(crate) async fn tables(&self, schema: &str) -> Vec<String> {
        let listed = "SELECT tablename::text FROM pg_tables WHERE schemaname = $1 ORDER BY 1";
        self.admin().await.query(listed, &[&schema]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }

    pub(crate) async fn has_role(&self, role: &str) -> bool {
        let sql = "SELECT 1 FROM pg_roles WHERE rolname = $1";
        self.admin().await.query_opt(sql, &[&role]).await.unwrap().is_some()
    }
}

fn fault(error: StepError) -> ProvisionFault {
    match error {
        StepError::Refused(fault) => fault,
        StepError::Failed(error) => panic!("the step failed: {error:#}"),
    }
}

/// The parts of a refusal, whose code must be this one.
#[track_caller]
pub(crate) fn found_in(refused: Result<PluginDatabase, ProvisionFault>, code: &str) -> String {
    match refused {
        Err(ProvisionFault::Refused { code: refused_code, found, fix, .. })
            if refused_code == code && !fix.is_empty() =>
        {
            found
        }
        other => panic!("not refused as {code}: {other:?}"),
    }
}
