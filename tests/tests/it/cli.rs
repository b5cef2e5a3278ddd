//! Commands that talk to a host: by its local socket without a key, or by address and key; and who may use the socket.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use cardinal_tests::{
    Host, Package, PluginsFolder, built, cardinal, cardinal_on, cardinal_program, cardinal_with, eventually, exited,
    lives,
};
use rustix::process::Signal;
use serde_json::{Value, json};

const NOBODY: &str = "65534";

fn with_plugins() -> PluginsFolder {
    PluginsFolder::default().with("supplier", &Package::bundled("supplier")).with("echo", &Package::fixture("echo"))
}

/// Sends a request to the socket as it stands there, with what a connection begins with, and gives the whole answer.
fn ask(socket: &Path, token: &str, request: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(format!("{token}{request}").as_bytes()).unwrap();
    let mut answer = String::new();
    // The host may be gone before it has read all.
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn token(socket: &Path) -> String {
    std::fs::read_to_string(socket.with_file_name("local-token")).unwrap().trim().to_owned()
}

fn get(socket: &Path, path: &str, headers: &str) -> String {
    ask(
        socket,
        &token(socket),
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"),
    )
}

fn body(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[tokio::test]
async fn the_local_socket_needs_no_key_and_is_its_owners_alone() {
    let mut host = Host::settings().plugins(PluginsFolder::default()).start().await;
    let socket = host.data().join("cardinal.sock");
    let found = std::fs::metadata(&socket).unwrap();
    assert_eq!((found.mode() & 0o777, found.uid()), (0o600, rustix::process::geteuid().as_raw()));
    let answer = get(&socket, "/v1/admin/auth/me", "");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let me = body(&answer);
    assert_eq!((&me["auth"], &me["scopes"], &me["expires_at"]), (&json!("local"), &json!(["*"]), &Value::Null));
    let token_file = socket.with_file_name("local-token");
    assert_eq!(std::fs::metadata(&token_file).unwrap().mode() & 0o777, 0o600);
    // Who has no token gets no answer, whoever it is.
    let request =
        "GET /v1/admin/auth/me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Padding: 0123456789\r\n\r\n";
    let wrong = token(&socket).chars().rev().collect::<String>();
    for begun in ["", &wrong, &token(&socket)[..63], &token(&socket).to_uppercase()] {
        assert_eq!(ask(&socket, begun, request), "", "{begun}");
    }
    let logged = async || host.log().contains("did not begin with its token").then_some(());
    eventually("the log has it", logged).await;
    // A credential that is shown there counts like anywhere else.
    let answer = get(&socket, "/v1/admin/auth/me", "Authorization: Bearer mpk_wrong\r\n");
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let reader = host.owner().await.key(&["cards:read"]).await;
    let answer = get(&socket, "/v1/admin/users", &format!("Authorization: Bearer {}\r\n", reader.token));
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    // Whatever is said over TCP, it is not the socket.
    for header in ["x-forwarded-for", "forwarded", "x-real-ip", "x-cardinal-local"] {
        let call = host.client().call(http::Method::GET, "/v1/admin/auth/me").header(header, "unix:cardinal.sock");
        call.send().await.refused(401, "missing-token");
    }
    host.program().signal(Signal::TERM);
    assert!(host.program().ended().await.success());
    assert!(!socket.exists() && !token_file.exists(), "a host that has ended leaves no socket");
}

#[tokio::test]
async fn another_user_is_refused_by_mode_and_by_who_they_are() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let host = Host::settings().plugins(PluginsFolder::default()).start().await;
    let socket = host.data().join("cardinal.sock");
    let open = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    // The test's folders are their owner's alone, too.
    for folder in host.data().ancestors().take_while(|folder| *folder != std::env::temp_dir()) {
        open(folder, 0o755);
    }
    let as_nobody = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]).arg(cardinal_program());
        command.args(["plugin", "list", "--data-dir", host.data().to_str().unwrap()]).env_clear();
        command.stdin(Stdio::null()).output().unwrap()
    };
    let (_, told) = exited(&as_nobody(), 69);
    assert!(told.contains("Permission denied"), "{told}");
    open(&socket, 0o666);
    let (_, told) = exited(&as_nobody(), 69);
    assert!(told.contains("local-token: Permission denied"), "{told}");
    open(&socket.with_file_name("local-token"), 0o644);
    let refused = as_nobody();
    // The connection ends before or after the command has sent something.
    assert!([Some(1), Some(69)].contains(&refused.status.code()) && refused.stdout.is_empty(), "{refused:?}");
    assert!(host.log().contains("connected to the local socket and was turned away"), "{}", host.log());
    // Nobody is in the way of who may.
    exited(&cardinal_on(&host, &["plugin", "list"]), 0);
}

#[tokio::test]
async fn commands_get_through_beside_silent_connections_and_while_the_worker_starts_again() {
    let host = Host::settings().plugins(PluginsFolder::default()).start().await;
    let socket = host.data().join("cardinal.sock");
    // Twice as many as may wait without a token.
    let silent: Vec<UnixStream> = (0..128).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    std::thread::scope(|scope| {
        let calls: Vec<_> =
            (0..10).map(|_| scope.spawn(|| exited(&cardinal_on(&host, &["plugin", "list"]), 0))).collect();
        calls.into_iter().for_each(|call| drop(call.join().unwrap()));
    });
    drop(silent);
    for _ in 0..3 {
        let worker = host.worker_pid();
        rustix::process::kill_process(rustix::process::Pid::from_raw(worker).unwrap(), Signal::KILL).unwrap();
        eventually("the worker ends", async || (!lives(worker)).then_some(())).await;
        let answer = get(&socket, "/v1/admin/auth/me", "");
        assert!(answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.1 503"), "{answer}");
    }
}

#[tokio::test]
async fn what_a_killed_host_left_behind_gives_way() {
    let mut host = Host::settings().plugins(PluginsFolder::default()).start().await;
    let (socket, worker) = (host.data().join("cardinal.sock"), host.worker_pid());
    host.program().signal(Signal::KILL);
    host.program().ended().await;
    // The worker holds the socket until it has followed.
    eventually("the worker follows", async || (!lives(worker)).then_some(())).await;
    // Its other threads may end after its first one.
    eventually("nobody listens", async || UnixStream::connect(&socket).is_err().then_some(())).await;
    assert!(socket.exists());
    let (_, told) = exited(&cardinal_on(&host, &["plugin", "list"]), 69);
    assert!(told.contains("cardinal.sock") && told.contains("Start it"), "{told}");
    let host = host.again(|settings| settings).await;
    exited(&cardinal_on(&host, &["plugin", "list"]), 0);
}

#[tokio::test]
async fn plugins_are_listed_disabled_and_enabled() {
    let host = Host::settings().plugins(with_plugins()).start().await;
    let (out, _) = exited(&cardinal_on(&host, &["plugin", "list"]), 0);
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..3], ["NAME", "VERSION", "STATE"]);
    assert!(lines.iter().any(|line| line[0] == "supplier" && line[2] == "active"), "{out}");
    let (out, _) = exited(&cardinal_on(&host, &["plugin", "disable", "echo"]), 0);
    assert!(out.starts_with("echo ") && out.contains("is disabled"), "{out}");
    host.owner().await.get("/v1/admin/plugins/echo/hello").await.refused(503, "plugin-unavailable");
    let (out, _) = exited(&cardinal_on(&host, &["plugin", "list", "--json"]), 0);
    let items = serde_json::from_str::<Value>(&out).unwrap()["items"].take();
    let echo = items.as_array().unwrap().iter().find(|item| item["name"] == "echo").unwrap().clone();
    assert_eq!(echo["state"], "disabled");
    exited(&cardinal_on(&host, &["plugin", "enable", "echo"]), 0);
    host.owner().await.get("/v1/admin/plugins/echo/hello").await.expect(200);
    for (name, code) in [("no-such", "not-found"), ("no/such\u{1b}", "invalid-request")] {
        let (_, told) = exited(&cardinal_on(&host, &["plugin", "disable", name]), 1);
        assert!(told.contains(code) && !told.contains('\u{1b}'), "{told}");
    }
    // Who it was is in the audit log, without an address.
    let audit = host.owner().await.get("/v1/admin/audit?action=plugin.disable").await.expect(200);
    let line = &audit["items"][0];
    let uid = rustix::process::geteuid().as_raw();
    assert_eq!(line["actor"], json!({"kind": "local", "id": null, "name": format!("uid {uid}")}), "{line}");
    assert_eq!((&line["target"], &line["ip"]), (&json!("echo"), &Value::Null));
}

#[tokio::test]
async fn a_key_is_made_and_shown_alone() {
    let host = Host::settings().plugins(PluginsFolder::default()).start().await;
    let (out, _) = exited(&cardinal_on(&host, &["key", "create", "--name", "ci", "--scopes", "cards:read,mcp:use"]), 0);
    let key = out.strip_suffix('\n').unwrap();
    assert!(key.len() == 50 && key.starts_with("mpk_"), "{out:?}");
    let caller = host.client().bearer(key);
    let me = caller.get("/v1/admin/auth/me").await.expect(200);
    assert_eq!(me["scopes"], json!(["cards:read", "mcp:use"]));
    // By address and key, which cannot give what it lacks.
    let url = host.url();
    let more = |scope: &'static str| ["key", "create", "--name", "more", "--scopes", scope, "--url"].map(str::to_owned);
    let by_key = |arguments: [String; 7], key: &str| {
        let arguments = arguments.into_iter().chain([url.clone()]);
        cardinal_with(arguments, &[("CARDINAL_API_KEY", key)])
    };
    let (out, told) = exited(&by_key(more("cards:read"), key), 77);
    assert!(out.is_empty() && told.contains("insufficient-scope"), "{told}");
    let (_, told) = exited(&by_key(more("cards:read"), ""), 77);
    assert!(told.contains("CARDINAL_API_KEY or --key-file"), "{told}");
    let (_, told) = exited(&by_key(more("cards:read"), &key.replace("mpk_", "mpk_x")[..50]), 77);
    assert!(!told.contains(&key[4..]), "no key is shown: {told}");
    let (_, told) = exited(&cardinal_on(&host, &["key", "create", "--name", "x", "--scopes", "cards:fly"]), 1);
    assert!(told.contains("/scopes/0") && told.contains("cards:fly"), "{told}");
    // A key file; JSON with the record beside the key.
    let file = host.data().join("key");
    std::fs::write(&file, format!("{}\n", host.owner().await.key(&["*"]).await.token)).unwrap();
    let arguments = ["key", "create", "--json", "--name", "n", "--scopes", "cards:read", "--expires-in-days", "3"];
    let arguments = arguments.into_iter().chain(["--rate-per-minute", "60", "--url", &url, "--key-file"]);
    let (out, _) = exited(&cardinal(arguments.chain([file.to_str().unwrap()])), 0);
    let made: Value = serde_json::from_str(&out).unwrap();
    assert!(made["key"].is_string() && made["item"]["expires_at"].is_string(), "{made}");
    assert_eq!(made["item"]["rate_limit"]["per_minute"], 60, "{made}");
    for line in [vec!["key", "create"], vec!["key", "create", "--name", "x"], vec!["plugin", "enable"]] {
        assert_eq!(cardinal(&line).status.code(), Some(64), "{line:?}");
    }
}

#[tokio::test]
async fn a_plugin_is_installed_in_the_place_of_what_was_there() {
    let host = Host::settings().plugins(PluginsFolder::default()).start().await;
    let folder = host.plugins().path().to_str().unwrap().to_owned();
    let install = |package: &Path| {
        cardinal_on(&host, &["plugin", "install", package.to_str().unwrap(), "--plugins-dir", &folder])
    };
    let there = || {
        let entries = std::fs::read_dir(&folder).unwrap().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    // One file; the host says where its plugins lie.
    let library = built("libecho.so");
    let (out, _) = exited(&cardinal_on(&host, &["plugin", "install", library.to_str().unwrap()]), 0);
    assert!(out.contains("echo.so") && out.contains("is active"), "{out}");
    assert_eq!(there(), ["echo.so"]);
    host.owner().await.get("/v1/admin/plugins/echo/hello").await.expect(200);
    // A folder takes the file's place, and another folder the folder's.
    for description in ["first", "second"] {
        let package = Package::fixture("echo").manifest(|manifest| manifest["description"] = json!(description));
        let source = PluginsFolder::default().with("elsewhere", &package);
        let (out, _) = exited(&install(&source.path().join("elsewhere")), 0);
        assert!(out.contains("is active"), "{out}");
        assert_eq!(there(), ["echo"]);
        let shown = host.owner().await.get("/v1/admin/plugin-registry/echo").await.expect(200);
        assert_eq!(shown["item"]["description"], description);
    }
    // What is no good does not get there.
    let broken = PluginsFolder::default().with("bad", &Package::fixture("quick").manifest_text("{"));
    let (_, told) = exited(&install(&broken.path().join("bad")), 1);
    assert!(told.contains("bad-manifest"), "{told}");
    assert_eq!(there(), ["echo"]);
    let sql = PluginsFolder::default().with("sql", &Package::fixture("quick").schema("CREATE TABLE x (oops"));
    let (_, told) = exited(&install(&sql.path().join("sql")), 1);
    assert!(told.contains("schema-failed") && told.contains("line 1, column"), "{told}");
    assert_eq!(there(), ["echo"]);
    // What only the host can judge is told by it.
    let sql = PluginsFolder::default().with("sql", &Package::fixture("quick").schema("CREATE TABLE x (a nonsense)"));
    let (out, _) = exited(&install(&sql.path().join("sql")), 1);
    assert!(out.contains("quick 1.0.0 is refused") && out.contains("schema-failed") && out.contains("to do"), "{out}");
}

#[tokio::test]
async fn an_installed_plugin_waits_for_a_host_that_is_stopped() {
    let mut host = Host::settings().plugins(PluginsFolder::default()).start().await;
    host.program().signal(Signal::TERM);
    assert!(host.program().ended().await.success());
    let (folder, library) = (host.plugins().path().to_str().unwrap().to_owned(), built("libecho.so"));
    let install = ["plugin", "install", library.to_str().unwrap(), "--plugins-dir", &folder];
    let (out, _) = exited(&cardinal_on(&host, &install), 0);
    assert!(out.contains("when it starts"), "{out}");
    let host = host.again(|settings| settings).await;
    host.owner().await.get("/v1/admin/plugins/echo/hello").await.expect(200);
}

/// The commands below one, as its help lists them.
fn commands_of(help: &str) -> Vec<&str> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = list.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").collect()
}

#[test]
fn every_command_has_help_with_an_example() {
    let mut waiting = vec![Vec::new()];
    let mut seen = 0;
    while let Some(command) = waiting.pop() {
        let (out, _) = exited(&cardinal(command.iter().map(String::as_str).chain(["--help"])), 0);
        let below = commands_of(&out);
        waiting.extend(below.iter().map(|name| [&command[..], &[(*name).to_owned()]].concat()));
        let example = format!("cardinal {}", command.join(" "));
        let is_shown = out.split_once("Example").is_some_and(|(_, examples)| examples.contains(example.trim()));
        assert!(is_shown || command.is_empty(), "{command:?}: {out}");
        seen += 1;
    }
    assert!(seen > 30, "{seen} commands");
}
