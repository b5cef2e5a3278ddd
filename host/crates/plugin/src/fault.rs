//! Why the host does not do what a plugin asks.

use cardinal_base::{db_error, http_client::ExchangeError};
use cardinal_cards::source::{self, SourceError};
use cardinal_store::{catalogue::EnrichError, error::StoreError};

/// Why the host does not do what a plugin asks.
#[derive(Debug)]
pub enum Fault {
    /// 403. The scope that was missing, when one was.
    Forbidden {
        detail: String,
        scope: Option<String>,
    },
    NotFound(String),
    /// 422 with this code.
    Refused(SourceError),
    /// What the admin API would answer to the same question.
    Answer(StoreError),
    /// An argument that is none.
    Invalid(String),
    /// A URL that is none, which may be the client's. What is wrong with it.
    InvalidUrl(String),
    /// Something that the plugin was not given.
    Unsupported(String),
    /// The plugin itself uses all that it may have.
    Busy(String),
    /// Try again later.
    Unavailable(anyhow::Error),
    /// PostgreSQL's own error on one of the plugin's connections.
    Database(tokio_postgres::Error),
    /// Another server was not reached, or broke off.
    Http(ExchangeError),
    /// The connection or statement is not there any more.
    Gone(String),
    Internal(anyhow::Error),
}

impl From<SourceError> for Fault {
    fn from(broken: SourceError) -> Self {
        Self::Refused(broken)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        if let StoreError::Database(database) = &error
            && let Some(detail) = db_error::card_too_large(database)
        {
            return Self::Refused(source::card_too_large(detail));
        }
        match error {
            StoreError::Database(database) if is_bad_value(&database) => Self::Refused(SourceError {
                code: "validation-failed",
                detail: "The data has a value that the database can't hold.".to_owned(),
            }),
            StoreError::Database(database) if !db_error::is_unavailable(&database) => Self::Internal(database.into()),
            StoreError::Pool(_) | StoreError::Database(_) => Self::Unavailable(error.into()),
            other => Self::Answer(other),
        }
    }
}

impl From<EnrichError> for Fault {
    fn from(error: EnrichError) -> Self {
        match error {
            EnrichError::Store(error) => error.into(),
            EnrichError::QueuedEnrichment(error) => Self::Unavailable(anyhow::Error::new(error)),
            EnrichError::Crowded => Self::Busy("Too many writes wait for this card.".to_owned()),
            EnrichError::Stopped => Self::Unavailable(anyhow::anyhow!("the host is stopping")),
        }
    }
}

/// What `check_data` does not foresee of jsonb's limits.
fn is_bad_value(error: &tokio_postgres::Error) -> bool {
    const REFUSED: [&str; 5] = ["22P05", "22P02", "22003", "54001", "54000"];
    error.code().is_some_and(|code| REFUSED.contains(&code.code()))
}
