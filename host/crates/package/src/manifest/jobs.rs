//! `backend.jobs` and `backend.schedule`: work outside of calls.

use std::{collections::HashSet, time::Duration};

use serde_json::{Map, Value};

use super::{
    Access,
    field::{Field, Object, line, scope},
    is_kebab,
};
use crate::{cron::Cron, refusal::Code};

/// The most jobs of one plugin.
pub const JOBS_LIMIT: usize = 32;
/// The time of a run when the manifest says nothing.
const JOB_MINUTES_DEFAULT: u64 = 60;
/// The longest time of a run that a manifest may ask for: a day.
pub const JOB_MINUTES_LIMIT: u64 = 24 * 60;
/// The most seconds by which a scheduled run may begin later.
pub const JITTER_LIMIT: u64 = 60 * 60;
/// What the router calls the handler of a job, before the job's name.
pub const JOB_HANDLER_PREFIX: &str = "job:";

/// Work that a plugin does outside of calls, as a job of the host.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredJob {
    pub name: String,
    pub title: Option<String>,
    /// Always an object schema.
    pub args_schema: Option<Map<String, Value>>,
    pub scope: Option<Access>,
    pub timeout: Duration,
    /// Goes on after the process that ran it has died.
    pub resumable: bool,
}

impl DeclaredJob {
    /// The half of `plugin:<name>:…` that its starter needs.
    pub fn access(&self) -> Access {
        self.scope.unwrap_or(Access::Write)
    }

    /// The name of its handler in the library's list.
    pub fn handler(&self) -> String {
        format!("{JOB_HANDLER_PREFIX}{}", self.name)
    }
}

/// When a job is started by the host.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledJob {
    pub job: String,
    /// As the manifest has it.
    pub expression: String,
    pub cron: Cron,
    pub jitter: Duration,
}

pub(super) fn jobs(backend: &Object) -> Vec<DeclaredJob> {
    let fields = backend.optional("jobs").and_then(|field| field.bounded_array(JOBS_LIMIT)).unwrap_or_default();
    let mut seen = HashSet::new();
    let mut jobs = Vec::new();
    for field in fields {
        let Some(job) = job(&field) else { continue };
        if !seen.insert(job.name.clone()) {
            field.wrong(Code::BadManifest, format!("a job other than {:?}, which is there already", job.name));
        }
        jobs.push(job);
    }
    jobs
}

fn job(field: &Field) -> Option<DeclaredJob> {
    let object = field.object()?;
    object.done(&["name", "title", "args_schema", "scope", "timeout_minutes", "resumable"]);
    let name = object.required("name", "the name of the job").and_then(|field| name(&field));
    let minutes = object.optional("timeout_minutes").and_then(|field| field.integer(1..=JOB_MINUTES_LIMIT));
    let job = DeclaredJob {
        name: String::new(),
        title: line(&object, "title"),
        args_schema: object.optional("args_schema").and_then(|field| field.object_schema()),
        scope: scope(&object),
        timeout: Duration::from_secs(minutes.unwrap_or(JOB_MINUTES_DEFAULT) * 60),
        resumable: object.optional("resumable").and_then(|field| field.boolean()).unwrap_or(false),
    };
    Some(DeclaredJob { name: name?, ..job })
}

fn name(field: &Field) -> Option<String> {
    let name = field.string()?;
    if !is_kebab(name) {
        let expected = "kebab-case: a letter, then a-z, 0-9 and single hyphens, at most 40 characters";
        field.wrong(Code::BadManifest, expected);
        return None;
    }
    Some(name.to_owned())
}

pub(super) fn schedule(backend: &Object, jobs: &[DeclaredJob]) -> Vec<ScheduledJob> {
    let fields = backend.optional("schedule").and_then(|field| field.bounded_array(JOBS_LIMIT)).unwrap_or_default();
    let mut seen = HashSet::new();
    let mut schedule = Vec::new();
    for field in fields {
        let Some(scheduled) = scheduled(&field, jobs) else { continue };
        if !seen.insert(scheduled.job.clone()) {
            field.wrong(Code::BadManifest, format!("one entry for the job {:?}", scheduled.job));
        }
        schedule.push(scheduled);
    }
    schedule
}

fn scheduled(field: &Field, jobs: &[DeclaredJob]) -> Option<ScheduledJob> {
    let object = field.object()?;
    object.done(&["job", "cron", "jitter_seconds"]);
    let job = object.required("job", "the name of a job of backend.jobs").and_then(|field| {
        let name = field.string()?;
        let is_known = jobs.iter().any(|job| job.name == name);
        if !is_known {
            field.wrong(Code::BadManifest, "the name of a job of backend.jobs");
        }
        is_known.then(|| name.to_owned())
    });
    let cron = object.required("cron", "five fields in UTC, as in \"15 3 * * *\"").and_then(|field| {
        let text = field.string()?;
        match Cron::parse(text) {
            Ok(cron) => Some((text.to_owned(), cron)),
            Err(fault) => {
                field.wrong(Code::BadManifest, format!("five fields in UTC, as in \"15 3 * * *\" ({fault})"));
                None
            }
        }
    });
    let jitter = object.optional("jitter_seconds").and_then(|field| field.integer(0..=JITTER_LIMIT));
    let (expression, cron) = cron?;
    Some(ScheduledJob { job: job?, expression, cron, jitter: Duration::from_secs(jitter.unwrap_or(0)) })
}
