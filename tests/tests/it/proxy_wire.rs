//! The proxy below HTTP clients: framing, smuggling, and upstreams that break off.

use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use cardinal_tests::{Upstream, eventually, exchange, unique};
use http::Method;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;

use super::proxy::{lane, only, proxying};

/// One raw request to the shared upstream; `lines` are its headers beside `Host` and the mark.
async fn raw(lines: &str, body: &str) -> (String, String) {
    let (host, mark) = (proxying().await, unique("mark"));
    let head = format!("POST /kept/x HTTP/1.1\r\nHost: localhost\r\nX-Mark: {mark}\r\n{lines}\r\n");
    (mark.clone(), exchange(host.address(), format!("{head}{body}")).await)
}

#[tokio::test]
async fn a_body_with_two_lengths_smuggles_nothing() {
    let smuggled = format!("GET /kept/smuggled HTTP/1.1\r\nHost: localhost\r\nX-Mark: {}\r\n\r\n", unique("smuggled"));
    for lines in
        ["Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"]
    {
        let (mark, heard) = raw(lines, &format!("0\r\n\r\n{smuggled}")).await;
        assert!(heard.starts_with("HTTP/1.1 200 ") && heard.matches("HTTP/1.1").count() <= 3, "{heard}");
        let seen = only(&mark);
        assert_eq!((seen.length, seen.all("content-length").len()), (0, 0), "{seen:?}");
        assert_eq!(seen.all("transfer-encoding"), ["chunked"]);
    }
    let at_upstream = Upstream::shared().all_seen();
    assert!(at_upstream.iter().all(|seen| seen.target() != "/kept/smuggled"), "a request was smuggled in");
}

#[tokio::test]
async fn framing_that_can_be_read_in_two_ways_is_refused() {
    for lines in [
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length: -1\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: \x0bchunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "X: a\r\n Transfer-Encoding: chunked\r\n",
        "Host: localhost\r\nContent-Length: 0\r\n",
    ] {
        let (mark, heard) = raw(&format!("{lines}Connection: close\r\n"), "5\r\nhello\r\n0\r\n\r\n").await;
        assert!(heard.starts_with("HTTP/1.1 400 "), "{lines:?}: {heard}");
        assert!(Upstream::shared().seen(&mark).is_empty(), "{lines:?} reached the upstream");
    }
    let (mark, heard) = raw("Transfer-Encoding: chunked\r\nConnection: close\r\n", "zz\r\nhello\r\n0\r\n\r\n").await;
    assert!(!heard.starts_with("HTTP/1.1 2"), "{heard}");
    assert!(Upstream::shared().seen(&mark).is_empty(), "half a body passed for a whole one");
}

#[tokio::test]
async fn a_body_of_unknown_length_arrives_whole_with_any_method() {
    let host = proxying().await;
    for method in [Method::GET, Method::POST, Method::DELETE] {
        let mark = unique("mark");
        let pieces = ["one", "two", "three"].map(|piece| Ok(Frame::data(Bytes::from(piece))));
        let body = StreamBody::new(futures_util::stream::iter(pieces)).boxed();
        let call = host.client().call(method.clone(), "/kept/x").header("x-mark", &mark).stream("text/plain", body);
        call.header("transfer-encoding", "chunked").send().await.expect(200);
        let seen = only(&mark);
        assert_eq!(
            (seen.body.as_slice(), seen.header("transfer-encoding")),
            (&b"onetwothree"[..], Some("chunked")),
            "{method}"
        );
    }
}

#[tokio::test]
async fn trailers_cross_in_both_directions_without_claims() {
    let lines =
        "Transfer-Encoding: chunked\r\nTrailer: X-Sum, X-Forwarded-For\r\nTE: trailers\r\nConnection: close\r\n";
    let (mark, heard) = raw(lines, "2\r\nok\r\n0\r\nX-Sum: 7\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n").await;
    assert!(heard.starts_with("HTTP/1.1 200 "), "{heard}");
    assert_eq!(only(&mark).trailers.iter().map(|line| line.to_lowercase()).collect::<Vec<_>>(), ["x-sum: 7"]);
    let script = "X-Script: raw-kept=HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\nTrailer: X-Sum\\r\\n\\r\\n2\\r\\nok\\r\\n0\\r\\nX-Sum: 8\\r\\n\\r\\n\r\n";
    let (_, heard) = raw(&format!("{script}TE: trailers\r\nConnection: close\r\n"), "").await;
    assert!(heard.to_lowercase().contains("\r\n0\r\nx-sum: 8\r\n\r\n"), "{heard}");
}

#[tokio::test]
async fn every_framing_of_an_answer_is_understood() {
    for (script, body) in [
        (
            "raw-kept=HTTP/1.1 103 Early Hints\\r\\nLink: </x>\\r\\n\\r\\nHTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok",
            "ok",
        ),
        ("raw=HTTP/1.0 200 OK\\r\\n\\r\\nuntil the end", "until the end"),
        (
            "raw-kept=HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\nContent-Length: 99\\r\\n\\r\\n2\\r\\nok\\r\\n0\\r\\n\\r\\n",
            "ok",
        ),
        ("raw-kept=HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nContent-Length: 2\\r\\n\\r\\nok", "ok"),
    ] {
        let host = proxying().await;
        let answer = host.client().call(Method::GET, "/kept/x").header("x-script", script).send().await;
        assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, body), "{script}");
        assert!(answer.headers.get_all("content-length").iter().count() <= 1, "{answer}");
    }
    // An old client gets no chunks.
    let script =
        "X-Script: raw-kept=HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n2\\r\\nok\\r\\n0\\r\\n\\r\\n";
    let host = proxying().await;
    let heard = exchange(host.address(), format!("GET /kept/x HTTP/1.0\r\n{script}\r\n\r\n")).await;
    assert!(heard.starts_with("HTTP/1.0 200") && heard.ends_with("\r\n\r\nok"), "{heard}");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_passed_off_as_whole() {
    for script in [
        "raw=HTTP/1.1 200 OK\\r\\nContent-Length: 100\\r\\n\\r\\npart",
        "raw=HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n4\\r\\npart\\r\\n",
        // And one that stands still: it is given up after PROXY_IDLE_SECONDS.
        "raw-then-wait=HTTP/1.1 200 OK\\r\\nContent-Length: 100\\r\\n\\r\\npart",
    ] {
        let host = proxying().await;
        let answer = host.client().call(Method::GET, "/kept/x").header("x-script", script).try_send().await;
        assert!(answer.is_err(), "{script}: {answer:?}");
        eventually("the log tells it", async || host.log().contains("the upstream aborted its answer").then_some(()))
            .await;
    }
}

/// curl, as it is: status and bytes that it sent and got.
fn curl(arguments: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["-sS", "-o", "/dev/null", "-m", "60", "-w", "%{http_code} %{size_upload} %{size_download}"]);
    let output = command.args(arguments).output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn expect_100_continue_is_the_upstreams_to_answer() {
    let host = proxying().await;
    let url = format!("{}/kept/x", host.url());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![b'x'; 3_000_000]).unwrap();
    let data = format!("@{}", file.path().display());
    for (script, sent) in [("continue", true), ("no-continue", true), ("refuse", false)] {
        let mark = unique("mark");
        let told = curl(&[
            "-H",
            "Expect: 100-continue",
            "--expect100-timeout",
            "20",
            "-H",
            &format!("X-Script: {script}"),
            "-H",
            &format!("X-Mark: {mark}"),
            "--data-binary",
            &data,
            &url,
        ]);
        let seen = Upstream::shared().seen(&mark).pop().unwrap_or_else(|| panic!("{script}: {told}"));
        assert_eq!(seen.header("expect"), Some("100-continue"), "{script}");
        if sent {
            assert!(told.starts_with("200 3000000 "), "{script}: {told}");
            assert_eq!(seen.length, 3_000_000);
        } else {
            assert!(told.starts_with("413 0 "), "{script}: {told}");
        }
    }
}

#[tokio::test]
async fn a_client_that_goes_away_takes_its_request_along() {
    let host = proxying().await;
    let up = lane(0);
    for script in ["silent", "raw-then-wait=HTTP/1.1 200 OK\\r\\nContent-Length: 100\\r\\n\\r\\npart"] {
        let mark = unique("mark");
        let client = host.client();
        let call = client.call(Method::GET, "/lane0/x").header("x-script", script).header("x-mark", &mark);
        let asking = tokio::spawn(call.try_send());
        eventually("the upstream is asked", async || (!up.seen(&mark).is_empty()).then_some(())).await;
        asking.abort();
        eventually("the upstream is let go", async || (up.open() == 0).then_some(())).await;
    }
}

#[tokio::test]
async fn a_kept_connection_that_died_costs_no_request() {
    let host = proxying().await;
    let up = lane(1);
    for _ in 0..20 {
        let call = host.client().call(Method::POST, "/lane1/x").header("x-script", "drop-kept").body("text/plain", "x");
        call.send().await.expect(200);
        eventually("both sides have closed", async || (up.open() + up.held() == 0).then_some(())).await;
    }
    assert_eq!(up.accepted(), 20);
}

#[tokio::test]
async fn what_is_safe_to_repeat_survives_an_upstream_that_hangs_up() {
    for (method, body, status, sent) in [
        (Method::GET, None, 200, 2),
        (Method::HEAD, None, 200, 2),
        (Method::OPTIONS, None, 200, 2),
        (Method::GET, Some("x"), 502, 1),
        (Method::POST, Some("x"), 502, 1),
        (Method::POST, None, 502, 1),
        (Method::DELETE, None, 502, 1),
    ] {
        let (host, up) = (proxying().await, lane(4));
        // The upstream hangs up when it is asked over a connection for the second time. The first time may be over a
        // connection that was not back in time.
        let met = eventually("a kept connection is taken up", async || {
            let mark = unique("mark");
            let call = host.client().call(method.clone(), "/lane4/x").header("x-mark", &mark);
            let call = call.header("x-script", "hang-up-kept");
            let call = if let Some(text) = body { call.body("text/plain", text) } else { call };
            let answer = call.send().await;
            let seen = up.seen(&mark).len();
            (answer.status != 200 || seen != 1).then(|| (answer.status.as_u16(), seen))
        });
        assert_eq!(met.await, (status, sent), "{method} {body:?}");
    }
}

/// A body whose pieces come `pause` apart.
fn trickle(pieces: usize, pause: Duration) -> BoxBody<Bytes, std::io::Error> {
    let pieces = futures_util::stream::unfold(0, move |sent| async move {
        tokio::time::sleep(pause).await;
        (sent < pieces).then(|| (Ok(Frame::data(Bytes::from("piece"))), sent + 1))
    });
    StreamBody::new(Box::pin(pieces)).boxed()
}

#[tokio::test]
async fn a_slow_upload_is_not_taken_for_a_slow_upstream() {
    let host = proxying().await;
    // Longer in all than the upstream may think (2 s), never as long as a body may stand still (4 s).
    let mark = unique("mark");
    let call = host.client().call(Method::POST, "/kept/x").header("x-mark", &mark);
    call.stream("text/plain", trickle(4, Duration::from_millis(600))).send().await.expect(200);
    assert_eq!(only(&mark).length, 20);
    let stuck = host.client().call(Method::POST, "/kept/x").stream("text/plain", trickle(2, Duration::from_secs(30)));
    stuck.send().await.refused(408, "request-timeout");
}
