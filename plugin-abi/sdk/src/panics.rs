//! The panic hook: what would go to the standard error of a library goes to the host's log, under
//! the plugin's name and, when it is known, the call.

use std::{
    backtrace::Backtrace,
    panic::PanicHookInfo,
    sync::{Mutex, Once, PoisonError, RwLock},
    time::{Duration, Instant},
};

use cardinal_plugin_abi::{CtxId, HostApiRef, Slice};
use serde_json::json;

use crate::{Level, scope::Scope};

/// Frames of a backtrace, and bytes of a frame.
const FRAMES: usize = 24;
const FRAME_LIMIT: usize = 300;
/// Backtraces of a library in a while: finding names takes some milliseconds, with debug information a hundred.
const BACKTRACES: u32 = 10;
const WHILE: Duration = Duration::from_secs(60);

static INSTALL: Once = Once::new();
/// The living instances of this library, and where each one's log goes.
static INSTANCES: RwLock<Vec<(CtxId, HostApiRef)>> = RwLock::new(Vec::new());

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
    std::panic::set_hook(Box::new(move |info| match logger() {
        // A test's own thread belongs to no plugin: its panic is a failed assertion.
        Some(_) if cfg!(feature = "testing") && Scope::current().ctx == 0 => before(info),
        Some((host, ctx)) => report(host, ctx, info),
        None => before(info),
    }));
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
    let mut fields = json!({ "panic": true, "location": place, "thread": thread.name() });
    if may_trace() {
        fields["backtrace"] = frames(&format!("{:#}", Backtrace::force_capture())).into();
    }
    let fields = fields.to_string();
    let line = format!("panicked at {place}: {message}");
    (host.log())(ctx, call, Level::Error as u32, Slice::text(&line), Slice::text(&fields), Slice::default());
}

/// Whether another backtrace fits into this while. Never waits.
fn may_trace() -> bool {
    static MADE: Mutex<Option<(Instant, u32)>> = Mutex::new(None);
    let Ok(mut made) = MADE.try_lock() else { return false };
    let (since, count) = made.filter(|(since, _)| since.elapsed() < WHILE).unwrap_or((Instant::now(), 0));
    *made = Some((since, count.saturating_add(1)));
    count < BACKTRACES
}

/// A backtrace's frames behind the panic's own: `function (file:line:column) +0xoffset`, the offset as `addr2line` takes it.
fn frames(trace: &str) -> Vec<String> {
    let mut frames: Vec<String> = Vec::new();
    for line in trace.lines().map(str::trim) {
        let number = line.split(':').next().filter(|number| number.parse::<u32>().is_ok());
        if let (Some(place), Some(frame)) = (line.strip_prefix("at "), frames.last_mut()) {
            let end = frame.rfind(" +0x").unwrap_or(frame.len());
            frame.insert_str(end, &format!(" ({place})"));
        } else if let Some((address, name)) = number.and_then(|_| line.split_once(':')?.1.split_once(" - ")) {
            let offset = offset(address.trim()).map(|offset| format!(" +{offset:#x}")).unwrap_or_default();
            frames.push(format!("{}{offset}", name.trim()));
        }
    }
    let is_begin = |frame: &String| frame.contains("rust_begin_unwind") || frame.contains("begin_panic_handler");
    let begin = frames.iter().position(is_begin).map_or(0, |at| at + 1);
    let is_ours = |frame: &&String| !frame.starts_with("core::panicking::");
    let shown = frames[begin..].iter().filter(is_ours).take(FRAMES);
    shown.map(|frame| frame.chars().take(FRAME_LIMIT).collect()).collect()
}

/// Where an address is in this library's file.
#[cfg(target_os = "linux")]
fn offset(address: &str) -> Option<usize> {
    unsafe extern "C" {
        /// The beginning of the library in memory: every ELF linker knows it.
        safe static __ehdr_start: u8;
    }
    let address = usize::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
    address.checked_sub((&raw const __ehdr_start).addr())
}

#[cfg(not(target_os = "linux"))]
fn offset(_: &str) -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::frames;

    #[test]
    fn frames_begin_behind_the_panic_and_have_their_places() {
        let trace = "   0:     0x10 - std::backtrace::capture\n   1:     0x20 - __rustc::rust_begin_unwind\n        at /rustc/std.rs:1:2\n   \
                     2:     0x30 - core::panicking::panic_fmt\n   3:     0x40 - notes::routes::list\n                  at /notes/src/routes.rs:62:20\n   \
                     4:     0x50 - <unknown>\n";
        assert_eq!(frames(trace), ["notes::routes::list (/notes/src/routes.rs:62:20)", "<unknown>"]);
        let many: String = (0..100).map(|n| format!("{n}: 0x10 - f{n}\n")).collect();
        assert_eq!(frames(&many).len(), super::FRAMES);
        assert!(frames("disabled backtrace").is_empty());
    }
}
