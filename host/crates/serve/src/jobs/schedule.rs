//! Plugins' jobs that the host starts at the times of their manifests. The table `plugin_schedules` has the next time
//! of each for all hosts: whoever comes first takes it. A time that was missed is made up for once.

use std::{sync::Arc, time::Duration};

use http::HeaderMap;
use rand::RngExt;
use serde_json::json;
use time::OffsetDateTime;

use super::Jobs;
use crate::http::error::{ApiError, ApiResult};
use cardinal_base::request_id::RequestId;
use cardinal_identity::auth::{caller::Caller, credential::Credential};
use cardinal_package::manifest::ScheduledJob;
use cardinal_plugin_host::registry::JobEntry;
use cardinal_store::{
    error::StoreError,
    plugins::jobs::NewPluginJob,
    plugins::{
        self,
        schedules::{DeclaredSchedule, DueJob, OfferedJob},
    },
    service_users,
};

/// Plugin, job and cron expression of a schedule that the table has.
pub(super) type ScheduleKey = (String, String, String);

/// Starts the jobs of this host's plugins whose time has come.
pub(super) async fn start_due(jobs: &Jobs) -> ApiResult<()> {
    let now = jobs.clock.now();
    let snapshot = jobs.plugins.snapshot();
    let find_schedule = |entry: &Arc<JobEntry>| {
        let scheduled = entry.plugin.manifest.schedule().iter().find(|scheduled| scheduled.job == entry.job.name)?;
        Some((Arc::clone(entry), scheduled.clone()))
    };
    let scheduled: Vec<_> = snapshot.jobs.values().filter_map(find_schedule).collect();
    drop(snapshot);
    if jobs.draining.is_cancelled() {
        return Ok(());
    }
    declare(jobs, &scheduled, now).await?;
    if scheduled.is_empty() {
        return Ok(());
    }
    let names = |(entry, _): &'_ (Arc<JobEntry>, _)| (entry.plugin.manifest.name.clone(), entry.job.name.clone());
    let offered: Vec<(String, String)> = scheduled.iter().map(names).collect();
    for OfferedJob { plugin, job, is_declared } in plugins::schedules::due(&jobs.pool, &offered, now).await? {
        if !is_declared {
            jobs.declared.lock().clear(); // all of them are, the next time
            continue;
        }
        let is_it =
            |(entry, _): &&(Arc<JobEntry>, ScheduledJob)| entry.plugin.manifest.name == plugin && entry.job.name == job;
        if let Some((entry, scheduled)) = scheduled.iter().find(is_it) {
            start(jobs, entry, scheduled, now).await?;
        }
    }
    Ok(())
}

/// Makes the schedules known that the table may not have yet.
async fn declare(jobs: &Jobs, scheduled: &[(Arc<JobEntry>, ScheduledJob)], now: OffsetDateTime) -> ApiResult<()> {
    let known: Vec<ScheduleKey> = scheduled
        .iter()
        .map(|(entry, scheduled)| {
            (entry.plugin.manifest.name.clone(), entry.job.name.clone(), scheduled.expression.clone())
        })
        .collect();
    if *jobs.declared.lock() == known {
        return Ok(());
    }
    let declared: Vec<_> = known
        .iter()
        .zip(scheduled)
        .filter_map(|((plugin, job, cron), (_, scheduled))| {
            Some(DeclaredSchedule { plugin, job, cron, first_at: next_run(scheduled, now)? })
        })
        .collect();
    plugins::schedules::declare(&jobs.pool, &declared).await?;
    *jobs.declared.lock() = known;
    Ok(())
}

/// The first time after `now`, later by chance where the manifest wants that.
fn next_run(scheduled: &ScheduledJob, now: OffsetDateTime) -> Option<OffsetDateTime> {
    let jitter = Duration::from_secs(rand::rng().random_range(0..=scheduled.jitter.as_secs()));
    scheduled.cron.next_after(now)?.checked_add(time::Duration::try_from(jitter).ok()?)
}

async fn start(jobs: &Jobs, entry: &JobEntry, scheduled: &ScheduledJob, now: OffsetDateTime) -> ApiResult<()> {
    let Some(next_at) = next_run(scheduled, now) else { return Ok(()) };
    let (plugin, job) = (entry.plugin.manifest.name.as_str(), entry.job.name.as_str());
    let own = Caller::plugin(service_users::find_or_create(&jobs.pool, plugin).await?, plugin);
    let request_id = RequestId::from_headers(&HeaderMap::new());
    let new = NewPluginJob {
        plugin,
        name: job,
        resumable: entry.job.resumable,
        user_id: own.user_id,
        actor: &own.actor(),
        credential: &serde_json::to_value(Credential::from_caller(&own)).map_err(ApiError::internal)?,
        request_id: request_id.as_str(),
        args: &json!({}),
    };
    match plugins::schedules::start(&jobs.pool, &new, now, next_at).await {
        Ok(DueJob::Queued(queued)) => {
            tracing::info!(plugin, name = job, job = %queued.id, "a scheduled job was queued");
            jobs.changed.notify_one();
        }
        Ok(DueJob::StillOpen) => {
            tracing::warn!(plugin, name = job, "a scheduled job was left out: the one before has not ended");
        }
        Ok(DueJob::NotDue) => {}
        // Its time stays where it is: it is started once there is room.
        Err(StoreError::Busy { detail, .. }) => tracing::debug!(plugin, name = job, detail, "a scheduled job waits"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
