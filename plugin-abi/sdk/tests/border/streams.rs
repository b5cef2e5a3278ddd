//! Bodies in pieces, both ways.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use cardinal_plugin::{
    __private::abi::{Bytes, Error, Stream, error as codes, stream::Source},
    block_on, json,
};

use super::{
    fake_host::request,
    plugin::{Instance, json_of},
};

/// Pieces of a client, each a while after the one before.
struct Pieces(std::vec::IntoIter<Result<&'static str, u32>>, bool);

impl Source for Pieces {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        self.1 = !self.1;
        if self.1 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let piece = self.0.next();
        Poll::Ready(piece.map(|piece| piece.map(|text| text.to_owned().into()).map_err(|code| Error::new(code, "x"))))
    }
}

fn upload(pieces: Vec<Result<&'static str, u32>>) -> cardinal_plugin::__private::abi::Request {
    let mut sent = request(&[], "");
    sent.stream = Stream::new(Pieces(pieces.into_iter(), false));
    sent
}

#[test]
fn a_streamed_body_can_be_had_whole_and_again() {
    let plugin = Instance::new();
    for pieces in [vec![], vec!["one"], vec!["one", "", "two", "three"]] {
        let sent = upload(pieces.iter().map(|piece| Ok(*piece)).collect());
        assert_eq!(plugin.call("/body", sent).unwrap().body.get(), pieces.concat().as_bytes());
    }
}

#[test]
fn a_body_can_be_taken_piece_by_piece_once() {
    let plugin = Instance::new();
    let reply = plugin.call("/body-stream", upload(vec![Ok("12"), Ok("3")])).unwrap();
    assert_eq!(json_of(&reply), json!({ "pieces": [2, 1], "taken": true }));
    let reply = plugin.call("/body-stream", request(&[], "whole")).unwrap();
    assert_eq!(json_of(&reply), json!({ "pieces": [5], "taken": true }));
}

#[test]
fn a_client_that_goes_away_while_sending_is_an_error() {
    let plugin = Instance::new();
    for path in ["/body", "/body-stream"] {
        let error = plugin.call(path, upload(vec![Ok("12"), Err(codes::CANCELLED)])).unwrap_err();
        assert_eq!(error.code, codes::CANCELLED);
    }
}

fn drain(stream: &mut Stream) -> Vec<Result<String, u32>> {
    let mut got = Vec::new();
    while let Some(piece) = block_on(stream.next()) {
        got.push(piece.map(|bytes| bytes.as_text().unwrap().to_owned()).map_err(|error| error.code));
    }
    got
}

#[test]
fn a_reply_comes_piece_by_piece() {
    let plugin = Instance::new();
    let mut reply = plugin.get("/reply-stream").unwrap();
    assert_eq!(drain(&mut reply.stream), [Ok("0".to_owned()), Ok("1".to_owned()), Ok("2".to_owned())]);
    plugin.host.until_journal("reply dropped");
}

#[test]
fn an_error_among_the_pieces_ends_the_reply() {
    let plugin = Instance::new();
    let mut reply = plugin.call("/reply-stream", request(&[(3, "fails")], "")).unwrap();
    assert_eq!(drain(&mut reply.stream), [Ok("0".to_owned()), Err(codes::INTERNAL)]);
}

#[test]
fn a_client_that_goes_away_drops_the_reply_also_after_the_instance() {
    let plugin = Instance::new();
    let mut reply = plugin.get("/reply-stream").unwrap();
    assert!(block_on(reply.stream.next()).unwrap().is_ok());
    let host = plugin.host.clone();
    plugin.shut_down();
    drop(plugin);
    assert!(!host.journal().contains(&"reply dropped".to_owned()));
    drop(reply);
    host.until_journal("reply dropped");
}
