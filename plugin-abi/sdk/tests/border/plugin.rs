//! The plugin under test, and a hand to drive it with.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock},
    task::{Context, Poll, Waker},
    time::Duration,
};

use cardinal_plugin::{
    __private::{
        Plugin,
        abi::{self, Fut, HostApiRef, PluginModuleRef, Reply, door},
        module,
    },
    CardQuery, Connection, Error, Level, PluginContext, Request, Response, Result, Router, Uuid, block_on,
    bytes::Bytes,
    futures::{StreamExt, stream},
    json, serde_json, tokio,
};

use super::fake_host::{FakeHost, api, lock};

pub(super) struct Echo;

pub(super) const MANIFEST: &str = r#"{"name": "echo", "version": "1.2.3", "mcp": {"tools": [{"handler": "hello"}]}}"#;

impl Plugin for Echo {
    const MANIFEST: &'static [u8] = MANIFEST.as_bytes();

    fn routes(ctx: &PluginContext) -> Result<Router> {
        lock(&KEPT).push((ctx.settings::<serde_json::Value>().unwrap()["kept"].as_u64(), ctx.clone()));
        Ok(Router::new()
            .get("/hello", hello)
            .post("/seen/{a}/{*rest}", seen)
            .get("/error", error)
            .get("/internal", internal)
            .get("/user", user)
            .post("/card", card)
            .get("/read", read)
            .get("/read-task", read_task)
            .get("/cancelled", cancelled)
            .get("/timer", timer)
            .get("/drop", spawns_in_drop)
            .get("/task-forever", task_forever)
            .post("/body", body)
            .post("/body-stream", body_stream)
            .get("/reply-stream", reply_stream)
            .get("/print", print)
            .get("/panic-sync", panic_sync)
            .get("/panic-poll", panic_poll)
            .get("/panic-drop", panic_drop)
            .get("/panic-stream", panic_stream)
            .get("/panic-task", panic_task)
            .get("/panic-thread", panic_thread)
            .handler("hello", hello))
    }
}

/// Contexts that `routes` was given, by the `kept` of their settings.
static KEPT: Mutex<Vec<(Option<u64>, PluginContext)>> = Mutex::new(Vec::new());

async fn hello(ctx: PluginContext, req: Request) -> Result<Response> {
    let said = json!({ "hello": ctx.name(), "version": ctx.version(), "tool": req.is_tool() });
    Ok(Response::json(&said).status(201).header("X-Echo", "1"))
}

async fn seen(_ctx: PluginContext, req: Request) -> Result<serde_json::Value> {
    let input: serde_json::Value = req.input().await?;
    let headers: Vec<_> = req.headers().collect();
    Ok(json!({
        "method": req.method().as_str(), "path": req.path(), "query": req.query(), "a": req.param("a"),
        "header": req.header("X-Some"), "headers": headers.len(), "id": req.request_id(), "peer": req.peer(),
        "trace": req.trace_parent(), "deadline": req.deadline().is_some(), "input": input,
    }))
}

async fn error(_ctx: PluginContext, _req: Request) -> Result<Response> {
    Err(Error::conflict("It is taken.").field("/sku", "exists"))
}

async fn internal(_ctx: PluginContext, _req: Request) -> Result<Response> {
    Ok(Response::text("secret".parse::<u32>()?.to_string()))
}

async fn user(ctx: PluginContext, _req: Request) -> Result<Response> {
    Ok(Response::json(&ctx.user()?))
}

async fn card(ctx: PluginContext, _req: Request) -> Result<Response> {
    let (card, user) = (Uuid::nil(), ctx.user()?.id);
    let version = ctx.enrich_card(card, user, "echo:a", "echo", &json!({ "n": 1 })).await?;
    let read = ctx.read_card(card, user).await?;
    let page = ctx.list_cards(CardQuery::new().kind("echo").limit(5)).await?;
    let removed = ctx.remove_source(card, user, "echo:a").await?;
    ctx.metrics().label("k", "v").count("n", 2);
    ctx.progress(1.0, Some(2.0), "half done");
    ctx.progress(1.5, None, "");
    ctx.as_plugin().progress(2.0, None, "of no call");
    ctx.log_with(Level::Warn, "careful", &json!({ "a": 1 }));
    let options = ctx.connect_options().await?;
    Ok(Response::json(&json!({
        "version": version, "title": read.title, "kinds": read.sources_of("supplier").len(),
        "next": page.next_cursor, "removed": removed, "options": format!("{options:?}"),
    })))
}

async fn read(ctx: PluginContext, _req: Request) -> Result<Response> {
    Ok(Response::text(ctx.read_card(Uuid::nil(), ctx.user()?.id).await?.title))
}

/// Asks from a task, whose waker is the plugin's tokio's.
async fn read_task(ctx: PluginContext, req: Request) -> Result<Response> {
    let asked = ctx.clone();
    ctx.spawn(async move { read(asked, req).await }).await?
}

async fn cancelled(ctx: PluginContext, _req: Request) -> Result<Response> {
    Ok(Response::json(&json!([ctx.cancelled(), ctx.cancelled()])))
}

async fn timer(_ctx: PluginContext, _req: Request) -> Result<Response> {
    tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await.unwrap_err();
    Ok(tokio::spawn(async { Response::text("timed out") }).await?)
}

struct SpawnsInDrop(Arc<FakeHost>);

impl Drop for SpawnsInDrop {
    fn drop(&mut self) {
        let host = self.0.clone();
        tokio::spawn(async move { host.note("spawned in a drop") });
    }
}

async fn spawns_in_drop(ctx: PluginContext, _req: Request) -> Result<Response> {
    let _held = SpawnsInDrop(host_of(&ctx));
    std::future::pending().await
}

struct NotesDrop(Arc<FakeHost>, &'static str);

impl Drop for NotesDrop {
    fn drop(&mut self) {
        self.0.note(self.1);
    }
}

async fn task_forever(ctx: PluginContext, _req: Request) -> Result<Response> {
    let held = NotesDrop(host_of(&ctx), "task dropped");
    ctx.spawn(async move {
        held.0.note("task runs");
        std::future::pending::<()>().await;
    });
    Ok(Response::empty())
}

async fn body(_ctx: PluginContext, req: Request) -> Result<Response> {
    let (first, again) = (req.body().await?, req.body().await?);
    assert_eq!(first, again);
    Ok(Response::bytes("text/plain", first))
}

async fn body_stream(_ctx: PluginContext, req: Request) -> Result<Response> {
    let pieces: Vec<Result<Bytes>> = req.body_stream()?.collect().await;
    let taken = req.body().await.is_err() && req.body_stream().is_err();
    let pieces = pieces.into_iter().map(|piece| piece.map(|bytes| bytes.len())).collect::<Result<Vec<_>>>()?;
    Ok(Response::json(&json!({ "pieces": pieces, "taken": taken })))
}

async fn reply_stream(ctx: PluginContext, req: Request) -> Result<Response> {
    let held = NotesDrop(host_of(&ctx), "reply dropped");
    let fails = req.query() == "fails";
    let pieces = stream::iter(0..3).then(move |n| {
        let _ = &held;
        async move {
            tokio::time::sleep(Duration::ZERO).await; // the runtime must be there in the stream, too
            if fails && n == 1 { Err(Error::internal("dried up")) } else { Ok(Bytes::from(format!("{n}"))) }
        }
    });
    Ok(Response::stream("text/plain", pieces))
}

fn panic_sync(_ctx: PluginContext, req: Request) -> std::future::Ready<Result<Response>> {
    assert!(req.query() == "never", "in the sync part");
    std::future::ready(Ok(Response::empty()))
}

async fn panic_poll(_ctx: PluginContext, _req: Request) -> Result<Response> {
    tokio::task::yield_now().await;
    panic!("in a poll")
}

struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("in a drop");
    }
}

async fn panic_drop(_ctx: PluginContext, _req: Request) -> Result<Response> {
    let _held = PanicsInDrop;
    std::future::pending().await
}

async fn panic_stream(_ctx: PluginContext, _req: Request) -> Result<Response> {
    let pieces = stream::iter(0..).map(|n| if n == 0 { Ok(Bytes::from_static(b"x")) } else { panic!("in a stream") });
    Ok(Response::stream("text/plain", pieces))
}

async fn panic_task(ctx: PluginContext, _req: Request) -> Result<Response> {
    ctx.spawn(async { panic!("in a task") }).await
}

async fn print(_ctx: PluginContext, _req: Request) -> Result<Response> {
    cardinal_plugin::println!("{} printed lines", 2);
    cardinal_plugin::eprintln!("printed as an error");
    Ok(Response::empty())
}

async fn panic_thread(_ctx: PluginContext, _req: Request) -> Result<Response> {
    let ended = std::thread::spawn(|| panic!("in a thread of its own")).join();
    Ok(Response::text(if ended.is_err() { "it panicked" } else { "?" }))
}

fn host_of(ctx: &PluginContext) -> Arc<FakeHost> {
    let number = ctx.settings::<serde_json::Value>().unwrap()["kept"].as_u64().unwrap();
    lock(&HOSTS).iter().find(|host| host.ctx == number).unwrap().clone()
}

static HOSTS: Mutex<Vec<Arc<FakeHost>>> = Mutex::new(Vec::new());

/// A live instance.
pub(super) struct Instance {
    pub host: Arc<FakeHost>,
    pub module: PluginModuleRef,
    raw: *const (),
}

// SAFETY: all functions of the module but `create` and `destroy` may be called from any thread,
// and `destroy` is called by the drop alone.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

impl Instance {
    pub(super) fn new() -> Self {
        Self::in_host(api())
    }

    pub(super) fn in_host(api: HostApiRef) -> Self {
        let host = FakeHost::new();
        *lock(&host.settings) = format!("{{\"kept\": {}}}", host.ctx);
        let sources = json!({ "x:1": { "kind": "supplier", "data": {} }, "y:1": 7 });
        let card = json!({
            "id": Uuid::nil(), "title": "Lamp", "sku": "L1", "version": 3, "attributes": { "sources": sources },
            "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-02T03:04:05.123456Z",
        });
        lock(&host.cards).insert(Uuid::nil(), card);
        lock(&HOSTS).push(host.clone());
        static MODULE: OnceLock<PluginModuleRef> = OnceLock::new(); // a library makes its table once, too
        let module = *MODULE.get_or_init(module::<Echo>);
        let mut raw = std::ptr::null();
        let mut err = abi::Error::default();
        // SAFETY: both out pointers are valid; `err` is plain when overwritten.
        let tag = unsafe { module.create()(api, host.ctx, abi::Slice::default(), &mut raw, &mut err) };
        assert_eq!(tag, door::READY, "{}", err.text());
        Self { host, module, raw }
    }

    /// What `routes` was given.
    pub(super) fn context(&self) -> PluginContext {
        let kept = lock(&KEPT);
        kept.iter().find(|(number, _)| *number == Some(self.host.ctx)).unwrap().1.clone()
    }

    pub(super) fn exports(&self) -> serde_json::Value {
        // SAFETY: `raw` is an instance that lives.
        serde_json::from_slice(unsafe { self.module.exports()(self.raw) }.get()).unwrap()
    }

    pub(super) fn number(&self, path: &str) -> u32 {
        let exports = self.exports();
        let at = exports.as_array().unwrap().iter().position(|export| export["path"] == path).unwrap();
        at.try_into().unwrap()
    }

    pub(super) fn begin(&self, handler: u32, call: u64, request: abi::Request) -> Fut<Reply> {
        // SAFETY: `raw` is an instance that lives.
        unsafe { self.module.call()(self.raw, handler, call, request) }
    }

    pub(super) fn start(&self, path: &str) -> Fut<Reply> {
        self.begin(self.number(path), 1, super::fake_host::request(&[(3, "")], ""))
    }

    pub(super) fn call(&self, path: &str, request: abi::Request) -> Result<Reply, abi::Error> {
        block_on(self.begin(self.number(path), 1, request))
    }

    pub(super) fn get(&self, path: &str) -> Result<Reply, abi::Error> {
        self.call(path, super::fake_host::request(&[], ""))
    }

    pub(super) fn shut_down(&self) {
        // SAFETY: `raw` is an instance that lives.
        block_on(unsafe { self.module.shutdown()(self.raw) }).unwrap();
    }

    pub(super) fn connection(&self) -> Connection {
        block_on(self.context().get_plugin_conn()).unwrap()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        lock(&KEPT).retain(|(number, _)| *number != Some(self.host.ctx));
        // SAFETY: given back once.
        let tag = unsafe { self.module.destroy()(self.raw) };
        assert!(std::thread::panicking() || tag == door::READY);
    }
}

pub(super) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

pub(super) fn json_of(reply: &Reply) -> serde_json::Value {
    serde_json::from_slice(reply.body.get()).unwrap()
}
