use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
#[cfg(target_os = "linux")]
use crate::watchdog::Place;

#[derive(Default)]
struct Polls(AtomicUsize);

impl PollObserver for Polls {
    fn polled(&self, _: u32, _: Duration) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn threads() -> (PluginThreads, Arc<Polls>) {
    let runtime = Handle::current();
    let watchdog = Arc::new(Watchdog::start(runtime.clone()).unwrap());
    let polls = Arc::new(Polls::default());
    (PluginThreads::new("tested", 7, PluginTag::NOBODY, watchdog, runtime, polls.clone()), polls)
}

#[tokio::test]
async fn what_rides_waits_and_is_woken_and_tells_its_outcome() {
    let (threads, polls) = threads();
    let outcome = threads.spawner().send(0, |sender| async move {
        tokio::time::sleep(Duration::from_millis(5)).await;
        tokio::task::yield_now().await;
        let _ = sender.send(thread::current().name().map(str::to_owned));
    });
    assert_eq!(outcome.await.unwrap().as_deref(), Some("tested-lane"));
    assert!(polls.0.load(Ordering::SeqCst) >= 2);
}

#[tokio::test]
async fn one_that_blocks_leaves_the_other_threads_and_no_more_than_those() {
    let (threads, _) = threads();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let block = |_| {
        let held = held.clone();
        threads.spawner().send(0, move |sender| async move {
            let _ = held.lock().recv();
            let _ = sender.send(());
        })
    };
    let mut blocked: Vec<_> = (1..THREADS).map(block).collect();
    threads
        .spawner()
        .send(0, |sender| async move {
            let _ = sender.send(());
        })
        .await
        .unwrap();
    blocked.extend((0..20).map(block));
    assert_eq!(threads.count(), THREADS);
    let late = threads.spawner().send(0, |sender| async move {
        let _ = sender.send(());
    });
    let in_time = tokio::time::timeout(Duration::from_millis(20), late).await;
    assert!(in_time.is_err(), "all threads are blocked");
    drop(release);
    for handle in blocked {
        handle.await.unwrap();
    }
}

#[tokio::test]
async fn who_is_held_by_what_nobody_waits_for_gets_fresh_threads_once() {
    let (threads, _) = threads();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let block = |_| {
        let held = held.clone();
        threads.spawner().send::<(), _>(3, move |_sender| async move {
            let _ = held.lock().recv();
        })
    };
    let blocked: Vec<_> = (0..MAX_THREADS).map(block).collect();
    // A task that is given up before it begins never begins.
    while threads.0.queue.lock().running.len() < THREADS {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(threads.relieve(), Relief::NotNeeded, "none of them is given up");
    drop(blocked);
    let relief = |threads: &PluginThreads| loop {
        match threads.relieve() {
            Relief::NotNeeded => thread::sleep(Duration::from_millis(5)),
            relief => return relief,
        }
    };
    assert_eq!(relief(&threads), Relief::Given(vec![3; THREADS]));
    let answered = threads.spawner().send(0, |sender| async move {
        let _ = sender.send(());
    });
    answered.await.unwrap();
    let more: Vec<_> = (0..THREADS).map(block).collect();
    while threads.0.queue.lock().running.len() < MAX_THREADS {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(more);
    assert_eq!(relief(&threads), Relief::Exhausted(vec![3; MAX_THREADS]));
    drop(release);
    while threads.relieve() != Relief::NotNeeded || !threads.0.queue.lock().running.is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    threads.relieve();
    assert_eq!(threads.0.queue.lock().most_threads, THREADS, "what has come back needs no more");
}

/// Priority and cores of the thread that asks.
#[cfg(target_os = "linux")]
fn scheduling() -> (i32, u32) {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, after_name) = stat.rsplit_once(") ").unwrap();
    let policy = after_name.split(' ').nth(38).unwrap().parse().unwrap();
    (policy, rustix::thread::sched_getaffinity(None).unwrap().count())
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn who_comes_after_one_that_was_put_back_is_not_behind() {
    let (threads, _) = threads();
    let until_put_back = |_| {
        threads.spawner().send(0, |sender| async move {
            let (begun, since) = (scheduling(), Instant::now());
            while scheduling().0 != libc::SCHED_IDLE && since.elapsed() < Duration::from_secs(30) {
                thread::yield_now();
            }
            let _ = sender.send((begun, scheduling().0));
        })
    };
    let handles: Vec<_> = (0..2 * THREADS).map(until_put_back).collect();
    for handle in handles {
        let everybody = (libc::SCHED_OTHER, scheduling().1);
        assert_eq!(handle.await.unwrap(), (everybody, libc::SCHED_IDLE));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn who_only_waits_is_not_put_back() {
    let (threads, _) = threads();
    let watchdog = Arc::clone(&threads.0.watchdog);
    let handle = threads.spawner().send(0, move |sender| async move {
        while watchdog.blocked()[Place::Lane as usize] == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let _ = sender.send(scheduling().0);
    });
    assert_eq!(handle.await.unwrap(), libc::SCHED_OTHER);
}

#[tokio::test]
async fn what_nobody_waits_for_is_dropped_there() {
    struct DropNotice(Option<oneshot::Sender<Option<String>>>);
    impl Drop for DropNotice {
        fn drop(&mut self) {
            let _ = self.0.take().unwrap().send(thread::current().name().map(str::to_owned));
        }
    }
    let (threads, _) = threads();
    let (gone, mut dropped) = oneshot::channel();
    let notice = DropNotice(Some(gone));
    let handle = threads.spawner().send::<(), _>(0, |_sender| async move {
        let _notice = notice;
        std::future::pending().await
    });
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut dropped).await.is_err());
    drop(handle);
    assert_eq!(dropped.await.unwrap().as_deref(), Some("tested-lane"));
}

#[tokio::test]
async fn a_panic_ends_its_own_ride() {
    let (threads, _) = threads();
    let handle = threads.spawner().send::<(), _>(0, |_sender| async { panic!("expected by the test") });
    assert!(handle.await.is_err());
    threads
        .spawner()
        .send(0, |sender| async move {
            let _ = sender.send(());
        })
        .await
        .unwrap();
}
