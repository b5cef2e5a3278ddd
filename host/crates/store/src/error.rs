//! Why the database, or what guards its tables, did not do what was asked.

use deadpool_postgres::{PoolError, TimeoutType};
use time::error::Format;
use tokio_postgres::error::SqlState;

use cardinal_base::{
    codes::{self, Code},
    db_error,
    page::PageError,
};
use cardinal_cards::error::CardError;

/// A failure of the store. What a client may read of it is [`StoreError::detail`]; the rest is for the log.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("getting a database connection")]
    Pool(#[from] PoolError),
    #[error("talking to the database")]
    Database(#[from] tokio_postgres::Error),
    /// The database did not answer, or answered what cannot be.
    #[error("the database is not available")]
    Outage(#[source] anyhow::Error),
    /// A rule of cards was broken.
    #[error(transparent)]
    Card(#[from] CardError),
    #[error(transparent)]
    Page(#[from] PageError),
    #[error("There is no such {0}.")]
    NotFound(&'static str),
    #[error("{0}")]
    SkuTaken(&'static str),
    #[error("{0}")]
    NameTaken(&'static str),
    #[error("It is at version {current} now.")]
    VersionMismatch { current: i64 },
    /// Too many changes to work out an earlier version from, or a version that never was.
    #[error("{0}")]
    Version(String),
    #[error("{count} cards match now, not {expected}.")]
    CountMoved { count: i64, expected: i64 },
    #[error("The selection has changed: different cards match now.")]
    SelectionMoved,
    #[error("The plugin `{plugin}` still refers to this card.")]
    CardInUse { plugin: String },
    #[error("Removing this card takes too much time or memory, because of what plugins keep of it.")]
    SlowRemoval(#[source] anyhow::Error),
    #[error("This is the last owner who can log in: it can't be removed, disabled or given another role.")]
    LastOwner,
    /// As much of this as there may be is under way.
    #[error("{detail}")]
    Busy { detail: String, retry_after: u32 },
    /// This list takes too long on this many cards.
    #[error("{0}")]
    SlowList(&'static str),
    /// One user asks for too much at once.
    #[error("{detail}")]
    TooMany { detail: String, retry_after: u32 },
    #[error("the host is stopping")]
    Draining,
    /// Ours: what is stored is not what this version stores.
    #[error("what is stored cannot be read or written")]
    Internal(#[source] anyhow::Error),
}

impl StoreError {
    pub fn internal(cause: impl Into<anyhow::Error>) -> Self {
        Self::Internal(cause.into())
    }

    /// How the contract calls it.
    pub fn code(&self) -> &'static Code {
        match self {
            Self::Pool(PoolError::Backend(error)) | Self::Database(error) => database_code(error),
            // Every connection is busy: the server is up, we are not keeping up.
            Self::Pool(PoolError::Timeout(TimeoutType::Wait)) => &codes::OVERLOADED,
            Self::Pool(_) | Self::Outage(_) | Self::SlowRemoval(_) => &codes::DATABASE_UNAVAILABLE,
            Self::Card(error) => error.code(),
            Self::Page(error) => error.code(),
            Self::NotFound(_) => &codes::NOT_FOUND,
            Self::SkuTaken(_) => &codes::SKU_TAKEN,
            Self::NameTaken(_) => &codes::NAME_TAKEN,
            Self::VersionMismatch { .. } => &codes::VERSION_MISMATCH,
            Self::Version(_) => &codes::VALIDATION_FAILED,
            Self::CountMoved { .. } => &codes::COUNT_MOVED,
            Self::CardInUse { .. } => &codes::CARD_IN_USE,
            Self::LastOwner | Self::SelectionMoved => &codes::CONFLICT,
            Self::Busy { .. } | Self::SlowList(_) => &codes::OVERLOADED,
            Self::TooMany { .. } => &codes::RATE_LIMITED,
            Self::Draining => &codes::DRAINING,
            Self::Internal(_) => &codes::INTERNAL_ERROR,
        }
    }

    /// Plain words for the client; none where the code says it all.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Pool(PoolError::Backend(error)) | Self::Database(error) => {
                let unstorable =
                    || is_unstorable(error).then(|| "A text holds a character that can't be stored.".to_owned());
                db_error::card_too_large(error).or_else(unstorable)
            }
            Self::Pool(_) | Self::Outage(_) | Self::Draining | Self::Internal(_) => None,
            Self::Card(error) => error.detail(),
            Self::Page(error) => error.detail(),
            _ => Some(self.to_string()),
        }
    }

    /// Whether the database is away: nothing is wrong with what was asked.
    pub fn is_outage(&self) -> bool {
        std::ptr::eq(self.code(), &raw const codes::DATABASE_UNAVAILABLE)
    }
}

fn database_code(error: &tokio_postgres::Error) -> &'static Code {
    if db_error::card_too_large(error).is_some() {
        &codes::CARD_TOO_LARGE
    } else if is_unstorable(error) {
        &codes::INVALID_REQUEST
    } else if db_error::is_unavailable(error) {
        &codes::DATABASE_UNAVAILABLE
    } else {
        &codes::INTERNAL_ERROR
    }
}

/// U+0000, in whatever field it came.
fn is_unstorable(error: &tokio_postgres::Error) -> bool {
    [Some(&SqlState::CHARACTER_NOT_IN_REPERTOIRE), Some(&SqlState::UNTRANSLATABLE_CHARACTER)].contains(&error.code())
}

impl From<serde_json::Error> for StoreError {
    fn from(error: serde_json::Error) -> Self {
        Self::internal(error)
    }
}

impl From<Format> for StoreError {
    fn from(error: Format) -> Self {
        Self::internal(error)
    }
}
