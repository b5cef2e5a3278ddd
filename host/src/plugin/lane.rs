//! A plugin's own threads, for what may block: a few, made when there is something to run and gone
//! when there is not.
//!
//! Whoever sent something here waits for its outcome elsewhere, and may stop waiting at any time:
//! what is polled just then ends when the poll returns, if it does; the rest is dropped by a thread
//! of the lane, as dropping runs the plugin's code, too.

mod task;

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

use cardinal_plugin_abi::{Bytes, CtxId, Error, Stream};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};

use self::task::Task;
use super::{
    placement::NO_HANDLER,
    watchdog::{Slot, Watchdog},
};
use crate::crash::{Mark, current, descriptors};

/// The most threads of one lane. A plugin that blocks them all has none left, and nobody else has
/// one less.
pub const THREADS: usize = 4;
/// As many once more, when all of them are held by calls that nobody waits for any more; never more than that.
pub const MOST_THREADS: usize = 2 * THREADS;
/// A poll that has not returned for so long holds its thread: operators see it.
pub const HELD: Duration = Duration::from_secs(3);
/// A poll that goes on for so long after its call was given up is not going to return soon.
const GIVEN_UP: Duration = Duration::from_secs(2);
/// A thread with nothing to do ends after this.
const IDLE: Duration = Duration::from_secs(10);

/// Is told how long the polls of a lane take.
pub trait Timed: Send + Sync {
    fn polled(&self, handler: u32, took: Duration);
}

/// The threads of one plugin instance. Dropping it ends them, once what was sent there is done.
pub struct Lane(Arc<Shared>);

struct Shared {
    name: String,
    ctx: CtxId,
    mark: Mark,
    watchdog: Arc<Watchdog>,
    runtime: Handle,
    timed: Arc<dyn Timed>,
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
    /// When it was first seen that nobody waits for it any more.
    given_up: Option<Instant>,
}

/// What became of a lane that may be stuck.
#[derive(Debug, PartialEq, Eq)]
pub enum Relief {
    NotNeeded,
    /// It got its fresh threads; the handlers that hold the others.
    Given(Vec<u32>),
    /// All of those are held as well.
    Exhausted(Vec<u32>),
}

impl Lane {
    /// A lane without threads; they come with the work.
    pub fn new(
        name: &str,
        (ctx, mark): (CtxId, Mark),
        watchdog: Arc<Watchdog>,
        runtime: Handle,
        timed: Arc<dyn Timed>,
    ) -> Self {
        let (queue, ready) = (Mutex::default(), Condvar::new());
        Self(Arc::new(Shared { name: name.to_owned(), ctx, mark, watchdog, runtime, timed, queue, ready }))
    }

    /// The way in, which does not keep the lane open.
    pub fn entrance(&self) -> Entrance {
        Entrance(Arc::clone(&self.0))
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.0.lock().threads
    }

    /// Handlers whose polls have held a thread for long, and for how long; the most threads that there may be now.
    pub fn held(&self) -> (Vec<(u32, Duration)>, usize) {
        let queue = self.0.lock();
        let held = queue.running.iter().map(|it| (it.task.handler, it.since.elapsed()));
        (held.filter(|(_, so_far)| *so_far >= HELD).collect(), queue.most_threads)
    }

    /// Whether all threads that there may be are held.
    pub fn is_stuck(&self) -> bool {
        let (held, most) = self.held();
        held.len() >= most
    }

    /// Makes room for fresh threads, once, when all are held by what nobody waits for any more. To be called now and
    /// then; what it sees for the first time has to stay for a while.
    pub fn relieve(&self) -> Relief {
        let mut queue = self.0.lock();
        let mut given_up = Vec::new();
        for running in queue.running.iter_mut().filter(|running| running.task.is_cancelled()) {
            if running.given_up.get_or_insert_with(Instant::now).elapsed() >= GIVEN_UP {
                given_up.push(running.task.handler);
            }
        }
        if given_up.is_empty() {
            queue.most_threads = THREADS; // surplus threads end when they have nothing to do
        }
        if given_up.len() < queue.most_threads {
            return Relief::NotNeeded;
        }
        if queue.most_threads == MOST_THREADS {
            return Relief::Exhausted(given_up);
        }
        queue.most_threads = MOST_THREADS;
        for _ in 0..queue.tasks.len().min(MOST_THREADS - THREADS) {
            self.0.start(queue);
            queue = self.0.lock();
        }
        Relief::Given(given_up)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.ready.notify_all();
    }
}

/// The way into a lane.
pub struct Entrance(Arc<Shared>);

impl Entrance {
    /// Runs what `make` makes with the other end of the [`Ride`]. All of it is made, polled and
    /// dropped on the lane's threads.
    pub fn send<T, F>(&self, handler: u32, make: impl FnOnce(oneshot::Sender<T>) -> F + Send + 'static) -> Ride<T>
    where
        T: Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let task = Task::new(handler, Arc::clone(&self.0), async move { make(tell).await });
        task.wake_up();
        Ride { told, task: Some(task) }
    }

    /// Drops something on the lane's threads.
    pub fn leave(&self, handler: u32, left: impl Send + 'static) {
        let ride = self.send::<(), _>(handler, |_| async move { drop(left) });
        ride.detach();
    }
}

/// Makes the pieces of a plugin's stream, on its lane: one whenever there is room for it, until the end or until nobody
/// takes them. `lease` is what has to outlive the stream.
pub async fn pump<L: Send, P: Send>(
    stream: Stream,
    lease: L,
    feed: mpsc::Sender<P>,
    piece_of: impl Fn(Result<Bytes, Error>) -> P + Send,
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
        room.send(piece_of(piece));
        if is_last {
            break;
        }
    }
}

/// The outcome of what runs on a lane; an error when it ended without one. Dropping it cancels.
pub struct Ride<T> {
    told: oneshot::Receiver<T>,
    task: Option<Arc<Task>>,
}

impl<T> Ride<T> {
    /// Lets it go on without anybody who waits for it.
    pub fn detach(mut self) {
        self.task = None;
    }
}

impl<T> Future for Ride<T> {
    type Output = Result<T, oneshot::error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let told = Pin::new(&mut self.told).poll(cx);
        if told.is_ready() {
            self.task = None; // what it still does is nothing to cancel
        }
        told
    }
}

impl<T> Drop for Ride<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.cancel();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(self: &Arc<Self>, task: Arc<Task>) {
        let mut queue = self.lock();
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
        let lane = Arc::clone(self);
        let started = thread::Builder::new().name(format!("{}-lane", self.name)).spawn(move || lane.run());
        if let Err(error) = started {
            // What waits in the queue is run by another thread, or meets its deadline there.
            tracing::error!(plugin = self.name, %error, "a thread for the plugin's calls cannot be started");
            self.lock().threads -= 1;
        }
    }

    fn run(self: Arc<Self>) {
        // Timers of what rides here are the host's.
        let _entered = self.runtime.enter();
        current::belong_to(self.mark);
        let slot = self.watchdog.lane_thread();
        while let Some((task, begun)) = self.next() {
            self.step(&task, begun, &slot);
            if slot.was_put_back() {
                self.end(self.lock()); // a low priority stays: whoever comes next gets a new thread
                return;
            }
        }
    }

    fn step(&self, task: &Arc<Task>, begun: Instant, slot: &Slot) {
        let handler = task.handler;
        {
            let _polling = self.watchdog.poll_on_lane(slot, self.ctx, handler);
            task.run();
        }
        self.timed.polled(handler, begun.elapsed());
        descriptors::check(if handler == NO_HANDLER { self.mark } else { self.mark.handler(handler) });
        let mut queue = self.lock();
        // The first: it may have been woken meanwhile, and another thread polls it by now.
        if let Some(at) = queue.running.iter().position(|running| Arc::ptr_eq(&running.task, task)) {
            queue.running.remove(at);
        }
    }

    /// The next one to be polled, from now on; `None` ends the thread.
    fn next(self: &Arc<Self>) -> Option<(Arc<Task>, Instant)> {
        let mut queue = self.lock();
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
            let (woken, waited) = self.ready.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
            queue = woken;
            queue.waiting -= 1;
            if waited.timed_out() && queue.tasks.is_empty() {
                break;
            }
        }
        self.end(queue);
        None
    }

    /// A thread ends; another takes its place when there is work. One of the core's starts it: what a thread that was put
    /// back starts is behind as well.
    fn end(self: &Arc<Self>, mut queue: MutexGuard<'_, Queue>) {
        queue.threads -= 1;
        if !queue.tasks.is_empty() {
            let lane = Arc::clone(self);
            self.runtime.spawn(async move { lane.replace() });
        }
    }

    fn replace(self: &Arc<Self>) {
        let queue = self.lock();
        if !queue.tasks.is_empty() && queue.waiting == 0 && queue.threads < queue.most_threads {
            self.start(queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    #[cfg(target_os = "linux")]
    use crate::plugin::watchdog::Place;

    #[derive(Default)]
    struct Polls(AtomicUsize);

    impl Timed for Polls {
        fn polled(&self, _: u32, _: Duration) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn lane() -> (Lane, Arc<Polls>) {
        let runtime = Handle::current();
        let watchdog = Arc::new(Watchdog::start(runtime.clone()).unwrap());
        let polls = Arc::new(Polls::default());
        (Lane::new("tested", (7, Mark::NOBODY), watchdog, runtime, polls.clone()), polls)
    }

    #[tokio::test]
    async fn what_rides_waits_and_is_woken_and_tells_its_outcome() {
        let (lane, polls) = lane();
        let outcome = lane.entrance().send(0, |tell| async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            tokio::task::yield_now().await;
            let _ = tell.send(thread::current().name().map(str::to_owned));
        });
        assert_eq!(outcome.await.unwrap().as_deref(), Some("tested-lane"));
        assert!(polls.0.load(Ordering::SeqCst) >= 2);
    }

    #[tokio::test]
    async fn one_that_blocks_leaves_the_other_threads_and_no_more_than_those() {
        let (lane, _) = lane();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let block = |_| {
            let held = held.clone();
            lane.entrance().send(0, move |tell| async move {
                let _ = held.lock().unwrap().recv();
                let _ = tell.send(());
            })
        };
        let mut blocked: Vec<_> = (1..THREADS).map(block).collect();
        lane.entrance()
            .send(0, |tell| async move {
                let _ = tell.send(());
            })
            .await
            .unwrap();
        blocked.extend((0..20).map(block));
        assert_eq!(lane.threads(), THREADS);
        let late = lane.entrance().send(0, |tell| async move {
            let _ = tell.send(());
        });
        let in_time = tokio::time::timeout(Duration::from_millis(20), late).await;
        assert!(in_time.is_err(), "all threads are blocked");
        drop(release);
        for ride in blocked {
            ride.await.unwrap();
        }
    }

    #[tokio::test]
    async fn who_is_held_by_what_nobody_waits_for_gets_fresh_threads_once() {
        let (lane, _) = lane();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let block = |_| {
            let held = held.clone();
            lane.entrance().send::<(), _>(3, move |_tell| async move {
                let _ = held.lock().unwrap().recv();
            })
        };
        let blocked: Vec<_> = (0..MOST_THREADS).map(block).collect();
        assert_eq!(lane.relieve(), Relief::NotNeeded, "somebody waits for all of them");
        drop(blocked);
        let relief = |lane: &Lane| loop {
            match lane.relieve() {
                Relief::NotNeeded => thread::sleep(Duration::from_millis(5)),
                relief => return relief,
            }
        };
        assert_eq!(relief(&lane), Relief::Given(vec![3; THREADS]));
        let answered = lane.entrance().send(0, |tell| async move {
            let _ = tell.send(());
        });
        answered.await.unwrap();
        let more: Vec<_> = (0..THREADS).map(block).collect();
        while lane.0.lock().running.len() < MOST_THREADS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(more);
        assert_eq!(relief(&lane), Relief::Exhausted(vec![3; MOST_THREADS]));
        drop(release);
        while lane.relieve() != Relief::NotNeeded || !lane.0.lock().running.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        lane.relieve();
        assert_eq!(lane.0.lock().most_threads, THREADS, "what has come back needs no more");
    }

    /// Priority and cores of the thread that asks.
    #[cfg(target_os = "linux")]
    fn standing() -> (i32, u32) {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, after_name) = stat.rsplit_once(") ").unwrap();
        let policy = after_name.split(' ').nth(38).unwrap().parse().unwrap();
        (policy, rustix::thread::sched_getaffinity(None).unwrap().count())
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn who_comes_after_one_that_was_put_back_is_not_behind() {
        let (lane, _) = lane();
        let until_put_back = |_| {
            lane.entrance().send(0, |tell| async move {
                let (begun, since) = (standing(), Instant::now());
                while standing().0 != libc::SCHED_IDLE && since.elapsed() < Duration::from_secs(30) {
                    thread::yield_now();
                }
                let _ = tell.send((begun, standing().0));
            })
        };
        let rides: Vec<_> = (0..2 * THREADS).map(until_put_back).collect();
        for ride in rides {
            let everybody = (libc::SCHED_OTHER, standing().1);
            assert_eq!(ride.await.unwrap(), (everybody, libc::SCHED_IDLE));
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn who_only_waits_is_not_put_back() {
        let (lane, _) = lane();
        let watchdog = Arc::clone(&lane.0.watchdog);
        let ride = lane.entrance().send(0, move |tell| async move {
            while watchdog.blocked()[Place::Lane as usize] == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            let _ = tell.send(standing().0);
        });
        assert_eq!(ride.await.unwrap(), libc::SCHED_OTHER);
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_dropped_there() {
        struct Told(Option<oneshot::Sender<Option<String>>>);
        impl Drop for Told {
            fn drop(&mut self) {
                let _ = self.0.take().unwrap().send(thread::current().name().map(str::to_owned));
            }
        }
        let (lane, _) = lane();
        let (gone, mut dropped) = oneshot::channel();
        let told = Told(Some(gone));
        let ride = lane.entrance().send::<(), _>(0, |_tell| async move {
            let _told = told;
            std::future::pending().await
        });
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut dropped).await.is_err());
        drop(ride);
        assert_eq!(dropped.await.unwrap().as_deref(), Some("tested-lane"));
    }

    #[tokio::test]
    async fn a_panic_ends_its_own_ride() {
        let (lane, _) = lane();
        let ride = lane.entrance().send::<(), _>(0, |_tell| async { panic!("expected by the test") });
        assert!(ride.await.is_err());
        lane.entrance()
            .send(0, |tell| async move {
                let _ = tell.send(());
            })
            .await
            .unwrap();
    }
}
