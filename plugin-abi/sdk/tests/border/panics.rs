//! A panic stays where it is, and is told.

use cardinal_plugin::{
    __private::{
        Plugin,
        abi::{self, door, error as codes},
        module,
    },
    PluginContext, Result, Router, block_on,
};

use super::{
    fake_host::{FakeHost, api, lock},
    plugin::{Instance, poll},
};

/// The one line that the panic `what` left in the log.
fn logged(host: &FakeHost, what: &str) -> (u32, u64, String, String) {
    let log = lock(&host.log);
    let mut lines = log.iter().filter(|line| line.message.ends_with(what));
    let line = lines.next().unwrap_or_else(|| panic!("{what} is not in the log")).clone();
    assert!(lines.next().is_none(), "{what} is told twice");
    (line.level, line.call, line.message, line.fields)
}

#[test]
fn in_the_sync_part_and_in_a_poll_it_is_the_result_of_the_call() {
    let plugin = Instance::new();
    for (path, what) in [("/panic-sync", "in the sync part"), ("/panic-poll", "in a poll")] {
        let error = plugin.get(path).unwrap_err();
        assert_eq!((error.code, error.text().as_str()), (codes::PANICKED, what));
        let (level, call, message, fields) = logged(&plugin.host, what);
        assert_eq!((level, call), (1, 1), "an error, of this call");
        assert!(message.starts_with("panicked at ") && message.contains("plugin.rs:"), "{message}");
        let fields: cardinal_plugin::serde_json::Value = cardinal_plugin::serde_json::from_str(&fields).unwrap();
        assert_eq!(fields["panic"], true);
        let frames = fields["backtrace"].as_array().unwrap();
        assert!((1..=32).contains(&frames.len()), "{fields}");
        assert!(frames.iter().all(|frame| frame.as_str().unwrap().starts_with("0x")), "{fields}");
    }
    assert_eq!(plugin.get("/hello").unwrap().status, 201, "the plugin lives on");
}

#[test]
fn in_the_drop_of_a_cancelled_call_it_is_contained_and_told() {
    let plugin = Instance::new();
    let mut call = plugin.start("/panic-drop");
    assert!(poll(&mut call).is_pending());
    drop(call);
    assert_eq!(logged(&plugin.host, "in a drop").1, 1);
}

#[test]
fn in_a_reply_stream_it_is_an_error_among_the_pieces() {
    let plugin = Instance::new();
    let mut reply = plugin.get("/panic-stream").unwrap();
    assert!(block_on(reply.stream.next()).unwrap().is_ok());
    let error = block_on(reply.stream.next()).unwrap().unwrap_err();
    assert_eq!((error.code, error.text().as_str()), (codes::PANICKED, "in a stream"));
    assert!(block_on(reply.stream.next()).is_none());
    assert_eq!(logged(&plugin.host, "in a stream").1, 1);
}

#[test]
fn in_a_task_it_is_the_error_of_who_awaits_it() {
    let plugin = Instance::new();
    let error = plugin.get("/panic-task").unwrap_err();
    assert_eq!(error.code, codes::INTERNAL);
    assert_eq!(logged(&plugin.host, "in a task").1, 1);
}

#[test]
fn in_a_thread_of_the_plugin_it_harms_nothing() {
    let plugin = Instance::new();
    assert_eq!(plugin.get("/panic-thread").unwrap().body.get(), b"it panicked");
}

/// Gives what `create` of a plugin answers.
fn create<P: Plugin>(host: &FakeHost) -> (u8, String) {
    let (mut out, mut err) = (std::ptr::null(), abi::Error::default());
    // SAFETY: both out pointers are valid; `err` is plain when overwritten.
    let tag = unsafe { module::<P>().create()(api(), host.ctx, abi::Slice::default(), &mut out, &mut err) };
    (tag, err.text())
}

struct PanicsInRoutes;

impl Plugin for PanicsInRoutes {
    const MANIFEST: &'static [u8] = br#"{"name": "bad", "version": "1.0.0"}"#;
    fn routes(_: &PluginContext) -> Result<Router> {
        panic!("in routes")
    }
}

struct NoManifest;

impl Plugin for NoManifest {
    const MANIFEST: &'static [u8] = b"{";
    fn routes(_: &PluginContext) -> Result<Router> {
        Ok(Router::new())
    }
}

#[test]
fn in_routes_it_refuses_the_instance() {
    let host = FakeHost::new();
    let (tag, message) = create::<PanicsInRoutes>(&host);
    assert_eq!(tag, door::PANICKED);
    assert!(message.starts_with("in routes (at ") && message.contains("border/panics.rs:"), "{message}");
    assert_eq!(logged(&host, "in routes").1, 0);
    let (tag, message) = create::<NoManifest>(&FakeHost::new());
    assert!(tag == door::FAILED && message.contains("manifest.json"), "{message}");
    assert!(module::<NoManifest>().describe()().get().starts_with(b"{"), "describe never fails");
}
