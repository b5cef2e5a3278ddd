//! Whether a plugin's router and its manifest agree: exactly what is declared, no less and no more. Pure.

use http::Method;
use jsonschema::{Validator, validator_for};
use serde_json::{Map, Value};

use super::exports::{Export, ExportKind};
use cardinal_package::{
    manifest::{DeclaredJob, DeclaredRoute, JOB_HANDLER_PREFIX, Manifest, ROUTES_LIMIT, Tool},
    refusal::{Code, Refusal},
};

/// A route of the router, with what the manifest says of it.
pub struct AgreedRoute<'a> {
    pub handler: u32,
    pub method: &'a Method,
    pub path: &'a str,
    pub declared: Option<&'a DeclaredRoute>,
}

/// Everything that a host asks of a router before it serves it.
pub fn check(manifest: &Manifest, exports: &[Export]) -> Result<(), Refusal> {
    routes(manifest, exports)?;
    handlers_are_declared(manifest, exports)?;
    for tool in &manifest.tools {
        validators(tool)?;
    }
    manifest.jobs().iter().try_for_each(|job| job_validator(job).map(drop))
}

/// The routes; no two of them match the same request.
pub fn routes<'a>(manifest: &'a Manifest, exports: &'a [Export]) -> Result<Vec<AgreedRoute<'a>>, Refusal> {
    let declared = manifest.backend.as_ref().and_then(|backend| backend.routes.as_deref());
    let mut routes: Vec<AgreedRoute<'a>> = Vec::new();
    for export in exports {
        let ExportKind::Route { method, path } = &export.kind else { continue };
        if manifest.backend.is_none() {
            return Err(Refusal::new(
                Code::RouteNotDeclared,
                "The plugin has routes, but its manifest has no `backend`.",
            )
            .expected("no routes")
            .found(format!("{method} {path}")));
        }
        let declared = declared.map(|list| find_declared(list, export, method, path)).transpose()?;
        if routes.iter().any(|route| route.method == method && route.path == path) {
            return Err(Refusal::new(Code::RouteInvalid, "The plugin's router has a route twice.")
                .expected("each route once")
                .found(format!("{method} {path}")));
        }
        routes.push(AgreedRoute { handler: export.id, method, path, declared });
    }
    for route in declared.unwrap_or_default() {
        if !routes.iter().any(|found| *found.method == route.method && found.path == route.path) {
            return Err(Refusal::new(
                Code::RouteMissing,
                "The manifest declares a route that the plugin's router does not have.",
            )
            .expected(format!("{} {}", route.method, route.path))
            .found(list(&routes)));
        }
    }
    if routes.len() > ROUTES_LIMIT {
        return Err(Refusal::new(Code::RouteInvalid, "The plugin's router has too many routes.")
            .expected(format!("at most {ROUTES_LIMIT}"))
            .found(routes.len().to_string()));
    }
    let mut table = matchit::Router::new();
    for (path, _) in by_path(&routes) {
        table.insert(path, ()).map_err(|error| clash(path, &error))?;
    }
    Ok(routes)
}

/// The routes of each path, in the router's order.
pub fn by_path<'r, 'a>(routes: &'r [AgreedRoute<'a>]) -> Vec<(&'a str, Vec<&'r AgreedRoute<'a>>)> {
    let mut by_path: Vec<(&str, Vec<_>)> = Vec::new();
    for route in routes {
        match by_path.iter_mut().find(|(path, _)| *path == route.path) {
            Some((_, on_path)) => on_path.push(route),
            None => by_path.push((route.path, vec![route])),
        }
    }
    by_path
}

fn list(routes: &[AgreedRoute<'_>]) -> String {
    let names: Vec<String> = routes.iter().map(|route| format!("{} {}", route.method, route.path)).collect();
    if names.is_empty() { "no routes".to_owned() } else { names.join(", ") }
}

pub fn clash(path: &str, error: &matchit::InsertError) -> Refusal {
    Refusal::new(Code::RouteInvalid, "Two of the plugin's routes match the same requests.")
        .expected("one route for each request")
        .found(format!("{path}: {error}"))
}

fn find_declared<'m>(
    list: &'m [DeclaredRoute],
    export: &Export,
    method: &Method,
    path: &str,
) -> Result<&'m DeclaredRoute, Refusal> {
    let declared = list.iter().find(|route| route.method == *method && route.path == path).ok_or_else(|| {
        Refusal::new(Code::RouteNotDeclared, "The plugin's router has a route that its manifest does not declare.")
            .expected("only the routes of backend.routes")
            .found(format!("{method} {path}"))
    })?;
    match &declared.handler {
        Some(handler) if *handler != export.name => Err(Refusal::new(
            Code::RouteMissing,
            "The manifest names another handler for a route than the plugin's router.",
        )
        .expected(format!("{method} {path} by `{handler}`"))
        .found(format!("`{}`", export.name))
        .fix("Name the same handler for the route in backend.routes and in the plugin's router.")),
        _ => Ok(declared),
    }
}

/// A handler without a route is there for a tool or a job; one that the manifest does not name is a mistake.
pub(crate) fn handlers_are_declared(manifest: &Manifest, exports: &[Export]) -> Result<(), Refusal> {
    let mut named = Vec::new();
    for tool in &manifest.tools {
        for handler in std::iter::once(&tool.handler).chain(&tool.preview) {
            tool_handler(tool, handler, exports)?;
            named.push(handler);
        }
    }
    for job in manifest.jobs() {
        job_handler(job, exports)?;
    }
    let is_job = |export: &Export| manifest.jobs().iter().any(|job| job.handler() == export.name);
    let stray = exports
        .iter()
        .find(|export| export.kind == ExportKind::Handler && !named.contains(&&export.name) && !is_job(export));
    if let Some(job) = stray.and_then(|export| export.name.strip_prefix(JOB_HANDLER_PREFIX)) {
        let reason = "The plugin's router has a job that its manifest does not declare.";
        return Err(Refusal::new(Code::RouteNotDeclared, reason)
            .expected("a job in backend.jobs with this name")
            .found(format!("`{job}`")));
    }
    match stray {
        Some(export) => Err(Refusal::new(
            Code::RouteNotDeclared,
            "The plugin's router has a handler that no tool of its manifest names.",
        )
        .expected("a tool in mcp.tools with this handler, or preview")
        .found(format!("`{}`", export.name))),
        None => Ok(()),
    }
}

/// The number of a handler that a tool names.
pub(crate) fn tool_handler(tool: &Tool, handler: &str, exports: &[Export]) -> Result<u32, Refusal> {
    let found = exports.iter().find(|export| export.name == handler);
    found.map(|export| export.id).ok_or_else(|| {
        let names = exports.iter().map(|export| format!("`{}`", export.name)).collect::<Vec<_>>().join(", ");
        Refusal::new(
            Code::ToolHandlerMissing,
            format!("The tool `{}` names a handler that the library does not export.", tool.name),
        )
        .expected(format!("`{handler}`"))
        .found(if names.is_empty() { "no handlers".to_owned() } else { names })
    })
}

/// The number of a job's handler.
pub(crate) fn job_handler(job: &DeclaredJob, exports: &[Export]) -> Result<u32, Refusal> {
    let handler = job.handler();
    let found = exports.iter().find(|export| export.kind == ExportKind::Handler && export.name == handler);
    found.map(|export| export.id).ok_or_else(|| {
        let jobs = exports.iter().filter_map(|export| export.name.strip_prefix(JOB_HANDLER_PREFIX));
        let names = jobs.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        Refusal::new(
            Code::JobHandlerMissing,
            format!("The manifest declares the job `{}`, which the plugin's router does not have.", job.name),
        )
        .expected(format!("`{}`", job.name))
        .found(if names.is_empty() { "no jobs".to_owned() } else { names })
    })
}

/// What checks a job's arguments, where the manifest has a schema of them.
pub(crate) fn job_validator(job: &DeclaredJob) -> Result<Option<Validator>, Refusal> {
    let compiled = job.args_schema.as_ref().map(|schema| validator_for(&Value::Object(schema.clone()))).transpose();
    compiled.map_err(|error| {
        let reason = format!("The args_schema of the job `{}` is not a JSON Schema.", job.name);
        Refusal::new(Code::BadManifest, reason).expected("a JSON Schema").found(error.to_string())
    })
}

/// What checks a tool's arguments and what it answers, where the manifest has a schema of them.
pub struct Validators {
    pub input: Option<Validator>,
    pub output: Option<Validator>,
}

pub fn validators(tool: &Tool) -> Result<Validators, Refusal> {
    let compile = |field, schema: &Option<Map<String, Value>>| {
        let compiled = schema.as_ref().map(|schema| validator_for(&Value::Object(schema.clone()))).transpose();
        compiled.map_err(|error| {
            Refusal::new(Code::BadManifest, format!("The {field} of the tool `{}` is not a JSON Schema.", tool.name))
                .expected("a JSON Schema")
                .found(error.to_string())
        })
    };
    Ok(Validators {
        input: compile("input_schema", &tool.input_schema)?,
        output: compile("output_schema", &tool.output_schema)?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn manifest(backend: Value, tools: Value) -> Manifest {
        let document = json!({"name": "notes", "version": "1.0.0", "backend": backend, "mcp": {"tools": tools},
            "engine": {"core_version": ">=1.0.0", "plugin_api_version": "1"}});
        Manifest::read(document.to_string().as_bytes()).unwrap().0
    }

    fn exports(handlers: &[(&str, &str)]) -> Vec<Export> {
        let export = |(id, (name, path)): (u32, &(&str, &str))| {
            let route = ExportKind::Route { method: Method::GET, path: (*path).to_owned() };
            let kind = if path.is_empty() { ExportKind::Handler } else { route };
            Export { id, name: (*name).to_owned(), kind }
        };
        (0..).zip(handlers).map(export).collect()
    }

    fn tool(handler: &str) -> Value {
        json!([{"name": "plugin_notes_add", "description": "Adds.", "handler": handler}])
    }

    #[test]
    fn a_router_gives_what_the_manifest_says_and_no_more() {
        let any = || json!({});
        let job = || json!({"jobs": [{"name": "refresh"}]});
        let declared = || json!({"routes": [{"method": "GET", "path": "/a", "handler": "list"}]});
        let cases = [
            (any(), json!([]), &[("list", "/a"), ("one", "/a/{id}")][..], None),
            (declared(), json!([]), &[("list", "/a")], None),
            (any(), tool("add"), &[("add", "")], None),
            (any(), tool("ad"), &[("add", "/a")], Some(Code::ToolHandlerMissing)),
            (any(), json!([]), &[("add", "")], Some(Code::RouteNotDeclared)),
            (declared(), json!([]), &[("list", "/a"), ("more", "/b")], Some(Code::RouteNotDeclared)),
            (declared(), json!([]), &[], Some(Code::RouteMissing)),
            (declared(), json!([]), &[("other", "/a")], Some(Code::RouteMissing)),
            (any(), json!([]), &[("a", "/a"), ("b", "/a")], Some(Code::RouteInvalid)),
            (any(), json!([]), &[("a", "/{a}"), ("b", "/{b}")], Some(Code::RouteInvalid)),
            (job(), json!([]), &[("job:refresh", "")], None),
            (job(), json!([]), &[("refresh", "/a")], Some(Code::JobHandlerMissing)),
            (any(), json!([]), &[("job:refresh", "")], Some(Code::RouteNotDeclared)),
        ];
        for (backend, tools, handlers, code) in cases {
            let found = check(&manifest(backend, tools), &exports(handlers)).err();
            assert_eq!(found.as_ref().map(|refusal| refusal.code), code, "{handlers:?}: {found:?}");
        }
    }

    #[test]
    fn a_wrong_handler_is_shown_beside_those_that_are_there() {
        let refusal = check(&manifest(json!({}), tool("ad")), &exports(&[("add", "/a"), ("list", "/b")])).unwrap_err();
        assert_eq!(refusal.found.as_deref(), Some("`add`, `list`"));
    }

    #[test]
    fn routes_are_counted() {
        let paths: Vec<String> = (0..=ROUTES_LIMIT).map(|n| format!("/{n}")).collect();
        let routes: Vec<_> = paths.iter().map(|path| ("list", path.as_str())).collect();
        check(&manifest(json!({}), json!([])), &exports(&routes[1..])).unwrap();
        let refusal = check(&manifest(json!({}), json!([])), &exports(&routes)).unwrap_err();
        assert_eq!((refusal.code, refusal.found.as_deref()), (Code::RouteInvalid, Some("257")));
    }
}
