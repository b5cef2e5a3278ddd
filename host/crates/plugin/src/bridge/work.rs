//! The plain doors: log, metrics, settings, who the plugin is, cancellation.

use cardinal_plugin_abi::{Answer, Bytes, CallId, CtxId, Fut, Slice, door::contain, extension, host::cancel};
use serde_json::json;

use cardinal_control::crash::{current, handler};

use super::{
    call,
    host_fn::{begin, find_call, live},
    http, jobs, listen,
};

/// Longer messages and fields of a log line are cut.
const MESSAGE_LIMIT: usize = 8 << 10;
const FIELDS_LIMIT: usize = 16 << 10;

pub(super) extern "C" fn log(
    ctx: CtxId,
    call: CallId,
    level: u32,
    message: Slice<'_>,
    fields: Slice<'_>,
    _extra: Slice<'_>,
) {
    contain(|| {
        let Ok(scope) = live(ctx) else { return };
        let plugin = scope.context.name();
        let request = call::find(ctx, call);
        let request_id = request.as_ref().map(|call| call.request_id.as_str());
        let message = String::from_utf8_lossy(cut(message.get(), MESSAGE_LIMIT));
        let fields = String::from_utf8_lossy(cut(fields.get(), FIELDS_LIMIT));
        let fields = (!fields.is_empty()).then_some(&*fields);
        let trace = request.as_ref().and_then(|call| call.trace);
        let (trace, span) = (trace.map(|trace| trace.id()), trace.map(|trace| trace.span()));
        let trace_id = trace.as_ref().and_then(|id| std::str::from_utf8(id.as_ref()).ok());
        let span_id = span.as_ref().and_then(|id| std::str::from_utf8(id.as_ref()).ok());
        // A macro's level is fixed where it stands.
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(target: "plugin", plugin, fields, request_id, trace_id, span_id, "{message}")
            };
        }
        match level {
            1 => line!(error),
            2 => line!(warn),
            3 => line!(info),
            4 => line!(debug),
            _ => line!(trace),
        }
    });
}

fn cut(bytes: &[u8], limit: usize) -> &[u8] {
    &bytes[..bytes.len().min(limit)]
}

pub(super) extern "C" fn metric(
    ctx: CtxId,
    _call: CallId,
    kind: u32,
    name: Slice<'_>,
    value: f64,
    labels: Slice<'_>,
    _extra: Slice<'_>,
) {
    contain(|| {
        if let (Ok(scope), Some(name), Some(labels)) = (live(ctx), name.as_text(), labels.as_text()) {
            scope.metrics.change(kind, name, value, labels);
        }
    });
}

pub(super) extern "C" fn settings(ctx: CtxId) -> Bytes {
    let mut settings = Bytes::EMPTY;
    contain(|| {
        if let Ok(scope) = live(ctx) {
            settings = Bytes::from(scope.context.settings().to_string());
        }
    });
    settings
}

pub(super) extern "C" fn service_user(ctx: CtxId) -> Fut<Bytes> {
    begin(ctx, |scope| {
        let scope = scope.clone();
        Ok(async move {
            let id = scope.context.service_user().await?;
            let user = json!({"id": id, "name": scope.context.name(), "kind": "plugin"});
            Ok(Bytes::from(user.to_string()))
        })
    })
}

pub(super) extern "C" fn cancelled(ctx: CtxId, call: CallId) -> Fut<Answer> {
    let mut over = Some(cancel::STOPPING);
    contain(|| {
        over = match (live(ctx), find_call(ctx, call)) {
            (Err(_), _) => Some(cancel::STOPPING),
            (Ok(_), Err(_)) => Some(cancel::CALL_ENDED),
            (Ok(_), Ok(call)) => call.filter(|call| call.is_asked_to_stop()).map(|_| cancel::JOB),
        };
    });
    if let Some(reason) = over {
        return Fut::ready(Ok(reason.into()));
    }
    begin(ctx, |scope| {
        let stopping = scope.stopping.clone();
        let call = find_call(ctx, call)?;
        Ok(async move {
            let Some(call) = call else {
                stopping.cancelled().await;
                return Ok(cancel::STOPPING.into());
            };
            let ended = call.cancellation();
            let job = call.job().map(|job| job.stop.clone());
            let cancel_requested = async {
                match job {
                    Some(stop) => stop.cancelled().await,
                    None => std::future::pending().await,
                }
            };
            let reason = tokio::select! {
                () = cancel_requested => cancel::JOB,
                () = stopping.cancelled() => cancel::STOPPING,
                () = ended.cancelled() => cancel::CALL_ENDED,
                () = tokio::time::sleep_until(call.deadline.into()) => cancel::DEADLINE,
            };
            Ok(reason.into())
        })
    })
}

pub(super) extern "C" fn register_thread(ctx: CtxId) {
    contain(|| {
        if let Ok(scope) = live(ctx)
            && !current::is_ours()
        {
            current::belong_to(scope.context.tag());
            handler::prepare_thread();
        }
    });
}

pub(super) extern "C" fn get_extension(id: u32) -> *const () {
    match id {
        extension::JOBS => (&raw const jobs::EXTENSION).cast(),
        extension::HTTP_CLIENT => (&raw const http::EXTENSION).cast(),
        extension::LISTEN => (&raw const listen::EXTENSION).cast(),
        _ => std::ptr::null(),
    }
}

pub(super) extern "C" fn progress(ctx: CtxId, call: CallId, done: f64, total: f64, text: Slice<'_>) {
    contain(|| {
        if live(ctx).is_err() {
            return;
        }
        let scope = call::find(ctx, call);
        if let Some(reports) = scope.as_ref().and_then(|call| call.progress()) {
            reports.report(done, total, text.get());
        }
    });
}
