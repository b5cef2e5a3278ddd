//! The host functions of the process that tries libraries: there is no database and no card, so they answer nothing. A
//! `routes` that keeps to its contract (no I/O) asks for its settings at most.

use std::sync::{LazyLock, OnceLock};

use abi_stable::prefix_type::PrefixTypeTrait;
use cardinal_plugin_abi::{
    Answer, Bytes, CallId, CtxId, Error, Fut, HostApi, HostApiRef, Slice, Stream, error,
    host::{ConnId, Id, StmtId},
};

static SETTINGS: OnceLock<String> = OnceLock::new();

/// The table. `settings` is the JSON object that every plugin of this process gets.
pub(super) fn host_api(settings: String) -> HostApiRef {
    static TABLE: LazyLock<HostApiRef> = LazyLock::new(|| {
        HostApi {
            log,
            metric,
            settings: defaults,
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
            connect_options: service_user,
            register_thread,
            progress,
            get_extension,
        }
        .leak_into_prefix()
    });
    let _ = SETTINGS.set(settings);
    *TABLE
}

fn nothing<T: Send + 'static>() -> Fut<T> {
    let reason = "there is no host here: the library is only tried";
    Fut::ready(Err(Error::new(error::UNAVAILABLE, reason)))
}

extern "C" fn log(_: CtxId, _: CallId, _: u32, _: Slice<'_>, _: Slice<'_>, _: Slice<'_>) {}

extern "C" fn metric(_: CtxId, _: CallId, _: u32, _: Slice<'_>, _: f64, _: Slice<'_>, _: Slice<'_>) {}

extern "C" fn defaults(_: CtxId) -> Bytes {
    Bytes::from(SETTINGS.get().cloned().unwrap_or_default())
}

extern "C" fn service_user(_: CtxId) -> Fut<Bytes> {
    nothing()
}

extern "C" fn cancelled(_: CtxId, _: CallId) -> Fut<Answer> {
    nothing()
}

extern "C" fn read_card(_: CtxId, _: CallId, _: Id) -> Fut<Bytes> {
    nothing()
}

extern "C" fn list_cards(_: CtxId, _: CallId, _: Slice<'_>) -> Fut<Bytes> {
    nothing()
}

extern "C" fn card_events(_: CtxId, _: CallId, _: Slice<'_>) -> Fut<Bytes> {
    nothing()
}

extern "C" fn enrich_card(_: CtxId, _: CallId, _: Id, _: Slice<'_>, _: Slice<'_>, _: Slice<'_>) -> Fut<Answer> {
    nothing()
}

extern "C" fn remove_source(_: CtxId, _: CallId, _: Id, _: Slice<'_>) -> Fut<Answer> {
    nothing()
}

extern "C" fn db_connect(_: CtxId, _: CallId) -> Fut<Answer> {
    nothing()
}

extern "C" fn db_release(_: CtxId, _: ConnId) {}

extern "C" fn db_prepare(_: CtxId, _: ConnId, _: Slice<'_>) -> Fut<Bytes> {
    nothing()
}

extern "C" fn db_query(_: CtxId, _: ConnId, _: StmtId, _: Slice<'_>) -> Fut<Stream> {
    nothing()
}

extern "C" fn db_execute(_: CtxId, _: ConnId, _: StmtId, _: Slice<'_>) -> Fut<Answer> {
    nothing()
}

extern "C" fn db_batch(_: CtxId, _: ConnId, _: Slice<'_>) -> Fut<Answer> {
    nothing()
}

extern "C" fn db_copy_in(_: CtxId, _: ConnId, _: Slice<'_>, _: Stream) -> Fut<Answer> {
    nothing()
}

extern "C" fn db_copy_out(_: CtxId, _: ConnId, _: Slice<'_>) -> Fut<Stream> {
    nothing()
}

extern "C" fn register_thread(_: CtxId) {}

extern "C" fn get_extension(_: u32) -> *const () {
    std::ptr::null()
}

extern "C" fn progress(_: CtxId, _: CallId, _: f64, _: f64, _: Slice<'_>) {}
