//! A plugin that serves: its instance, its routes and tools by name, and the guard around its calls.

use std::{sync::Arc, time::Duration};

use http::Method;

use super::{
    call::{CallParts, PathParams, PluginReply},
    context::Services,
    guard::{Called, Guard},
    instance::{Export, ExportKind, Instance},
    manifest::{self, Access, DeclaredRoute, Manifest, Tool},
    state::{Code, Refusal},
};
use crate::{
    http::error::ApiError,
    observe::{Telemetry, meter::Meter},
};

/// A plugin in service. Whoever holds it keeps this generation alive.
pub struct Active {
    pub manifest: Manifest,
    /// Counts up with every instance of this host.
    pub generation: u64,
    pub instance: Instance,
    pub guard: Guard,
    routes: matchit::Router<Vec<RouteEntry>>,
}

/// A route as it is served.
#[derive(Clone, Debug)]
pub struct RouteEntry {
    pub method: Method,
    pub template: String,
    pub handler: u32,
    /// `plugin:<name>:read` or `:write`.
    pub scope: String,
    pub timeout: Duration,
    /// Bytes of a request's body.
    pub max_body: usize,
    pub meter: &'static Meter,
}

/// A route that fits a request, and the path's parameters.
pub struct RouteMatch<'a> {
    pub route: &'a RouteEntry,
    pub params: PathParams<'a>,
}

/// Why no route fits.
pub enum FindError {
    NotFound,
    /// The methods that would do.
    MethodNotAllowed(Vec<Method>),
}

/// A tool as MCP clients call it.
#[derive(Clone)]
pub struct ToolEntry {
    pub plugin: Arc<Active>,
    pub tool: Tool,
    pub handler: u32,
    pub scope: String,
    pub timeout: Duration,
    /// Of the tool's `input_schema`.
    pub validator: Option<Arc<jsonschema::Validator>>,
}

impl ToolEntry {
    pub async fn call(&self, call: CallParts<'_>) -> Result<PluginReply, ApiError> {
        self.plugin.call(self.handler, call).await
    }
}

impl Active {
    /// Holds what the instance exports against the manifest: exactly what is declared, no less and
    /// no more.
    pub fn build(
        manifest: Manifest,
        instance: Instance,
        generation: u64,
        services: &Services,
        telemetry: &Telemetry,
    ) -> Result<Self, Refusal> {
        let routes = route_entries(&manifest, instance.exports(), telemetry)?;
        let mut by_path: Vec<(String, Vec<RouteEntry>)> = Vec::new();
        for route in routes {
            match by_path.iter_mut().find(|(path, _)| *path == route.template) {
                Some((_, entries)) if entries.iter().any(|entry| entry.method == route.method) => {
                    return Err(Refusal::new(Code::RouteInvalid, "The plugin's router has a route twice.")
                        .found(format!("{} {}", route.method, route.template)));
                }
                Some((_, entries)) => entries.push(route),
                None => by_path.push((route.template.clone(), vec![route])),
            }
        }
        let mut routes = matchit::Router::new();
        for (path, entries) in by_path {
            routes.insert(path.as_str(), entries).map_err(|error| {
                Refusal::new(Code::RouteInvalid, "The plugin's routes can't be told apart.")
                    .found(format!("{path}: {error}"))
            })?;
        }
        handlers_are_declared(&manifest, instance.exports())?;
        let (name, meter) = (&manifest.name, telemetry.plugins.meter(&manifest.name));
        let (limit, tail) = (manifest.limits.max_concurrency, services.log.tail(name));
        let guard = Guard::new(name, limit, services.breaker.of(name), meter, tail);
        Ok(Self { manifest, generation, instance, guard, routes })
    }

    /// The route for a method and a path below the prefix, beginning with `/`. HEAD works where GET does.
    pub fn find<'a>(&'a self, method: &Method, path: &'a str) -> Result<RouteMatch<'a>, FindError> {
        let matched = self.routes.at(path).map_err(|_| FindError::NotFound)?;
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        let route = matched
            .value
            .iter()
            .find(|route| route.method == method)
            .or_else(|| matched.value.iter().find(|route| route.method == wanted));
        let Some(route) = route else {
            return Err(FindError::MethodNotAllowed(matched.value.iter().map(|route| route.method.clone()).collect()));
        };
        let decode = |text| percent_encoding::percent_decode_str(text).decode_utf8_lossy();
        let params = matched.params.iter().map(|(name, value)| (name, decode(value))).collect();
        Ok(RouteMatch { route, params })
    }

    /// Calls a handler under the guard.
    pub async fn call(&self, handler: u32, call: CallParts<'_>) -> Result<PluginReply, ApiError> {
        if cfg!(feature = "without-guard") {
            return self.guard.stand_aside(self.instance.call(handler, call).await);
        }
        let called = Called {
            handler: self.instance.handler_name(handler),
            request_id: call.request_id,
            in_flight: self.instance.in_flight(),
            deadline: call.deadline,
        };
        let stuck = || self.instance.is_stuck();
        self.guard.run(called, &stuck, || self.instance.call(handler, call)).await
    }

    /// The plugin's tools; every handler must be there.
    pub fn tools(self: &Arc<Self>) -> Result<Vec<ToolEntry>, Refusal> {
        self.manifest.tools.iter().map(|tool| self.tool(tool)).collect()
    }

    fn tool(self: &Arc<Self>, tool: &Tool) -> Result<ToolEntry, Refusal> {
        let handler = tool_handler(tool, self.instance.exports())?;
        let validator = match &tool.input_schema {
            Some(schema) => Some(Arc::new(compile(tool, schema)?)),
            None => None,
        };
        Ok(ToolEntry {
            plugin: Arc::clone(self),
            tool: tool.clone(),
            handler,
            scope: scope(&self.manifest.name, tool.access()),
            timeout: tool.timeout.unwrap_or(self.manifest.limits.timeout),
            validator,
        })
    }

    /// Every route, for the registry's report.
    pub fn routes(&self) -> Vec<&RouteEntry> {
        let mut all = Vec::new();
        for export in self.instance.exports() {
            if let ExportKind::Route { path, method } = &export.kind
                && let Ok(matched) = self.routes.at(path)
            {
                all.extend(matched.value.iter().filter(|route| route.method == *method && route.template == *path));
            }
        }
        all
    }
}

fn scope(plugin: &str, access: Access) -> String {
    format!("plugin:{plugin}:{}", access.as_str())
}

fn route_entries(manifest: &Manifest, exports: &[Export], telemetry: &Telemetry) -> Result<Vec<RouteEntry>, Refusal> {
    let declared = manifest.backend.as_ref().and_then(|backend| backend.routes.as_deref());
    let mut entries = Vec::new();
    for export in exports {
        let ExportKind::Route { method, path } = &export.kind else { continue };
        if manifest.backend.is_none() {
            return Err(Refusal::new(
                Code::RouteNotDeclared,
                "The plugin has routes and its manifest has no `backend`.",
            )
            .found(format!("{method} {path}")));
        }
        let entry = declared.map(|list| find_declared(list, export, method, path)).transpose()?;
        let full = format!("/v1/admin/plugins/{}{path}", manifest.api_prefix().unwrap_or(&manifest.name));
        let meter = telemetry.requests.route(method, &full);
        entries.push(route_entry(manifest, (export.id, meter), method, path, entry));
    }
    for route in declared.unwrap_or_default() {
        if !entries.iter().any(|entry| entry.method == route.method && entry.template == route.path) {
            return Err(Refusal::new(
                Code::RouteMissing,
                "The manifest declares a route that the plugin's router does not have.",
            )
            .expected(format!("{} {}", route.method, route.path)));
        }
    }
    Ok(entries)
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
        .found(format!("`{}`", export.name))),
        _ => Ok(declared),
    }
}

fn route_entry(
    manifest: &Manifest,
    (handler, meter): (u32, &'static Meter),
    method: &Method,
    path: &str,
    declared: Option<&DeclaredRoute>,
) -> RouteEntry {
    let access = declared.and_then(|route| route.scope).unwrap_or(Access::of_method(method));
    let max_body = declared.and_then(|route| route.max_body_bytes).unwrap_or(manifest::BODY_DEFAULT);
    RouteEntry {
        method: method.clone(),
        template: path.to_owned(),
        handler,
        scope: scope(&manifest.name, access),
        timeout: declared.and_then(|route| route.timeout).unwrap_or(manifest.limits.timeout),
        max_body: usize::try_from(max_body).unwrap_or(usize::MAX),
        meter,
    }
}

/// A handler without a route is there for a tool; one that no tool names is a mistake.
fn handlers_are_declared(manifest: &Manifest, exports: &[Export]) -> Result<(), Refusal> {
    for tool in &manifest.tools {
        tool_handler(tool, exports)?;
    }
    let stray = exports.iter().find(|export| {
        export.kind == ExportKind::Handler && !manifest.tools.iter().any(|tool| tool.handler == export.name)
    });
    match stray {
        Some(export) => Err(Refusal::new(
            Code::RouteNotDeclared,
            "The plugin's router has a handler that no tool of its manifest names.",
        )
        .expected("a tool in mcp.tools with this handler")
        .found(format!("`{}`", export.name))),
        None => Ok(()),
    }
}

fn tool_handler(tool: &Tool, exports: &[Export]) -> Result<u32, Refusal> {
    let found = exports.iter().find(|export| export.name == tool.handler);
    found.map(|export| export.id).ok_or_else(|| {
        let names = exports.iter().map(|export| format!("`{}`", export.name)).collect::<Vec<_>>().join(", ");
        Refusal::new(
            Code::ToolHandlerMissing,
            format!("The tool `{}` names a handler that the library does not export.", tool.name),
        )
        .expected(format!("`{}`", tool.handler))
        .found(if names.is_empty() { "no handlers".to_owned() } else { names })
    })
}

fn compile(tool: &Tool, schema: &serde_json::Map<String, serde_json::Value>) -> Result<jsonschema::Validator, Refusal> {
    jsonschema::validator_for(&serde_json::Value::Object(schema.clone())).map_err(|error| {
        Refusal::new(Code::BadManifest, format!("The input_schema of the tool `{}` is not a JSON Schema.", tool.name))
            .found(error.to_string())
    })
}
