//! The panic hook: what would go to the standard error of a library goes to the host's log, under the plugin's name
//! and, when it is known, the call.
//!
//! It is installed once for the library. A panic on a thread that belongs to no instance is logged under the newest
//! one. The line has the place, the thread's name and the offsets of the frames, which `addr2line` turns into functions
//! and lines.

#[cfg(target_os = "linux")]
mod frames;
/// Elsewhere the linker does not say where a library begins.
#[cfg(not(target_os = "linux"))]
mod frames {
    pub(super) fn offsets() -> Vec<String> {
        Vec::new()
    }
}

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind},
    sync::{Once, PoisonError, RwLock},
};

use cardinal_plugin_abi::{CtxId, HostApiRef, Slice, door};
use serde_json::json;

use crate::{Level, scope::Scope};

static INSTALL: Once = Once::new();
/// The living instances of this library, and where each one's log goes.
static INSTANCES: RwLock<Vec<(CtxId, HostApiRef)>> = RwLock::new(Vec::new());

thread_local! {
    /// Of this thread's last panic.
    static LAST_PLACE: Cell<Option<String>> = const { Cell::new(None) };
    /// The author's `routes` runs on this thread.
    static IN_ROUTES: Cell<bool> = const { Cell::new(false) };
}

/// An instance's line in [`INSTANCES`], for as long as this lives.
pub(crate) struct Registration {
    ctx: CtxId,
}

impl Registration {
    pub(crate) fn new(ctx: CtxId, host: HostApiRef) -> Self {
        INSTALL.call_once(install);
        INSTANCES.write().unwrap_or_else(PoisonError::into_inner).push((ctx, host));
        Self { ctx }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut instances = INSTANCES.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = instances.iter().position(|(ctx, _)| *ctx == self.ctx) {
            instances.remove(at); // the last one stays the newest
        }
    }
}

fn install() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // A thread that ends has no such place any more.
        let _ = LAST_PLACE.try_with(|last| last.set(info.location().map(ToString::to_string)));
        match logger() {
            // A test's own thread belongs to no plugin: its panic is a failed assertion.
            Some(_) if cfg!(feature = "testing") && Scope::current().ctx == 0 => before(info),
            Some((host, ctx)) => report(host, ctx, info),
            None => before(info),
        }
    }));
}

/// Runs the author's `routes`. The message of its panic, which goes on, ends with the place: the host refuses the
/// plugin with it.
pub(crate) fn in_routes<R>(routes: impl FnOnce() -> R) -> R {
    LAST_PLACE.set(None);
    IN_ROUTES.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(routes));
    IN_ROUTES.set(false);
    outcome.unwrap_or_else(|payload| {
        let message = door::payload_message(payload);
        resume_unwind(Box::new(match LAST_PLACE.take() {
            Some(place) => format!("{message} (at {place})"),
            None => message, // the author has set another hook
        }))
    })
}

/// The log of the instance that is running on this thread; on a thread of the plugin's own, which
/// belongs to no instance, that of the newest. Never waits: a hook that blocks would hide the panic.
pub(crate) fn logger() -> Option<(HostApiRef, CtxId)> {
    choose(&INSTANCES.try_read().ok()?, Scope::current().ctx)
}

/// The log of this instance, or of the newest when it is gone. Waits while an instance is being made.
#[cfg(any(feature = "log", feature = "tracing"))]
pub(crate) fn logger_of(ctx: CtxId) -> Option<(HostApiRef, CtxId)> {
    choose(&INSTANCES.read().unwrap_or_else(PoisonError::into_inner), ctx)
}

fn choose(instances: &[(CtxId, HostApiRef)], wanted: CtxId) -> Option<(HostApiRef, CtxId)> {
    let (ctx, host) = instances.iter().find(|(ctx, _)| *ctx == wanted).or(instances.last())?;
    Some((*host, *ctx))
}

/// Formats nothing of the author's: a panic inside the hook would end the process.
fn report(host: HostApiRef, ctx: CtxId, info: &PanicHookInfo<'_>) {
    let call = Scope::current().call;
    let message = info.payload_as_str().unwrap_or("a panic without a message");
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let thread = std::thread::current();
    let mut fields = json!({
        "panic": true, "location": place, "thread": thread.name(), "backtrace": frames::offsets(),
    });
    // Who shows the refusal that follows need not show the line, too.
    if IN_ROUTES.try_with(Cell::get) == Ok(true) {
        fields["during"] = json!("routes");
    }
    let (fields, line) = (fields.to_string(), format!("panicked at {place}: {message}"));
    (host.log())(ctx, call, Level::Error as u32, Slice::text(&line), Slice::text(&fields), Slice::default());
}
