//! The functions that a host gives a plugin, answered by a [`FakeHost`].
//!
//! Each notes in the journal what it was asked, looks whether the test holds it or lets it fail, and answers by the
//! host's rules (`cards.rs`), from PostgreSQL when the test has one (`database.rs`), else with what the test has laid
//! down.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use cardinal_plugin_abi::{
    Answer, Bytes, CallId, CtxId, Error, Fut, HostApi, HostApiRef, Slice, Stream,
    abi_stable::prefix_type::PrefixTypeTrait,
    extension,
    host::{ConnId, Id, StmtId, cancel},
    stream::Source,
};
use serde_json::json;
use uuid::Uuid;

use super::{FakeHost, events, host, lock};
use crate::testing::{LogLine, MetricLine, SERVICE_USER};

/// The table, the same for all.
#[doc(hidden)]
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
            card_events,
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
            progress,
            get_extension,
        }
        .leak_into_prefix()
    })
}

fn text(slice: Slice<'_>) -> String {
    String::from_utf8_lossy(slice.get()).into_owned()
}

fn uuid(id: Id) -> Uuid {
    Uuid::from_bytes(id.bytes)
}

extern "C" fn log(ctx: CtxId, call: CallId, level: u32, message: Slice<'_>, fields: Slice<'_>, _: Slice<'_>) {
    let (message, fields) = (text(message), text(fields));
    eprintln!("[{ctx}/{call}] {message} {fields}");
    lock(&host(ctx).log).push(LogLine { instance: ctx, call, level, message, fields });
}

extern "C" fn metric(
    ctx: CtxId,
    _call: CallId,
    kind: u32,
    name: Slice<'_>,
    value: f64,
    labels: Slice<'_>,
    _extra: Slice<'_>,
) {
    let (host, name, labels) = (host(ctx), text(name), text(labels));
    host.note(format!("metric {kind} {name} {value} {labels}"));
    let labels = serde_json::from_str(&labels).unwrap_or_default();
    lock(&host.metrics).push(MetricLine { name, value, labels });
}

extern "C" fn settings(ctx: CtxId) -> Bytes {
    lock(&host(ctx).settings).clone().into()
}

extern "C" fn service_user(ctx: CtxId) -> Fut<Bytes> {
    let host = host(ctx);
    let name = host.rules.as_ref().map_or("echo", |rules| &rules.name);
    let user = json!({ "id": SERVICE_USER, "name": name, "kind": "plugin", "later": 1 }).to_string();
    host.ask("service_user", || user.into())
}

extern "C" fn cancelled(ctx: CtxId, call: CallId) -> Fut<Answer> {
    let host = host(ctx);
    if *lock(&host.retired) {
        return Fut::ready(Ok(cancel::STOPPING.into()));
    }
    if call == 0 {
        return host.until_stop(ctx);
    }
    if let Some(stopping) = host.until_job_stops(call) {
        return stopping;
    }
    if !lock(&host.cancelled).contains(&call) {
        host.hold("cancelled");
    }
    host.ask("cancelled", || cancel::CALL_ENDED.into())
}

extern "C" fn read_card(ctx: CtxId, call: CallId, card: Id) -> Fut<Bytes> {
    let host = host(ctx);
    host.note(format!("read_card in call {call}"));
    host.ask_fallible("read_card", || {
        host.authorize(call, "read")?;
        host.card_json(uuid(card)).map(Into::into)
    })
}

extern "C" fn list_cards(ctx: CtxId, call: CallId, query: Slice<'_>) -> Fut<Bytes> {
    let (host, query) = (host(ctx), text(query));
    host.note(format!("list {query}"));
    host.ask_fallible("list_cards", || {
        host.authorize(call, "read")?;
        host.page(&query).map(Into::into)
    })
}

extern "C" fn card_events(ctx: CtxId, call: CallId, query: Slice<'_>) -> Fut<Bytes> {
    let (host, query) = (host(ctx), text(query));
    host.note(format!("card_events {query}"));
    let permitted = host.permit("card_events").and_then(|()| host.authorize(call, "read"));
    match permitted.and_then(|()| events::EventQuery::read(&query)) {
        Ok(wanted) => Fut::new(wanted.page(host)),
        Err(error) => Fut::ready(Err(error)),
    }
}

extern "C" fn enrich_card(
    ctx: CtxId,
    call: CallId,
    card: Id,
    key: Slice<'_>,
    kind: Slice<'_>,
    data: Slice<'_>,
) -> Fut<Answer> {
    let (host, key, kind, data) = (host(ctx), text(key), text(kind), text(data));
    host.note(format!("enrich {call} {key} {kind} {data}"));
    host.ask_fallible("enrich_card", || {
        host.authorize(call, "write")?;
        host.enrich(uuid(card), &key, &kind, &data).map(Answer::from)
    })
}

extern "C" fn remove_source(ctx: CtxId, call: CallId, card: Id, key: Slice<'_>) -> Fut<Answer> {
    let (host, key) = (host(ctx), text(key));
    host.note(format!("remove {key}"));
    host.ask_fallible("remove_source", || {
        host.authorize(call, "write")?;
        host.remove(uuid(card), &key).map(Answer::from)
    })
}

extern "C" fn db_connect(ctx: CtxId, _call: CallId) -> Fut<Answer> {
    let host = host(ctx);
    host.note("connect");
    match &host.database {
        Some(database) => database.connect(&host),
        None => host.ask("connect", || 7.into()),
    }
}

extern "C" fn db_release(ctx: CtxId, conn: ConnId) {
    let host = host(ctx);
    host.note(format!("release {conn}"));
    if let Some(database) = &host.database {
        database.release(conn);
    }
}

extern "C" fn db_prepare(ctx: CtxId, conn: ConnId, sql: Slice<'_>) -> Fut<Bytes> {
    let (host, sql) = (host(ctx), text(sql));
    host.note(format!("prepare {sql} on {conn}"));
    if let Some(database) = &host.database {
        return database.prepare(&host, conn, sql);
    }
    let answer = lock(&host.statements).get(&sql).cloned().unwrap_or_else(|| "{\"statement\": 1}".to_owned());
    host.ask(&format!("prepare {sql}"), || answer.into())
}

extern "C" fn db_query(ctx: CtxId, conn: ConnId, statement: StmtId, params: Slice<'_>) -> Fut<Stream> {
    let host = host(ctx);
    host.note(format!("query {statement} {:?}", params.get()));
    if let Some(database) = &host.database {
        return database.query(&host, conn, statement, params.get());
    }
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

extern "C" fn db_execute(ctx: CtxId, conn: ConnId, statement: StmtId, params: Slice<'_>) -> Fut<Answer> {
    let host = host(ctx);
    host.note(format!("execute {statement} {:?}", params.get()));
    match &host.database {
        Some(database) => database.execute(&host, conn, statement, params.get()),
        None => host.ask("execute", || 2.into()),
    }
}

extern "C" fn db_batch(ctx: CtxId, conn: ConnId, sql: Slice<'_>) -> Fut<Answer> {
    let (host, sql) = (host(ctx), text(sql));
    host.note(sql.clone());
    match &host.database {
        Some(database) => database.batch(&host, conn, sql),
        None => host.ask(&sql, Answer::default),
    }
}

extern "C" fn db_copy_in(ctx: CtxId, conn: ConnId, sql: Slice<'_>, mut data: Stream) -> Fut<Answer> {
    let (host, sql) = (host(ctx), text(sql));
    if let Some(database) = &host.database {
        return database.copy_in(&host, conn, sql, data);
    }
    Fut::new(async move {
        let mut got = Vec::new();
        while let Some(piece) = data.next().await {
            got.extend_from_slice(piece?.get());
        }
        host.note(format!("{sql}: {}", String::from_utf8_lossy(&got)));
        Ok((got.len() as u64).into())
    })
}

extern "C" fn db_copy_out(ctx: CtxId, conn: ConnId, sql: Slice<'_>) -> Fut<Stream> {
    let (host, sql) = (host(ctx), text(sql));
    if let Some(database) = &host.database {
        return database.copy_out(&host, conn, sql);
    }
    let rows = vec![Ok(Bytes::from_static(b"a\n")), Ok(Bytes::from_static(b"b\n"))].into_iter();
    let stream = Stream::new(Batches { host: host.clone(), rows, ended: false, waited: false });
    host.ask(&sql, || stream)
}

extern "C" fn connect_options(ctx: CtxId) -> Fut<Bytes> {
    let host = host(ctx);
    if let Some(database) = &host.database {
        return database.connect_options(&host);
    }
    let options = json!({ "host": "/run", "port": 5432, "dbname": "d", "user": "u", "password": "hush" });
    host.ask("connect_options", || options.to_string().into())
}

extern "C" fn register_thread(_ctx: CtxId) {}

extern "C" fn get_extension(id: u32) -> *const () {
    match id {
        extension::JOBS => (&raw const super::jobs::EXTENSION).cast(),
        extension::LISTEN => (&raw const super::notifications::EXTENSION).cast(),
        extension::HTTP_CLIENT => (&raw const super::servers::EXTENSION).cast(),
        _ => std::ptr::null(),
    }
}

extern "C" fn progress(ctx: CtxId, call: CallId, done: f64, total: f64, said: Slice<'_>) {
    host(ctx).note(format!("progress {call} {done} of {total} {}", text(said)));
}
