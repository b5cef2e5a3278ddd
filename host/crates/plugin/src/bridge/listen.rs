//! The extension `LISTEN`: notifications of PostgreSQL on the plugin's own channels.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use cardinal_plugin_abi::{
    Bytes, CallId, CtxId, Error, Fut, Slice, Stream,
    extension::Channels,
    record::{self, listen as request_field, notification},
    stream::Source,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::host_fn::{begin_with, contained, find_call, live, text};
use crate::listen::{Item, Listener, Listeners};

/// What the extension's number leads to.
pub(super) static EXTENSION: Channels = Channels { listen, channel };

extern "C" fn listen(ctx: CtxId, call: CallId, request: Slice<'_>) -> Fut<Stream> {
    begin_with(
        ctx,
        |scope| {
            let call = find_call(ctx, call)?.map(|call| call.cancellation());
            let name = text(Slice::new(record::field(request.get(), request_field::CHANNEL)), "the channel's name")?;
            let listeners = Arc::clone(&scope.listeners);
            Ok(async move {
                let listener = listeners.listen(&name, call.clone()).await?;
                let call = call.map(|call| Box::pin(CancellationToken::cancelled_owned(call)));
                Ok(NotificationSource { listeners, listener, call })
            })
        },
        Stream::new,
    )
}

extern "C" fn channel(ctx: CtxId, name: Slice<'_>) -> Fut<Bytes> {
    Fut::ready(contained(ctx, || {
        let channel = live(ctx)?.listeners.channel(&text(name, "the channel's name")?)?;
        Ok(Bytes::from(channel.name().to_owned()))
    }))
}

/// The plugin's end of a listener.
struct NotificationSource {
    listeners: Arc<Listeners>,
    listener: Arc<Listener>,
    /// Ready when the call is over.
    call: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl Source for NotificationSource {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if let Some(call) = &mut self.call
            && call.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(None);
        }
        let piece = match ready!(self.listener.queue.poll_next(cx)) {
            Some(Item::Payload(payload)) => record::write(&[(notification::PAYLOAD, payload.as_bytes())]),
            Some(Item::Gap(gap)) => record::write(&[(notification::GAP, gap.name().as_bytes())]),
            None => return Poll::Ready(None),
        };
        Poll::Ready(Some(Ok(Bytes::from_vec(piece))))
    }
}

impl Drop for NotificationSource {
    fn drop(&mut self) {
        self.listener.queue.close();
        self.listeners.note_change();
    }
}
