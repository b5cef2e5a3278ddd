//! How many descriptors the code of each plugin has opened and not closed. The system does not say who opened one, so
//! the open ones are counted whenever code begins or ends to run on a plugin's own threads: what is opened while one
//! plugin alone runs there is attributed to it, and what is opened while several run is divided among them as they
//! opened alone at about the same time. What the host opens meanwhile is counted, too, so this is evidence of who
//! opened what is there in the end, and no sum.

use std::{collections::BTreeMap, fs::File, sync::OnceLock};

use parking_lot::{Mutex, MutexGuard};

use super::tag::PluginTag;

static FOLDER: OnceLock<Option<File>> = OnceLock::new();
static INTERVALS: Mutex<Intervals> = Mutex::new(Intervals::new());

/// Groups of plugins whose common stretches are kept; of further ones nothing is attributed.
const MAX_GROUPS: usize = 64;

/// Opens what has to stay open for counting. Without it nothing is counted.
pub fn prepare() {
    FOLDER.get_or_init(|| File::open("/proc/self/fd").ok());
}

/// How many descriptors are open. `None` before Linux 6.2, which does not say so in one call.
fn open_now() -> Option<i64> {
    let open = FOLDER.get()?.as_ref()?.metadata().ok()?.len();
    i64::try_from(open).ok().filter(|open| *open > 0)
}

/// Time is cut into stretches in which the same plugins run.
struct Intervals {
    /// How many were open when this one began.
    open: Option<i64>,
    /// Pages of the plugins that run, one entry for each thread.
    running: Vec<usize>,
    /// What was opened by each while it ran alone.
    opened: BTreeMap<usize, i64>,
    /// The same as it was asked for last.
    opened_before: BTreeMap<usize, i64>,
    /// What was opened while several ran at once.
    opened_together: BTreeMap<Vec<usize>, i64>,
}

impl Intervals {
    const fn new() -> Self {
        Self {
            open: None,
            running: Vec::new(),
            opened: BTreeMap::new(),
            opened_before: BTreeMap::new(),
            opened_together: BTreeMap::new(),
        }
    }

    /// Ends one and begins the next.
    fn cut(&mut self, open: Option<i64>) {
        let before = std::mem::replace(&mut self.open, open);
        let Some((before, open)) = before.zip(open) else { return };
        let Some(first) = self.running.first() else { return };
        if open == before {
            return;
        }
        if self.running.iter().all(|other| other == first) {
            *self.opened.entry(*first).or_default() += open - before;
            return;
        }
        let mut group = self.running.clone();
        group.sort_unstable();
        group.dedup();
        if self.opened_together.contains_key(&group) || self.opened_together.len() < MAX_GROUPS {
            *self.opened_together.entry(group).or_default() += open - before;
        }
    }

    /// What each has opened, and a new beginning.
    fn take(&mut self) -> BTreeMap<usize, i64> {
        let alone = std::mem::take(&mut self.opened);
        let before = std::mem::replace(&mut self.opened_before, alone.clone());
        let count = |counts: &BTreeMap<usize, i64>, page: &usize| counts.get(page).map_or(0, |count| (*count).max(0));
        let weight = |page: &usize| count(&alone, page) + count(&before, page);
        let mut opened = alone.clone();
        for (group, together) in std::mem::take(&mut self.opened_together) {
            let whole: i64 = group.iter().map(weight).sum();
            if whole == 0 {
                continue;
            }
            for page in group.iter().filter(|page| weight(page) > 0) {
                *opened.entry(*page).or_default() += together * weight(page) / whole;
            }
        }
        opened
    }
}

fn intervals() -> MutexGuard<'static, Intervals> {
    INTERVALS.lock()
}

/// Code of a plugin runs on a thread of its own until this is dropped.
pub struct Counting(Option<usize>);

impl Counting {
    pub fn begin(tag: PluginTag) -> Self {
        if let Some(page) = tag.page() {
            let mut intervals = intervals();
            intervals.cut(open_now());
            intervals.running.push(page);
        }
        Self(tag.page())
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let Some(page) = self.0 else { return };
        let mut intervals = intervals();
        intervals.cut(open_now());
        if let Some(at) = intervals.running.iter().position(|running| *running == page) {
            intervals.running.swap_remove(at);
        }
    }
}

/// What was counted since this was asked last; negative for a plugin that has closed more than it has opened.
pub fn take() -> DescriptorCounts {
    let mut intervals = intervals();
    intervals.cut(open_now());
    DescriptorCounts(intervals.take())
}

/// See [`take`].
pub struct DescriptorCounts(BTreeMap<usize, i64>);

impl DescriptorCounts {
    pub fn by(&self, tag: PluginTag) -> i64 {
        tag.page().and_then(|page| self.0.get(&page)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_opened_while_one_plugin_runs_alone_is_its() {
        let mut intervals = Intervals::new();
        intervals.cut(Some(10));
        intervals.cut(Some(15)); // nobody ran
        intervals.running = vec![3, 3];
        intervals.cut(Some(40));
        intervals.running = vec![3, 7];
        intervals.cut(Some(60)); // of either
        intervals.running = vec![7];
        intervals.cut(Some(58));
        intervals.cut(None);
        intervals.cut(Some(90)); // it is not known since when
        assert_eq!(intervals.opened, [(3, 25), (7, -2)].into());
        assert_eq!(intervals.take(), [(3, 45), (7, -2)].into());
        assert_eq!(intervals.take(), [].into());
    }

    #[test]
    fn what_is_opened_while_several_run_is_divided_as_they_opened_alone() {
        let mut intervals = Intervals::new();
        intervals.cut(Some(0));
        for (running, open) in [(vec![3], 30), (vec![7], 40), (vec![7, 3, 7], 80), (vec![3, 9], 90), (vec![5, 9], 190)]
        {
            intervals.running = running;
            intervals.cut(Some(open));
        }
        assert_eq!(intervals.take(), [(3, 30 + 30 + 10), (7, 10 + 10)].into(), "nobody knows of 5 and 9");
        intervals.running = vec![3, 7];
        intervals.cut(Some(230));
        assert_eq!(intervals.take(), [(3, 30), (7, 10)].into(), "as a moment before");
        intervals.cut(Some(240));
        assert_eq!(intervals.take(), [].into(), "that is too long ago");
    }
}
