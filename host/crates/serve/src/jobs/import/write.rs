//! Batches into the database, each in a transaction that counts it, too.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::batches::Batch;
use crate::jobs::{
    End, Jobs, StepError, may_pass,
    step::{ATTEMPTS, MAX_WAIT, find_progress, pause, refusal, starter},
};
use cardinal_cards::row::{Row, Terms};
use cardinal_store::{
    cards::{
        self,
        import::{Import, Outcome},
    },
    jobs::{self, Job, JobPlace, Step},
};

/// Rows that are written together or not at all.
const ATOMIC_ROWS: usize = 100_000;
/// Rows of such an import that are written at a time.
const BATCH_ROWS: i64 = 2_000;
/// How often it is asked whether the starter may still write.
const RIGHTS_CHECK_INTERVAL: Duration = Duration::from_secs(2);

const SOURCES_IGNORED: &str = "The rows' sources were ignored; `sources=keep` takes them, which needs the scope `*`.";

/// Writes an import's batches in their order.
pub(super) struct Writer<'a> {
    jobs: &'a Jobs,
    job: &'a Job,
    terms: &'a Terms,
    cancelled: &'a CancellationToken,
    /// Batches that are counted.
    part: i32,
    read: usize,
    refused: usize,
    looked: Option<Instant>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(jobs: &'a Jobs, job: &'a Job, terms: &'a Terms, cancelled: &'a CancellationToken) -> Self {
        Self { jobs, job, terms, cancelled, part: 0, read: 0, refused: 0, looked: None }
    }

    /// Rows that were read, good and bad.
    pub(super) fn rows(&self) -> i64 {
        i64::try_from(self.read).unwrap_or(i64::MAX)
    }

    /// Whether nothing is written before all is known.
    pub(super) const fn writes_at_the_end(&self) -> bool {
        self.terms.atomic || self.terms.dry_run
    }

    /// Writes a batch, or keeps it where all or nothing is written; how the job ended when it did.
    pub(super) async fn take(&mut self, batch: Batch) -> Option<End> {
        self.read += batch.rows.len() + batch.errors.len();
        if self.terms.atomic && self.read > ATOMIC_ROWS {
            let reason =
                format!("`atomic=true` takes at most {ATOMIC_ROWS} rows, and there are more. Nothing was written.");
            return Some(End::Failed(reason));
        }
        let mut failures = 0;
        loop {
            if self.cancelled.is_cancelled() {
                return Some(End::Cancelled);
            }
            match self.step(&batch).await {
                Ok(stop) => return stop.then_some(End::Cancelled),
                Err(uncounted) => {
                    if let Some(end) = self.again(uncounted, &mut failures).await {
                        return end;
                    }
                }
            }
        }
    }

    /// Writes what was kept.
    pub(super) async fn finish(&mut self) -> End {
        if !self.terms.atomic || self.terms.dry_run {
            return End::Done;
        }
        if self.refused > 0 {
            return self.nothing_written();
        }
        let mut failures = 0;
        loop {
            if self.cancelled.is_cancelled() {
                return End::Cancelled;
            }
            match self.all_or_nothing().await {
                Ok(end) => return end,
                Err(uncounted) => match self.again(uncounted, &mut failures).await {
                    // It was committed, though nobody heard of it.
                    Some(None) => return End::Done,
                    Some(Some(end)) => return end,
                    None => {}
                },
            }
        }
    }

    fn nothing_written(&self) -> End {
        End::Failed(format!("{} of {} rows can't be written. Nothing was written.", self.refused, self.read))
    }

    /// What a step that was not counted means: none is to try again, else whether the job ended.
    async fn again(&mut self, uncounted: StepError, failures: &mut u32) -> Option<Option<End>> {
        match uncounted {
            StepError::Lost => match find_progress(self.jobs, self.job.id, JobPlace::from_part(self.part)).await {
                Some(next) => {
                    self.part = next.part;
                    Some(None)
                }
                None => Some(Some(End::Lost)),
            },
            StepError::Error(error) if may_pass(&error) && *failures < ATTEMPTS => {
                *failures += 1;
                tracing::warn!(job = %self.job.id, part = self.part, error = ?error, "rows of an import are tried again");
                pause(MAX_WAIT.min(Duration::from_millis(100) * *failures), self.cancelled).await;
                None
            }
            StepError::Error(error) if error.status().is_client_error() => Some(Some(refusal(&error))),
            lost => Some(Some(lost.into())),
        }
    }

    fn import(&self) -> Import<'a> {
        Import { terms: self.terms, actor: &self.job.actor, job: self.job.id }
    }

    async fn step(&mut self, batch: &Batch) -> Result<bool, StepError> {
        self.look_at_rights().await?;
        self.jobs.pool.note_message(batch.rows.iter().map(Row::size).max().unwrap_or_default());
        let mut client = self.jobs.pool.get().await?;
        let mut tx = client.transaction().await?;
        let outcome = if self.terms.dry_run {
            self.import().preview(&mut tx, &batch.rows).await?
        } else if self.terms.atomic {
            cards::import::stage(&tx, self.job.id, &batch.rows).await?;
            Outcome::default()
        } else {
            self.import().write(&mut tx, &batch.rows).await?
        };
        let errors = in_order(&batch.errors, &outcome.refused);
        let refused = errors.len();
        let note = batch.ignores_sources.then_some(SOURCES_IGNORED);
        let step = Step { errors, note, ..self.counted(&outcome) };
        let stop = jobs::count(&tx, self.job.id, self.jobs.runner, &step).await?;
        tx.commit().await?;
        self.part += 1;
        self.refused += refused;
        Ok(stop)
    }

    fn counted(&self, outcome: &Outcome) -> Step {
        Step {
            done: outcome.fine(),
            counts: vec![("created", outcome.created), ("updated", outcome.updated), ("unchanged", outcome.unchanged)],
            from: JobPlace::from_part(self.part),
            next: JobPlace::from_part(self.part + 1),
            ..Step::default()
        }
    }

    /// Everything that was kept, in one transaction.
    async fn all_or_nothing(&mut self) -> Result<End, StepError> {
        starter(self.jobs, self.job, "cards:write").await?;
        let mut client = self.jobs.pool.get().await?;
        let mut tx = client.transaction().await?;
        let (mut outcome, mut after) = (Outcome::default(), 0);
        loop {
            let rows = cards::import::staged(&tx, self.job.id, after, BATCH_ROWS).await?;
            let Some(last) = rows.last() else { break };
            after = last.line;
            outcome.add(self.import().write(&mut tx, &rows).await?);
            if self.cancelled.is_cancelled() {
                return Ok(End::Cancelled);
            }
        }
        let errors = std::mem::take(&mut outcome.refused);
        if errors.is_empty() {
            jobs::count(&tx, self.job.id, self.jobs.runner, &self.counted(&outcome)).await?;
            tx.commit().await?;
            return Ok(End::Done);
        }
        tx.rollback().await?;
        let tx = client.transaction().await?;
        self.refused = errors.len();
        let step = Step { errors, ..self.counted(&Outcome::default()) };
        jobs::count(&tx, self.job.id, self.jobs.runner, &step).await?;
        tx.commit().await?;
        Ok(self.nothing_written())
    }

    async fn look_at_rights(&mut self) -> Result<(), StepError> {
        if self.looked.is_none_or(|at| at.elapsed() >= RIGHTS_CHECK_INTERVAL) {
            starter(self.jobs, self.job, "cards:write").await?;
            if self.terms.keeps_sources {
                starter(self.jobs, self.job, "*").await?;
            }
            self.looked = Some(Instant::now());
        }
        Ok(())
    }
}

/// Both in the order of their lines.
fn in_order(one: &[Value], two: &[Value]) -> Vec<Value> {
    let mut all: Vec<Value> = one.iter().chain(two).cloned().collect();
    all.sort_by_key(|error| error["line"].as_i64());
    all
}
