//! An error that a call ended with, read as a stranger's.

use cardinal_plugin_abi::{Error, error, error::flags};
use serde_json::Value;

use crate::library::raw_instance::with_location;
use cardinal_base::codes::{self, Code};
use cardinal_observe::plugins::Cause;

/// Longer messages are cut; details over the limit are left out. What of them reaches a client is bounded by the guard.
const MESSAGE_LIMIT: usize = 8 << 10;
const DETAILS_LIMIT: usize = 4 << 20;

/// Why a call has no reply.
#[derive(Debug)]
pub enum CallFault {
    /// The plugin panicked; the message is for the log.
    Panicked { message: String },
    /// The plugin, or a host function that it did not handle, answered with an error.
    Error(PluginError),
    /// The reply can't be sent as it is.
    BadReply { reason: String },
    /// The instance is being retired, or there is no room for another call.
    Retired,
}

/// An error that a handler ended with.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginError {
    /// 400..=599.
    pub status: u16,
    /// Kebab-case.
    pub code: String,
    pub message: String,
    /// Whether `message` is for the client; else for the log alone.
    pub public: bool,
    /// Trying again later may help.
    pub retry: bool,
    /// Whose fault it is, when the status is of the 5xx kind; none when the plugin was merely busy.
    pub cause: Option<Cause>,
    /// `errors`, `required_scope` and the like; an object or null.
    pub details: serde_json::Value,
}

impl PluginError {
    /// The message and where the plugin's code has made it, for the log.
    pub fn log_text(&self) -> String {
        with_location(&self.message, self.details.get("location").and_then(Value::as_str))
    }
}

/// What the caller of a plugin gets to know of `error`. `claim` says whether the host has given the plugin an error
/// that this may be.
pub(super) fn from_error(error: &Error, claim: impl FnOnce() -> bool) -> CallFault {
    let message = cut(error.text());
    if error.code == error::PANICKED {
        return CallFault::Panicked { message };
    }
    let details = match error.details.get() {
        text if text.len() <= DETAILS_LIMIT => serde_json::from_slice(text).unwrap_or_default(),
        _ => Value::Null,
    };
    let sqlstate = details.get("sqlstate").and_then(Value::as_str);
    let default = default_code(error.code, sqlstate);
    let status = status_in(&details).unwrap_or(default.status);
    // Codes that mean something to the caller; the SDK passes the host's own words on with them.
    let spoken = matches!(error.code, error::REPLY | error::FORBIDDEN | error::NOT_FOUND | error::REFUSED);
    let public = spoken || error.flags & flags::PUBLIC != 0;
    CallFault::Error(PluginError {
        status,
        code: code_in(&details).unwrap_or(default.name).to_owned(),
        message,
        public,
        cause: cause(error, claim, status, code_in(&details), sqlstate),
        retry: error.flags & flags::RETRY != 0,
        details,
    })
}

/// The answer to a host function's error that a handler passes on, unless its details say more.
fn default_code(code: u32, sqlstate: Option<&str>) -> &'static Code {
    match code {
        // The statement was longer at work than it may be.
        error::DATABASE if sqlstate == Some(QUERY_CANCELED) => &codes::PLUGIN_TIMEOUT,
        error::FORBIDDEN => &codes::INSUFFICIENT_SCOPE,
        error::NOT_FOUND => &codes::NOT_FOUND,
        error::REFUSED => &codes::VALIDATION_FAILED,
        error::UNAVAILABLE => &codes::DATABASE_UNAVAILABLE,
        error::TIMED_OUT => &codes::PLUGIN_TIMEOUT,
        error::HTTP => &codes::UPSTREAM_ERROR,
        _ => &codes::INTERNAL_ERROR,
    }
}

/// Whose fault an error is. A plugin that is busy with its own connections has none.
fn cause(
    error: &Error,
    claim: impl FnOnce() -> bool,
    status: u16,
    code: Option<&str>,
    sqlstate: Option<&str>,
) -> Option<Cause> {
    if error.code == error::REPLY {
        return Some(if (502..=504).contains(&status) { Cause::Downstream } else { Cause::Plugin });
    }
    if error.flags & flags::HOST == 0 || !claim() {
        return Some(Cause::Plugin);
    }
    Some(match error.code {
        error::UNAVAILABLE if code == Some(codes::PLUGIN_UNAVAILABLE.name) => return None,
        error::UNAVAILABLE => Cause::Database,
        error::DATABASE if sqlstate.is_none_or(is_the_servers) => Cause::Database,
        error::INTERNAL => Cause::Host,
        error::HTTP => Cause::Downstream,
        _ => Cause::Plugin,
    })
}

const QUERY_CANCELED: &str = "57014";

/// Errors that no SQL is to blame for: connections, resources, the server's end, who came first.
fn is_the_servers(sqlstate: &str) -> bool {
    sqlstate == "55P03" || ["08", "40", "53", "57", "58", "XX"].iter().any(|class| sqlstate.starts_with(class))
}

fn status_in(details: &Value) -> Option<u16> {
    let status = details.get("status")?.as_u64()?;
    (400..=599).contains(&status).then_some(status as u16)
}

fn code_in(details: &Value) -> Option<&str> {
    let code = details.get("code")?.as_str()?;
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (!code.is_empty() && code.len() <= 64 && code.bytes().all(legal)).then_some(code)
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MESSAGE_LIMIT));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: u32, message: &str, details: &str) -> Error {
        let mut error = Error::new(code, message);
        error.details = cardinal_plugin_abi::Bytes::from(details.to_owned());
        error
    }

    fn plugin_error(error: &Error) -> PluginError {
        match from_error(error, || true) {
            CallFault::Error(error) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_reply_made_on_purpose_is_public() {
        let reply = plugin_error(&error(error::REPLY, "no such page", r#"{"status":404,"code":"no-page"}"#));
        assert_eq!((reply.status, reply.code.as_str(), reply.public), (404, "no-page", true));
    }

    #[test]
    fn the_log_has_the_place_that_the_plugin_says() {
        let text = |details: &str| plugin_error(&error(error::INTERNAL, "no disk", details)).log_text();
        assert_eq!(text(r#"{"location":"src/routes.rs:3:9"}"#), "no disk (at src/routes.rs:3:9)");
        let long = format!(r#"{{"location":"{}"}}"#, "x".repeat(2_000));
        for details in ["", r#"{"location":7}"#, &long] {
            assert_eq!(text(details), "no disk");
        }
    }

    #[test]
    fn nonsense_in_details_is_not_believed() {
        for details in ["", "\u{1}", "[]", r#"{"status":200,"code":"A B"}"#, r#"{"status":"x","code":7}"#] {
            let internal = plugin_error(&error(77, "secret", details));
            assert_eq!((internal.status, internal.code.as_str(), internal.public), (500, "internal-error", false));
        }
    }

    #[test]
    fn a_fault_has_its_cause() {
        let sql = |state: &str| format!(r#"{{"sqlstate":"{state}"}}"#);
        for (code, hosts, details, expected) in [
            (error::INTERNAL, false, String::new(), (500, Some(Cause::Plugin))),
            (error::INTERNAL, true, String::new(), (500, Some(Cause::Host))),
            (error::DATABASE, true, sql("42601"), (500, Some(Cause::Plugin))),
            (error::DATABASE, true, sql("40P01"), (500, Some(Cause::Database))),
            (error::DATABASE, true, sql("57014"), (504, Some(Cause::Database))),
            (error::DATABASE, true, String::new(), (500, Some(Cause::Database))),
            (error::UNAVAILABLE, true, r#"{"code":"database-unavailable"}"#.to_owned(), (503, Some(Cause::Database))),
            (error::UNAVAILABLE, true, r#"{"code":"plugin-unavailable"}"#.to_owned(), (503, None)),
            (error::UNAVAILABLE, false, String::new(), (503, Some(Cause::Plugin))),
            (error::DATABASE, false, sql("40P01"), (500, Some(Cause::Plugin))),
            (error::HTTP, true, r#"{"status":504,"kind":"timed-out"}"#.to_owned(), (504, Some(Cause::Downstream))),
            (error::HTTP, false, r#"{"kind":"connect"}"#.to_owned(), (502, Some(Cause::Plugin))),
            (error::REPLY, false, r#"{"status":502}"#.to_owned(), (502, Some(Cause::Downstream))),
            (error::REPLY, false, r#"{"status":500}"#.to_owned(), (500, Some(Cause::Plugin))),
        ] {
            let mut error = error(code, "x", &details);
            error.flags = if hosts { flags::HOST } else { 0 };
            let found = plugin_error(&error);
            assert_eq!((found.status, found.cause), expected, "{code} {details}");
        }
    }

    #[test]
    fn an_error_that_the_host_never_gave_is_the_plugins() {
        let mut error = error(error::INTERNAL, "x", "");
        error.flags = flags::HOST;
        let CallFault::Error(claimed) = from_error(&error, || false) else { panic!("an error") };
        assert_eq!(claimed.cause, Some(Cause::Plugin));
    }

    #[test]
    fn a_panic_is_one() {
        assert!(
            matches!(from_error(&Error::panicked("boom"), || true), CallFault::Panicked { message } if message == "boom")
        );
    }
}
