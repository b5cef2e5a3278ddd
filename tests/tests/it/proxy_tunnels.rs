//! WebSockets and other upgraded connections through the proxy.

use std::process::Command;
use std::time::{Duration, Instant};

use cardinal_tests::{Host, Upstream, WebSocketEcho, eventually, exchange, unique};
use futures_util::{SinkExt as _, StreamExt as _};
use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::proxy::{only, proxying};

#[tokio::test]
async fn a_websocket_works_through_the_proxy() {
    let host = proxying().await;
    let url = format!("ws://{}/ws/chat", host.address());
    let (mut socket, answer) = tokio_tungstenite::connect_async(&url).await.unwrap();
    assert!(answer.headers().contains_key("x-request-id"), "{answer:?}");
    for message in [Message::text("first"), Message::binary(vec![7; 1 << 20]), Message::text("")] {
        socket.send(message.clone()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), message);
    }
    socket.close(None).await.unwrap();
    while let Some(Ok(_)) = socket.next().await {}
    eventually("its end is logged", async || host.log().contains("upgraded connection ended").then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browsers_websocket_works_through_the_proxy() {
    let host = proxying().await;
    let script = "const s = new WebSocket(process.argv[1]); s.onopen = () => s.send('from node');\
        s.onmessage = (m) => { console.log(m.data); s.close(); }; s.onerror = (e) => { console.error(e); process.exit(1); };";
    let url = format!("ws://{}/ws/node", host.address());
    // Node.js 20 has it behind a flag that later ones still know.
    let output = Command::new("node").args(["--experimental-websocket", "-e", script, &url]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "from node\n", "{output:?}");
}

#[tokio::test]
async fn a_tunnel_that_stands_still_is_closed() {
    let host = proxying().await;
    let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{}/ws/idle", host.address())).await.unwrap();
    let begun = Instant::now();
    let end = tokio::time::timeout(Duration::from_secs(30), socket.next()).await.expect("it is closed");
    assert!(matches!(end, None | Some(Err(_))), "{end:?}");
    assert!(begun.elapsed() >= Duration::from_secs(2), "closed after {:?}", begun.elapsed());
}

fn upgrade(path: &str, protocol: &str, lines: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n{lines}\r\n")
}

#[tokio::test]
async fn any_protocol_is_tunnelled_that_both_sides_agreed_on() {
    let host = proxying().await;
    let mut stream = TcpStream::connect(host.address()).await.unwrap();
    // The first bytes of the new protocol may come with the request for it.
    let request = upgrade("/kept/x", "odd/1", "X-Script: upgrade\r\n") + "early ";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut heard = String::new();
    while !heard.ends_with("early ") {
        let mut piece = [0; 1024];
        let read = stream.read(&mut piece).await.unwrap();
        assert!(read > 0, "{heard}");
        heard += &String::from_utf8_lossy(&piece[..read]);
    }
    let head = heard.to_lowercase();
    assert!(
        head.starts_with("http/1.1 101 ") && head.contains("upgrade: odd/1\r\n") && head.contains("x-own: 1\r\n"),
        "{heard}"
    );
    stream.write_all(b"late").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "late");
}

#[tokio::test]
async fn no_upgrade_happens_but_what_the_upstream_agreed_to() {
    let host = proxying().await;
    // An upstream that ignores it, protocols that carry HTTP itself, and a body before it: plain requests all.
    for (protocol, lines) in [
        ("odd", ""),
        ("h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"),
        ("TLS/1.0", ""),
        ("odd", "Content-Length: 2\r\n"),
    ] {
        let mark = unique("mark");
        let lines = format!("X-Mark: {mark}\r\nConnection: close\r\n{lines}");
        let heard = exchange(host.address(), upgrade("/kept/x", protocol, &lines) + "ok").await;
        assert!(heard.starts_with("HTTP/1.1 200 "), "{protocol}: {heard}");
        let plain = protocol != "odd" || lines.contains("Content-Length");
        assert_eq!(only(&mark).header("upgrade").is_none(), plain, "{protocol}");
    }
    // An upstream that changes to something else.
    let heard =
        exchange(host.address(), upgrade("/kept/x", "odd", "X-Script: upgrade=other\r\nConnection: close\r\n")).await;
    assert!(heard.starts_with("HTTP/1.1 502 "), "{heard}");
    // Our own paths are not upgraded.
    for path in ["/healthz", "/problems/not-found"] {
        let heard = exchange(host.address(), upgrade(path, "websocket", "Connection: close\r\n")).await;
        assert!(heard.starts_with("HTTP/1.1 200 "), "{heard}");
    }
}

#[tokio::test]
async fn a_stop_lets_requests_finish_and_closes_what_is_idle_and_at_last_tunnels() {
    let up = Upstream::start();
    let routes = format!("/up={},/ws=http://{}", up.url(), WebSocketEcho::shared().address());
    let settings = Host::settings().set("PROXY_ROUTES", routes).set("SHUTDOWN_GRACE_SECONDS", "4");
    let mut host = settings.start().await;
    let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{}/ws/x", host.address())).await.unwrap();
    let mut idle = TcpStream::connect(host.address()).await.unwrap();
    let call = host.client().call(http::Method::GET, "/up/x").header("x-script", "slow=1500").header("x-mark", "slow");
    let slow = tokio::spawn(call.try_send());
    eventually("the slow request is under way", async || (!up.seen("slow").is_empty()).then_some(())).await;
    let begun = Instant::now();
    host.program().signal(Signal::TERM);
    assert_eq!(idle.read(&mut [0; 16]).await.unwrap_or(0), 0);
    assert!(begun.elapsed() < Duration::from_secs(3), "an idle connection was held for {:?}", begun.elapsed());
    assert_eq!(slow.await.unwrap().unwrap().status, 200);
    // The tunnel goes on meanwhile.
    socket.send(Message::text("still here")).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("still here"));
    let end = socket.next().await;
    assert!(matches!(end, None | Some(Err(Error::Protocol(_) | Error::Io(_)))), "{end:?}");
    let took = begun.elapsed();
    assert!((3..20).contains(&took.as_secs()), "the tunnel was closed after {took:?}");
    assert!(host.program().ended().await.success(), "{}", host.log());
}
