//! The call that a person is asked about.

use futures_util::future::BoxFuture;

use super::binding::{self, Plugin};
use crate::http::error::ApiResult;
use crate::mcp::{Visit, core_tools::Pin};
use cardinal_base::{exact, scope::MCP_USE};
use cardinal_plugin_host::registry::ToolEntry;
use cardinal_store::approvals::{Binding, FirstAsked};
use rmcp::model::JsonObject;

/// How a question reaches a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionChannel {
    /// A request to the client, on the stream of the call, in its session.
    Session,
    /// The answer to the call, which the client repeats with its user's answer.
    InputRequired,
    /// The Admin API alone.
    Admin,
}

impl QuestionChannel {
    pub(crate) const fn asked(self) -> FirstAsked {
        match self {
            Self::Session | Self::InputRequired => FirstAsked::Client,
            Self::Admin => FirstAsked::Admin,
        }
    }
}

/// A tool whose calls have to be confirmed.
#[derive(Clone, Copy)]
pub struct ConfirmableTool<'a> {
    pub name: &'a str,
    pub title: Option<&'a str>,
    /// What its caller has to hold.
    pub scope: &'a str,
    pub has_output_schema: bool,
    /// Whose plugin says what a call would change.
    pub preview: Option<&'a ToolEntry>,
}

/// Tells whether what was asked about is what would run: the package, and the cards that were shown.
pub(crate) type IsCurrent<'a> = &'a (dyn Fn() -> BoxFuture<'a, ApiResult<bool>> + Send + Sync);

/// A call of it.
pub struct ToolCall<'a> {
    pub tool: ConfirmableTool<'a>,
    /// None for a tool of the core.
    pub plugin: Option<Plugin>,
    /// Canonical JSON: each member once, in the order of the names, numbers with every digit.
    pub arguments: String,
    pub visit: &'a Visit,
    pub binding: Binding,
    /// What a person looks at, where the arguments leave it open.
    pub(in crate::mcp) pin: Option<Pin>,
}

impl<'a> ToolCall<'a> {
    /// `None` when the arguments cannot be written canonically, since they are nested too deeply.
    pub(in crate::mcp) fn new(
        tool: ConfirmableTool<'a>,
        plugin: Option<Plugin>,
        visit: &'a Visit,
        arguments: &JsonObject,
        pin: Option<Pin>,
    ) -> Option<Self> {
        let text = match &visit.exact_arguments {
            Some(exact) => String::from_utf8(exact.to_vec()).ok()?,
            None => serde_json::to_string(arguments).ok()?,
        };
        let arguments = exact::without_duplicates(&text)?;
        let binding = binding::bind(&visit.caller, tool.name, &arguments, plugin.as_ref());
        Some(Self { tool, plugin, arguments, visit, binding, pin })
    }

    /// As approvals keep it.
    pub fn pinned(&self) -> Option<String> {
        self.pin.as_ref().map(Pin::to_string)
    }

    pub fn arguments_sha256(&self) -> String {
        binding::sha256(&self.arguments)
    }

    /// Refuses a caller that has lost its rights while the call waited.
    ///
    /// # Errors
    /// As the walk of a request refuses it.
    pub(crate) async fn may_still_run(&self) -> ApiResult<()> {
        let Some(origin) = &self.visit.origin else { return Ok(()) };
        let caller = origin.identify().await?;
        caller.require(MCP_USE)?;
        Ok(caller.require(self.tool.scope)?)
    }
}
