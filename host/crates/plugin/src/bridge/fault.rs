//! What a plugin gets to know of a failure of the host, and what only the log does.

use cardinal_plugin_abi::{
    Bytes, Error,
    error::{self, flags, http_kind},
};
use serde_json::{Map, Value, json};
use tokio_postgres::error::{DbError, ErrorPosition};

use crate::fault::Fault;
use cardinal_base::{
    causes::with_causes,
    codes::{self, Code},
    db_error::is_gone,
    http_client::{ConnectError, ExchangeError},
};
use cardinal_store::error::StoreError;

/// The error for the plugin of this name; the cause goes to the log, under that name.
pub(super) fn to_error(plugin: &str, fault: Fault) -> Error {
    match fault {
        Fault::Forbidden { detail, scope } => {
            let mut details = details_of(&codes::INSUFFICIENT_SCOPE);
            if let Some(scope) = scope {
                details["required_scope"] = scope.into();
            }
            public(error::FORBIDDEN, detail, details)
        }
        Fault::NotFound(detail) => public(error::NOT_FOUND, detail, details_of(&codes::NOT_FOUND)),
        Fault::Refused(broken) => {
            let details = json!({"status": codes::VALIDATION_FAILED.status, "code": broken.code});
            public(error::REFUSED, broken.detail, details)
        }
        Fault::Answer(error) => from_store(plugin, &error),
        Fault::Invalid(reason) => Error::new(error::INVALID_ARGUMENT, reason),
        Fault::InvalidUrl(reason) => {
            let mut details = details_of(&codes::VALIDATION_FAILED);
            details["kind"] = http_kind::INVALID_URL.into();
            public(error::HTTP, reason, details)
        }
        Fault::Unsupported(reason) => Error::new(error::UNSUPPORTED, reason),
        Fault::Gone(reason) => Error::new(error::BAD_HANDLE, reason),
        Fault::Busy(detail) => {
            let error = public(error::UNAVAILABLE, detail, details_of(&codes::PLUGIN_UNAVAILABLE));
            Error { flags: error.flags | flags::RETRY, ..error }
        }
        Fault::Unavailable(cause) => {
            tracing::warn!(plugin, error = format!("{cause:#}"), "a plugin could not use the database");
            unavailable()
        }
        Fault::Internal(cause) => {
            tracing::error!(plugin, error = format!("{cause:#}"), "a host function failed");
            Error::new(error::INTERNAL, "the host function failed; the log says why")
        }
        Fault::Database(cause) => database(plugin, &cause),
        Fault::Http(cause) => http(&cause),
    }
}

/// A plugin says to its own log what it makes of another server's failure.
fn http(cause: &ExchangeError) -> Error {
    let kind = http_error_kind(cause);
    let code = if kind == http_kind::TIMED_OUT { &codes::UPSTREAM_TIMEOUT } else { &codes::UPSTREAM_ERROR };
    let mut details = details_of(code);
    details["kind"] = kind.into();
    Error { details: Bytes::from(details.to_string()), ..Error::new(error::HTTP, with_causes(cause)) }
}

/// How an exchange failed, in the contract's words.
pub(super) const fn http_error_kind(error: &ExchangeError) -> &'static str {
    match error {
        ExchangeError::Connect(ConnectError::OutOfReach(_)) => http_kind::ADDRESS_REFUSED,
        ExchangeError::Connect(ConnectError::NoServer | ConnectError::NoSuchHost(_)) => http_kind::NAME_NOT_FOUND,
        ExchangeError::Connect(ConnectError::Connect(_)) => http_kind::CONNECT,
        ExchangeError::Connect(ConnectError::Tls(_)) => http_kind::TLS,
        ExchangeError::TimedOut(_) => http_kind::TIMED_OUT,
        ExchangeError::TooLarge(_) => http_kind::TOO_LARGE,
        ExchangeError::Http(_) => http_kind::BROKEN_OFF,
    }
}

fn unavailable() -> Error {
    let detail = "The database was not available in time.".to_owned();
    let error = public(error::UNAVAILABLE, detail, details_of(&codes::DATABASE_UNAVAILABLE));
    Error { flags: error.flags | flags::RETRY, ..error }
}

fn from_store(plugin: &str, error: &StoreError) -> Error {
    let code = error.code();
    if let Some(cause) = std::error::Error::source(error) {
        tracing::warn!(plugin, error = %cause, code = code.name, "a host function failed");
    }
    let detail = || error.detail().unwrap_or_else(|| code.name.to_owned());
    match code.status {
        status if status == codes::NOT_FOUND.status => {
            public(error::NOT_FOUND, detail(), details_of(&codes::NOT_FOUND))
        }
        status if status == codes::DATABASE_UNAVAILABLE.status => unavailable(),
        _ if code.status().is_server_error() => {
            Error::new(error::INTERNAL, "the host function failed; the log says why")
        }
        _ => public(error::REFUSED, detail(), details_of(code)),
    }
}

/// What the SDK answers the plugin's caller with, unless the plugin has something better to say.
fn details_of(code: &Code) -> Value {
    json!({"status": code.status, "code": code.name})
}

fn public(code: u32, message: String, details: Value) -> Error {
    Error { code, flags: flags::PUBLIC, message: Bytes::from(message), details: Bytes::from(details.to_string()) }
}

/// PostgreSQL's error on one of the plugin's own connections: all of it is the plugin's to know. That the server went
/// away is the client's to know, too, when the plugin has nothing better to say.
fn database(plugin: &str, cause: &tokio_postgres::Error) -> Error {
    if is_gone(cause) {
        tracing::warn!(plugin, error = with_causes(cause), "the database went away during a plugin's call");
        return unavailable();
    }
    let Some(fault) = cause.as_db_error() else {
        return Error::new(error::DATABASE, with_causes(cause));
    };
    let details = Value::Object(details(fault));
    Error {
        code: error::DATABASE,
        flags: if is_worth_retrying(fault.code().code()) { flags::RETRY } else { 0 },
        message: Bytes::from(fault.message().to_owned()),
        details: Bytes::from(details.to_string()),
    }
}

fn details(fault: &DbError) -> Map<String, Value> {
    let position = match fault.position() {
        Some(ErrorPosition::Original(position)) => Some(position.to_string()),
        _ => None,
    };
    let fields = [
        ("sqlstate", Some(fault.code().code())),
        ("constraint", fault.constraint()),
        ("schema", fault.schema()),
        ("table", fault.table()),
        ("column", fault.column()),
        ("type", fault.datatype()),
        ("detail", fault.detail()),
        ("hint", fault.hint()),
        ("position", position.as_deref()),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect()
}

/// Serialization failure, deadlock, lock or connection not to be had.
fn is_worth_retrying(sqlstate: &str) -> bool {
    ["40001", "40P01", "55P03", "53300"].contains(&sqlstate)
}
