//! What goes into a call of a plugin's handler and what comes out, in the host's own types.

use std::{borrow::Cow, net::IpAddr, pin::Pin, sync::Arc, time::Instant};

use bytes::Bytes;
use http::HeaderMap;

use super::{instance::ReplyStream, progress::ProgressSender};
use cardinal_base::request_id::RequestId;
use cardinal_identity::auth::caller::Caller;
use cardinal_observe::{plugins::Cause, trace::Trace};

/// A failure inside a body that is read or written piece by piece.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// A streamed request body. Its limits and time-outs are the host's, already around it.
pub type BodyStream = Pin<Box<dyn http_body::Body<Data = Bytes, Error = BodyError> + Send>>;

/// A path's parameters: name and value, percent-decoded, in the template's order.
pub type PathParams<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// One call, complete. It is laid out for the plugin before the call begins, so most of it is lent.
pub struct CallParts<'a> {
    /// Upper case; empty in a tool call.
    pub method: &'a str,
    /// Below the plugin's prefix, beginning with `/`, as it came.
    pub path: &'a str,
    /// Without `?`, as it came.
    pub query: &'a str,
    pub params: PathParams<'a>,
    /// As they came: those that no plugin sees are left out when they are laid out.
    pub headers: &'a HeaderMap,
    pub body: CallBody,
    pub caller: Arc<Caller>,
    pub request_id: RequestId,
    /// The request's place in its trace, the parent of the call's.
    pub trace: Option<Trace>,
    pub deadline: Instant,
    pub peer: Option<IpAddr>,
    /// The name of the tool that is called; `body` holds its arguments.
    pub tool: Option<&'a str>,
    /// Takes the plugin's progress reports; none where they are not read.
    pub progress: Option<ProgressSender>,
}

/// A request's body.
pub enum CallBody {
    Full(Bytes),
    /// With the length that the client announced.
    Stream(BodyStream, Option<u64>),
}

/// What a handler answered, checked.
#[derive(Debug)]
pub struct PluginReply {
    /// 200..=599.
    pub status: http::StatusCode,
    pub headers: HeaderMap,
    pub body: ReplyBody,
}

/// A reply's body.
#[derive(Debug)]
pub enum ReplyBody {
    Full(Bytes),
    Stream(ReplyStream),
}

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
