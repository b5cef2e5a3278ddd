//! Requests of plugins to other servers, over the host's connections: against servers that answer, wait, break off and
//! never end.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use cardinal_tests::{Answer, Host, HostSettings, Package, PluginsFolder, PortReservation, eventually};
use http::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
};

const ASK: &str = "/v1/admin/plugins/echo/ask";
/// What the host lets one plugin have under way.
const MAX_EXCHANGES: usize = 32;

/// A server that counts what happens to it.
struct Site {
    port: u16,
    seen: Arc<Seen>,
}

struct Seen {
    connections: AtomicUsize,
    open: AtomicUsize,
    requests: AtomicUsize,
    /// Requests for `/gate` that wait, and the most that ever did.
    waiting: AtomicUsize,
    peak: AtomicUsize,
    gate: watch::Sender<bool>,
    /// Requests for `/slow` that have come.
    slow: watch::Sender<usize>,
}

impl Site {
    async fn start() -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let count = AtomicUsize::default;
        let (gate, slow) = (watch::channel(false).0, watch::channel(0).0);
        let (connections, open, requests, waiting, peak) = (count(), count(), count(), count(), count());
        let seen = Arc::new(Seen { connections, open, requests, waiting, peak, gate, slow });
        let shared = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                shared.open.fetch_add(1, Ordering::SeqCst);
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    let _ = shared.serve(stream).await;
                    shared.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Site { port, seen }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    fn requests(&self) -> usize {
        self.seen.requests.load(Ordering::SeqCst)
    }

    /// Waits until the host has closed every connection but those.
    async fn until_open(&self, count: usize) {
        eventually("connections are closed", async || (self.seen.open.load(Ordering::SeqCst) == count).then_some(()))
            .await;
    }
}

impl Seen {
    /// Serves one request after another; an error when the other end hangs up.
    async fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let (reader, mut writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head).await? == 0 {
                    return Ok(());
                }
            }
            self.requests.fetch_add(1, Ordering::SeqCst);
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body).await?;
            let whole = |text: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len());
            let answer = match head.split(' ').nth(1).unwrap_or_default() {
                "/redirect" => "HTTP/1.1 302 Found\r\nlocation: /hello\r\ncontent-length: 0\r\n\r\n".to_owned(),
                "/large" => whole(&"x".repeat(100_000)),
                "/large-unannounced" => {
                    format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}", "x".repeat(100_000))
                }
                "/broken" => "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nten bytes.".to_owned(),
                "/nonsense" => "220 smtp.example ESMTP\r\n".to_owned(),
                "/wide" => format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(200_000)),
                "/slow" => {
                    self.slow.send_modify(|count| *count += 1);
                    // Until the other end hangs up.
                    return reader.read_u8().await.map(drop);
                }
                "/asked" => {
                    let _ = self.slow.subscribe().wait_for(|count| *count > 0).await;
                    whole("it has come")
                }
                "/gate" => {
                    let waiting = self.waiting.fetch_add(1, Ordering::SeqCst) + 1;
                    self.peak.fetch_max(waiting, Ordering::SeqCst);
                    let _ = self.gate.subscribe().wait_for(|open| *open).await;
                    self.waiting.fetch_sub(1, Ordering::SeqCst);
                    whole("open")
                }
                "/endless" => {
                    writer.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
                    loop {
                        writer.write_all(b"400\r\n").await?;
                        writer.write_all(&[b'.'; 1024]).await?;
                        writer.write_all(b"\r\n").await?;
                    }
                }
                _ => whole(&format!("{head}{}", String::from_utf8_lossy(&body))),
            };
            writer.write_all(answer.as_bytes()).await?;
            if answer.contains("connection: close") || !answer.contains("content-length") || answer.ends_with("bytes.")
            {
                return Ok(());
            }
        }
    }
}

fn with_echo() -> HostSettings {
    Host::settings().plugins(PluginsFolder::default().with("echo", &Package::fixture("echo")))
}

/// A host whose plugin `echo` may reach the sites of these tests.
async fn open_host() -> Host {
    with_echo().set("PLUGIN_NETWORKS", "echo=127.0.0.1").start().await
}

async fn ask(host: &Host, what: Value) -> Value {
    host.owner().await.post(ASK, &what).await.expect(200)
}

/// The samples of a metric of the plugin's, by their other label.
async fn counted(host: &Host, metric: &str) -> BTreeMap<String, u64> {
    let page: Answer = host.owner().await.get("/metrics").await;
    let prefix = format!("{metric}{{plugin=\"echo\"");
    let lines = page.text();
    let samples = lines.lines().filter_map(|line| line.strip_prefix(&prefix)?.rsplit_once(' '));
    samples
        .map(|(label, count)| (label.split('"').nth(1).unwrap_or_default().to_owned(), count.parse().unwrap()))
        .collect()
}

#[tokio::test]
async fn answers_come_whole_over_one_connection_with_the_calls_trace() {
    let (host, site) = (open_host().await, Site::start().await);
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let first = json!({"url": site.url("/hello?x=1"), "headers": [["x-own", "7"]]});
    let call = host.owner().await.call(Method::POST, ASK).header("traceparent", trace).json(&first);
    let answer = call.send().await.expect(200);
    assert_eq!((&answer["status"], &answer["address"]), (&json!(200), &json!(format!("127.0.0.1:{}", site.port))));
    let head = answer["body"].as_str().unwrap();
    assert!(head.starts_with("GET /hello?x=1 HTTP/1.1\r\n") && head.contains("\r\nx-own: 7\r\n"), "{head}");
    assert!(head.contains("\r\nuser-agent: echo/1.0.0 cardinal/"), "{head}");
    assert!(head.contains(&format!("\r\nhost: 127.0.0.1:{}\r\n", site.port)), "{head}");
    let parent = head.lines().find_map(|line| line.strip_prefix("traceparent: ")).unwrap();
    assert!(
        parent.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && !parent.contains("00f067aa0ba902b7"),
        "{parent}"
    );

    let posted = json!({"url": site.url("/hello"), "method": "POST", "body": "some text",
        "headers": [["user-agent", "mine"]]});
    let head = ask(&host, posted).await["body"].as_str().unwrap().to_owned();
    assert!(head.starts_with("POST ") && head.ends_with("\r\n\r\nsome text"), "{head}");
    assert!(head.contains("user-agent: mine") && !head.contains("cardinal/"), "{head}");

    let redirect = ask(&host, json!({"url": site.url("/redirect")})).await;
    assert_eq!((&redirect["status"], &redirect["location"]), (&json!(302), &json!("/hello")));
    assert_eq!((site.connections(), site.requests()), (1, 3), "one connection for all, and no redirect is followed");
    let connections = counted(&host, "cardinal_plugin_http_connections_total").await;
    assert_eq!((connections["opened"], connections["reused"]), (1, 2), "{connections:?}");
    site.until_open(0).await;
    let streamed = host.owner().await.post(&format!("{ASK}/whole"), &json!({"url": site.url("/large")})).await;
    assert_eq!((streamed.status.as_u16(), streamed.body.len()), (200, 100_000));
}

#[tokio::test]
async fn failures_have_kinds_and_clients_hear_nothing_of_the_other_server() {
    let (host, site) = (open_host().await, Site::start().await);
    let reservation = PortReservation::start();
    let closed = reservation.address();
    let https = site.url("/hello").replace("http:", "https:");
    for (what, kind) in [
        (json!({"url": site.url("/slow"), "timeout_ms": 300}), "timed-out"),
        (json!({"url": site.url("/endless"), "timeout_ms": 10_000, "max_bytes": 1_000_000}), "too-large"),
        (json!({"url": site.url("/large"), "max_bytes": 99_999}), "too-large"),
        (json!({"url": site.url("/large-unannounced"), "max_bytes": 99_999}), "too-large"),
        (json!({"url": site.url("/broken")}), "broken-off"),
        (json!({"url": site.url("/nonsense")}), "broken-off"),
        (json!({"url": site.url("/wide")}), "broken-off"),
        (json!({"url": format!("http://{closed}/")}), "connect"),
        (json!({"url": https, "timeout_ms": 5_000}), "tls"),
        (json!({"url": "http://no-such-name.invalid/"}), "name-not-found"),
        (json!({"url": "http://169.254.169.254/latest/meta-data/"}), "address-refused"),
        (json!({"url": "http://10.1.2.3/"}), "address-refused"),
    ] {
        let answer = ask(&host, what.clone()).await;
        assert_eq!(answer["failure"], kind, "{what}: {answer}");
    }
    site.until_open(0).await;
    let exact = ask(&host, json!({"url": site.url("/large"), "max_bytes": 100_000})).await;
    assert_eq!(exact["body"].as_str().map(str::len), Some(100_000));
    let outcomes = counted(&host, "cardinal_plugin_http_requests_total").await;
    assert_eq!((outcomes["too-large"], outcomes["broken-off"], outcomes["answered"]), (3, 3, 1), "{outcomes:?}");

    let pass = format!("{ASK}/pass");
    let owner = host.owner().await;
    let slow = json!({"url": site.url("/slow"), "timeout_ms": 300});
    for (what, status, code) in
        [(slow, 504, "upstream-timeout"), (json!({"url": format!("http://{closed}/")}), 502, "upstream-error")]
    {
        let problem = owner.post(&pass, &what).await.refused(status, code);
        assert!(!problem["detail"].to_string().contains("127.0.0.1"), "{problem}");
    }
}

#[tokio::test]
async fn what_the_operator_has_not_opened_is_not_even_connected_to() {
    let settings = with_echo().set("PLUGIN_NETWORKS", "10.0.0.0/8,ehco=127.0.0.1");
    let (host, site) = (settings.start().await, Site::start().await);
    let warning = "PLUGIN_NETWORKS names the plugin `ehco`, which is not in PLUGINS_DIR. Did you mean `echo`?";
    eventually("the log has the warning", async || host.log().contains(warning).then_some(())).await;
    for server in ["127.0.0.1", "localhost", "127.1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0"]
    {
        let answer = ask(&host, json!({"url": format!("http://{server}:{}/hello", site.port)})).await;
        assert_eq!(answer["failure"], "address-refused", "{server}: {answer}");
    }
    assert_eq!(site.connections(), 0);
}

#[tokio::test]
async fn a_request_that_is_none_is_refused_before_it_goes_anywhere() {
    let (host, site) = (open_host().await, Site::start().await);
    let url = site.url("/hello");
    let with = |name: &str, value: &str| json!({"url": url, "headers": [[name, value]]});
    let with_password = format!("http://user:secret@127.0.0.1:{}/", site.port);
    for (url, told) in [
        ("file:///etc/passwd", "must begin with https:// or http://, not with file:"),
        ("ftp://x", "not with ftp:"),
        ("not a url", "must begin with https:// or http://."),
        ("http://", "is not valid: empty host"),
        (&with_password, "must not have a user name or a password"),
    ] {
        let answer = ask(&host, json!({"url": url})).await;
        assert_eq!(answer["failure"], "invalid-url", "{url}: {answer}");
        let problem = host.owner().await.post(&format!("{ASK}/pass"), &json!({"url": url})).await;
        let problem = problem.refused(422, "validation-failed");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(told) && !detail.contains("secret"), "{url}: {detail}");
    }
    for what in [
        json!({"url": url, "method": "CONNECT"}),
        json!({"url": url, "timeout_ms": 3_600_000}),
        with("host", "other.example"),
        with("content-length", "3"),
        with("transfer-encoding", "chunked"),
        with("connection", "upgrade"),
        with("x", "a\r\nhost: other.example"),
        with("x\r\ny", "z"),
    ] {
        let answer = ask(&host, what.clone()).await;
        assert_eq!(answer["failure"], "none", "{what}: {answer}");
        assert!(!answer["message"].as_str().unwrap().contains("secret"), "{answer}");
    }
    assert_eq!(site.connections(), 0);
}

#[tokio::test]
async fn a_plugin_has_32_requests_under_way_and_others_wait() {
    let (host, site) = (open_host().await, Site::start().await);
    let asked = json!({"url": site.url("/gate"), "times": 40, "timeout_ms": 25_000});
    let call = host.owner().await.call(Method::POST, &format!("{ASK}/many")).json(&asked);
    let call = tokio::spawn(async move { call.send().await });
    eventually("the places are taken", async || {
        (site.seen.waiting.load(Ordering::SeqCst) == MAX_EXCHANGES).then_some(())
    })
    .await;
    let in_flight = counted(&host, "cardinal_plugin_http_requests_in_flight").await;
    assert_eq!(in_flight.values().copied().collect::<Vec<_>>(), [MAX_EXCHANGES as u64]);
    site.seen.gate.send_replace(true);
    assert_eq!(call.await.unwrap().expect(200), json!(vec![200; 40]));
    assert_eq!(site.seen.peak.load(Ordering::SeqCst), MAX_EXCHANGES);
}

#[tokio::test]
async fn dropping_a_request_and_ending_its_call_close_the_connection() {
    let (host, site) = (open_host().await, Site::start().await);
    let owner = host.owner().await;
    let dropped = owner.post(&format!("{ASK}/drop"), &json!({"url": site.url("")})).await.expect(200);
    assert_eq!(dropped, json!({"dropped": 200}));
    site.until_open(0).await;
    // The answer is leaked; it ends with its call.
    let kept = owner.post(&format!("{ASK}/keep"), &json!({"url": site.url("/endless")})).await.expect(200);
    assert_eq!(kept, json!({"status": 200}));
    site.until_open(0).await;
    // A client that hangs up takes the request with it.
    let call = owner.call(Method::POST, ASK).json(&json!({"url": site.url("/slow"), "timeout_ms": 600_000}));
    let mut slow = site.seen.slow.subscribe();
    tokio::select! {
        answer = call.send() => panic!("nobody answered this: {answer}"),
        _ = slow.wait_for(|count| *count == 2) => {}
    }
    site.until_open(0).await;
    let outcomes = counted(&host, "cardinal_plugin_http_requests_total").await;
    assert_eq!(outcomes["cancelled"], 3, "{outcomes:?}");
}

#[tokio::test]
async fn a_plugin_that_leaks_an_answer_is_unloaded_and_its_connection_closed() {
    let (host, site) = (open_host().await, Site::start().await);
    let owner = host.owner().await;
    let leaked = json!({"url": site.url("/endless"), "own": true, "timeout_ms": 600_000});
    owner.post(&format!("{ASK}/keep"), &leaked).await.expect(200);
    // It outlives its call: another call is answered while it is open.
    ask(&host, json!({"url": site.url("/hello")})).await;
    assert!(site.seen.open.load(Ordering::SeqCst) >= 1);
    owner.post("/v1/admin/plugin-registry/echo/disable", &json!({})).await.expect(200);
    site.until_open(0).await;
    eventually("the instance's memory is given back", async || {
        let page = owner.get("/metrics").await.text();
        page.lines().any(|line| line == "cardinal_plugin_instances_resident 0").then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_nobody_reads_ends_with_its_time() {
    let (host, site) = (open_host().await, Site::start().await);
    let leaked = json!({"url": site.url("/endless"), "own": true, "timeout_ms": 400});
    host.owner().await.post(&format!("{ASK}/keep"), &leaked).await.expect(200);
    site.until_open(0).await;
    let outcomes = counted(&host, "cardinal_plugin_http_requests_total").await;
    assert_eq!(outcomes["timed-out"], 1, "{outcomes:?}");
}
