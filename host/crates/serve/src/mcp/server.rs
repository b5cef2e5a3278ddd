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
        CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CompletionInfo,
        CustomRequest, CustomResult, ErrorCode, Implementation, JsonObject, ListPromptsRequestMethod,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
        SubscriptionFilter, Tool,
    },
    service::{RequestContext, SubscriptionContext},
};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::{
    Visit,
    calls::Calls,
    client,
    confirmation::{self, Asker, Confirmations, Plugin, ToolCall, Verdict},
    core_tools::{self, Cards},
    heartbeat, plugin_tools, resources,
    tool::{AnyTool, Found},
    watch::News,
};
use crate::audit::AuditAction;
use crate::http::error::ApiError;
use cardinal_base::scope;
use cardinal_identity::auth::caller::Caller;
use cardinal_observe::{request_timing, tools::Outcome};
use cardinal_plugin_host::registry::Registry;

/// Tools of one page.
const PAGE: usize = 100;
/// How long clients may keep a list; short, because some ignore that it changed.
const LIST_TTL_MS: u64 = 60_000;
/// What the protocol library takes for a method of somebody else's when its parameters are not as they should be.
const METHODS: &[&str] = &[
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "completion/complete",
    "subscriptions/listen",
    "logging/setLevel",
];
/// The revision from which on a result may hold links to resources.
const LINKS_SINCE: &str = "2025-06-18";

const CANCELLED: &str = "cancelled: the client cancelled the call; what it changed before may have been kept.";

/// What a call is answered with.
type CallAnswer = Result<CallToolResponse, ErrorData>;

/// What the endpoint is made of.
#[derive(Clone)]
pub struct Services {
    pub registry: Arc<Registry>,
    pub cards: Cards,
    pub calls: Calls,
    pub confirmations: Arc<Confirmations>,
}

/// One for each request or session; cheap to clone.
#[derive(Clone)]
pub struct Server {
    services: Services,
    stop: CancellationToken,
}

impl Server {
    pub fn new(services: Services, stop: CancellationToken) -> Self {
        Self { services, stop }
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
        let snapshot = self.services.registry.snapshot();
        let core = core_tools::list().iter().filter(|tool| caller.holds(tool.scope));
        let plugins = snapshot.tools.values().filter(|entry| caller.holds(&entry.scope));
        let core = core.map(|tool| tool.declaration.clone());
        let mut tools: Vec<Tool> = core.chain(plugins.map(plugin_tools::declare)).collect();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        tools
    }

    /// Runs the tool unless its arguments are wrong, or a person has to confirm it and has not. Wrong arguments come
    /// first: nobody is asked about what would not run.
    async fn run(&self, tool: &AnyTool, visit: &Visit, asker: &Asker, arguments: JsonObject) -> (CallAnswer, Outcome) {
        if let Some(complaints) = tool.complaints(&arguments) {
            return (Ok(plugin_tools::failure(complaints).into()), Outcome::InvalidArguments);
        }
        let result = if tool.requires_confirmation() {
            match self.confirm(tool, visit, asker, &arguments).await {
                Ok(confirmed) => confirmed.run(&self.services.cards, visit, arguments).await,
                Err(answer) => return (answer, Outcome::Unconfirmed),
            }
        } else {
            tool.run(&self.services.cards, visit, arguments).await
        };
        let outcome = if result.is_error == Some(true) { Outcome::Error } else { Outcome::Ok };
        (Ok(result.into()), outcome)
    }

    /// The tool, once its call may run; else what its client gets in place of a result.
    async fn confirm(
        &self,
        tool: &AnyTool,
        visit: &Visit,
        asker: &Asker,
        arguments: &JsonObject,
    ) -> Result<AnyTool, CallAnswer> {
        if visit.caller.holds(scope::UNATTENDED) {
            let (actor, id) = (visit.caller.actor(), visit.request_id.to_string());
            let (audit, name) = (&self.services.calls.audit, tool.name().to_owned());
            audit.done_by(actor, Some(visit.peer), id, AuditAction::RunUnattended, Some(name), None).await;
            return Ok(tool.clone());
        }
        let refused = |text: &str| -> CallAnswer { Ok(plugin_tools::failure(text).into()) };
        let Some((_, plugin)) = self.serving(tool.name(), &visit.caller) else {
            return Err(refused(confirmation::VOID));
        };
        let is_current = || self.serving(tool.name(), &visit.caller).is_some_and(|(_, serving)| serving == plugin);
        let Some(call) = ToolCall::new(tool.to_confirm(), plugin.clone(), visit, arguments, &is_current) else {
            return Err(refused("The arguments are nested too deeply."));
        };
        match self.services.confirmations.confirm(&call, asker).await {
            Err(error) => return Err(Err(error)),
            Ok(Verdict::Answer(answer)) => return Err(Ok(answer)),
            Ok(Verdict::Run) => {}
        }
        // It may have been replaced while a person was asked.
        match self.serving(tool.name(), &visit.caller) {
            Some((tool, serving)) if serving == plugin => Ok(tool),
            _ => Err(refused(confirmation::VOID)),
        }
    }

    /// The tool that serves under this name, with the package that would run; a tool of the core has none.
    fn serving(&self, name: &str, caller: &Caller) -> Option<(AnyTool, Option<Plugin>)> {
        let Found::Tool(tool) = AnyTool::find(&self.services.registry, name, caller) else { return None };
        let AnyTool::Plugin(entry) = &tool else { return Some((tool, None)) };
        let snapshot = self.services.registry.snapshot();
        // The package of this very instance, not of one that has just taken its place.
        snapshot.tools.get(name).filter(|now| Arc::ptr_eq(&now.plugin, &entry.plugin))?;
        let manifest = &entry.plugin.manifest;
        let sha256 = snapshot.package_hash(&manifest.name)?.to_owned();
        let plugin = Plugin { name: manifest.name.clone(), version: manifest.version.to_string(), sha256 };
        Some((tool, Some(plugin)))
    }

    /// A call in a task of its own: rmcp never answers for a handler that panicked, its client would hang.
    async fn call(
        &self,
        tool: AnyTool,
        request: CallToolRequestParams,
        visit: Visit,
        context: &RequestContext<RoleServer>,
    ) -> CallAnswer {
        let record = self.services.calls.begin(&visit, &request, context);
        let asker = Asker::new(context, &request, &visit);
        let (server, cancelled, ours) =
            (self.clone(), context.ct.clone(), (record.clone(), visit.clone(), tool.clone()));
        let task = async move {
            let arguments = request.arguments.unwrap_or_default();
            let call = async {
                tokio::select! {
                    result = server.run(&tool, &visit, &asker, arguments) => result,
                    () = cancelled.cancelled() => (Ok(plugin_tools::failure(CANCELLED).into()), Outcome::Cancelled),
                }
            };
            let ((answer, outcome), spent) = request_timing::account(pin!(call)).await;
            visit.spent.add(&spent);
            record.end(&visit, tool.name(), outcome).await;
            answer
        };
        let token = client::progress_token(&ours.1, context);
        match heartbeat::while_running(context, token, tokio::spawn(task)).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::error!(%error, "a tool call broke down in the host");
                let (record, visit, tool) = ours;
                record.end(&visit, tool.name(), Outcome::Broken).await;
                Err(ErrorData::internal_error("The call failed.", None))
            }
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
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_completions()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("cardinal", env!("CARGO_PKG_VERSION")))
            .with_instructions("Tools of a product catalogue: cards, and what its plugins do with them. Lists are short by default: narrow \
                 them, and ask for more members with `fields`.")
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
        self.services.registry.snapshot().tools.get(name).map(plugin_tools::declare)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut visit = visit(&context)?;
        visit.takes_links = context.protocol_version().is_some_and(|version| version.as_str() >= LINKS_SINCE);
        let hidden = match AnyTool::find(&self.services.registry, &request.name, &visit.caller) {
            Found::Tool(tool) => return self.call(tool, request, visit, &context).await,
            Found::Hidden => Some(&*request.name),
            Found::Unknown => None,
        };
        self.services.calls.refused(&visit, hidden);
        Err(ErrorData::invalid_params(format!("Unknown tool: {}", request.name), None))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        if !visit(&context)?.caller.holds(resources::SCOPE) {
            return Ok(ListResourcesResult::default());
        }
        let cursor = request.and_then(|request| request.cursor);
        resources::list(&self.services.cards, cursor).await.map_err(|error| resources::refusal(&error, ""))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let reads = visit(&context)?.caller.holds(resources::SCOPE);
        Ok(ListResourceTemplatesResult::with_all_items(reads.then(resources::template).into_iter().collect()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        // Without the scope there is no card.
        if !visit(&context)?.caller.holds(resources::SCOPE) {
            return Err(resources::refusal(&ApiError::not_found("resource"), &request.uri));
        }
        resources::read(&self.services.cards, &request.uri).await.map(ReadResourceResponse::from)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let caller = visit(&context)?.caller;
        let is_known = request.r#ref.as_resource_uri() == Some(resources::TEMPLATE);
        if !is_known || request.argument.name != resources::VARIABLE || !caller.holds(resources::SCOPE) {
            return Err(ErrorData::invalid_params("There is nothing of that name to complete.", None));
        }
        let completed = resources::complete(&self.services.cards, &request.argument.value).await;
        let (ids, has_more) = completed.map_err(|error| resources::refusal(&error, resources::TEMPLATE))?;
        let completion = CompletionInfo::with_pagination(ids, None, has_more);
        completion.map(CompleteResult::new).map_err(|error| ErrorData::internal_error(error, None))
    }

    // rmcp's own answer is an empty success of an ability that is not offered.
    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
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
        let origin = visit.origin.ok_or_else(|| ErrorData::internal_error("The stream has no origin.", None))?;
        let (mut watch, view) = (origin.watch(&visit.caller), AtomicU64::new(self.view(&visit.caller)));
        loop {
            tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                () = watch.due() => {}
            }
            match watch.news(&view).await {
                Some(News::Ended) => return Ok(()),
                Some(News::ToolsChanged) if subscription.sink().notify_tool_list_changed().await.is_err() => {
                    return Ok(());
                }
                _ => {}
            }
        }
    }
}
