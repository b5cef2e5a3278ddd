//! The turn of a schema step to lock the cards. Steps of several plugins take turns here, where no writer of a card
//! waits behind them; without it each would wait for the others' locks on the cards, with all writers behind it.

use anyhow::Context as _;
use tokio_postgres::{Client, error::SqlState};

use super::failure::Failure;

/// Longer than some steps one after another may have the cards locked.
const TURN_TIMEOUT: &str = "20s";
/// Conflicts with itself, and with nothing that reads or writes the table or locks a row of it.
const TAKE: &str = "LOCK TABLE public.plugin_schema_state IN SHARE UPDATE EXCLUSIVE MODE";

/// Lies in a transaction of the provisioner's session, where neither the plugin nor its step gets at it. Has to be
/// given back before that session is used for anything else.
pub(super) struct CardsTurn<'a> {
    session: &'a Client,
    is_taken: bool,
}

impl<'a> CardsTurn<'a> {
    pub(super) fn new(session: &'a Client) -> Self {
        Self { session, is_taken: false }
    }

    /// Waits for the steps that have it.
    pub(super) async fn take(&mut self) -> Result<(), Failure> {
        if self.is_taken {
            return Ok(());
        }
        self.is_taken = true; // also when this is dropped meanwhile
        let take = format!("BEGIN; SET LOCAL lock_timeout = '{TURN_TIMEOUT}'; {TAKE}");
        match self.session.batch_execute(&take).await {
            Ok(()) => Ok(()),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Err(Failure::Busy(format!(
                "other plugins' schema steps, which lock the cards, were not done within {TURN_TIMEOUT}"
            ))),
            Err(error) => Err(anyhow::Error::new(error).context("taking the turn to lock the cards").into()),
        }
    }

    pub(super) async fn give_back(&mut self) -> anyhow::Result<()> {
        if std::mem::take(&mut self.is_taken) {
            self.session.batch_execute("ROLLBACK").await.context("giving back the turn to lock the cards")?;
        }
        Ok(())
    }
}
