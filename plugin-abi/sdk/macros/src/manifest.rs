//! What of a manifest can be judged at compile time: its names, and whether its handlers are in the sources. The host
//! judges all of it again (`host/crates/package`), with the same rules.

mod contributions;

use std::fmt::Write;

use crate::{
    json::{self, Node, Value},
    sources::Sources,
};

const NAME_LIMIT: usize = 40;
const TOOL_NAME_LIMIT: usize = 128;
const API_VERSION: &str = "1";
const RESERVED: [&str; 9] = ["core", "host", "cardinal", "public", "system", "admin", "api", "plugin", "mcp"];
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/// Checks the manifest `text` of the file at `path`; `files` are those of the package. The error is for the author, a
/// line of `path:line: what` for each fault.
pub(crate) fn check(path: &str, text: &str, files: &[&str], sources: &Sources) -> Result<(), String> {
    let document = json::parse(text.strip_prefix('\u{feff}').unwrap_or(text))
        .map_err(|(line, fault)| format!("{path}:{line}: this is not JSON: {fault}"))?;
    let mut faults = Faults::default();
    faults.all(&document, files, sources);
    if faults.0.is_empty() {
        return Ok(());
    }
    let mut said = String::from("manifest.json does not fit:");
    for (line, fault) in faults.0 {
        let _ = write!(said, "\n{path}:{line}: {fault}");
    }
    Err(said)
}

#[derive(Default)]
struct Faults(Vec<(usize, String)>);

impl Faults {
    fn add(&mut self, at: &Node, fault: impl Into<String>) {
        self.0.push((at.line, fault.into()));
    }

    fn all(&mut self, document: &Node, files: &[&str], sources: &Sources) {
        if !matches!(document.value, Value::Object(_)) {
            return self.add(document, "a manifest is a JSON object");
        }
        let name = self.name(document);
        self.version(document);
        self.engine(document);
        if let Some(tools) = document.get("mcp").and_then(|mcp| mcp.get("tools")) {
            self.tools(tools, name, sources);
        }
        if let Some(prompts) = document.get("mcp").and_then(|mcp| mcp.get("prompts")) {
            self.prompts(prompts, name);
        }
        if let Some(backend) = document.get("backend") {
            self.backend(backend, sources);
        }
        self.contributions(document);
        if let Some(requires) = document.get("requires") {
            self.requires(requires);
        }
        if let Some(main) = document.get("frontend").and_then(|frontend| frontend.get("main")) {
            self.main(main, files);
        }
    }

    /// The text of a member that must be there.
    fn text<'a>(&mut self, object: &'a Node, name: &str, expected: &str) -> Option<&'a str> {
        let Some(node) = object.get(name) else {
            self.add(object, format!("`{name}` is missing: {expected}"));
            return None;
        };
        let text = node.text();
        if text.is_none() {
            self.add(node, format!("`{name}` must be {expected}"));
        }
        text
    }

    fn name<'a>(&mut self, document: &'a Node) -> Option<&'a str> {
        const EXPECTED: &str = "lower-case words joined by hyphens, such as \"price-watch\", at most 40 characters";
        let name = self.text(document, "name", EXPECTED)?;
        let node = document.get("name")?;
        if !is_kebab(name) {
            self.add(node, format!("the name \"{name}\" must be {EXPECTED}"));
            return None;
        }
        if RESERVED.contains(&name) || name == "pg" || name.starts_with("pg-") {
            self.add(node, format!("the name \"{name}\" is reserved for the host"));
        }
        Some(name)
    }

    fn version(&mut self, document: &Node) {
        const EXPECTED: &str = "a semantic version such as \"1.0.0\"";
        let Some(version) = self.text(document, "version", EXPECTED) else { return };
        let numbers: Vec<_> = version.split(['-', '+']).next().unwrap_or_default().split('.').collect();
        let is_number = |part: &&str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_digit())
                && (*part == "0" || !part.starts_with('0'))
        };
        if numbers.len() != 3 || !numbers.iter().all(is_number) {
            let node = document.get("version").unwrap_or(document);
            self.add(node, format!("`version` is \"{version}\" and must be {EXPECTED}"));
        }
    }

    fn engine(&mut self, document: &Node) {
        let Some(engine) = document.get("engine") else {
            let expected = "`engine` is missing: { \"core_version\": \">=1.0.0\", \"plugin_api_version\": \"1\" }";
            return self.add(document, expected);
        };
        self.text(engine, "core_version", "a version range such as \">=1.0.0\"");
        let api = self.text(engine, "plugin_api_version", "the string \"1\"");
        if api.is_some_and(|api| api != API_VERSION) {
            let node = engine.get("plugin_api_version").unwrap_or(engine);
            self.add(node, format!("`plugin_api_version` must be \"{API_VERSION}\", which this SDK is for"));
        }
    }

    fn tools(&mut self, tools: &Node, plugin: Option<&str>, sources: &Sources) {
        let mut seen: Vec<&str> = Vec::new();
        for tool in tools.list() {
            self.text(tool, "description", "a text that says what the tool does");
            if let Some(name) = self.text(tool, "name", "plugin_<name>_<action>") {
                let node = tool.get("name").unwrap_or(tool);
                self.own_name(node, name, plugin, "tool", "action");
                if seen.contains(&name) {
                    self.add(node, format!("there are two tools of the name \"{name}\""));
                }
                seen.push(name);
            }
            if self.text(tool, "handler", "the name of a handler").is_some() {
                self.handler(tool.get("handler"), sources);
            }
            self.handler(tool.get("preview"), sources);
        }
    }

    fn prompts(&mut self, prompts: &Node, plugin: Option<&str>) {
        for prompt in prompts.list() {
            self.text(prompt, "description", "a text that says what the prompt is good for");
            if let Some(name) = self.text(prompt, "name", "plugin_<name>_<prompt>") {
                let node = prompt.get("name").unwrap_or(prompt);
                self.own_name(node, name, plugin, "prompt", "prompt");
            }
        }
    }

    /// A name that begins with the plugin's.
    fn own_name(&mut self, node: &Node, name: &str, plugin: Option<&str>, what: &str, rest: &str) {
        let Some(plugin) = plugin else { return }; // that is a fault already
        let prefix = format!("plugin_{}_", plugin.replace('-', "_"));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let action = name.strip_prefix(&prefix).filter(|action| !action.is_empty() && action.bytes().all(is_plain));
        if action.is_none() || name.len() > TOOL_NAME_LIMIT {
            self.add(
                node,
                format!("the {what}'s name \"{name}\" must be {prefix}<{rest}>, at most {TOOL_NAME_LIMIT} characters"),
            );
        }
    }

    /// A handler that the sources do not have under this name.
    fn handler(&mut self, node: Option<&Node>, sources: &Sources) {
        let Some(node) = node else { return };
        let Some(name) = node.text() else { return };
        if sources.may_have(name) {
            return;
        }
        let fault = if sources.defines(name) {
            format!(
                "the function `{name}` is no handler yet: add it to the router, as in `.handler(\"{name}\", {name})`"
            )
        } else {
            let near = sources.nearest(name).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            format!("there is no handler `{name}` in src/{near}")
        };
        self.add(node, fault);
    }

    fn backend(&mut self, backend: &Node, sources: &Sources) {
        if let Some(prefix) = backend.get("apiPrefix")
            && !prefix.text().is_some_and(is_prefix)
        {
            self.add(prefix, "`apiPrefix` must be 1 to 40 of the characters a-z, 0-9 and -, without slashes");
        }
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for route in backend.get("routes").map(Node::list).unwrap_or_default() {
            let method = self.text(route, "method", "GET, HEAD, POST, PUT, PATCH or DELETE");
            let path = self.text(route, "path", "a path such as \"/items\"");
            self.handler(route.get("handler"), sources);
            let (Some(method), Some(path)) = (method, path) else { continue };
            if !METHODS.contains(&method) {
                self.add(route, format!("the method \"{method}\" must be one of {}", METHODS.join(", ")));
            }
            if !path.starts_with('/') {
                self.add(route, format!("the path \"{path}\" must begin with /"));
            }
            if seen.contains(&(method, path)) {
                self.add(route, format!("{method} {path} is declared twice"));
            }
            seen.push((method, path));
        }
        let declared: Vec<&str> = seen.iter().map(|(_, path)| *path).collect();
        for route in backend.get("routes").map(Node::list).unwrap_or_default() {
            self.path(route.get("path"), &declared, sources);
        }
        self.jobs(backend, sources);
    }

    /// A path that the sources lack and that is nearly one of theirs. Others may be put together where nobody sees it.
    fn path(&mut self, node: Option<&Node>, declared: &[&str], sources: &Sources) {
        let Some(node) = node else { return };
        let Some(path) = node.text().filter(|path| path.starts_with('/') && !sources.may_have_path(path)) else {
            return;
        };
        if let Some(near) = sources.nearest_path(path, declared) {
            self.add(node, format!("there is no route \"{path}\" in src/; did you mean \"{near}\"?"));
        }
    }

    fn jobs(&mut self, backend: &Node, sources: &Sources) {
        let mut jobs: Vec<&str> = Vec::new();
        for job in backend.get("jobs").map(Node::list).unwrap_or_default() {
            let Some(name) = self.text(job, "name", "the name of the job") else { continue };
            let node = job.get("name").unwrap_or(job);
            if !is_kebab(name) {
                self.add(node, format!("the job's name \"{name}\" must be lower-case words joined by hyphens"));
            } else if !sources.may_have(name) {
                self.add(node, format!("the router has no job `{name}`: add it, as in `.job(\"{name}\", handler)`"));
            }
            if jobs.contains(&name) {
                self.add(node, format!("there are two jobs of the name \"{name}\""));
            }
            jobs.push(name);
        }
        for scheduled in backend.get("schedule").map(Node::list).unwrap_or_default() {
            self.text(scheduled, "cron", "five fields in UTC, as in \"15 3 * * *\"");
            if let Some(name) = self.text(scheduled, "job", "the name of a job of backend.jobs")
                && !jobs.contains(&name)
            {
                self.add(scheduled, format!("there is no job \"{name}\" in backend.jobs"));
            }
        }
    }

    fn main(&mut self, main: &Node, files: &[&str]) {
        let Some(text) = main.text() else { return self.add(main, "`main` must be a file below frontend/") };
        let plain = text.strip_prefix("./").unwrap_or(text);
        let name = format!("frontend/{}", plain.strip_prefix("frontend/").unwrap_or(plain));
        if !files.contains(&name.as_str()) {
            self.add(main, format!("there is no file {name}, which `frontend.main` names"));
        }
    }
}

fn is_prefix(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=NAME_LIMIT).contains(&text.len()) && text.bytes().all(plain)
}

fn is_kebab(text: &str) -> bool {
    let word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    text.len() <= NAME_LIMIT && text.starts_with(|c: char| c.is_ascii_lowercase()) && text.split('-').all(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = r#"
        Router::new().get("/cards", list).handler("warm", service::warm)
        async fn list() {}
        async fn add() {} // add is not routed
    "#;

    fn faults(manifest: &str) -> Vec<String> {
        let sources = Sources::from_texts([ROUTES]);
        match check("m", manifest, &["manifest.json", "frontend/plugin.js"], &sources) {
            Ok(()) => Vec::new(),
            Err(said) => said.lines().skip(1).map(str::to_owned).collect(),
        }
    }

    #[test]
    fn a_good_manifest_has_no_faults() {
        let manifest = r#"{
            "name": "price-watch", "version": "1.0.0-rc.1+a",
            "engine": { "core_version": ">=1.0.0", "plugin_api_version": "1" },
            "requires": ["http-client", "something-later"],
            "provides_kinds": ["price"],
            "contributes": {
                "cardTabs": [{ "id": "prices", "label": "Prices" }],
                "pages": [{ "id": "price-report", "label": "Prices" }],
                "listColumns": [
                    { "id": "lowest", "label": "Lowest", "kind": "price", "value": "/lowest~1x/0", "format": "number" },
                    { "id": "highest", "label": "Highest", "route": "/cards" }
                ],
                "cardActions": [
                    { "id": "refresh", "label": "Refresh", "route": { "path": "/cards" }, "confirm": "Sure?" },
                    { "id": "compare", "label": "Compare", "on": ["selection"] }
                ]
            },
            "frontend": { "main": "./frontend/plugin.js" },
            "backend": { "apiPrefix": "prices", "routes": [
                { "method": "GET", "path": "/cards", "handler": "list" }, { "method": "POST", "path": "/cards" }
            ] },
            "mcp": { "tools": [
                { "name": "plugin_price_watch_list", "description": "x", "handler": "list" },
                { "name": "plugin_price_watch_warm", "description": "x", "handler": "warm" },
                { "name": "plugin_price_watch_get", "description": "x", "handler": "GET /cards" }
            ] }
        }"#;
        assert_eq!(faults(manifest), [""; 0]);
        assert_eq!(
            check("m", "{}x", &[], &Sources::default()).unwrap_err(),
            "m:1: this is not JSON: the end was expected, not `x`"
        );
    }

    #[test]
    fn every_fault_has_its_line() {
        let manifest = r#"{
            "name": "Notes",
            "version": "1.0",
            "engine": { "plugin_api_version": "2" },
            "contributes": { "cardTabs": [{ "id": "a b" }] },
            "frontend": { "main": "main.js" },
            "backend": { "apiPrefix": "/x", "routes": [
                { "method": "get", "path": "cards" },
                { "method": "GET", "path": "/cards", "handler": "lst" },
                { "method": "GET", "path": "/cards" }
            ] },
            "mcp": { "tools": [{ "name": "plugin_notes_add", "handler": "add", "preview": "lst" }],
                "prompts": [{ "name": "plugin_notes_ask" }] }
        }"#;
        let found = faults(manifest);
        for (line, part) in [
            (2, "the name \"Notes\" must be lower-case words"),
            (3, "`version` is \"1.0\""),
            (4, "`core_version` is missing"),
            (4, "must be \"1\""),
            (5, "`label` is missing"),
            (5, "a word without spaces"),
            (6, "there is no file frontend/main.js"),
            (7, "`apiPrefix` must be"),
            (8, "the method \"get\""),
            (8, "must begin with /"),
            (9, "there is no handler `lst` in src/; did you mean `list`?"),
            (10, "declared twice"),
            (12, "`description` is missing"),
            (12, "the function `add` is no handler yet"),
            (12, "there is no handler `lst`"),
            (13, "`description` is missing"),
        ] {
            let is_there = found.iter().any(|fault| fault.starts_with(&format!("m:{line}: ")) && fault.contains(part));
            assert!(is_there, "{line}: {part}: {found:#?}");
        }
        assert_eq!(found.len(), 16, "{found:#?}");
    }

    #[test]
    fn contributions_refer_to_what_is_there() {
        let manifest = r#"{
            "name": "a", "version": "1.0.0", "engine": { "core_version": "1", "plugin_api_version": "1" },
            "requires": ["http-clients"], "provides_kinds": ["price"], "backend": { "routes": [] }, "contributes": {
            "pages": [{ "id": "My Page", "label": "x" }],
            "listColumns": [{ "id": "c", "label": "x", "kind": "prices", "value": "lowest", "format": "money" },
            { "id": "c", "label": "x", "route": "/x", "kind": "price" }],
            "cardActions": [{ "id": "d", "label": "x", "on": ["row"], "route": { "path": "/x" } },
            { "id": "e", "label": "x", "route": { "path": "/x", "method": "GET" } },
            { "id": "f", "confirm": "Sure?" }] }
        }"#;
        let found = faults(manifest);
        for (line, part) in [
            (3, "did you mean \"http-client\"?"),
            (4, "the id \"My Page\" of the page"),
            (4, "`frontend.main` is missing"),
            (5, "none of `provides_kinds`"),
            (5, "must be a JSON pointer"),
            (5, "`format` must be"),
            (6, "two list columns of the id"),
            (6, "not both"),
            (6, "there is no route GET /x"),
            (7, "`on` must be"),
            (7, "there is no route POST /x"),
            (8, "`method` of an action"),
            (9, "`label` is missing"),
            (9, "`confirm` needs a `route`"),
        ] {
            let is_there = found.iter().any(|fault| fault.starts_with(&format!("m:{line}: ")) && fault.contains(part));
            assert!(is_there, "{line}: {part}: {found:#?}");
        }
        assert_eq!(found.len(), 14, "{found:#?}");
    }

    #[test]
    fn a_misspelt_path_is_found() {
        let engine = r#""engine": { "core_version": "1", "plugin_api_version": "1" }"#;
        let manifest = format!(
            r#"{{ "name": "a", "version": "1.0.0", {engine}, "backend": {{ "routes": [
                {{ "method": "GET", "path": "/cards" }},
                {{ "method": "GET", "path": "/made/elsewhere" }},
                {{ "method": "POST", "path": "/card" }}] }} }}"#
        );
        assert_eq!(faults(&manifest), [""; 0], "what is declared is no near name");
        let misspelt = manifest.replace("\"/cards\"", "\"/crads\"");
        let fault = |line: usize, path: &str| {
            format!("m:{line}: there is no route \"{path}\" in src/; did you mean \"/cards\"?")
        };
        assert_eq!(faults(&misspelt), [fault(2, "/crads"), fault(4, "/card")]);
    }

    #[test]
    fn jobs_are_in_the_router_and_the_schedule_names_them() {
        let engine = r#""engine": { "core_version": "1", "plugin_api_version": "1" }"#;
        let manifest = format!(
            r#"{{ "name": "a", "version": "1.0.0", {engine}, "backend": {{
                "jobs": [{{ "name": "warm" }}, {{ "name": "refresh" }}, {{ "name": "Not_Kebab" }}, {{ "name": "warm" }}],
                "schedule": [{{ "job": "warm", "cron": "0 0 * * *" }}, {{ "job": "nightly" }}] }} }}"#
        );
        let found = faults(&manifest);
        for part in [
            "m:2: the router has no job `refresh`",
            "m:2: the job's name \"Not_Kebab\"",
            "m:2: there are two jobs of the name \"warm\"",
            "m:3: `cron` is missing",
            "m:3: there is no job \"nightly\" in backend.jobs",
        ] {
            assert!(found.iter().any(|fault| fault.starts_with(part)), "{part}: {found:#?}");
        }
        assert_eq!(found.len(), 5, "{found:#?}");
    }

    #[test]
    fn names_follow_the_plugins() {
        let tools = r#"[{ "name": "plugin_other_a", "description": "", "handler": "list" },
                        { "name": "plugin_a_b_", "description": "", "handler": "list" }]"#;
        let engine = r#""engine": { "core_version": "1", "plugin_api_version": "1" }"#;
        let found =
            faults(&format!(r#"{{ "name": "a-b", "version": "1.0.0", {engine}, "mcp": {{ "tools": {tools} }} }}"#));
        assert!(found.len() == 2 && found.iter().all(|fault| fault.contains("plugin_a_b_<action>")), "{found:#?}");
        let found = faults(&format!(r#"{{ "name": "pg-x", "version": "1.0.0", {engine} }}"#));
        assert_eq!(found, ["m:1: the name \"pg-x\" is reserved for the host"]);
    }
}
