//! Scopes: `resource:action`, with `*` for all, `resource:*` and `plugin:*:action`. Deny by default.

use std::{fmt, sync::OnceLock};

use crate::spelling::did_you_mean;

/// The most scopes that one key or token may carry.
pub const SCOPE_LIMIT: usize = 64;

/// Only a login session may answer confirmations; `*` on a key or JWT does not cover it.
pub const APPROVE: &str = "mcp:approve";
/// Tools that ask for confirmation run without a person; audited as such. Only a key that names it holds it: neither
/// `*` nor `mcp:*` covers it.
pub const UNATTENDED: &str = "mcp:unattended";
/// May speak MCP at all.
pub const MCP_USE: &str = "mcp:use";

/// Every scope that is not a plugin's.
pub const KNOWN: &[&str] = &[
    "cards:read",
    "cards:write",
    "cards:purge",
    "keys:read",
    "keys:write",
    "users:read",
    "users:write",
    "plugins:read",
    "plugins:manage",
    "audit:read",
    "jobs:read",
    "jobs:write",
    "system:read",
    "system:write",
    "proxy:read",
    "proxy:write",
    MCP_USE,
    APPROVE,
    UNATTENDED,
];

/// Scopes of plugins, as far as they can be listed.
const OF_PLUGINS: &[&str] = &["plugin:*:read", "plugin:*:write", "plugin:*:*"];

/// What is wrong with a text that is no scope, and what was probably meant.
pub fn explain_unknown(text: &str) -> String {
    let known = || KNOWN.iter().chain(OF_PLUGINS).copied();
    let guess = did_you_mean(text, known());
    let known: Vec<&str> = known().collect();
    format!(
        "`{text}` is not a scope.{guess} Scopes are *, <resource>:*, plugin:<name>:read|write and {}.",
        known.join(", ")
    )
}

/// A set of granted scopes.
#[derive(Clone, Debug, Default)]
pub struct ScopeSet {
    grants: Vec<Grant>,
    /// Computed when it is first asked for; a plugin gets it at every call.
    text: OnceLock<String>,
}

impl PartialEq for ScopeSet {
    fn eq(&self, other: &Self) -> bool {
        self.grants == other.grants
    }
}

impl Eq for ScopeSet {}

impl From<Vec<Grant>> for ScopeSet {
    fn from(grants: Vec<Grant>) -> Self {
        Self { grants, text: OnceLock::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Grant {
    /// `*`
    All,
    /// `resource:action`; the resource of a plugin's scope is `plugin:<name>`, its name may be `*`.
    One { resource: Resource, action: Action },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Resource {
    Core(String),
    Plugin(String),
    AnyPlugin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Any,
    Write,
    Read,
    Other(String),
}

impl ScopeSet {
    /// Every right there is.
    pub fn all() -> Self {
        vec![Grant::All].into()
    }

    /// Takes what is well-formed and drops the rest: what came from the database or a token is
    /// never a reason to grant more.
    pub fn lenient<S: AsRef<str>>(scopes: impl IntoIterator<Item = S>) -> Self {
        scopes.into_iter().filter_map(|scope| Grant::parse(scope.as_ref())).collect::<Vec<_>>().into()
    }

    /// Takes what a client asks for; the first that is not a scope comes back as the error.
    pub fn strict(scopes: &[String]) -> Result<Self, usize> {
        let mut grants = Vec::with_capacity(scopes.len());
        for (i, scope) in scopes.iter().enumerate() {
            let grant = Grant::parse(scope).filter(Grant::is_known).ok_or(i)?;
            if !grants.contains(&grant) {
                grants.push(grant);
            }
        }
        Ok(grants.into())
    }

    /// Whether the set covers `scope`, a single one as a route names it.
    /// Asked at every request, so nothing is allocated.
    pub fn holds(&self, scope: &str) -> bool {
        let Some((resource, action)) = scope.rsplit_once(':') else {
            return scope == "*" && self.grants.contains(&Grant::All);
        };
        self.grants.iter().any(|grant| grant.holds(resource, action))
    }

    /// Whether `scope` stands in the set by its own name, where `*` and `resource:*` do not count.
    pub fn names(&self, scope: &str) -> bool {
        Grant::parse(scope).is_some_and(|wanted| wanted != Grant::All && self.grants.contains(&wanted))
    }

    /// Whether everything in `other` is covered.
    pub fn includes(&self, other: &ScopeSet) -> bool {
        other.grants.iter().all(|wanted| self.covers(wanted))
    }

    fn covers(&self, wanted: &Grant) -> bool {
        self.grants.iter().any(|grant| grant.intersect(wanted).as_ref() == Some(wanted))
    }

    /// What both sets grant.
    pub fn intersect(&self, other: &ScopeSet) -> ScopeSet {
        let mut both: Vec<Grant> = Vec::new();
        for a in &self.grants {
            for grant in other.grants.iter().filter_map(|b| a.intersect(b)) {
                if !both.contains(&grant) {
                    both.push(grant);
                }
            }
        }
        both.into()
    }

    /// As a row stores them: at most `max`, without those that another one covers.
    pub fn reduced(&self, max: usize) -> Vec<String> {
        let mut kept: Vec<&Grant> = Vec::new();
        for grant in &self.grants {
            let by_name = Grant::parse(UNATTENDED);
            if kept.iter().any(|other| other.intersect(grant).as_ref() == Some(grant))
                && Some(grant) != by_name.as_ref()
            {
                continue;
            }
            kept.retain(|other| grant.intersect(other).as_ref() != Some(*other) || Some(*other) == by_name.as_ref());
            kept.push(grant);
        }
        kept.iter().take(max).map(ToString::to_string).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    /// Separated by spaces, as OAuth writes them.
    pub fn as_text(&self) -> &str {
        self.text.get_or_init(|| self.to_strings().join(" "))
    }

    /// As the API shows them.
    pub fn to_strings(&self) -> Vec<String> {
        self.grants.iter().map(ToString::to_string).collect()
    }
}

impl Grant {
    fn parse(scope: &str) -> Option<Self> {
        if scope == "*" {
            return Some(Self::All);
        }
        let mut parts = scope.split(':');
        let (first, second, third) = (parts.next()?, parts.next()?, parts.next());
        if parts.next().is_some() {
            return None;
        }
        let (resource, action) = match third {
            Some(action) if first == "plugin" && second == "*" => (Resource::AnyPlugin, action),
            Some(action) if first == "plugin" && is_word(second) => (Resource::Plugin(second.to_owned()), action),
            Some(_) => return None,
            None if first == "plugin" => return None,
            None if is_word(first) => (Resource::Core(first.to_owned()), second),
            None => return None,
        };
        Some(Self::One { resource, action: Action::parse(action)? })
    }

    fn holds(&self, resource: &str, action: &str) -> bool {
        let Self::One { resource: granted, action: allowed } = self else { return true };
        let resource_fits = match granted {
            Resource::Core(name) => name == resource,
            Resource::Plugin(name) => resource.strip_prefix("plugin:") == Some(name),
            Resource::AnyPlugin => resource.starts_with("plugin:"),
        };
        resource_fits
            && match allowed {
                Action::Any => true,
                Action::Write => action == "write" || action == "read",
                Action::Read => action == "read",
                Action::Other(name) => name == action,
            }
    }

    fn is_known(&self) -> bool {
        match self {
            Self::All => true,
            Self::One { resource: Resource::Core(resource), action: Action::Any } => {
                KNOWN.iter().any(|scope| scope.split(':').next() == Some(resource))
            }
            Self::One { resource: Resource::Core(_), .. } => KNOWN.contains(&self.to_string().as_str()),
            Self::One { action, .. } => !matches!(action, Action::Other(_)),
        }
    }

    fn intersect(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::All, grant) | (grant, Self::All) => Some(grant.clone()),
            (Self::One { resource: a, action: x }, Self::One { resource: b, action: y }) => {
                let resource = match (a, b) {
                    (Resource::AnyPlugin, Resource::Plugin(_)) => b,
                    (Resource::Plugin(_), Resource::AnyPlugin) => a,
                    (a, b) if a == b => a,
                    _ => return None,
                };
                Some(Self::One { resource: resource.clone(), action: x.intersect(y)? })
            }
        }
    }
}

impl Action {
    fn parse(action: &str) -> Option<Self> {
        Some(match action {
            "*" => Self::Any,
            "write" => Self::Write,
            "read" => Self::Read,
            other if is_word(other) => Self::Other(other.to_owned()),
            _ => return None,
        })
    }

    /// Write implies read.
    fn intersect(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Any, action) | (action, Self::Any) => Some(action.clone()),
            (Self::Write, Self::Read) | (Self::Read, Self::Write) => Some(Self::Read),
            (a, b) => (a == b).then(|| a.clone()),
        }
    }
}

fn is_word(word: &str) -> bool {
    word.len() <= 64
        && word.starts_with(|first: char| first.is_ascii_lowercase())
        && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::One { resource, action } = self else { return f.write_str("*") };
        match resource {
            Resource::Core(name) => f.write_str(name)?,
            Resource::Plugin(name) => write!(f, "plugin:{name}")?,
            Resource::AnyPlugin => f.write_str("plugin:*")?,
        }
        match action {
            Action::Any => f.write_str(":*"),
            Action::Write => f.write_str(":write"),
            Action::Read => f.write_str(":read"),
            Action::Other(name) => write!(f, ":{name}"),
        }
    }
}

/// The scopes of a role; an unknown role has none.
pub fn for_role(role: &str) -> ScopeSet {
    let scopes: &[&str] = match role {
        "owner" | "admin" => &["*"],
        "editor" => &["cards:write", "plugin:*:*", MCP_USE, APPROVE, "jobs:*"],
        "viewer" => &["cards:read", "plugins:read", "jobs:read", "plugin:*:read"],
        _ => &[],
    };
    ScopeSet::lenient(scopes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(scopes: &[&str]) -> ScopeSet {
        ScopeSet::lenient(scopes)
    }

    #[test]
    fn covers_what_it_says_and_no_more() {
        assert!(set(&["*"]).holds("cards:purge"));
        assert!(set(&["cards:*"]).holds("cards:purge"));
        assert!(set(&["cards:write"]).holds("cards:read"));
        assert!(!set(&["cards:read"]).holds("cards:write"));
        assert!(!set(&["cards:write"]).holds("cards:purge"));
        assert!(set(&["plugin:*:write"]).holds("plugin:supplier:read"));
        assert!(!set(&["plugin:other:write"]).holds("plugin:supplier:read"));
        assert!(!set(&["plugins:read"]).holds("plugin:supplier:read"));
        assert!(!set(&[]).holds("cards:read"));
        assert!(!set(&["plugin:*:read"]).holds("plugins:read"));
        assert!(!set(&["cards:*"]).holds("*"));
    }

    #[test]
    fn intersection_narrows_both_ways() {
        let both = set(&["cards:write", "plugin:*:read", "mcp:use"]).intersect(&set(&["cards:read", "plugin:x:write"]));
        assert_eq!(both.to_strings(), ["cards:read", "plugin:x:read"]);
        assert_eq!(set(&["*"]).intersect(&set(&["*"])), ScopeSet::all());
        assert!(set(&["cards:purge"]).intersect(&set(&["cards:write"])).is_empty());
    }

    #[test]
    fn what_counts_by_its_name_alone_is_kept_beside_a_star() {
        assert!(set(&["mcp:unattended"]).names(UNATTENDED) && !set(&["*", "mcp:*"]).names(UNATTENDED));
        for order in [["*", UNATTENDED], [UNATTENDED, "*"]] {
            assert!(set(&order).intersect(&set(&["*"])).names(UNATTENDED));
            let mut kept = set(&order).reduced(SCOPE_LIMIT);
            kept.sort();
            assert_eq!(kept, ["*", UNATTENDED]);
        }
    }

    #[test]
    fn what_is_asked_for_twice_is_held_once() {
        let asked = ["cards:read", "jobs:read", "cards:read"].map(str::to_owned);
        assert_eq!(ScopeSet::strict(&asked).unwrap().to_strings(), ["cards:read", "jobs:read"]);
    }

    #[test]
    fn only_what_is_held_can_be_granted() {
        assert!(set(&["cards:*"]).includes(&set(&["cards:read", "cards:purge"])));
        assert!(!set(&["cards:write"]).includes(&set(&["cards:*"])));
        assert!(!for_role("editor").includes(&ScopeSet::all()));
        assert!(!set(&["plugin:a:read"]).includes(&set(&["plugin:*:read"])));
    }

    #[test]
    fn what_is_no_scope_is_refused() {
        for bad in [
            "",
            ":",
            "cards",
            "cards:",
            "cards:fly",
            "Cards:read",
            "plugin:x",
            "plugin:x:fly",
            "a:b:c",
            "*:read",
            "cards:re*d",
        ] {
            assert_eq!(ScopeSet::strict(&["cards:read".into(), bad.into()]), Err(1), "{bad}");
        }
        for good in KNOWN {
            assert!(ScopeSet::strict(&[(*good).to_owned()]).is_ok(), "{good}");
        }
    }
}
