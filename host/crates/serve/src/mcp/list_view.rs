//! What a client's lists of tools and prompts look like, and what they looked like when it last heard of them.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// What lists look like, as numbers that are the same in every process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct View {
    pub tools: u64,
    /// None to a client that was not told of prompts: it is not notified either.
    #[serde(default)]
    pub prompts: Option<u64>,
}

/// What the lists looked like when a client last heard of them.
#[derive(Debug)]
pub struct SeenView {
    tools: AtomicU64,
    prompts: Option<AtomicU64>,
}

impl SeenView {
    pub(super) fn new(view: View) -> Self {
        Self { tools: AtomicU64::new(view.tools), prompts: view.prompts.map(AtomicU64::new) }
    }

    pub(super) fn saw_tools(&self, tools: u64) {
        self.tools.store(tools, Ordering::Relaxed);
    }

    pub(super) fn saw_prompts(&self, prompts: u64) {
        if let Some(seen) = &self.prompts {
            seen.store(prompts, Ordering::Relaxed);
        }
    }

    /// What of it is news now, which no other stream then has as news.
    pub(super) fn news(&self, now: View) -> Option<ListChanges> {
        let tools = self.tools.swap(now.tools, Ordering::Relaxed) != now.tools;
        let prompts = match (&self.prompts, now.prompts) {
            (Some(seen), Some(now)) => seen.swap(now, Ordering::Relaxed) != now,
            _ => false,
        };
        (tools || prompts).then_some(ListChanges { tools, prompts })
    }
}

/// Which lists look other than a client last heard.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListChanges {
    pub tools: bool,
    pub prompts: bool,
}
