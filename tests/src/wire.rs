//! Talking to a host below HTTP clients: raw bytes, and WebSockets.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A connection that says nothing more for this long has said everything.
const SAID_ALL: Duration = Duration::from_secs(20);

/// Writes these bytes and reads until the connection is closed.
pub async fn exchange(address: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The host may have closed before it read everything.
    let _ = stream.write_all(bytes.as_ref()).await;
    let mut heard = Vec::new();
    let all = tokio::time::timeout(SAID_ALL, stream.read_to_end(&mut heard)).await;
    assert!(all.is_ok(), "the connection stays open; so far: {}", String::from_utf8_lossy(&heard));
    String::from_utf8_lossy(&heard).into_owned()
}

/// A WebSocket server that sends back what it is sent.
pub struct WebSocketEcho(SocketAddr);

impl WebSocketEcho {
    /// The one that all tests share; it lives as long as the test program.
    pub fn shared() -> &'static WebSocketEcho {
        static SHARED: OnceLock<WebSocketEcho> = OnceLock::new();
        SHARED.get_or_init(|| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            listener.set_nonblocking(true).unwrap();
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(serve(listener));
            });
            WebSocketEcho(address)
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.0
    }
}

async fn serve(listener: std::net::TcpListener) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let Ok(socket) = tokio_tungstenite::accept_async(stream).await else { return };
            let (mut out, mut incoming) = socket.split();
            while let Some(Ok(message)) = incoming.next().await {
                if (message.is_text() || message.is_binary()) && out.send(message).await.is_err() {
                    return;
                }
            }
        });
    }
}
