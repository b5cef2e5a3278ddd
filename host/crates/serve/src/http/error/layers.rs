//! The one place where what went wrong in the layers below becomes a problem document.

use http::{StatusCode, header};
use serde_json::Value;

use super::ApiError;
use cardinal_base::{codes, db_error, input::InputError, page::PageError};
use cardinal_cards::error::{CardError, FieldError};
use cardinal_database::pool::PoolError;
use cardinal_identity::error::AuthError;
use cardinal_plugin_host::{
    call::PluginError,
    error::{CallError, RegistryError},
};
use cardinal_store::error::StoreError;

/// The wait of a client whose request met a busy plugin, when the author names none.
const BUSY_RETRY: u32 = 1;
/// The longest wait that an author can ask for, in seconds.
const RETRY_LIMIT: u32 = 24 * 3600;
/// Entries of an author's `errors`, and bytes of a text in them.
const FIELDS_LIMIT: usize = 64;
const FIELD_LIMIT: usize = 512;

impl From<InputError> for ApiError {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Json(detail) => Self::new(&codes::INVALID_JSON).detail(detail),
            InputError::Field { pointer, detail } => Self::invalid(pointer, detail),
            InputError::Query(detail) => Self::new(&codes::INVALID_REQUEST).detail(detail),
        }
    }
}

impl From<PageError> for ApiError {
    fn from(error: PageError) -> Self {
        let problem = with_detail(Self::new(error.code()), error.detail());
        match error {
            PageError::Json(_) => problem.cause(error),
            PageError::Limit | PageError::Cursor => problem,
        }
    }
}

impl From<CardError> for ApiError {
    fn from(error: CardError) -> Self {
        let problem = with_fields(with_detail(Self::new(error.code()), error.detail()), error.fields());
        match error {
            CardError::Unwritable(_) => problem.cause(error),
            _ => problem,
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let problem = with_detail(Self::new(error.code()), error.detail());
        let problem = match &error {
            StoreError::Version(detail) => return Self::invalid("/version", detail.clone()),
            StoreError::VersionMismatch { current } => problem.with("current_version", *current),
            StoreError::CountMoved { count, .. } => problem.with("current_count", *count),
            StoreError::CardInUse { plugin } => problem.with("plugin", plugin.clone()),
            StoreError::Busy { retry_after, .. } | StoreError::TooMany { retry_after, .. } => {
                problem.retry_after(*retry_after)
            }
            StoreError::Database(fault) | StoreError::Pool(PoolError::Backend(fault)) => {
                match db_error::card_too_large(fault) {
                    Some(detail) => problem.field("/attributes", detail),
                    None => problem,
                }
            }
            _ => problem,
        };
        match error {
            StoreError::Card(error) => error.into(),
            StoreError::Page(error) => error.into(),
            error if std::error::Error::source(&error).is_some() => problem.cause(error),
            _ => problem,
        }
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        let problem = Self::new(error.code());
        match error {
            AuthError::Unauthorized { challenge, detail, reason, .. } => {
                let mut problem = with_detail(problem, detail);
                if let Some(challenge) = challenge {
                    problem = problem.header(header::WWW_AUTHENTICATE, challenge);
                }
                match reason {
                    Some(reason) => problem.cause(anyhow::anyhow!(reason)),
                    None => problem,
                }
            }
            AuthError::Disabled { detail } => with_detail(problem, detail),
            AuthError::NoProvider { retry_after } => problem.retry_after(retry_after),
            AuthError::InsufficientScope { ref scope, ref challenge } => problem
                .detail(error.to_string())
                .with("required_scope", scope.clone())
                .header(header::WWW_AUTHENTICATE, challenge),
            AuthError::Forbidden(detail) => problem.detail(detail),
            AuthError::Field { pointer, detail } => Self::invalid(pointer, detail),
            AuthError::Busy => problem.detail(error.to_string()),
            AuthError::TooOften { detail, retry_after } => problem.detail(detail).retry_after(retry_after),
            AuthError::Store(error) => error.into(),
            AuthError::Internal(cause) => problem.cause(cause),
        }
    }
}

impl From<CallError> for ApiError {
    fn from(error: CallError) -> Self {
        let cause = |code, reason: String| Self::new(code).cause(anyhow::anyhow!(reason));
        match error {
            CallError::Unavailable { detail, retry_after } => {
                let problem = Self::new(&codes::PLUGIN_UNAVAILABLE).detail(detail);
                match retry_after {
                    Some(seconds) => problem.retry_after(seconds),
                    None => problem,
                }
            }
            CallError::Timeout(reason) => cause(&codes::PLUGIN_TIMEOUT, reason),
            CallError::SlowClient(reason) => cause(&codes::REQUEST_TIMEOUT, reason),
            CallError::Panicked(reason) => cause(&codes::PLUGIN_PANICKED, reason),
            CallError::BadReply(reason) => cause(&codes::PLUGIN_ERROR, reason),
            CallError::Internal(reason) => cause(&codes::INTERNAL_ERROR, reason),
            CallError::Own { plugin, error } => from_plugin(&plugin, error),
        }
    }
}

/// An error that the author chose goes to the client as it is; any other only to the log.
fn from_plugin(plugin: &str, error: PluginError) -> ApiError {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let log = anyhow::anyhow!("the plugin {plugin}: {}", error.log_text());
    let mut answer = match codes::find(&error.code) {
        Some(code) if code.status == error.status => ApiError::new(code),
        _ => {
            let title = status.canonical_reason().unwrap_or("The plugin refused the request");
            ApiError::custom(status, error.code, title)
        }
    };
    answer = if error.public { answer.detail(error.message) } else { answer.cause(log) };
    if error.retry {
        answer = answer.retry_after(retry_in(&error.details).unwrap_or(BUSY_RETRY));
    }
    with_details(answer, &error.details)
}

/// The seconds that the author asks the client to wait.
fn retry_in(details: &Value) -> Option<u32> {
    let seconds = details.get("retry_after")?.as_u64()?;
    Some(u32::try_from(seconds).unwrap_or(RETRY_LIMIT).min(RETRY_LIMIT))
}

fn with_details(mut answer: ApiError, details: &Value) -> ApiError {
    let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(cut);
    for error in details.get("errors").and_then(Value::as_array).into_iter().flatten().take(FIELDS_LIMIT) {
        let text = |name| text(error, name).unwrap_or_default();
        answer = answer.field(text("pointer"), text("detail"));
    }
    match text(details, "required_scope") {
        Some(scope) => answer.with("required_scope", scope),
        None => answer,
    }
}

/// The beginning of a text in an error's details.
fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(FIELD_LIMIT)].to_owned()
}

impl From<RegistryError> for ApiError {
    fn from(error: RegistryError) -> Self {
        let error = match error {
            RegistryError::Store(error) => return error.into(),
            other => other,
        };
        let problem = |code| Self::new(code).detail(error.to_string());
        match &error {
            RegistryError::NotFound(_) => problem(&codes::NOT_FOUND),
            RegistryError::Conflict(_) => problem(&codes::CONFLICT),
            RegistryError::OtherPackage { sha256, .. } => problem(&codes::CONFLICT).with("sha256", sha256.clone()),
            RegistryError::NoWayBack(_) => problem(&codes::DESTRUCTIVE_MIGRATION),
            RegistryError::Destructive { refusal, sha256 } => problem(&codes::DESTRUCTIVE_MIGRATION)
                .with("refusal", serde_json::to_value(refusal).unwrap_or_default())
                .with("sha256", sha256.clone()),
            RegistryError::Refused(refusal) => problem(&codes::VALIDATION_FAILED)
                .field("", refusal.to_string())
                .with("refusal", serde_json::to_value(refusal).unwrap_or_default()),
            RegistryError::Settings(fields) => with_fields(Self::new(&codes::VALIDATION_FAILED), fields),
            RegistryError::SettingsNotTried { retry_after, .. } | RegistryError::UploadBusy { retry_after } => {
                problem(&codes::OVERLOADED).retry_after(*retry_after)
            }
            RegistryError::StorageFull(_) => problem(&codes::STORAGE_FULL).cause(error),
            RegistryError::NotWritable(_) => problem(&codes::CONFLICT).cause(error),
            RegistryError::Store(_) | RegistryError::Internal(_) => Self::internal(error),
        }
    }
}

fn with_detail(problem: ApiError, detail: Option<impl Into<String>>) -> ApiError {
    match detail {
        Some(detail) => problem.detail(detail),
        None => problem,
    }
}

fn with_fields(problem: ApiError, fields: &[FieldError]) -> ApiError {
    fields.iter().fold(problem, |problem, field| problem.field(field.pointer.clone(), field.detail.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_on_a_character() {
        assert_eq!((cut("/a"), cut(&"é".repeat(FIELD_LIMIT)).len()), ("/a".to_owned(), FIELD_LIMIT));
        assert_eq!(cut(&format!("x{}", "é".repeat(FIELD_LIMIT))).len(), FIELD_LIMIT - 1);
    }

    #[test]
    fn an_author_names_the_wait_within_reason() {
        use serde_json::json;
        for (details, seconds) in [
            (json!({"retry_after": 30}), Some(30)),
            (json!({"retry_after": u64::MAX}), Some(RETRY_LIMIT)),
            (json!({"retry_after": "soon"}), None),
            (json!({"retry_after": -1}), None),
            (Value::Null, None),
        ] {
            assert_eq!(retry_in(&details), seconds, "{details}");
        }
    }
}
