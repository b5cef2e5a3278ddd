//! Where the polls of a plugin's handlers run: on the core's threads, which is fast, or on the
//! plugin's own lane, which harms no other plugin.
//!
//! Each handler begins on the lane. After a thousand polls that were quick it moves to the core's
//! threads; when the watchdog finds one of its polls blocking there, it is back on the lane at once,
//! and the next time it takes twice as many. An operator can decide it for all handlers of a plugin.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use cardinal_plugin_abi::CtxId;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::runtime::Handle;

use super::{
    lane::{HELD_AFTER, PluginThreads, PollObserver, Relief},
    watchdog::{BlockObserver, Place, PollGuard, Watchdog},
};
use cardinal_base::config::Execution;
use cardinal_control::crash::PluginTag;

/// Quick polls on the lane after which a handler moves to the core's threads.
const PROBATION: u32 = 1_000;
/// A poll that took longer was not quick.
const QUICK: Duration = Duration::from_millis(5);
/// How many quick polls a slow one undoes. Not all: a busy machine makes some look slow.
const SLOW_COSTS: u32 = 250;
/// How often the number of polls doubles for a handler that has blocked the core.
const MAX_DOUBLINGS: u32 = 10;

/// The places of one plugin instance.
pub struct Placement {
    handlers: Arc<Handlers>,
    threads: PluginThreads,
    watchdog: Arc<Watchdog>,
    ctx: CtxId,
}

/// What is known of each handler.
struct Handlers {
    plugin: String,
    execution: Execution,
    list: Box<[Handler]>,
    blocks: [AtomicU64; 2],
    longest_ms: AtomicU64,
}

struct Handler {
    /// `GET /items`, or the name of a tool's handler.
    name: String,
    on_core: AtomicBool,
    quick: AtomicU32,
    blocked_core: AtomicU32,
    longest_ms: AtomicU64,
}

/// What operators see of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PluginExecution")]
pub struct PlacementReport {
    pub execution: Execution,
    /// Handlers whose polls run on the core's threads.
    pub inline: usize,
    pub handlers: usize,
    pub lane_threads: usize,
    /// Polls that did not return in time: on the core's threads, and on the lane's.
    pub blocked_core: u64,
    pub blocked_lane: u64,
    /// Handlers that have blocked a thread, and for how long at most; a poll that goes on counts with what it took so
    /// far.
    pub blocking: Vec<BlockingHandler>,
    /// Threads of its own that polls hold right now which do not return, and the most that it may have.
    pub held_threads: Vec<BlockingHandler>,
    pub most_threads: usize,
}

impl PlacementReport {
    /// In one sentence, when calls of the plugin wait for threads that do not come back.
    pub(crate) fn reason(&self) -> Option<String> {
        let mut handlers: Vec<&str> = self.held_threads.iter().map(|held| &*held.handler).collect();
        handlers.sort_unstable();
        handlers.dedup();
        let (held, max) = (self.held_threads.len(), self.most_threads);
        (held > 0)
            .then(|| format!("{held} of its {max} threads are held by handlers that block: {}.", handlers.join(", ")))
    }
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BlockingHandler {
    pub handler: String,
    pub longest_ms: u64,
}

impl Placement {
    /// Gives the plugin fresh threads when it needs them, and says in the log which handlers hold the others.
    pub(crate) fn relieve(&self) -> Relief {
        let relief = self.threads.relieve();
        if let Relief::Given(handlers) = &relief {
            let (plugin, handlers) = (&*self.handlers.plugin, self.names(handlers));
            tracing::error!(
                plugin,
                handlers,
                "all threads of a plugin are held by abandoned calls; it gets fresh ones, once"
            );
        }
        relief
    }

    /// The names of handlers, each once.
    fn names(&self, handlers: &[u32]) -> String {
        let names: BTreeSet<&str> = handlers.iter().map(|handler| self.name(*handler)).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// The places for an instance with these handlers.
    pub(crate) fn new(
        plugin: &str,
        ctx: CtxId,
        tag: PluginTag,
        handlers: impl Iterator<Item = String>,
        execution: Execution,
        watchdog: Arc<Watchdog>,
        runtime: Handle,
    ) -> Self {
        let handler = |name| Handler {
            name,
            on_core: AtomicBool::new(execution == Execution::Inline),
            quick: AtomicU32::new(0),
            blocked_core: AtomicU32::new(0),
            longest_ms: AtomicU64::new(0),
        };
        let handlers = Arc::new(Handlers {
            plugin: plugin.to_owned(),
            execution,
            list: handlers.map(handler).collect(),
            blocks: Default::default(),
            longest_ms: AtomicU64::new(0),
        });
        let threads = PluginThreads::new(
            plugin,
            ctx,
            tag,
            Arc::clone(&watchdog),
            runtime,
            Arc::clone(&handlers) as Arc<dyn PollObserver>,
        );
        let observer: Arc<dyn BlockObserver> = Arc::clone(&handlers) as Arc<dyn BlockObserver>;
        let observer: Weak<dyn BlockObserver> = Arc::downgrade(&observer);
        watchdog.observe(ctx, observer);
        Self { handlers, threads, watchdog, ctx }
    }

    /// A place on this thread for one poll of the handler, or `None`: send it to the lane.
    pub(crate) fn here(&self, handler: u32) -> Option<PollGuard<'_>> {
        let vouched = self.handlers.execution == Execution::Inline;
        let on_core = match self.handlers.list.get(handler as usize) {
            Some(known) => known.on_core.load(Ordering::Relaxed),
            None => vouched,
        };
        if on_core { self.watchdog.poll_here(self.ctx, handler, vouched) } else { None }
    }

    /// The route or name that a handler is known by.
    pub(crate) fn name(&self, handler: u32) -> &str {
        self.handlers.name(handler)
    }

    /// The plugin's own threads.
    pub(crate) fn threads(&self) -> &PluginThreads {
        &self.threads
    }

    pub(crate) fn report(&self) -> PlacementReport {
        let Handlers { execution, list, blocks, .. } = &*self.handlers;
        let [blocked_core, blocked_lane] =
            [Place::Core, Place::Lane].map(|place| blocks[place as usize].load(Ordering::Relaxed));
        let blocking = |handler: &Handler| {
            let longest_ms = handler.longest_ms.load(Ordering::Relaxed);
            (longest_ms > 0).then(|| BlockingHandler { handler: handler.name.clone(), longest_ms })
        };
        let (held, most_threads) = self.threads.held();
        let held = held.into_iter().map(|(handler, so_far)| BlockingHandler {
            handler: self.name(handler).to_owned(),
            longest_ms: so_far.as_millis() as u64,
        });
        PlacementReport {
            held_threads: held.collect(),
            most_threads,
            execution: *execution,
            inline: list.iter().filter(|handler| handler.on_core.load(Ordering::Relaxed)).count(),
            handlers: list.len(),
            lane_threads: self.threads.count(),
            blocked_core,
            blocked_lane,
            blocking: list.iter().filter_map(blocking).collect(),
        }
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        self.watchdog.forget(self.ctx);
    }
}

impl Handlers {
    fn name(&self, handler: u32) -> &str {
        self.list.get(handler as usize).map_or("(its own work)", |known| &known.name)
    }

    fn raise_longest(&self, handler: u32, ms: u64) {
        let known = self.list.get(handler as usize).map_or(&self.longest_ms, |known| &known.longest_ms);
        known.fetch_max(ms, Ordering::Relaxed);
    }
}

impl Handler {
    /// How many quick polls in a row it takes.
    fn probation(&self) -> u32 {
        PROBATION << self.blocked_core.load(Ordering::Relaxed).min(MAX_DOUBLINGS)
    }
}

impl PollObserver for Handlers {
    fn polled(&self, handler: u32, took: Duration) {
        let Some(known) = self.list.get(handler as usize).filter(|_| self.execution == Execution::Auto) else { return };
        if took <= QUICK {
            // Polls that are counted at the same time may miss each other: it then takes one more.
            let quick = known.quick.load(Ordering::Relaxed) + 1;
            known.quick.store(quick, Ordering::Relaxed);
            if quick >= known.probation() && !known.on_core.swap(true, Ordering::Relaxed) {
                tracing::debug!(plugin = self.plugin, handler = known.name, "runs on the core's threads now");
            }
        } else {
            let _ = known
                .quick
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |quick| Some(quick.saturating_sub(SLOW_COSTS)));
        }
    }
}

impl BlockObserver for Handlers {
    fn blocks(&self, handler: u32, place: Place, so_far: Duration) {
        let ms = so_far.as_millis() as u64;
        self.blocks[place as usize].fetch_add(1, Ordering::Relaxed);
        self.raise_longest(handler, ms);
        let (plugin, name) = (&*self.plugin, self.name(handler));
        if place == Place::Lane {
            tracing::info!(plugin, handler = name, ms, "a plugin blocks one of its own threads");
            return;
        }
        tracing::warn!(plugin, handler = name, ms, "a plugin blocks a thread of the core");
        if let Some(known) = self.list.get(handler as usize).filter(|_| self.execution == Execution::Auto) {
            known.quick.store(0, Ordering::Relaxed);
            known.blocked_core.fetch_add(1, Ordering::Relaxed);
            known.on_core.store(false, Ordering::Relaxed);
        }
    }

    fn still_blocks(&self, handler: u32, place: Place, before: Duration, so_far: Duration) {
        let ms = so_far.as_millis() as u64;
        self.raise_longest(handler, ms);
        if before < HELD_AFTER && so_far >= HELD_AFTER {
            let (plugin, handler, place) = (&*self.plugin, self.name(handler), place.name());
            tracing::warn!(plugin, handler, place, ms, "a handler does not return and holds its thread");
        }
    }

    fn returned(&self, handler: u32, place: Place, after: Duration) {
        let ms = after.as_millis() as u64;
        self.raise_longest(handler, ms);
        let (plugin, name) = (&*self.plugin, self.name(handler));
        match place {
            Place::Core => tracing::warn!(plugin, handler = name, ms, "a plugin gave a thread of the core back"),
            Place::Lane => tracing::info!(plugin, handler = name, ms, "a plugin gave one of its own threads back"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(execution: Execution) -> Placement {
        let runtime = Handle::current();
        let watchdog = Arc::new(Watchdog::start(runtime.clone()).unwrap());
        Placement::new("tested", 7, PluginTag::NOBODY, ["GET /x".to_owned()].into_iter(), execution, watchdog, runtime)
    }

    fn quick(placement: &Placement, polls: u32) {
        (0..polls).for_each(|_| placement.handlers.polled(0, Duration::from_micros(10)));
    }

    #[tokio::test]
    async fn a_handler_earns_its_place_and_loses_it() {
        let placement = placement(Execution::Auto);
        quick(&placement, PROBATION - 1);
        placement.handlers.polled(0, QUICK * 2);
        quick(&placement, SLOW_COSTS);
        assert!(placement.here(0).is_none(), "a slow poll has cost it some");
        quick(&placement, 1);
        assert!(placement.here(0).is_some());
        placement.handlers.blocks(0, Place::Core, Duration::from_millis(50));
        assert!(placement.here(0).is_none());
        quick(&placement, PROBATION);
        assert!(placement.here(0).is_none(), "it takes twice as many the second time");
        quick(&placement, PROBATION);
        assert!(placement.here(0).is_some());
        let report = placement.report();
        assert_eq!((report.blocked_core, report.blocking[0].longest_ms, report.inline), (1, 50, 1));
    }

    #[tokio::test]
    async fn an_operator_decides_for_all_of_a_plugin() {
        let (lane, inline) = (placement(Execution::Lane), placement(Execution::Inline));
        quick(&lane, 2 * PROBATION);
        assert!(lane.here(0).is_none());
        inline.handlers.blocks(0, Place::Core, Duration::from_millis(50));
        assert!(inline.here(0).is_some());
    }
}
