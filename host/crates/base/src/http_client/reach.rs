//! How far a client reaches: the internet, and the private networks that the operator has opened.

use std::{net::SocketAddr, time::Duration};

use tokio::time::{Instant, sleep_until};
use url::{Host, Url};

use super::{
    ConnectError,
    address::{self, AddressError},
    resolve,
};
use crate::config::Cidr;

/// Longer than it takes to find out about nearly every name.
const REFUSAL_TIME: Duration = Duration::from_millis(500);
/// Names with dozens of addresses exist; trying them all does not help.
const MAX_ADDRESSES: usize = 4;

/// The networks that may be connected to.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    opened: Vec<Cidr>,
}

impl Reach {
    /// The internet, and of the private networks those.
    pub const fn new(opened: Vec<Cidr>) -> Self {
        Self { opened }
    }

    /// The internet, and all private networks. Link-local addresses, the clouds' metadata services and what is reserved
    /// stay out of reach.
    pub fn with_private_networks() -> Self {
        Self { opened: Cidr::EVERYTHING.into() }
    }

    /// The addresses of the URL's server that may be connected to. A caller connects to these and does not resolve the
    /// name again: a second answer could be another one.
    ///
    /// A name that is not there and one of the network behind the host are refused after the same time, or the time
    /// would give away which it is.
    ///
    /// # Errors
    /// The name is not known, or none of its addresses is in reach.
    pub async fn find(&self, url: &Url) -> Result<Vec<SocketAddr>, ConnectError> {
        let started = Instant::now();
        let found = resolve(url).await.and_then(|addresses| self.permitted(addresses));
        if found.is_err() && matches!(url.host(), Some(Host::Domain(_))) {
            sleep_until(started + REFUSAL_TIME).await;
        }
        found
    }

    fn permitted(&self, addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, ConnectError> {
        let mut refused = AddressError("missing");
        let mut permitted = Vec::new();
        for socket in addresses {
            match address::check(socket.ip(), &self.opened) {
                Ok(()) => permitted.push(socket),
                Err(reason) => refused = reason,
            }
        }
        permitted.truncate(MAX_ADDRESSES);
        if permitted.is_empty() { Err(ConnectError::OutOfReach(refused)) } else { Ok(permitted) }
    }
}
