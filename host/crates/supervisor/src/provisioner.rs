//! The supervisor's side of a schema step: asks nothing of the worker but a name and a hash, and has a short-lived
//! process do the rest with credentials that the worker never sees.

use std::collections::{BTreeMap, HashMap};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{error::Elapsed, timeout};

use crate::launch::Launcher;
use crate::provision::{Job, MAX_RUNNING_STEPS, StepNews, Task};
use crate::turns::Turns;
use cardinal_control::link::{PluginDatabase, ProvisionFault, ProvisionRequest, PurgeReport};
use cardinal_schema::plugin_schema::close;

/// Processes side by side; what comes meanwhile waits for its turn, and goes together with what else waits.
const MAX_PROCESSES: usize = 2;
/// Steps of one process, which has its sessions plan once for all of them.
const MAX_TOGETHER: usize = 128;
/// How long a process may have nothing to tell. Longer than the limits within a step, which give better reasons.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Between attempts to close a schema role, from the first to the longest.
const CLOSE_RETRY: Duration = Duration::from_secs(1);
const MAX_CLOSE_RETRY: Duration = Duration::from_secs(30);
const MAX_NAME: usize = 40;
const HASH_DIGITS: usize = 64;

/// Starts provision processes; clones share the limit.
#[derive(Debug, Clone)]
pub(crate) struct Provisioner {
    launcher: Launcher,
    job: Arc<Job>,
    processes: Arc<Turns>,
    step_permits: Arc<Semaphore>,
    /// Steps that no process has been given yet.
    waiting: Arc<Mutex<Vec<Waiting>>>,
    made: Arc<Mutex<HashMap<ProvisionRequest, PluginDatabase>>>,
    /// By plugin, who closes the schema role of its last step that did not end in order.
    closing: Arc<Mutex<HashMap<String, AbortHandle>>>,
}

type Outcome = Result<PluginDatabase, ProvisionFault>;

/// A step that was asked for, and where its outcome is waited for.
#[derive(Debug)]
struct Waiting {
    request: ProvisionRequest,
    outcome: oneshot::Sender<Outcome>,
}

/// Databases that are remembered; far more than a host has plugins.
const MAX_REMEMBERED: usize = 1_000;

impl Provisioner {
    /// `job` is what every step gets; its request is filled in for each.
    pub(crate) fn new(launcher: Launcher, job: Job) -> Self {
        Self {
            launcher,
            job: Arc::new(job),
            processes: Arc::new(Turns::new(MAX_PROCESSES)),
            step_permits: Arc::new(Semaphore::new(MAX_RUNNING_STEPS)),
            waiting: Arc::default(),
            made: Arc::default(),
            closing: Arc::default(),
        }
    }

    /// What the step for this package gave when it was made last.
    pub(crate) fn recall(&self, request: &ProvisionRequest) -> Option<PluginDatabase> {
        self.made.lock().get(request).cloned()
    }

    fn remember(&self, request: &ProvisionRequest, result: &Outcome) {
        let mut made = self.made.lock();
        match result {
            Ok(database) if made.len() < MAX_REMEMBERED => drop(made.insert(request.clone(), database.clone())),
            _ => drop(made.remove(request)),
        }
    }

    /// # Errors
    /// The plugin was refused, or the step could not be made.
    pub(crate) async fn provision(&self, request: &ProvisionRequest) -> Outcome {
        if !well_formed(request) {
            let fault = "the request names no plugin and hash";
            return Err(ProvisionFault::Unavailable(fault.to_owned()));
        }
        let (outcome, result) = oneshot::channel();
        self.waiting().push(Waiting { request: request.clone(), outcome });
        let _turn = self.processes.take().await;
        // The one with the turn takes along all that waits, this one perhaps among others, or finds it taken.
        let together = {
            let mut waiting = self.waiting();
            let count = waiting.len().min(MAX_TOGETHER);
            waiting.drain(..count).collect()
        };
        self.make(together).await;
        let result = result.await.unwrap_or_else(|_| Err(not_made()));
        self.remember(request, &result);
        if let Err(ProvisionFault::Unavailable(_) | ProvisionFault::Failed(_)) = &result {
            self.close(&request.plugin);
        }
        if let Err(fault) = &result {
            tracing::warn!(plugin = request.plugin, %fault, "failed to provision the plugin's database");
        }
        result
    }

    /// Drops a plugin's data.
    ///
    /// # Errors
    /// It is in use, or could not be done.
    pub(crate) async fn purge(&self, plugin: &str) -> Result<PurgeReport, ProvisionFault> {
        if !is_name(plugin) {
            return Err(ProvisionFault::Unavailable("the request names no plugin".to_owned()));
        }
        let result = self.have_dropped(plugin).await;
        // What was made for it is not there any more, or may not be.
        self.made.lock().retain(|known, _| known.plugin != plugin);
        match &result {
            Ok(purged) => tracing::info!(plugin, tables = purged.tables.len(), "the plugin's data was dropped"),
            Err(fault) => tracing::warn!(plugin, %fault, "the plugin's data was not dropped"),
        }
        result
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock()
    }

    /// Has one process make the steps. When it ends before it has made them all, one of those under way may be why:
    /// each of them is made again alone, and the others together.
    async fn make(&self, mut together: Vec<Waiting>) {
        let mut alone = Vec::new();
        while together.len() > 1 {
            let count = together.len();
            let Unmade { begun, waiting } = self.make_together(together).await;
            alone.extend(begun);
            together = waiting;
            if together.len() == count {
                break; // for what it is worth: the next process would come as far
            }
        }
        alone.extend(together);
        let alone = alone.into_iter().map(async |waiting| {
            let Unmade { begun, waiting } = self.make_together(vec![waiting]).await;
            begun.into_iter().chain(waiting).for_each(|waiting| waiting.answer(Err(not_made())));
        });
        join_all(alone).await;
    }

    async fn make_together(&self, together: Vec<Waiting>) -> Unmade {
        let places = u32::try_from(together.len().min(MAX_RUNNING_STEPS)).unwrap_or(u32::MAX);
        let Ok(mut permits) = self.step_permits.acquire_many(places).await else {
            return Unmade { begun: Vec::new(), waiting: together };
        };
        let task = Task::Provision(together.iter().map(|waiting| waiting.request.clone()).collect());
        let mut steps = Steps::new(together);
        let ended = async {
            let (_child, output) = self.start(task).await?;
            let mut lines = BufReader::new(output).lines();
            while let Some(line) = next_line(&mut lines).await? {
                let news = serde_json::from_str(&line).context("reading what a schema step tells")?;
                if steps.hear(news) {
                    self.processes.note_end();
                    // One that hangs does not keep the places of the others.
                    drop(permits.split(permits.num_permits().saturating_sub(steps.unmade())));
                }
            }
            anyhow::ensure!(steps.are_made(), "a schema step gave no answer");
            Ok(())
        };
        match ended.await {
            Ok(()) => {}
            Err(error) if error.is::<Elapsed>() => steps.give_up(),
            Err(error) => tracing::error!(error = format!("{error:#}"), "a schema step failed"),
        }
        steps.into_unmade()
    }

    /// Closes the schema role of a step that did not end in order: its process may have died before it did so. Goes on
    /// until the database has done it.
    fn close(&self, plugin: &str) {
        let (this, name) = (self.clone(), plugin.to_owned());
        let closer = tokio::spawn(async move {
            let mut wait = CLOSE_RETRY;
            while let Err(error) = this.try_close(&name).await {
                let error = format!("{error:#}");
                tracing::warn!(plugin = name, error, "failed to close the schema role; trying again");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(MAX_CLOSE_RETRY);
            }
        });
        let mut closing = self.closing.lock();
        // An older one may be past what this one has to do.
        if let Some(older) = closing.insert(plugin.to_owned(), closer.abort_handle()) {
            older.abort();
        }
    }

    async fn try_close(&self, plugin: &str) -> anyhow::Result<()> {
        let (_dir, provisioner) = self.job.provisioner()?;
        close::close_plugin(&provisioner, &self.job.names, plugin).await
    }

    async fn have_dropped(&self, plugin: &str) -> Result<PurgeReport, ProvisionFault> {
        let _permit = self.step_permits.acquire().await;
        let dropped = timeout(TIMEOUT, async {
            let (_child, mut output) = self.start(Task::Purge { plugin: plugin.to_owned() }).await?;
            let mut answer = Vec::new();
            output.read_to_end(&mut answer).await.context("waiting for a schema step")?;
            serde_json::from_slice(&answer).context("reading the answer of a schema step")
        });
        match dropped.await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => {
                let error: anyhow::Error = error;
                tracing::error!(plugin, error = format!("{error:#}"), "a schema step failed");
                Err(not_made())
            }
            Err(_) => Err(too_long()),
        }
    }

    /// A process that does the task, which ends with the handle, and what it answers.
    async fn start(&self, task: Task) -> anyhow::Result<(Child, ChildStdout)> {
        let job = Job { task, ..Job::clone(&self.job) };
        let mut command = self.launcher.command("provision");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            tokio::process::Command::from(command).kill_on_drop(true).spawn().context("starting a schema step")?;
        let mut stdin = child.stdin.take().context("a schema step without standard input")?;
        stdin.write_all(&serde_json::to_vec(&job)?).await.context("telling a schema step what to do")?;
        let stdout = child.stdout.take().context("a schema step without standard output")?;
        Ok((child, stdout))
    }
}

impl Waiting {
    fn answer(self, outcome: Outcome) {
        let _ = self.outcome.send(outcome); // it has no receiver any more when the worker has ended
    }
}

/// The steps of a process, by their place in its task.
struct Steps {
    waiting: BTreeMap<usize, Waiting>,
    begun: BTreeMap<usize, Waiting>,
}

/// What is left of them when the process has ended.
struct Unmade {
    begun: Vec<Waiting>,
    waiting: Vec<Waiting>,
}

impl Steps {
    fn new(together: Vec<Waiting>) -> Self {
        Self { waiting: together.into_iter().enumerate().collect(), begun: BTreeMap::new() }
    }

    /// Whether a step has ended by it.
    fn hear(&mut self, news: StepNews) -> bool {
        match news {
            StepNews::Begun { at } => {
                self.begun.extend(self.waiting.remove(&at).map(|waiting| (at, waiting)));
                false
            }
            StepNews::Ended { at, result } => match self.begun.remove(&at) {
                Some(waiting) => {
                    waiting.answer(result);
                    true
                }
                None => false,
            },
        }
    }

    fn unmade(&self) -> usize {
        self.begun.len() + self.waiting.len()
    }

    fn are_made(&self) -> bool {
        self.unmade() == 0
    }

    /// Answers those that have begun; the others are still to be made.
    fn give_up(&mut self) {
        std::mem::take(&mut self.begun).into_values().for_each(|waiting| waiting.answer(Err(too_long())));
    }

    fn into_unmade(self) -> Unmade {
        Unmade { begun: self.begun.into_values().collect(), waiting: self.waiting.into_values().collect() }
    }
}

async fn next_line(lines: &mut Lines<BufReader<ChildStdout>>) -> anyhow::Result<Option<String>> {
    timeout(TIMEOUT, lines.next_line()).await?.context("reading what a schema step tells")
}

fn not_made() -> ProvisionFault {
    ProvisionFault::Unavailable("the schema step failed; the supervisor's log says why".to_owned())
}

fn too_long() -> ProvisionFault {
    ProvisionFault::Unavailable("the schema step took too long".to_owned())
}

/// A name and a hash and nothing that could be more.
fn well_formed(request: &ProvisionRequest) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    is_name(&request.plugin) && request.sha256.len() == HASH_DIGITS && request.sha256.bytes().all(hex)
}

fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(plain) && name.as_bytes()[0].is_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_had_begun_are_told_from_those_that_had_not() {
        let request = |plugin: &str| ProvisionRequest { plugin: plugin.to_owned(), sha256: "0f".repeat(32) };
        let (mut together, mut outcomes) = (Vec::new(), Vec::new());
        for plugin in ["a", "b", "c", "d"] {
            let (outcome, result) = oneshot::channel();
            together.push(Waiting { request: request(plugin), outcome });
            outcomes.push(result);
        }
        let mut steps = Steps::new(together);
        let ended = |at| StepNews::Ended { at, result: Err(not_made()) };
        assert!(!steps.hear(ended(0)), "it has not begun");
        assert!([0, 0, 2, 7].into_iter().all(|at| !steps.hear(StepNews::Begun { at })));
        assert!(steps.hear(ended(0)) && !steps.hear(ended(0)) && !steps.hear(ended(7)));
        assert!(outcomes[0].try_recv().is_ok() && outcomes[1].try_recv().is_err());
        assert_eq!((steps.unmade(), steps.are_made()), (3, false));
        let Unmade { begun, waiting } = steps.into_unmade();
        let names = |steps: Vec<Waiting>| steps.into_iter().map(|waiting| waiting.request.plugin).collect::<Vec<_>>();
        assert_eq!((names(begun), names(waiting)), (vec!["c".to_owned()], vec!["b".to_owned(), "d".to_owned()]));
    }

    #[test]
    fn only_a_name_and_a_hash_pass() {
        let ask = |plugin: &str, sha256: &str| {
            well_formed(&ProvisionRequest { plugin: plugin.to_owned(), sha256: sha256.to_owned() })
        };
        let hash = "0f".repeat(32);
        assert!(ask("supplier", &hash) && ask("price-watch-2", &hash));
        for plugin in ["", "../x", "a/b", "A", "a_b", "a\"b", "-a", &"a".repeat(41)] {
            assert!(!ask(plugin, &hash), "{plugin:?} passed");
        }
        for sha256 in ["", "00", &"0F".repeat(32), &"zz".repeat(32)] {
            assert!(!ask("supplier", sha256), "{sha256:?} passed");
        }
    }
}
