//! The real host: supervisor, worker and PostgreSQL of its own, in a folder of its own, on a port of its own.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Arc, Weak};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Mutex, OnceCell};

use crate::client::Client;
use crate::cluster;
use crate::failure;
use crate::plugins::{Package, PluginsFolder, open_folder};
use crate::process::{Program, cardinal, cardinal_program, descendants, eventually};
use crate::user::User;

pub const OWNER: &str = "owner";
pub const OWNER_PASSWORD: &str = "correct horse battery staple";

/// Settings of a host before it starts, named as in the environment.
#[derive(Default)]
pub struct HostSettings {
    environment: BTreeMap<String, String>,
    plugins: Option<PluginsFolder>,
    folder: Option<TempDir>,
    program: Option<PathBuf>,
    user: Option<u32>,
}

impl HostSettings {
    /// As this user of the system, to whom everything that the host makes belongs. Only root can.
    #[must_use]
    pub fn run_as(mut self, user: u32) -> HostSettings {
        self.user = Some(user);
        self
    }

    /// Another build of the host than the one beside the tests.
    #[must_use]
    pub fn program(mut self, path: PathBuf) -> HostSettings {
        self.program = Some(path);
        self
    }

    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<String>) -> HostSettings {
        self.environment.insert(name.to_owned(), value.into());
        self
    }

    #[must_use]
    pub fn plugins(mut self, plugins: PluginsFolder) -> HostSettings {
        self.plugins = Some(plugins);
        self
    }

    /// Where its `DATA_DIR` is made, and its log.
    #[must_use]
    pub fn folder(mut self, folder: TempDir) -> HostSettings {
        self.folder = Some(folder);
        self
    }

    /// On a copy of the data of a host that was stopped.
    #[must_use]
    pub fn copy_of(self, stopped: &TempDir) -> HostSettings {
        let folder = open_folder("cardinal-test-");
        cluster::copy(&[data_folder(stopped)], folder.path());
        self.folder(folder)
    }

    /// Starts it and waits until it is ready.
    pub async fn start(self) -> Host {
        let mut host = self.launch();
        host.until_ready().await;
        host
    }

    /// Starts it, ready or not; for hosts that must refuse to start.
    pub fn launch(mut self) -> Host {
        failure::tell_at_once();
        let folder = self.folder.take().unwrap_or_else(|| {
            let folder = open_folder("cardinal-test-");
            if self.gets_server() {
                cluster::lay_out(&data_folder(&folder));
            }
            folder
        });
        // What stands there is the address of a host that has ended on the same data.
        let _ = std::fs::remove_file(data_folder(&folder).join("addresses.json"));
        let plugins = self.plugins.take().unwrap_or_default();
        let binary = self.program.clone().unwrap_or_else(cardinal_program);
        let log = folder.path().join("log");
        if let Some(user) = self.user {
            std::os::unix::fs::chown(folder.path(), Some(user), Some(user)).unwrap();
        }
        let environment = self.environment(&folder, &plugins);
        let program = Program::start_as(self.user, &binary, &["serve"], environment, &log);
        let (changed, user) = (self.environment, self.user);
        Host { program, changed, user, address: None, plugins, owner: OnceCell::new(), folder }
    }

    /// Whether it starts on a copy of an empty server: it has one of its own, of the default programs.
    fn gets_server(&self) -> bool {
        let elsewhere = ["DATABASE_URL", "DATA_DIR", "POSTGRES_BIN_DIR"];
        let is_usual = !elsewhere.iter().any(|name| self.environment.contains_key(*name));
        is_usual && self.user.is_none() && self.program.is_none()
    }

    fn environment(&self, folder: &TempDir, plugins: &PluginsFolder) -> BTreeMap<String, String> {
        let mut environment = BTreeMap::from(
            [
                ("LISTEN_ADDR", "127.0.0.1:0"),
                ("ADMIN_BOOTSTRAP_USERNAME", OWNER),
                ("ADMIN_BOOTSTRAP_PASSWORD", OWNER_PASSWORD),
                ("SHUTDOWN_GRACE_SECONDS", "10"),
                ("DATA_DIR", data_folder(folder).to_str().unwrap()),
                ("PLUGINS_DIR", plugins.path().to_str().unwrap()),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        // Set by scripts/test where the system has no PostgreSQL of its own.
        environment.extend(std::env::var("POSTGRES_BIN_DIR").map(|folder| ("POSTGRES_BIN_DIR".to_owned(), folder)));
        environment.extend(self.environment.clone());
        environment
    }
}

pub struct Host {
    program: Program,
    changed: BTreeMap<String, String>,
    user: Option<u32>,
    address: Option<SocketAddr>,
    plugins: PluginsFolder,
    owner: OnceCell<User>,
    folder: TempDir,
}

impl Host {
    pub fn settings() -> HostSettings {
        HostSettings::default()
    }

    /// For one that is like [`Host::shared`] and a test's own: the bundled plugins, and `unruly`.
    pub fn settings_of_shared() -> HostSettings {
        Host::settings()
            .plugins(PluginsFolder::bundled().with("unruly", &Package::fixture("unruly")))
            // The pages that tests serve are on loopback.
            .set("PLUGIN_SETTINGS_SUPPLIER", json!({"allow_private_addresses": true}).to_string())
            .set("PLUGIN_SETTINGS_GALLERY", json!({"allow_private_addresses": true}).to_string())
            .set("PICTURE_NETWORKS", "127.0.0.1")
    }

    /// The host that tests share which do not break it, with the bundled plugins. It lives while a test holds it; who
    /// comes after the last one left starts another, so that nothing is left behind when the tests end.
    pub async fn shared() -> Arc<Host> {
        static SHARED: Mutex<Weak<Host>> = Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        if let Some(host) = shared.upgrade() {
            return host;
        }
        let host = Arc::new(Host::settings_of_shared().start().await);
        *shared = Arc::downgrade(&host);
        host
    }

    /// Waits until one that was launched listens, which is before it serves.
    pub async fn until_listening(&mut self) -> SocketAddr {
        let addresses = self.data().join("addresses.json");
        let address = eventually("the host listens", async || written_address(&addresses)).await;
        *self.address.insert(address)
    }

    /// Waits until one that was launched serves.
    pub async fn until_ready(&mut self) {
        let addresses = self.data().join("addresses.json");
        let program = &mut self.program;
        let ready = eventually("the host is ready", async || {
            if let Some(status) = program.exited() {
                panic!("the host ended instead of starting, {status}:\n{}", program.printed());
            }
            let address = written_address(&addresses)?;
            let answer = Client::new(address).call(http::Method::GET, "/readyz").try_send().await.ok()?;
            (answer.status == 200).then_some(address)
        });
        self.address = Some(ready.await);
    }

    pub fn address(&self) -> SocketAddr {
        self.address.expect("the host is ready")
    }

    /// Without a credential.
    pub fn client(&self) -> Client {
        Client::new(self.address())
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// The bootstrap user, logged in once.
    pub async fn owner(&self) -> &User {
        let client = self.client();
        self.owner.get_or_init(|| User::log_in(&client, OWNER, OWNER_PASSWORD)).await
    }

    /// How a plugin is shown to operators, once it is no longer being loaded: a worker that was just started waits for that,
    /// but not for as long as a busy machine may take.
    pub async fn plugin(&self, name: &str) -> Value {
        let path = format!("/v1/admin/plugin-registry/{name}");
        eventually("the plugin has been loaded or refused", async || {
            let item = self.owner().await.get(&path).await.expect(200)["item"].take();
            (item["state"] != "checked").then_some(item)
        })
        .await
    }

    /// Waits until at least so many calls of a plugin are under way.
    pub async fn calls_under_way(&self, plugin: &str, calls: u64) {
        eventually("calls of the plugin are under way", async || {
            (self.plugin(plugin).await["counters"]["in_flight"].as_u64() >= Some(calls)).then_some(())
        })
        .await;
    }

    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    pub fn supervisor_pid(&self) -> i32 {
        self.program.pid()
    }

    /// The process that serves; there is one while the host is ready.
    pub fn worker_pid(&self) -> i32 {
        let family = descendants(self.supervisor_pid());
        let worker = family.iter().find(|(_, line)| line.split(' ').nth(1) == Some("worker"));
        worker.unwrap_or_else(|| panic!("no worker among {family:?}")).0
    }

    /// Bytes of the worker's memory: those that are resident (`VmRSS`; of files `RssFile`, of libraries `RssShmem`), or the
    /// most that ever were (`VmHWM`).
    pub fn worker_memory(&self, name: &str) -> u64 {
        memory(self.worker_pid(), name)
    }

    /// The same of the supervisor's.
    pub fn supervisor_memory(&self, name: &str) -> u64 {
        memory(self.supervisor_pid(), name)
    }

    /// The first process of its own PostgreSQL, whose children the others are.
    pub fn postgres_pid(&self) -> i32 {
        self.find_postgres().unwrap_or_else(|| panic!("no PostgreSQL among {:?}", descendants(self.supervisor_pid())))
    }

    fn find_postgres(&self) -> Option<i32> {
        let family = descendants(self.supervisor_pid());
        family.iter().find(|(_, line)| line.split(' ').any(|part| part.ends_with("/postgres"))).map(|(pid, _)| *pid)
    }

    /// Waits until another PostgreSQL runs than `before`, which was killed, and the host is ready on it: until it has
    /// noticed, it says that it is ready.
    pub async fn ready_on_another_postgres(&self, before: i32) {
        eventually("another PostgreSQL runs", async || self.find_postgres().filter(|now| *now != before)).await;
        self.ready_again().await;
    }

    /// Waits until one that was ready before is so again.
    pub async fn ready_again(&self) {
        eventually("the host is ready again", async || {
            (self.client().get("/readyz").await.status == 200).then_some(())
        })
        .await;
    }

    /// Its `DATA_DIR`.
    pub fn data(&self) -> PathBuf {
        data_folder(&self.folder)
    }

    pub fn plugins(&self) -> &PluginsFolder {
        &self.plugins
    }

    /// `DATABASE_URL` of its private PostgreSQL's administrator.
    pub fn database_url(&self) -> String {
        let password = std::fs::read_to_string(self.data().join("postgres-password")).unwrap();
        let sockets = self.data().join("pg/run");
        let sockets = sockets.to_str().unwrap().replace('/', "%2F");
        format!("postgres://cardinal_superuser:{}@{sockets}/cardinal", password.trim())
    }

    /// A session of its private PostgreSQL's administrator, who may do everything.
    pub async fn database(&self) -> tokio_postgres::Client {
        self.try_database().await.unwrap()
    }

    /// The same of one that may be away.
    pub async fn try_database(&self) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.database_url(), tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Settings of another host on the same database.
    pub fn beside(&self) -> HostSettings {
        let secret = self.data().join("database-secret");
        Host::settings().set("DATABASE_URL", self.database_url()).set("DATABASE_SECRET_FILE", secret.to_str().unwrap())
    }

    /// What it printed and logged so far.
    pub fn log(&self) -> String {
        self.program.printed()
    }

    /// Ends it as an operator does and starts it again on the same data, perhaps with changed settings.
    pub async fn restart(mut self, change: impl FnOnce(HostSettings) -> HostSettings) -> Host {
        self.end().await;
        self.again(change).await
    }

    /// Ends it as an operator does; other hosts start on copies of what it leaves, with [`HostSettings::copy_of`].
    pub async fn stop(mut self) -> TempDir {
        self.end().await;
        self.folder
    }

    /// Ends it as an operator does; [`Host::again`] starts it again.
    pub async fn end(&mut self) {
        self.program.signal(Signal::TERM);
        assert!(self.program.ended().await.success(), "the host did not end in order:\n{}", self.log());
    }

    /// Starts a host that has ended again on the same data.
    pub async fn again(self, change: impl FnOnce(HostSettings) -> HostSettings) -> Host {
        let settings = HostSettings {
            environment: self.changed,
            plugins: Some(self.plugins),
            folder: Some(self.folder),
            program: None,
            user: self.user,
        };
        change(settings).start().await
    }
}

fn memory(pid: i32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn written_address(addresses: &Path) -> Option<SocketAddr> {
    let written: Value = serde_json::from_slice(&std::fs::read(addresses).ok()?).ok()?;
    written["listen"].as_str()?.parse().ok()
}

fn data_folder(folder: &TempDir) -> PathBuf {
    folder.path().join("data")
}

/// Runs `cardinal` on this machine's host, without a key.
pub fn cardinal_on(host: &Host, arguments: &[&str]) -> Output {
    let data = host.data();
    cardinal(arguments.iter().map(OsStr::new).chain([OsStr::new("--data-dir"), data.as_os_str()]))
}
