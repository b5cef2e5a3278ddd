//! The tools of one snapshot of plugins and the core's, as clients see them. They are declared once, when somebody
//! looks at the snapshot first; a list or a call only picks from them.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use rmcp::{
    ErrorData,
    model::{CacheScope, ListToolsResult, Tool},
};
use sha2::{Digest, Sha256};

use super::{core_tools, plugin_tools};
use cardinal_identity::auth::caller::Caller;
use cardinal_plugin_host::registry::Snapshot;

/// Tools of one page.
pub(super) const PAGE: usize = 100;
/// How long clients may keep a list; short, because some ignore that it changed.
pub(super) const LIST_TTL_MS: u64 = 60_000;

/// The keyword of a schema for an argument that a header repeats.
const HEADER_MARK: &[u8] = b"x-mcp-header";

/// A tool as it is listed.
pub struct ListedTool {
    pub tool: Tool,
    /// Who lacks it does not learn of the tool.
    pub scope: String,
    requires_confirmation: bool,
    /// Arguments are repeated in headers, which somebody has to compare.
    pub has_headers: bool,
    /// Of the declaration: two that differ look different to clients.
    digest: [u8; 32],
}

/// All tools, in the order of their names.
pub struct ToolList(Vec<ListedTool>);

/// The list of the snapshot that was looked at last. It does not keep the snapshot, nor its plugins, alive.
#[derive(Default)]
pub(super) struct LatestList(ArcSwapOption<(Weak<Snapshot>, Arc<ToolList>)>);

impl LatestList {
    /// The list of `snapshot`, made when it is another one than before.
    pub(super) fn get(&self, snapshot: &Arc<Snapshot>) -> Arc<ToolList> {
        // The weak pointer keeps the place of a snapshot that is gone from being another one's.
        if let Some(latest) = &*self.0.load()
            && Weak::as_ptr(&latest.0) == Arc::as_ptr(snapshot)
        {
            return Arc::clone(&latest.1);
        }
        let list = Arc::new(ToolList::new(snapshot));
        self.0.store(Some(Arc::new((Arc::downgrade(snapshot), Arc::clone(&list)))));
        list
    }
}

impl ToolList {
    fn new(snapshot: &Snapshot) -> Self {
        let core = core_tools::list()
            .iter()
            .map(|tool| ListedTool::new(tool.declaration.clone(), tool.scope, tool.requires_confirmation));
        let plugins = snapshot
            .tools
            .values()
            .map(|entry| ListedTool::new(plugin_tools::declare(entry), &entry.scope, entry.tool.requires_confirmation));
        let mut tools: Vec<ListedTool> = core.chain(plugins).collect();
        tools.sort_by(|a, b| a.tool.name.cmp(&b.tool.name));
        Self(tools)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&ListedTool> {
        let at = self.0.binary_search_by(|listed| (*listed.tool.name).cmp(name)).ok()?;
        self.0.get(at)
    }

    /// What the caller may use.
    pub(crate) fn visible<'a>(&'a self, caller: &'a Caller) -> impl Iterator<Item = &'a ListedTool> {
        self.0.iter().filter(|listed| caller.holds(&listed.scope))
    }
}

impl ListedTool {
    pub(crate) fn new(tool: Tool, scope: &str, requires_confirmation: bool) -> Self {
        let written = serde_json::to_vec(&tool).unwrap_or_default();
        let digest = Sha256::digest(&written).into();
        let has_headers = written.windows(HEADER_MARK.len()).any(|part| part == HEADER_MARK);
        Self { tool, scope: scope.to_owned(), requires_confirmation, has_headers, digest }
    }

    /// Whether nothing says that it changes anything. That it cannot, the caller's scopes see to.
    pub(crate) fn only_reads(&self) -> bool {
        let hints = self.tool.annotations.as_ref();
        let says_so = |hint: Option<bool>, wanted: bool| hint.is_none_or(|hint| hint == wanted);
        !self.requires_confirmation
            && hints.is_none_or(|hints| says_so(hints.read_only_hint, true) && says_so(hints.destructive_hint, false))
    }
}

/// What these tools look like, as a number that is the same in every process.
pub(super) fn view(tools: &[&ListedTool]) -> u64 {
    let digest = tools.iter().fold(Sha256::new(), |all, listed| all.chain_update(listed.digest)).finalize();
    digest.first_chunk().copied().map_or(0, u64::from_be_bytes)
}

/// Where the page begins that a cursor asks for, which is the last name of the page before.
pub(super) fn place<'a>(mut names: impl Iterator<Item = &'a str>, cursor: Option<&str>) -> Result<usize, ErrorData> {
    let Some(cursor) = cursor else { return Ok(0) };
    let last = names.position(|name| name == cursor);
    let unknown = || ErrorData::invalid_params("Unknown cursor: list from the beginning", None);
    last.map(|last| last + 1).ok_or_else(unknown)
}

/// The page of them that a cursor asks for.
pub(super) fn page(tools: &[&ListedTool], cursor: Option<&str>) -> Result<ListToolsResult, ErrorData> {
    let from = place(tools.iter().map(|listed| &*listed.tool.name), cursor)?;
    let page: Vec<Tool> = tools.iter().skip(from).take(PAGE).map(|listed| listed.tool.clone()).collect();
    let next = page.last().filter(|_| from + page.len() < tools.len()).map(|tool| tool.name.to_string());
    let mut result = ListToolsResult::with_all_items(page);
    result.next_cursor = next;
    result.ttl_ms = Some(LIST_TTL_MS);
    result.cache_scope = Some(CacheScope::Private);
    Ok(result)
}
