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
        CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult, CompletionInfo,
        CustomRequest, CustomResult, ErrorCode, Implementation, JsonObject, ListPromptsRequestMethod,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
        SubscriptionFilter, Tool,
    },
    service::{RequestContext, SubscriptionContext},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    Visit,
    calls::Calls,
    client,
    confirmation::{self, Asker, Confirmations, Plugin, ToolCall, Verdict},
    core_tools::{Cards, Pin},
    heartbeat::{self, Reporter},
    narrowing::Narrowing,
    plain_call::PlainCall,
    plugin_tools, resources,
    tool::{AnyTool, Found},
    tool_list::{self, LatestList, ToolList},
    tool_search,
    watch::News,
};
use crate::audit::AuditAction;
use crate::http::error::ApiError;
use cardinal_base::{codes, scope};
use cardinal_identity::auth::caller::Caller;
use cardinal_observe::{request_timing, tools::Outcome};
use cardinal_plugin_host::{progress, registry::Registry};

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
];
/// Those of them that the newest revision has no more.
const REMOVED: &[&str] = &["initialize", "ping"];
/// The revision from which on a result may hold links to resources.
const LINKS_SINCE: &str = "2025-06-18";

/// What is said besides of a tool that is not there.
const NARROW: &str = ". This connection is narrowed, by `tools` or `readonly` in its URL or by its headers X-MCP-Tools or \
     X-MCP-Readonly";
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
pub(super) struct Server {
    pub(super) services: Services,
    latest_list: Arc<LatestList>,
    stop: CancellationToken,
}

impl Server {
    pub(super) fn new(services: Services, stop: CancellationToken) -> Self {
        Self { services, latest_list: Arc::default(), stop }
    }

    /// Cancelled when the host stops.
    pub(super) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Counts up with every change of the plugins' tools.
    pub(super) fn tool_changes(&self) -> watch::Receiver<u64> {
        self.services.registry.changes()
    }

    /// Whom calls are put to that a person confirms.
    pub(super) fn confirmations(&self) -> &Confirmations {
        &self.services.confirmations
    }

    /// What the tools that `caller` sees look like, as a number that is the same in every process.
    pub(super) fn view(&self, caller: &Caller, narrowing: &Narrowing) -> u64 {
        tool_list::view(&self.tools().listed(caller, narrowing))
    }

    /// What is wrong with the names that a connection is narrowed to.
    pub(super) fn unknown_names(&self, caller: &Caller, narrowing: &Narrowing) -> Option<String> {
        let snapshot = self.services.registry.snapshot();
        narrowing.unknown(&self.latest_list.get(&snapshot), &snapshot, caller)
    }

    /// The scope for want of which a caller does not have this tool on its connection.
    pub(super) fn missing_scope(&self, name: &str, visit: &Visit) -> Option<String> {
        let Found::Hidden = AnyTool::find(&self.services.registry, name, &visit.caller) else { return None };
        let tools = self.tools();
        tools.get(name).filter(|tool| visit.narrowing.admits(tool)).map(|tool| tool.scope.clone())
    }

    /// Counts a call that was refused for want of a scope.
    pub(super) fn refused(&self, visit: &Visit, name: &str) {
        self.services.calls.refused(visit, Some(name), codes::INSUFFICIENT_SCOPE.name);
    }

    /// All tools there are now.
    fn tools(&self) -> Arc<ToolList> {
        self.latest_list.get(&self.services.registry.snapshot())
    }

    /// The tool of this name on a connection of this caller.
    fn find(&self, name: &str, visit: &Visit) -> Found {
        if visit.narrowing.search && name == tool_search::SEARCH {
            return Found::Tool(AnyTool::Search(self.tools()));
        }
        match AnyTool::find(&self.services.registry, name, &visit.caller) {
            Found::Tool(_) if !self.tools().get(name).is_some_and(|tool| visit.narrowing.admits(tool)) => {
                Found::Outside
            }
            found => found,
        }
    }

    /// The tool that a call by the short way runs: one that is there, and that nobody has to confirm.
    pub(super) fn find_plain(&self, call: &PlainCall, visit: &Visit) -> Option<AnyTool> {
        let Found::Tool(tool) = self.find(&call.name, visit) else { return None };
        let repeats_arguments = call.is_modern && self.tools().get(&call.name).is_some_and(|tool| tool.has_headers);
        (!repeats_arguments && !tool.is_confirmed(&call.arguments)).then_some(tool)
    }

    /// Runs a tool unless its arguments are wrong, or a person has to confirm it and has not. Wrong arguments come
    /// first: nobody is asked about what would not run.
    async fn run(&self, tool: &AnyTool, visit: &Visit, asker: &Asker, arguments: JsonObject) -> (CallAnswer, Outcome) {
        if !tool.is_confirmed(&arguments) {
            let (result, outcome) = self.run_unasked(tool, visit, arguments).await;
            return (Ok(result.into()), outcome);
        }
        if let Some(complaints) = tool.complaints(&arguments) {
            return (Ok(plugin_tools::failure(complaints).into()), Outcome::InvalidArguments);
        }
        if let Some(refusal) = tool.check(&self.services.cards, visit, &arguments).await {
            return (Ok(refusal.into()), Outcome::Error);
        }
        match self.confirm(tool, visit, asker, &arguments).await {
            Ok((confirmed, pin)) => {
                let result = confirmed.run(&self.services.cards, visit, arguments, pin).await;
                let outcome = ended(&result);
                (Ok(result.into()), outcome)
            }
            Err(answer) => (answer, Outcome::Unconfirmed),
        }
    }

    /// Runs a tool that nobody has to confirm, unless its arguments are wrong.
    pub(super) async fn run_unasked(
        &self,
        tool: &AnyTool,
        visit: &Visit,
        arguments: JsonObject,
    ) -> (CallToolResult, Outcome) {
        if let Some(complaints) = tool.complaints(&arguments) {
            return (plugin_tools::failure(complaints), Outcome::InvalidArguments);
        }
        let result = tool.run(&self.services.cards, visit, arguments, None).await;
        let outcome = ended(&result);
        (result, outcome)
    }

    /// The tool, once its call may run, and what it may run on; else what its client gets in place of a result.
    async fn confirm(
        &self,
        tool: &AnyTool,
        visit: &Visit,
        asker: &Asker,
        arguments: &JsonObject,
    ) -> Result<(AnyTool, Option<Pin>), CallAnswer> {
        if visit.caller.holds(scope::UNATTENDED) {
            let (actor, id) = (visit.caller.actor(), visit.request_id.to_string());
            let (audit, name) = (&self.services.calls.audit, tool.name().to_owned());
            audit.done_by(actor, Some(visit.peer), id, AuditAction::RunUnattended, Some(name), None).await;
            return Ok((tool.clone(), None));
        }
        let refused = |text: &str| -> CallAnswer { Ok(plugin_tools::failure(text).into()) };
        let Some((_, plugin)) = self.serving(tool.name(), &visit.caller) else {
            return Err(refused(confirmation::VOID));
        };
        let is_current = || self.serving(tool.name(), &visit.caller).is_some_and(|(_, serving)| serving == plugin);
        let pin = tool.pin(&self.services.cards, arguments).await;
        let pin = pin.map_err(|error| refused(&plugin_tools::plain(&error)))?;
        let Some(call) = ToolCall::new(tool.to_confirm(), plugin.clone(), visit, arguments, pin, &is_current) else {
            return Err(refused("The arguments are nested too deeply."));
        };
        match self.services.confirmations.confirm(&call, asker).await {
            Err(error) => return Err(Err(error)),
            Ok(Verdict::Answer(answer)) => return Err(Ok(answer)),
            Ok(Verdict::Run) => {}
        }
        // It may have been replaced while a person was asked.
        match self.serving(tool.name(), &visit.caller) {
            Some((tool, serving)) if serving == plugin => Ok((tool, call.pin)),
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
        mut visit: Visit,
        context: &RequestContext<RoleServer>,
    ) -> CallAnswer {
        let token = client::progress_token(&visit, context);
        let (sender, reports) = progress::channel();
        visit.progress = token.is_some().then_some(sender);
        let record = {
            let client = client::info(&visit, context);
            self.services.calls.begin(&visit, client.as_ref(), request.arguments.as_ref())
        };
        let asker = Asker::new(context, &request, &visit);
        let (server, cancelled, ours) =
            (self.clone(), context.ct.clone(), (record.clone(), visit.clone().unheard(), tool.clone()));
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
        let client = token.map(|token| Reporter::new(context.peer.clone(), token));
        match heartbeat::while_running(client, reports, tokio::spawn(task)).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::error!(%error, "a tool call broke down in the host");
                let (record, visit, tool) = ours;
                record.end(&visit, tool.name(), Outcome::Broken).await;
                Err(broke_down())
            }
        }
    }
}

/// Whether results of this revision may hold links to resources.
pub(super) fn knows_links(version: &ProtocolVersion) -> bool {
    version.as_str() >= LINKS_SINCE
}

fn ended(result: &CallToolResult) -> Outcome {
    if result.is_error == Some(true) { Outcome::Error } else { Outcome::Ok }
}

/// The answer to a call that broke down in the host.
pub(super) fn broke_down() -> ErrorData {
    ErrorData::internal_error("The call failed.", None)
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
        let tools = self.tools();
        let listed = tools.listed(&visit.caller, &visit.narrowing);
        if let Some(session) = &visit.session {
            session.view.store(tool_list::view(&listed), Ordering::Relaxed);
        }
        let after = request.and_then(|request| request.cursor);
        Ok(tool_list::page(&listed, after.as_deref()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().get(name).map(|listed| listed.tool.clone())
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut visit = visit(&context)?;
        visit.takes_links = context.protocol_version().is_some_and(|version| knows_links(&version));
        if visit.narrowing.search
            && request.name == tool_search::CALL
            && let Err(complaints) = tool_search::unwrap(&mut request, &mut visit)
        {
            return Ok(plugin_tools::failure(complaints).into());
        }
        let name = &*request.name;
        let (target, code) = match self.find(name, &visit) {
            Found::Tool(tool) => return self.call(tool, request, visit, &context).await,
            Found::Hidden => (Some(name), codes::INSUFFICIENT_SCOPE.name),
            Found::Outside => (Some(name), "outside-connection"),
            Found::Unknown => (None, "unknown-tool"),
        };
        self.services.calls.refused(&visit, target, code);
        let narrow = if visit.narrowing.is_narrow() { NARROW } else { "" };
        Err(ErrorData::invalid_params(format!("Unknown tool: {name}{narrow}"), None))
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
        // Without the scope there is no card, and no export.
        let caller = visit(&context)?.caller;
        if !caller.holds(resources::SCOPE) {
            return Err(resources::refusal(&ApiError::not_found("resource"), &request.uri));
        }
        resources::read(&self.services.cards, &caller, &request.uri).await.map(ReadResourceResponse::from)
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
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        let is_modern = context.protocol_version().is_some_and(|version| !version.has_initialize());
        let is_removed = is_modern && REMOVED.contains(&method.as_str());
        if !is_removed && METHODS.contains(&method.as_str()) {
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
        let (mut watch, view) =
            (origin.watch(&visit.caller), AtomicU64::new(self.view(&visit.caller, &visit.narrowing)));
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
