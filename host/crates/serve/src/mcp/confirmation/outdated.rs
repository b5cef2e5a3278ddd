//! Questions and approvals that are about cards as they are no more. They end as `void`: what was shown can't run any
//! more, and nothing else may.

use uuid::Uuid;

use super::{Confirmations, question::ToolCall};
use crate::http::error::ApiResult;
use crate::mcp::core_tools;
use cardinal_database::log_failure;
use cardinal_store::approvals::{self, Approval};

impl Confirmations {
    /// Whether the cards of this question are not those that were shown.
    ///
    /// # Errors
    /// When the database does not say what they are.
    pub async fn is_outdated(&self, approval: &Approval) -> ApiResult<bool> {
        let Some(pinned) = &approval.pin else { return Ok(false) };
        let Some(tool) = core_tools::find(&approval.tool) else { return Ok(true) };
        let arguments = tool.read_arguments(approval.arguments.get())?;
        tool.has_moved(&self.catalogue, &arguments, pinned).await
    }

    /// Ends a question whose cards or package are not those that were shown.
    pub async fn void(&self, id: Uuid) -> ApiResult<()> {
        approvals::void(&self.pool, id).await?;
        self.waiting.wake(&[id]);
        Ok(())
    }

    /// Ends what was asked about this call with another pin than its own; whether there was any.
    pub(super) async fn void_others(&self, call: &ToolCall<'_>) -> ApiResult<bool> {
        match call.pinned() {
            Some(pin) => self.void_all_but(call, Some(&pin)).await,
            None => Ok(false),
        }
    }

    /// The same for a call that is refused for what its card is by now; without a pin there is no such card. A card
    /// never comes back to a version, so nothing of what was asked will run.
    pub(crate) async fn end_outdated(&self, call: &ToolCall<'_>) {
        if let Err(error) = self.void_all_but(call, call.pinned().as_deref()).await {
            tracing::warn!(tool = call.tool.name, ?error, "failed to end what was asked about a card that has changed");
        }
    }

    async fn void_all_but(&self, call: &ToolCall<'_>, pin: Option<&str>) -> ApiResult<bool> {
        let outdated = approvals::void_outdated(&self.pool, &call.binding, pin).await?;
        self.waiting.wake(&outdated);
        Ok(!outdated.is_empty())
    }

    /// Takes back that an approval was used: its cards or its package changed while the call began, and nothing was
    /// done.
    pub(crate) async fn was_not_used(&self, id: Uuid) {
        if let Err(error) = approvals::void_used(&self.pool, id).await {
            log_failure!(error, "failed to record that an approval was not used");
        }
    }
}
