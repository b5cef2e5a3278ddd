//! Every way in which a plugin can panic: the call ends, the plugin goes on, the host is unharmed.

use cardinal_plugin_host::call::{CallFault, ReplyBody};
use http_body_util::BodyExt;

use crate::support::Echo;

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_ends_its_call_alone() {
    let echo = Echo::new().await;
    assert!(echo.call("panic_sync").panic().await.contains("in the sync part"));
    assert!(echo.call("panic_poll").panic().await.contains("in a poll"));
    echo.call("panic_twice").panic().await;
    assert_eq!(echo.call("hello").ok().await["greeting"], "hello");
    assert_eq!(echo.instance.in_flight(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_a_call_is_dropped_is_swallowed() {
    let echo = Echo::new().await;
    let call = echo.call("panic_drop").query("hang=1").begin();
    assert!(tokio::time::timeout(std::time::Duration::from_millis(20), call).await.is_err());
    let _ = echo.call("panic_drop").send().await; // the reply or its panic: nothing worse
    assert_eq!(echo.call("hello").ok().await["greeting"], "hello");
    assert_eq!(echo.instance.in_flight(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_stream_ends_the_stream() {
    let echo = Echo::new().await;
    let reply = echo.call("panic_stream").send().await.unwrap();
    let ReplyBody::Stream(mut stream) = reply.body else { panic!("not a stream") };
    assert!(stream.frame().await.unwrap().is_ok());
    assert!(stream.frame().await.unwrap().is_ok());
    assert!(stream.frame().await.unwrap().is_err());
    assert!(stream.frame().await.is_none());
    assert_eq!(echo.instance.in_flight(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_the_plugins_own_task_stays_there() {
    let echo = Echo::new().await;
    assert!(echo.call("panic_task").send().await.is_err());
    assert_eq!(echo.call("hello").ok().await["greeting"], "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_cannot_be_sent_is_named() {
    let echo = Echo::new().await;
    match echo.call("bad_status").send().await {
        Err(CallFault::BadReply { reason }) => assert!(reason.contains("42"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(echo.instance.in_flight(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_a_stream_is_the_streams_end() {
    let echo = Echo::new().await;
    let reply = echo.call("error_stream").send().await.unwrap();
    let ReplyBody::Stream(stream) = reply.body else { panic!("not a stream") };
    assert!(stream.collect().await.is_err());
}
