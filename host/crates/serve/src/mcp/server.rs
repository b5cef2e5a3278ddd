//! The server that rmcp drives: lists and calls tools for the caller of the request.

use std::{
    borrow::Cow,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestMethod, CompleteRequestParams,
        CompleteResult, CustomRequest, CustomResult, ErrorCode, Implementation, JsonObject, ListPromptsRequestMethod,
        ListPromptsResult, ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities,
        ServerConfig, SubscriptionFilter, Tool,
    },
    service::{RequestContext, SubscriptionContext},
};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::{
    Visit,
    confirmation::{self, Asker, Confirmations, Plugin, ToConfirm, ToolCall, Verdict},
    core_tools, plugin_tools,
    watch::News,
};
use crate::audit::{Act, Audit};
use cardinal_base::scope;
use cardinal_identity::auth::caller::Caller;
use cardinal_observe::spent;
use cardinal_plugin_host::registry::{Registry, ToolEntry};
use cardinal_store::catalogue::Catalogue;

/// Tools of one page.
const PAGE: usize = 100;
/// How long clients may keep a list; short, because some ignore that it changed.
const LIST_TTL_MS: u64 = 60_000;
/// What the protocol library takes for a method of somebody else's when its parameters are not as they should be.
const METHODS: &[&str] =
    &["initialize", "ping", "server/discover", "tools/list", "tools/call", "subscriptions/listen", "logging/setLevel"];

/// One for each request or session; cheap to clone.
#[derive(Clone)]
pub struct Server {
    registry: Arc<Registry>,
    catalogue: Arc<Catalogue>,
    audit: Arc<Audit>,
    confirmations: Arc<Confirmations>,
    stop: CancellationToken,
}

impl Server {
    pub fn new(
        registry: Arc<Registry>,
        catalogue: Arc<Catalogue>,
        audit: Arc<Audit>,
        confirmations: Arc<Confirmations>,
        stop: CancellationToken,
    ) -> Self {
        Self { registry, catalogue, audit, confirmations, stop }
    }

    /// Cancelled when the host stops.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// What the tools that `caller` sees look like, as a number that is the same in every process.
    pub fn view(&self, caller: &Caller) -> u64 {
        view(&self.visible(caller))
    }

    /// What the caller may see, in the order of the names.
    fn visible(&self, caller: &Caller) -> Vec<Tool> {
        let snapshot = self.registry.snapshot();
        let core = core_tools::list().iter().filter(|_| caller.holds(core_tools::SCOPE)).cloned();
        let plugins = snapshot.tools.values().filter(|entry| caller.holds(&entry.scope));
        let mut tools: Vec<Tool> = core.chain(plugins.map(plugin_tools::declare)).collect();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        tools
    }

    /// The tool if the caller may use it; a hidden one is not told from an unknown one.
    fn find(&self, name: &str, visit: &Visit) -> Option<(ToolEntry, Plugin)> {
        let snapshot = self.registry.snapshot();
        let entry = snapshot.tools.get(name).filter(|entry| visit.caller.holds(&entry.scope))?;
        let manifest = &entry.plugin.manifest;
        let sha256 = snapshot.package_hash(&manifest.name)?.to_owned();
        let plugin = Plugin { name: manifest.name.clone(), version: manifest.version.to_string(), sha256 };
        Some((entry.clone(), plugin))
    }

    /// Runs a tool; `None` when there is none that the caller may use.
    async fn run(
        &self,
        name: &str,
        visit: &Visit,
        asker: &Asker,
        arguments: JsonObject,
    ) -> Result<Option<CallToolResponse>, ErrorData> {
        if let Some((entry, plugin)) = self.find(name, visit) {
            return self.run_of_plugin((entry, plugin), visit, asker, arguments).await.map(Some);
        }
        if !visit.caller.holds(core_tools::SCOPE) {
            return Ok(None);
        }
        Ok(core_tools::run(&self.catalogue, name, arguments).await.map(Into::into))
    }

    async fn run_of_plugin(
        &self,
        (entry, plugin): (ToolEntry, Plugin),
        visit: &Visit,
        asker: &Asker,
        arguments: JsonObject,
    ) -> Result<CallToolResponse, ErrorData> {
        // First, since a person should not be asked about what would not run.
        if let Some(refused) = plugin_tools::refusal(&entry, &arguments) {
            return Ok(refused.into());
        }
        if !entry.tool.requires_confirmation {
            return Ok(plugin_tools::run(&entry, visit, arguments).await.into());
        }
        let about = ToConfirm {
            name: &entry.tool.name,
            title: entry.tool.title.as_deref(),
            scope: &entry.scope,
            has_output_schema: entry.tool.output_schema.is_some(),
        };
        let serving = || self.find(&entry.tool.name, visit).map(|(_, plugin)| plugin);
        if let Verdict::Answer(answer) = self.confirm(about, visit, asker, &arguments, &serving).await? {
            return Ok(answer);
        }
        // It may have been replaced while a person was asked.
        match self.find(&entry.tool.name, visit).filter(|(_, now)| *now == plugin) {
            Some((entry, _)) => Ok(plugin_tools::run(&entry, visit, arguments).await.into()),
            None => Ok(plugin_tools::failure(confirmation::VOID).into()),
        }
    }

    /// Whether a call of a tool that has to be confirmed may run now. `serving` gives the plugin's package; None for a
    /// tool of the core.
    async fn confirm(
        &self,
        about: ToConfirm<'_>,
        visit: &Visit,
        asker: &Asker,
        arguments: &JsonObject,
        serving: &(dyn Fn() -> Option<Plugin> + Send + Sync),
    ) -> Result<Verdict, ErrorData> {
        if visit.caller.holds(scope::UNATTENDED) {
            let (actor, id, name) = (visit.caller.actor(), visit.request_id.to_string(), about.name.to_owned());
            self.audit.done_by(actor, Some(visit.peer), id, Act::RunUnattended, Some(name), None).await;
            return Ok(Verdict::Run);
        }
        match ToolCall::new(about, visit, arguments, serving) {
            Some(call) => self.confirmations.confirm(&call, asker).await,
            None => Ok(Verdict::Answer(plugin_tools::failure("The arguments are nested too deeply.").into())),
        }
    }
}

fn view(tools: &[Tool]) -> u64 {
    let written = serde_json::to_vec(tools).unwrap_or_default();
    let digest = Sha256::digest(&written);
    digest.first_chunk().copied().map_or(0, u64::from_be_bytes)
}

fn visit(context: &RequestContext<RoleServer>) -> Result<Visit, ErrorData> {
    let parts = context.extensions.get::<http::request::Parts>();
    parts
        .and_then(|parts| parts.extensions.get::<Visit>())
        .cloned()
        .ok_or_else(|| ErrorData::internal_error("The request has no caller.", None))
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("cardinal", env!("CARGO_PKG_VERSION")))
            .with_instructions("Tools of a product catalogue: cards, and what its plugins do with them.")
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let visit = visit(&context)?;
        let after = request.and_then(|request| request.cursor);
        let mut tools = self.visible(&visit.caller);
        if let Some(session) = &visit.session {
            session.view.store(view(&tools), Ordering::Relaxed);
        }
        tools.retain(|tool| after.as_deref().is_none_or(|after| &*tool.name > after));
        let more = tools.len() > PAGE;
        tools.truncate(PAGE);
        let next = if more { tools.last().map(|tool| tool.name.to_string()) } else { None };
        let mut result = ListToolsResult::with_all_items(tools);
        result.next_cursor = next;
        result.ttl_ms = Some(LIST_TTL_MS);
        result.cache_scope = Some(CacheScope::Private);
        Ok(result)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.registry.snapshot().tools.get(name).map(plugin_tools::declare)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let visit = visit(&context)?;
        let unknown = ErrorData::invalid_params(format!("Unknown tool: {}", request.name), None);
        let asker = Asker::new(&context, &request, &visit);
        // A task of its own: rmcp never answers for a handler that panicked, its client would hang.
        let (server, cancelled) = (self.clone(), context.ct.clone());
        let task = async move {
            let arguments = request.arguments.unwrap_or_default();
            let call = async {
                tokio::select! {
                    result = server.run(&request.name, &visit, &asker, arguments) => result,
                    () = cancelled.cancelled() => {
                        Ok(Some(plugin_tools::failure("cancelled: the client cancelled the call.").into()))
                    }
                }
            };
            let (result, spent) = spent::account(pin!(call)).await;
            visit.spent.add(&spent);
            result
        };
        match tokio::spawn(task).await {
            Ok(Ok(Some(response))) => Ok(response),
            Ok(Ok(None)) => Err(unknown),
            Ok(Err(refused)) => Err(refused),
            Err(error) => {
                tracing::error!(%error, "a tool call broke down in the host");
                Err(ErrorData::internal_error("The call failed.", None))
            }
        }
    }

    // rmcp's own answers to these are empty successes of abilities that are not offered.
    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        if METHODS.contains(&method.as_str()) {
            let text = format!("Invalid params: they are not those of {method}");
            return Err(ErrorData::invalid_params(text, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("Method not found: {method}"), None))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let visit = visit(subscription.request_context())?;
        let watcher = visit.watcher.ok_or_else(|| ErrorData::internal_error("The stream has no watcher.", None))?;
        let (mut watch, view) = (watcher.watch(&visit.caller), AtomicU64::new(self.view(&visit.caller)));
        loop {
            tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                news = watch.news(&view) => {
                    if news == News::Ended || subscription.sink().notify_tool_list_changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}
