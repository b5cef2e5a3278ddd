//! Events: what happened to cards, plugins and jobs, for whoever wants to hear of it.
//!
//! Writers leave them in `event_outbox` with their own transaction. Whichever host comes first gives them their
//! numbers, one host at a time; each host with readers looks for new numbers a few times a second, once for all of
//! them.

pub mod card_page;
pub mod stream_slots;

use std::{sync::Arc, time::Duration};

use parking_lot::RwLock;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::stream_slots::{StreamSlot, StreamSlots};
use crate::error::StoreError;
use crate::event_log::{
    LogPosition,
    event::{Event, NumberedEvent, Topics},
};
use cardinal_database::{log_failure, pool::Pool};
use cardinal_observe::recent::{self, Bounds, Portion, Recent};

/// How often a host looks for events while somebody reads them there, and while nobody does: then it only sees to it
/// that they don't pile up without a number.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const LOOK_IDLE: Duration = Duration::from_secs(1);
/// How long the database may take for one look; then it is taken for gone.
const RAISE_TIMEOUT: Duration = Duration::from_secs(5);
/// Events that are numbered, or read, in one statement.
const MAX_BATCH: i32 = 1_000;
/// Events that are kept in memory, and bytes of them: who is further behind is too slow.
const MAX_RECENT: Bounds = Bounds { entries: 4_096, bytes: 8 << 20 };
/// Readers of a host, and of one user.
const READERS: usize = 1_000;
const READERS_PER_USER: usize = 32;
/// Events that a reader who comes back gets in one statement, and such statements at the same time.
const PAGE: i64 = 500;
const CATCHING_UP: usize = 4;
/// How long events can be resumed from, how many of them, and how many are forgotten in one statement.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);
const MAX_EVENTS: i64 = 1_000_000;
const FORGET_BATCH: i32 = 5_000;

/// The events of a host.
pub struct Events {
    pool: Pool,
    recent: RwLock<Recent<NumberedEvent>>,
    /// The last number in `recent`.
    head: watch::Sender<i64>,
    slots: Arc<StreamSlots>,
    /// Rings when a reader comes.
    arrived: Notify,
    catching_up: Semaphore,
    stop: CancellationToken,
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With what happens from now on, after this number.
    Now(i64),
    /// After the number that it read last.
    After(i64),
    /// What comes after its number is not kept, or is another database's: it has to look at everything again, and goes
    /// on after this one.
    Reset(i64),
}

impl Events {
    pub fn new(pool: Pool, stop: &CancellationToken) -> Self {
        Self {
            pool,
            recent: RwLock::new(Recent::new(MAX_RECENT)),
            head: watch::Sender::new(0),
            slots: Arc::new(StreamSlots::new(READERS, READERS_PER_USER)),
            arrived: Notify::new(),
            catching_up: Semaphore::new(CATCHING_UP),
            stop: stop.clone(),
        }
    }

    /// How many read along here.
    pub fn readers(&self) -> usize {
        self.slots.taken()
    }

    /// A place for a reader, and where it begins. 503 at the end of the host, too.
    pub async fn admit(&self, user: Uuid, last_read: Option<i64>) -> Result<(StreamSlot, Begin), StoreError> {
        if self.stop.is_cancelled() {
            return Err(StoreError::Draining);
        }
        let slot = self.slots.take(user)?;
        let position = crate::event_log::position(&self.pool).await?;
        self.arrived.notify_one();
        Ok((slot, begin(position, last_read)))
    }

    /// The number of the last event that is here; changes when there are new ones.
    pub fn head(&self) -> watch::Receiver<i64> {
        self.head.subscribe()
    }

    /// What there is for a reader at `place`.
    pub fn portion(&self, place: i64, topics: Topics) -> Portion {
        self.recent.read().portion(place, wanted(topics))
    }

    /// The same from the database, for a reader who comes back; `Gone` when it is not kept any more.
    pub async fn older(&self, place: i64, topics: Topics) -> Result<Portion, StoreError> {
        let _permit = self.catching_up.acquire().await.map_err(StoreError::internal)?;
        let events = crate::event_log::after(&self.pool, place, PAGE).await?;
        Ok(match events.first() {
            None => Portion::Nothing,
            Some(first) if first.id != place + 1 => Portion::Gone,
            Some(_) => recent::portion(events.iter(), place, wanted(topics)),
        })
    }

    /// Where a reader begins anew whose events are not kept any more.
    pub async fn restart_position(&self) -> Result<i64, StoreError> {
        Ok(crate::event_log::position(&self.pool).await?.last)
    }

    /// Ends when the host does.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Numbers events and brings them to the readers while the host lives.
    pub async fn keep_up(&self) {
        let mut failing = false;
        loop {
            let looked = match tokio::time::timeout(RAISE_TIMEOUT, self.look()).await {
                Ok(looked) => looked,
                Err(_) => {
                    let cause = anyhow::anyhow!("no answer in {RAISE_TIMEOUT:?}");
                    Err(StoreError::Outage(cause))
                }
            };
            if let Err(error) = &looked
                && !failing
            {
                log_failure!(error, "events wait for the database");
            }
            failing = looked.is_err();
            let pause = if self.readers() > 0 { POLL_INTERVAL } else { LOOK_IDLE };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.arrived.notified() => {}
            }
        }
    }

    async fn look(&self) -> Result<(), StoreError> {
        let mut position = crate::event_log::position(&self.pool).await?;
        if position.waiting {
            while crate::event_log::number(&self.pool, MAX_BATCH).await? == i64::from(MAX_BATCH) {}
            position = crate::event_log::position(&self.pool).await?;
        }
        let head = self.recent.read().head();
        // Without readers nothing is read; the first one finds what is older in the database.
        if self.readers() == 0 || head == 0 || head > position.last {
            if head != position.last {
                self.publish(|recent| recent.restart(position.last));
            }
            return Ok(());
        }
        let mut head = head;
        while head < position.last {
            let events = crate::event_log::after(&self.pool, head, i64::from(MAX_BATCH)).await?;
            let Some(last) = events.last() else { break };
            head = last.id;
            self.publish(|recent| events.into_iter().for_each(|event| recent.add(event)));
        }
        Ok(())
    }

    fn publish(&self, change: impl FnOnce(&mut Recent<NumberedEvent>)) {
        let mut recent = self.recent.write();
        change(&mut recent);
        self.head.send_replace(recent.head());
    }

    /// Forgets what is past its time; gives how much.
    pub async fn forget_old(&self) -> Result<i64, StoreError> {
        let mut forgotten = 0;
        loop {
            let some = crate::event_log::forget(&self.pool, FORGET_BATCH, MAX_EVENTS, MAX_AGE).await?;
            forgotten += some;
            if some < i64::from(FORGET_BATCH) {
                return Ok(forgotten);
            }
        }
    }
}

fn wanted(topics: Topics) -> impl Fn(&NumberedEvent) -> bool {
    move |event| topics.holds(event.topic)
}

fn begin(position: LogPosition, last_read: Option<i64>) -> Begin {
    match last_read {
        None => Begin::Now(position.last),
        Some(last) if (position.kept_from - 1..=position.last).contains(&last) => Begin::After(last),
        Some(_) => Begin::Reset(position.last),
    }
}

/// Raises an event of something that has no transaction of its own. What has one calls [`crate::event_log::raise`] in
/// it, so that both happen or neither does. An event that can't be written undoes nothing: the log has it instead.
pub async fn raise(pool: &Pool, event: &Event) {
    let raised = async {
        let client = pool.get().await?;
        crate::event_log::raise(&*client, event).await
    };
    if let Err(error) = raised.await {
        tracing::warn!(?event, ?error, "failed to write an event; its readers will miss it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_goes_on_only_where_nothing_is_missing() {
        let position = LogPosition { last: 20, kept_from: 11, waiting: false };
        assert_eq!(begin(position, None), Begin::Now(20));
        for kept in [10, 15, 20] {
            assert_eq!(begin(position, Some(kept)), Begin::After(kept));
        }
        for not in [0, 9, 21, i64::MAX] {
            assert_eq!(begin(position, Some(not)), Begin::Reset(20), "{not}");
        }
    }
}
