//! What is measured, and against what.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use cardinal_tests::{Federated, Host, HostSettings, Package, PluginsFolder, Program, User, built, eventually, unique};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Enough that a page is full and the table is not one block.
const CARDS: usize = 2_000;
const HELLO: &str = "/v1/admin/plugins/quick/hello";
const TOOL: &str = "plugin_quick_hello";
/// The revision of MCP without sessions.
const NEWEST: &str = "2026-07-28";
const NEWEST_HEADERS: &[(&str, &str)] =
    &[("MCP-Protocol-Version", NEWEST), ("Mcp-Method", "tools/call"), ("Mcp-Name", TOOL)];

/// Where wrk is sent.
pub(crate) struct Target {
    pub url: String,
    /// A Lua script that sets method, headers and body.
    pub script: PathBuf,
    /// Whose CPU time counts.
    pub pid: i32,
}

pub(crate) struct Subject {
    pub name: &'static str,
    pub target: Target,
    pub baseline_name: &'static str,
    pub baseline: Target,
}

/// The host and the bare servers; they end with it.
pub(crate) struct Bench {
    pub subjects: Vec<Subject>,
    /// An API key that may read cards and use the measured plugin.
    pub key: User,
    /// The bare server that has a database.
    store: (SocketAddr, i32),
    host: Federated,
    folder: TempDir,
    _bare: (Program, Program),
}

/// A request as wrk sends it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ask<'a> {
    pub token: Option<&'a str>,
    pub body: Option<&'a str>,
    pub post: bool,
    pub headers: &'a [(&'a str, &'a str)],
    /// Each request has one of these, at random, after its path.
    pub ids: &'a [String],
}

impl Bench {
    /// With `authentication`, only what each way in costs, against a host that was built to let everybody in.
    pub(crate) async fn start(authentication: bool) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let (bare, bare_address) = start_bare(folder.path(), "bare", None).await;
        let federated = start_host(bare_address).await;
        let host = &federated.host;
        let (store, store_address) = start_bare(folder.path(), "store", Some(&database(host))).await;
        let owner = host.owner().await;
        let key = owner.key(&["cards:read", "plugin:quick:write", "mcp:use"]).await;
        let jwt = federated.token("measured", "plugin:*:read").await;
        let tokens = Tokens { key: &key.token, session: &owner.token, jwt: &jwt };
        let scripts = Scripts { folder: folder.path() };
        let places = Places { host, bare: (bare_address, bare.pid()), store: (store_address, store.pid()) };
        let store_place = places.store;
        let subjects = if authentication {
            ways_in(&scripts, &places, &tokens)
        } else {
            let card = fill(owner).await;
            subjects(&scripts, &places, &tokens, &card)
        };
        Bench { subjects, key, store: store_place, host: federated, folder, _bare: (bare, store) }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host.host
    }

    /// What the host is asked.
    pub(crate) fn of_host(&self, path: &str, ask: Ask<'_>) -> Target {
        let url = format!("http://{}{path}", self.host().address());
        let ask = Ask { token: Some(&self.key.token), ..ask };
        Target { url, script: self.scripts().write(ask), pid: self.host().worker_pid() }
    }

    /// What the bare server with the database is asked.
    pub(crate) fn of_store(&self, path: &str, ask: Ask<'_>) -> Target {
        Target { url: format!("http://{}{path}", self.store.0), script: self.scripts().write(ask), pid: self.store.1 }
    }

    fn scripts(&self) -> Scripts<'_> {
        Scripts { folder: self.folder.path() }
    }
}

/// Who listens where, and as which process.
struct Places<'a> {
    host: &'a Host,
    bare: (SocketAddr, i32),
    store: (SocketAddr, i32),
}

/// One of each kind of credential.
struct Tokens<'a> {
    key: &'a str,
    session: &'a str,
    jwt: &'a str,
}

/// The same plugin route with each credential and with none.
fn ways_in(scripts: &Scripts<'_>, places: &Places<'_>, tokens: &Tokens<'_>) -> Vec<Subject> {
    let target = |token| Target {
        url: format!("http://{}{HELLO}", places.host.address()),
        script: scripts.write(Ask { token, ..Ask::default() }),
        pid: places.host.worker_pid(),
    };
    let ways = [("API key", tokens.key), ("session", tokens.session), ("JWT", tokens.jwt)];
    let subject = |(name, token)| Subject {
        name,
        target: target(Some(token)),
        baseline_name: "without authentication",
        baseline: target(None),
    };
    ways.into_iter().map(subject).collect()
}

fn subjects(scripts: &Scripts<'_>, places: &Places<'_>, tokens: &Tokens<'_>, card: &str) -> Vec<Subject> {
    let Tokens { key, session, jwt } = *tokens;
    let worker = (places.host.address(), places.host.worker_pid());
    let target = |(address, pid): (SocketAddr, i32), path: &str, ask: Ask<'_>| Target {
        url: format!("http://{address}{path}"),
        script: scripts.write(ask),
        pid,
    };
    let with = |token| Ask { token: Some(token), ..Ask::default() };
    let post = Ask { post: true, ..Ask::default() };
    let (single, newest) = (tool_call(None), tool_call(Some(newest_meta())));
    let call = |body| Ask { token: Some(key), body: Some(body), ..post };
    let one_card = format!("/v1/admin/master-cards/{card}");
    let (bare, hello) = ("bare hyper and matchit", || target(places.bare, "/hello", Ask::default()));
    let store = |path: &str, ask| target(places.store, path, ask);
    let subject = |name, target, baseline_name, baseline| Subject { name, target, baseline_name, baseline };
    vec![
        subject("health check", target(worker, "/healthz", Ask::default()), bare, hello()),
        subject("plugin route, API key", target(worker, HELLO, with(key)), bare, hello()),
        subject("plugin route, session", target(worker, HELLO, with(session)), bare, hello()),
        subject("plugin route, JWT", target(worker, HELLO, with(jwt)), bare, hello()),
        subject("tools/call, API key", target(worker, "/api", call(&single)), bare, hello()),
        subject(
            "tools/call of 2026-07-28, API key",
            target(worker, "/api", Ask { headers: NEWEST_HEADERS, ..call(&newest) }),
            "the plugin's route behind it",
            target(worker, HELLO, with(key)),
        ),
        subject("proxied request", target(worker, "/bare/hello", Ask::default()), "the upstream itself", hello()),
        subject(
            "plugin route, one query",
            target(worker, "/v1/admin/plugins/quick/query", with(key)),
            "bare, the same query",
            store("/number", Ask::default()),
        ),
        subject(
            "card by id, API key",
            target(worker, &one_card, with(key)),
            "bare, the same select",
            store(&format!("/cards/{card}"), Ask::default()),
        ),
        subject(
            "first page of 50 cards",
            target(worker, "/v1/admin/master-cards?limit=50", with(key)),
            "bare, the same select",
            store("/cards", Ask::default()),
        ),
        subject(
            "enrich one card",
            target(worker, &format!("/v1/admin/plugins/quick/enrich/{card}"), Ask { token: Some(key), ..post }),
            "bare, the update alone",
            store(&format!("/write/{card}"), post),
        ),
    ]
}

fn tool_call(meta: Option<Value>) -> String {
    let mut params = json!({"name": TOOL, "arguments": {}});
    if let Some(meta) = meta {
        params["_meta"] = meta;
    }
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
}

/// What a client of the newest revision says with every message.
fn newest_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0.0"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    })
}

async fn start_host(bare: SocketAddr) -> Federated {
    let plugins = PluginsFolder::bundled().with("quick", &Package::fixture("quick"));
    let settings = |host: HostSettings| {
        // Every request is counted against a limit, and none reaches it.
        host.plugins(plugins)
            .set("API_KEY_RATE_PER_MINUTE", "100000000")
            .set("PROXY_ROUTES", format!("/bare=http://{bare}/"))
    };
    Federated::start(settings).await
}

async fn start_bare(folder: &Path, name: &str, database: Option<&str>) -> (Program, SocketAddr) {
    let environment = database.map(|text| ("BENCH_DATABASE", text));
    let log = folder.join(name);
    let program = Program::start(&built("bench"), &["serve-bare"], environment, &log);
    let address = eventually("a bare server listens", async || program.printed().trim().parse().ok()).await;
    (program, address)
}

/// The host's own PostgreSQL: both servers ask the same one, over the same kind of socket.
fn database(host: &Host) -> String {
    let password =
        std::fs::read_to_string(host.data().join("postgres-password")).expect("the private PostgreSQL's password");
    let sockets = host.data().join("pg/run");
    format!("host={} user=cardinal_superuser dbname=cardinal password={}", sockets.display(), password.trim())
}

/// Makes the cards, and gives the id of one in the middle.
async fn fill(owner: &User) -> String {
    let mut middle = String::new();
    for number in 0..CARDS {
        let title = format!("Card {number}, as long as titles are");
        let attributes = json!({"brand": "Northwind", "weight_grams": number, "tags": ["tools", "garden"]});
        let card = json!({"title": title, "sku": unique("SKU"), "attributes": attributes});
        let made = owner.post("/v1/admin/master-cards", &card).await.expect(201);
        if number == CARDS / 2 {
            middle = made["item"]["id"].as_str().unwrap().to_owned();
        }
    }
    middle
}

/// Where the scripts for wrk lie.
pub(crate) struct Scripts<'a> {
    pub folder: &'a Path,
}

impl Scripts<'_> {
    pub(crate) fn write(&self, ask: Ask<'_>) -> PathBuf {
        let mut lua = String::new();
        if ask.post {
            lua += "wrk.method = \"POST\"\n";
        }
        if let Some(token) = ask.token {
            lua += &format!("wrk.headers[\"Authorization\"] = \"Bearer {token}\"\n");
        }
        if let Some(body) = ask.body {
            lua += "wrk.headers[\"Content-Type\"] = \"application/json\"\n";
            lua += "wrk.headers[\"Accept\"] = \"application/json, text/event-stream\"\n";
            lua += &format!("wrk.body = {body:?}\n");
        }
        for (name, value) in ask.headers {
            lua += &format!("wrk.headers[{name:?}] = {value:?}\n");
        }
        if !ask.ids.is_empty() {
            lua += &format!("local ids = {{\"{}\"}}\n", ask.ids.join("\",\""));
            lua += "function request() return wrk.format(nil, wrk.path .. ids[math.random(#ids)]) end\n";
        }
        let path = self.folder.join(unique("ask"));
        std::fs::write(&path, lua).unwrap();
        path
    }
}
