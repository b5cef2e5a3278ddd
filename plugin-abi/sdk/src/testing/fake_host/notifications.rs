//! Notifications of the test's own database.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use cardinal_plugin_abi::{
    Bytes, CallId, CtxId, Error, Fut, Slice, Stream, error as codes,
    extension::Channels,
    record::{self, listen as request_field, notification},
    stream::Source,
};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::AbortHandle,
};

use super::{FakeHost, host, lock};

/// What the functions of the table find behind the extension's number.
pub(super) static EXTENSION: Channels = Channels { listen, channel };

/// Bytes of a channel's name, as a host has it.
const MAX_NAME_BYTES: usize = 100;

/// A stream that is open.
pub(in crate::testing) struct Listener {
    ctx: CtxId,
    call: CallId,
    pieces: UnboundedSender<Vec<u8>>,
    connection: AbortHandle,
}

/// Where a connection puts what it hears.
pub(super) struct PayloadSender(UnboundedSender<Vec<u8>>);

impl PayloadSender {
    pub(super) fn push(&self, payload: &str) {
        let _ = self.0.send(record::write(&[(notification::PAYLOAD, payload.as_bytes())])); // the stream may be gone
    }
}

/// The plugin's end; dropping it ends the connection.
struct Pieces {
    pieces: UnboundedReceiver<Vec<u8>>,
    connection: AbortHandle,
}

impl Source for Pieces {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        self.pieces.poll_recv(cx).map(|piece| piece.map(|piece| Ok(piece.into())))
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn name_of(channel: &str) -> Result<String, Error> {
    if channel.is_empty() || channel.len() > MAX_NAME_BYTES {
        let reason = format!("a channel's name has 1 to {MAX_NAME_BYTES} bytes, not {}", channel.len());
        return Err(Error::new(codes::INVALID_ARGUMENT, reason));
    }
    let mut hash = DefaultHasher::new();
    channel.hash(&mut hash);
    Ok(format!("cardinal_{:016x}", hash.finish()))
}

extern "C" fn channel(ctx: CtxId, name: Slice<'_>) -> Fut<Bytes> {
    Fut::guarded(|| {
        let name = String::from_utf8_lossy(name.get()).into_owned();
        host(ctx).ask_fallible("channel_name", || name_of(&name).map(Into::into))
    })
}

extern "C" fn listen(ctx: CtxId, call: CallId, request: Slice<'_>) -> Fut<Stream> {
    Fut::guarded(|| {
        let host = host(ctx);
        let name = String::from_utf8_lossy(record::field(request.get(), request_field::CHANNEL)).into_owned();
        host.note(format!("listen {name}"));
        let name = match host.permit("listen").and_then(|()| name_of(&name)) {
            Ok(name) => name,
            Err(error) => return Fut::ready(Err(error)),
        };
        let Some(database) = &host.database else {
            return Fut::ready(Err(Error::new(codes::UNSUPPORTED, "this plugin was given no database")));
        };
        let (sender, pieces) = unbounded_channel();
        let connected = database.listen(&host, name, PayloadSender(sender.clone()));
        let host = host.clone();
        Fut::new(async move {
            let connection = connected.await?;
            let listener = Listener { ctx, call, pieces: sender, connection: connection.clone() };
            host.add_listener(listener);
            Ok(Stream::new(Pieces { pieces, connection }))
        })
    })
}

impl FakeHost {
    fn add_listener(self: &Arc<Self>, listener: Listener) {
        let mut listeners = lock(&self.listeners);
        listeners.retain(|listener| !listener.pieces.is_closed());
        listeners.push(listener);
    }

    /// Ends the streams of an instance.
    pub(super) fn end_listeners(&self, ctx: CtxId) {
        self.end_listeners_that(|listener| listener.ctx == ctx);
    }

    /// Ends the streams of a call.
    pub(in crate::testing) fn end_listeners_of_call(&self, call: CallId) {
        self.end_listeners_that(|listener| listener.call == call);
    }

    /// As after an outage of the database.
    pub(in crate::testing) fn lose_notifications(&self) {
        for listener in lock(&self.listeners).iter() {
            let _ = listener.pieces.send(record::write(&[(notification::GAP, b"reconnected")])); // it may be gone
        }
    }

    fn end_listeners_that(&self, ends: impl Fn(&Listener) -> bool) {
        let ended: Vec<_> = lock(&self.listeners).extract_if(.., |listener| ends(listener)).collect();
        for listener in ended {
            listener.connection.abort(); // with which the last sender goes
        }
    }
}
