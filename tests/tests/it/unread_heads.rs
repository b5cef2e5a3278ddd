//! Contract 2: what cannot be read as a request is answered with a problem document, too.

use cardinal_tests::{Client, Host, exchange};
use serde_json::Value;

async fn send(client: &Client, bytes: impl AsRef<[u8]>) -> String {
    exchange(client.address(), bytes).await
}

/// A whole problem document that closes the connection.
#[track_caller]
fn assert_refused(answers: &str, status: u16, code: &str) {
    let last = &answers[answers.rfind("HTTP/1.1 4").unwrap_or_default()..];
    let (head, body) = last.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no whole head: {answers}"));
    let head = head.to_ascii_lowercase();
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")).map(str::to_owned));
    assert!(head.starts_with(&format!("http/1.1 {status} ")), "{answers}");
    assert_eq!(header("content-type").as_deref(), Some("application/problem+json"), "{answers}");
    assert_eq!(header("connection").as_deref(), Some("close"), "{answers}");
    assert_eq!(header("content-length"), Some(body.len().to_string()), "{answers}");
    let problem: Value = serde_json::from_str(body).unwrap();
    assert_eq!((problem["status"].as_u64(), problem["code"].as_str()), (Some(status.into()), Some(code)), "{problem}");
    assert_eq!(problem["request_id"].as_str().map(str::to_owned), header("x-request-id"), "{answers}");
    assert!(!problem["detail"].as_str().unwrap().is_empty());
}

fn with_headers(count: usize) -> String {
    let headers: String = (0..count).map(|n| format!("X-Header-{n}: {n}\r\n")).collect();
    format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
}

#[tokio::test]
async fn what_the_parser_refuses_is_a_problem_with_a_request_id() {
    let host = Host::shared().await;
    let client = host.client();
    for garbage in [
        "GARBAGE\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\u{12}\u{4}\0\0\0\0\0\0\u{3}\0\0\0d\0\u{4}\u{2}\0\0\0\0\u{2}\0\0\0\0",
        "GET /\u{1} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: a\u{0}b\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    ] {
        assert_refused(&send(&client, garbage).await, 400, "invalid-request");
    }
    assert_refused(&send(&client, with_headers(1_000)).await, 431, "headers-too-large");
    for bytes in [10_000, 70_000] {
        let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "x".repeat(bytes));
        assert_refused(&send(&client, long).await, 414, "uri-too-long");
    }
    // Far more than is read: the client sends it all and reads the answer all the same.
    let large = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(2 << 20));
    assert_refused(&send(&client, large).await, 431, "headers-too-large");
}

#[tokio::test]
async fn a_bad_head_is_a_problem_wherever_it_stands_on_its_connection() {
    let host = Host::shared().await;
    let client = host.client();
    let get = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let page = "GET /admin/ HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let head = "HEAD /admin/ HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let json = "Host: localhost\r\nContent-Type: application/json";
    let login = format!("POST /v1/admin/auth/login HTTP/1.1\r\n{json}\r\nContent-Length: 2\r\n\r\n{{}}");
    let chunked = format!(
        "POST /v1/admin/auth/login HTTP/1.1\r\n{json}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n"
    );
    // Its body is not read by any handler.
    let unread = format!("POST /v1/admin/nothing HTTP/1.1\r\n{json}\r\nContent-Length: 2\r\n\r\n{{}}");
    let many = get.repeat(20);
    let places = ["", get, page, head, &login, &chunked, &unread, &many, &format!("{login}{get}")];
    let bad = [
        ("GARBAGE\r\n\r\n", 400, "invalid-request"),
        ("GET / HTTP/9.9\r\n\r\n", 400, "invalid-request"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "invalid-request"),
        ("GET / HTTP/1.1\r\nHost localhost\r\n\r\n", 400, "invalid-request"),
        ("GET / HTTP/1.1\r\nHost: localhost\r\n folded: yes\r\n\r\n", 400, "invalid-request"),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nX: a\u{0}b\r\n\r\n", 400, "invalid-request"),
        ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400, "invalid-request"),
        ("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: odd\r\n\r\n", 400, "invalid-request"),
        ("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\r\n\r\n", 400, "invalid-request"),
        (&with_headers(1_000), 431, "headers-too-large"),
    ];
    for before in places {
        for (head, status, code) in &bad {
            let answers = send(&client, format!("{before}{head}")).await;
            assert_refused(&answers, *status, code);
            let expected = before.matches(" HTTP/1.1\r\n").count() + 1;
            let count = ["HTTP/1.1 2", "HTTP/1.1 4"].map(|begin| answers.matches(begin).count()).iter().sum::<usize>();
            assert_eq!(count, expected, "{before}{head}: {answers}");
        }
    }
}

#[tokio::test]
async fn a_request_may_have_many_headers() {
    let host = Host::shared().await;
    let answer = send(&host.client(), with_headers(200)).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

#[tokio::test]
async fn it_stands_in_the_log() {
    let host = Host::settings().start().await;
    let answer = send(&host.client(), "GARBAGE\r\n\r\n").await;
    let problem: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let id = problem["request_id"].as_str().unwrap().to_owned();
    cardinal_tests::eventually("the log has its line", async || {
        host.log().lines().any(|line| line.contains(&id) && line.contains("invalid-request")).then_some(())
    })
    .await;
}
