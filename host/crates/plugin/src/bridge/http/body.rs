//! The body of an answer on its way to the plugin: read by a task of the host's, a piece or two ahead.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use cardinal_plugin_abi::{Bytes, CtxId, Error, error, stream::Source};
use tokio::sync::mpsc;

use super::OpenExchange;
use crate::{
    bridge::{exchanges::Outcome, host_fn::report},
    fault::Fault,
};
use cardinal_base::http_client::{AnswerBody, ExchangeError};

/// Pieces that are read before the plugin asks for them.
const AHEAD: usize = 2;

/// What the task hands over. An end without a word is no end: the task may have been cut short.
pub(super) enum Piece {
    Data(bytes::Bytes),
    End(Result<(), Fault>),
}

/// The plugin's end.
pub(super) struct BodySource {
    ctx: CtxId,
    pieces: mpsc::Receiver<Piece>,
}

impl BodySource {
    /// With where its pieces are put.
    pub(super) fn new(ctx: CtxId) -> (Self, mpsc::Sender<Piece>) {
        // One place more, which is kept for the end.
        let (feed, pieces) = mpsc::channel(AHEAD + 1);
        (Self { ctx, pieces }, feed)
    }
}

impl Source for BodySource {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        Poll::Ready(match ready!(self.pieces.poll_recv(cx)) {
            Some(Piece::Data(data)) => Some(Ok(Bytes::from_owner(data))),
            Some(Piece::End(Ok(()))) => None,
            Some(Piece::End(Err(fault))) => Some(Err(report(self.ctx, fault))),
            None => Some(Err(Error::new(error::CANCELLED, "the host is stopping"))),
        })
    }
}

/// Reads the body to its end, or until the plugin has dropped its own. The place is free after that.
pub(super) async fn pump(mut body: AnswerBody, feed: mpsc::Sender<Piece>, exchange: OpenExchange) {
    let OpenExchange { end, count, place, max_bytes } = exchange;
    // So that the end can be put there when nobody reads.
    let Ok(last) = feed.clone().reserve_owned().await else { return };
    let outcome = end.cut_short(read(&mut body, &feed, max_bytes)).await;
    drop(body);
    drop(place);
    match outcome {
        Ok(()) => {
            count.done(Outcome::Answered);
            last.send(Piece::End(Ok(())));
        }
        Err(fault) => drop(last.send(Piece::End(Err(count.failed(fault))))),
    }
}

async fn read(body: &mut AnswerBody, feed: &mpsc::Sender<Piece>, max_bytes: u64) -> Result<(), Fault> {
    let mut left = max_bytes;
    loop {
        let piece = tokio::select! {
            biased;
            () = feed.closed() => return Ok(()),
            piece = body.next() => piece,
        };
        let Some(piece) = piece else { return Ok(()) };
        let piece = piece.map_err(Fault::Http)?;
        let too_large = || Fault::Http(ExchangeError::TooLarge(max_bytes));
        left = u64::try_from(piece.len()).ok().and_then(|length| left.checked_sub(length)).ok_or_else(too_large)?;
        if feed.send(Piece::Data(piece)).await.is_err() {
            return Ok(());
        }
    }
}
