//! A plugin as the admin API shows it to operators.

use cardinal_base::schema::DateTime;
use cardinal_plugin_abi::extension::MemoryUse;
use schemars::JsonSchema;
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    entry::{Entry, Service},
    generations::GenerationReport,
};
use crate::{active::Active, guard::GuardReport, instance::BODY_LIMIT, placement::PlacementReport};
use cardinal_control::{
    crash::{
        history::QuarantinedPackage,
        record::{Cause, Crash},
    },
    link::STATEMENT_TIMEOUT_MS,
};
use cardinal_package::{
    manifest::{CardAction, CardTab, DeclaredJob, ListColumn, Manifest, PluginPage, Tool},
    refusal::Refusal,
    signature::signer_number,
    state::State,
};
use cardinal_store::plugins::versions::SetAside;

/// Everything that an operator may want to know of a plugin that was found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PluginReport {
    pub name: String,
    /// The name of its folder or file in the plugins folder.
    pub package: String,
    pub state: State,
    /// Of a plugin in service: why the files that lie there now do not replace what serves.
    pub refusal: Option<Refusal>,
    /// In one sentence, whatever keeps the plugin from serving.
    pub reason: Option<String>,
    /// Why it was set aside, and the crash that did it.
    pub quarantine: Option<QuarantinedPackage>,
    /// The last time that it ended the worker of this host.
    pub crash: Option<Crash>,
    pub warnings: Vec<String>,
    pub version: Option<String>,
    pub title: Option<String>,
    pub description: Option<String>,
    pub author: Option<String>,
    pub core_version: Option<String>,
    pub plugin_api_version: Option<String>,
    pub api_prefix: Option<String>,
    pub sha256: Option<String>,
    /// The number of the key that signed it, when that is one of the operator's.
    pub signed_by: Option<String>,
    /// The files that lie there now, when what was loaded before serves in their place; `refusal` is theirs.
    pub pending: Option<PendingPackage>,
    pub generation: Option<u64>,
    /// What this host can go back to and what was rolled back, the one that was put into service last first.
    pub versions: Vec<VersionReport>,
    /// The instances of this worker, the newest first; old ones are inert and stay until the worker ends.
    pub generations: Vec<GenerationReport>,
    /// Threads of all its generations.
    pub threads: usize,
    pub library: Option<Library>,
    pub tabs: Vec<CardTab>,
    pub pages: Vec<PluginPage>,
    pub list_columns: Vec<ListColumn>,
    pub card_actions: Vec<CardAction>,
    pub provides_kinds: Vec<String>,
    pub reads_kinds: Vec<String>,
    /// Of a plugin in service: what its library exports.
    pub routes: Vec<Route>,
    pub tools: Vec<ToolReport>,
    pub jobs: Vec<JobReport>,
    pub counters: Option<Counters>,
    /// Of a plugin in service: what it may use, and uses.
    pub budgets: Option<Budgets>,
}

/// A package of a plugin.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PluginVersion")]
pub struct VersionReport {
    pub version: String,
    pub sha256: String,
    /// `active`, `kept`, or `absent` from this host.
    pub state: &'static str,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<DateTime>")]
    pub activated_at: Option<OffsetDateTime>,
    /// It was rolled back: when, by whom, why.
    pub set_aside: Option<SetAside>,
    pub can_roll_back: bool,
}

/// A package that does not get into service.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PendingPackage {
    pub version: Option<String>,
    pub sha256: Option<String>,
    pub signed_by: Option<String>,
}

/// What the library was made with.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PluginLibrary")]
pub struct Library {
    pub sdk: String,
    pub rustc: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PluginRoute")]
pub struct Route {
    pub method: String,
    pub path: String,
    pub scope: String,
    pub timeout_ms: u64,
    pub max_body_bytes: usize,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PluginTool")]
pub struct ToolReport {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    pub handler: String,
    pub scope: String,
    pub requires_confirmation: bool,
}

/// A job of `backend.jobs`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PluginJob")]
pub struct JobReport {
    pub name: String,
    pub title: Option<String>,
    pub scope: String,
    pub timeout_minutes: u64,
    pub resumable: bool,
    /// When the host starts it by itself.
    pub schedule: Option<ScheduleReport>,
}

/// The times of a job. What is not declared is the same for all hosts of the database; the registry does not know it.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "PluginSchedule")]
pub struct ScheduleReport {
    pub cron: String,
    pub jitter_seconds: u64,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<DateTime>")]
    pub next_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<DateTime>")]
    pub last_at: Option<OffsetDateTime>,
    /// The job of that time, and how far it is or how it ended.
    pub last_job: Option<Uuid>,
    pub last_state: Option<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PluginCounters")]
pub struct Counters {
    pub calls: u64,
    pub errors: u64,
    pub panics: u64,
    pub timeouts: u64,
    pub refused: u64,
    pub in_flight: usize,
    /// Failures of its frontend that browsers have reported.
    pub client_errors: u64,
    /// Those among them in which it held up the page, or its frame, for seconds.
    pub client_hangs: u64,
    /// Lines that it has written, and lines too many that were dropped.
    pub log_lines: u64,
    pub log_lines_dropped: u64,
    /// Breaker, causes and the last faults.
    #[serde(flatten)]
    pub guard: GuardReport,
    /// Where its handlers run, and which of them have blocked a thread.
    pub execution: Option<PlacementReport>,
}

/// A call over one of the first two waits or gets 503, over the times 504, over the size 502; no other call does.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PluginBudgets")]
pub struct Budgets {
    pub calls: Share,
    /// Of its own pool; none when it has no database.
    pub connections: Option<Share>,
    pub timeout_ms: u64,
    pub statement_timeout_ms: u64,
    /// Of a reply that is not streamed.
    pub reply_bytes: usize,
    /// Bytes that its code holds, if its library counts them, and that the library takes by itself. Not limited.
    pub memory_bytes: Option<u64>,
    pub library_bytes: usize,
    /// Open files and sockets that it alone can have opened; those opened while others had calls, too, count for none.
    /// Not limited.
    pub descriptors: u64,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "BudgetShare")]
pub struct Share {
    pub used: usize,
    pub most: usize,
}

impl PluginReport {
    pub(super) fn from_entry(entry: &Entry) -> Self {
        let manifest = entry.about.manifest.as_ref();
        let contributes = manifest.map(|manifest| manifest.contributes.clone()).unwrap_or_default();
        let service = entry.service.as_deref();
        let quarantine = entry.quarantine.as_deref();
        let text = |field: fn(&Manifest) -> &Option<String>| manifest.and_then(|manifest| field(manifest).clone());
        Self {
            name: entry.about.name.clone(),
            package: entry.about.origin.clone(),
            state: entry.state,
            refusal: entry.refusal.clone(),
            reason: entry
                .refusal
                .as_ref()
                .map(|refusal| refusal.reason.clone())
                .or_else(|| entry.failure.clone())
                .or_else(|| quarantine.map(describe))
                .or_else(|| service.and_then(|service| service.active.instance.placement()?.reason())),
            quarantine: quarantine.cloned(),
            crash: None,
            versions: Vec::new(),
            generations: Vec::new(),
            threads: 0,
            warnings: entry.about.warnings.clone(),
            version: manifest.map(|manifest| manifest.version.to_string()),
            title: manifest.map(|manifest| manifest.display_title().to_owned()),
            description: text(|manifest| &manifest.description),
            author: text(|manifest| &manifest.author),
            core_version: manifest.map(|manifest| manifest.engine.core_version.to_string()),
            plugin_api_version: manifest.map(|manifest| manifest.engine.plugin_api_version.clone()),
            api_prefix: entry.about.api_prefix.clone(),
            sha256: entry.about.sha256.clone(),
            signed_by: entry.about.signed.signer().map(signer_number),
            pending: entry.pending.as_deref().map(|in_folder| PendingPackage {
                version: in_folder.manifest.as_ref().map(|manifest| manifest.version.to_string()),
                sha256: in_folder.sha256.clone(),
                signed_by: in_folder.signed.signer().map(signer_number),
            }),
            generation: service.map(|service| service.active.generation),
            library: service
                .map(|service| Library { sdk: service.library.sdk.clone(), rustc: service.library.rustc.clone() }),
            tabs: contributes.card_tabs,
            pages: contributes.pages,
            list_columns: contributes.list_columns,
            card_actions: contributes.card_actions,
            provides_kinds: manifest.map(|manifest| manifest.provides_kinds.clone()).unwrap_or_default(),
            reads_kinds: manifest.map(|manifest| manifest.reads_kinds.clone()).unwrap_or_default(),
            routes: service.map(routes).unwrap_or_default(),
            tools: manifest.map(tools).unwrap_or_default(),
            jobs: manifest.map(jobs).unwrap_or_default(),
            counters: service.map(counters),
            budgets: service.map(budgets),
        }
    }
}

fn describe(why: &QuarantinedPackage) -> String {
    let what = why.crash.describe();
    if why.suspected {
        return format!(
            "It is suspected: it alone was at work each time that the worker ended, the last time by {what}, the second \
             time within a minute."
        );
    }
    let ending = "the second time within ten minutes. It stays out until it is released.";
    match why.crash.cause {
        Cause::Hang => format!("It ended the worker by {what}. It stays out until it is released."),
        Cause::Blocked => format!("It held all its threads by {what}, {ending}"),
        _ => format!("It ended the worker by {what}, {ending}"),
    }
}

fn routes(service: &Service) -> Vec<Route> {
    let report = |route: &crate::active::RouteEntry| Route {
        method: route.method.to_string(),
        path: route.template.clone(),
        scope: route.scope.clone(),
        timeout_ms: u64::try_from(route.timeout.as_millis()).unwrap_or(u64::MAX),
        max_body_bytes: route.max_body,
    };
    service.active.routes().into_iter().map(report).collect()
}

fn tools(manifest: &Manifest) -> Vec<ToolReport> {
    let report = |tool: &Tool| ToolReport {
        name: tool.name.clone(),
        title: tool.title.clone(),
        description: tool.description.clone(),
        handler: tool.handler.clone(),
        scope: format!("plugin:{}:{}", manifest.name, tool.access().as_str()),
        requires_confirmation: tool.requires_confirmation,
    };
    manifest.tools.iter().map(report).collect()
}

fn jobs(manifest: &Manifest) -> Vec<JobReport> {
    let schedule = |name: &str| {
        let scheduled = manifest.schedule().iter().find(|scheduled| scheduled.job == name)?;
        let (cron, jitter_seconds) = (scheduled.expression.clone(), scheduled.jitter.as_secs());
        Some(ScheduleReport { cron, jitter_seconds, ..ScheduleReport::default() })
    };
    let report = |job: &DeclaredJob| JobReport {
        name: job.name.clone(),
        title: job.title.clone(),
        scope: format!("plugin:{}:{}", manifest.name, job.access().as_str()),
        timeout_minutes: job.timeout.as_secs() / 60,
        resumable: job.resumable,
        schedule: schedule(&job.name),
    };
    manifest.jobs().iter().map(report).collect()
}

fn counters(service: &Service) -> Counters {
    let guard = &service.active.guard;
    let counted = &guard.counters;
    let (log_lines, log_lines_dropped) = guard.log_lines();
    Counters {
        calls: counted.calls.read(),
        errors: counted.errors.read(),
        panics: counted.panics.read(),
        timeouts: counted.timeouts.read(),
        refused: counted.refused.read(),
        in_flight: service.active.instance.in_flight(),
        client_errors: guard.meter.client_errors.read(),
        client_hangs: guard.meter.client_hangs.read(),
        log_lines,
        log_lines_dropped,
        guard: guard.report(),
        execution: service.active.instance.placement(),
    }
}

fn budgets(service: &Service) -> Budgets {
    let Active { manifest, instance, .. } = &*service.active;
    let limits = &manifest.limits;
    let library = instance.library();
    Budgets {
        calls: Share { used: instance.in_flight(), most: limits.max_concurrency as usize },
        connections: instance
            .pool_status()
            .map(|pool| Share { used: pool.size.saturating_sub(pool.available), most: pool.max_size }),
        timeout_ms: u64::try_from(limits.timeout.as_millis()).unwrap_or(u64::MAX),
        statement_timeout_ms: STATEMENT_TIMEOUT_MS,
        reply_bytes: BODY_LIMIT,
        memory_bytes: library.memory().map(MemoryUse::held),
        library_bytes: library.place().len(),
        descriptors: 0,
    }
}
