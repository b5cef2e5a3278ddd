//! No secret that a run used is found in what it wrote: not in a log line at the most talkative level, not in a file
//! that is not a secret's own, not in the worker's environment or a command line, not in the metrics.

use std::path::{Path, PathBuf};

use cardinal_base::config::Secret;
use cardinal_database::roles::RolePasswords;
use cardinal_tests::{Host, OWNER, OWNER_PASSWORD, Package, PluginsFolder, User, command_line, descendants, unique};
use http::Method;
use serde_json::json;

const ME: &str = "/v1/admin/auth/me";
const TOKEN_SECRET: &str = "the secret that signs the tokens of this run";
/// Files whose content is a secret, below DATA_DIR.
const KEEPERS: [&str; 4] = ["postgres-password", "database-secret", "token-secret", "bootstrap-password"];

/// Secrets by what they are, for the message of a failure; that must not show them either.
#[derive(Default)]
struct Secrets(Vec<(String, String)>);

impl Secrets {
    fn add(&mut self, what: &str, secret: impl Into<String>) -> String {
        let secret = secret.into();
        assert!(secret.len() >= 8, "{what} is too short to be looked for");
        self.0.push((what.to_owned(), secret.clone()));
        secret
    }

    fn found_in(&self, place: &str, text: &str) -> Vec<String> {
        let found = self.0.iter().filter(|(_, secret)| text.contains(secret.as_str()));
        found.map(|(what, _)| format!("{what} in {place}")).collect()
    }
}

#[tokio::test]
async fn nothing_that_a_run_writes_has_a_secret_in_it() {
    let mut secrets = Secrets::default();
    let plugins =
        PluginsFolder::bundled().with("unruly", &Package::fixture("unruly")).with("echo", &Package::fixture("echo"));
    let host = Host::settings()
        .set("LOG_LEVEL", "trace")
        .set("ADMIN_TOKEN_SECRET", secrets.add("the token secret", TOKEN_SECRET))
        .plugins(plugins)
        .start()
        .await;
    secrets.add("the bootstrap password", OWNER_PASSWORD);
    use_everything(&host, &mut secrets).await;
    let roles = host.database().await.query("SELECT rolname FROM pg_roles WHERE rolname LIKE 'cardinal%'", &[]).await;
    let secret = std::fs::read_to_string(host.data().join("database-secret")).unwrap();
    let passwords = RolePasswords::from_secret(Secret::new(secret.trim()));
    for role in roles.unwrap() {
        let role: String = role.get(0);
        secrets.add(&format!("the password of {role}"), passwords.for_role(&role).expose());
    }
    for file in KEEPERS {
        if let Ok(text) = std::fs::read_to_string(host.data().join(file)) {
            secrets.add(file, text.trim());
        }
    }

    let mut found = Vec::new();
    let worker = host.worker_pid();
    for file in ["environ", "cmdline"] {
        // The environment of a process that is closed to others is for root alone.
        let Ok(raw) = std::fs::read(format!("/proc/{worker}/{file}")) else { continue };
        found.extend(secrets.found_in(&format!("the worker's {file}"), &String::from_utf8_lossy(&raw)));
    }
    for (pid, _) in descendants(host.supervisor_pid()).into_iter().chain([(host.supervisor_pid(), String::new())]) {
        found.extend(secrets.found_in("a command line", &command_line(pid)));
    }
    let metrics = host.owner().await.get("/metrics").await;
    found.extend(secrets.found_in("the metrics", &metrics.text()));
    let audit = host.owner().await.get("/v1/admin/audit?limit=200").await;
    found.extend(secrets.found_in("the audit log", &audit.text()));

    // Once more from the start: what a host writes when it ends and begins is written too.
    let host = host.restart(|settings| settings).await;
    let log = host.log();
    assert!(log.contains("\"TRACE\"") || log.contains("\"DEBUG\""), "the log is not talkative");
    found.extend(secrets.found_in("the log", &log));
    for file in files(&host.data()) {
        let name = file.strip_prefix(host.data()).unwrap().display().to_string();
        if KEEPERS.contains(&name.as_str()) {
            continue;
        }
        let text = std::fs::read(&file).unwrap_or_default();
        found.extend(secrets.found_in(&name, &String::from_utf8_lossy(&text)));
    }
    assert!(found.is_empty(), "secrets were found:\n{}", found.join("\n"));
}

/// Every way in and every way to fail, with secrets where they belong and where they do not.
async fn use_everything(host: &Host, secrets: &mut Secrets) {
    let owner = User::log_in(&host.client(), OWNER, OWNER_PASSWORD).await;
    secrets.add("a login token", &*owner.token);
    let made = owner.make_key(json!({"name": "k", "scopes": ["*"]})).await;
    let key = secrets.add("a key", made["key"].as_str().unwrap());
    let path = format!("/v1/admin/api-keys/{}", made["item"]["id"].as_str().unwrap());
    let rotated = owner.post(&format!("{path}/rotate"), &json!({"overlap_seconds": 60})).await.expect(201);
    secrets.add("a rotated key", rotated["key"].as_str().unwrap());
    let first = secrets.add("a user's password", unique("first password"));
    let second = secrets.add("a user's next password", unique("second password"));
    let name = unique("u");
    let user = owner.post("/v1/admin/users", &json!({"username": name, "password": first})).await.expect(201);
    let user_path = format!("/v1/admin/users/{}", user["item"]["id"].as_str().unwrap());
    let session = User::log_in(&host.client(), &name, &first).await;
    let change = json!({"current_password": first, "new_password": second});
    session.post("/v1/admin/auth/password", &change).await.expect(204);
    owner.patch(&user_path, &json!({"password": first})).await.expect(200);

    let by_key = host.client().bearer(&key);
    let wrong = secrets.add("a wrong password", unique("wrong password"));
    let login = "/v1/admin/auth/login";
    let stranger = host.client().from_address([127, 0, 6, 1]);
    stranger.post(login, &json!({"username": name, "password": wrong})).await.refused(401, "invalid-credentials");
    // A password or a key where a name belongs.
    for typed in [&wrong, &key] {
        stranger.post(login, &json!({"username": typed, "password": wrong})).await.refused(401, "invalid-credentials");
    }
    stranger.post(login, &json!({"username": 7, "password": [wrong]})).await.problem();
    stranger
        .call(Method::POST, login)
        .body("application/json", format!("{{\"password\": \"{wrong}\""))
        .send()
        .await
        .problem();
    // A credential where an id or a parameter belongs.
    for path in ["/v1/admin/api-keys/", "/v1/admin/users/", "/v1/admin/plugins/", "/problems/", "/nothing/"] {
        by_key.get(&format!("{path}{key}")).await.problem();
        owner.delete(&format!("{path}{}", owner.token)).await.problem();
    }
    by_key.get(&format!("{ME}?access_token={key}")).await;
    host.client().call(Method::GET, ME).header("cookie", &format!("token={key}")).send().await.problem();
    let forged = secrets.add("a JWT", format!("eyJhbGciOiJFUzM4NCJ9.{}.{}", "c".repeat(40), "s".repeat(128)));
    host.client().bearer(&forged).get(ME).await.problem();
    let other = if key.ends_with('Z') { 'Y' } else { 'Z' };
    let nearly = secrets.add("a mistyped key", format!("{}{other}", &key[..49]));
    host.client().bearer(&nearly).get(ME).await.problem();
    host.client().call(Method::GET, ME).header("authorization", &format!("Basic {wrong}")).send().await.problem();
    // Plugins that look at their request, panic, and fail.
    for path in
        ["/unruly/panic", "/unruly/who", "/echo/request/x", "/echo/teapot", "/supplier/items", "/supplier/preview"]
    {
        by_key.get(&format!("/v1/admin/plugins{path}")).await;
    }
    let tools = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    by_key.call(Method::POST, "/api").json(&tools).header("accept", "application/json, text/event-stream").send().await;
    by_key.delete(&user_path).await;
    by_key.get("/v1/admin/master-cards?limit=1").await.expect(200);
    owner.delete(&path).await.expect(204);
    by_key.get(ME).await.refused(401, "revoked-token");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}
