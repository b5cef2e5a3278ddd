//! Streams that the host lends a plugin.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use cardinal_plugin_abi::{Bytes, Error, error, stream::Source};
use tokio::runtime::Handle;

use super::call::CallScope;

/// The body of a request, piece by piece, for as long as its call lives.
pub struct RequestBody {
    call: Arc<CallScope>,
    /// The body's time-outs need a runtime, and a plugin may read from a thread that has none.
    runtime: Handle,
}

impl RequestBody {
    pub fn new(call: Arc<CallScope>, runtime: Handle) -> Self {
        Self { call, runtime }
    }
}

impl Source for RequestBody {
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let _entered = self.runtime.enter();
        self.call.with_request_body(|slot| {
            let Some(body) = slot.as_mut() else {
                return Poll::Ready(Some(Err(Error::new(error::CANCELLED, "the call is over"))));
            };
            self.call.body_waits.end();
            loop {
                let ended = match body.as_mut().poll_frame(cx) {
                    Poll::Pending => {
                        self.call.body_waits.begin();
                        return Poll::Pending;
                    }
                    Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                        Ok(data) => return Poll::Ready(Some(Ok(Bytes::from_owner(data)))),
                        Err(_trailers) => continue,
                    },
                    Poll::Ready(Some(Err(error))) => Some(Err(Error::new(error::INVALID_ARGUMENT, error.to_string()))),
                    Poll::Ready(None) => None,
                };
                return Poll::Ready(ended);
            }
        })
    }
}
