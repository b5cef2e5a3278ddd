//! Finds out that the database answers nothing though its connections stay open: it is frozen, or the network between
//! swallows everything. No connection shows that by itself for long. So while somebody waits for the database it is
//! asked for nothing at all, on a connection of its own; once it does not answer, nobody else asks it (`outage.rs`).

use std::time::{Duration, Instant};

use tokio_postgres::{Client, Config, NoTls};

use super::{outage::Outages, pool::Pools};

/// How often it is looked whether somebody waits, and how often a database that is silent is asked again.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// A database that has not answered for so long is silent. The wait has two halves: when this process was stopped
/// meanwhile, the answer is found before the second is over.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Asks for as long as this host lives.
pub async fn keep(pools: &Pools) {
    let mut client = None;
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        if pools.is_waited_for() || pools.outages().is_silent() {
            ask(&mut client, pools.login(), pools.outages()).await;
        }
    }
}

async fn ask(client: &mut Option<Client>, login: &Config, outages: &Outages) {
    let started = Instant::now();
    let mut answer = Box::pin(answer(client, login));
    for _ in 0..2 {
        match tokio::time::timeout(ANSWER_TIMEOUT / 2, &mut answer).await {
            Ok(Ok(())) => return outages.answered(),
            Ok(Err(error)) => {
                // It is gone, which the pools find out at once and log.
                tracing::debug!(%error, "failed to query the database");
                drop(answer);
                *client = None;
                return outages.connection_lost();
            }
            Err(_) => {}
        }
    }
    drop(answer);
    *client = None;
    outages.fell_silent(started);
}

async fn answer(client: &mut Option<Client>, login: &Config) -> Result<(), tokio_postgres::Error> {
    let client = match client {
        Some(client) if !client.is_closed() => client,
        _ => {
            let (connected, connection) = login.connect(NoTls).await?;
            tokio::spawn(async move { drop(connection.await) });
            client.insert(connected)
        }
    };
    client.simple_query("").await.map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn login(port: u16) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(port).user("nobody");
        config
    }

    #[tokio::test]
    async fn who_accepts_and_says_nothing_is_silent_and_who_hangs_up_is_not() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (outages, mut client) = (Outages::default(), None);
        ask(&mut client, &login(port), &outages).await;
        assert!(outages.is_silent() && !outages.is_given_up());
        drop(listener);
        ask(&mut client, &login(port), &outages).await;
        assert!(!outages.is_silent());
    }
}
