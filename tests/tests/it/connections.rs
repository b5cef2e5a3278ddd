//! Who holds a listener's places: one address must not keep others, or a prober, from being answered.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cardinal_tests::{Host, eventually};
use futures_util::future::join_all;
use http::Method;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// As the host has it, `crates/serve/src/server/connections.rs`.
const PER_ADDRESS: usize = 2_000;
/// What an attacker wants.
const FLOOD: usize = 10_000;
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// A probe's time, of most of them; the slowest ones say more of the machine that tests.
const PROBE: Duration = Duration::from_millis(100);
const PROBE_PAUSE: Duration = Duration::from_millis(20);
/// Without the connection: while ten thousand are being opened beside busy tests the system may have no room for one,
/// and then it asks again after 1 and 3 s, whatever the host does.
const SLOWEST_PROBE: Duration = Duration::from_secs(3);

/// The flood and its prober are one process here.
fn raise_file_limit() {
    let given = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: given.maximum, ..given }).unwrap();
}

async fn connect(from: IpAddr, to: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(from, 0)).ok()?;
    socket.connect(to).await.ok()
}

/// Opens many connections that ask nothing; every third has begun to.
async fn flood(to: SocketAddr, count: usize) -> Vec<TcpStream> {
    let some = async |part: usize| {
        let mut opened = Vec::new();
        for i in 0..count / 10 {
            let Some(mut stream) = connect(HERE, to).await else { continue };
            if (i + part).is_multiple_of(3) {
                let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").await;
            }
            opened.push(stream);
        }
        opened
    };
    join_all((0..10).map(some)).await.into_iter().flatten().collect()
}

fn is_open(stream: &TcpStream) -> bool {
    let mut byte = [0];
    matches!(stream.try_read(&mut byte), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

/// What a prober waits for: the answer, with its connection and without.
struct Probe {
    whole: Duration,
    answer: Duration,
}

async fn probe(from: IpAddr, to: SocketAddr) -> Probe {
    let begun = Instant::now();
    let mut stream = connect(from, to).await.unwrap();
    let connected = Instant::now();
    assert!(is_answered(&mut stream, 0).await, "a prober's connection was closed");
    Probe { whole: begun.elapsed(), answer: connected.elapsed() }
}

/// A client that keeps its connection and asks again and again; gives how often it was answered. As every client of HTTP
/// does (RFC 9110, 9.2.2), it asks once more where a kept connection was closed before a byte of the answer: a request may
/// be on its way when its connection is closed for having been idle.
async fn keep_asking(to: SocketAddr, stop: Arc<AtomicBool>, pause: Duration) -> usize {
    let mut stream = connect(HERE, to).await.unwrap();
    let mut answered = 0;
    while !stop.load(Ordering::Relaxed) {
        if !is_answered(&mut stream, answered).await {
            stream = connect(HERE, to).await.unwrap();
            assert!(is_answered(&mut stream, answered).await, "a request was lost after {answered}");
        }
        answered += 1;
        tokio::time::sleep(pause).await;
    }
    answered
}

/// Whether the answer came whole; not so when the connection was closed before it began.
async fn is_answered(stream: &mut TcpStream, before: usize) -> bool {
    if stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").await.is_err() {
        return false;
    }
    let mut heard = Vec::new();
    while !heard.ends_with(b"ok\n") {
        let read = stream.read_buf(&mut heard).await.unwrap_or_default();
        if read == 0 {
            assert!(heard.is_empty(), "an answer was cut after {before}: {}", String::from_utf8_lossy(&heard));
            return false;
        }
    }
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_with_ten_thousand_idle_connections_holds_nobody_up() {
    raise_file_limit();
    let host = Host::settings().start().await;
    let to = host.address();
    let stop = Arc::new(AtomicBool::new(false));
    let pauses = [0, 1, 5, 20, 50].map(Duration::from_millis);
    let behaved = pauses.map(|pause| tokio::spawn(keep_asking(to, Arc::clone(&stop), pause)));
    let flooding = tokio::spawn(flood(to, FLOOD));
    let probers = [HERE, IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))];
    let mut probes = Vec::new();
    while !flooding.is_finished() || probes.len() < 100 {
        for prober in probers {
            probes.push(probe(prober, to).await);
        }
        // Each probe takes a port for a minute, and the flood needs them.
        tokio::time::sleep(PROBE_PAUSE).await;
    }
    let held = flooding.await.unwrap();
    assert!(held.len() > FLOOD * 9 / 10, "the attacker opened {} connections", held.len());
    for prober in probers {
        probes.push(probe(prober, to).await);
    }
    stop.store(true, Ordering::Relaxed);
    for client in behaved {
        assert!(client.await.unwrap() > 0);
    }
    let mut whole: Vec<Duration> = probes.iter().map(|probe| probe.whole).collect();
    whole.sort_unstable();
    let (median, slowest) = (whole[whole.len() / 2], probes.iter().map(|probe| probe.answer).max().unwrap());
    println!("{} probes, median {median:?}, slowest answer {slowest:?}", probes.len());
    assert!(median < PROBE && slowest < SLOWEST_PROBE, "median {median:?}, slowest {slowest:?}");
    let open = eventually("the address is down to its share", async || {
        let open = held.iter().filter(|stream| is_open(stream)).count();
        (open <= PER_ADDRESS).then_some(open)
    });
    assert!(open.await > PER_ADDRESS / 2, "no more were closed than had to be");
    assert!(host.log().contains("an address opens more connections than its share"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_cut_for_a_connection_and_probes_are_answered_beside_them() {
    raise_file_limit();
    let host = Host::settings().start().await;
    let client = host.owner().await.unlimited().await;
    let body = r#"{"title": "Whole", "sku": "WHOLE-1"}"#;
    let head = format!(
        "POST /v1/admin/master-cards HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{{",
        host.address(),
        client.token(),
        body.len()
    );
    let mut under_way = Vec::new();
    while under_way.len() < PER_ADDRESS {
        let mut stream = connect(HERE, host.address()).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        under_way.push(stream);
    }
    // Until the last head was read, a connection with it is idle.
    let refused = eventually("all connections of the address have a request under way", async || {
        let answer = client.get("/v1/admin/auth/me").await;
        (answer.status == 429).then_some(answer)
    })
    .await;
    refused.refused(429, "rate-limited");
    assert_eq!((refused.header("connection"), refused.header("retry-after")), (Some("close"), Some("1")), "{refused}");
    assert_eq!(host.client().get("/healthz").await.text(), "ok\n");
    assert_eq!(host.client().get("/readyz").await.text(), "ready\n");
    client.from_address([127, 0, 0, 2]).get("/v1/admin/auth/me").await.expect(200);

    let open = under_way.iter().filter(|stream| is_open(stream)).count();
    assert!(open >= PER_ADDRESS - 1, "{} were cut", PER_ADDRESS - open);
    let last = under_way.last_mut().unwrap();
    last.write_all(&body.as_bytes()[1..]).await.unwrap();
    let mut heard = vec![0; 12];
    last.read_exact(&mut heard).await.unwrap();
    assert_eq!(String::from_utf8(heard).unwrap(), "HTTP/1.1 201");
    // It is idle now and makes room.
    eventually("the address is served again", async || {
        (client.call(Method::GET, "/v1/admin/auth/me").send().await.status == 200).then_some(())
    })
    .await;
}
