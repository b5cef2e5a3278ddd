//! Running a tool: its arguments checked, its call charged, confirmed by a person where it asks for that, and recorded.

use std::{pin::pin, sync::Arc};

use bytes::Bytes;
use futures_util::FutureExt;
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, JsonObject},
    service::RequestContext,
};
use uuid::Uuid;

use super::{
    Visit, client,
    confirmation::{self, Asker, ConfirmationOutcome, Plugin, ToolCall},
    core_tools::{OUTDATED, Pin, PinMismatch},
    heartbeat::{self, Reporter},
    plugin_tools,
    server::Server,
    sessions,
    tool::{AnyTool, Found},
};
use crate::{audit::AuditAction, http::error::ApiResult};
use cardinal_base::{exact, scope};
use cardinal_identity::{auth::caller::Caller, limit::ToolCharge};
use cardinal_observe::{request_timing, tools::Outcome};
use cardinal_plugin_host::{progress, whole_numbers};

const CANCELLED: &str = "cancelled: the client cancelled the call; what it changed before may have been kept.";

/// A call that may run.
struct CallPermit {
    tool: AnyTool,
    /// What it may run on.
    pin: Option<Pin>,
    /// None where nobody had to be asked.
    approval: Option<Uuid>,
}

/// What a call is answered with.
type CallAnswer = Result<CallToolResponse, ErrorData>;

impl Server {
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
            self.end_outdated(tool, visit, &arguments).await;
            return (Ok(refusal.into()), Outcome::Error);
        }
        // A call that is only asked about gives back what it took.
        let charge = match self.charge(tool, visit) {
            Ok(charge) => charge,
            Err(refusal) => return (Ok((*refusal).into()), Outcome::RateLimited),
        };
        match self.confirm(tool, visit, asker, &arguments).await {
            Ok(permit) => {
                if let Some(charge) = charge {
                    charge.keep();
                }
                let result = self.run_confirmed(permit, visit, arguments).await;
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
        match self.charge(tool, visit) {
            Ok(charge) => charge.map(ToolCharge::keep),
            Err(refusal) => return (*refusal, Outcome::RateLimited),
        };
        let result = tool.run(&self.services.cards, visit, arguments, None).await;
        let result = result.unwrap_or_else(|PinMismatch| plugin_tools::failure(OUTDATED));
        let outcome = ended(&result);
        (result, outcome)
    }

    async fn run_confirmed(&self, permit: CallPermit, visit: &Visit, arguments: JsonObject) -> CallToolResult {
        let CallPermit { tool, pin, approval } = permit;
        match tool.run(&self.services.cards, visit, arguments, pin).await {
            Ok(result) => result,
            Err(PinMismatch) => {
                if let Some(id) = approval {
                    self.services.confirmations.was_not_used(id).await;
                }
                plugin_tools::failure(OUTDATED)
            }
        }
    }

    /// Ends what was asked about a call that is refused, where it was asked about its card as that was.
    async fn end_outdated(&self, tool: &AnyTool, visit: &Visit, arguments: &JsonObject) {
        if !matches!(tool, AnyTool::Core(core) if core.changes_one_card()) {
            return;
        }
        let pin = match tool.pin(&self.services.cards, arguments).await {
            Ok(pin) => pin,
            Err(error) if error.status().is_client_error() => None, // there is no such card
            Err(_) => return,
        };
        if let Some(call) = ToolCall::new(tool.to_confirm(), None, visit, arguments, pin) {
            self.services.confirmations.end_outdated(&call).await;
        }
    }

    /// Charges a call of a tool that has a limit; else what its client gets in place of a result.
    fn charge(&self, tool: &AnyTool, visit: &Visit) -> Result<Option<ToolCharge>, Box<CallToolResult>> {
        let Some(limit) = tool.limit() else { return Ok(None) };
        let charged = self.services.limits.charge_tool(sessions::owner(&visit.caller), tool.name(), limit);
        let has_output_schema = tool.to_confirm().has_output_schema;
        charged.map(Some).map_err(|error| Box::new(plugin_tools::failed(&error.into(), has_output_schema)))
    }

    /// The call, once it may run; else what its client gets in place of a result.
    async fn confirm(
        &self,
        tool: &AnyTool,
        visit: &Visit,
        asker: &Asker,
        arguments: &JsonObject,
    ) -> Result<CallPermit, CallAnswer> {
        if visit.caller.holds(scope::UNATTENDED) {
            let (audit, name) = (&self.services.calls.audit, tool.name().to_owned());
            visit.record(audit, AuditAction::RunUnattended, Some(name), None).await;
            return Ok(CallPermit { tool: tool.clone(), pin: None, approval: None });
        }
        let refused = |text: &str| -> CallAnswer { Ok(plugin_tools::failure(text).into()) };
        let Some((_, plugin)) = self.serving(tool.name(), &visit.caller) else {
            return Err(refused(confirmation::VOID));
        };
        let pin = tool.pin(&self.services.cards, arguments).await;
        let pin = pin.map_err(|error| refused(&plugin_tools::plain(&error)))?;
        let Some(call) = ToolCall::new(tool.to_confirm(), plugin.clone(), visit, arguments, pin) else {
            return Err(refused("The arguments are nested too deeply."));
        };
        let is_current = || self.is_current(tool, &call, arguments).boxed();
        let approval = match self.services.confirmations.confirm(&call, asker, &is_current).await {
            Err(error) => return Err(Err(error)),
            Ok(ConfirmationOutcome::Answer(answer)) => return Err(Ok(answer)),
            Ok(ConfirmationOutcome::Run(id)) => id,
        };
        // It may have been replaced while a person was asked.
        match self.serving(tool.name(), &visit.caller) {
            Some((tool, serving)) if serving == plugin => {
                Ok(CallPermit { tool, pin: call.pin, approval: Some(approval) })
            }
            _ => {
                self.services.confirmations.was_not_used(approval).await;
                Err(refused(confirmation::VOID))
            }
        }
    }

    /// Whether what a person was asked about is what would run now: the package, and the cards.
    async fn is_current(&self, tool: &AnyTool, call: &ToolCall<'_>, arguments: &JsonObject) -> ApiResult<bool> {
        let serves = self.serving(tool.name(), &call.visit.caller).is_some_and(|(_, serving)| serving == call.plugin);
        let moved = match &call.pin {
            Some(pin) => tool.has_moved(&self.services.cards, arguments, pin).await?,
            None => false,
        };
        Ok(serves && !moved)
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
    pub(super) async fn call(
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
            let client = client::info(&visit, context).and_then(|info| client::describe_info(&info));
            let trace = client::trace(context);
            self.services.calls.begin(&mut visit, trace, client, request.arguments.as_ref())
        };
        let asker = Asker::new(context, &request, &visit);
        let mut arguments = request.arguments.unwrap_or_default();
        fit_whole_numbers(&tool, &mut arguments, &mut visit);
        let (server, cancelled, ours) =
            (self.clone(), context.ct.clone(), (record.clone(), visit.clone().unheard(), tool.clone()));
        let task = async move {
            let call = async {
                tokio::select! {
                    result = server.run(&tool, &visit, &asker, arguments) => result,
                    () = cancelled.cancelled() => (Ok(plugin_tools::failure(CANCELLED).into()), Outcome::Cancelled),
                }
            };
            let ((answer, outcome), timing) = request_timing::account(pin!(call)).await;
            visit.timing.add(&timing);
            server.services.calls.end(&record, &visit, &tool, outcome).await;
            answer
        };
        let client = token.map(|token| Reporter::new(context.peer.clone(), token));
        match heartbeat::while_running(client, reports, tokio::spawn(task)).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::error!(%error, "a tool call panicked in the host");
                let (record, visit, tool) = ours;
                self.services.calls.end(&record, &visit, &tool, Outcome::Broken).await;
                Err(broke_down())
            }
        }
    }
}

/// Gives a tool the integers that its schema wants as such, however the client wrote them. A call with numbers that
/// only its text holds exactly stays as it came: the tool refuses it or not.
pub(super) fn fit_whole_numbers(tool: &AnyTool, arguments: &mut JsonObject, visit: &mut Visit) {
    let has_changed = tool.input_schema().is_some_and(|schema| whole_numbers::fit(schema, arguments));
    let is_exact = |sent: &Bytes| std::str::from_utf8(sent).is_ok_and(|text| exact::first_inexact(text).is_none());
    if has_changed && visit.exact_arguments.as_ref().is_some_and(is_exact) {
        visit.exact_arguments = None;
    }
}

fn ended(result: &CallToolResult) -> Outcome {
    if result.is_error == Some(true) { Outcome::Error } else { Outcome::Ok }
}

/// The answer to a call that broke down in the host.
pub(super) fn broke_down() -> ErrorData {
    ErrorData::internal_error("The call failed.", None)
}
