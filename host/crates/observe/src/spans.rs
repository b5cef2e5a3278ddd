//! Spans of requests on their way to a collector: which traces are sampled, and a bounded queue of what has ended.
//!
//! A request only ever puts a span into the queue. Whoever sends them (`serve/src/lifecycle/traces.rs`) takes batches
//! out of it; what does not fit is dropped and counted.

pub mod otlp;
mod rate;
mod span;

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::timeout};

use self::rate::SampleRate;
pub use self::span::{Attributes, Kind, Span};
use crate::{shard::Counter, trace::Trace};

/// Spans that wait to be sent: about 10 MB, and several seconds of a busy host.
const MAX_WAITING: usize = 8_192;
/// Spans that are sent in one request at most.
pub const MAX_BATCH: usize = 512;
/// How long a span waits for more at most.
const BATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Why a span is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// More traces begin here than are sampled.
    Rate,
    /// The queue is full.
    Queue,
    /// The collector is away, or does not take it.
    Collector,
}

impl DropReason {
    pub const ALL: [Self; 3] = [Self::Rate, Self::Queue, Self::Collector];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Queue => "queue",
            Self::Collector => "collector",
        }
    }
}

/// What becomes of spans. Without a collector there are none, which costs a request one branch.
#[derive(Debug, Default)]
pub struct Spans {
    queue: Option<Queue>,
    sent: Counter,
    dropped: [Counter; DropReason::ALL.len()],
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<VecDeque<Span>>,
    has_batch: Notify,
    rate: SampleRate,
}

impl Spans {
    pub fn new(is_on: bool) -> Self {
        Self { queue: is_on.then(Queue::default), ..Self::default() }
    }

    /// Decides about a trace as it comes in, and whether its spans are sent: who began it has said so; one that begins
    /// here is sampled as long as the rate of `second` (since 1970) allows it.
    pub fn sample(&self, trace: &mut Trace, second: impl FnOnce() -> u64) -> bool {
        let Some(queue) = &self.queue else { return false };
        if trace.begins_here() {
            if queue.rate.take(second()) {
                trace.set_sampled();
            } else {
                self.count_dropped(DropReason::Rate, 1);
            }
        }
        trace.is_sampled()
    }

    /// A part of this trace with a span of its own, when its spans are sent.
    pub fn child(&self, trace: &Trace) -> Option<Trace> {
        let is_sent = self.queue.is_some() && trace.is_sampled();
        is_sent.then(|| trace.child(&mut rand::rng()))
    }

    /// Queues a span that has ended. Never waits.
    pub fn push(&self, span: Span) {
        let Some(queue) = &self.queue else { return };
        let mut waiting = queue.waiting.lock();
        if waiting.len() >= MAX_WAITING {
            drop(waiting);
            return self.count_dropped(DropReason::Queue, 1);
        }
        waiting.push_back(span);
        if waiting.len() == MAX_BATCH {
            queue.has_batch.notify_one();
        }
    }

    /// Waits until a batch is full, or for the time that spans wait for more.
    pub async fn batch_due(&self) {
        let Some(queue) = &self.queue else { return std::future::pending().await };
        if queue.waiting.lock().len() < MAX_BATCH {
            let _ = timeout(BATCH_INTERVAL, queue.has_batch.notified()).await;
        }
    }

    /// Takes the oldest spans out, at most [`MAX_BATCH`].
    pub fn take_batch(&self) -> Vec<Span> {
        let Some(queue) = &self.queue else { return Vec::new() };
        let mut waiting = queue.waiting.lock();
        let count = waiting.len().min(MAX_BATCH);
        waiting.drain(..count).collect()
    }

    pub fn count_sent(&self, spans: usize) {
        self.sent.add(spans as u64);
    }

    pub fn count_dropped(&self, reason: DropReason, spans: usize) {
        self.dropped[reason as usize].add(spans as u64);
    }

    /// Those that a collector has taken.
    pub fn sent(&self) -> u64 {
        self.sent.read()
    }

    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize].read()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use time::OffsetDateTime;

    use super::{rate::MAX_TRACES_PER_SECOND, *};

    fn trace(parent: Option<&str>) -> Trace {
        let mut headers = HeaderMap::new();
        if let Some(parent) = parent {
            headers.insert(crate::trace::PARENT, parent.parse().unwrap());
        }
        Trace::from_headers(&headers, &mut rand::rng())
    }

    fn span(number: usize) -> Span {
        Span {
            trace: trace(None),
            state: None,
            kind: Kind::Internal,
            name: number.to_string(),
            started: OffsetDateTime::UNIX_EPOCH,
            took: Duration::ZERO,
            attributes: Attributes::default(),
            is_error: false,
        }
    }

    #[test]
    fn who_began_a_trace_decides_and_the_rate_where_it_begins_here() {
        let spans = Spans::new(true);
        for _ in 0..MAX_TRACES_PER_SECOND {
            assert!(spans.sample(&mut trace(None), || 7));
        }
        let mut over = trace(None);
        assert!(!spans.sample(&mut over, || 7) && !over.is_sampled() && spans.child(&over).is_none());
        let given = |flags: &str| trace(Some(&format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}")));
        assert!(spans.sample(&mut given("01"), || 7), "whoever began it wants it");
        assert!(!spans.sample(&mut given("00"), || 8), "or does not");
        assert!(spans.sample(&mut trace(None), || 8), "another second");
        assert_eq!(spans.dropped(DropReason::Rate), 1);
    }

    #[test]
    fn without_a_collector_nothing_is_sampled_or_kept() {
        let spans = Spans::new(false);
        let mut own = trace(None);
        assert!(!spans.sample(&mut own, || unreachable!("the time is not looked up")) && !own.is_sampled());
        let given = trace(Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
        assert!(spans.child(&given).is_none());
        spans.push(span(0));
        assert!(spans.take_batch().is_empty());
    }

    #[test]
    fn the_queue_is_bounded_and_keeps_the_order() {
        let spans = Spans::new(true);
        for number in 0..MAX_WAITING + 3 {
            spans.push(span(number));
        }
        assert_eq!(spans.dropped(DropReason::Queue), 3);
        let first = spans.take_batch();
        assert_eq!((first.len(), first[0].name.as_str(), first[MAX_BATCH - 1].name.as_str()), (MAX_BATCH, "0", "511"));
        let mut taken = first.len();
        while let batch = spans.take_batch()
            && !batch.is_empty()
        {
            taken += batch.len();
        }
        assert_eq!(taken, MAX_WAITING);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_due_when_it_is_full_or_its_time_has_come() {
        let (spans, started) = (Spans::new(true), tokio::time::Instant::now());
        spans.push(span(0));
        spans.batch_due().await;
        assert_eq!(started.elapsed(), BATCH_INTERVAL);
        (1..MAX_BATCH).for_each(|number| spans.push(span(number)));
        spans.batch_due().await;
        assert_eq!(started.elapsed(), BATCH_INTERVAL, "at once");
    }
}
