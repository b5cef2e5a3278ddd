//! A network between a host and its database that can be cut.

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, UnixStream},
    sync::watch,
};

use crate::Host;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    Whole,
    /// Nothing passes, and no connection is closed.
    Frozen,
    /// Connections are closed, and new ones too.
    Cut,
}

/// Stands before the PostgreSQL of a host, for as long as the test runs.
pub struct Relay {
    port: u16,
    network: watch::Sender<Network>,
}

impl Relay {
    pub async fn before(host: &Host) -> Relay {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (port, network) = (listener.local_addr().unwrap().port(), watch::Sender::new(Network::Whole));
        let (server, changes) = (host.data().join("pg/run/.s.PGSQL.5432"), network.subscribe());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, mut changes) = (server.clone(), changes.clone());
                tokio::spawn(async move {
                    if !passes(&mut changes).await {
                        return;
                    }
                    let Ok(server) = UnixStream::connect(server).await else { return };
                    let ((from_client, to_client), (from_server, to_server)) =
                        (client.into_split(), server.into_split());
                    // When one way ends, both do.
                    tokio::select! {
                        () = pass(from_client, to_server, changes.clone()) => {}
                        () = pass(from_server, to_client, changes) => {}
                    }
                });
            }
        });
        Relay { port, network }
    }

    /// `DATABASE_URL` of the host's administrator by this way.
    pub fn url(&self, host: &Host) -> String {
        let url = host.database_url();
        let (login, rest) = url.split_once('@').unwrap();
        format!("{login}@127.0.0.1:{}/{}", self.port, rest.rsplit('/').next().unwrap())
    }

    pub fn set(&self, network: Network) {
        self.network.send_replace(network);
    }
}

/// Waits while the network is frozen; whether it is whole then.
async fn passes(changes: &mut watch::Receiver<Network>) -> bool {
    changes.wait_for(|network| *network != Network::Frozen).await.is_ok_and(|network| *network == Network::Whole)
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut changes: watch::Receiver<Network>,
) {
    let (mut buffer, mut cut) = (vec![0; 64 << 10], changes.clone());
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read.unwrap_or(0),
            _ = cut.wait_for(|network| *network == Network::Cut) => 0,
        };
        if read == 0 || !passes(&mut changes).await || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
