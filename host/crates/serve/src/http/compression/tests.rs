use std::{
    convert::Infallible,
    io::Read as _,
    task::{Context, Poll, Waker},
};

use futures_util::{StreamExt as _, stream};
use http::{Response, request};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::sync::mpsc;

use super::*;

fn decoded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    match coding {
        Coding::Zstd => zstd::stream::read::Decoder::new(bytes).unwrap().read_to_end(&mut plain).unwrap(),
        Coding::Brotli => brotli::Decompressor::new(bytes, 4_096).read_to_end(&mut plain).unwrap(),
        Coding::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).unwrap(),
    };
    plain
}

/// As much as can be read of what has not ended yet.
fn decoded_so_far(coding: Coding, bytes: &[u8]) -> Vec<u8> {
    let mut plain = vec![0; 64 << 10];
    let mut length = 0;
    let mut reader: Box<dyn std::io::Read> = match coding {
        Coding::Zstd => Box::new(zstd::stream::read::Decoder::new(bytes).unwrap()),
        Coding::Brotli => Box::new(brotli::Decompressor::new(bytes, 4_096)),
        Coding::Gzip => Box::new(flate2::read::GzDecoder::new(bytes)),
    };
    while let Ok(more @ 1..) = reader.read(&mut plain[length..]) {
        length += more;
    }
    plain.truncate(length);
    plain
}

fn negotiation(headers: &[(&'static str, &'static str)]) -> Negotiation {
    let mut request = request::Builder::new();
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Negotiation::new(&Method::GET, request.body(()).unwrap().headers())
}

fn text(length: usize) -> Bytes {
    Bytes::from_iter((0..length).map(|n| b"{\"title\":\"drill\"}"[n % 17]))
}

fn json(body: impl Into<Bytes>) -> Reply {
    Response::builder().header("content-type", "application/json; charset=utf-8").body(Body::full(body)).unwrap()
}

async fn bytes(reply: Reply) -> Bytes {
    reply.into_body().collect().await.unwrap().to_bytes()
}

fn content_coding(reply: &Reply) -> Option<&str> {
    reply.headers().get("content-encoding").map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn every_length_comes_back_as_it_was() {
    let compression = Compression::default();
    let noise: Bytes = (0..300_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for coding in Coding::ON_THE_FLY {
        for length in [1_024, MAX_WHOLE_BODY - 1, MAX_WHOLE_BODY, MAX_WHOLE_BODY + 1, 3 << 20] {
            let mut reply = json(text(length));
            compression.apply(&negotiation(&[("accept-encoding", coding.name())]), &mut reply);
            assert_eq!(content_coding(&reply), Some(coding.name()));
            let sent = bytes(reply).await;
            assert!(sent.len() < length / 4, "{} of {length}", sent.len());
            assert_eq!(decoded(coding, &sent), text(length), "{coding:?} {length}");
        }
        let mut reply = json(noise.clone());
        compression.apply(&negotiation(&[("accept-encoding", coding.name())]), &mut reply);
        assert_eq!(decoded(coding, &bytes(reply).await), noise);
    }
}

#[tokio::test]
async fn what_is_short_or_grows_goes_out_as_it_is() {
    let compression = Compression::default();
    let mut short = json(text(1_023));
    compression.apply(&negotiation(&[("accept-encoding", "zstd")]), &mut short);
    assert_eq!((content_coding(&short), short.headers().get("vary")), (None, None));
    let noise: Bytes = (0..2_000).map(|_| rand::random::<u8>()).collect();
    let mut reply = json(noise.clone());
    compression.apply(&negotiation(&[("accept-encoding", "zstd")]), &mut reply);
    assert_eq!(
        (content_coding(&reply), &reply.headers()["vary"]),
        (None, &HeaderValue::from_static("Accept-Encoding"))
    );
    assert_eq!(bytes(reply).await, noise);
}

#[test]
fn caches_are_told_once_that_the_coding_counts() {
    for (before, after) in [("Origin", 2), ("Authorization, accept-encoding", 1)] {
        let mut reply = json(text(5_000));
        reply.headers_mut().insert("vary", HeaderValue::from_static(before));
        Compression::default().apply(&negotiation(&[("accept-encoding", "br")]), &mut reply);
        assert_eq!(reply.headers().get_all("vary").iter().count(), after, "{before}");
    }
}

#[test]
fn what_must_stay_as_it_is_does() {
    let compression = Compression::default();
    for (name, value, varies) in [
        ("content-encoding", "identity", false),
        ("content-range", "bytes 0-9/10", false),
        ("cache-control", "private, No-Transform", false),
        ("content-digest", "sha-256=:x:", false),
        ("content-type", "image/png", false),
        ("content-type", "application/zip", false),
        ("content-type", "", false),
        ("x-other", "1", true),
    ] {
        let mut reply = json(text(5_000));
        reply.headers_mut().insert(name, HeaderValue::from_static(value));
        compression.apply(&negotiation(&[("accept-encoding", "br")]), &mut reply);
        assert_eq!(content_coding(&reply).is_some_and(|coding| coding == "br"), varies, "{name}: {value}");
        assert_eq!(reply.headers().contains_key("vary"), varies, "{name}: {value}");
    }
    for status in [206, 300, 404, 422, 500] {
        let mut reply = json(text(5_000));
        *reply.status_mut() = StatusCode::from_u16(status).unwrap();
        compression.apply(&negotiation(&[("accept-encoding", "br")]), &mut reply);
        assert_eq!(content_coding(&reply), None, "{status}");
    }
    for headers in [&[("accept-encoding", "br"), ("range", "bytes=0-9")][..], &[("accept-encoding", "identity")], &[]] {
        let mut reply = json(text(5_000));
        compression.apply(&negotiation(headers), &mut reply);
        assert_eq!((content_coding(&reply), reply.headers().contains_key("vary")), (None, true), "{headers:?}");
    }
}

#[test]
fn a_compressed_answer_has_a_tag_of_its_own_and_no_ranges() {
    let mut reply = json(text(5_000));
    for (name, value) in [("etag", "\"5\""), ("accept-ranges", "bytes"), ("content-length", "5000")] {
        reply.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Compression::default().apply(&negotiation(&[("accept-encoding", "gzip")]), &mut reply);
    assert_eq!(reply.headers()["etag"], "\"5+gzip\"");
    assert!(!reply.headers().contains_key("accept-ranges") && !reply.headers().contains_key("content-length"));
}

#[tokio::test]
async fn what_was_sent_is_there_before_more_comes() {
    for coding in Coding::ON_THE_FLY {
        let (send, receive) = mpsc::channel::<&'static str>(4);
        let events =
            stream::unfold(receive, |mut receive| async { receive.recv().await.map(|event| (event, receive)) });
        let frames = events.map(|event| Ok::<_, Infallible>(Frame::data(Bytes::from_static(event.as_bytes()))));
        let mut reply = Response::new(Body::stream(StreamBody::new(frames.boxed())));
        reply.headers_mut().insert("content-type", HeaderValue::from_static("text/event-stream"));
        Compression::default().apply(&negotiation(&[("accept-encoding", coding.name())]), &mut reply);
        let (mut body, mut sent) = (reply.into_body(), Vec::new());
        let mut expected = String::new();
        let mut cx = Context::from_waker(Waker::noop());
        for event in ["data: one\n\n", "data: two\n\n", "data: three\n\n"] {
            send.send(event).await.unwrap();
            expected.push_str(event);
            while let Poll::Ready(frame) = std::pin::Pin::new(&mut body).poll_frame(&mut cx) {
                sent.extend_from_slice(&frame.unwrap().unwrap().into_data().unwrap());
            }
            assert_eq!(decoded_so_far(coding, &sent), expected.as_bytes(), "{coding:?}");
        }
        drop(send);
        sent.extend_from_slice(&body.collect().await.unwrap().to_bytes());
        assert_eq!(decoded(coding, &sent), expected.as_bytes());
    }
}

#[tokio::test]
async fn what_breaks_off_does_not_end_as_if_it_were_whole() {
    for coding in Coding::ON_THE_FLY {
        let pieces = [Ok(Frame::data(text(5_000))), Err(std::io::Error::other("the database went away"))];
        let mut reply = Response::new(Body::stream(StreamBody::new(stream::iter(pieces))));
        reply.headers_mut().insert("content-type", HeaderValue::from_static("application/x-ndjson"));
        Compression::default().apply(&negotiation(&[("accept-encoding", coding.name())]), &mut reply);
        assert_eq!(content_coding(&reply), Some(coding.name()));
        assert!(reply.into_body().collect().await.is_err());
    }
}

/// A stream of what shrinks to next to nothing never fills a connection; it must pause by itself.
#[test]
fn an_endless_stream_lets_others_have_their_turn() {
    let zeros = stream::repeat_with(|| Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[0; 1 << 20]))));
    let mut reply = Response::new(Body::stream(StreamBody::new(zeros)));
    reply.headers_mut().insert("content-type", HeaderValue::from_static("text/plain"));
    Compression::default().apply(&negotiation(&[("accept-encoding", "zstd")]), &mut reply);
    let (mut body, mut cx) = (reply.into_body(), Context::from_waker(Waker::noop()));
    let polls = (0..1_000).take_while(|_| std::pin::Pin::new(&mut body).poll_frame(&mut cx).is_ready()).count();
    assert!(polls < 1_000);
}

#[test]
fn only_so_many_streams_are_compressed_at_a_time() {
    let compression = Compression::default();
    let long = || {
        let mut reply = json(text(MAX_WHOLE_BODY + 1));
        compression.apply(&negotiation(&[("accept-encoding", "gzip")]), &mut reply);
        reply
    };
    let open: Vec<_> = (0..STREAMS).map(|_| long()).collect();
    assert!(open.iter().all(|reply| content_coding(reply) == Some("gzip")));
    assert_eq!(content_coding(&long()), None);
    drop(open);
    assert_eq!(content_coding(&long()), Some("gzip"));
}
