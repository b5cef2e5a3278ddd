//! What goes into a call of a plugin's handler and what comes out, in the host's own types.

use std::{
    borrow::Cow,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use http::HeaderMap;

pub use super::{
    deadline::Deadline,
    fault::{CallFault, PluginError},
    reply::{PluginReply, ReplyBody},
};
pub use crate::bridge::call::{BodyError, BodyStream};
use crate::{job::JobCall, progress::ProgressSender};
use cardinal_base::request_id::RequestId;
use cardinal_identity::auth::caller::Caller;
use cardinal_observe::trace::Trace;

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
    pub deadline: Deadline,
    pub peer: Option<IpAddr>,
    /// The name of the tool that is called; `body` holds its arguments.
    pub tool: Option<&'a str>,
    /// Takes the plugin's progress reports; none where they are not read.
    pub progress: Option<ProgressSender>,
    /// The job whose handler is called; `body` holds its arguments.
    pub job: Option<JobCall>,
}

impl CallParts<'_> {
    /// A call that no request to the plugin's routes makes: of a tool, or of a job's handler. `arguments` are JSON.
    pub fn from_arguments(arguments: Bytes, caller: Arc<Caller>, request_id: RequestId, deadline: Deadline) -> Self {
        static NO_HEADERS: LazyLock<HeaderMap> = LazyLock::new(HeaderMap::new);
        Self {
            method: "",
            path: "",
            query: "",
            params: Vec::new(),
            headers: &NO_HEADERS,
            body: CallBody::Full(arguments),
            caller,
            request_id,
            trace: None,
            deadline,
            peer: None,
            tool: None,
            progress: None,
            job: None,
        }
    }
}

/// A request's body.
pub enum CallBody {
    Full(Bytes),
    /// With the length that the client announced.
    Stream(BodyStream, Option<u64>),
}
