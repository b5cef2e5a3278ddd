//! The host's client for other servers: the test answers in their place.

use std::sync::Arc;

use cardinal_plugin_abi::{self as abi, CallId, CtxId, Error, Fut, Slice, error as codes, extension::HttpClient};

use super::{host, lock};
use crate::testing::{SentRequest, ServerAnswer};

/// The host's own bound of a body when the request does not say.
const DEFAULT_MAX_BYTES: u64 = 8 << 20;

/// What the functions of the table find behind the extension's number.
pub(super) static EXTENSION: HttpClient = HttpClient { send };

/// Answers the plugin's requests.
pub(super) type Servers = Arc<dyn Fn(&SentRequest) -> ServerAnswer + Send + Sync>;

extern "C" fn send(ctx: CtxId, _call: CallId, request: Slice<'_>) -> Fut<abi::Reply> {
    Fut::guarded(|| {
        let (host, request) = (host(ctx), SentRequest::read(request.get()));
        if let Ok(request) = &request {
            host.note(format!("http {} {}", request.method, request.url));
        }
        let servers = lock(&host.servers).clone();
        host.ask_fallible("http", || {
            let request = request?;
            let silent = || Error::new(codes::INTERNAL, "no server answers: the test says who does with `answer_http`");
            servers.ok_or_else(silent)?(&request).into_reply(request.max_bytes.unwrap_or(DEFAULT_MAX_BYTES))
        })
    })
}
