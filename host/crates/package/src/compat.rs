//! Whether a plugin and this host, and two plugins, can live together. Pure.

use std::collections::HashMap;

use semver::{Prerelease, Version};

use super::{
    manifest::{Engine, Manifest},
    refusal::{Code, Refusal},
};

/// The plugin API of this host, as a manifest writes it.
pub fn api_version() -> String {
    cardinal_plugin_abi::API_VERSION.to_string()
}

/// The core's version: the workspace's.
pub fn core_version() -> Version {
    // The text is the build's own version, which cargo has parsed before.
    Version::parse(env!("CARGO_PKG_VERSION")).unwrap_or_else(|_| Version::new(1, 0, 0))
}

/// The features that a manifest may name in `requires`: the parts of a manifest that this host heeds, and the host
/// functions that came after others. A name never goes away or changes its meaning.
pub const FEATURES: [&str; 15] = [
    "backend.jobs",
    "backend.routes",
    "backend.schedule",
    "card-events",
    "contributes.cardActions",
    "contributes.cardTabs",
    "contributes.cardTabs.frame",
    "contributes.listColumns",
    "contributes.pages",
    "http-client",
    "listen",
    "mcp.prompts",
    "mcp.tools",
    "requires",
    "settings_schema",
];

/// Whether the host has what a manifest requires.
pub(crate) fn check_features(required: &[String]) -> Result<(), Refusal> {
    let missing: Vec<_> = required.iter().filter(|name| !FEATURES.contains(&name.as_str())).cloned().collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Refusal::new(Code::FeatureMissing, "The plugin requires a feature that this host does not have.")
        .expected(format!("none but {}", FEATURES.join(", ")))
        .found(missing.join(", ")))
}

/// Whether the host meets what a manifest asks of it.
pub fn check_engine(engine: &Engine, core: &Version, api: &str) -> Result<(), Refusal> {
    if engine.plugin_api_version != api {
        return Err(Refusal::new(Code::UnsupportedApiVersion, "The plugin is made for another plugin API.")
            .expected(format!("engine.plugin_api_version \"{api}\""))
            .found(format!("\"{}\"", engine.plugin_api_version)));
    }
    // A range without a pre-release part never matches one that has it: 1.1.0-rc.1 stands for 1.1.0.
    let core = Version { pre: Prerelease::EMPTY, ..core.clone() };
    if !engine.core_version.matches(&core) {
        return Err(Refusal::new(Code::CoreOutOfRange, "The plugin does not support this version of the core.")
            .expected(format!("a core {}", engine.core_version))
            .found(format!("core {core}")));
    }
    Ok(())
}

/// What the plugins of one snapshot own. A refusal names the owner.
#[derive(Debug, Default)]
pub struct Claims {
    names: HashMap<String, Owner>,
    prefixes: HashMap<String, Owner>,
    tools: HashMap<String, Owner>,
    prompts: HashMap<String, Owner>,
    tabs: HashMap<String, Owner>,
    /// Pages, list columns and card actions, by what they are and their id.
    contributions: HashMap<(&'static str, String), Owner>,
}

/// A plugin and the package it comes from.
#[derive(Clone, Debug)]
struct Owner {
    name: String,
    package: String,
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.package)
    }
}

impl Claims {
    /// Takes everything that `manifest` owns, or nothing when one of it has an owner already.
    pub fn take(&mut self, manifest: &Manifest, package: &str) -> Result<(), Refusal> {
        let owner = Owner { name: manifest.name.clone(), package: package.to_owned() };
        free(&self.names, &manifest.name, &owner, Code::DuplicateName, "name")?;
        if let Some(prefix) = manifest.api_prefix() {
            free(&self.prefixes, prefix, &owner, Code::DuplicatePrefix, "apiPrefix")?;
        }
        for tool in &manifest.tools {
            free(&self.tools, &tool.name, &owner, Code::DuplicateTool, "tool")?;
        }
        for prompt in &manifest.prompts {
            free(&self.prompts, &prompt.name, &owner, Code::DuplicateContribution, "prompt")?;
        }
        for tab in &manifest.contributes.card_tabs {
            free(&self.tabs, &tab.id, &owner, Code::DuplicateTab, "card tab")?;
        }
        for (what, id) in manifest.contributes.ids() {
            let taken = self.contributions.get(&(what, id.to_owned()));
            check_free(taken, id, &owner, Code::DuplicateContribution, what)?;
        }
        self.names.insert(manifest.name.clone(), owner.clone());
        self.prefixes.extend(manifest.api_prefix().map(|prefix| (prefix.to_owned(), owner.clone())));
        self.tools.extend(manifest.tools.iter().map(|tool| (tool.name.clone(), owner.clone())));
        self.prompts.extend(manifest.prompts.iter().map(|prompt| (prompt.name.clone(), owner.clone())));
        self.tabs.extend(manifest.contributes.card_tabs.iter().map(|tab| (tab.id.clone(), owner.clone())));
        let ids = manifest.contributes.ids();
        self.contributions.extend(ids.map(|(what, id)| ((what, id.to_owned()), owner.clone())));
        Ok(())
    }

    /// Gives back what [`take`](Self::take) took for the same manifest.
    pub fn release(&mut self, manifest: &Manifest) {
        self.names.remove(&manifest.name);
        if let Some(prefix) = manifest.api_prefix() {
            self.prefixes.remove(prefix);
        }
        for tool in &manifest.tools {
            self.tools.remove(&tool.name);
        }
        for prompt in &manifest.prompts {
            self.prompts.remove(&prompt.name);
        }
        for tab in &manifest.contributes.card_tabs {
            self.tabs.remove(&tab.id);
        }
        for (what, id) in manifest.contributes.ids() {
            self.contributions.remove(&(what, id.to_owned()));
        }
    }
}

fn free(taken: &HashMap<String, Owner>, key: &str, asking: &Owner, code: Code, what: &str) -> Result<(), Refusal> {
    check_free(taken.get(key), key, asking, code, what)
}

fn check_free(taken: Option<&Owner>, key: &str, asking: &Owner, code: Code, what: &str) -> Result<(), Refusal> {
    // The next version of a package may have what the one before has.
    let Some(first) = taken.filter(|first| first.package != asking.package) else { return Ok(()) };
    let reason = format!("The {what} \"{key}\" belongs to {first} and is claimed by {asking} too.");
    Err(Refusal::new(code, reason)
        .expected(format!("no other plugin with this {what}"))
        .found(format!("\"{key}\", owned by {first}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use semver::VersionReq;
    use serde_json::json;

    use super::*;

    fn engine(core: &str, api: &str) -> Engine {
        Engine { core_version: VersionReq::parse(core).unwrap(), plugin_api_version: api.to_owned() }
    }

    fn code(range: &str, core: &str) -> Option<Code> {
        check_engine(&engine(range, "1"), &Version::parse(core).unwrap(), "1").err().map(|refusal| refusal.code)
    }

    fn manifest(name: &str, prefix: &str, tab: &str) -> Manifest {
        let document = json!({"name": name, "version": "1.0.0",
            "engine": {"core_version": ">=1.0.0", "plugin_api_version": "1"}, "backend": {"apiPrefix": prefix},
            "contributes": {"cardTabs": [{"id": tab, "label": "T"}]}, "frontend": {"main": "plugin.js"}});
        Manifest::read(document.to_string().as_bytes()).unwrap().0
    }

    #[test]
    fn what_a_plugin_requires_must_be_there() {
        let required =
            |names: &[&str]| check_features(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(required(&[]), Ok(()));
        assert_eq!(required(&FEATURES), Ok(()));
        let refusal = required(&["mcp.tools", "contributes.walls", "time-travel"]).unwrap_err();
        assert_eq!(refusal.code, Code::FeatureMissing);
        assert_eq!(refusal.found.as_deref(), Some("contributes.walls, time-travel"));
    }

    #[test]
    fn the_core_is_in_the_range_or_refused() {
        assert_eq!(code(">=1.0.0", "1.0.0"), None);
        assert_eq!(code(">=1.0.0", "1.0.0-dev"), None, "a pre-release of the core stands for its release");
        assert_eq!(code(">=1.1.0", "1.0.0"), Some(Code::CoreOutOfRange));
        assert_eq!(code(">=1.0.0, <2.0.0", "2.0.0-rc.1"), Some(Code::CoreOutOfRange));
    }

    #[test]
    fn another_api_is_refused_with_both_values() {
        let refusal = check_engine(&engine(">=1.0.0", "2"), &Version::new(1, 0, 0), "1").unwrap_err();
        assert_eq!(refusal.code, Code::UnsupportedApiVersion);
        assert!(refusal.expected.unwrap().contains("\"1\"") && refusal.found.unwrap().contains("\"2\""));
    }

    #[test]
    fn the_first_owner_keeps_it_and_both_are_named() {
        let cases = [
            (manifest("a", "x", "y"), Code::DuplicateName),
            (manifest("b", "p", "y"), Code::DuplicatePrefix),
            (manifest("b", "x", "t"), Code::DuplicateTab),
        ];
        for (second, code) in cases {
            let mut claims = Claims::default();
            claims.take(&manifest("a", "p", "t"), "folder-a").unwrap();
            let refusal = claims.take(&second, "folder-b").unwrap_err();
            assert_eq!(refusal.code, code);
            assert!(refusal.reason.contains("folder-a") && refusal.reason.contains("folder-b"), "{}", refusal.reason);
        }
    }

    #[test]
    fn pages_columns_and_actions_have_one_owner_each() {
        let with = |name: &str, contributes: serde_json::Value| {
            let document = json!({"name": name, "version": "1.0.0",
                "engine": {"core_version": ">=1.0.0", "plugin_api_version": "1"}, "provides_kinds": ["k"],
                "backend": {}, "contributes": contributes, "frontend": {"main": "plugin.js"}});
            Manifest::read(document.to_string().as_bytes()).unwrap().0
        };
        let all = |id: &str| {
            json!({"pages": [{"id": id, "label": "P"}],
                "listColumns": [{"id": id, "label": "C", "kind": "k", "value": "/v"}],
                "cardActions": [{"id": id, "label": "A", "route": {"path": "/a"}}]})
        };
        for list in ["pages", "listColumns", "cardActions"] {
            let mut claims = Claims::default();
            claims.take(&with("a", all("x")), "folder-a").unwrap();
            let mut second = all("y");
            second[list][0]["id"] = json!("x");
            let refusal = claims.take(&with("b", second), "folder-b").unwrap_err();
            assert_eq!(refusal.code, Code::DuplicateContribution);
            assert!(refusal.reason.contains("folder-a") && refusal.reason.contains("folder-b"), "{}", refusal.reason);
            claims.release(&with("a", all("x")));
            claims.take(&with("b", all("x")), "folder-b").unwrap();
        }
    }

    #[test]
    fn a_refused_plugin_claims_nothing() {
        let mut claims = Claims::default();
        claims.take(&manifest("a", "p", "t"), "1").unwrap();
        claims.take(&manifest("b", "free", "t"), "2").unwrap_err();
        claims.take(&manifest("b", "free", "u"), "3").unwrap();
    }

    #[test]
    fn the_next_version_of_a_package_may_have_what_the_one_before_has() {
        let mut claims = Claims::default();
        claims.take(&manifest("a", "p", "t"), "1").unwrap();
        claims.take(&manifest("a", "q", "t"), "1").unwrap();
        claims.take(&manifest("b", "p", "u"), "2").unwrap_err();
    }

    #[test]
    fn what_is_given_back_can_be_taken_by_another() {
        let mut claims = Claims::default();
        claims.take(&manifest("a", "p", "t"), "1").unwrap();
        claims.release(&manifest("a", "p", "t"));
        claims.take(&manifest("a", "p", "t"), "2").unwrap();
    }

    proptest! {
        #[test]
        fn a_range_is_judged_without_the_cores_pre_release(
            major in 0u64..3, minor in 0u64..3, patch in 0u64..3, pre in "(|rc\\.1|dev)", required in 0u64..3
        ) {
            let release = Version::new(major, minor, patch);
            let core = Version { pre: Prerelease::new(&pre).unwrap(), ..release.clone() };
            let engine = engine(&format!(">=1.{required}.0"), "1");
            let allowed = check_engine(&engine, &core, "1").is_ok();
            prop_assert_eq!(allowed, release >= Version::new(1, required, 0));
        }
    }
}
