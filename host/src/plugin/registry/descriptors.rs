//! How many descriptors plugins have opened, as far as that can be known: the system does not say who opened one. What
//! the host does not account for itself is put down to the plugin that alone had calls while it was opened, and to
//! nobody when there were several.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::Registry;

/// Of a hundred descriptors that there may be, so many in use are warned about, once until they are fewer than that.
const WARN_PERCENT: u64 = 80;
const CALM_PERCENT: u64 = 70;
/// After so many looks at which a plugin had calls and no descriptor was opened, one that is opened is not its.
const CLEAN_LOOKS: u32 = 5;

/// What is known.
#[derive(Default)]
pub(super) struct Tally(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// Descriptors that the host did not open itself, at the last look.
    foreign: Option<u64>,
    /// Calls of each plugin by then, and for how many looks it was clean.
    calls: HashMap<String, u64>,
    clean: HashMap<String, u32>,
    by_plugin: BTreeMap<String, u64>,
    unattributed: u64,
    warned: bool,
}

impl Tally {
    pub fn get(&self, plugin: &str) -> u64 {
        self.lock().by_plugin.get(plugin).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// One look: what the host did not open, and who had calls since the last one.
    fn look(&mut self, foreign: u64, at_work: &[String]) {
        let before = self.foreign.replace(foreign).unwrap_or(foreign);
        if foreign > before {
            self.opened(foreign - before, at_work);
        } else {
            self.closed(before - foreign);
            for plugin in at_work {
                *self.clean.entry(plugin.clone()).or_default() += 1;
            }
        }
    }

    fn opened(&mut self, count: u64, at_work: &[String]) {
        let is_clean = |plugin: &&String| self.clean.get(*plugin).is_some_and(|looks| *looks >= CLEAN_LOOKS);
        let mut suspects = at_work.iter().filter(|plugin| !is_clean(plugin));
        let suspect = match (suspects.next(), suspects.next()) {
            (None, _) if at_work.len() == 1 => at_work.first(),
            (suspect, None) => suspect,
            _ => None,
        };
        match suspect {
            Some(plugin) => {
                let plugin = plugin.clone();
                self.clean.remove(&plugin);
                *self.by_plugin.entry(plugin).or_default() += count;
            }
            None => self.unattributed += count,
        }
    }

    /// Nobody knows which: first those that nobody is known to have opened, then those of whoever has most.
    fn closed(&mut self, mut count: u64) {
        let mut take = |from: &mut u64| {
            let taken = count.min(*from);
            *from -= taken;
            count -= taken;
        };
        take(&mut self.unattributed);
        if let Some(most) = self.by_plugin.values_mut().max_by_key(|count| **count) {
            take(most);
        }
    }

    /// Whether most are in use and that is news.
    fn is_alarming(&mut self, open: u64, most: u64) -> bool {
        let percent = open.saturating_mul(100) / most.max(1);
        let is_news = percent >= WARN_PERCENT && !self.warned;
        self.warned = percent >= WARN_PERCENT || (self.warned && percent >= CALM_PERCENT);
        is_news
    }
}

impl Registry {
    /// Looks at how many descriptors are open, and how many of those the host has opened itself. To be called every second.
    pub fn note_descriptors(&self, open: u64, most: u64, own: u64) {
        let mut counts = self.descriptors.lock();
        let mut at_work = Vec::new();
        for active in self.current().active() {
            let (name, calls) = (&active.manifest.name, active.guard.counters.calls.read());
            let before = counts.calls.insert(name.clone(), calls);
            if before != Some(calls) || active.instance.in_flight() > 0 {
                at_work.push(name.clone());
            }
        }
        counts.look(open.saturating_sub(own), &at_work);
        if counts.is_alarming(open, most) {
            let (by_plugin, unattributed) = (&counts.by_plugin, counts.unattributed);
            tracing::warn!(open, most, ?by_plugin, unattributed, "the worker has most of its descriptors in use");
        }
    }

    /// Descriptors that a plugin has opened, as far as is known.
    pub fn descriptors_of(&self, plugin: &str) -> u64 {
        self.descriptors.get(plugin)
    }

    /// Descriptors that were opened since the start, neither by the host nor by a plugin that is known.
    pub fn unattributed_descriptors(&self) -> u64 {
        self.descriptors.lock().unattributed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_is_opened_is_put_down_to_who_alone_was_at_work() {
        let mut counts = Counts::default();
        counts.look(20, &names(&["a", "b"]));
        assert_eq!(counts.unattributed, 0, "what was there before is the host's");
        counts.look(50, &names(&["a", "b"]));
        counts.look(60, &names(&["a"]));
        assert_eq!((counts.unattributed, counts.by_plugin.clone()), (30, [("a".to_owned(), 10)].into()));
        counts.look(25, &[]);
        assert_eq!((counts.unattributed, counts.by_plugin["a"]), (0, 5));
    }

    #[test]
    fn who_has_worked_for_long_and_opened_nothing_is_not_suspected() {
        let mut counts = Counts::default();
        (0..=CLEAN_LOOKS).for_each(|_| counts.look(20, &names(&["clean"])));
        counts.look(90, &names(&["clean", "leaking"]));
        assert_eq!((counts.unattributed, counts.by_plugin["leaking"]), (0, 70));
    }

    #[test]
    fn it_warns_once_until_it_is_calm_again() {
        let mut counts = Counts::default();
        let news: Vec<bool> = [79, 80, 95, 75, 81, 69, 80].map(|open| counts.is_alarming(open, 100)).to_vec();
        assert_eq!(news, [false, true, false, false, false, false, true]);
    }
}
