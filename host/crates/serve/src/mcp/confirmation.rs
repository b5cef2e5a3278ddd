//! Confirmation of tool calls by a person. A call that has to be confirmed runs after its client's user has accepted it
//! or a person has approved it in the Admin API, once, with exactly what was shown. Everything that counts lies in the
//! table `mcp_approvals`: it outlives the worker and is good at every host of the database.
//!
//! Nothing that a call carries confirms it: an answer counts only for a question that waits, of the same caller, tool,
//! arguments and package, and in a revision with sessions from the session that was asked.

mod asker;
mod audit_entry;
mod binding;
mod difference;
mod elicitation;
mod ending;
mod outdated;
mod preview;
mod question;
mod replaced;
mod reply;
mod waiting;

use std::{sync::Arc, time::Duration};

use rmcp::{
    ErrorData,
    model::{CallToolResponse, CallToolResult, ContentBlock, MetaObject},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) use self::{
    asker::Asker,
    audit_entry::{act, audited},
    binding::Plugin,
    elicitation::{frames, frames_between},
    ending::VOID,
    question::{ConfirmableTool, IsCurrent, ToolCall},
    reply::Reply,
};
use self::{
    asker::ModernAnswer,
    ending::{UNCONFIRMED, USED, void},
    question::QuestionChannel,
    waiting::Waiting,
};
use super::{
    core_tools::OUTDATED,
    plugin_tools::{failure, plain},
    sessions,
};
use crate::audit::{Audit, AuditAction};
use crate::call::CallHead;
use crate::http::error::{ApiError, ApiResult};
use cardinal_base::{config::Confirm, hex::hex, seal::SealingKey};
use cardinal_database::pool::Pool;
use cardinal_identity::auth::caller::Caller;
use cardinal_store::{
    approvals::{self, AskedClient, Decision, LIFETIME_SECONDS, NewApproval, PENDING_LIMIT, QuestionOutcome},
    catalogue::Catalogue,
};

/// How long a call waits for a person whose client can't be told that it waits. Clients give up after 60 s, and a proxy
/// may cut off a connection that carries nothing.
const SILENT_WAIT: Duration = Duration::from_secs(10);
/// How long a call waits whose client hears of it: as long as the question counts.
const WAIT: Duration = Duration::from_secs(LIFETIME_SECONDS as u64);
/// Bytes of arguments that a person can be asked about.
const ARGUMENTS_LIMIT: usize = 64 * 1024;

/// What a call gets in the place of its tool's answer, or its leave to run.
pub enum ConfirmationOutcome {
    /// By this approval, which is used up.
    Run(Uuid),
    Answer(CallToolResponse),
}

impl ConfirmationOutcome {
    fn failure(text: impl Into<String>) -> Self {
        Self::Answer(failure(text).into())
    }
}

/// Asks persons, and waits for them.
pub struct Confirmations {
    pool: Pool,
    audit: Arc<Audit>,
    catalogue: Arc<Catalogue>,
    key: SealingKey,
    confirm: Confirm,
    base_url: String,
    waiting: Waiting,
    stop: CancellationToken,
}

impl Confirmations {
    pub fn new(
        pool: Pool,
        audit: Arc<Audit>,
        catalogue: Arc<Catalogue>,
        key: SealingKey,
        confirm: Confirm,
        base_url: &str,
        stop: CancellationToken,
    ) -> Self {
        let base_url = base_url.to_owned();
        Self { pool, audit, catalogue, key, confirm, base_url, waiting: Waiting::default(), stop }
    }

    /// Whether the call may run now. It waits for a person, within bounds. Its arguments were validated before.
    pub async fn confirm(
        &self,
        call: &ToolCall<'_>,
        asker: &Asker,
        is_current: IsCurrent<'_>,
    ) -> Result<ConfirmationOutcome, ErrorData> {
        if let Some(answer) = &asker.answer {
            return self.answered(call, asker, answer).await;
        }
        Ok(self.ask(call, asker, is_current).await.unwrap_or_else(|error| {
            let (tool, request_id) = (&call.tool.name, &call.visit.request_id);
            tracing::warn!(tool, %request_id, ?error, "failed to ask for a confirmation");
            ConfirmationOutcome::failure(plain(&error))
        }))
    }

    async fn ask(
        &self,
        call: &ToolCall<'_>,
        asker: &Asker,
        is_current: IsCurrent<'_>,
    ) -> ApiResult<ConfirmationOutcome> {
        if self.void_others(call).await? {
            return Ok(ConfirmationOutcome::failure(OUTDATED));
        }
        if let Some(id) = approvals::take_approved(&self.pool, &call.binding, call.pinned().as_deref()).await? {
            return Ok(self.run(call, id).await);
        }
        // Decided after its caller had stopped to wait.
        if let Some(id) = approvals::take_denied(&self.pool, &call.binding).await? {
            return self.denied(id).await;
        }
        if call.arguments.len() > ARGUMENTS_LIMIT {
            return Ok(ConfirmationOutcome::failure(format!(
                "confirmation_too_large: a person can be asked about {ARGUMENTS_LIMIT} bytes of arguments, and these are {}.",
                call.arguments.len()
            )));
        }
        let difference = difference::find(&self.catalogue, call).await?;
        let text = elicitation::message(call, difference.as_ref());
        let way = asker.way(self.confirm, text.is_some());
        let id = match self.put(call, asker, way, difference.as_ref()).await? {
            QuestionOutcome::New { id, displaced } => {
                self.waiting.wake(&displaced);
                self.note(call, AuditAction::AskApproval, id, json!({"asked": way.asked().name()})).await;
                id
            }
            QuestionOutcome::Known(id) => id,
            QuestionOutcome::TooMany => {
                return Ok(ConfirmationOutcome::failure(format!(
                    "confirmation_limit: {PENDING_LIMIT} calls wait for a person already. Try again later."
                )));
            }
        };
        let is_over = self.waiting.enter(id);
        match (way, text) {
            (QuestionChannel::InputRequired, Some(text)) => {
                let state = self.key.seal(&place(call), id.as_bytes()).map_err(ApiError::internal)?;
                return Ok(ConfirmationOutcome::Answer(elicitation::input_required(text, state).into()));
            }
            (QuestionChannel::Session, Some(text)) => asker.send(elicitation::request(id, &text)).await,
            _ => {}
        }
        let notice = self.notice(id);
        let time = if way == QuestionChannel::Session || asker.hears_progress() { WAIT } else { SILENT_WAIT };
        asker.report(&notice).await;
        let decided = tokio::select! {
            decided = is_over.wait() => decided,
            () = tokio::time::sleep(time) => false,
            () = self.stop.cancelled() => false,
        };
        if decided { self.decided(call, id, is_current).await } else { Ok(self.pending(call, id, notice)) }
    }

    async fn put(
        &self,
        call: &ToolCall<'_>,
        asker: &Asker,
        way: QuestionChannel,
        difference: Option<&Value>,
    ) -> ApiResult<QuestionOutcome> {
        let caller = &call.visit.caller;
        let plugin = call.plugin.as_ref().map(Plugin::to_json);
        let (difference, pin) = (difference.map(Value::to_string), call.pinned());
        let new = NewApproval {
            binding: call.binding,
            caller_id: sessions::owner(caller),
            caller: &caller.actor(),
            user_id: caller.user_id,
            client_name: asker.client_name.as_deref(),
            client_version: asker.client_version.as_deref(),
            tool: call.tool.name,
            title: call.tool.title,
            plugin: plugin.as_ref(),
            arguments: &call.arguments,
            difference: difference.as_deref(),
            pin: pin.as_deref(),
            asked: way.asked(),
            session: call
                .visit
                .session
                .as_ref()
                .filter(|_| way == QuestionChannel::Session)
                .map(|session| session.id()),
            request_id: call.visit.request_id.as_str(),
        };
        Ok(approvals::ask(&self.pool, &new).await?)
    }

    /// What becomes of a call that has waited, now that its question is answered.
    async fn decided(
        &self,
        call: &ToolCall<'_>,
        id: Uuid,
        is_current: IsCurrent<'_>,
    ) -> ApiResult<ConfirmationOutcome> {
        let approval = approvals::get(&self.pool, id).await?;
        if approval.as_ref().is_some_and(|approval| approval.state == "approved") {
            if !is_current().await? {
                self.void(id).await?;
                return Ok(ConfirmationOutcome::failure(void(call.plugin.is_none())));
            }
            call.may_still_run().await?;
            if let Some(id) = approvals::take_approved(&self.pool, &call.binding, call.pinned().as_deref()).await? {
                return Ok(self.run(call, id).await);
            }
            return Ok(ConfirmationOutcome::failure(USED));
        }
        approvals::take_denied(&self.pool, &call.binding).await?; // it hears of it now
        Ok(ConfirmationOutcome::failure(ending::describe(approval.as_ref())))
    }

    /// The answer to a call that does not run because of what became of its question.
    async fn denied(&self, id: Uuid) -> ApiResult<ConfirmationOutcome> {
        Ok(ConfirmationOutcome::failure(ending::describe(approvals::get(&self.pool, id).await?.as_ref())))
    }

    /// The answer of a client that repeats its call with it.
    async fn answered(
        &self,
        call: &ToolCall<'_>,
        asker: &Asker,
        answer: &ModernAnswer,
    ) -> Result<ConfirmationOutcome, ErrorData> {
        let id = self.key.open(&place(call), &answer.state).ok().and_then(|id| Uuid::from_slice(&id).ok());
        let Some(id) = id else {
            return Err(ErrorData::invalid_params(
                "`requestState` is not of this call: the caller, tool, arguments and plugin must be those that were asked about",
                None,
            ));
        };
        if asker.way(self.confirm, true) != QuestionChannel::InputRequired {
            return Err(ErrorData::invalid_params(
                "The client's user does not confirm here: the client declares no elicitation, or MCP_CONFIRM is `admin`",
                None,
            ));
        }
        let outcome = match answer.accepts {
            Some(true) => self.take(call, asker, id).await,
            Some(false) => self.deny(call, asker, id).await,
            None => self.ask_again(call, &answer.state).await,
        };
        Ok(outcome.unwrap_or_else(|error| ConfirmationOutcome::failure(plain(&error))))
    }

    async fn take(&self, call: &ToolCall<'_>, asker: &Asker, id: Uuid) -> ApiResult<ConfirmationOutcome> {
        let caller = &call.visit.caller;
        let by = client_actor(caller, asker.client_name.as_deref());
        if self.void_others(call).await? {
            return Ok(ConfirmationOutcome::failure(OUTDATED));
        }
        let pin = call.pinned();
        if approvals::take_elicited(&self.pool, id, &call.binding, pin.as_deref(), &by).await?.is_none() {
            approvals::take_denied(&self.pool, &call.binding).await?;
            return self.denied(id).await;
        }
        self.waiting.wake(&[id]);
        self.note(call, AuditAction::Approve, id, json!({"decided_by": by})).await;
        Ok(self.run(call, id).await)
    }

    /// The same question once more, for a client that repeats its call without an answer.
    async fn ask_again(&self, call: &ToolCall<'_>, state: &str) -> ApiResult<ConfirmationOutcome> {
        let difference = difference::find(&self.catalogue, call).await?;
        Ok(match elicitation::message(call, difference.as_ref()) {
            Some(text) => ConfirmationOutcome::Answer(elicitation::input_required(text, state.to_owned()).into()),
            None => ConfirmationOutcome::failure(UNCONFIRMED),
        })
    }

    async fn deny(&self, call: &ToolCall<'_>, asker: &Asker, id: Uuid) -> ApiResult<ConfirmationOutcome> {
        let caller = &call.visit.caller;
        let by = client_actor(caller, asker.client_name.as_deref());
        let client = AskedClient { caller_id: sessions::owner(caller), session: None };
        if approvals::decide(&self.pool, id, Decision::Deny(None), &by, Some(&client)).await?.is_some() {
            self.waiting.wake(&[id]);
            self.note(call, AuditAction::Deny, id, json!({"decided_by": by})).await;
        }
        approvals::take_denied(&self.pool, &call.binding).await?;
        self.denied(id).await
    }

    /// Takes what a session's client has answered; `false` when it was not asked, or the question does not wait any
    /// more.
    pub(crate) async fn take_reply(
        &self,
        caller: &Caller,
        session: (Uuid, Option<&str>),
        call: &CallHead,
        reply: &Reply,
    ) -> ApiResult<bool> {
        if self.confirm == Confirm::Admin {
            return Ok(false);
        }
        let (session, client_name) = session;
        let client = AskedClient { caller_id: sessions::owner(caller), session: Some(session) };
        let by = client_actor(caller, client_name);
        let decision = if reply.accepts { Decision::Approve } else { Decision::Deny(None) };
        let Some(approval) = approvals::decide(&self.pool, reply.id, decision, &by, Some(&client)).await? else {
            return Ok(false);
        };
        // Before the call that waits goes on: its use is the next line of the audit log.
        self.audit.done_as(call, act(decision), Some(approval.id.to_string()), Some(audited(&approval))).await;
        self.waiting.wake(&[reply.id]);
        Ok(true)
    }

    /// Wakes the calls that wait here for what a person has just decided.
    pub fn wake(&self, id: Uuid) {
        self.waiting.wake(&[id]);
    }

    /// Wakes the calls that wait here for what was decided at other hosts, and for what expires. Ends with the host.
    pub async fn follow(&self) {
        self.waiting.follow(&self.pool).await;
    }

    async fn run(&self, call: &ToolCall<'_>, id: Uuid) -> ConfirmationOutcome {
        self.note(call, AuditAction::UseApproval, id, json!({})).await;
        ConfirmationOutcome::Run(id)
    }

    async fn note(&self, call: &ToolCall<'_>, act: AuditAction, id: Uuid, mut detail: Value) {
        detail["tool"] = call.tool.name.into();
        detail["arguments_sha256"] = call.arguments_sha256().into();
        if let Some(plugin) = &call.plugin {
            detail["plugin"] = plugin.to_json();
        }
        call.visit.record(&self.audit, act, Some(id.to_string()), Some(detail)).await;
    }

    /// Where the Admin API shows the question; a person opens the page that [`Self::notice`] names.
    fn url(&self, id: Uuid) -> String {
        format!("{}/v1/admin/approvals/{id}", self.base_url)
    }

    fn notice(&self, id: Uuid) -> String {
        let page = format!("{}/admin/approvals?call={id}", self.base_url);
        format!("A person with the scope `mcp:approve` has to approve this call: {page}")
    }

    /// The answer to a call that a person has not decided yet.
    fn pending(&self, call: &ToolCall<'_>, id: Uuid, notice: String) -> ConfirmationOutcome {
        let minutes = LIFETIME_SECONDS / 60;
        let text = format!(
            "confirmation_required: {notice}. Then make the same call again, within {minutes} minutes of the first: it runs once."
        );
        let status = json!({"status": "confirmation_required", "approval_id": id, "approval_url": self.url(id)});
        let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
        // Clients hold it against the tool's output schema, where it has one.
        if !call.tool.has_output_schema {
            result.structured_content = Some(status.clone());
        }
        let mut meta = MetaObject::new();
        meta.0.insert("cardinal/confirmation".to_owned(), status);
        result.meta = Some(meta);
        ConfirmationOutcome::Answer(result.into())
    }
}

/// Where the state of a question opens that a client holds.
fn place(call: &ToolCall<'_>) -> String {
    format!("mcp confirmation {}", hex(&call.binding))
}

/// The user of a client, whom the client alone knows.
fn client_actor(caller: &Caller, client_name: Option<&str>) -> Value {
    let name = client_name.map_or_else(|| caller.actor()["name"].clone(), Value::from);
    json!({"kind": "client", "id": sessions::owner(caller), "name": name})
}
