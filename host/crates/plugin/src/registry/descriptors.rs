//! How many descriptors plugins have opened, as far as that can be known: the system does not say who opened one. What
//! the host does not account for itself is attributed to the plugins that were seen to open as many, the rest to the
//! one that opened most of it or alone had calls meanwhile, and to none when there were several.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;

use super::Registry;
use cardinal_control::crash::{PluginTag, end_for_taken_descriptors, opened};

/// Of a hundred descriptors that there may be, so many in use are warned about, once until they are fewer than that.
const WARN_PERCENT: u64 = 80;
const CALM_PERCENT: u64 = 70;
/// After so many looks at which a plugin had calls and no descriptor was opened, one that is opened is not its.
const CLEAN_LOOKS: u32 = 5;
/// A plugin that was seen to open a quarter of what is there, and no other to open anything near that, has opened it.
const SHARE_SEEN: u64 = 4;

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
    /// Of these, what it was seen to open: never more, since what is closed on a thread of its own is not seen.
    seen: BTreeMap<String, u64>,
    unattributed: u64,
    /// Those that the host opened, and how many there may be.
    own: u64,
    limit: u64,
    warned: bool,
}

impl Tally {
    pub(super) fn get(&self, plugin: &str) -> u64 {
        self.0.lock().by_plugin.get(plugin).copied().unwrap_or_default()
    }
}

impl Counts {
    /// One look: what the host did not open, and since the last one who had calls and who was seen to open how many.
    fn look(&mut self, foreign: u64, at_work: &[String], seen: &BTreeMap<String, i64>) {
        let before = self.foreign.replace(foreign).unwrap_or(foreign);
        for (plugin, seen) in seen.iter().filter(|(_, seen)| **seen != 0) {
            let open = self.seen.entry(plugin.clone()).or_default();
            *open = open.saturating_add_signed(*seen);
        }
        if foreign > before {
            let left = self.seen_opening(foreign - before, seen);
            self.opened(left, at_work);
        } else {
            let left = self.seen_closing(before - foreign, seen);
            self.closed(left);
            for plugin in at_work {
                *self.clean.entry(plugin.clone()).or_default() += 1;
            }
        }
        for (plugin, seen) in &mut self.seen {
            *seen = self.by_plugin.get(plugin).copied().unwrap_or_default().min(*seen);
        }
    }

    /// Puts what was opened down to the plugins that were seen to, those with most first; gives what is left.
    fn seen_opening(&mut self, count: u64, seen: &BTreeMap<String, i64>) -> u64 {
        let mut seen: Vec<_> =
            seen.iter().filter_map(|(name, seen)| Some((name, u64::try_from(*seen).ok()?))).collect();
        seen.retain(|(_, seen)| *seen > 0);
        seen.sort_by_key(|(_, seen)| std::cmp::Reverse(*seen));
        let opened_much = seen.iter().filter(|(_, seen)| seen.saturating_mul(SHARE_SEEN) >= count).count();
        let mut left = count;
        for (at, (plugin, seen)) in seen.into_iter().enumerate() {
            // It ran beside others for the rest of the time.
            let its = if at == 0 && opened_much == 1 { left } else { seen.min(left) };
            if its > 0 {
                left -= its;
                self.clean.remove(plugin);
                *self.by_plugin.entry(plugin.clone()).or_default() += its;
            }
        }
        left
    }

    /// The same for what was closed.
    fn seen_closing(&mut self, mut count: u64, seen: &BTreeMap<String, i64>) -> u64 {
        for (plugin, seen) in seen.iter().filter(|(_, seen)| **seen < 0) {
            if let Some(open) = self.by_plugin.get_mut(plugin) {
                let its = seen.unsigned_abs().min(count).min(*open);
                count -= its;
                *open -= its;
            }
        }
        count
    }

    fn opened(&mut self, count: u64, at_work: &[String]) {
        if count == 0 {
            return;
        }
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

    /// It is not known which: first those without an owner, then those of the plugin that has most.
    fn closed(&mut self, mut count: u64) {
        let mut take = |from: &mut u64| {
            let taken = count.min(*from);
            *from -= taken;
            count -= taken;
        };
        take(&mut self.unattributed);
        if let Some(largest) = self.by_plugin.values_mut().max_by_key(|count| **count) {
            take(largest);
        }
    }

    /// Whether plugins have more than half of all that there may be. For each that the host accounts for there may be
    /// another of its own: a connection that is proxied has one.
    fn are_taken(&self) -> bool {
        self.foreign.is_some_and(|foreign| foreign.saturating_sub(self.own) > self.limit / 2)
    }

    /// The plugin that was itself seen to open as many. That another alone had calls meanwhile proves nothing: threads
    /// of a plugin's own open files without a call.
    fn taker(&self) -> Option<&str> {
        self.seen.iter().find(|(_, open)| **open > self.limit / 2).map(|(plugin, _)| plugin.as_str())
    }

    /// Whether most are in use and that is news.
    fn is_alarming(&mut self, open: u64, limit: u64) -> bool {
        let percent = open.saturating_mul(100) / limit.max(1);
        let is_news = percent >= WARN_PERCENT && !self.warned;
        self.warned = percent >= WARN_PERCENT || (self.warned && percent >= CALM_PERCENT);
        is_news
    }
}

impl Registry {
    /// Looks at how many descriptors are open, and how many of those the host has opened itself. To be called every
    /// second.
    pub fn note_descriptors(&self, open: u64, most: u64, own: u64) {
        let mut counts = self.descriptors.0.lock();
        let opened = opened::take();
        let (mut at_work, mut seen) = (Vec::new(), BTreeMap::new());
        for active in self.current().active() {
            let (name, calls) = (&active.manifest.name, active.guard.counters.calls.read());
            let before = counts.calls.insert(name.clone(), calls);
            seen.insert(name.clone(), opened.by(active.instance.tag()));
            if before != Some(calls) || active.instance.in_flight() > 0 {
                at_work.push(name.clone());
            }
        }
        (counts.own, counts.limit) = (own, most);
        counts.look(open.saturating_sub(own), &at_work, &seen);
        if counts.is_alarming(open, most) {
            let (by_plugin, unattributed) = (&counts.by_plugin, counts.unattributed);
            tracing::warn!(open, most, ?by_plugin, unattributed, "the worker has most of its descriptors in use");
        }
    }

    /// To be called when there has been no descriptor for new connections for a while. Ends the process when plugins
    /// have taken most of them; otherwise clients have, and some of them will go.
    pub fn end_for_taken_descriptors(&self) {
        let current = self.current();
        let counts = self.descriptors.0.lock();
        if counts.are_taken() {
            let (by_plugin, unattributed, plugin) = (&counts.by_plugin, counts.unattributed, counts.taker());
            tracing::error!(?by_plugin, unattributed, plugin, "plugins have taken all descriptors; ending the worker");
            let active = current.active().find(|active| Some(active.manifest.name.as_str()) == plugin);
            end_for_taken_descriptors(active.map_or(PluginTag::NOBODY, |active| active.instance.tag()));
        }
    }

    /// Descriptors that a plugin has opened, as far as is known.
    pub fn open_descriptors(&self, plugin: &str) -> u64 {
        self.descriptors.get(plugin)
    }

    /// Descriptors that were opened since the start, neither by the host nor by a plugin that is known.
    pub fn unattributed_descriptors(&self) -> u64 {
        self.descriptors.0.lock().unattributed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn seen(seen: &[(&str, i64)]) -> BTreeMap<String, i64> {
        seen.iter().map(|(name, seen)| ((*name).to_owned(), *seen)).collect()
    }

    #[test]
    fn what_a_plugin_was_seen_to_open_is_its_own_whoever_else_was_at_work() {
        let (mut counts, both) = (Counts::default(), names(&["busy", "leaking"]));
        counts.look(20, &both, &seen(&[]));
        counts.look(120, &both, &seen(&[("busy", 1), ("leaking", 100)]));
        assert_eq!((counts.unattributed, counts.by_plugin.clone()), (0, [("leaking".to_owned(), 100)].into()));
        counts.look(130, &both, &seen(&[("busy", -2), ("leaking", 7)]));
        assert_eq!((counts.unattributed, counts.by_plugin["leaking"]), (0, 110), "it was seen to open most of it");
        counts.look(230, &both, &seen(&[("busy", 0), ("leaking", 24)]));
        assert_eq!((counts.unattributed, counts.by_plugin["leaking"]), (76, 134), "too little was seen");
        counts.unattributed = 0;
        counts.look(180, &both, &seen(&[("busy", -1), ("leaking", -50)]));
        assert_eq!((counts.unattributed, counts.by_plugin["leaking"]), (0, 84));
    }

    #[test]
    fn what_is_opened_is_put_down_to_who_alone_was_at_work() {
        let mut counts = Counts::default();
        counts.look(20, &names(&["a", "b"]), &seen(&[]));
        assert_eq!(counts.unattributed, 0, "what was there before is the host's");
        counts.look(50, &names(&["a", "b"]), &seen(&[]));
        counts.look(60, &names(&["a"]), &seen(&[]));
        assert_eq!((counts.unattributed, counts.by_plugin.clone()), (30, [("a".to_owned(), 10)].into()));
        counts.look(25, &[], &seen(&[]));
        assert_eq!((counts.unattributed, counts.by_plugin["a"]), (0, 5));
    }

    #[test]
    fn who_has_worked_for_long_and_opened_nothing_is_not_suspected() {
        let mut counts = Counts::default();
        (0..=CLEAN_LOOKS).for_each(|_| counts.look(20, &names(&["clean"]), &seen(&[])));
        counts.look(90, &names(&["clean", "leaking"]), &seen(&[]));
        assert_eq!((counts.unattributed, counts.by_plugin["leaking"]), (0, 70));
    }

    #[test]
    fn who_was_seen_to_open_more_than_half_of_all_has_taken_them() {
        let mut counts = Counts { limit: 100, ..Counts::default() };
        counts.look(10, &names(&["calls", "leaking"]), &seen(&[]));
        counts.look(70, &names(&["calls"]), &seen(&[("calls", 1)]));
        assert_eq!((counts.by_plugin["calls"], counts.are_taken(), counts.taker()), (60, true, None));
        counts.look(20, &[], &seen(&[]));
        counts.look(80, &names(&["calls", "leaking"]), &seen(&[("calls", 1), ("leaking", 51)]));
        assert_eq!((counts.are_taken(), counts.taker()), (true, Some("leaking")));
        counts.own = 30;
        assert!(!counts.are_taken(), "as many clients may be proxied");
        counts.look(50, &names(&["leaking"]), &seen(&[("leaking", -30)]));
        assert_eq!((counts.are_taken(), counts.taker()), (false, None));
    }

    #[test]
    fn who_opens_in_calls_and_closes_where_nobody_looks_has_taken_none() {
        let mut counts = Counts { limit: 100, ..Counts::default() };
        for _ in 0..20 {
            counts.look(10, &names(&["pool"]), &seen(&[("pool", 9)]));
        }
        counts.look(90, &names(&["pool"]), &seen(&[]));
        assert_eq!((counts.are_taken(), counts.taker()), (true, None));
    }

    #[test]
    fn it_warns_once_until_it_is_calm_again() {
        let mut counts = Counts::default();
        let news: Vec<bool> = [79, 80, 95, 75, 81, 69, 80].map(|open| counts.is_alarming(open, 100)).to_vec();
        assert_eq!(news, [false, true, false, false, false, false, true]);
    }
}
