//! A plugin that serves: its instance, its routes and tools by name, and the guard around its calls.

use std::{sync::Arc, time::Duration};

use http::Method;

use super::{
    agreement::{self, AgreedRoute, Validators},
    call::{CallParts, PathParams, PluginReply},
    context::Services,
    exports::{Export, ExportKind},
    guard::{CallContext, Guard},
    instance::Instance,
};
use crate::error::CallError;
use cardinal_observe::{Telemetry, meter::Meter};
use cardinal_package::{
    manifest::{self, Access, DeclaredJob, Manifest, Prompt, Tool},
    refusal::Refusal,
};

/// A plugin in service. Each reference keeps this generation alive.
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

/// The routes at a path, and the path's parameters.
pub struct RouteMatches<'a> {
    pub routes: &'a [RouteEntry],
    pub params: PathParams<'a>,
}

/// A tool as MCP clients call it.
pub struct ToolEntry {
    pub plugin: Arc<Active>,
    pub tool: Tool,
    pub handler: u32,
    /// What says what a call would change.
    pub preview: Option<u32>,
    pub scope: String,
    pub timeout: Duration,
    /// Of the tool's `input_schema`.
    pub validator: Option<Arc<jsonschema::Validator>>,
    /// Of its `output_schema`.
    pub output_validator: Option<Arc<jsonschema::Validator>>,
}

/// A job as the host runs it.
pub struct JobEntry {
    pub plugin: Arc<Active>,
    pub job: DeclaredJob,
    pub handler: u32,
    pub scope: String,
    /// Of the job's `args_schema`.
    pub validator: Option<jsonschema::Validator>,
}

impl JobEntry {
    pub async fn call(&self, call: CallParts<'_>) -> Result<PluginReply, CallError> {
        self.plugin.call(self.handler, call).await
    }
}

impl ToolEntry {
    pub async fn call(&self, call: CallParts<'_>) -> Result<PluginReply, CallError> {
        self.plugin.call(self.handler, call).await
    }
}

/// A prompt as MCP clients get it.
pub struct PromptEntry {
    pub plugin: Arc<Active>,
    pub prompt: Prompt,
    /// `plugin:<name>:read`.
    pub scope: String,
}

impl Active {
    /// Holds what the instance exports against the manifest: exactly what is declared, no less and
    /// no more.
    pub(crate) fn build(
        manifest: Manifest,
        instance: Instance,
        generation: u64,
        services: &Services,
        telemetry: &Telemetry,
    ) -> Result<Self, Refusal> {
        let routes = route_table(&manifest, instance.exports(), telemetry)?;
        agreement::handlers_are_declared(&manifest, instance.exports())?;
        let (name, meter) = (&manifest.name, telemetry.plugins.meter(&manifest.name));
        let (limit, tail) = (manifest.limits.max_concurrency, services.log.tail(name));
        let guard = Guard::new(name, limit, services.breaker.get(name), meter, tail);
        Ok(Self { manifest, generation, instance, guard, routes })
    }

    /// What stands at a path below the prefix, beginning with `/`.
    pub fn at<'a>(&'a self, path: &'a str) -> Option<RouteMatches<'a>> {
        let matched = self.routes.at(path).ok()?;
        let decode = |text| percent_encoding::percent_decode_str(text).decode_utf8_lossy();
        let params = matched.params.iter().map(|(name, value)| (name, decode(value))).collect();
        Some(RouteMatches { routes: matched.value, params })
    }

    /// Calls a handler under the guard.
    pub async fn call(&self, handler: u32, call: CallParts<'_>) -> Result<PluginReply, CallError> {
        let called = CallContext {
            handler: self.instance.handler_name(handler),
            request_id: call.request_id,
            in_flight: self.instance.in_flight(),
            deadline: call.deadline,
        };
        let stuck = || self.instance.is_stuck();
        self.guard.run(called, &stuck, || self.instance.call(handler, call)).await
    }

    /// The plugin's tools; every handler must be there.
    pub fn tools(self: &Arc<Self>) -> Result<Vec<Arc<ToolEntry>>, Refusal> {
        self.manifest.tools.iter().map(|tool| self.tool(tool).map(Arc::new)).collect()
    }

    /// The plugin's prompts.
    pub fn prompts(self: &Arc<Self>) -> Vec<Arc<PromptEntry>> {
        let entry = |prompt: &Prompt| PromptEntry {
            plugin: Arc::clone(self),
            prompt: prompt.clone(),
            scope: scope(&self.manifest.name, Access::Read),
        };
        self.manifest.prompts.iter().map(entry).map(Arc::new).collect()
    }

    /// The plugin's jobs; every handler must be there.
    pub fn jobs(self: &Arc<Self>) -> Result<Vec<Arc<JobEntry>>, Refusal> {
        let entry = |job: &DeclaredJob| {
            Ok(Arc::new(JobEntry {
                plugin: Arc::clone(self),
                job: job.clone(),
                handler: agreement::job_handler(job, self.instance.exports())?,
                scope: scope(&self.manifest.name, job.access()),
                validator: agreement::job_validator(job)?,
            }))
        };
        self.manifest.jobs().iter().map(entry).collect()
    }

    fn tool(self: &Arc<Self>, tool: &Tool) -> Result<ToolEntry, Refusal> {
        let exports = self.instance.exports();
        let handler = agreement::tool_handler(tool, &tool.handler, exports)?;
        let preview = tool.preview.as_ref().map(|name| agreement::tool_handler(tool, name, exports)).transpose()?;
        let Validators { input, output } = agreement::validators(tool)?;
        Ok(ToolEntry {
            plugin: Arc::clone(self),
            tool: tool.clone(),
            handler,
            preview,
            scope: scope(&self.manifest.name, tool.access()),
            timeout: tool.timeout.unwrap_or(self.manifest.limits.timeout),
            validator: input.map(Arc::new),
            output_validator: output.map(Arc::new),
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

/// The scope of a plugin's route or tool.
pub fn scope(plugin: &str, access: Access) -> String {
    format!("plugin:{plugin}:{}", access.as_str())
}

fn route_table(
    manifest: &Manifest,
    exports: &[Export],
    telemetry: &Telemetry,
) -> Result<matchit::Router<Vec<RouteEntry>>, Refusal> {
    let routes = agreement::routes(manifest, exports)?;
    let mut table = matchit::Router::new();
    for (path, on_path) in agreement::by_path(&routes) {
        let entries = on_path.into_iter().map(|route| {
            let full = format!("/v1/admin/plugins/{}{path}", manifest.api_prefix().unwrap_or(&manifest.name));
            let meter = telemetry.requests.route(route.method, &full);
            route_entry(manifest, route, meter)
        });
        table.insert(path, entries.collect()).map_err(|error| agreement::clash(path, &error))?;
    }
    Ok(table)
}

fn route_entry(manifest: &Manifest, route: &AgreedRoute<'_>, meter: &'static Meter) -> RouteEntry {
    let declared = route.declared;
    let access = declared.and_then(|route| route.scope).unwrap_or(Access::from_method(route.method));
    let max_body = declared.and_then(|route| route.max_body_bytes).unwrap_or(manifest::BODY_DEFAULT);
    RouteEntry {
        method: route.method.clone(),
        template: route.path.to_owned(),
        handler: route.handler,
        scope: scope(&manifest.name, access),
        timeout: declared.and_then(|route| route.timeout).unwrap_or(manifest.limits.timeout),
        max_body: usize::try_from(max_body).unwrap_or(usize::MAX),
        meter,
    }
}
