//! A host: it answers what a test has laid down, and keeps a journal.

use std::{
    collections::{HashMap, HashSet},
    future::Future,
    pin::Pin,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use cardinal_plugin::__private::abi::{
    self, Bytes, Error, Fut, HostApi, HostApiRef, Slice, Stream,
    abi_stable::prefix_type::PrefixTypeTrait,
    error as codes,
    host::{CallId, ConnId, CtxId, Id, StmtId},
    stream::Source,
};

/// What one plugin instance has to do with.
#[derive(Default)]
pub struct FakeHost {
    pub ctx: CtxId,
    /// Level, call, message, fields.
    pub log: Mutex<Vec<(u32, CallId, String, String)>>,
    /// What happened, in order, in words.
    pub journal: Mutex<Vec<String>>,
    pub settings: Mutex<String>,
    /// The context is retired: everything is refused.
    pub retired: Mutex<bool>,
    /// Calls that are cancelled.
    pub cancelled: Mutex<HashSet<CallId>>,
    /// What `db_prepare` answers, by SQL.
    pub statements: Mutex<HashMap<String, String>>,
    /// What `db_query` streams, taken by the next query.
    pub rows: Mutex<Vec<Result<Bytes, Error>>>,
    /// SQL (or `read_card`) that does not end until `finish` or its drop.
    pub holding: Mutex<HashSet<String>>,
    /// Errors by SQL.
    pub failing: Mutex<HashMap<String, Error>>,
    held: Mutex<Vec<Arc<Held>>>,
}

/// Something that has been asked and not answered.
#[derive(Default)]
struct Held {
    what: String,
    done: Mutex<bool>,
    wakers: Mutex<Vec<Waker>>,
}

static HOSTS: LazyLock<RwLock<HashMap<CtxId, Arc<FakeHost>>>> = LazyLock::new(RwLock::default);
static NEXT: AtomicU64 = AtomicU64::new(1);

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeHost {
    pub fn new() -> Arc<Self> {
        let ctx = NEXT.fetch_add(1, Ordering::SeqCst);
        let host = Arc::new(Self { ctx, ..Self::default() });
        HOSTS.write().unwrap().insert(ctx, host.clone());
        host
    }

    pub fn note(&self, what: impl Into<String>) {
        lock(&self.journal).push(what.into());
    }

    pub fn journal(&self) -> Vec<String> {
        lock(&self.journal).clone()
    }

    pub fn hold(&self, what: &str) {
        lock(&self.holding).insert(what.to_owned());
    }

    /// Lets what is held end, and wakes whoever has ever asked for it, more than once.
    pub fn finish(&self, what: &str) {
        lock(&self.holding).remove(what);
        let held: Vec<_> = lock(&self.held).iter().filter(|held| held.what == what).cloned().collect();
        for held in held {
            *lock(&held.done) = true;
            let wakers = lock(&held.wakers).clone();
            wakers.iter().for_each(Waker::wake_by_ref);
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Waits until something that is held has been asked for.
    pub fn until_asked(&self, what: &str) {
        while !lock(&self.held).iter().any(|held| held.what == what && !lock(&held.wakers).is_empty()) {
            std::thread::yield_now();
        }
    }

    pub fn until_journal(&self, what: &str) {
        while !lock(&self.journal).iter().any(|line| line == what) {
            std::thread::yield_now();
        }
    }

    fn ask<T: Send + 'static>(self: &Arc<Self>, what: &str, answer: impl FnOnce() -> T) -> Fut<T> {
        let outcome = match lock(&self.failing).get(what) {
            _ if *lock(&self.retired) => Err(Error::new(codes::BAD_HANDLE, "retired")),
            Some(error) => Err(copy(error)),
            None => Ok(answer()),
        };
        if !lock(&self.holding).contains(what) {
            return Fut::ready(outcome);
        }
        let held = Arc::new(Held { what: what.to_owned(), ..Held::default() });
        lock(&self.held).push(held.clone());
        Fut::new(Asked { host: self.clone(), held, outcome: Some(outcome) })
    }
}

fn copy(error: &Error) -> Error {
    let details = Bytes::from(error.details.get().to_vec());
    Error { code: error.code, flags: error.flags, message: error.text().into(), details }
}

/// Ends when the test says so; keeps every waker it ever saw.
struct Asked<T> {
    host: Arc<FakeHost>,
    held: Arc<Held>,
    outcome: Option<Result<T, Error>>,
}

impl<T> Unpin for Asked<T> {}

impl<T> Future for Asked<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        lock(&self.held.wakers).push(cx.waker().clone());
        if !*lock(&self.held.done) {
            return Poll::Pending;
        }
        Poll::Ready(self.outcome.take().unwrap())
    }
}

impl<T> Drop for Asked<T> {
    fn drop(&mut self) {
        if self.outcome.is_some() {
            self.host.note(format!("cancelled {}", self.held.what));
        }
    }
}

fn host(ctx: CtxId) -> Arc<FakeHost> {
    HOSTS.read().unwrap().get(&ctx).cloned().unwrap_or_default()
}

fn text(slice: Slice<'_>) -> String {
    slice.as_text().expect("the SDK sends UTF-8").to_owned()
}

/// The table, the same for all.
pub fn api() -> HostApiRef {
    static API: OnceLock<HostApiRef> = OnceLock::new();
    *API.get_or_init(|| {
        HostApi {
            log,
            metric,
            settings,
            service_user,
            cancelled,
            read_card,
            list_cards,
            enrich_card,
            remove_source,
            db_connect,
            db_release,
            db_prepare,
            db_query,
            db_execute,
            db_batch,
            db_copy_in,
            db_copy_out,
            connect_options,
            register_thread,
            get_extension,
            progress,
        }
        .leak_into_prefix()
    })
}

extern "C" fn log(ctx: CtxId, call: CallId, level: u32, message: Slice<'_>, fields: Slice<'_>) {
    let (message, fields) = (text(message), text(fields));
    eprintln!("[{ctx}/{call}] {message} {fields}");
    lock(&host(ctx).log).push((level, call, message, fields));
}

extern "C" fn metric(ctx: CtxId, kind: u32, name: Slice<'_>, value: f64, labels: Slice<'_>) {
    host(ctx).note(format!("metric {kind} {} {value} {}", text(name), text(labels)));
}

extern "C" fn settings(ctx: CtxId) -> Bytes {
    lock(&host(ctx).settings).clone().into()
}

pub const USER: &str = "0190d3a0-0000-7000-8000-00000000000a";

extern "C" fn service_user(ctx: CtxId) -> Fut<Bytes> {
    let user = format!("{{\"id\": \"{USER}\", \"name\": \"echo\", \"kind\": \"plugin\", \"later\": 1}}");
    host(ctx).ask("service_user", || user.into())
}

extern "C" fn cancelled(ctx: CtxId, call: CallId) -> Fut<u8> {
    let host = host(ctx);
    if !lock(&host.cancelled).contains(&call) {
        host.hold("cancelled");
    }
    host.ask("cancelled", || 0)
}

extern "C" fn read_card(ctx: CtxId, call: CallId, card: Id, _user: Id) -> Fut<Bytes> {
    let card = cardinal_plugin::Uuid::from_bytes(card.bytes);
    let host = host(ctx);
    host.note(format!("read_card in call {call}"));
    let json = format!(
        "{{\"id\": \"{card}\", \"title\": \"Lamp\", \"sku\": \"L1\", \"version\": 3, \
         \"created_at\": \"2026-01-01T00:00:00Z\", \"updated_at\": \"2026-01-02T03:04:05.123456Z\", \
         \"attributes\": {{\"sources\": {{\"x:1\": {{\"kind\": \"supplier\", \"data\": {{}}}}, \"y:1\": 7}}}}}}"
    );
    host.ask("read_card", || json.into())
}

extern "C" fn list_cards(ctx: CtxId, _call: CallId, _user: Id, query: Slice<'_>) -> Fut<Bytes> {
    let host = host(ctx);
    host.note(format!("list {}", text(query)));
    host.ask("list_cards", || String::from("{\"items\": [], \"next_cursor\": \"c\", \"total_estimate\": 0}").into())
}

extern "C" fn enrich_card(
    ctx: CtxId,
    call: CallId,
    _card: Id,
    _user: Id,
    key: Slice<'_>,
    kind: Slice<'_>,
    data: Slice<'_>,
) -> Fut<u64> {
    let host = host(ctx);
    host.note(format!("enrich {call} {} {} {}", text(key), text(kind), text(data)));
    host.ask("enrich_card", || 4)
}

extern "C" fn remove_source(ctx: CtxId, _call: CallId, _card: Id, _user: Id, key: Slice<'_>) -> Fut<u64> {
    let host = host(ctx);
    host.note(format!("remove {}", text(key)));
    host.ask("remove_source", || u64::MAX)
}

extern "C" fn db_connect(ctx: CtxId, _call: CallId) -> Fut<u64> {
    let host = host(ctx);
    host.note("connect");
    host.ask("connect", || 7)
}

extern "C" fn db_release(ctx: CtxId, conn: ConnId) {
    host(ctx).note(format!("release {conn}"));
}

extern "C" fn db_prepare(ctx: CtxId, conn: ConnId, sql: Slice<'_>) -> Fut<Bytes> {
    let (host, sql) = (host(ctx), text(sql));
    host.note(format!("prepare {sql} on {conn}"));
    let answer = lock(&host.statements).get(&sql).cloned().unwrap_or_else(|| "{\"statement\": 1}".to_owned());
    host.ask(&format!("prepare {sql}"), || answer.into())
}

extern "C" fn db_query(ctx: CtxId, _conn: ConnId, statement: StmtId, params: Slice<'_>) -> Fut<Stream> {
    let host = host(ctx);
    host.note(format!("query {statement} {:?}", params.get()));
    let rows = std::mem::take(&mut *lock(&host.rows));
    let stream = Stream::new(Batches { host: host.clone(), rows: rows.into_iter(), ended: false, waited: false });
    host.ask("query", || stream)
}

/// Pending once before each batch, as the real one is; says when it is dropped before its end.
struct Batches {
    host: Arc<FakeHost>,
    rows: std::vec::IntoIter<Result<Bytes, Error>>,
    ended: bool,
    waited: bool,
}

impl Source for Batches {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        self.waited = !self.waited;
        if self.waited {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let next = self.rows.next();
        self.ended |= next.is_none();
        Poll::Ready(next)
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        if !self.ended {
            self.host.note("rows dropped");
        }
    }
}

extern "C" fn db_execute(ctx: CtxId, _conn: ConnId, statement: StmtId, params: Slice<'_>) -> Fut<u64> {
    let host = host(ctx);
    host.note(format!("execute {statement} {:?}", params.get()));
    host.ask("execute", || 2)
}

extern "C" fn db_batch(ctx: CtxId, _conn: ConnId, sql: Slice<'_>) -> Fut<u8> {
    let (host, sql) = (host(ctx), text(sql));
    host.note(sql.clone());
    host.ask(&sql, || 0)
}

extern "C" fn db_copy_in(ctx: CtxId, _conn: ConnId, sql: Slice<'_>, mut data: Stream) -> Fut<u64> {
    let (host, sql) = (host(ctx), text(sql));
    Fut::new(async move {
        let mut got = Vec::new();
        while let Some(piece) = data.next().await {
            got.extend_from_slice(piece?.get());
        }
        host.note(format!("{sql}: {}", String::from_utf8_lossy(&got)));
        Ok(got.len() as u64)
    })
}

extern "C" fn db_copy_out(ctx: CtxId, _conn: ConnId, sql: Slice<'_>) -> Fut<Stream> {
    let (host, sql) = (host(ctx), text(sql));
    let rows = vec![Ok(Bytes::from_static(b"a\n")), Ok(Bytes::from_static(b"b\n"))].into_iter();
    let stream = Stream::new(Batches { host: host.clone(), rows, ended: false, waited: false });
    host.ask(&sql, || stream)
}

extern "C" fn connect_options(ctx: CtxId) -> Fut<Bytes> {
    let json = "{\"host\": \"/run\", \"port\": 5432, \"dbname\": \"d\", \"user\": \"u\", \"password\": \"hush\"}";
    host(ctx).ask("connect_options", || json.to_owned().into())
}

extern "C" fn register_thread(_ctx: CtxId) {}

extern "C" fn get_extension(_id: u32) -> *const () {
    std::ptr::null()
}

/// A request as the host makes it.
pub fn request(fields: &[(u32, &str)], body: &str) -> abi::Request {
    let fields: Vec<_> = fields.iter().map(|(number, value)| (*number, value.as_bytes())).collect();
    abi::Request { head: abi::record::write(&fields).into(), body: body.to_owned().into(), ..abi::Request::default() }
}

extern "C" fn progress(ctx: CtxId, call: CallId, done: f64, total: f64, said: Slice<'_>) {
    host(ctx).note(format!("progress {call} {done} of {total} {}", text(said)));
}
