//! How many descriptors the code of each plugin has opened and not closed. The system does not say who opened one, so
//! the open ones are counted whenever code begins or ends to run on a plugin's own threads: what is opened while one
//! plugin alone runs there is attributed to it. What the host opens meanwhile is counted, too, so this is evidence of who
//! opened what is there in the end, and no sum.

use std::{collections::BTreeMap, fs::File, sync::OnceLock};

use parking_lot::{Mutex, MutexGuard};

use super::tag::PluginTag;

static FOLDER: OnceLock<Option<File>> = OnceLock::new();
static STRETCHES: Mutex<Stretches> = Mutex::new(Stretches::new());

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
struct Stretches {
    /// How many were open when this one began.
    open: Option<i64>,
    /// Pages of the plugins that run, one entry for each thread.
    running: Vec<usize>,
    /// What was opened by each while it ran alone.
    opened: BTreeMap<usize, i64>,
}

impl Stretches {
    const fn new() -> Self {
        Self { open: None, running: Vec::new(), opened: BTreeMap::new() }
    }

    /// Ends one and begins the next.
    fn cut(&mut self, open: Option<i64>) {
        let before = std::mem::replace(&mut self.open, open);
        let Some((before, open)) = before.zip(open) else { return };
        if let Some(page) = self.running.first()
            && open != before
            && self.running.iter().all(|other| other == page)
        {
            *self.opened.entry(*page).or_default() += open - before;
        }
    }
}

fn stretches() -> MutexGuard<'static, Stretches> {
    STRETCHES.lock()
}

/// Code of a plugin runs on a thread of its own until this is dropped.
pub struct Counting(Option<usize>);

impl Counting {
    pub fn begin(mark: PluginTag) -> Self {
        if let Some(page) = mark.page() {
            let mut stretches = stretches();
            stretches.cut(open_now());
            stretches.running.push(page);
        }
        Self(mark.page())
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let Some(page) = self.0 else { return };
        let mut stretches = stretches();
        stretches.cut(open_now());
        if let Some(at) = stretches.running.iter().position(|running| *running == page) {
            stretches.running.swap_remove(at);
        }
    }
}

/// What was counted since this was asked last; negative for a plugin that has closed more than it has opened.
pub fn take() -> DescriptorCounts {
    let mut stretches = stretches();
    stretches.cut(open_now());
    DescriptorCounts(std::mem::take(&mut stretches.opened))
}

/// See [`take`].
pub struct DescriptorCounts(BTreeMap<usize, i64>);

impl DescriptorCounts {
    pub fn by(&self, mark: PluginTag) -> i64 {
        mark.page().and_then(|page| self.0.get(&page)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_opened_while_one_plugin_runs_alone_is_its() {
        let mut stretches = Stretches::new();
        stretches.cut(Some(10));
        stretches.cut(Some(15)); // nobody ran
        stretches.running = vec![3, 3];
        stretches.cut(Some(40));
        stretches.running = vec![3, 7];
        stretches.cut(Some(60)); // of either
        stretches.running = vec![7];
        stretches.cut(Some(58));
        stretches.cut(None);
        stretches.cut(Some(90)); // it is not known since when
        assert_eq!(stretches.opened, [(3, 25), (7, -2)].into());
    }
}
