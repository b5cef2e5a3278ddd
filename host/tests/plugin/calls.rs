//! Calls of handlers: what goes in, what comes out, how they end.

use std::{
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Wake, Waker},
    time::Duration,
};

use bytes::Bytes;
use cardinal_control::crash::{PluginTag, record::Crash, shm};
use cardinal_observe::trace::Trace;
use cardinal_plugin_host::{
    call::{CallBody, CallFault, ReplyBody},
    exports::ExportKind,
    library::SealedLibrary,
};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::json;
use time::OffsetDateTime;

use crate::support::{
    Echo, Request, WAIT_TIMEOUT, built, create, echo_library, eventually, identity, libraries, whole,
};

#[tokio::test]
async fn the_same_bytes_are_mapped_once() {
    echo_library();
    let before = libraries().resident();
    let again = libraries().open(SealedLibrary::seal(&built("libecho.so")).unwrap(), PluginTag::NOBODY).unwrap();
    assert_eq!(libraries().resident(), before);
    assert_eq!((again.description().name.as_str(), again.description().version.as_str()), ("echo", "1.0.0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_answers() {
    let echo = Echo::new().await;
    let reply = echo.call("hello").send().await.unwrap();
    assert_eq!(reply.status, 200);
    assert_eq!(reply.headers["content-type"], "application/json");
    let body: serde_json::Value = serde_json::from_slice(&whole(reply).await).unwrap();
    assert_eq!(body, json!({"greeting": "hello", "plugin": "echo", "version": "1.0.0"}));
    let metrics = echo.instance.metrics().snapshot();
    assert_eq!(metrics[0].0.name, "hellos");
}

/// Looks at what the supervisor would see running in the moment in which a call's answer is there.
struct AnswerObserver {
    shared: shm::Shared,
    running: mpsc::Sender<usize>,
}

impl Wake for AnswerObserver {
    fn wake(self: Arc<Self>) {
        let crash = Crash::read(self.shared.shm(), None, None, OffsetDateTime::UNIX_EPOCH, time::Duration::ZERO);
        self.running.send(crash.unwrap().running.iter().map(|plugin| plugin.calls).sum()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_the_answer_sees_the_plugin_run_no_more() {
    let shared = shm::Shared::new().unwrap();
    shm::adopt(shared.memory().try_clone_to_owned().unwrap()).unwrap();
    let echo = Echo::on_own_threads(shm::register("echo", "1.0.0", "0")).await;
    let (sender, running) = mpsc::channel();
    let waker = Waker::from(Arc::new(AnswerObserver { shared, running: sender }));
    let mut observed = 0;
    while observed < 20 {
        let mut call = pin!(echo.call("hello").begin());
        // Where it is answered before anybody waits, nobody is woken.
        if call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            assert_eq!(running.recv_timeout(WAIT_TIMEOUT).unwrap(), 0);
            assert_eq!(call.await.unwrap().status, 200);
            observed += 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exports_are_the_router() {
    let echo = Echo::new().await;
    let exports = echo.instance.exports();
    let hello = exports.iter().find(|export| export.name == "hello").unwrap();
    assert_eq!(hello.kind, ExportKind::Route { method: http::Method::GET, path: "/hello".into() });
    assert!(exports.iter().any(|export| export.name == "say" && export.kind == ExportKind::Handler));
    assert!(exports.iter().zip(0..).all(|(export, id)| export.id == id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_sees_what_was_sent() {
    let echo = Echo::new().await;
    let mut call = echo.call("request").query("a=%20b&a=c").param("rest", "x/ü");
    call.path = "/request/x/%C3%BC";
    call.headers.append("x-one", http::HeaderValue::from_static("1"));
    call.headers.append("x-one", http::HeaderValue::from_static("2"));
    call.peer = Some([192, 0, 2, 7].into());
    let trace = Trace::from_headers(&http::HeaderMap::new(), &mut rand::rng());
    call.trace = Some(trace);
    let seen = call.ok().await;
    assert_eq!(seen["path"], "/request/x/%C3%BC");
    assert_eq!((&seen["method"], &seen["query"], &seen["rest"]), (&json!("GET"), &json!("a=%20b&a=c"), &json!("x/ü")));
    assert_eq!((&seen["request_id"], &seen["peer"]), (&json!("req-1"), &json!("192.0.2.7")));
    assert_eq!(seen["trace_parent"].as_str().map(str::as_bytes), Some(trace.parent().as_ref()));
    assert_eq!(seen["deadline"], true);
    assert_eq!(seen["headers"].as_array().unwrap().len(), 2, "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_knows_who_calls() {
    let echo = Echo::new().await;
    let seen = echo.call("user").ok().await;
    assert_eq!(seen["user"]["id"], echo.caller.user_id.to_string());
    assert_eq!((&seen["user"]["name"], &seen["user"]["kind"]), (&json!("ada"), &json!("user")));
    assert_eq!(seen["user"]["scopes"], json!(["plugin:echo:write"]));
    assert_eq!((&seen["service_user"]["kind"], &seen["service_user"]["name"]), (&json!("plugin"), &json!("echo")));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_come_back_as_they_went() {
    let echo = Echo::new().await;
    for body in [json!({"a": [1, null, "ü"]}), json!({"large": "x".repeat(300_000)})] {
        assert_eq!(echo.call("echo").json(&body).ok().await, body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_body_is_read_as_it_comes() {
    let echo = Echo::new().await;
    let pieces = (0..100).map(|_| Ok(Frame::data(Bytes::from_static(&[7; 1000]))));
    let body = CallBody::Stream(Box::pin(StreamBody::new(futures_util::stream::iter(pieces))), Some(100_000));
    assert_eq!(echo.call("upload").body(body).ok().await, json!({"pieces": 100, "bytes": 100_000}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_off_is_an_error() {
    let echo = Echo::new().await;
    let pieces: Vec<Result<Frame<Bytes>, cardinal_plugin_host::call::BodyError>> =
        vec![Ok(Frame::data(Bytes::from_static(b"x"))), Err("the client went away".into())];
    let body = CallBody::Stream(Box::pin(StreamBody::new(futures_util::stream::iter(pieces))), None);
    assert!(echo.call("upload").body(body).error().await.message.contains("the client went away"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_reply_keeps_its_call() {
    let echo = Echo::new().await;
    let reply = echo.call("stream").query("pieces=5").send().await.unwrap();
    assert_eq!(echo.instance.in_flight(), 1);
    assert_eq!(whole(reply).await, "0\n1\n2\n3\n4\n");
    assert_eq!(echo.instance.in_flight(), 0);

    let reply = echo.call("stream").query("pieces=1000000&pause_ms=1").send().await.unwrap();
    let ReplyBody::Stream(mut stream) = reply.body else { panic!("not a stream") };
    assert!(stream.frame().await.unwrap().is_ok());
    drop(stream); // the client went away
    assert_eq!(echo.instance.in_flight(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_call_is_over() {
    let echo = Echo::new().await;
    let call = echo.call("sleep").query("ms=600000").begin();
    assert!(tokio::time::timeout(Duration::from_millis(20), call).await.is_err());
    assert_eq!(echo.instance.in_flight(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_that_authors_make_reach_the_client_and_others_do_not() {
    let echo = Echo::new().await;
    let teapot = echo.call("teapot").error().await;
    assert_eq!((teapot.status, teapot.code.as_str(), teapot.public), (418, "teapot", true));
    assert_eq!(teapot.details["errors"][0]["pointer"], "/pot");
    let internal = echo.call("/error").error().await;
    assert_eq!((internal.status, internal.public), (500, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_of_one_library_know_nothing_of_each_other() {
    let echo = Echo::new().await;
    let mut instances = Vec::new();
    for n in 0..20 {
        let settings = json!({"greeting": format!("hello {n}")});
        instances.push(create(&echo.services, identity(&format!("echo-{n}"), settings, None)).await);
    }
    for (n, instance) in instances.iter().enumerate() {
        let reply = Request::new(instance, &echo.caller, "hello").ok().await;
        assert_eq!(reply["greeting"], format!("hello {n}"));
    }
    instances[0].shutdown(Duration::ZERO).await;
    assert!(matches!(Request::new(&instances[0], &echo.caller, "hello").send().await, Err(CallFault::Retired)));
    assert_eq!(Request::new(&instances[1], &echo.caller, "hello").ok().await["greeting"], "hello 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_waits_for_calls() {
    let echo = Echo::new().await;
    let instance = create(&echo.services, identity("echo-short", json!({}), None)).await;
    let call = tokio::spawn(Request::new(&instance, &echo.caller, "sleep").query("ms=2000").begin());
    eventually("the call is under way", async || instance.in_flight() == 1).await;
    instance.shutdown(Duration::from_secs(10)).await;
    assert_eq!(call.await.unwrap().unwrap().status, 200, "it was waited for");
    assert!(matches!(Request::new(&instance, &echo.caller, "hello").send().await, Err(CallFault::Retired)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_outlives_its_plugin_still_ends_well() {
    let echo = Echo::new().await;
    let instance = create(&echo.services, identity("echo-late", json!({}), None)).await;
    let reply = Request::new(&instance, &echo.caller, "stream").query("pieces=3").send().await.unwrap();
    instance.shutdown(Duration::ZERO).await;
    drop(instance);
    // The plugin's own runtime is gone: the stream may end early, but in order, and nobody crashes.
    let ReplyBody::Stream(stream) = reply.body else { panic!("not a stream") };
    let _ = tokio::time::timeout(Duration::from_millis(200), stream.collect()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_run_side_by_side() {
    let echo = Arc::new(Echo::new().await);
    let calls = (0..200).map(|n| {
        let echo = echo.clone();
        tokio::spawn(async move { echo.call("echo").json(&json!({"n": n})).ok().await["n"] == n })
    });
    for call in calls.collect::<Vec<_>>() {
        assert!(call.await.unwrap());
    }
    assert_eq!(echo.instance.in_flight(), 0);
}
