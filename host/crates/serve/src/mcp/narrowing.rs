//! What a connection is narrowed to, as its client's configuration says it: `?tools=`, `?readonly=` and `?search=` in
//! the URL, or headers of the same sense. It takes away and never gives.

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

use http::{HeaderMap, HeaderName, Uri};

use super::tool_list::{ListedTool, ToolList};
use cardinal_base::{
    scope::{KNOWN, MCP_USE, ScopeSet},
    spelling::did_you_mean,
};
use cardinal_identity::auth::caller::{Caller, SharedCaller};
use cardinal_plugin_host::registry::Snapshot;

const TOOLS: HeaderName = HeaderName::from_static("x-mcp-tools");
const READ_ONLY: HeaderName = HeaderName::from_static("x-mcp-readonly");
const SEARCH: HeaderName = HeaderName::from_static("x-mcp-search");

/// Names and patterns of one list.
const NAMES_LIMIT: usize = 200;
/// Bytes of one list.
const LIST_LIMIT: usize = 8 << 10;
/// Bytes that are shown of what is wrong.
const SHOWN: usize = 100;

/// What a read-only connection keeps of its caller's scopes.
static READS: LazyLock<ScopeSet> = LazyLock::new(|| {
    let core = KNOWN.iter().copied().filter(|scope| scope.ends_with(":read"));
    ScopeSet::lenient(core.chain(["plugin:*:read", MCP_USE]))
});

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Narrowing {
    /// A tool has to be in each: the URL's and the header's.
    lists: Vec<Arc<[String]>>,
    pub read_only: bool,
    /// Many tools are found by searching, and not listed.
    pub search: bool,
}

/// The same caller with its rights to read alone.
pub(super) fn reading(caller: &Caller) -> SharedCaller {
    Arc::new(Caller { scopes: caller.scopes.intersect(&READS), ..caller.clone() })
}

impl Narrowing {
    /// # Errors
    /// What is wrong with it, for the client.
    pub fn read(uri: &Uri, headers: &HeaderMap) -> Result<Self, String> {
        let mut narrowing = Self::default();
        for (name, value) in url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            match &*name {
                "tools" => narrowing.lists.push(names("?tools=", &value)?),
                "readonly" => narrowing.read_only |= switch("?readonly=", &value)?,
                "search" => narrowing.search |= switch("?search=", &value)?,
                _ => {}
            }
        }
        if headers.contains_key(TOOLS) {
            let values: Result<Vec<_>, _> = headers.get_all(TOOLS).iter().map(|value| value.to_str()).collect();
            let values = values.map_err(|_| "X-MCP-Tools is not ASCII".to_owned())?;
            narrowing.lists.push(names("X-MCP-Tools", &values.join(","))?);
        }
        for (name, shown, state) in
            [(READ_ONLY, "X-MCP-Readonly", &mut narrowing.read_only), (SEARCH, "X-MCP-Search", &mut narrowing.search)]
        {
            for value in headers.get_all(name) {
                *state |= switch(shown, value.to_str().unwrap_or_default())?;
            }
        }
        Ok(narrowing)
    }

    /// The caller, without its rights to write on a read-only connection: neither do plugins get them.
    pub fn caller<'c>(&self, caller: &'c SharedCaller) -> Cow<'c, SharedCaller> {
        if !self.read_only {
            return Cow::Borrowed(caller);
        }
        Cow::Owned(reading(caller))
    }

    /// Whether the connection has this tool, which its caller may use.
    pub(super) fn admits(&self, tool: &ListedTool) -> bool {
        self.names(&tool.tool.name) && (!self.read_only || tool.only_reads())
    }

    /// The tools of these that the caller may use on the connection.
    pub fn admitted<'a>(&'a self, tools: &'a ToolList, caller: &'a Caller) -> impl Iterator<Item = &'a ListedTool> {
        tools.visible(caller).filter(|listed| self.admits(listed))
    }

    fn names(&self, name: &str) -> bool {
        self.lists.iter().all(|list| list.iter().any(|pattern| fits(pattern, name)))
    }

    pub(crate) fn is_narrow(&self) -> bool {
        self.read_only || !self.lists.is_empty()
    }

    /// What is wrong with the names: some tool of these is not there for the caller, nor in a plugin that is out of
    /// service.
    pub fn unknown(&self, tools: &ToolList, snapshot: &Snapshot, caller: &Caller) -> Option<String> {
        let is_known = |name: &str| {
            tools.get(name).is_some_and(|tool| caller.holds(&tool.scope))
                || snapshot.scope_of_any_tool(name).is_some_and(|scope| caller.holds(&scope))
        };
        let written = self.lists.iter().flat_map(|list| list.iter());
        let unknown: Vec<&String> = written.filter(|name| !name.contains('*') && !is_known(name)).collect();
        let first = unknown.first()?;
        let guess = did_you_mean(first, tools.visible(caller).map(|tool| &*tool.tool.name));
        let quoted: Vec<String> = unknown.iter().map(|name| format!("`{}`", shown(name))).collect();
        Some(format!(
            "This connection is narrowed to tools that are not there: {}.{guess} Correct `tools` in its URL, or its header \
             X-MCP-Tools.",
            quoted.join(", ")
        ))
    }
}

fn names(place: &str, text: &str) -> Result<Arc<[String]>, String> {
    if text.len() > LIST_LIMIT {
        return Err(format!("{place} has over {LIST_LIMIT} bytes"));
    }
    let names: Vec<&str> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return Err(format!("{place} names no tool. Leave it out to have all"));
    }
    if names.len() > NAMES_LIMIT {
        return Err(format!("{place} has over {NAMES_LIMIT} names"));
    }
    let is_allowed = |name: &&&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-*".contains(&byte));
    if let Some(wrong) = names.iter().find(|name| !is_allowed(name)) {
        return Err(format!(
            "{place} takes comma-separated names of tools, in which `*` stands for any text, and not `{}`",
            shown(wrong)
        ));
    }
    Ok(names.into_iter().map(str::to_owned).collect())
}

fn switch(place: &str, text: &str) -> Result<bool, String> {
    match text.trim() {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(format!("{place} is `true` or `false`, and not `{}`", shown(other))),
    }
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

/// Whether the name is of the pattern, in which `*` stands for any text. Takes time in proportion to both lengths.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut from) = (0, 0);
    // The last `*`, and where in the name the text after it is tried.
    let mut star: Option<(usize, usize)> = None;
    while from < name.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, from));
            at += 1;
        } else if pattern.get(at) == Some(&name[from]) {
            (at, from) = (at + 1, from + 1);
        } else if let Some((back, tried)) = star {
            (at, from) = (back + 1, tried + 1);
            star = Some((back, tried + 1));
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn narrowing(query: &str, headers: &[(&'static str, &str)]) -> Result<Narrowing, String> {
        let uri = format!("/api{query}").parse().unwrap();
        let headers = headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        Narrowing::read(&uri, &headers.collect())
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name) in [("*", ""), ("a*", "a"), ("*_read", "x_read"), ("a*b*c", "aXbYbZc"), ("a**", "ab")] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a", "ab"), ("*a", "ab"), ("a*b*c", "acb"), ("", "a"), ("A*", "ab")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
        assert!(!fits(&"*a".repeat(2_000), &"a".repeat(1_999)), "in no time");
    }

    #[test]
    fn header_and_url_narrow_together() {
        let both = narrowing("?tools=cards_*,plugin_x_a", &[("x-mcp-tools", "cards_get , plugin_*")]).unwrap();
        for (name, is_named) in
            [("cards_get", true), ("cards_search", false), ("plugin_x_a", true), ("plugin_x_b", false)]
        {
            assert_eq!(both.names(name), is_named, "{name}");
        }
        assert!(narrowing("?readonly=false", &[("x-mcp-readonly", "true")]).unwrap().read_only);
        let all = narrowing("", &[]).unwrap();
        assert!(all.names("anything") && !all.is_narrow() && all == Narrowing::default());
    }

    #[test]
    fn what_is_no_narrowing_is_refused() {
        for query in ["?tools=", "?tools=,", "?tools=a%20b", "?tools=a;b", "?readonly=", "?readonly=yes", "?search=1"] {
            assert!(narrowing(query, &[]).is_err(), "{query}");
        }
        let many = vec!["a"; NAMES_LIMIT + 1].join(",");
        let long = "a".repeat(LIST_LIMIT + 1);
        for list in ["", " ", "a b", "<script>", &many, &long] {
            assert!(narrowing("", &[("x-mcp-tools", list)]).is_err(), "{list}");
        }
    }

    #[test]
    fn a_read_only_connection_keeps_rights_to_read() {
        let caller =
            |scopes: &[&str]| Arc::new(Caller::new(Uuid::nil(), "somebody", ScopeSet::lenient(scopes.iter().copied())));
        let narrow = Narrowing { read_only: true, ..Narrowing::default() };
        for scopes in [["*", "*"], ["cards:write", "plugin:*:*"], ["cards:*", "plugin:x:write"]] {
            let caller = caller(&scopes);
            let reader = narrow.caller(&caller);
            for (scope, is_held) in
                [("cards:read", true), ("plugin:x:read", true), ("cards:write", false), ("plugin:x:write", false)]
            {
                assert_eq!(reader.holds(scope), is_held, "{scopes:?} {scope}");
            }
        }
        assert!(narrow.caller(&caller(&["*"])).holds(MCP_USE));
        assert!(!narrow.caller(&caller(&["mcp:use"])).holds("cards:read"));
    }
}
