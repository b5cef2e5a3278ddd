//! The registry: every plugin that was found, and the operator's verbs that decide what serves.

use std::{sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::http::error::{ApiError, ApiResult};
use crate::{
    app::{App, Route},
    audit::AuditAction,
    call::{Call, CallHead, MaybeJson, NoQuery},
    http::reply::{self, Reply},
};
use cardinal_base::codes;
use cardinal_plugin_host::registry::{PluginReport, RollbackTarget, readers_without};
use cardinal_store::plugins::{self, schedules::Schedule};

/// How long a rescan is waited for; less than a request may take.
const RESCAN_WAIT: Duration = Duration::from_secs(15);

pub(super) fn routes() -> Vec<Route> {
    [reading(), managing()].into_iter().flatten().collect()
}

fn reading() -> Vec<Route> {
    vec![
        Route::get("/v1/admin/plugin-registry", list).scope("plugins:read").describe(|op| {
            op.named("listRegistry", "plugins", "All plugins that were found, with their states").ok::<Registry>();
        }),
        Route::get("/v1/admin/plugin-registry/{name}", show).scope("plugins:read").describe(|op| {
            op.named("getRegistered", "plugins", "One plugin")
                .param("name", "The plugin's name.", json!({}))
                .ok::<RegistryItem>();
        }),
    ]
}

fn managing() -> Vec<Route> {
    vec![
        Route::post("/v1/admin/plugin-registry/rescan", rescan)
            .scope("plugins:manage")
            .audits(AuditAction::RescanPlugins)
            .describe(|op| {
                op.named("rescanPlugins", "plugins", "Scan the plugins folder again").ok::<Registry>();
            }),
        Route::post("/v1/admin/plugin-registry/{name}/enable", enable)
            .scope("plugins:manage")
            .audits(AuditAction::EnablePlugin)
            .describe(|op| {
                op.named("enablePlugin", "plugins", "Enable a plugin, on every host of the database")
                    .param("name", "The plugin's name.", json!({}))
                    .ok::<RegistryItem>();
            }),
        Route::post("/v1/admin/plugin-registry/{name}/disable", disable)
            .scope("plugins:manage")
            .audits(AuditAction::DisablePlugin)
            .describe(|op| {
                op.named("disablePlugin", "plugins", "Disable a plugin, on every host of the database")
                    .param("name", "The plugin's name.", json!({}))
                    .ok::<RegistryItem>();
            }),
        Route::post("/v1/admin/plugin-registry/{name}/reload", reload)
            .scope("plugins:manage")
            .audits(AuditAction::ReloadPlugin)
            .describe(|op| {
                op.named("reloadPlugin", "plugins", "Load a plugin anew from the plugins folder")
                    .notes(
                        "Also a package that was rolled back before. If it is refused, the active version stays in \
                         service and `refusal` says why.",
                    )
                    .param("name", "The plugin's name.", json!({}))
                    .ok::<RegistryItem>()
                    .refuses(&[&codes::CONFLICT, &codes::DESTRUCTIVE_MIGRATION]);
            }),
        Route::post("/v1/admin/plugin-registry/{name}/rollback", roll_back)
            .scope("plugins:manage")
            .audits(AuditAction::RollBackPlugin)
            .describe(|op| {
                op.named("rollBackPlugin", "plugins", "Roll back to an earlier package")
                    .notes(
                        "Without a body, to the previous one; a lower version that waits in the plugins folder \
                         comes first. A package that was rolled back is not put into service again by itself, on any \
                         host.",
                    )
                    .param("name", "The plugin's name.", json!({}))
                    .ok::<RegistryItem>()
                    .refuses(&[&codes::CONFLICT, &codes::DESTRUCTIVE_MIGRATION]);
            }),
    ]
}

/// Which package to go back to; the one before when neither is said.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RollBack {
    version: Option<String>,
    /// Of the package; goes before `version`.
    sha256: Option<String>,
}

/// Every plugin that was found, as this host sees it.
#[derive(Serialize, JsonSchema)]
struct Registry {
    items: Vec<PluginReport>,
    host_id: Uuid,
}

/// One plugin, as this host sees it.
#[derive(Serialize, JsonSchema)]
pub(super) struct RegistryItem {
    item: PluginReport,
    host_id: Uuid,
    /// Once it is disabled: what other plugins lack without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<String>>,
}

impl RegistryItem {
    /// The plugin of this name.
    pub(super) fn find(app: &App, reports: Vec<PluginReport>, name: &str) -> ApiResult<Self> {
        let item = reports.into_iter().find(|report| report.name == name);
        let item = item.ok_or_else(|| ApiError::not_found("plugin"))?;
        Ok(Self { item, host_id: app.host_id, warnings: None })
    }
}

/// Every plugin that was found, with the times of its scheduled jobs.
async fn reports(app: &App) -> ApiResult<Vec<PluginReport>> {
    let mut reports = app.plugins.reports();
    let jobs = || reports.iter().flat_map(|report| &report.jobs);
    if jobs().all(|job| job.schedule.is_none()) {
        return Ok(reports);
    }
    let times = plugins::schedules::list(&app.pools.core).await?;
    for report in &mut reports {
        for job in &mut report.jobs {
            let of_job = |times: &&Schedule| times.plugin == report.name && times.job == job.name;
            if let (Some(schedule), Some(times)) = (&mut job.schedule, times.iter().find(of_job)) {
                (schedule.next_at, schedule.last_at) = (Some(times.next_at), times.last_at);
                (schedule.last_job, schedule.last_state) = (times.last_job, times.last_state.clone());
            }
        }
    }
    Ok(reports)
}

/// The plugin that the path names, as it stands now.
pub(super) async fn answer(app: &App, name: &str) -> ApiResult<Reply> {
    reply::ok(&RegistryItem::find(app, reports(app).await?, name)?)
}

/// The name in the path, when there is such a plugin.
pub(super) fn named(app: &App, call: &CallHead) -> ApiResult<String> {
    let name = call.params.get("name").unwrap_or_default();
    match app.plugins.current().knows(name) {
        true => Ok(name.to_owned()),
        false => Err(ApiError::not_found("plugin")),
    }
}

async fn list(app: &Arc<App>, _: Call) -> ApiResult<Reply> {
    app.wait_for_plugins(None).await;
    reply::ok(&Registry { items: reports(app).await?, host_id: app.host_id })
}

async fn show(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    app.wait_for_plugins(None).await;
    answer(app, call.params.get("name").unwrap_or_default()).await
}

/// Goes on when its caller has gone, or has waited for long enough: the list shows what became of each plugin.
async fn rescan(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let plugins = Arc::clone(&app.plugins);
    let scan = tokio::spawn(async move { plugins.scan().await });
    // A plugin may be at its schema.sql for half a minute.
    let _ = tokio::time::timeout(RESCAN_WAIT, scan).await;
    app.audit.done(&call, None, None).await;
    list(app, call).await
}

async fn enable(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    to_its_end(set_disabled(Arc::clone(app), call, false)).await
}

async fn disable(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    to_its_end(set_disabled(Arc::clone(app), call, true)).await
}

/// Goes on when its caller has gone: what was recorded for every host has to be done here, too, and audited.
async fn to_its_end(work: impl Future<Output = ApiResult<Reply>> + Send + 'static) -> ApiResult<Reply> {
    tokio::spawn(work).await.map_err(ApiError::internal)?
}

async fn reload(app: &Arc<App>, call: Call) -> ApiResult<Reply> {
    let (app, name) = (Arc::clone(app), named(app, &call)?);
    let work = async move {
        app.plugins.reload(&name).await?;
        app.audit.done(&call, Some(name.clone()), None).await;
        answer(&app, &name).await
    };
    to_its_end(work).await
}

async fn roll_back(app: &Arc<App>, call: Call<NoQuery, MaybeJson<RollBack>>) -> ApiResult<Reply> {
    let (app, name) = (Arc::clone(app), named(app, &call)?);
    let body = call.body()?;
    let wanted = match (body.sha256, body.version) {
        (Some(sha256), _) => RollbackTarget::Sha256(sha256),
        (None, Some(version)) => RollbackTarget::Version(version),
        (None, None) => RollbackTarget::Before,
    };
    let caller = call.caller()?;
    let (by, reason) = (caller.actor(), "an operator rolled back to an earlier package.");
    let work = async move {
        let back = app.plugins.roll_back(&name, &wanted, None, &by, reason).await?;
        let detail = json!({"from": back.from, "to": back.to});
        app.audit.done(&call, Some(name.clone()), Some(detail)).await;
        answer(&app, &name).await
    };
    to_its_end(work).await
}

/// Recorded for every host first, then acted on here. What is under way in the plugin ends in peace.
async fn set_disabled(app: Arc<App>, call: Call, disabled: bool) -> ApiResult<Reply> {
    let name = named(&app, &call)?;
    let actor = call.caller()?.actor();
    let changed =
        cardinal_store::plugins::state::set_disabled(&app.pools.core, &name, disabled.then_some(&actor)).await?;
    if changed {
        app.audit.done(&call, Some(name.clone()), None).await;
    }
    app.plugins.apply_to(&name).await;
    if !disabled && !app.plugins.current().active().any(|active| active.manifest.name == name) {
        app.plugins.scan_for(&name).await; // what was put right a moment ago counts
    }
    let reports = app.plugins.reports();
    let warnings = if disabled { readers_without(&name, &reports) } else { Vec::new() };
    let item = RegistryItem::find(&app, reports, &name)?;
    reply::ok(&RegistryItem { warnings: Some(warnings), ..item })
}
