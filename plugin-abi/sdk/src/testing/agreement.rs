//! What a host asks of a plugin's router before it serves it: that it has what the manifest declares, and no more. The
//! host's own checks are in `host/crates/plugin/src/agreement.rs`.

use std::collections::BTreeSet;

use super::rules::{Route, Rules};
use crate::{jobs::HANDLER_PREFIX, router::Entry};

impl Rules {
    /// What a host asks of a router before it serves it.
    pub(super) fn agree(&self, entries: &[Entry]) -> Result<(), String> {
        let routes = || entries.iter().filter_map(|entry| Some((entry, entry.route.as_ref()?)));
        let declared = self.backend.as_ref().and_then(|backend| backend.routes.as_deref());
        if let Some((_, (method, path))) = routes().next().filter(|_| self.backend.is_none()) {
            return Err(format!("the router has {method} {path}, and manifest.json has no `backend`"));
        }
        for (_, (method, path)) in routes().filter(|_| declared.is_some()) {
            let known = |route: &Route| route.method == method.as_str() && route.path == *path;
            if !declared.is_some_and(|routes| routes.iter().any(known)) {
                return Err(format!("the router has {method} {path}, and manifest.json does not declare it"));
            }
        }
        for route in declared.unwrap_or_default() {
            let (method, path) = (&route.method, &route.path);
            let Some((entry, _)) = routes().find(|(_, own)| own.0.as_str() == *method && own.1 == *path) else {
                return Err(format!("manifest.json declares {method} {path}, and the router does not have it"));
            };
            if let Some(handler) = route.handler.as_ref().filter(|handler| **handler != entry.name) {
                let found = &entry.name;
                return Err(format!(
                    "manifest.json: {method} {path} names the handler `{handler}`, and the router has `{found}` there"
                ));
            }
        }
        self.agree_on_jobs(entries)?;
        self.agree_on_tools(entries)?;
        paths_are_distinct(entries)
    }

    /// Each tool has its handlers, and each handler without a route is one that a tool or a job names.
    fn agree_on_tools(&self, entries: &[Entry]) -> Result<(), String> {
        let named = || self.mcp.tools.iter().flat_map(|tool| tool.handlers().map(move |name| (tool, name)));
        if let Some((tool, name)) = named().find(|(_, name)| !entries.iter().any(|entry| entry.name == **name)) {
            let found = entries.iter().map(|entry| format!("`{}`", entry.name)).collect::<Vec<_>>().join(", ");
            let tool = &tool.name;
            return Err(format!(
                "manifest.json: the tool {tool} names the handler `{name}`, and the router has {found}"
            ));
        }
        let is_stray = |entry: &&Entry| entry.route.is_none() && !entry.name.starts_with(HANDLER_PREFIX);
        match entries.iter().filter(is_stray).find(|entry| !named().any(|(_, name)| *name == entry.name)) {
            Some(entry) => {
                Err(format!("the router has the handler `{}`, and no tool of manifest.json names it", entry.name))
            }
            None => Ok(()),
        }
    }

    fn agree_on_jobs(&self, entries: &[Entry]) -> Result<(), String> {
        let declared = self.backend.iter().flat_map(|backend| &backend.jobs);
        let offered = || entries.iter().filter_map(|entry| entry.name.strip_prefix(HANDLER_PREFIX));
        if let Some(job) = declared.clone().find(|job| !offered().any(|name| name == job.name)) {
            return Err(format!("manifest.json declares the job `{}`, and the router does not have it", job.name));
        }
        match offered().find(|name| !declared.clone().any(|job| job.name == *name)) {
            Some(name) => Err(format!("the router has the job `{name}`, and manifest.json does not declare it")),
            None => Ok(()),
        }
    }
}

/// A host finds a path before it looks at the method: `/a/{x}` and `/a/{y}` are one path, whatever methods they have.
fn paths_are_distinct(entries: &[Entry]) -> Result<(), String> {
    let paths: BTreeSet<&str> = entries.iter().filter_map(|entry| Some(entry.route.as_ref()?.1.as_str())).collect();
    let mut table = matchit::Router::new();
    let clash = |path, error| format!("two routes of the router match the same requests: {path}: {error}");
    paths.into_iter().try_for_each(|path| table.insert(path, ()).map_err(|error| clash(path, error)))
}
