//! The body of `POST /v1/admin/jobs`: a bulk action, or a plugin's job.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{
    bulk::{Action, BulkRequest},
    plugin::PluginJobRequest,
};
use crate::http::error::{ApiError, ApiResult};
use cardinal_cards::filter::FilterQuery;

const NO_DRY_RUN: &str = "Only the plugin knows what would change.";

/// What is to be done, and to which cards.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobRequest {
    action: JobAction,
    ids: Option<Vec<Uuid>>,
    filter: Option<FilterQuery>,
    /// How many cards the filter picks, as a list's `count=exact` says. Required with `filter`.
    #[schemars(range(min = 0))]
    expected_count: Option<i64>,
    /// With `plugin_job`: the plugin.
    plugin: Option<String>,
    /// With `plugin_job`: the job's name in the plugin's manifest.
    name: Option<String>,
    /// Change nothing, only count what would change. Not with `plugin_tool` and `plugin_job`.
    #[serde(default)]
    dry_run: bool,
    /// `remove_source` needs `source_key`; `set_attribute` `key` and `value`; `remove_attribute` `key`.
    #[serde(default)]
    args: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum JobAction {
    Archive,
    Activate,
    Draft,
    Delete,
    RemoveSource,
    SetAttribute,
    RemoveAttribute,
    PluginTool,
    PluginJob,
}

/// Which of the two it is.
#[derive(Debug)]
pub(crate) enum JobRequestKind {
    Bulk(BulkRequest),
    Plugin(PluginJobRequest),
}

impl JobRequest {
    /// 422 for members that the action does not have.
    pub(crate) fn split(self) -> ApiResult<JobRequestKind> {
        let Self { action, ids, filter, expected_count, plugin, name, dry_run, args } = self;
        let action = match action {
            JobAction::Archive => Action::Archive,
            JobAction::Activate => Action::Activate,
            JobAction::Draft => Action::Draft,
            JobAction::Delete => Action::Delete,
            JobAction::RemoveSource => Action::RemoveSource,
            JobAction::SetAttribute => Action::SetAttribute,
            JobAction::RemoveAttribute => Action::RemoveAttribute,
            JobAction::PluginTool => Action::PluginTool,
            JobAction::PluginJob => {
                let has = [
                    ("ids", ids.is_some()),
                    ("filter", filter.is_some()),
                    ("expected_count", expected_count.is_some()),
                ];
                refuse(&has, "A plugin's job is not for cards; what it works on is said in `args`.")?;
                refuse(&[("dry_run", dry_run)], NO_DRY_RUN)?;
                let needed = |member: Option<String>, pointer: &str| {
                    member.ok_or_else(|| ApiError::invalid(pointer, "With `plugin_job` this is required."))
                };
                let (plugin, name) = (needed(plugin, "/plugin")?, needed(name, "/name")?);
                return Ok(JobRequestKind::Plugin(PluginJobRequest { plugin, name, args }));
            }
        };
        refuse(&[("plugin", plugin.is_some()), ("name", name.is_some())], "This belongs to the action `plugin_job`.")?;
        refuse(&[("dry_run", dry_run && action == Action::PluginTool)], NO_DRY_RUN)?;
        Ok(JobRequestKind::Bulk(BulkRequest { action, ids, filter, expected_count, dry_run, args }))
    }
}

/// 422 for the first member that is there.
fn refuse(members: &[(&str, bool)], detail: &str) -> ApiResult<()> {
    match members.iter().find(|(_, is_there)| *is_there) {
        Some((name, _)) => Err(ApiError::invalid(format!("/{name}"), detail)),
        None => Ok(()),
    }
}
