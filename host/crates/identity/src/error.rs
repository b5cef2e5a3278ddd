//! Why a caller is not let in, or not let do something.

use cardinal_base::codes::{self, Code};
use cardinal_database::pool::PoolError;
use cardinal_store::error::StoreError;

/// A refusal of a caller. The texts are for the client.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// No credential, or none that counts. The challenge is the value of `WWW-Authenticate`.
    #[error("{}{}", .code.name, .reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    Unauthorized {
        code: &'static Code,
        challenge: Option<String>,
        detail: Option<&'static str>,
        /// For the log.
        reason: Option<String>,
    },
    #[error("account disabled")]
    Disabled { detail: Option<&'static str> },
    /// The identity provider can't be asked whether a token counts.
    #[error("the identity provider cannot be reached")]
    NoProvider { retry_after: u32 },
    #[error("This needs the scope `{scope}`.")]
    InsufficientScope { scope: String, challenge: String },
    #[error("{0}")]
    Forbidden(&'static str),
    /// A name or a password that cannot be one.
    #[error("{pointer}: {detail}")]
    Field { pointer: String, detail: String },
    #[error("Too many logins at once.")]
    Busy,
    /// Asked too often.
    #[error("{detail}")]
    TooOften { detail: &'static str, retry_after: u32 },
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Ours.
    #[error("authentication failed because of an internal error")]
    Internal(#[source] anyhow::Error),
}

impl AuthError {
    pub fn internal(cause: impl Into<anyhow::Error>) -> Self {
        Self::Internal(cause.into())
    }

    /// A credential that counts for nothing by now.
    pub const fn unauthorized(code: &'static Code) -> Self {
        Self::Unauthorized { code, challenge: None, detail: None, reason: None }
    }

    /// How the contract calls it.
    pub fn code(&self) -> &'static Code {
        match self {
            Self::Unauthorized { code, .. } => code,
            Self::Disabled { .. } => &codes::ACCOUNT_DISABLED,
            Self::NoProvider { .. } => &codes::IDENTITY_PROVIDER_UNAVAILABLE,
            Self::InsufficientScope { .. } => &codes::INSUFFICIENT_SCOPE,
            Self::Forbidden(_) => &codes::FORBIDDEN,
            Self::Field { .. } => &codes::VALIDATION_FAILED,
            Self::Busy => &codes::OVERLOADED,
            Self::TooOften { .. } => &codes::RATE_LIMITED,
            Self::Store(error) => error.code(),
            Self::Internal(_) => &codes::INTERNAL_ERROR,
        }
    }

    /// Whether the database is away: nothing is wrong with what was asked.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_outage())
    }
}

impl From<PoolError> for AuthError {
    fn from(error: PoolError) -> Self {
        StoreError::from(error).into()
    }
}
