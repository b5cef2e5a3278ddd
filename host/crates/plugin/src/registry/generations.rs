//! The instances that this worker has made: those that serve, those that end, and those that are over. Libraries are
//! never unloaded, so what an upgrade leaves behind is counted and shown.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;

use super::entry::Service;
use crate::{instance::InstanceObserver, library::Library};
use cardinal_base::schema::DateTime;
use cardinal_package::state::State;

/// Generations of one plugin that are shown once their memory is given back; those that hold any are all shown.
const MAX_SHOWN: usize = 10;
/// The system cuts names of threads.
const THREAD_NAME: usize = 15;

/// One instance, as operators see it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PluginGeneration")]
pub struct GenerationReport {
    pub generation: u64,
    pub version: String,
    pub sha256: String,
    pub state: State,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "DateTime")]
    pub since: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<DateTime>")]
    pub retired_at: Option<OffsetDateTime>,
    pub in_flight: usize,
    /// Threads of its lane.
    pub threads: usize,
    /// Its memory is given back but for the library, which stays.
    pub freed: bool,
    /// Bytes that the library takes, shared by all generations of the same content.
    pub library_bytes: usize,
    /// Bytes that the library's code holds, if it counts them.
    pub memory_bytes: Option<u64>,
}

/// All of them, the newest of a plugin last.
#[derive(Default)]
pub(super) struct Generations(Mutex<BTreeMap<String, Vec<Generation>>>);

struct Generation {
    number: u64,
    version: String,
    sha256: String,
    state: State,
    since: OffsetDateTime,
    retired_at: Option<OffsetDateTime>,
    observer: InstanceObserver,
    library: Library,
}

impl Generations {
    /// One more that serves.
    pub(super) fn begin(&self, service: &Service, now: OffsetDateTime) {
        let active = &service.active;
        let generation = Generation {
            number: active.generation,
            version: active.manifest.version.to_string(),
            sha256: service.sha256.clone(),
            state: State::Active,
            since: now,
            retired_at: None,
            observer: active.instance.observer(),
            library: active.instance.library().clone(),
        };
        let mut all = self.0.lock();
        let generations = all.entry(active.manifest.name.clone()).or_default();
        generations.push(generation);
        let freed = generations.iter().filter(|it| it.observer.is_freed()).count();
        let mut surplus = freed.saturating_sub(MAX_SHOWN);
        generations.retain(|it| {
            let forgotten = surplus > 0 && it.observer.is_freed();
            surplus -= usize::from(forgotten);
            !forgotten
        });
    }

    /// One of them ends, or has ended.
    pub(super) fn set_state(&self, plugin: &str, number: u64, state: State, now: OffsetDateTime) {
        if let Some(generation) =
            self.0.lock().get_mut(plugin).and_then(|all| all.iter_mut().find(|it| it.number == number))
        {
            generation.state = state;
            generation.retired_at = (state == State::Retired).then_some(now);
        }
    }

    /// Those of a plugin, the newest first.
    pub(super) fn reports(&self, plugin: &str) -> Vec<GenerationReport> {
        self.0.lock().get(plugin).into_iter().flatten().rev().map(Generation::report).collect()
    }
}

impl Generation {
    fn report(&self) -> GenerationReport {
        GenerationReport {
            generation: self.number,
            version: self.version.clone(),
            sha256: self.sha256.clone(),
            state: self.state,
            since: self.since,
            retired_at: self.retired_at,
            in_flight: self.observer.in_flight(),
            threads: self.observer.threads(),
            freed: self.observer.is_freed(),
            library_bytes: self.library.place().len(),
            memory_bytes: self.library.memory().map(|memory| memory.held()),
        }
    }
}

/// Threads of this process by the names that plugins' threads have.
pub(super) struct Threads(Vec<String>);

impl Threads {
    pub(super) fn now() -> Self {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        Self(names.map(|name| name.trim_end().to_owned()).collect())
    }

    /// The io threads and lanes of a plugin, of all its generations.
    pub(super) fn count(&self, plugin: &str) -> usize {
        let named = |end: &str| {
            let name = format!("{plugin}-{end}");
            let shown = &name[..name.floor_char_boundary(THREAD_NAME)];
            self.0.iter().filter(|thread| *thread == shown).count()
        };
        if plugin.len() + 1 >= THREAD_NAME { named("io") } else { named("io") + named("lane") }
    }
}

/// The new ones among what serves now.
pub(super) fn fresh<'n>(old: &[Arc<Service>], new: &'n [Arc<Service>]) -> impl Iterator<Item = &'n Arc<Service>> {
    new.iter().filter(|new| !old.iter().any(|old| Arc::ptr_eq(&old.active, &new.active)))
}
