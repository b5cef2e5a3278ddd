//! The client that calls: whether it can ask its user, how it is reached, and what it answers.

use bytes::Bytes;
use rmcp::{
    Peer, RoleServer,
    model::{CallToolRequestParams, ElicitResult, ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use tokio::sync::mpsc;

use super::{elicitation, question::QuestionChannel};
use crate::mcp::{Visit, client};
use cardinal_base::config::Confirm;

pub struct Asker {
    pub client_name: Option<String>,
    pub client_version: Option<String>,
    /// It declares that it puts forms before its user.
    pub can_elicit: bool,
    is_modern: bool,
    /// What it answers to a question, of a revision without sessions.
    pub answer: Option<ModernAnswer>,
    /// Where requests to it go, in a session.
    frames: Option<mpsc::Sender<Bytes>>,
    progress: Option<(Peer<RoleServer>, ProgressToken)>,
}

/// An answer that comes with the repeated call.
pub struct ModernAnswer {
    pub state: String,
    /// None: the answer is missing or none.
    pub accepts: Option<bool>,
}

impl Asker {
    pub fn new(context: &RequestContext<RoleServer>, request: &CallToolRequestParams, visit: &Visit) -> Self {
        let is_modern = context.protocol_version().is_some_and(|version| !version.has_initialize());
        let elicitation = context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
        // For a message by itself the protocol library makes a client up.
        let info = client::info(visit, context).filter(|_| is_modern || visit.session.is_some());
        // A client that names no way means forms, as before there were others.
        let can_elicit = elicitation.is_some_and(|ways| ways.form.is_some() || ways.url.is_none());
        let state = request.request_state.clone().filter(|_| is_modern);
        let progress = client::progress_token(visit, context).map(|token| (context.peer.clone(), token));
        Self {
            client_name: info.as_ref().map(|info| client::shown(&info.name)).filter(|name| !name.is_empty()),
            client_version: info
                .as_ref()
                .map(|info| client::shown(&info.version))
                .filter(|version| !version.is_empty()),
            can_elicit,
            is_modern,
            answer: state.map(|state| ModernAnswer { state, accepts: accepts(request) }),
            frames: visit.frames.clone(),
            progress,
        }
    }

    /// How a question reaches a person; `fits` says whether a client can be shown all of it.
    pub fn way(&self, confirm: Confirm, fits: bool) -> QuestionChannel {
        match confirm {
            Confirm::Auto if self.can_elicit && fits && self.is_modern => QuestionChannel::InputRequired,
            Confirm::Auto if self.can_elicit && fits && self.frames.is_some() => QuestionChannel::Session,
            _ => QuestionChannel::Admin,
        }
    }

    pub async fn send(&self, frame: Bytes) {
        if let Some(frames) = &self.frames
            && frames.send(frame).await.is_err()
        {
            tracing::debug!("the client has left before it was asked");
        }
    }

    /// Whether the client can be told that its call waits.
    pub(crate) const fn hears_progress(&self) -> bool {
        self.progress.is_some()
    }

    /// Tells the client what its call waits for; that it still waits, the heartbeat says.
    pub async fn report(&self, notice: &str) {
        let Some((peer, token)) = &self.progress else { return };
        let progress = ProgressNotificationParam::new(token.clone(), 0.0).with_message(notice);
        if let Err(error) = peer.notify_progress(progress).await {
            tracing::debug!(%error, "failed to tell a client that its call waits");
        }
    }
}

/// What the client's user says; None when that is missing or makes no sense.
fn accepts(request: &CallToolRequestParams) -> Option<bool> {
    let answer = request.input_responses.as_ref()?.get(elicitation::NAME)?;
    let answer: ElicitResult = serde_json::from_value(answer.clone()).ok()?;
    Some(elicitation::accepts(&answer))
}
