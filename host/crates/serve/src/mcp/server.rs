//! The server that rmcp drives: lists and calls tools for the caller of the request.

use std::{borrow::Cow, sync::Arc};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CompletionInfo, CustomRequest,
        CustomResult, DiscoverResult, ErrorCode, GetPromptRequestMethod, GetPromptRequestParams, GetPromptResponse,
        Implementation, InitializeRequestParams, InitializeResult, ListPromptsRequestMethod, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams, PromptsCapability,
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
    card_resource::refusal,
    confirmation::Confirmations,
    core_tools::Cards,
    list_view::{ListChanges, SeenView, View},
    narrowing::Narrowing,
    plugin_tools, prompts, resources,
    tool::{AnyTool, Found},
    tool_list::{self, LatestList, ToolList},
    tool_search,
    watch::News,
};
use crate::http::error::ApiError;
use cardinal_base::codes;
use cardinal_identity::{auth::caller::Caller, limit::Limits};
use cardinal_plugin_host::registry::Registry;

/// What the protocol library takes for a method of somebody else's when its parameters are not as they should be.
const METHODS: &[&str] = &[
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
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

const INSTRUCTIONS: &str = "Tools of a product catalogue: cards, and what its plugins do with them. Lists are short by \
     default: narrow them, and ask for more members with `fields`.";

/// What the endpoint is made of.
#[derive(Clone)]
pub struct Services {
    pub registry: Arc<Registry>,
    pub cards: Cards,
    pub calls: Calls,
    pub confirmations: Arc<Confirmations>,
    pub limits: Arc<Limits>,
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

    /// What the lists that `caller` sees look like; of prompts only where there are some.
    pub(super) fn view(&self, caller: &Caller, narrowing: &Narrowing) -> View {
        let snapshot = self.services.registry.snapshot();
        View {
            tools: tool_list::view(&tool_search::listed(&self.latest_list.get(&snapshot), caller, narrowing)),
            prompts: Some(prompts::view(&snapshot, caller)),
        }
    }

    /// What a session begins with.
    pub(super) fn first_view(&self, caller: &Caller, narrowing: &Narrowing) -> View {
        let view = self.view(caller, narrowing);
        View { prompts: view.prompts.filter(|_| self.has_prompts(caller)), ..view }
    }

    fn has_prompts(&self, caller: &Caller) -> bool {
        prompts::any(&self.services.registry.snapshot(), caller)
    }

    /// What the server is and can do: prompts are something only for a caller that has some.
    fn info(&self, with_prompts: bool) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_completions()
            .build();
        capabilities.prompts = with_prompts.then(|| {
            let mut prompts = PromptsCapability::default();
            prompts.list_changed = Some(true);
            prompts
        });
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("cardinal", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
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
    pub(super) fn tools(&self) -> Arc<ToolList> {
        self.latest_list.get(&self.services.registry.current())
    }

    /// The tool of this name on a connection of this caller.
    pub(super) fn find(&self, name: &str, visit: &Visit) -> Found {
        if visit.narrowing.search && name == tool_search::SEARCH {
            return Found::Tool(AnyTool::Search(self.tools()));
        }
        let found = AnyTool::find(&self.services.registry, name, &visit.caller);
        let narrowing = &visit.narrowing;
        let is_outside = || !self.tools().get(name).is_some_and(|tool| narrowing.admits(tool));
        match found {
            Found::Tool(_) if narrowing.is_narrow() && is_outside() => Found::Outside,
            found => found,
        }
    }
}

/// Whether results of this revision may hold links to resources.
pub(super) fn knows_links(version: &ProtocolVersion) -> bool {
    version.as_str() >= LINKS_SINCE
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
        // Without a caller: what some may subscribe to.
        self.info(true)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let caller = visit(&context)?.caller;
        context.peer.set_peer_info(request.clone());
        let negotiated = self.negotiate_initialize(&request)?;
        let mut info = self.info(self.has_prompts(&caller));
        info.protocol_version = negotiated.protocol_version;
        Ok(info)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let caller = visit(&context)?.caller;
        let revisions = ServerHandler::supported_protocol_versions(self).into_owned();
        Ok(DiscoverResult::from_server_info(revisions, self.info(self.has_prompts(&caller))))
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
        let listed = tool_search::listed(&tools, &visit.caller, &visit.narrowing);
        if let Some(session) = &visit.session {
            session.view.saw_tools(tool_list::view(&listed));
        }
        let cursor = request.and_then(|request| request.cursor);
        tool_list::page(&listed, cursor.as_deref())
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
        resources::list(&self.services.cards, cursor).await.map_err(|error| refusal(&error, ""))
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
            return Err(refusal(&ApiError::not_found("resource"), &request.uri));
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
        let (ids, has_more) = completed.map_err(|error| refusal(&error, resources::TEMPLATE))?;
        let completion = CompletionInfo::with_pagination(ids, None, has_more);
        completion.map(CompleteResult::new).map_err(|error| ErrorData::internal_error(error, None))
    }

    // A caller without prompts was not told that there are such methods.
    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let visit = visit(&context)?;
        let snapshot = self.services.registry.snapshot();
        if !prompts::any(&snapshot, &visit.caller) {
            return Err(ErrorData::method_not_found::<ListPromptsRequestMethod>());
        }
        if let Some(session) = &visit.session {
            session.view.saw_prompts(prompts::view(&snapshot, &visit.caller));
        }
        let cursor = request.and_then(|request| request.cursor);
        prompts::list(&snapshot, &visit.caller, cursor.as_deref())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let visit = visit(&context)?;
        let snapshot = self.services.registry.snapshot();
        if !prompts::any(&snapshot, &visit.caller) {
            return Err(ErrorData::method_not_found::<GetPromptRequestMethod>());
        }
        let arguments = request.arguments.unwrap_or_default();
        prompts::get(&snapshot, &visit.caller, &request.name, &arguments).map(GetPromptResponse::from)
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
            (origin.watch(&visit.caller), SeenView::new(self.view(&visit.caller, &visit.narrowing)));
        let wanted = subscription.accepted().clone();
        loop {
            tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                () = watch.due() => {}
            }
            match watch.news(&view).await {
                Some(News::Ended) => return Ok(()),
                Some(News::ListsChanged(ListChanges { tools, prompts })) => {
                    let sink = subscription.sink();
                    let (tools, prompts) = (
                        tools && wanted.tools_list_changed == Some(true),
                        prompts && wanted.prompts_list_changed == Some(true),
                    );
                    if (tools && sink.notify_tool_list_changed().await.is_err())
                        || (prompts && sink.notify_prompt_list_changed().await.is_err())
                    {
                        return Ok(());
                    }
                }
                None => {}
            }
        }
    }
}
