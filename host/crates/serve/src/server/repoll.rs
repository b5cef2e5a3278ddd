//! Polling a connection again at once when it has woken itself.
//!
//! The body of a request and its handler live in the task of their connection and wake each other: reading one body
//! does so two or three times. Left to the runtime, each such wake puts the task at the end of a queue and gets another
//! thread up to look for work, which costs more than the request.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// In a row, before other tasks have their turn.
const MAX_POLLS: usize = 8;

const IDLE: u8 = 0;
const IN_POLL: u8 = 1;
/// Woken while it was polled.
const WOKEN: u8 = 2;

/// A future that is polled again at once when it was woken while it was polled.
pub(super) struct Repoll<F> {
    future: F,
    wake: Option<(Arc<PollWake>, Waker)>,
}

/// What wakes the future: its task, unless it is being polled.
struct PollWake {
    task: Waker,
    state: AtomicU8,
}

pub(super) fn repoll<F: Future + Unpin>(future: F) -> Repoll<F> {
    Repoll { future, wake: None }
}

impl<F: Future + Unpin> Future for Repoll<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, wake } = self.get_mut();
        // A task has one waker for its whole life, but nothing promises it.
        wake.take_if(|(wake, _)| !wake.task.will_wake(cx.waker()));
        let (wake, waker) = wake.get_or_insert_with(|| PollWake::with_waker(cx.waker()));
        for _ in 0..MAX_POLLS {
            wake.state.store(IN_POLL, Ordering::Release);
            if let Poll::Ready(output) = Pin::new(&mut *future).poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            if wake.state.compare_exchange(IN_POLL, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return Poll::Pending;
            }
        }
        wake.state.store(IDLE, Ordering::Release);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl PollWake {
    fn with_waker(task: &Waker) -> (Arc<Self>, Waker) {
        let wake = Arc::new(Self { task: task.clone(), state: AtomicU8::new(IDLE) });
        (Arc::clone(&wake), Waker::from(wake))
    }
}

impl Wake for PollWake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let seen = self.state.compare_exchange(IN_POLL, WOKEN, Ordering::AcqRel, Ordering::Acquire);
        if seen == Err(IDLE) {
            self.task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::atomic::AtomicUsize};

    use super::*;

    #[derive(Default)]
    struct CountedWakes(AtomicUsize);

    impl Wake for CountedWakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often the future was polled by one poll, and its task woken.
    fn polls_and_wakes(mut step: impl FnMut(usize, &Waker) -> Poll<()> + Unpin) -> (usize, usize) {
        let wakes = Arc::new(CountedWakes::default());
        let mut polls = 0;
        let mut future = repoll(poll_fn(|cx| {
            polls += 1;
            step(polls, cx.waker())
        }));
        let _ = Pin::new(&mut future).poll(&mut Context::from_waker(&Waker::from(Arc::clone(&wakes))));
        drop(future);
        (polls, wakes.0.load(Ordering::Relaxed))
    }

    #[test]
    fn what_wakes_itself_is_polled_again_without_its_task() {
        let twice = polls_and_wakes(|polls, waker| {
            if polls == 3 {
                return Poll::Ready(());
            }
            waker.wake_by_ref();
            waker.wake_by_ref();
            Poll::Pending
        });
        assert_eq!(twice, (3, 0));
        assert_eq!(polls_and_wakes(|_, _| Poll::Pending), (1, 0));
    }

    #[test]
    fn what_always_wakes_itself_leaves_others_their_turn() {
        let polled = polls_and_wakes(|_, waker| {
            waker.wake_by_ref();
            Poll::Pending
        });
        assert_eq!(polled, (MAX_POLLS, 1));
    }

    #[test]
    fn a_wake_between_polls_is_the_tasks() {
        let wakes = Arc::new(CountedWakes::default());
        let mut kept = None;
        let mut future = repoll(poll_fn(|cx| {
            kept = Some(cx.waker().clone());
            Poll::<()>::Pending
        }));
        let _ = Pin::new(&mut future).poll(&mut Context::from_waker(&Waker::from(Arc::clone(&wakes))));
        drop(future);
        if let Some(waker) = kept {
            waker.wake();
        }
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    }

    /// Wakes from other threads at any moment: none is lost.
    #[tokio::test(flavor = "multi_thread")]
    async fn no_wake_of_another_thread_is_lost() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<usize>(1);
        let reader = tokio::spawn(repoll(Box::pin(async move {
            let mut sum = 0;
            while let Some(number) = receiver.recv().await {
                sum += number;
            }
            sum
        })));
        for number in 0..10_000 {
            assert!(sender.send(number).await.is_ok());
        }
        drop(sender);
        assert_eq!(reader.await.ok(), Some((0..10_000).sum()));
    }
}
