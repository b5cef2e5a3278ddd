//! A port for something that comes and goes during a test.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// A port of 127.0.0.1 that the system gives to nobody else meanwhile. Connections to it are refused until something
/// is told to listen there; a port that was only free a moment ago would be another test's by then, now and again.
pub struct PortReservation(TcpSocket);

impl PortReservation {
    pub fn start() -> PortReservation {
        let socket = TcpSocket::new_v4().unwrap();
        // Whoever asks for this port by its number may have it beside this socket, which never listens.
        socket.set_reuseaddr(true).unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        PortReservation(socket)
    }

    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }
}
