//! A pooler before PostgreSQL that lends its connections for one transaction and forgets what was prepared on them, or
//! keeps them for a session; either way it takes no session settings at the start, as PgBouncer doesn't.

use std::{collections::HashMap, io, path::PathBuf, sync::Arc};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixStream},
    sync::{Mutex, Notify},
};

/// Of a message that a test needs; more is not PostgreSQL's.
const MAX_MESSAGE: usize = 64 << 20;
/// What `AuthenticationSASL` and `AuthenticationSASLContinue` begin with; the client answers both.
const ASKS: [u32; 2] = [10, 11];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lends {
    ForTransactions,
    ForSessions,
}

pub struct Pooler {
    port: u16,
}

/// By what a client said at its start: a login's connections are lent to that login alone.
type Pools = Mutex<HashMap<Vec<u8>, Arc<Pool>>>;

#[derive(Default)]
struct Pool {
    /// The one that came back last is lent first.
    free: Mutex<Vec<UnixStream>>,
    returned: Notify,
}

impl Pooler {
    /// Stands before the server that listens in this folder, for as long as the test runs.
    pub async fn before(sockets: PathBuf, lends: Lends) -> Pooler {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let pools = Arc::new(Pools::default());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, pools) = (sockets.join(".s.PGSQL.5432"), Arc::clone(&pools));
                // Whoever hangs up has had enough.
                tokio::spawn(async move { drop(serve(client, server, &pools, lends).await) });
            }
        });
        Pooler { port }
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

async fn serve(mut client: TcpStream, server: PathBuf, pools: &Pools, lends: Lends) -> io::Result<()> {
    let startup = body(&mut client).await?;
    if startup.windows(9).any(|name| name == b"\0options\0") {
        let refusal = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0";
        return write(&mut client, b'E', refusal).await;
    }
    let mut own = UnixStream::connect(server).await?;
    own.write_all(&u32::try_from(startup.len() + 4).map_err(io::Error::other)?.to_be_bytes()).await?;
    own.write_all(&startup).await?;
    log_in(&mut client, &mut own).await?;
    let pool = Arc::clone(pools.lock().await.entry(startup).or_default());
    let mut held = match lends {
        Lends::ForSessions => Some(own),
        Lends::ForTransactions => {
            pool.put(own).await;
            None
        }
    };
    loop {
        let (kind, message) = read(&mut client).await?;
        if kind == b'X' {
            return Ok(());
        }
        let mut server = match held.take() {
            Some(server) => server,
            None => pool.take().await,
        };
        write(&mut server, kind, &message).await?;
        // A query or a Sync is answered up to the next state; what comes before is only sent on.
        let idle = matches!(kind, b'Q' | b'S') && answer(&mut server, &mut client).await? == b'I';
        if idle && lends == Lends::ForTransactions {
            pool.put(server).await;
        } else {
            held = Some(server);
        }
    }
}

/// Passes on what both say until the server is ready.
async fn log_in(client: &mut TcpStream, server: &mut UnixStream) -> io::Result<()> {
    loop {
        let (kind, message) = read(server).await?;
        write(client, kind, &message).await?;
        let asks =
            kind == b'R' && message.len() >= 4 && ASKS.iter().any(|code| message.starts_with(&code.to_be_bytes()));
        if asks {
            let (kind, message) = read(client).await?;
            write(server, kind, &message).await?;
        }
        if kind == b'Z' {
            return Ok(());
        }
    }
}

/// Passes on an answer; gives the state that the session is in afterwards.
async fn answer(server: &mut UnixStream, client: &mut TcpStream) -> io::Result<u8> {
    loop {
        let (kind, message) = read(server).await?;
        write(client, kind, &message).await?;
        if kind == b'Z' {
            return Ok(message.first().copied().unwrap_or_default());
        }
    }
}

impl Pool {
    async fn put(&self, server: UnixStream) {
        self.free.lock().await.push(server);
        self.returned.notify_one();
    }

    async fn take(&self) -> UnixStream {
        loop {
            let returned = self.returned.notified();
            if let Some(server) = self.free.lock().await.pop() {
                return server;
            }
            returned.await;
        }
    }
}

async fn read(from: &mut (impl tokio::io::AsyncRead + Unpin)) -> io::Result<(u8, Vec<u8>)> {
    let kind = from.read_u8().await?;
    Ok((kind, body(from).await?))
}

async fn body(from: &mut (impl tokio::io::AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = from.read_u32().await? as usize;
    let mut body =
        vec![0; length.checked_sub(4).filter(|length| *length <= MAX_MESSAGE).ok_or(io::ErrorKind::InvalidData)?];
    from.read_exact(&mut body).await?;
    Ok(body)
}

async fn write(to: &mut (impl tokio::io::AsyncWrite + Unpin), kind: u8, body: &[u8]) -> io::Result<()> {
    let mut message = vec![kind];
    message.extend(u32::try_from(body.len() + 4).map_err(io::Error::other)?.to_be_bytes());
    message.extend(body);
    to.write_all(&message).await
}
