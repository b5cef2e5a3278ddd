//! The one error that crosses, either way: a code for programs, a message for people, details as JSON.
//!
//! ```
//! use cardinal_plugin_abi::{Error, error};
//!
//! let mut error = Error::new(error::NOT_FOUND, "There is no such card.");
//! error.flags = error::flags::PUBLIC;
//! error.details = r#"{"status":404,"code":"not-found"}"#.to_owned().into();
//! assert_eq!((error.code, error.text().as_str()), (error::NOT_FOUND, "There is no such card."));
//! ```

use abi_stable::StableAbi;

use crate::Bytes;

/// What went wrong. `code` says who may act on it, `message` is for people, `details` is a JSON
/// object for programs (may be empty).
///
/// ```
/// use cardinal_plugin_abi::{Error, error};
///
/// let busy = Error { flags: error::flags::RETRY, ..Error::new(error::UNAVAILABLE, "The pool is exhausted.") };
/// assert!(busy.code == error::UNAVAILABLE && busy.details.get().is_empty());
/// ```
#[repr(C)]
#[derive(StableAbi, Debug, Default)]
pub struct Error {
    /// One of the codes of this module; an unknown one is treated as [`INTERNAL`].
    pub code: u32,
    /// Bits of [`flags`]; unknown bits are ignored.
    pub flags: u32,
    /// UTF-8 expected, checked by the reader.
    pub message: Bytes,
    /// A JSON object or nothing. Keys that are read today: `status` (100..=599), `code` (kebab-case),
    /// `errors` (`[{pointer, detail}]`), `retry_after` (seconds, with [`flags::RETRY`]), `sqlstate`,
    /// `constraint`, `schema`, `table`, `column`, `kind` (of [`HTTP`]), `location` (`file:line:column` in the plugin's
    /// code, for the log).
    pub details: Bytes,
}

/// Something failed that is nobody's request's fault; the message goes to the log only.
pub const INTERNAL: u32 = 1;
/// Code of the other side panicked; the message is the panic's.
pub const PANICKED: u32 = 2;
/// The work was cancelled: its future was dropped, its call has ended, or its plugin is retired.
pub const CANCELLED: u32 = 3;
/// The number (of a context, call, connection, statement) is unknown, or what it stood for is over.
pub const BAD_HANDLE: u32 = 4;
/// An argument is malformed: not UTF-8, not JSON, not a UUID, out of range.
pub const INVALID_ARGUMENT: u32 = 5;
/// The rights of the call do not cover this; `details.required_scope` names what was missing.
pub const FORBIDDEN: u32 = 6;
/// The card (or other object) does not exist.
pub const NOT_FOUND: u32 = 7;
/// A rule of the catalogue was broken; `details.code` names it (`kind-not-declared`, ...).
pub const REFUSED: u32 = 8;
/// PostgreSQL answered with an error; `details.sqlstate` has its code.
pub const DATABASE: u32 = 9;
/// The database, or a place in a bounded pool or queue, was not available in time.
pub const UNAVAILABLE: u32 = 10;
/// The deadline of the call passed.
pub const TIMED_OUT: u32 = 11;
/// A reply that a handler made on purpose: `details.status` and `details.code` are for the client,
/// and so is the message.
pub const REPLY: u32 = 12;
/// The host does not offer this function (it is older than the plugin expects).
pub const UNSUPPORTED: u32 = 13;
/// Another server was not asked or not reached, or its answer did not come whole; `details.kind` says why
/// ([`http_kind`]). The message has the cause, for the log.
pub const HTTP: u32 = 14;

/// Values of `kind` in the details of an [`HTTP`] error; an unknown one is as good as `broken-off`.
///
/// ```
/// use cardinal_plugin_abi::{Error, error::{self, http_kind}};
///
/// let details = format!(r#"{{"kind":"{}"}}"#, http_kind::TIMED_OUT);
/// let error = Error { details: details.into(), ..Error::new(error::HTTP, "the shop did not answer in 15 s") };
/// assert_eq!(error.details.as_text(), Some(r#"{"kind":"timed-out"}"#));
/// ```
pub mod http_kind {
    /// The URL is none, or not one that the host asks. The message says what is wrong with it and is for the client,
    /// whose URL it may be.
    pub const INVALID_URL: &str = "invalid-url";
    /// Every address of the server is in a network that the operator has not opened.
    pub const ADDRESS_REFUSED: &str = "address-refused";
    /// The name was not found.
    pub const NAME_NOT_FOUND: &str = "name-not-found";
    /// No address took the connection.
    pub const CONNECT: &str = "connect";
    /// No secure connection could be made.
    pub const TLS: &str = "tls";
    /// The request's time was over.
    pub const TIMED_OUT: &str = "timed-out";
    /// The body is larger than the request allows.
    pub const TOO_LARGE: &str = "too-large";
    /// The server broke off, or does not speak HTTP.
    pub const BROKEN_OFF: &str = "broken-off";
}

/// Bits of [`Error::flags`]. Either side ignores and passes on those that it does not know.
///
/// ```
/// use cardinal_plugin_abi::error::flags;
///
/// let set = flags::HOST | flags::RETRY;
/// assert!(set & flags::RETRY != 0 && set & flags::PUBLIC == 0);
/// ```
pub mod flags {
    /// Trying the same again later may help. Either side may set it.
    pub const RETRY: u32 = 1;
    /// The message may be shown to the client as it is. Either side may set it on a message of its own.
    pub const PUBLIC: u32 = 2;
    /// The host made this error: the host alone sets it. A plugin that passes an error on leaves the bit as it is, so
    /// that the failure is not counted as the plugin's. It counts once for each error that the host has given the
    /// instance; one that the host never gave is the plugin's own.
    pub const HOST: u32 = 4;
}

impl Error {
    /// Makes an error with a code and a message, without flags and details.
    ///
    /// ```
    /// use cardinal_plugin_abi::{Error, error};
    ///
    /// let error = Error::new(error::INVALID_ARGUMENT, "the query is not JSON");
    /// assert_eq!((error.code, error.flags), (error::INVALID_ARGUMENT, 0));
    /// ```
    pub fn new(code: u32, message: impl Into<String>) -> Self {
        Self { code, flags: 0, message: Bytes::from(message.into()), details: Bytes::EMPTY }
    }

    /// Makes the error that stands for a caught panic.
    ///
    /// ```
    /// use cardinal_plugin_abi::{Error, error};
    ///
    /// assert_eq!(Error::panicked("no price for L1").code, error::PANICKED);
    /// ```
    pub fn panicked(message: impl Into<String>) -> Self {
        Self::new(PANICKED, message)
    }

    /// Returns the message, with a replacement for what is not UTF-8.
    ///
    /// ```
    /// use cardinal_plugin_abi::{Bytes, Error};
    ///
    /// let foreign = Error { message: Bytes::from_static(b"no pr\xffce"), ..Error::default() };
    /// assert_eq!(foreign.text(), "no pr\u{fffd}ce");
    /// ```
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.message.get()).into_owned()
    }
}
