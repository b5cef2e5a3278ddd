//! The doors as a library sees them: plain functions that take numbers, from any thread, at any
//! time.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::Duration,
};

use cardinal_control::crash::{PluginTag, current};
use cardinal_plugin_abi::{Slice, Stream, error, host::Id};
use cardinal_plugin_host::{
    bridge::host_api,
    connection::{LoginRepair, PluginPool},
    context::PluginIdentity,
};
use serde_json::json;
use tokio::runtime::Handle;

use crate::support::{Echo, create, identity};

const NOBODY: Id = Id { bytes: [0; 16] };

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread, without any runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// The code of each door's refusal of these numbers.
fn refusals(ctx: u64, call: u64, conn: u64) -> Vec<(&'static str, u32)> {
    let (host, none) = (host_api(), Slice::default());
    let some = Slice::text("SELECT 1");
    fn code<T>(outcome: Result<T, cardinal_plugin_abi::Error>) -> u32 {
        outcome.err().map_or(0, |error| error.code)
    }
    vec![
        ("read_card", code(block_on(host.read_card()(ctx, call, NOBODY)))),
        ("list_cards", code(block_on(host.list_cards()(ctx, call, none)))),
        ("card_events", code(block_on(host.card_events()(ctx, call, none)))),
        ("enrich_card", code(block_on(host.enrich_card()(ctx, call, NOBODY, some, some, some)))),
        ("remove_source", code(block_on(host.remove_source()(ctx, call, NOBODY, some)))),
        ("db_connect", code(block_on(host.db_connect()(ctx, call)))),
        ("db_prepare", code(block_on(host.db_prepare()(ctx, conn, some)))),
        ("db_query", code(block_on(host.db_query()(ctx, conn, 1, none)))),
        ("db_execute", code(block_on(host.db_execute()(ctx, conn, 1, none)))),
        ("db_batch", code(block_on(host.db_batch()(ctx, conn, some)))),
        ("db_copy_in", code(block_on(host.db_copy_in()(ctx, conn, some, Stream::NONE)))),
        ("db_copy_out", code(block_on(host.db_copy_out()(ctx, conn, some)))),
        ("listen", code(block_on((host.listen().unwrap().listen)(ctx, call, none)))),
        ("http send", code(block_on((host.http_client().unwrap().send)(ctx, call, none)))),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_thread_and_a_task_of_the_plugin_may_ask() {
    let echo = Echo::new().await;
    for handler in ["thread", "task"] {
        assert_eq!(echo.call(handler).ok().await["service_user"]["name"], "echo", "{handler}");
    }
    let ctx = echo.instance.ctx();
    let thread = std::thread::spawn(move || block_on(host_api().service_user()(ctx)).unwrap());
    let user: serde_json::Value = serde_json::from_slice(thread.join().unwrap().get()).unwrap();
    assert_eq!(user["kind"], "plugin");
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_nobody_gave_are_refused() {
    let echo = Echo::new().await;
    for made_up in [0, 1, u64::MAX] {
        for (host_fn, code) in refusals(made_up, 0, 0) {
            assert_eq!(code, error::BAD_HANDLE, "{host_fn} with context {made_up}");
        }
    }
    let ctx = echo.instance.ctx();
    for (host_fn, code) in refusals(ctx, 99, 99) {
        assert_eq!(code, error::BAD_HANDLE, "{host_fn} with call and connection 99");
    }
}

/// A number that was found out opens nothing on a thread that is known to run another plugin.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_is_its_own_plugins_alone() {
    let echo = Echo::new().await;
    let (own, other) = (PluginTag::from_page(200), PluginTag::from_page(201));
    let secret = json!({"password": "s3cret"});
    let pool = Some(echo.pool.clone());
    let victim = create(&echo.services, PluginIdentity { tag: own, ..identity("victim", secret, pool) }).await;
    let ctx = victim.ctx();
    let conn = host_api().db_connect()(ctx, 0).await.unwrap().number;
    std::thread::spawn(move || {
        {
            let _other = current::enter(other.handler(1));
            for (host_fn, code) in refusals(ctx, 0, conn) {
                assert_eq!(code, error::BAD_HANDLE, "{host_fn}");
            }
            assert!(host_api().settings()(ctx).get().is_empty());
            assert_eq!(block_on(host_api().connect_options()(ctx)).unwrap_err().code, error::BAD_HANDLE);
            assert_eq!(block_on(host_api().service_user()(ctx)).unwrap_err().code, error::BAD_HANDLE);
            host_api().db_release()(ctx, conn);
        }
        let _own = current::enter(own.handler(3));
        assert!(host_api().settings()(ctx).as_text().unwrap().contains("s3cret"));
        block_on(host_api().connect_options()(ctx)).unwrap();
        block_on(host_api().db_batch()(ctx, conn, Slice::text("SELECT 1"))).unwrap();
        host_api().db_release()(ctx, conn);
    })
    .join()
    .unwrap();
    let numbers = [ctx, echo.instance.ctx(), conn];
    for number in numbers {
        for near in (1..64).flat_map(|n| [number.wrapping_add(n), number.wrapping_sub(n), number ^ (1 << n)]) {
            assert!(
                numbers.contains(&near) || host_api().settings()(near).get().is_empty(),
                "{near} leads to a plugin"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_belongs_to_its_own_plugin() {
    let echo = Echo::new().await;
    let other = create(&echo.services, identity("other", json!({}), None)).await;
    let conn = host_api().db_connect()(echo.instance.ctx(), 0).await.unwrap().number;
    let stolen = host_api().db_batch()(other.ctx(), conn, Slice::text("SELECT 1")).await;
    assert_eq!(stolen.unwrap_err().code, error::BAD_HANDLE);
    host_api().db_release()(other.ctx(), conn);
    host_api().db_batch()(echo.instance.ctx(), conn, Slice::text("SELECT 1")).await.unwrap();
    host_api().db_release()(echo.instance.ctx(), conn);
    let unsupported = host_api().db_connect()(other.ctx(), 0).await.unwrap_err();
    assert_eq!(unsupported.code, error::UNSUPPORTED, "it was given no database");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retired_plugin_is_refused_everything() {
    let echo = Echo::new().await;
    let ctx = echo.instance.ctx();
    let conn = host_api().db_connect()(ctx, 0).await.unwrap().number;
    let waiting = host_api().cancelled()(ctx, 0);
    let waiting = tokio::spawn(waiting);
    echo.instance.shutdown(Duration::ZERO).await;
    waiting.await.unwrap().unwrap();
    std::thread::spawn(move || {
        for (host_fn, code) in refusals(ctx, 0, conn) {
            assert_eq!(code, error::BAD_HANDLE, "{host_fn}");
        }
        host_api().log()(ctx, 0, 3, Slice::text("still here"), Slice::default(), Slice::default());
        host_api().metric()(ctx, 0, 1, Slice::text("n"), 1.0, Slice::default(), Slice::default());
        host_api().db_release()(ctx, conn);
        assert!(host_api().settings()(ctx).get().is_empty());
        block_on(host_api().cancelled()(ctx, 0)).unwrap();
    })
    .join()
    .unwrap();
    crate::support::eventually("its connections are closed", async || echo.pool.status().size == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_is_checked() {
    let echo = Echo::new().await;
    let ctx = echo.instance.ctx();
    let bad = Slice::new(b"\xff\xfe");
    let conn = host_api().db_connect()(ctx, 0).await.unwrap().number;
    assert_eq!(host_api().db_batch()(ctx, conn, bad).await.unwrap_err().code, error::INVALID_ARGUMENT);
    assert_eq!(host_api().db_prepare()(ctx, conn, bad).await.unwrap_err().code, error::INVALID_ARGUMENT);
    let nul = Slice::text("SELECT 1\0; DROP TABLE notes");
    assert_eq!(host_api().db_batch()(ctx, conn, nul).await.unwrap_err().code, error::INVALID_ARGUMENT);
    host_api().db_release()(ctx, conn);
    assert_eq!(host_api().list_cards()(ctx, 0, bad).await.unwrap_err().code, error::INVALID_ARGUMENT);
    for query in [bad, Slice::text("[]"), Slice::text("{\"after\": \"x\"}")] {
        assert_eq!(host_api().card_events()(ctx, 0, query).await.unwrap_err().code, error::INVALID_ARGUMENT);
    }
    host_api().log()(ctx, 0, 99, bad, bad, bad);
    host_api().metric()(ctx, 99, 99, bad, f64::NAN, bad, bad);

    let card = echo.database.card("text").await;
    let enrich = |data| {
        host_api().enrich_card()(ctx, 0, card.into_bytes().into(), Slice::text("echo:x"), Slice::text("echo"), data)
    };
    for data in [Slice::text("{"), Slice::text(""), Slice::text("{} {}"), bad] {
        assert_eq!(enrich(data).await.unwrap_err().code, error::INVALID_ARGUMENT);
    }
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    assert_eq!(enrich(Slice::text(&deep)).await.unwrap_err().code, error::REFUSED);
    let very_deep = "[".repeat(200_000);
    assert_eq!(enrich(Slice::text(&very_deep)).await.unwrap_err().code, error::REFUSED);
    assert_eq!(enrich(Slice::text("[]")).await.unwrap().number, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_nobody_fetched_is_undone() {
    let echo = Echo::with_connections(1).await;
    let ctx = echo.instance.ctx();
    for _ in 0..20 {
        let connecting = host_api().db_connect()(ctx, 0);
        tokio::task::yield_now().await;
        drop(connecting);
    }
    let conn = host_api().db_connect()(ctx, 0).await.expect("the only connection is free again").number;
    host_api().db_release()(ctx, conn);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_used_up_says_so_in_time() {
    let echo = Echo::with_connections(1).await;
    let ctx = echo.instance.ctx();
    let conn = host_api().db_connect()(ctx, 0).await.unwrap().number;
    let refused = host_api().db_connect()(ctx, 0).await.unwrap_err();
    assert_eq!((refused.code, refused.flags & error::flags::RETRY), (error::UNAVAILABLE, error::flags::RETRY));
    host_api().db_release()(ctx, conn);
    let again = host_api().db_connect()(ctx, 0).await.unwrap().number;
    host_api().db_release()(ctx, again);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_author_may_bring_his_own_driver() {
    let echo = Echo::new().await;
    let options = host_api().connect_options()(echo.instance.ctx()).await.unwrap();
    let options: serde_json::Value = serde_json::from_slice(options.get()).unwrap();
    let text = |name: &str| options[name].as_str().unwrap().to_owned();
    let mut config = tokio_postgres::Config::new();
    config.host(text("host")).port(5432).dbname(text("dbname")).user(text("user"));
    config.password(text("password")).options(text("options"));
    let (client, driver) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(driver);
    let row = client.query_one("SELECT current_schema()::text, session_user::text", &[]).await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, String>(1)), ("plugin_echo", text("user")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_there_is_unavailable() {
    let echo = Echo::new().await;
    let mut made = echo.database.provision("gone", "").await.unwrap();
    made.connect.host = "/nonexistent".into();
    let pool = PluginPool::open(&made, 1, &Handle::current(), None).unwrap();
    let gone = create(&echo.services, identity("gone", json!({}), Some(pool))).await;
    let refused = host_api().db_connect()(gone.ctx(), 0).await.unwrap_err();
    assert_eq!(refused.code, error::UNAVAILABLE);
    assert!(!refused.text().contains("nonexistent"), "the place is for the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_locked_itself_out_is_let_in_again_by_a_step() {
    let echo = Echo::new().await;
    let made = echo.database.provision("locked", "").await.unwrap();
    let admin = echo.database.admin().await;
    let requests = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (login, role) = (echo.database.admin.clone(), made.role.clone());
    let (password, count) = (made.connect.password.clone(), requests.clone());
    let login_repair = LoginRepair::by(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let (login, back) = (login.clone(), format!("ALTER ROLE {role} PASSWORD '{}'", password.expose()));
        async move { cardinal_database::connect::connect(&login).await.unwrap().batch_execute(&back).await.is_ok() }
    });
    let pool = PluginPool::open(&made, 4, &Handle::current(), Some(login_repair)).unwrap();
    admin.batch_execute(&format!("ALTER ROLE {} PASSWORD 'mine'", made.role)).await.unwrap();
    let first = pool.get().await;
    assert!(first.is_ok(), "still locked out");
    // Once more at once is not asked for again: a plugin could go on like this for ever.
    admin.batch_execute(&format!("ALTER ROLE {} PASSWORD 'mine'", made.role)).await.unwrap();
    assert!(pool.get().await.is_err());
    assert_eq!(requests.load(std::sync::atomic::Ordering::SeqCst), 1);
}
