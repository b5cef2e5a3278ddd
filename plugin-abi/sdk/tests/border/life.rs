//! Threads, tasks, cancellation, and the end of an instance.

use std::{sync::Arc, task::Poll, thread};

use cardinal_plugin::{
    __private::abi::error as codes, CardQuery, Level, PluginContext, Uuid, block_on, json, serde_json,
    testing::SERVICE_USER, tokio,
};

use super::{
    fake_host::{lock, request},
    plugin::{Instance, json_of, poll},
};

#[test]
fn the_plugins_tokio_is_there_on_a_thread_that_has_none() {
    assert_eq!(Instance::new().get("/timer").unwrap().body.get(), b"timed out");
}

#[test]
fn what_is_printed_is_in_the_plugins_own_log() {
    let plugin = Instance::new();
    plugin.get("/print").unwrap();
    let log = lock(&plugin.host.log);
    for (level, text) in [(Level::Info, "2 printed lines"), (Level::Warn, "printed as an error")] {
        let found = log.iter().any(|line| line.is(level) && line.call == 1 && line.message == text);
        assert!(found, "{text} is not in {log:?}");
    }
}

#[test]
fn the_plugins_tokio_is_there_when_a_call_is_dropped() {
    let plugin = Instance::new();
    let mut call = plugin.start("/drop");
    assert!(poll(&mut call).is_pending());
    drop(call);
    plugin.host.until_journal("spawned in a drop");
}

#[test]
fn a_call_may_be_polled_by_one_thread_after_the_other() {
    let plugin = Instance::new();
    plugin.host.hold("read_card");
    let mut call = plugin.start("/read");
    for _ in 0..3 {
        call = thread::spawn(move || {
            assert!(poll(&mut call).is_pending());
            call
        })
        .join()
        .unwrap();
    }
    plugin.host.finish("read_card");
    assert_eq!(block_on(call).unwrap().body.get(), b"Lamp");
}

#[test]
fn dropping_a_call_cancels_what_it_asked_of_the_host() {
    let plugin = Instance::new();
    plugin.host.hold("read_card");
    let mut call = plugin.start("/read");
    assert!(poll(&mut call).is_pending());
    drop(call);
    assert_eq!(plugin.host.journal(), ["read_card in call 1", "cancelled read_card"]);
}

#[test]
fn an_answer_that_was_never_polled_is_cancelled_by_its_drop() {
    let plugin = Instance::new();
    plugin.host.hold("read_card");
    block_on(plugin.context().service_user()).unwrap(); // asked for once, to be compared with
    drop(plugin.context().read_card(Uuid::nil(), SERVICE_USER));
    assert_eq!(plugin.host.journal(), ["read_card in call 0", "cancelled read_card"]);
}

/// Everything that can be asked, in a row.
async fn ask_all(ctx: PluginContext) -> Vec<bool> {
    let (id, own) = (Uuid::nil(), SERVICE_USER);
    ctx.log(Level::Info, "asking");
    vec![
        ctx.read_card(id, own).await.is_ok(),
        ctx.list_cards(CardQuery::new()).await.is_ok(),
        ctx.enrich_card(id, own, "echo:x", "echo", &1).await.is_ok(),
        ctx.service_user().await.is_ok(),
        ctx.connect_options().await.is_ok(),
        ctx.get_plugin_conn().await.is_ok(),
        ctx.pool().get().await.is_ok(),
        ctx.settings::<serde_json::Value>().is_ok(),
    ]
}

#[test]
fn the_host_can_be_asked_from_a_task_a_plain_thread_and_any_executor() {
    let plugin = Instance::new();
    let ctx = plugin.context();
    let asked = ctx.clone();
    assert_eq!(block_on(ctx.spawn(ask_all(asked))).unwrap(), [true; 8]);
    let asked = ctx.clone();
    assert_eq!(thread::spawn(move || block_on(ask_all(asked))).join().unwrap(), [true; 8]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(ask_all(ctx)), [true; 8]);
}

#[test]
fn a_task_waits_for_the_host_on_the_plugins_own_executor() {
    let plugin = Instance::new();
    plugin.host.hold("read_card");
    let mut call = plugin.start("/read-task");
    assert!(poll(&mut call).is_pending());
    plugin.host.until_asked("read_card");
    plugin.host.finish("read_card");
    assert_eq!(block_on(call).unwrap().body.get(), b"Lamp");
}

#[test]
fn after_the_shutdown_everything_is_a_clean_error() {
    let plugin = Instance::new();
    let ctx = plugin.context();
    assert_eq!(plugin.get("/hello").unwrap().status, 201);
    *lock(&plugin.host.retired) = true;
    plugin.shut_down();
    let refused = [false, false, false, false, false, false, false, true]; // settings have no errors to give
    assert_eq!(block_on(ask_all(ctx.clone())), refused);
    assert_eq!(plugin.get("/hello").unwrap_err().code, codes::BAD_HANDLE);
    assert!(block_on(ctx.spawn(async { 1 })).unwrap_err().is_cancelled());
    assert!(ctx.cancelled());
    drop(plugin);
    assert_eq!(thread::spawn(move || block_on(ask_all(ctx))).join().unwrap(), refused);
}

#[test]
fn a_shutdown_ends_the_tasks_of_its_instance_and_no_others() {
    let (first, second) = (Instance::new(), Instance::new());
    for plugin in [&first, &second] {
        assert_eq!(plugin.get("/task-forever").unwrap().status, 204);
        plugin.host.until_journal("task runs");
    }
    first.shut_down();
    assert_eq!(first.host.journal(), ["task runs", "task dropped"]);
    assert_eq!(second.host.journal(), ["task runs"]);
    assert_eq!(second.get("/timer").unwrap().status, 200, "the io thread is still there");
    second.shut_down();
    assert_eq!(second.host.journal(), ["task runs", "task dropped"]);
}

#[test]
fn a_shutdown_of_an_instance_that_did_nothing_is_over_at_once() {
    let plugin = Instance::new();
    plugin.shut_down();
    plugin.shut_down(); // twice is odd, and harmless
}

#[test]
fn an_aborted_task_says_so() {
    let plugin = Instance::new();
    let mut task = plugin.context().spawn(std::future::pending::<()>());
    assert!(!task.is_finished() && poll(&mut task).is_pending());
    task.abort();
    assert!(block_on(&mut task).unwrap_err().is_cancelled());
    assert!(task.is_finished());
}

#[test]
fn wakers_may_fire_after_the_drop_after_the_shutdown_and_from_any_thread() {
    let plugin = Instance::new();
    plugin.host.hold("read_card");
    // Two kinds of wakers go to the host: that of the caller, passed on, and that of the plugin's
    // own executor.
    let mut direct = plugin.start("/read");
    let mut through_task = plugin.start("/read-task");
    assert!(poll(&mut direct).is_pending() && poll(&mut through_task).is_pending());
    plugin.host.until_asked("read_card");
    drop((direct, through_task));
    let host = plugin.host.clone();
    let wakes = |host: &Arc<super::fake_host::FakeHost>| {
        let threads: Vec<_> = (0..4).map(|_| host.clone()).collect();
        let threads = threads.into_iter().map(|host| thread::spawn(move || host.finish("read_card")));
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    };
    wakes(&host);
    plugin.shut_down();
    wakes(&host);
    drop(plugin);
    wakes(&host);
}

#[test]
fn a_call_can_ask_whether_it_is_cancelled() {
    let plugin = Instance::new();
    assert_eq!(json_of(&plugin.get("/cancelled").unwrap()), json!([false, false]));
    lock(&plugin.host.holding).clear();
    lock(&plugin.host.cancelled).insert(1);
    assert_eq!(json_of(&plugin.get("/cancelled").unwrap()), json!([true, true]));
    let mut until = plugin.context().until_cancelled();
    assert_eq!(poll(&mut std::pin::pin!(&mut until)), Poll::Pending);
    plugin.host.stop(plugin.host.ctx);
    block_on(until);
}

#[test]
fn many_calls_at_a_time_from_many_threads() {
    let plugin = Instance::new();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for n in 0..200 {
                    let path = ["/hello", "/timer", "/read-task", "/panic-poll"][n % 4];
                    let expected = if path == "/panic-poll" { Err(codes::PANICKED) } else { Ok(()) };
                    let got = plugin.call(path, request(&[], "")).map(drop).map_err(|error| error.code);
                    assert_eq!(got, expected, "{path}");
                }
            });
        }
    });
}
