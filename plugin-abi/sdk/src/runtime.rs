//! The plugin's own tokio: one io thread for the whole library, started when the first instance
//! needs it and stopped when the last one that used it shuts down.
//!
//! A library has its own copy of tokio, which knows nothing of the host's. Handlers run on the
//! host's threads all the same: this runtime is only *entered* there, so that its timers and
//! sockets register with the io thread, which wakes the handler through the host's waker.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};

use cardinal_plugin_abi::{CtxId, HostApiRef};
use tokio::{
    runtime::{Builder, Handle},
    sync::{oneshot, watch},
};

use crate::{Error, Result, scope::Scope};

/// How long the io thread waits, when it stops, for blocking work that has begun.
const BLOCKING_GRACE: Duration = Duration::from_secs(5);

/// The library's io thread, as long as an instance holds it.
static SHARED: Mutex<Weak<IoThread>> = Mutex::new(Weak::new());

/// A running io thread; dropping it stops it.
struct IoThread {
    handle: Handle,
    _stop: oneshot::Sender<()>,
    _clock: Option<HeldClock>,
    /// Its sender ends with the thread.
    ended: watch::Receiver<()>,
}

impl IoThread {
    fn shared(name: &str, register: Register) -> Result<Arc<Self>> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return Ok(running);
        }
        let started = Arc::new(Self::start(name, register)?);
        *shared = Arc::downgrade(&started);
        Ok(started)
    }

    fn start(name: &str, register: Register) -> Result<Self> {
        Self::start_with(name, register, Builder::new_current_thread(), |_| None)
    }

    fn start_with(
        name: &str,
        register: Register,
        mut builder: Builder,
        clock: impl FnOnce(&Handle) -> Option<HeldClock>,
    ) -> Result<Self> {
        // Of the threads for blocking work; the io thread itself is no such.
        let builder = builder.on_thread_start(move || register.this_thread());
        let runtime = builder.enable_all().build().map_err(cannot_start)?;
        let handle = runtime.handle().clone();
        let held = clock(&handle);
        let (stop, stopped) = oneshot::channel::<()>();
        let (ending, ended) = watch::channel(());
        let run = move || {
            register.this_thread();
            let _ = runtime.block_on(stopped); // the sender is dropped, never used: that is the signal
            runtime.shutdown_timeout(BLOCKING_GRACE);
            drop(ending);
        };
        std::thread::Builder::new().name(format!("{name}-io")).spawn(run).map_err(cannot_start)?;
        Ok(Self { handle, _stop: stop, _clock: held, ended })
    }
}

/// Keeps a test's clock from going on by itself: dropped with the io thread.
type HeldClock = std::sync::mpsc::Sender<()>;

#[cfg(feature = "testing")]
impl IoThread {
    /// One for a test alone, whose clock stands still when `paused`.
    fn own(name: &str, register: Register, paused: bool) -> Result<Self> {
        let mut builder = Builder::new_current_thread();
        builder.start_paused(paused);
        Self::start_with(name, register, builder, |handle| {
            let (held, holding) = std::sync::mpsc::channel::<()>();
            // As long as blocking work is under way, tokio's paused clock does not jump to the next timer.
            paused.then(|| {
                handle.spawn_blocking(move || holding.recv());
                held
            })
        })
    }
}

fn cannot_start(error: std::io::Error) -> Error {
    Error::from_code(cardinal_plugin_abi::error::UNAVAILABLE, format!("the plugin's io thread cannot start: {error}"))
}

/// Tells the host of a thread of ours, so that it knows whose it is should it crash.
#[derive(Clone, Copy, Default)]
pub(crate) struct Register(Option<(HostApiRef, CtxId)>);

impl Register {
    pub(crate) fn with(host: HostApiRef, ctx: CtxId) -> Self {
        Self(Some((host, ctx)))
    }

    pub(crate) fn this_thread(self) {
        if let Some((host, ctx)) = self.0 {
            (host.register_thread())(ctx);
        }
    }
}

/// An instance's use of the runtime, and the tasks that it runs there.
pub(crate) struct Runtime {
    state: Mutex<State>,
    /// `true` tells the tasks to end; each holds a receiver until it has.
    stop: watch::Sender<bool>,
    register: Register,
    threads: Threads,
}

/// Whose io thread an instance uses.
#[derive(Clone, Copy)]
pub(crate) enum Threads {
    /// The library's.
    Shared,
    #[cfg(feature = "testing")]
    Own { paused: bool },
}

enum State {
    Idle,
    Running(Arc<IoThread>),
    Stopped,
}

impl Runtime {
    pub(crate) fn new(register: Register, threads: Threads) -> Self {
        Self { state: Mutex::new(State::Idle), stop: watch::Sender::new(false), register, threads }
    }

    /// The runtime to enter, started now when it wasn't.
    pub(crate) fn handle(&self, name: &str) -> Result<Handle> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Running(io) => Ok(io.handle.clone()),
            State::Stopped => Err(Error::over("the plugin has been stopped")),
            State::Idle => {
                let io = match self.threads {
                    Threads::Shared => IoThread::shared(name, self.register)?,
                    #[cfg(feature = "testing")]
                    Threads::Own { paused } => Arc::new(IoThread::own(name, self.register, paused)?),
                };
                let handle = io.handle.clone();
                *state = State::Running(io);
                Ok(handle)
            }
        }
    }

    /// Runs `future` on the io thread until it ends or the instance is stopped. The work is polled and dropped inside
    /// `scope`.
    pub(crate) fn spawn<F>(&self, name: &str, scope: Scope, future: F) -> Task<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        // The receiver is taken first: `stop` waits for it, or this sees that it is too late.
        let mut stop = self.stop.subscribe();
        let handle = match self.handle(name) {
            Ok(handle) => handle,
            Err(error) => return Task { running: Err(Some(error)) },
        };
        let scope = Scope { runtime: Some(handle.clone()), ..scope };
        let task = scope.wrap(Box::pin(future));
        let running = handle.spawn(async move {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => None,
                output = task => Some(output),
            }
        });
        Task { running: Ok(running) }
    }

    /// Ends the tasks, then the io thread when nobody else uses it, and waits for both.
    pub(crate) async fn shut_down(&self) {
        let before = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, State::Stopped)
        };
        self.stop.send_replace(true);
        self.stop.closed().await;
        let State::Running(io) = before else { return };
        let mut ended = io.ended.clone();
        // `into_inner` gives it to exactly one of several that let go at the same time.
        if let Some(last) = Arc::into_inner(io) {
            drop(last);
            while ended.changed().await.is_ok() {}
        }
    }

    /// Whether the instance has been told to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }
}

/// Work that [`PluginContext::spawn`](crate::PluginContext::spawn) started.
///
/// Awaiting it gives the output of the work. Dropping it lets the work go on. It may be awaited anywhere, also without
/// tokio.
///
/// It is an error when the work panicked, when it was [aborted](Self::abort), and when the plugin was stopped before
/// the work had ended; the last two are [`Error::is_cancelled`].
///
/// ```
/// use cardinal_plugin::{PluginContext, Router, block_on};
/// use cardinal_plugin::testing::TestHost;
///
/// let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
/// let sum = host.context().spawn(async { (1..=10).sum::<u32>() });
/// assert_eq!(block_on(sum).unwrap(), 55);
///
/// let waiting = host.context().spawn(std::future::pending::<()>());
/// waiting.abort();
/// assert!(block_on(waiting).unwrap_err().is_cancelled());
/// ```
pub struct Task<T> {
    running: Result<tokio::task::JoinHandle<Option<T>>, Option<Error>>,
}

impl<T> Task<T> {
    /// Stops the work at its next await: its future is dropped there. Work that has ended is left alone.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// let watch = ctx.spawn(std::future::pending::<()>());
    /// watch.abort(); // nobody wants to know any more
    /// assert!(cardinal_plugin::block_on(watch).unwrap_err().is_cancelled());
    /// ```
    pub fn abort(&self) {
        if let Ok(running) = &self.running {
            running.abort();
        }
    }

    /// Returns whether the work has ended: with an output, by a panic, or because it was stopped.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// let refresh = ctx.spawn(std::future::pending::<()>());
    /// if !refresh.is_finished() {
    ///     // the refresh before is still under way: don't start another one
    /// }
    /// # assert!(!refresh.is_finished());
    /// ```
    pub fn is_finished(&self) -> bool {
        self.running.as_ref().map_or(true, tokio::task::JoinHandle::is_finished)
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let over = || Error::over("the plugin has been stopped");
        match &mut self.running {
            Err(error) => Poll::Ready(Err(error.take().unwrap_or_else(over))),
            Ok(running) => Pin::new(running).poll(cx).map(|outcome| match outcome {
                Ok(output) => output.ok_or_else(over),
                Err(error) if error.is_cancelled() => Err(Error::over("the task was aborted")),
                Err(error) => Err(Error::internal(error)),
            }),
        }
    }
}

impl<T> std::fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_finished() { "Task(finished)" } else { "Task(running)" })
    }
}

/// Waits for a future on a plain thread: one that the plugin started itself, or that of a test.
///
/// Never call it in a handler or a task: it blocks a thread that others wait for. The future may ask the host for
/// anything. Tokio's own types find no runtime here, except inside
/// [`PluginContext::spawn`](crate::PluginContext::spawn), whose [`Task`] can be waited for.
///
/// ```
/// use cardinal_plugin::{Level, PluginContext, block_on};
///
/// fn watch_device(ctx: &PluginContext) {
///     let own = ctx.as_plugin();
///     std::thread::spawn(move || {
///         own.register_thread();
///         match block_on(own.service_user()) {
///             Ok(user) => own.log(Level::Info, format!("watching as {}", user.name)),
///             Err(error) => own.log(Level::Warn, format!("not watching: {error}")),
///         }
///     });
/// }
/// assert_eq!(block_on(async { 1 + 1 }), 2);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = std::pin::pin!(future);
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut cx = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The one test here that uses the shared thread: it looks at what all share.
    #[test]
    fn the_io_thread_lives_as_long_as_an_instance_that_uses_it() {
        let running = || SHARED.lock().unwrap().upgrade().is_some();
        let new = || Runtime::new(Register::default(), Threads::Shared);
        let (first, second, idle) = (new(), new(), new());
        assert!(!running(), "nothing is started before it is needed");
        let handle = first.handle("one").unwrap();
        assert_eq!(handle.id(), second.handle("two").unwrap().id(), "one for the library");
        block_on(idle.shut_down());
        block_on(first.shut_down());
        assert!(running() && first.handle("one").is_err());
        let ended = SHARED.lock().unwrap().upgrade().unwrap().ended.clone();
        block_on(second.shut_down());
        assert!(!running() && ended.has_changed().is_err(), "the thread has ended before the shutdown has");

        let third = new();
        assert_ne!(handle.id(), third.handle("three").unwrap().id());
        let task = third.spawn("three", Scope::default(), std::future::pending::<()>());
        drop(third); // an instance that was never shut down leaves nothing behind, either
        assert!(block_on(task).is_err());
        assert!(!running());
    }
}
