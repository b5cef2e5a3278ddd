//! Whose turn it is to be tried. A first try is short as long as others wait for theirs, so that libraries that take
//! long hold up no quick one; what takes longer goes on in places of its own.

use std::{future::Future, pin::pin, time::Duration};

use tokio::{
    select,
    sync::{Semaphore, SemaphorePermit, watch},
    time::timeout,
};

/// First tries at a time. All that run are fewer than the starter takes: one that was ended may still be ending.
const FIRST_TRIES: usize = 7;
/// Further ones, for plugins in service: no number of new plugins holds up their settings and versions.
const FIRST_TRIES_IN_SERVICE: usize = 2;
const LONG_TRIES: usize = 4;
/// What takes longer goes on as a long try. Where there is no place for that it is ended once another waits for its
/// place, and begins again when there is one.
const FIRST_TRY: Duration = Duration::from_secs(2);
/// How long a turn is waited for. Each of those before it takes a bounded time.
pub(super) const WAIT_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Whom a try is for.
#[derive(Clone, Copy, Debug)]
pub enum Priority {
    New,
    /// A plugin that serves, with another version or other settings.
    InService,
}

#[derive(Debug)]
pub(super) struct Lanes {
    first: Lane,
    in_service: Lane,
    long: Semaphore,
}

impl Default for Lanes {
    fn default() -> Self {
        let long = Semaphore::new(LONG_TRIES);
        Self { first: Lane::with(FIRST_TRIES), in_service: Lane::with(FIRST_TRIES_IN_SERVICE), long }
    }
}

impl Lanes {
    /// Does the work when it is its turn, and perhaps once more from its beginning. `None` when no turn came.
    pub(super) async fn run<T, W: Future<Output = T>>(&self, priority: Priority, work: impl Fn() -> W) -> Option<T> {
        let mut first = timeout(WAIT_LIMIT, self.enter(priority)).await.ok()?;
        let mut long = pin!(self.long.acquire());
        {
            let mut work = pin!(work());
            if let Ok(done) = timeout(FIRST_TRY, &mut work).await {
                return Some(done);
            }
            select! {
                biased;
                done = &mut work => return Some(done),
                _place = &mut long => {
                    drop(first);
                    return Some(work.await);
                }
                () = first.make_room() => {}
            }
        }
        drop(first);
        let _place = timeout(WAIT_LIMIT, long).await.ok()?;
        Some(work().await)
    }

    async fn enter(&self, priority: Priority) -> Place<'_> {
        match priority {
            Priority::New => self.first.enter().await,
            Priority::InService => select! {
                biased;
                place = self.in_service.enter() => place,
                place = self.first.enter() => place,
            },
        }
    }
}

/// Places for first tries, and those who wait for one.
#[derive(Debug)]
struct Lane {
    places: Semaphore,
    /// How many wait for whom no place was left yet.
    waiting: watch::Sender<usize>,
}

impl Lane {
    fn with(places: usize) -> Self {
        Self { places: Semaphore::new(places), waiting: watch::Sender::new(0) }
    }

    async fn enter(&self) -> Place<'_> {
        if let Ok(permit) = self.places.try_acquire() {
            return Place { lane: self, is_promised: false, _permit: Some(permit) };
        }
        self.waiting.send_modify(|waiting| *waiting += 1);
        let mut waiter = Waiter { lane: self, has_place: false };
        let permit = self.places.acquire().await.ok(); // it is never closed
        waiter.has_place = true;
        Place { lane: self, is_promised: false, _permit: permit }
    }

    /// Promises one of those who wait the place that is about to be free. False when nobody waits.
    fn promise(&self) -> bool {
        self.waiting.send_if_modified(|waiting| {
            let waits = *waiting > 0;
            *waiting = waiting.saturating_sub(1);
            waits
        })
    }
}

/// One who waits. The place that one was promised who has left is the next one's.
struct Waiter<'l> {
    lane: &'l Lane,
    has_place: bool,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if !self.has_place {
            self.lane.promise();
        }
    }
}

struct Place<'l> {
    lane: &'l Lane,
    is_promised: bool,
    /// Free again once the place has been promised.
    _permit: Option<SemaphorePermit<'l>>,
}

impl Place<'_> {
    /// Waits until another one waits, and promises it this place.
    async fn make_room(&mut self) {
        let mut waiting = self.lane.waiting.subscribe();
        while !self.lane.promise() {
            let _ = waiting.wait_for(|waiting| *waiting > 0).await; // the sender is the lane's
        }
        self.is_promised = true;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.is_promised {
            self.lane.promise();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        future::pending,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::Relaxed},
        },
    };

    use tokio::{
        task::JoinHandle,
        time::{Instant, sleep},
    };

    use super::*;

    /// Work of this length by whoever takes a turn, and how often it began.
    fn work(lanes: &Arc<Lanes>, priority: Priority, length: Duration) -> (JoinHandle<Duration>, Arc<AtomicUsize>) {
        let (lanes, begun, since) = (Arc::clone(lanes), Arc::new(AtomicUsize::new(0)), Instant::now());
        let count = Arc::clone(&begun);
        let run = async move {
            let once = || async {
                count.fetch_add(1, Relaxed);
                sleep(length).await;
            };
            lanes.run(priority, once).await.unwrap();
            since.elapsed()
        };
        (tokio::spawn(run), begun)
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn fifty_that_hang_hold_up_no_quick_one_for_long() {
        let lanes = Arc::default();
        let slow: Vec<_> = (0..50).map(|_| work(&lanes, Priority::New, 20 * SECOND)).collect();
        sleep(SECOND / 10).await;
        let (quick, begun) = work(&lanes, Priority::New, SECOND / 10);
        let took = quick.await.unwrap();
        assert!(took < 16 * SECOND, "{took:?}: seven at a time, two seconds each");
        assert_eq!(begun.load(Relaxed), 1);
        for (slow, begun) in slow {
            let took = slow.await.unwrap();
            assert!(took < 300 * SECOND, "{took:?}: four at a time, twenty seconds each");
            assert!(begun.load(Relaxed) <= 2, "it has all the time it needs the second time");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_in_service_waits_for_no_new_one() {
        let lanes = Arc::default();
        let slow: Vec<_> = (0..50).map(|_| work(&lanes, Priority::New, 20 * SECOND)).collect();
        sleep(SECOND / 10).await;
        let others: Vec<_> = (0..2).map(|_| work(&lanes, Priority::InService, SECOND / 10)).collect();
        for (other, _) in others {
            assert_eq!(other.await.unwrap(), SECOND / 10);
        }
        slow.iter().for_each(|(slow, _)| slow.abort());
    }

    #[tokio::test(start_paused = true)]
    async fn who_hangs_in_service_makes_room_for_the_next_one_too() {
        let lanes = Arc::default();
        let slow: Vec<_> = (0..40).map(|_| work(&lanes, Priority::InService, 20 * SECOND)).collect();
        sleep(SECOND / 10).await;
        let (quick, _) = work(&lanes, Priority::New, SECOND / 10);
        assert!(quick.await.unwrap() < 12 * SECOND);
        slow.iter().for_each(|(slow, _)| slow.abort());
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_long_begins_once_where_nobody_waits() {
        let lanes = Arc::default();
        let all: Vec<_> = (0..FIRST_TRIES).map(|_| work(&lanes, Priority::New, 20 * SECOND)).collect();
        for (slow, begun) in all {
            assert_eq!((slow.await.unwrap(), begun.load(Relaxed)), (20 * SECOND, 1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_ended_than_wait() {
        let lanes = Arc::default();
        let slow: Vec<_> = (0..FIRST_TRIES).map(|_| work(&lanes, Priority::New, 20 * SECOND)).collect();
        sleep(3 * SECOND).await; // four have gone on, three hold first places
        let long: Vec<_> = (0..LONG_TRIES).map(|_| work(&lanes, Priority::New, 20 * SECOND)).collect();
        sleep(3 * SECOND).await; // seven hold them, and none waits
        let (quick, _) = work(&lanes, Priority::New, SECOND / 10);
        assert_eq!(quick.await.unwrap(), SECOND / 10);
        sleep(SECOND / 10).await;
        let begun: usize = slow.iter().chain(&long).map(|(_, begun)| begun.load(Relaxed)).sum();
        assert_eq!(begun, FIRST_TRIES + LONG_TRIES, "the one that was ended waits for its turn");
        let mut all = slow;
        all.extend(long);
        for (slow, _) in all.drain(..) {
            slow.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_while_waiting_takes_no_place_along() {
        let lanes: Arc<Lanes> = Arc::default();
        let slow: Vec<_> = (0..9).map(|_| work(&lanes, Priority::New, 3 * SECOND / 2)).collect();
        sleep(SECOND / 10).await;
        let waiting: Vec<_> = (0..20).map(|_| work(&lanes, Priority::New, SECOND)).collect();
        sleep(SECOND / 10).await;
        waiting.iter().for_each(|(waiting, _)| waiting.abort());
        for (slow, _) in slow {
            slow.await.unwrap();
        }
        sleep(SECOND / 10).await;
        assert_eq!(*lanes.first.waiting.borrow(), 0);
        assert_eq!(lanes.first.places.available_permits(), FIRST_TRIES);
        let stays = timeout(60 * SECOND, lanes.run(Priority::New, pending::<()>)).await;
        assert!(stays.is_err(), "nobody makes it leave");
    }
}
