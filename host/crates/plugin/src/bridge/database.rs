//! The doors to the plugin's own database.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use cardinal_plugin_abi::{
    Answer, Bytes, CallId, CtxId, Error, Fut, Slice, Stream,
    door::contain,
    host::{ConnId, StmtId},
    stream::Source,
};
use futures_util::TryFutureExt;
use tokio::sync::mpsc;

use super::{
    call::{CallScope, Waiting},
    host_fn::{begin, begin_with, contained, find_call, live, report, sql},
    scope::{self, Scope},
    table::Table,
};
use crate::{
    connection::{Connection, CopyOut, Rows},
    fault::Fault,
    lane::{NO_HANDLER, pump},
};

static CONNECTIONS: Table<Arc<Checkout>> = Table::new();

/// A connection in a plugin's hands.
struct Checkout {
    ctx: CtxId,
    connection: Arc<Connection>,
    /// Who asked for it.
    call: Option<Arc<CallScope>>,
}

/// Takes back every connection that a plugin still holds.
pub(crate) fn reclaim(ctx: CtxId) {
    for checkout in CONNECTIONS.remove_where(|checkout| checkout.ctx == ctx) {
        checkout.connection.release();
    }
}

fn checkout(ctx: CtxId, number: ConnId) -> Result<Arc<Checkout>, Fault> {
    live(ctx)?;
    let checkout = CONNECTIONS.get(number).filter(|checkout| checkout.ctx == ctx);
    checkout.ok_or_else(|| Fault::Gone("the connection was given back".to_owned()))
}

fn connection(ctx: CtxId, number: ConnId) -> Result<Arc<Connection>, Fault> {
    Ok(checkout(ctx, number)?.connection.clone())
}

/// The connection, to run something on: the call that has it waits for the database from now on.
fn busy(ctx: CtxId, number: ConnId) -> Result<(Arc<Connection>, Option<Waiting>), Fault> {
    let checkout = checkout(ctx, number)?;
    Ok((checkout.connection.clone(), Waiting::start(checkout.call.as_ref())))
}

/// A connection's number on its way to the plugin. Dropped before it got there, it goes back.
struct ConnectionHandover(ConnId);

impl ConnectionHandover {
    fn deliver(self) -> Answer {
        let number = self.0;
        std::mem::forget(self);
        number.into()
    }
}

impl Drop for ConnectionHandover {
    fn drop(&mut self) {
        give_back(self.0);
    }
}

/// Gives a connection back, unless it has gone back already.
fn give_back(number: ConnId) {
    if let Some(checkout) = CONNECTIONS.remove(number) {
        if let Some(call) = &checkout.call {
            call.gave_back(number);
        }
        checkout.connection.release();
    }
}

pub extern "C" fn connect(ctx: CtxId, call: CallId) -> Fut<Answer> {
    let start = |scope: &Arc<Scope>| {
        let (scope, call) = (scope.clone(), find_call(ctx, call)?);
        let waiting = Waiting::start(call.as_ref());
        Ok(async move {
            let _waiting = waiting;
            let connection = scope.context.pool()?.get().await?;
            let number = CONNECTIONS.insert(Arc::new(Checkout { ctx, connection, call: call.clone() }));
            let ticket =
                ConnectionHandover(number.ok_or_else(|| Fault::Unavailable(anyhow::anyhow!("too many connections")))?);
            live(ctx)?; // retired meanwhile: `reclaim` may have been and gone
            if call.is_some_and(|call| !call.has_taken(ticket.0, give_back)) {
                return Err(Fault::Gone("the call is over".to_owned()));
            }
            Ok(ticket)
        })
    };
    begin_with(ctx, start, ConnectionHandover::deliver)
}

pub extern "C" fn release(ctx: CtxId, number: ConnId) {
    contain(|| {
        if connection(ctx, number).is_ok() {
            give_back(number);
        }
    });
}

pub extern "C" fn prepare(ctx: CtxId, number: ConnId, text: Slice<'_>) -> Fut<Bytes> {
    let cached = contained(ctx, || Ok(connection(ctx, number)?.prepared(text.as_text().unwrap_or_default())));
    if let Ok(Some(description)) = cached {
        return Fut::ready(Ok(Bytes::from_owner(description)));
    }
    begin(ctx, |_| {
        let ((connection, waiting), sql) = (busy(ctx, number)?, sql(text)?);
        Ok(async move {
            let _waiting = waiting;
            Ok(Bytes::from_owner(connection.prepare(sql).await?))
        })
    })
}

pub extern "C" fn query(ctx: CtxId, number: ConnId, statement: StmtId, params: Slice<'_>) -> Fut<Stream> {
    begin(ctx, |_| {
        let (connection, waiting) = busy(ctx, number)?;
        let call = waiting.as_ref().map(|waiting| Arc::clone(waiting.call()));
        let params = bytes::Bytes::copy_from_slice(params.get());
        Ok(async move {
            let rows = connection.query(statement, params).await?;
            Ok(Stream::new(RowSource { ctx, rows, call, waiting }))
        })
    })
}

pub extern "C" fn execute(ctx: CtxId, number: ConnId, statement: StmtId, params: Slice<'_>) -> Fut<Answer> {
    begin(ctx, |_| {
        let (connection, waiting) = busy(ctx, number)?;
        let params = bytes::Bytes::copy_from_slice(params.get());
        Ok(async move {
            let _waiting = waiting;
            connection.execute(statement, params).await.map(Answer::from)
        })
    })
}

pub extern "C" fn batch(ctx: CtxId, number: ConnId, text: Slice<'_>) -> Fut<Answer> {
    begin(ctx, |_| {
        let ((connection, waiting), sql) = (busy(ctx, number)?, sql(text)?);
        Ok(async move {
            let _waiting = waiting;
            connection.batch(sql).await.map(|()| Answer::default())
        })
    })
}

pub extern "C" fn copy_in(ctx: CtxId, number: ConnId, text: Slice<'_>, data: Stream) -> Fut<Answer> {
    let start = |scope: &Arc<Scope>| {
        let (connection, sql) = (connection(ctx, number)?, sql(text)?);
        let data = PluginStream::new(scope, data)?;
        Ok(connection.copy_in(sql, data).map_ok(|copied| copied.map(Answer::from)))
    };
    let outcome: Fut<Result<Answer, Error>> = begin(ctx, start);
    // An error of the plugin's own stream comes back to it as it was.
    Fut::new(async move { outcome.await? })
}

pub extern "C" fn copy_out(ctx: CtxId, number: ConnId, text: Slice<'_>) -> Fut<Stream> {
    begin(ctx, |_| {
        let (connection, sql) = (connection(ctx, number)?, sql(text)?);
        Ok(async move { Ok(Stream::new(CopySource(ctx, connection.copy_out(sql).await?))) })
    })
}

pub extern "C" fn connect_options(ctx: CtxId) -> Fut<Bytes> {
    begin(ctx, |scope| {
        let options = scope.context.pool()?.connect_options().to_string();
        Ok(async move { Ok(Bytes::from(options)) })
    })
}

struct RowSource {
    ctx: CtxId,
    rows: Rows,
    call: Option<Arc<CallScope>>,
    waiting: Option<Waiting>,
}

impl Source for RowSource {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let (ctx, polled) = (self.ctx, self.rows.poll_batch(cx));
        if polled.is_ready() {
            self.waiting = None; // what the plugin does between two batches is its own time
        } else if self.waiting.is_none() {
            self.waiting = Waiting::start(self.call.as_ref());
        }
        polled.map(|batch| batch.map(|batch| batch.map(Bytes::from_vec).map_err(|fault| report(ctx, fault))))
    }
}

struct CopySource(CtxId, CopyOut);

impl Source for CopySource {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let Self(ctx, out) = &mut *self;
        out.poll_piece(cx)
            .map(|piece| piece.map(|piece| piece.map(Bytes::from_owner).map_err(|fault| report(*ctx, fault))))
    }
}

/// A stream of the plugin's that the host reads. Its code may block, so the plugin's lane makes the pieces, one ahead.
struct PluginStream(mpsc::Receiver<Piece>);

type Piece = Result<bytes::Bytes, Error>;

impl PluginStream {
    fn new(scope: &Arc<Scope>, stream: Stream) -> Result<Self, Fault> {
        let gone = || Fault::Gone("the plugin is stopping".to_owned());
        let spawner = scope.placement().ok_or_else(gone)?.threads().spawner();
        let lease = StreamLease::take(scope).ok_or_else(gone)?;
        let (feed, pieces) = mpsc::channel(1);
        spawner
            .send::<(), _>(NO_HANDLER, |_| pump(stream, lease, feed, |piece| piece.map(bytes::Bytes::from_owner)))
            .detach();
        Ok(Self(pieces))
    }
}

impl futures_util::Stream for PluginStream {
    type Item = Piece;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

/// Keeps the instance of a stream while it lasts.
struct StreamLease {
    scope: Arc<Scope>,
    _instance: scope::Anchor,
}

impl StreamLease {
    fn take(scope: &Arc<Scope>) -> Option<Self> {
        let instance = scope.anchor()?;
        scope.leases.take().then(|| Self { scope: scope.clone(), _instance: instance })
    }
}

impl Drop for StreamLease {
    fn drop(&mut self) {
        self.scope.leases.give_back();
    }
}
