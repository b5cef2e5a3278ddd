//! A request that is answered before its body was read: whoever is still sending gets to read the answer, and the
//! connection goes on.

use std::net::SocketAddr;

use cardinal_tests::{Host, exchange};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use super::proxy::proxying;

/// Far more than the buffers of a connection hold.
const LARGE: usize = 24 << 20;
const PIECE: usize = 1 << 20;
const NO_ID: &str = "00000000-0000-7000-8000-000000000000";

/// Refused credentials are counted by address, which other tests need.
async fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.41.1:0".parse().unwrap()).unwrap();
    socket.connect(address).await.unwrap()
}

/// Sends the whole of a large body before anything is read; what is answered until the connection closes.
async fn answer(address: SocketAddr, head: &str, chunked: bool) -> String {
    let mut stream = connect(address).await;
    let framing = if chunked { "Transfer-Encoding: chunked".to_owned() } else { format!("Content-Length: {LARGE}") };
    let head = format!("{head}Host: localhost\r\nConnection: close\r\n{framing}\r\n\r\n");
    let sent = async {
        stream.write_all(head.as_bytes()).await?;
        let piece = vec![b' '; PIECE];
        for _ in 0..LARGE / PIECE {
            if chunked {
                stream.write_all(format!("{PIECE:x}\r\n").as_bytes()).await?;
            }
            stream.write_all(&piece).await?;
            if chunked {
                stream.write_all(b"\r\n").await?;
            }
        }
        if chunked { stream.write_all(b"0\r\n\r\n").await } else { Ok(()) }
    };
    sent.await.unwrap_or_else(|error| panic!("the body was not taken: {error}; {head}"));
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap_or_else(|error| panic!("no answer: {error}; {head}"));
    heard
}

#[tokio::test]
async fn who_still_sends_reads_the_answer() {
    let host = Host::shared().await;
    let owner = host.owner().await;
    let writer = format!("Authorization: Bearer {}\r\n", owner.key(&["*"]).await.token);
    let reader = format!("Authorization: Bearer {}\r\n", owner.key(&["cards:read"]).await.token);
    let json = "Content-Type: application/json\r\n";
    let import = "POST /v1/admin/master-cards/import";
    let cases = [
        (format!("{import} HTTP/1.1\r\n{json}"), 401),
        (format!("{import} HTTP/1.1\r\n{reader}{json}"), 403),
        (format!("{import} HTTP/1.1\r\n{writer}{json}"), 415),
        (format!("{import}?mode=odd HTTP/1.1\r\n{writer}Content-Type: text/csv\r\n"), 400),
        (format!("POST /v1/admin/master-cards HTTP/1.1\r\n{writer}Content-Type: text/plain\r\n"), 415),
        (format!("POST /v1/admin/master-cards HTTP/1.1\r\n{writer}{json}"), 413),
        (format!("DELETE /v1/admin/master-cards HTTP/1.1\r\n{writer}"), 405),
        (format!("POST /v1/admin/nothing-here HTTP/1.1\r\n{writer}{json}"), 404),
        (format!("POST /v1/admin/plugins/nobody/x HTTP/1.1\r\n{writer}{json}"), 404),
        (format!("POST /v1/admin/plugins/supplier/enrich/{NO_ID} HTTP/1.1\r\n{reader}{json}"), 403),
        (format!("POST /v1/admin/plugin-registry/upload HTTP/1.1\r\n{writer}"), 403),
        (format!("POST /api/mcp HTTP/1.1\r\n{json}"), 401),
        (format!("POST /api/mcp HTTP/1.1\r\n{writer}{json}"), 413),
        ("POST /healthz HTTP/1.1\r\n".to_owned(), 405),
        (format!("GET /v1/admin/auth/me HTTP/1.1\r\n{writer}"), 200),
    ];
    for (head, status) in &cases {
        for chunked in [false, true] {
            let heard = answer(host.address(), head, chunked).await;
            assert!(heard.starts_with(&format!("HTTP/1.1 {status} ")), "chunked: {chunked}, {head}: {heard}");
            assert!(heard.contains("\"request_id\"") || *status == 200, "{heard}");
        }
    }
}

#[tokio::test]
async fn so_it_is_when_an_upstream_cannot_be_reached() {
    let host = proxying().await;
    for chunked in [false, true] {
        let heard = answer(host.address(), "POST /kept/nobody/x HTTP/1.1\r\n", chunked).await;
        assert!(heard.starts_with("HTTP/1.1 502 "), "{heard}");
    }
}

#[tokio::test]
async fn the_connection_goes_on_behind_the_body() {
    let host = Host::shared().await;
    let body = " ".repeat(PIECE);
    let first = format!("POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let second = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let heard = exchange(host.address(), first + second).await;
    assert!(heard.starts_with("HTTP/1.1 405 ") && heard.contains("HTTP/1.1 200 OK"), "{heard}");
}

/// Who waits to be asked for the body is not asked for one that nobody wants, and not kept waiting.
#[tokio::test]
async fn an_unwanted_body_is_not_asked_for() {
    let host = Host::shared().await;
    let lines = "Host: localhost\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n";
    let heard = exchange(host.address(), format!("POST /healthz HTTP/1.1\r\n{lines}")).await;
    assert!(heard.starts_with("HTTP/1.1 405 ") && !heard.contains("100 Continue"), "{heard}");
}
