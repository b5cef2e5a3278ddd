//! What is wrong with what was sent of a card, or with a file of cards.

use cardinal_base::{
    codes::{self, Code},
    input::InputError,
};

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// A JSON pointer; empty for the whole.
    pub pointer: String,
    pub detail: String,
}

/// A rule of cards that was broken; the texts are for the client.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// A parameter of a list of cards.
    #[error("{0}")]
    Query(String),
    /// It is no JSON.
    #[error("{0}")]
    Json(String),
    /// Fields, all that are wrong at once.
    #[error("some fields are not valid: {0:?}")]
    Fields(Vec<FieldError>),
    /// Sources that are over a limit, and nothing else is wrong.
    #[error("sources are over a limit: {0:?}")]
    SourceLimits(Vec<FieldError>),
    /// The line of column names, and what is wrong with single ones.
    #[error("{detail} {columns:?}")]
    Columns { detail: &'static str, columns: Vec<FieldError> },
    #[error("The row is over {limit} bytes.")]
    RowTooLong { limit: usize },
    /// What was read as JSON cannot be written as such.
    #[error("a card cannot be written as JSON")]
    Unwritable(#[from] serde_json::Error),
}

impl CardError {
    /// One field is wrong.
    pub fn field(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Fields(vec![FieldError { pointer: pointer.into(), detail: detail.into() }])
    }

    /// How the contract calls it.
    pub fn code(&self) -> &'static Code {
        match self {
            Self::Query(_) => &codes::INVALID_REQUEST,
            Self::Json(_) => &codes::INVALID_JSON,
            Self::Fields(_) | Self::Columns { .. } => &codes::VALIDATION_FAILED,
            Self::SourceLimits(_) => &codes::SOURCE_LIMIT_EXCEEDED,
            Self::RowTooLong { .. } => &codes::PAYLOAD_TOO_LARGE,
            Self::Unwritable(_) => &codes::INTERNAL_ERROR,
        }
    }

    /// What there is to say beside the fields.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Query(_) | Self::Json(_) | Self::RowTooLong { .. } => Some(self.to_string()),
            Self::Columns { detail, .. } => Some((*detail).to_owned()),
            Self::Fields(_) | Self::SourceLimits(_) | Self::Unwritable(_) => None,
        }
    }

    /// The fields that are wrong, one by one.
    pub fn fields(&self) -> &[FieldError] {
        match self {
            Self::Fields(fields) | Self::SourceLimits(fields) | Self::Columns { columns: fields, .. } => fields,
            _ => &[],
        }
    }
}

impl From<InputError> for CardError {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Json(detail) => Self::Json(detail),
            InputError::Field { pointer, detail } => Self::field(pointer, detail),
            InputError::Query(detail) => Self::Query(detail),
        }
    }
}
