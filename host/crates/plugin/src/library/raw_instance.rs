//! The calls into a plugin's root table, made safe: the only place that runs a plugin's code.
//!
//! A [`RawInstance`] is one instance's code and state. Everything that may run its code holds an `Arc` of
//! it, and the plugin's `destroy` runs when the last one is dropped; so nothing outlives what it
//! runs on, whatever order things end in.

use std::{
    future::Future,
    mem::MaybeUninit,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use cardinal_plugin_abi::{
    Answer, Bytes, CallId, CtxId, Error, Fut, HostApiRef, PluginModuleRef, Reply, Request, Slice, door, error,
};
use serde::Deserialize;
use tokio::runtime::Handle;

use super::{Library, forked};
use cardinal_control::crash::{PluginTag, current, descriptors};
use cardinal_package::refusal::{Code, Refusal};

static RESIDENT: AtomicUsize = AtomicUsize::new(0);

/// The message with the place in the plugin's code that the plugin says.
pub(crate) fn with_location(message: &str, location: Option<&str>) -> String {
    match location.filter(|place| place.len() <= LOCATION_LIMIT) {
        Some(place) => format!("{message} (at {place})"),
        None => message.to_owned(),
    }
}

/// How many instances exist in this process, those included that hang and can't be freed.
pub fn resident() -> usize {
    RESIDENT.load(Ordering::Relaxed)
}

/// Bytes of an error's details that are read, and how many of the fields that it names are kept.
pub(crate) const DETAILS_LIMIT: usize = 64 << 10;
pub(crate) const MAX_FIELDS: usize = 64;
const LOCATION_LIMIT: usize = 1 << 10;

/// Why `routes` gave no router.
#[derive(Debug)]
pub enum CreateError {
    Failed {
        message: String,
        /// Which settings it says are wrong: a JSON pointer and what is wrong with it.
        fields: Vec<(String, String)>,
    },
    Panicked(String),
}

/// What an error's details say of fields.
#[derive(Deserialize, Default)]
struct Details {
    #[serde(default)]
    errors: Vec<WrongField>,
    /// Where the plugin's code has made the error.
    location: Option<String>,
}

#[derive(Deserialize)]
struct WrongField {
    pointer: String,
    detail: String,
}

impl CreateError {
    fn failed(error: &Error) -> Self {
        let details = Some(error.details.get()).filter(|text| text.len() <= DETAILS_LIMIT);
        let Details { errors, location } =
            details.and_then(|text| serde_json::from_slice(text).ok()).unwrap_or_default();
        let fields = errors.into_iter().take(MAX_FIELDS).map(|field| (field.pointer, field.detail)).collect();
        Self::Failed { message: with_location(&error.text(), location.as_deref()), fields }
    }

    /// What it says of settings, once.
    pub(crate) fn take_fields(&mut self) -> Vec<(String, String)> {
        match self {
            Self::Failed { fields, .. } => std::mem::take(fields),
            Self::Panicked(_) => Vec::new(),
        }
    }
}

impl From<CreateError> for Refusal {
    fn from(reason: CreateError) -> Self {
        match reason {
            CreateError::Panicked(text) => {
                let panicked = Self::new(Code::CreatePanicked, "The plugin's `routes` function panicked.");
                panicked.expected("a router").found(text)
            }
            CreateError::Failed { message, .. } => {
                let failed = Self::new(Code::CreateFailed, "The plugin's `routes` function failed.");
                failed.expected("a router").found(message)
            }
        }
    }
}

/// Runs the author's `routes(ctx)` and gives the instance, which is the caller's to destroy. Blocks for as long as that
/// does.
pub(super) fn create(library: &Library, host: HostApiRef, ctx: CtxId, about: &[u8]) -> Result<*const (), CreateError> {
    let (mut instance, mut failure) = (std::ptr::null(), MaybeUninit::uninit());
    // SAFETY: a `Library` has a checked table; both out pointers are valid for a write.
    let answer_tag =
        unsafe { (library.module.create())(host, ctx, Slice::new(about), &raw mut instance, failure.as_mut_ptr()) };
    match answer_tag {
        door::READY if !instance.is_null() => Ok(instance),
        // SAFETY: the contract of `create`: these tags mean that `err` was written.
        door::FAILED => Err(CreateError::failed(&unsafe { failure.assume_init() })),
        // SAFETY: as above.
        door::PANICKED => Err(CreateError::Panicked(unsafe { failure.assume_init() }.text())),
        answer_tag => {
            let message = format!("`create` answered the tag {answer_tag}");
            Err(CreateError::Failed { message, fields: Vec::new() })
        }
    }
}

/// One instance of a plugin.
pub(crate) struct RawInstance {
    raw: Raw,
    runtime: Handle,
    stopped: AtomicBool,
    stop_limit: Duration,
}

/// Where an instance's code and state are.
#[derive(Clone, Copy)]
struct Raw {
    module: PluginModuleRef,
    instance: *const (),
    ctx: CtxId,
    tag: PluginTag,
}

// SAFETY: the ABI says that `exports`, `call` and `shutdown` may be called from any thread, many at
// a time. `destroy` is called once, after all else.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

impl RawInstance {
    /// Makes an instance: runs the author's `routes(ctx)`. Blocks for as long as that does.
    pub(crate) fn create(
        library: &Library,
        host: HostApiRef,
        ctx: CtxId,
        tag: PluginTag,
        about: &[u8],
        runtime: Handle,
        stop_limit: Duration,
    ) -> Result<Arc<Self>, CreateError> {
        let created = {
            let _entered = current::enter(tag);
            create(library, host, ctx, about)
        };
        forked::end_child();
        let raw = Raw { module: library.module, instance: created?, ctx, tag };
        RESIDENT.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Self { raw, runtime, stopped: AtomicBool::new(false), stop_limit }))
    }

    /// The number of the instance's context.
    pub(crate) fn ctx(&self) -> CtxId {
        self.raw.ctx
    }

    /// What marks threads that run its code.
    pub(crate) fn tag(&self) -> PluginTag {
        self.raw.tag
    }

    /// The list of handlers, as the plugin wrote it.
    pub(crate) fn exports(&self) -> Bytes {
        let _entered = current::enter(self.raw.tag);
        // SAFETY: `raw` is a checked table and the live instance that its `create` gave.
        unsafe { (self.raw.module.exports())(self.raw.instance) }
    }

    /// Calls a handler. What the reply holds may run the plugin's code, too: whoever takes it keeps
    /// an `Arc` of the instance as long.
    pub(crate) fn call(self: &Arc<Self>, handler: u32, call: CallId, request: Request) -> Running<Reply> {
        let tag = self.raw.tag.handler(handler);
        let _entered = current::enter(tag);
        // SAFETY: as in `exports`; `Running` keeps the instance while the future lives.
        let future = unsafe { (self.raw.module.call())(self.raw.instance, handler, call, request) };
        forked::end_child();
        Running { future: Some(future), tag, _instance: Some(self.clone()) }
    }

    /// Has the plugin stop what it started, once; later calls do nothing.
    pub(crate) async fn stop(self: &Arc<Self>) -> Result<(), String> {
        if self.stopped.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let _entered = current::enter(self.raw.tag);
        // SAFETY: as in `exports`; `stopped` says that this is the only call.
        let future = unsafe { (self.raw.module.shutdown())(self.raw.instance) };
        drop(_entered);
        bounded(Running { future: Some(future), tag: self.raw.tag, _instance: Some(self.clone()) }, self.stop_limit)
            .await
    }
}

async fn bounded(stopping: impl Future<Output = Result<Answer, Error>>, limit: Duration) -> Result<(), String> {
    match tokio::time::timeout(limit, stopping).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.text()),
        Err(_) => Err(format!("it did not end in {limit:?}")),
    }
}

impl Drop for RawInstance {
    fn drop(&mut self) {
        let (raw, limit, stopped) = (self.raw, self.stop_limit, *self.stopped.get_mut());
        let runtime = self.runtime.clone();
        self.runtime.spawn(async move {
            if !stopped {
                stop_unseated(raw, limit).await;
            }
            // The author's drop code may block.
            runtime.spawn_blocking(move || destroy(raw));
        });
    }
}

/// `shutdown` comes before `destroy`, also for an instance that was not shut down.
async fn stop_unseated(raw: Raw, limit: Duration) {
    let entered = current::enter(raw.tag);
    // SAFETY: as in `RawInstance::exports`; `destroy` runs after this only.
    let future = unsafe { (raw.module.shutdown())(raw.instance) };
    drop(entered);
    let running = Running { future: Some(future), tag: raw.tag, _instance: None };
    if let Err(reason) = bounded(running, limit).await {
        tracing::warn!(reason, "a plugin's shutdown failed");
    }
}

fn destroy(raw: Raw) {
    let _entered = current::enter(raw.tag);
    // SAFETY: the last `Arc` of the instance is gone, and with it every future of the instance.
    // `RawInstance::drop` runs once, so this does.
    let answer_tag = unsafe { (raw.module.destroy())(raw.instance) };
    if answer_tag == door::READY {
        RESIDENT.fetch_sub(1, Ordering::Relaxed);
    } else {
        tracing::warn!("a plugin panicked while it was freed; its memory is lost");
    }
}

/// A future of the plugin, marked as the plugin's whenever it runs.
pub struct Running<T> {
    future: Option<Fut<T>>,
    tag: PluginTag,
    /// Keeps the instance; none when it is being freed.
    _instance: Option<Arc<RawInstance>>,
}

impl<T> Future for Running<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let _entered = current::enter(self.tag);
        let Some(future) = self.future.as_mut() else {
            return Poll::Ready(Err(Error::new(error::BAD_HANDLE, "polled after its end")));
        };
        let polled = Pin::new(future).poll(cx);
        if polled.is_ready() {
            self.future = None; // what it held ends with it
        }
        forked::end_child();
        if current::is_ours() {
            descriptors::check_tripwires();
        }
        polled
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        let _entered = current::enter(self.tag);
        self.future = None;
        forked::end_child();
    }
}
