//! The proxy under weight: large streams, slow readers, many connections.

use std::time::{Duration, Instant};

use bytes::Bytes;
use cardinal_tests::{Host, Upstream, eventually, unique};

use http::{Method, Request};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::proxy::{lane, only, proxying, proxying_alone};

const MIB: u64 = 1 << 20;
/// What the worker may grow by, whatever goes through it.
const GROWTH: u64 = 48 * MIB;

/// Asks and gives the body unread; the connection works on in the background.
async fn open(host: &Host, path: &str, script: &str) -> Incoming {
    let stream = TcpStream::connect(host.address()).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::builder().uri(path).header("host", "localhost").header("x-script", script);
    let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.into_body()
}

async fn streams_in_constant_memory(mib: u64) {
    let host = proxying_alone().await;
    host.client().get("/kept/x").await.expect(200);
    let before = host.worker_memory("VmHWM");
    let length = mib * MIB;
    for script in [format!("bytes={length}"), format!("chunked-bytes={length}")] {
        let mut body = open(&host, "/kept/x", &script).await;
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            read += frame.unwrap().into_data().map_or(0, |data| data.len() as u64);
        }
        assert_eq!(read, length, "{script}");
    }
    let piece = Bytes::from(vec![b'x'; MIB as usize]);
    let pieces = futures_util::stream::iter((0..mib).map(move |_| Ok(Frame::data(piece.clone()))));
    let mark = unique("mark");
    let call = host.client().call(Method::POST, "/kept/x").header("x-mark", &mark);
    call.stream("application/octet-stream", BodyExt::boxed(StreamBody::new(pieces))).send().await.expect(200);
    assert_eq!(only(&mark).length, length);
    let grown = host.worker_memory("VmHWM").saturating_sub(before);
    assert!(grown < GROWTH, "the worker grew by {} MiB", grown / MIB);
}

#[tokio::test]
async fn large_bodies_pass_in_constant_memory() {
    streams_in_constant_memory(256).await;
}

#[tokio::test]
#[ignore = "long: scripts/test --long"]
async fn very_large_bodies_pass_in_constant_memory() {
    // 10 GiB down in each framing would be more than a client call of the tests waits for an upload.
    streams_in_constant_memory(4 * 1024).await;
}

#[tokio::test]
async fn a_slow_reader_holds_the_upstream_back() {
    let host = proxying().await;
    let (up, length) = (lane(2), 512 * MIB);
    let body = open(&host, "/lane2/x", &format!("bytes={length}")).await;
    // It goes on until the buffers on the way are full, and no further.
    let (mut last, mut since) = (0, Instant::now());
    eventually("the upstream is held back", async || {
        if up.sent() != last {
            (last, since) = (up.sent(), Instant::now());
        }
        (last > 0 && since.elapsed() > Duration::from_millis(700)).then_some(())
    })
    .await;
    assert!(up.sent() < 64 * MIB, "{} MiB were taken from the upstream", up.sent() / MIB);
    assert_eq!(body.size_hint().exact(), Some(length));
    drop(body);
    eventually("the upstream is let go", async || (up.open() == 0).then_some(())).await;
}

/// `clients` at the same time, each asking `each` times over a connection of its own.
async fn ask(host: &Host, path: &'static str, script: &str, clients: usize, each: usize) {
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let (address, script) = (host.address(), script.to_owned());
        asking.spawn(async move {
            let stream = TcpStream::connect(address).await.unwrap();
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            for _ in 0..each {
                let request = Request::builder().uri(path).header("host", "localhost").header("x-script", &script);
                let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
                assert_eq!(answer.status(), 200);
                answer.into_body().collect().await.unwrap();
                sender.ready().await.unwrap();
            }
        });
    }
    asking.join_all().await;
}

#[tokio::test]
async fn hundreds_of_clients_share_kept_connections() {
    const CLIENTS: usize = 300;
    const EACH: usize = 20;
    let host = proxying().await;
    let up = lane(3);
    ask(&host, "/lane3/x", "echo", CLIENTS, EACH).await;
    assert!(up.accepted() <= 2 * CLIENTS, "{} connections for {} requests", up.accepted(), CLIENTS * EACH);
    eventually("none is kept for long", async || (up.open() == 0).then_some(())).await;
}

#[tokio::test]
async fn a_burst_leaves_a_bounded_number_of_connections() {
    const CLIENTS: usize = 700;
    const KEPT: usize = 512;
    let up = Upstream::start();
    let host = Host::settings().set("PROXY_ROUTES", format!("/up={}", up.url())).start().await;
    ask(&host, "/up/x", &format!("together={CLIENTS}"), CLIENTS, 1).await;
    assert_eq!(up.accepted(), CLIENTS);
    eventually("no more are kept", async || (up.open() <= KEPT).then_some(())).await;
}
