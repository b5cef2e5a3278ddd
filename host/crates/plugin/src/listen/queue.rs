//! What a listener has not read yet: bounded, in order.

use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

/// Notifications that wait, and the bytes of their payloads.
const MAX_ITEMS: usize = 1_000;
const MAX_BYTES: usize = 1 << 20;

/// Why there may have been notifications that are not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The connection was lost and made again.
    Reconnected,
    /// They came faster than they were read.
    Overflow,
}

impl Gap {
    /// The contract's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reconnected => "reconnected",
            Self::Overflow => "overflow",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    Payload(String),
    Gap(Gap),
}

/// What became of a notification.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivery {
    Queued,
    /// There was no room for it.
    Overflow {
        /// Nor for those before it.
        again: bool,
    },
    Closed,
}

/// A queue that one reads and the host fills. What comes while it is full is dropped, and a gap stands in its place.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    bytes: usize,
    reader: Option<Waker>,
    is_closed: bool,
}

impl State {
    fn ends_with_gap(&self) -> bool {
        matches!(self.items.back(), Some(Item::Gap(_)))
    }

    fn has_room(&self, payload: &str) -> bool {
        self.items.len() < MAX_ITEMS && self.bytes + payload.len() <= MAX_BYTES
    }
}

impl Queue {
    /// Puts a notification behind the others.
    pub fn push(&self, payload: &str) -> Delivery {
        let delivery = {
            let mut state = self.state.lock();
            if state.is_closed {
                return Delivery::Closed;
            }
            if state.has_room(payload) {
                state.bytes += payload.len();
                state.items.push_back(Item::Payload(payload.to_owned()));
                Delivery::Queued
            } else if state.ends_with_gap() {
                return Delivery::Overflow { again: true };
            } else {
                state.items.push_back(Item::Gap(Gap::Overflow));
                Delivery::Overflow { again: false }
            }
        };
        self.wake();
        delivery
    }

    /// Says that there may have been notifications. One gap behind another says no more than the first.
    pub(crate) fn push_gap(&self, gap: Gap) {
        {
            let mut state = self.state.lock();
            if state.is_closed || state.ends_with_gap() {
                return;
            }
            state.items.push_back(Item::Gap(gap));
        }
        self.wake();
    }

    /// The next item; `None` when it is closed and all was read.
    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let mut state = self.state.lock();
        match state.items.pop_front() {
            Some(item) => {
                if let Item::Payload(payload) = &item {
                    state.bytes -= payload.len();
                }
                Poll::Ready(Some(item))
            }
            None if state.is_closed => Poll::Ready(None),
            None => {
                let before = state.reader.replace(cx.waker().clone());
                drop(state); // first: what drops with a waker may come back here
                drop(before);
                Poll::Pending
            }
        }
    }

    /// Takes nothing more.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.wake();
    }

    pub fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    fn wake(&self) {
        let reader = self.state.lock().reader.take();
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(queue: &Queue) -> Poll<Option<Item>> {
        queue.poll_next(&mut Context::from_waker(Waker::noop()))
    }

    fn payload(text: &str) -> Poll<Option<Item>> {
        Poll::Ready(Some(Item::Payload(text.to_owned())))
    }

    const OVERFLOW: Poll<Option<Item>> = Poll::Ready(Some(Item::Gap(Gap::Overflow)));

    #[test]
    fn what_comes_too_fast_is_a_gap_in_its_place() {
        let queue = Queue::default();
        for n in 0..MAX_ITEMS {
            assert_eq!(queue.push(&n.to_string()), Delivery::Queued);
        }
        assert_eq!(queue.push("one too many"), Delivery::Overflow { again: false });
        assert_eq!(queue.push("and another"), Delivery::Overflow { again: true });
        queue.push_gap(Gap::Reconnected);
        assert_eq!(next(&queue), payload("0"));
        assert_eq!(next(&queue), payload("1"));
        assert_eq!(queue.push("later"), Delivery::Queued, "there is room again");
        for n in 2..MAX_ITEMS {
            assert_eq!(next(&queue), payload(&n.to_string()));
        }
        assert_eq!((next(&queue), next(&queue), next(&queue)), (OVERFLOW, payload("later"), Poll::Pending));
    }

    #[test]
    fn bytes_are_bounded_and_given_back() {
        let (queue, half) = (Queue::default(), "x".repeat(MAX_BYTES / 2));
        assert_eq!([queue.push(&half), queue.push(&half)], [Delivery::Queued, Delivery::Queued]);
        assert_eq!(queue.push("x"), Delivery::Overflow { again: false });
        assert_eq!((next(&queue), next(&queue), next(&queue)), (payload(&half), payload(&half), OVERFLOW));
        assert_eq!(queue.push(&half), Delivery::Queued);
    }

    #[test]
    fn what_has_come_before_the_end_is_read() {
        let queue = Queue::default();
        queue.push("last");
        queue.close();
        assert_eq!(queue.push("too late"), Delivery::Closed);
        queue.push_gap(Gap::Reconnected);
        assert_eq!((next(&queue), next(&queue)), (payload("last"), Poll::Ready(None)));
    }
}
