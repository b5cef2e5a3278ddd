//! Why a plugin's call had no answer, and why the registry did not do what an operator asked.

use std::io;

use cardinal_cards::error::FieldError;
use cardinal_package::refusal::Refusal;
use cardinal_store::error::StoreError;

use crate::call::PluginError;

/// A call that ended without a reply.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The plugin gets no calls, or takes no more at the moment. The text is for the client.
    #[error("{detail}")]
    Unavailable { detail: String, retry_after: Option<u32> },
    /// The text is for the log, as are the next ones.
    #[error("{0}")]
    Timeout(String),
    /// The same, after it had waited mostly for the client's body.
    #[error("{0}")]
    SlowClient(String),
    #[error("{0}")]
    Panicked(String),
    #[error("{0}")]
    BadReply(String),
    /// The plugin's own answer.
    #[error("the plugin {plugin}: {}", .error.message)]
    Own { plugin: String, error: PluginError },
    /// Ours.
    #[error("{0}")]
    Internal(String),
}

/// What the registry did not do. The texts are for the client.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("There is no such {0}.")]
    NotFound(&'static str),
    #[error("{0}")]
    Conflict(String),
    /// Another package lies there than the one that was meant, or it is not refused for this.
    #[error("{detail}")]
    OtherPackage { detail: String, sha256: Option<String> },
    /// There is no way back past a version that gave up data.
    #[error("{0} gave up data that earlier versions need, so it cannot be rolled back.")]
    NoWayBack(String),
    /// The package loses data, and no operator has agreed to that.
    #[error("{} To go on, {}. Nothing was changed.", .refusal.reason, .refusal.fix)]
    Destructive { refusal: Box<Refusal>, sha256: Option<String> },
    /// An upload that is no good.
    #[error("The package is refused: {}", .0.reason)]
    Refused(Box<Refusal>),
    /// Settings that do not fit.
    #[error("some settings are not valid: {0:?}")]
    Settings(Vec<FieldError>),
    /// The plugin could not try its settings.
    #[error("{detail} Nothing was stored.")]
    SettingsNotTried { detail: String, retry_after: u32 },
    #[error("Another plugin is being uploaded.")]
    UploadBusy { retry_after: u32 },
    #[error("There is no space for the package on the disk of PLUGINS_DIR. None of it was kept.")]
    StorageFull(#[source] io::Error),
    #[error("The host may not write into PLUGINS_DIR.")]
    NotWritable(#[source] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Ours.
    #[error("the plugin registry failed")]
    Internal(#[source] anyhow::Error),
}

impl From<Refusal> for RegistryError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl RegistryError {
    pub fn internal(cause: impl Into<anyhow::Error>) -> Self {
        Self::Internal(cause.into())
    }

    /// One setting that does not fit.
    pub fn setting(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Settings(vec![FieldError { pointer: pointer.into(), detail: detail.into() }])
    }

    /// Settings that do not fit, as pointers and words.
    pub fn settings<T: Into<String>>(faults: Vec<(String, T)>) -> Self {
        let field = |(pointer, detail): (String, T)| FieldError { pointer, detail: detail.into() };
        Self::Settings(faults.into_iter().map(field).collect())
    }

    /// Whether the database is away: nothing is wrong with what was asked.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_outage())
    }
}
