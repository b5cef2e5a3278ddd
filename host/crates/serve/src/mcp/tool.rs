//! A tool as it is called: one of the core's, or of a plugin's.

use std::sync::Arc;

use rmcp::model::{CallToolResult, JsonObject};

use super::{
    Visit,
    confirmation::ConfirmableTool,
    core_tools::{self, Cards, CoreTool, Pin, PinMismatch},
    plugin_tools,
    tool_list::ToolList,
    tool_search,
};
use crate::http::error::ApiResult;
use cardinal_base::scope::MCP_USE;
use cardinal_identity::{auth::caller::Caller, limit::gcra::Limit};
use cardinal_package::manifest::ToolRate;
use cardinal_plugin_host::registry::{Registry, ToolEntry};

/// A tool that its caller may use.
#[derive(Clone)]
pub(super) enum AnyTool {
    Core(&'static CoreTool),
    Plugin(Arc<ToolEntry>),
    /// Finds some of these.
    Search(Arc<ToolList>),
}

/// What there is of a name for a caller.
pub(super) enum Found {
    Tool(AnyTool),
    /// There is such a tool; the caller's scopes do not cover it, and it does not learn of it.
    Hidden,
    /// The connection is narrowed to other tools.
    Outside,
    Unknown,
}

impl AnyTool {
    pub(super) fn find(registry: &Registry, name: &str, caller: &Caller) -> Found {
        let entry = registry.current().tools.get(name).cloned();
        let found = entry.map(Self::Plugin).or_else(|| core_tools::find(name).map(Self::Core));
        match found {
            Some(tool) if caller.holds(tool.scope()) => Found::Tool(tool),
            Some(_) => Found::Hidden,
            None => Found::Unknown,
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Core(tool) => &tool.declaration.name,
            Self::Plugin(entry) => &entry.tool.name,
            Self::Search(_) => tool_search::SEARCH,
        }
    }

    /// The plugin whose tool it is.
    pub(super) fn plugin_name(&self) -> Option<&str> {
        match self {
            Self::Plugin(entry) => Some(&entry.plugin.manifest.name),
            Self::Core(_) | Self::Search(_) => None,
        }
    }

    fn scope(&self) -> &str {
        match self {
            Self::Core(tool) => tool.scope,
            Self::Plugin(entry) => &entry.scope,
            Self::Search(_) => MCP_USE,
        }
    }

    /// Whether a person has to confirm this call.
    pub(super) fn is_confirmed(&self, arguments: &JsonObject) -> bool {
        match self {
            Self::Core(tool) => tool.is_confirmed(arguments),
            Self::Plugin(entry) => entry.tool.requires_confirmation,
            Self::Search(_) => false,
        }
    }

    /// What a person sees who is to confirm a call.
    pub(super) fn to_confirm(&self) -> ConfirmableTool<'_> {
        let (title, has_output_schema) = match self {
            Self::Core(tool) => (&tool.declaration.title, tool.declaration.output_schema.is_some()),
            Self::Plugin(entry) => (&entry.tool.title, entry.tool.output_schema.is_some()),
            Self::Search(_) => (&None, false),
        };
        let preview = match self {
            Self::Plugin(entry) if entry.preview.is_some() => Some(&**entry),
            _ => None,
        };
        ConfirmableTool { name: self.name(), title: title.as_deref(), scope: self.scope(), has_output_schema, preview }
    }

    pub(super) fn input_schema(&self) -> Option<&JsonObject> {
        match self {
            Self::Core(tool) => Some(&tool.declaration.input_schema),
            Self::Plugin(entry) => entry.tool.input_schema.as_ref(),
            Self::Search(_) => None,
        }
    }

    /// What is wrong with the arguments.
    pub(super) fn complaints(&self, arguments: &JsonObject) -> Option<String> {
        match self {
            Self::Core(tool) => tool.complaints(arguments),
            Self::Plugin(entry) => plugin_tools::complaints(entry, arguments),
            Self::Search(_) => tool_search::complaints(arguments),
        }
    }

    /// Refuses a call of which it is plain already that it would fail.
    pub(super) async fn check(&self, cards: &Cards, visit: &Visit, arguments: &JsonObject) -> Option<CallToolResult> {
        match self {
            Self::Core(tool) => tool.check(cards, visit, arguments).await,
            Self::Plugin(_) | Self::Search(_) => None,
        }
    }

    /// How often one caller may call it.
    pub(super) fn limit(&self) -> Option<Limit> {
        let Self::Plugin(entry) = self else { return None };
        let ToolRate { per_minute, burst } = entry.tool.rate_limit?;
        Some(Limit::with_usual_burst(per_minute, burst))
    }

    /// What a person looks at who is asked about this call, where the arguments leave it open.
    pub(super) async fn pin(&self, cards: &Cards, arguments: &JsonObject) -> ApiResult<Option<Pin>> {
        match self {
            Self::Core(tool) => tool.pin(&cards.catalogue, arguments).await,
            Self::Plugin(_) | Self::Search(_) => Ok(None),
        }
    }

    /// Whether what is pinned has changed.
    pub(super) async fn has_moved(&self, cards: &Cards, arguments: &JsonObject, pin: &Pin) -> ApiResult<bool> {
        match self {
            Self::Core(tool) => tool.has_moved(&cards.catalogue, arguments, &pin.to_string()).await,
            Self::Plugin(_) | Self::Search(_) => Ok(false),
        }
    }

    /// Runs it, whether confirmed or not, on what is pinned alone. Every other failure is a result that the model can
    /// read.
    pub(super) async fn run(
        &self,
        cards: &Cards,
        visit: &Visit,
        arguments: JsonObject,
        pin: Option<Pin>,
    ) -> Result<CallToolResult, PinMismatch> {
        match self {
            Self::Core(tool) => tool.run(cards, visit, arguments, pin).await,
            Self::Plugin(entry) => Ok(plugin_tools::run(entry, visit, arguments).await),
            Self::Search(tools) => Ok(tool_search::run(tools, visit, &arguments)),
        }
    }
}
