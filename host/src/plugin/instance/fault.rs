//! An error that a call ended with, read as a stranger's.

use cardinal_plugin_abi::{Error, error, error::flags};
use serde_json::Value;

use crate::plugin::call::{CallFault, PluginError};

/// Longer messages are cut; details over the limit are left out.
const MESSAGE_LIMIT: usize = 8 << 10;
const DETAILS_LIMIT: usize = 64 << 10;

/// What the caller of a plugin gets to know of `error`.
pub fn of(error: &Error) -> CallFault {
    let message = cut(error.text());
    if error.code == error::PANICKED {
        return CallFault::Panicked { message };
    }
    let details = match error.details.get() {
        text if text.len() <= DETAILS_LIMIT => serde_json::from_slice(text).unwrap_or_default(),
        _ => Value::Null,
    };
    let (status, code) = usual(error.code);
    // Codes that say something to whoever asked; the SDK passes the host's own words on with them.
    let spoken = matches!(error.code, error::REPLY | error::FORBIDDEN | error::NOT_FOUND | error::REFUSED);
    let public = spoken || error.flags & flags::PUBLIC != 0;
    CallFault::Error(PluginError {
        status: status_in(&details).unwrap_or(status),
        code: code_in(&details).unwrap_or(code).to_owned(),
        message,
        public,
        retry: error.flags & flags::RETRY != 0,
        details,
    })
}

/// The answer to a host function's error that a handler passes on, unless its details say more.
fn usual(code: u32) -> (u16, &'static str) {
    match code {
        error::FORBIDDEN => (403, "insufficient-scope"),
        error::NOT_FOUND => (404, "not-found"),
        error::REFUSED => (422, "validation-failed"),
        error::UNAVAILABLE => (503, "database-unavailable"),
        error::TIMED_OUT => (504, "plugin-timeout"),
        _ => (500, "internal-error"),
    }
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
    if text.len() > MESSAGE_LIMIT {
        let end = (0..=MESSAGE_LIMIT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
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
        match of(error) {
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
    fn nonsense_in_details_is_not_believed() {
        for details in ["", "\u{1}", "[]", r#"{"status":200,"code":"A B"}"#, r#"{"status":"x","code":7}"#] {
            let internal = plugin_error(&error(77, "secret", details));
            assert_eq!((internal.status, internal.code.as_str(), internal.public), (500, "internal-error", false));
        }
    }

    #[test]
    fn a_panic_is_one() {
        assert!(matches!(of(&Error::panicked("boom")), CallFault::Panicked { message } if message == "boom"));
    }
}
