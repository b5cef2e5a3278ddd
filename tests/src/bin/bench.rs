//! The figures of README's performance table: requests a second over kept connections, each as a ratio to a bare hyper
//! handler that is measured in the same run with the same client. Absolute figures depend on the machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cardinal_tests::{Federated, Host, HostSettings, Package, PluginsFolder, Program, User, built, eventually};
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

const CONNECTIONS: usize = 32;
const WARM_UP: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(5);
/// Every figure is the best of so many rounds, taken in turns, so that other work on the machine hits all alike.
const ROUNDS: usize = 3;
const REPLY: &str = r#"{"message":"hello","number":42}"#;

/// What is measured: a name, where, and what is sent as credential.
struct Subject {
    name: &'static str,
    address: SocketAddr,
    path: String,
    token: Option<String>,
    best: Figure,
}

#[derive(Default, Clone, Copy)]
struct Figure {
    per_second: f64,
    p50: Duration,
    p99: Duration,
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match std::env::args().nth(1).as_deref() {
        Some("bare") => runtime.block_on(serve_bare()),
        _ => runtime.block_on(measure_all()),
    }
}

async fn measure_all() {
    let folder = tempfile::tempdir().unwrap();
    let (bare, bare_address) = start_bare(folder.path()).await;
    let plugins = PluginsFolder::bundled().with("quick", &Package::fixture("quick"));
    // Rates are limits, not what is measured here.
    let settings = |host: HostSettings| host.plugins(plugins).set("API_KEY_RATE_PER_MINUTE", "100000000");
    let federated = Federated::start(settings).await;
    let host = &federated.host;
    let owner = host.owner().await;
    let key = owner.key(&["cards:read", "plugin:quick:read"]).await;
    let jwt = federated.token("measured", "plugin:*:read").await;
    let mut subjects = subjects(host, bare_address, owner, &key, &jwt).await;
    for _ in 0..ROUNDS {
        for subject in &mut subjects {
            let figure = measure(subject).await;
            if figure.per_second > subject.best.per_second {
                subject.best = figure;
            }
        }
    }
    report(&subjects);
    drop(bare);
}

async fn subjects(host: &Host, bare: SocketAddr, owner: &User, key: &User, jwt: &str) -> Vec<Subject> {
    let card = owner.card("Measured").await;
    let card = format!("/v1/admin/master-cards/{}", card["id"].as_str().unwrap());
    let subject = |name, address, path: &str, token: Option<&str>| Subject {
        name,
        address,
        path: path.to_owned(),
        token: token.map(str::to_owned),
        best: Figure::default(),
    };
    let (owner, key) = (owner.token.as_str(), key.token.as_str());
    let hello = "/v1/admin/plugins/quick/hello";
    vec![
        subject("bare hyper handler", bare, "/", None),
        subject("host: /healthz", host.address(), "/healthz", None),
        subject("plugin route, API key", host.address(), hello, Some(key)),
        subject("plugin route, session", host.address(), hello, Some(owner)),
        subject("plugin route, JWT", host.address(), hello, Some(jwt)),
        subject("plugin route, one database query", host.address(), "/v1/admin/plugins/quick/query", Some(key)),
        subject("one card, API key", host.address(), &card, Some(key)),
        subject("one card, session", host.address(), &card, Some(owner)),
    ]
}

fn report(subjects: &[Subject]) {
    let base = subjects[0].best.per_second;
    println!("| what | requests/s | ratio | median | 99 % |\n|---|--:|--:|--:|--:|");
    for Subject { name, best, .. } in subjects {
        let ratio = best.per_second / base;
        println!("| {name} | {:.0} | {ratio:.2} | {:?} | {:?} |", best.per_second, best.p50, best.p99);
    }
    println!("\n{CONNECTIONS} connections, best of {ROUNDS} rounds of {MEASURED:?}, client on the same machine.");
}

async fn measure(subject: &Subject) -> Figure {
    load(subject, WARM_UP).await;
    let begun = Instant::now();
    let mut taken = load(subject, MEASURED).await;
    let elapsed = begun.elapsed().as_secs_f64();
    taken.sort_unstable();
    let at = |part: f64| taken[((taken.len() - 1) as f64 * part) as usize];
    Figure { per_second: taken.len() as f64 / elapsed, p50: at(0.5), p99: at(0.99) }
}

/// Asks over every connection, one request after the other, and gives how long each took.
async fn load(subject: &Subject, span: Duration) -> Vec<Duration> {
    let until = Instant::now() + span;
    let connections = (0..CONNECTIONS).map(|_| {
        let (address, path, token) = (subject.address, subject.path.clone(), subject.token.clone());
        tokio::spawn(async move {
            let mut sender = connect(address).await;
            let mut taken = Vec::new();
            while Instant::now() < until {
                let begun = Instant::now();
                ask(&mut sender, address, &path, token.as_deref()).await;
                taken.push(begun.elapsed());
            }
            taken
        })
    });
    let taken = futures_util::future::join_all(connections.collect::<Vec<_>>()).await;
    taken.into_iter().flat_map(Result::unwrap).collect()
}

async fn connect(address: SocketAddr) -> SendRequest<Empty<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn ask(sender: &mut SendRequest<Empty<Bytes>>, address: SocketAddr, path: &str, token: Option<&str>) {
    let mut request = Request::get(path).header("host", address.to_string());
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    sender.ready().await.unwrap();
    let answer = sender.send_request(request.body(Empty::new()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    answer.into_body().collect().await.unwrap();
}

/// The same server in a process of its own, as the host is one.
async fn start_bare(folder: &std::path::Path) -> (Program, SocketAddr) {
    let log = folder.join("bare");
    let program = Program::start(&built("bench"), &["bare"], [("LC_ALL", "C")], &log);
    let address = eventually("the bare server listens", async || program.printed().trim().parse().ok()).await;
    (program, address)
}

async fn serve_bare() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    let reply = Arc::new(Bytes::from_static(REPLY.as_bytes()));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let reply = Arc::clone(&reply);
        let handler = service_fn(move |_: Request<Incoming>| {
            let body = Full::new(Bytes::clone(&reply));
            async {
                let answer = Response::builder().header("content-type", "application/json").body(body);
                Ok::<_, Infallible>(answer.unwrap())
            }
        });
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), handler));
    }
}
