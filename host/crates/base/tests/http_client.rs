//! The client that keeps connections, against servers on this machine.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use bytes::Bytes;
use cardinal_base::{
    config::Cidr,
    http_client::{Answer, ConnectError, ExchangeError, HttpClient, PoolingClient, Reach},
};
use http::{Method, Request, header::HOST};
use http_body_util::Full;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, PrivatePkcs8KeyDer},
    },
};
use url::Url;

/// Vouches for itself, as 127.0.0.1. Made for these tests, good for nothing else.
const CERTIFICATE: &[u8] = include_bytes!("tls/self-signed.crt.der");
const KEY: &[u8] = include_bytes!("tls/self-signed.key.der");
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn client(opened: &str) -> PoolingClient {
    let opened: Vec<Cidr> = opened.split_whitespace().map(|network| network.parse().unwrap()).collect();
    PoolingClient::new(HttpClient::plain(), Reach::new(opened))
}

async fn listen() -> (TcpListener, Url) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    (listener, url)
}

async fn send(client: &PoolingClient, url: &Url, method: Method) -> Result<Answer, ExchangeError> {
    let request = Request::builder().method(method).uri("/").header(HOST, url.authority());
    client.send(url, request.body(Full::new(Bytes::new())).unwrap()).await
}

/// The body, read to its end.
async fn whole(mut answer: Answer) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(piece) = answer.body.next().await {
        whole.extend_from_slice(&piece.unwrap());
    }
    whole
}

/// Reads a request without a body; `false` when the other end hangs up instead.
async fn request_has_come(stream: &mut TcpStream) -> bool {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return false,
        }
    }
    true
}

#[tokio::test]
async fn a_connection_is_used_again_for_the_same_server_and_no_other() {
    let client = client("127.0.0.1");
    let ((listener, url), (other_listener, other)) = (listen().await, listen().await);
    let serve = async |listener: TcpListener| {
        let (mut stream, _) = listener.accept().await.unwrap();
        while request_has_come(&mut stream).await {
            stream.write_all(ANSWER).await.unwrap();
        }
    };
    let asking = async {
        let mut reused = Vec::new();
        for url in [&url, &other, &url, &other] {
            let answer = send(&client, url, Method::GET).await.unwrap();
            assert_eq!(answer.address.to_string(), url.authority());
            reused.push(answer.is_reused);
            assert_eq!(whole(answer).await, b"ok");
        }
        drop(client);
        reused
    };
    // Each server takes one connection, and ends when that is closed with its client.
    let (reused, (), ()) = tokio::join!(asking, serve(listener), serve(other_listener));
    assert_eq!(reused, [false, false, true, true]);
}

#[tokio::test]
async fn an_answer_that_is_dropped_closes_its_connection() {
    let ((listener, url), client) = (listen().await, client("127.0.0.1"));
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(request_has_come(&mut stream).await);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nsome").await.unwrap();
        assert!(!request_has_come(&mut stream).await);
    };
    let asking = async {
        let mut answer = send(&client, &url, Method::GET).await.unwrap();
        assert_eq!(answer.body.next().await.unwrap().unwrap(), "some");
    };
    tokio::join!(asking, server);
}

#[tokio::test]
async fn what_a_kept_connection_loses_is_repeated_when_that_is_safe() {
    for (method, is_repeated) in [(Method::GET, true), (Method::DELETE, true), (Method::POST, false)] {
        let ((listener, url), client) = (listen().await, client("127.0.0.1"));
        let server = async {
            let (mut first, _) = listener.accept().await.unwrap();
            assert!(request_has_come(&mut first).await);
            first.write_all(ANSWER).await.unwrap();
            assert!(request_has_come(&mut first).await, "the connection is used again");
            drop(first); // without an answer
            if is_repeated {
                let (mut second, _) = listener.accept().await.unwrap();
                assert!(request_has_come(&mut second).await);
                second.write_all(ANSWER).await.unwrap();
            }
        };
        let asking = async {
            whole(send(&client, &url, Method::GET).await.unwrap()).await;
            let again = send(&client, &url, method.clone()).await;
            assert_eq!(again.is_ok(), is_repeated, "{method}");
            assert!(is_repeated || matches!(again, Err(ExchangeError::Http(_))));
        };
        tokio::join!(asking, server);
    }
}

#[tokio::test]
async fn a_server_out_of_reach_is_not_connected_to() {
    let (listener, url) = listen().await;
    let named = Url::parse(&format!("http://localhost:{}/", url.port().unwrap())).unwrap();
    for url in [&url, &named] {
        let refused = send(&client("10.0.0.0/8 127.0.0.2"), url, Method::GET).await;
        assert!(matches!(refused, Err(ExchangeError::Connect(ConnectError::OutOfReach(_)))));
    }
    // The first connection that comes is one of the test's own.
    let own = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    assert_eq!(listener.accept().await.unwrap().1, own.local_addr().unwrap());
}

/// Asks a server that shows [`CERTIFICATE`]; whether that saw a handshake through, too.
async fn meet(roots: RootCertStore, host: &str) -> (Result<(), ConnectError>, bool) {
    let (listener, url) = listen().await;
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], PrivatePkcs8KeyDer::from(KEY).into());
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let server = async { acceptor.accept(listener.accept().await.unwrap().0).await.is_ok() };
    let address = listener.local_addr().unwrap();
    let url = Url::parse(&format!("https://{host}:{}/", url.port().unwrap())).unwrap();
    let client = HttpClient::with_roots(roots).unwrap();
    let addresses = [address];
    let (connected, seen) = tokio::join!(client.connect_to(&url, &addresses), server);
    (connected.map(drop), seen)
}

#[tokio::test]
async fn a_certificate_that_a_root_vouches_for_is_trusted_for_its_own_name_alone() {
    let roots = || {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(CERTIFICATE)).unwrap();
        roots
    };
    let (trusted, seen) = meet(roots(), "127.0.0.1").await;
    assert!(trusted.is_ok() && seen, "{trusted:?}");
    let (refused, seen) = meet(roots(), "shop.example").await;
    assert!(matches!(&refused, Err(ConnectError::Tls(error)) if error.to_string().contains("not valid for name")));
    assert!(!seen);
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let (refused, seen) = meet(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }, "127.0.0.1").await;
    assert!(matches!(&refused, Err(ConnectError::Tls(error)) if error.to_string().contains("UnknownIssuer")));
    assert!(!seen);
}
