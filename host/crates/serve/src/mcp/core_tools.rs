//! The core's own tools: finding, reading, writing and exporting cards, by the functions that the admin API uses.

mod attributes;
mod bulk;
mod declared;
mod jobs;
mod pin;
mod read;
mod view;
mod write;

use std::sync::{Arc, LazyLock};

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Resource, Tool};
use serde::Serialize;
use serde_json::Value;

use super::{Exports, Visit, plugin_tools};
use crate::audit::Audit;
use crate::http::error::{ApiError, ApiResult};
use crate::jobs::Jobs;
use cardinal_database::pool::Pool;
use cardinal_plugin_host::whole_numbers;
use cardinal_store::catalogue::Catalogue;

pub(super) use self::{
    bulk::Preview,
    pin::{OUTDATED, Pin, PinMismatch},
};

/// Bytes of the largest answer: what names its fields or a source gets so much, and a resource.
pub(super) const ANSWER_LIMIT: usize = 1 << 20;
/// Bytes of a page of cards or of a history, and of a card that nobody has named fields of: 16,000 tokens, some more
/// than half of what clients pass on to a model.
const PAGE_LIMIT: usize = 64 << 10;

/// One of them.
pub(super) struct CoreTool {
    /// As clients see it.
    pub declaration: Tool,
    pub scope: &'static str,
    pub requires_confirmation: bool,
    /// Of its input schema.
    validator: Option<jsonschema::Validator>,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    BulkUpdate,
    Create,
    Export,
    Get,
    GetJob,
    History,
    Restore,
    Search,
    Update,
}

/// What the tools work on.
#[derive(Clone)]
pub struct Cards {
    pub catalogue: Arc<Catalogue>,
    pub pool: Pool,
    pub jobs: Arc<Jobs>,
    pub audit: Arc<Audit>,
    pub exports: Exports,
}

/// What a tool answers.
enum Answer {
    /// JSON, and links to the resources that it names, for clients that know links.
    Object(String, Vec<Resource>),
    /// Why there is none, and how to ask for less.
    TooLarge(String),
    /// What was pinned has changed.
    Outdated,
}

static TOOLS: LazyLock<Vec<CoreTool>> = LazyLock::new(declared::all);

/// All of them, in the order of their names.
pub(super) fn list() -> &'static [CoreTool] {
    &TOOLS
}

pub(super) fn find(name: &str) -> Option<&'static CoreTool> {
    list().iter().find(|tool| tool.declaration.name == name)
}

impl CoreTool {
    /// The arguments of a call as they are kept for a person, which were found to be valid.
    pub(super) fn read_arguments(&self, text: &str) -> ApiResult<JsonObject> {
        let mut arguments = serde_json::from_str(text).map_err(ApiError::internal)?;
        whole_numbers::fit(&self.declaration.input_schema, &mut arguments);
        Ok(arguments)
    }

    /// What is wrong with the arguments.
    pub(super) fn complaints(&self, arguments: &JsonObject) -> Option<String> {
        cardinal_plugin_host::arguments::complaints(self.validator.as_ref()?, arguments)
    }

    /// Whether a person has to confirm this call.
    pub(super) fn is_confirmed(&self, arguments: &JsonObject) -> bool {
        self.requires_confirmation && !(self.action == Action::BulkUpdate && bulk::is_dry_run(arguments))
    }

    /// Refuses a call of which it is plain already that it would fail: nobody is asked about it.
    pub(super) async fn check(&self, cards: &Cards, visit: &Visit, arguments: &JsonObject) -> Option<CallToolResult> {
        let outcome = match self.action {
            Action::BulkUpdate => bulk::check(cards, visit, arguments).await,
            Action::Create => write::check_new(visit, arguments),
            Action::Restore => write::check_restore(cards, arguments).await,
            Action::Update => write::check_update(cards, visit, arguments).await,
            _ => Ok(()),
        };
        Some(self.failed(visit, outcome.err()?))
    }

    fn failed(&self, visit: &Visit, error: ApiError) -> CallToolResult {
        if error.status().is_server_error() {
            tracing::warn!(tool = &*self.declaration.name, request_id = %visit.request_id, ?error, "a tool call failed");
        }
        plugin_tools::failed(&error, self.declaration.output_schema.is_some())
    }

    /// What a person looks at who is asked about this call, where the arguments leave it open.
    pub(super) async fn pin(&self, catalogue: &Catalogue, arguments: &JsonObject) -> ApiResult<Option<Pin>> {
        match self.action {
            Action::BulkUpdate => bulk::pin(catalogue, arguments).await,
            Action::Restore => write::pin_restore(catalogue, arguments).await.map(Some),
            Action::Update => write::pin_update(catalogue, arguments).await.map(Some),
            _ => Ok(None),
        }
    }

    /// Whether a person would look at something else by now than what is pinned.
    pub(super) async fn has_moved(
        &self,
        catalogue: &Catalogue,
        arguments: &JsonObject,
        pinned: &str,
    ) -> ApiResult<bool> {
        match self.pin(catalogue, arguments).await {
            Ok(now) => Ok(now.is_none_or(|now| now.to_string() != pinned)),
            // The card is gone, or the cards cannot be counted any more.
            Err(error) if error.status().is_client_error() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Whether it changes one card, which never comes back to a version.
    pub(super) fn changes_one_card(&self) -> bool {
        matches!(self.action, Action::Restore | Action::Update)
    }

    /// Runs it, on what is pinned alone. Every other failure is a result that the model can read.
    pub(super) async fn run(
        &self,
        cards: &Cards,
        visit: &Visit,
        arguments: JsonObject,
        pin: Option<Pin>,
    ) -> Result<CallToolResult, PinMismatch> {
        let outcome = match self.action {
            Action::BulkUpdate => bulk::update(cards, visit, arguments, pin).await,
            Action::Create => write::create(cards, visit, arguments).await,
            Action::Export => read::export(cards, visit, arguments).await,
            Action::Get => read::get(cards, arguments).await,
            Action::GetJob => jobs::get(cards, arguments).await,
            Action::History => read::history(cards, arguments).await,
            Action::Restore => write::restore(cards, visit, arguments, pin).await,
            Action::Search => read::search(cards, arguments).await,
            Action::Update => write::update(cards, visit, arguments, pin).await,
        };
        let result = match outcome {
            Ok(Answer::Outdated) => return Err(PinMismatch),
            Ok(Answer::Object(text, links)) => object(text, links, visit.takes_links),
            Ok(Answer::TooLarge(advice)) => Ok(plugin_tools::failure(advice)),
            Err(error) => Err(error),
        };
        Ok(result.unwrap_or_else(|error| self.failed(visit, error)))
    }
}

impl Answer {
    fn new(value: &impl Serialize, links: Vec<Resource>) -> ApiResult<Self> {
        Ok(Self::Object(serde_json::to_string(value).map_err(ApiError::internal)?, links))
    }
}

fn object(text: String, links: Vec<Resource>, with_links: bool) -> ApiResult<CallToolResult> {
    let value = serde_json::from_str(&text).map_err(ApiError::internal)?;
    let mut result = plugin_tools::structured(value, text);
    if with_links {
        result.content.extend(links.into_iter().map(ContentBlock::resource_link));
    }
    Ok(result)
}

/// The arguments as what the tool takes; their schema has let them through.
fn parsed<T: serde::de::DeserializeOwned>(arguments: JsonObject) -> ApiResult<T> {
    Ok(cardinal_base::input::json(Value::Object(arguments).to_string().as_bytes())?)
}

fn card_id(text: &str) -> ApiResult<uuid::Uuid> {
    text.parse().map_err(|_| ApiError::not_found("card"))
}
