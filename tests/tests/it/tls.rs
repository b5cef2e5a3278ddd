//! The host's own TLS, asked by curl.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use cardinal_tests::{
    Client, Host, HostSettings, Network, OWNER, OWNER_PASSWORD, Relay, Upstream, cardinal_on, eventually, repository,
    unique,
};
use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// A certificate for 127.0.0.1, and its key, in a folder as an operator would keep them.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new(name: &str) -> Files {
        let files = Files { folder: tempfile::tempdir().unwrap() };
        files.put(name, "crt");
        files.put(name, "key");
        files
    }

    /// Puts one of the pair in the place of what lies there, as certbot does.
    fn put(&self, name: &str, kind: &str) {
        let draft = self.folder.path().join("new");
        fs::copy(known(name, kind), &draft).unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(draft, self.path(kind)).unwrap();
    }

    fn path(&self, kind: &str) -> PathBuf {
        self.folder.path().join(format!("tls.{kind}"))
    }

    fn settings(&self) -> HostSettings {
        self.served_by(Host::settings())
    }

    fn served_by(&self, host: HostSettings) -> HostSettings {
        let text = |kind| self.path(kind).to_str().unwrap().to_owned();
        host.set("TLS_CERT", text("crt")).set("TLS_KEY", text("key"))
    }
}

fn known(name: &str, kind: &str) -> PathBuf {
    repository().join(format!("host/crates/base/tests/tls/{name}.{kind}.pem"))
}

/// The status, the version of HTTP and the body; nothing where there is no connection with `authority`.
fn curl(authority: &Path, arguments: &[&str]) -> Option<(u16, String, Value)> {
    let mut command = Command::new("curl");
    command.args(["-sS", "-m", "60", "-w", "\n%{http_code} %{http_version}", "--cacert"]).arg(authority);
    let output = command.args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, (status, version)) = text.rsplit_once('\n').map(|(body, end)| (body, end.split_once(' ').unwrap()))?;
    output
        .status
        .success()
        .then(|| (status.parse().unwrap(), version.to_owned(), serde_json::from_str(body).unwrap_or(Value::Null)))
}

fn url(host: &Host, path: &str) -> String {
    format!("https://{}{path}", host.address())
}

/// The header of a session, whatever the certificate.
fn sign_in(host: &Host) -> String {
    let login = json!({"username": OWNER, "password": OWNER_PASSWORD}).to_string();
    let said = ["-k", "--json", &login, &url(host, "/v1/admin/auth/login")];
    let (status, version, body) = curl(Path::new("/dev/null"), &said).unwrap();
    assert_eq!((status, &*version), (200, "1.1"), "{body}");
    format!("authorization: Bearer {}", body["access_token"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_served_with_the_certificate_and_nothing_secret_in_clear() {
    let files = Files::new("other");
    let host = files.settings().set("PROXY_ROUTES", format!("/shop={}", Upstream::shared().url())).start().await;
    let authority = known("other", "crt");
    let url = |path: &str| url(&host, path);
    let bearer = sign_in(&host);
    let (status, _, body) = curl(&authority, &["-H", &bearer, &url("/v1/admin/system")]).unwrap();
    let shown = body.to_string();
    assert!(status == 200 && shown.contains("tls.key") && !shown.contains("PRIVATE"), "{body}");
    assert!(curl(&known("self-signed", "crt"), &[&url("/healthz")]).is_none(), "another certificate is trusted there");

    let mark = unique("tls");
    curl(&authority, &["-H", &format!("x-mark: {mark}"), &url("/shop/a")]).unwrap();
    let seen = Upstream::shared().seen(&mark);
    assert_eq!(seen[0].header("x-forwarded-proto"), Some("https"));
    assert!(seen[0].header("forwarded").unwrap().contains("proto=https"));

    // In clear probes are answered, and everybody else hears where to ask.
    let clear = host.client();
    assert_eq!(clear.call(Method::GET, "/healthz").send().await.status, 200);
    let asked = clear.call(Method::POST, "/v1/admin/auth/login").json(&json!({"username": OWNER})).send().await;
    asked.refused(400, "invalid-request");
    assert!(asked.text().contains("https://"), "{asked}");
    for path in ["/", "/api", "/shop/a", "/v1/admin/master-cards", "/metrics"] {
        assert_eq!(clear.call(Method::GET, path).send().await.status, 400, "{path}");
    }
}

/// Where no worker runs yet, since the database does not answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_starting_says_so_with_the_certificate() {
    let (files, authority) = (Files::new("other"), known("other", "crt"));
    let there = Host::settings().start().await;
    let relay = Relay::before(&there).await;
    relay.set(Network::Frozen);
    let mut host = files.served_by(there.beside().set("DATABASE_URL", relay.url(&there))).launch();
    let address = host.until_listening().await;
    let url = |path: &str| format!("https://{address}{path}");
    let (status, version, _) = curl(&authority, &[&url("/healthz")]).unwrap();
    assert_eq!((status, &*version), (200, "1.1"));
    let body = files.folder.path().join("body");
    fs::write(&body, vec![b' '; 4 << 20]).unwrap();
    let posted = format!("@{}", body.display());
    let large = ["--data-binary", &posted, &url("/v1/admin/master-cards")];
    for arguments in [&[&*url("/readyz")][..], &["--http2", &url("/admin/")], &large] {
        let (status, _, body) = curl(&authority, arguments).unwrap();
        assert_eq!((status, &body["code"]), (503, &json!("starting")), "{arguments:?}");
    }
    assert_eq!(Client::new(address).get("/healthz").await.status, 200, "balancers ask in clear, too");
    relay.set(Network::Whole);
    host.until_ready().await;
    assert_eq!(curl(&authority, &[&url("/readyz")]).unwrap().0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_served_without_a_restart() {
    let files = Files::new("self-signed");
    let host = files.settings().start().await;
    let (first, second) = (known("self-signed", "crt"), known("other", "crt"));
    let url = url(&host, "/healthz");
    let worker = host.worker_pid();
    assert!(curl(&first, &[&url]).is_some() && curl(&second, &[&url]).is_none());
    files.put("other", "crt");
    let log = |wanted: &'static str| {
        let (host, first) = (&host, &first);
        let url = url.clone();
        async move {
            eventually(wanted, async || {
                let served = curl(first, &[&url]).is_some();
                host.log().contains(wanted).then_some(served)
            })
            .await
        }
    };
    assert!(log("holds another key").await, "the old one stays in force until the key is there, too");
    files.put("other", "key");
    eventually("the new certificate is served", async || curl(&second, &[&url])).await;
    assert!(curl(&first, &[&url]).is_none());
    assert_eq!(host.worker_pid(), worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_files_take_no_certificate_away_and_nothing_shows_the_key() {
    let files = Files::new("other");
    let host = files.settings().start().await;
    let authority = known("other", "crt");
    let url = url(&host, "/healthz");
    // As a secret store that loses the ends of lines leaves it.
    let key = fs::read_to_string(files.path("key")).unwrap().replace('\n', "");
    fs::write(files.path("key"), &key).unwrap();
    eventually("the damage is in the log", async || {
        assert!(curl(&authority, &[&url]).is_some());
        host.log().contains("holds no private key in PEM").then_some(())
    })
    .await;
    kill_process(Pid::from_raw(host.worker_pid()).unwrap(), Signal::KILL).unwrap();
    eventually("the next worker serves with the certificate", async || curl(&authority, &[&url])).await;
    assert!(host.log().contains("the certificate from before"), "{}", host.log());
    let shown =
        [key[30..60].to_owned(), format!("{}, {}, {}", key.as_bytes()[30], key.as_bytes()[31], key.as_bytes()[32])];
    assert!(!shown.iter().any(|part| host.log().contains(part)), "{}", host.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_certificate_is_seen_by_whoever_looks() {
    const BASE_URL: &str = "https://elsewhere.example.com";
    let files = Files::new("expired");
    let host = files.settings().set("BASE_URL", BASE_URL).set("METRICS_ADDR", "127.0.0.1:0").start().await;
    assert!(host.log().contains("the TLS certificate has expired"), "{}", host.log());

    let bearer = sign_in(&host);
    let running = curl(&files.path("crt"), &["-k", "-H", &bearer, &url(&host, "/v1/admin/system/check")]).unwrap().2;
    let [cert, key] = ["crt", "key"].map(|kind| files.path(kind).to_str().unwrap().to_owned());
    let check = ["check", "--json", "--base-url", BASE_URL, "--tls-cert", &cert, "--tls-key", &key];
    for report in [running, serde_json::from_slice(&cardinal_on(&host, &check).stdout).unwrap()] {
        let find = |code: &str| report["findings"].as_array().unwrap().iter().find(|it| it["code"] == code).unwrap();
        let expired = find("tls-certificate-expired");
        assert!(expired["severity"] == "error" && report["ok"] == false, "{report:#}");
        assert_eq!(expired["found"], "it expired at 2026-04-01T00:00:00Z");
        assert_eq!(find("tls-certificate-name")["found"], BASE_URL);
    }
    let addresses: Value = serde_json::from_slice(&fs::read(host.data().join("addresses.json")).unwrap()).unwrap();
    let metrics = addresses["metrics"].as_str().unwrap().parse().unwrap();
    let expires = async || {
        let page = Client::new(metrics).get("/metrics").await;
        let text = page.text();
        let line = text.lines().find(|line| line.starts_with("cardinal_tls_certificate_expiry_timestamp_seconds "));
        line.unwrap().rsplit(' ').next().unwrap().parse::<i64>().unwrap()
    };
    assert_eq!(expires().await, 1_775_001_600);
    files.put("other", "key");
    files.put("other", "crt");
    eventually("the renewed one is served", async || curl(&known("other", "crt"), &[&url(&host, "/healthz")])).await;
    assert!(expires().await > 4_000_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_signal_of_a_renewal_script_ends_nothing() {
    let files = Files::new("other");
    let host = files.settings().start().await;
    let worker = host.worker_pid();
    for process in [host.supervisor_pid(), worker] {
        kill_process(Pid::from_raw(process).unwrap(), Signal::HUP).unwrap();
    }
    eventually("the log says so", async || host.log().contains("SIGHUP changes nothing").then_some(())).await;
    let url = url(&host, "/healthz");
    assert_eq!(curl(&known("other", "crt"), &[&url]).unwrap().0, 200);
    assert_eq!(host.worker_pid(), worker);
}

#[tokio::test]
async fn what_cannot_be_served_with_is_refused_at_the_start() {
    let files = Files::new("self-signed");
    fs::set_permissions(files.path("key"), fs::Permissions::from_mode(0o644)).unwrap();
    let mut readable = files.settings().launch();
    assert_eq!(readable.program().ended().await.code(), Some(64), "{}", readable.log());
    assert!(readable.log().contains("TLS_KEY") && readable.log().contains("chmod 0600"), "{}", readable.log());
    files.put("other", "key");
    let mut mixed = files.settings().launch();
    assert_eq!(mixed.program().ended().await.code(), Some(64), "{}", mixed.log());
    assert!(mixed.log().contains("holds another key"), "{}", mixed.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_tls_costs_nobody_else_a_connection() {
    let files = Files::new("other");
    let host = files.settings().start().await;
    let mut silent = Vec::new();
    for beginning in
        [&b""[..], b"\x16", b"\x16\x03\x01\xff\xff", b"\x16\x03\x01\x00\x05hello", b"\x80\x2e\x01\x03\x01", &[0; 600]]
    {
        let mut connection = tokio::net::TcpStream::connect(host.address()).await.unwrap();
        connection.write_all(beginning).await.unwrap();
        silent.push(connection);
    }
    let url = url(&host, "/healthz");
    assert_eq!(curl(&known("other", "crt"), &[&url]).unwrap().0, 200);
    // What is no record is answered as HTTP is, and then it is over.
    for index in [3, 4, 5] {
        let mut heard = Vec::new();
        silent[index].read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard.starts_with(b"HTTP/1.1 400 "), index > 3, "{index}: {heard:?}");
    }
}
