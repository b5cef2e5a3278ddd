//! A plugin's own threads, for what may block: a few, made when there is something to run and gone
//! when there is not.
//!
//! The sender of a task waits for its outcome elsewhere, and may stop waiting at any time:
//! what is polled just then ends when the poll returns, if it does; the rest is dropped by a thread
//! of the lane, as dropping runs the plugin's code, too.

mod task;

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

use cardinal_plugin_abi::{Bytes, CtxId, Error, Stream};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};

use self::task::Task;
use super::watchdog::{Slot, Watchdog};
use cardinal_control::crash::{PluginTag, current, descriptors, opened};

/// The most threads of one lane. A plugin that blocks them all has none left, and no other has
/// one less.
pub const THREADS: usize = 4;
/// As many once more, when all of them are held by calls that were given up; never more than that.
pub(crate) const MAX_THREADS: usize = 2 * THREADS;
/// A poll that has not returned for so long holds its thread: operators see it.
pub(crate) const HELD_AFTER: Duration = Duration::from_secs(3);
/// What is no handler's: a plugin's shutdown, data that it feeds into the database.
pub(crate) const NO_HANDLER: u32 = u32::MAX;
/// A poll that goes on for so long after its call was given up is not going to return soon.
const ABANDONED_AFTER: Duration = Duration::from_secs(2);
/// A thread with nothing to do ends after this.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Learns how long the polls of a lane take.
pub(crate) trait PollObserver: Send + Sync {
    fn polled(&self, handler: u32, took: Duration);
}

/// The threads of one plugin instance. Dropping it ends them, once what was sent there is done.
pub(crate) struct PluginThreads(Arc<Shared>);

struct Shared {
    name: String,
    ctx: CtxId,
    tag: PluginTag,
    watchdog: Arc<Watchdog>,
    runtime: Handle,
    timed: Arc<dyn PollObserver>,
    queue: Mutex<Queue>,
    ready: Condvar,
}

struct Queue {
    tasks: VecDeque<Arc<Task>>,
    /// What each thread polls.
    running: Vec<Running>,
    threads: usize,
    most_threads: usize,
    waiting: usize,
    closed: bool,
}

impl Default for Queue {
    fn default() -> Self {
        let (tasks, running) = (VecDeque::new(), Vec::new());
        Self { tasks, running, threads: 0, most_threads: THREADS, waiting: 0, closed: false }
    }
}

/// A poll under way.
struct Running {
    task: Arc<Task>,
    since: Instant,
    /// When it was first seen to be given up.
    given_up: Option<Instant>,
}

/// What became of a lane that may be stuck.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Relief {
    NotNeeded,
    /// It got its fresh threads; the handlers that hold the others.
    Given(Vec<u32>),
    /// All of those are held as well.
    Exhausted(Vec<u32>),
}

impl PluginThreads {
    /// A lane without threads; they come with the work.
    pub(crate) fn new(
        name: &str,
        ctx: CtxId,
        tag: PluginTag,
        watchdog: Arc<Watchdog>,
        runtime: Handle,
        timed: Arc<dyn PollObserver>,
    ) -> Self {
        let (queue, ready) = (Mutex::default(), Condvar::new());
        Self(Arc::new(Shared { name: name.to_owned(), ctx, tag, watchdog, runtime, timed, queue, ready }))
    }

    /// The way in, which does not keep the lane open.
    pub(crate) fn spawner(&self) -> Spawner {
        Spawner(Arc::clone(&self.0))
    }

    /// How many threads there are.
    pub(crate) fn count(&self) -> usize {
        self.0.queue.lock().threads
    }

    /// Handlers whose polls have held a thread for long, and for how long; the most threads that there may be now.
    pub(crate) fn held(&self) -> (Vec<(u32, Duration)>, usize) {
        let queue = self.0.queue.lock();
        let held = queue.running.iter().map(|it| (it.task.handler, it.since.elapsed()));
        (held.filter(|(_, so_far)| *so_far >= HELD_AFTER).collect(), queue.most_threads)
    }

    /// Whether all threads that there may be are held.
    pub(crate) fn is_stuck(&self) -> bool {
        let (held, max) = self.held();
        held.len() >= max
    }

    /// Makes room for fresh threads, once, when all are held by what was given up. To be called now and
    /// then; what it sees for the first time has to stay for a while.
    pub(crate) fn relieve(&self) -> Relief {
        let mut queue = self.0.queue.lock();
        let mut given_up = Vec::new();
        for running in queue.running.iter_mut().filter(|running| running.task.is_cancelled()) {
            if running.given_up.get_or_insert_with(Instant::now).elapsed() >= ABANDONED_AFTER {
                given_up.push(running.task.handler);
            }
        }
        if given_up.is_empty() {
            queue.most_threads = THREADS; // surplus threads end when they have nothing to do
        }
        if given_up.len() < queue.most_threads {
            return Relief::NotNeeded;
        }
        if queue.most_threads == MAX_THREADS {
            return Relief::Exhausted(given_up);
        }
        queue.most_threads = MAX_THREADS;
        for _ in 0..queue.tasks.len().min(MAX_THREADS - THREADS) {
            self.0.start(queue);
            queue = self.0.queue.lock();
        }
        Relief::Given(given_up)
    }
}

impl Drop for PluginThreads {
    fn drop(&mut self) {
        self.0.queue.lock().closed = true;
        self.0.ready.notify_all();
    }
}

/// The way into a lane.
pub(crate) struct Spawner(Arc<Shared>);

impl Spawner {
    /// Runs what `make` makes with the other end of the [`JoinHandle`]. All of it is made, polled and
    /// dropped on the lane's threads.
    pub(crate) fn send<T, F>(
        &self,
        handler: u32,
        make: impl FnOnce(oneshot::Sender<T>) -> F + Send + 'static,
    ) -> JoinHandle<T>
    where
        T: Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let task = Task::new(handler, Arc::clone(&self.0), async move { make(sender).await });
        task.wake_up();
        JoinHandle { receiver, task: Some(task) }
    }

    /// Drops something on the lane's threads.
    pub(crate) fn spawn_drop(&self, handler: u32, left: impl Send + 'static) {
        let handle = self.send::<(), _>(handler, |_| async move { drop(left) });
        handle.detach();
    }
}

/// Makes the pieces of a plugin's stream, on its lane: one whenever there is room for it, until the end or until it is
/// not takes them. `lease` is what has to outlive the stream.
pub async fn pump<L: Send, P: Send>(
    stream: Stream,
    lease: L,
    feed: mpsc::Sender<P>,
    to_piece: impl Fn(Result<Bytes, Error>) -> P + Send,
) {
    // In this order, so that dropping this drops the plugin's end first.
    let (_lease, mut stream) = (lease, stream);
    while let Ok(room) = feed.reserve().await {
        let piece = tokio::select! {
            () = feed.closed() => break,
            piece = stream.next() => piece,
        };
        let Some(piece) = piece else { break };
        let is_last = piece.is_err();
        room.send(to_piece(piece));
        if is_last {
            break;
        }
    }
}

/// The outcome of what runs on a lane; an error when it ended without one. Dropping it cancels.
pub struct JoinHandle<T> {
    receiver: oneshot::Receiver<T>,
    task: Option<Arc<Task>>,
}

impl<T> JoinHandle<T> {
    /// Lets it go on without anybody who waits for it.
    pub fn detach(mut self) {
        self.task = None;
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, oneshot::error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let received = Pin::new(&mut self.receiver).poll(cx);
        if received.is_ready() {
            self.task = None; // what it still does is nothing to cancel
        }
        received
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.cancel();
        }
    }
}

impl Shared {
    fn push(self: &Arc<Self>, task: Arc<Task>) {
        let mut queue = self.queue.lock();
        queue.tasks.push_back(task);
        // One that was woken and has not come yet waits still: each task needs a thread of its own.
        if queue.waiting >= queue.tasks.len() {
            drop(queue);
            self.ready.notify_one();
        } else if queue.threads < queue.most_threads {
            self.start(queue);
        }
    }

    fn start(self: &Arc<Self>, mut queue: MutexGuard<'_, Queue>) {
        queue.threads += 1;
        drop(queue);
        let threads = Arc::clone(self);
        let started = thread::Builder::new().name(format!("{}-lane", self.name)).spawn(move || threads.run());
        if let Err(error) = started {
            // What waits in the queue is run by another thread, or meets its deadline there.
            tracing::error!(plugin = self.name, %error, "failed to start a thread for the plugin's calls");
            self.queue.lock().threads -= 1;
        }
    }

    fn run(self: Arc<Self>) {
        // Timers of what runs here are the host's.
        let _entered = self.runtime.enter();
        current::belong_to(self.tag);
        let slot = self.watchdog.plugin_thread();
        while let Some((task, started)) = self.next() {
            self.step(&task, started, &slot);
            if slot.was_put_back() {
                self.end(self.queue.lock()); // a low priority stays: the next task gets a new thread
                return;
            }
        }
    }

    fn step(&self, task: &Arc<Task>, started: Instant, slot: &Slot) {
        let handler = task.handler;
        descriptors::check(); // what was changed before is not this one's
        {
            let _entered = current::enter(if handler == NO_HANDLER { self.tag } else { self.tag.handler(handler) });
            let _counting = opened::Counting::begin(self.tag);
            {
                let _polling = self.watchdog.poll_on_plugin_thread(slot, self.ctx, handler);
                task.run();
            }
            current::rest();
        }
        self.timed.polled(handler, started.elapsed());
        let mut queue = self.queue.lock();
        // The first: it may have been woken meanwhile, and another thread polls it by now.
        if let Some(at) = queue.running.iter().position(|running| Arc::ptr_eq(&running.task, task)) {
            queue.running.remove(at);
        }
    }

    /// The next one to be polled, from now on; `None` ends the thread.
    fn next(self: &Arc<Self>) -> Option<(Arc<Task>, Instant)> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(task) = queue.tasks.pop_front() {
                let since = Instant::now();
                queue.running.push(Running { task: Arc::clone(&task), since, given_up: None });
                return Some((task, since));
            }
            if queue.closed {
                break;
            }
            queue.waiting += 1;
            let waited = self.ready.wait_for(&mut queue, IDLE_TIMEOUT);
            queue.waiting -= 1;
            if waited.timed_out() && queue.tasks.is_empty() {
                break;
            }
        }
        self.end(queue);
        None
    }

    /// A thread ends; another takes its place when there is work. One of the core's starts it: what a thread that was
    /// put back starts is behind as well.
    fn end(self: &Arc<Self>, mut queue: MutexGuard<'_, Queue>) {
        queue.threads -= 1;
        if !queue.tasks.is_empty() {
            let threads = Arc::clone(self);
            self.runtime.spawn(async move { threads.replace() });
        }
    }

    fn replace(self: &Arc<Self>) {
        let queue = self.queue.lock();
        if !queue.tasks.is_empty() && queue.waiting == 0 && queue.threads < queue.most_threads {
            self.start(queue);
        }
    }
}

#[cfg(test)]
mod tests;
