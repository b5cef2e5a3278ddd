//! The table `plugin_schedules`: when the next run of a plugin's job begins. Times are the caller's, so that tests
//! choose them.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    error::StoreError,
    jobs::Job,
    plugins::jobs::{self as plugin_jobs, NewPluginJob},
};
use cardinal_database::pool::Pool;

/// What a manifest declares.
pub struct DeclaredSchedule<'a> {
    pub plugin: &'a str,
    pub job: &'a str,
    pub cron: &'a str,
    /// The first run, if the schedule is new or has changed.
    pub first_at: OffsetDateTime,
}

/// Makes what is declared known. The next run of a schedule that has not changed stays: one that was missed is made up
/// for.
pub async fn declare(pool: &Pool, declared: &[DeclaredSchedule<'_>]) -> Result<(), StoreError> {
    let client = pool.get().await?;
    let sql = "INSERT INTO public.plugin_schedules AS s (plugin, job, cron, next_at) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (plugin, job) DO UPDATE SET cron = excluded.cron, next_at = excluded.next_at \
               WHERE s.cron <> excluded.cron";
    let statement = client.prepare_cached(sql).await?;
    for schedule in declared {
        let DeclaredSchedule { plugin, job, cron, first_at } = schedule;
        client.execute(&statement, &[plugin, job, cron, first_at]).await?;
    }
    Ok(())
}

/// A job whose time has come, or whose schedule has to be declared again: it went with the data of its plugin.
pub struct OfferedJob {
    pub plugin: String,
    pub job: String,
    pub is_declared: bool,
}

/// Which of these plugins and jobs have their time come, or are not declared. Rows of plugins that are gone stay in the
/// table, and are in nobody's way.
pub async fn due(
    pool: &Pool,
    offered: &[(String, String)],
    now: OffsetDateTime,
) -> Result<Vec<OfferedJob>, StoreError> {
    let client = pool.get().await?;
    let sql = "SELECT o.plugin, o.job, s.plugin IS NOT NULL AS is_declared \
               FROM unnest($1::text[], $2::text[]) AS o (plugin, job) \
               LEFT JOIN public.plugin_schedules s ON s.plugin = o.plugin AND s.job = o.job \
               WHERE s.plugin IS NULL OR s.next_at <= $3 ORDER BY s.next_at";
    let (plugins, jobs): (Vec<&str>, Vec<&str>) =
        offered.iter().map(|(plugin, job)| (plugin.as_str(), job.as_str())).unzip();
    let rows = client.query(&client.prepare_cached(sql).await?, &[&plugins, &jobs, &now]).await?;
    rows.iter()
        .map(|row| {
            let (plugin, job) = (row.try_get("plugin")?, row.try_get("job")?);
            Ok(OfferedJob { plugin, job, is_declared: row.try_get("is_declared")? })
        })
        .collect()
}

/// What became of a job whose time had come.
#[derive(Debug)]
pub enum DueJob {
    Queued(Box<Job>),
    /// The run before has not ended: this one is left out.
    StillOpen,
    /// Another host has dealt with it.
    NotDue,
}

/// Queues a job whose time has come, once for all hosts and all runs that were missed; the next one is at `next_at`.
pub async fn start(
    pool: &Pool,
    new: &NewPluginJob<'_>,
    now: OffsetDateTime,
    next_at: OffsetDateTime,
) -> Result<DueJob, StoreError> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    let sql = "UPDATE public.plugin_schedules SET next_at = $4, last_at = $3 \
               WHERE plugin = $1 AND job = $2 AND next_at <= $3";
    let taken = tx.execute(&tx.prepare_cached(sql).await?, &[&new.plugin, &new.name, &now, &next_at]).await?;
    if taken == 0 {
        return Ok(DueJob::NotDue);
    }
    let sql = "SELECT count(*) FROM public.jobs WHERE plugin = $1 AND plugin_job = $2 AND user_id = $3 \
               AND state IN ('queued', 'running')";
    let row = tx.query_one(&tx.prepare_cached(sql).await?, &[&new.plugin, &new.name, &new.user_id]).await?;
    if row.try_get::<_, i64>(0)? > 0 {
        tx.commit().await?;
        return Ok(DueJob::StillOpen);
    }
    let job = plugin_jobs::insert(&tx, new).await?;
    let sql = "UPDATE public.plugin_schedules SET last_job = $3 WHERE plugin = $1 AND job = $2";
    tx.execute(&tx.prepare_cached(sql).await?, &[&new.plugin, &new.name, &job.id]).await?;
    tx.commit().await?;
    Ok(DueJob::Queued(Box::new(job)))
}

/// A schedule as operators see it.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub plugin: String,
    pub job: String,
    pub next_at: OffsetDateTime,
    pub last_at: Option<OffsetDateTime>,
    pub last_job: Option<Uuid>,
    /// The state of that job.
    pub last_state: Option<String>,
}

/// All that were ever declared.
pub async fn list(pool: &Pool) -> Result<Vec<Schedule>, StoreError> {
    let client = pool.get().await?;
    let sql = "SELECT s.plugin, s.job, s.next_at, s.last_at, s.last_job, j.state AS last_state FROM public.plugin_schedules s \
               LEFT JOIN public.jobs j ON j.id = s.last_job ORDER BY s.plugin, s.job";
    let rows = client.query(&client.prepare_cached(sql).await?, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(Schedule {
                plugin: row.try_get("plugin")?,
                job: row.try_get("job")?,
                next_at: row.try_get("next_at")?,
                last_at: row.try_get("last_at")?,
                last_job: row.try_get("last_job")?,
                last_state: row.try_get("last_state")?,
            })
        })
        .collect()
}
