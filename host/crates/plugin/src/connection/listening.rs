//! A connection of the plugin's own pool that listens. It is closed at its end, never given back.

use std::time::Duration;

use deadpool::managed::Object;
use tokio::time::timeout;

use super::{PluginPool, no_connection, session::Sessions};
use crate::fault::Fault;
use cardinal_base::config::Secret;
use cardinal_store::plugins;

/// How long the server may take for a statement of the host's own on it.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);

impl PluginPool {
    /// Connections that it may have.
    pub(crate) fn max_size(&self) -> usize {
        self.status().max_size
    }

    /// What the plugin's login alone is let in with.
    pub(crate) fn login_secret(&self) -> &Secret {
        &self.shared.connect.password
    }

    /// A connection for as long as it is kept. `deliver` gets the channel and the payload of each notification.
    pub(crate) async fn listening_session(
        &self,
        deliver: impl Fn(&str, &str) + Send + Sync + 'static,
    ) -> Result<ListeningSession, Fault> {
        let object = self.shared.pool.get().await.map_err(no_connection)?;
        object.set_receiver(Box::new(deliver));
        Ok(ListeningSession { object: Some(object) })
    }
}

pub(crate) struct ListeningSession {
    /// `None` only while dropping.
    object: Option<Object<Sessions>>,
}

impl ListeningSession {
    pub(crate) async fn listen(&self, channel: &str) -> Result<(), Fault> {
        self.run(&plugins::session::listen(channel)).await.map(drop)
    }

    pub(crate) async fn unlisten(&self, channel: &str) -> Result<(), Fault> {
        self.run(&plugins::session::unlisten(channel)).await.map(drop)
    }

    /// Whether the server is there and still listens to so many channels. A pooler in between may have given the
    /// connection to somebody else.
    pub(crate) async fn check(&self, channels: usize) -> Result<(), Fault> {
        match self.run(plugins::session::COUNT_CHANNELS).await? {
            found if found == channels.to_string() => Ok(()),
            found => Err(unavailable(format!("the session listens to {found} channels instead of {channels}"))),
        }
    }

    /// Ready when the connection has ended.
    pub(crate) async fn ended(&self) {
        if let Some(session) = &self.object {
            session.ended().await;
        }
    }

    /// Runs a statement; the first value that it gives.
    async fn run(&self, sql: &str) -> Result<String, Fault> {
        let Some(session) = &self.object else { return Err(unavailable("the session is closed".to_owned())) };
        match timeout(STATEMENT_TIMEOUT, session.first_value(sql)).await {
            Ok(outcome) => outcome.map_err(|error| Fault::Unavailable(anyhow::Error::new(error))),
            Err(_) => Err(unavailable(format!("the database took longer than {STATEMENT_TIMEOUT:?}"))),
        }
    }
}

impl Drop for ListeningSession {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            object.cut();
            drop(Object::take(object));
        }
    }
}

fn unavailable(reason: String) -> Fault {
    Fault::Unavailable(anyhow::Error::msg(reason))
}
