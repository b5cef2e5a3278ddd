//! Work outside of calls, which the host keeps a record of: [`Job`], and how a plugin starts one.

use std::{
    fmt::Display,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use cardinal_plugin_abi::{
    Slice,
    extension::Jobs,
    record::{self, job_report, job_start},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    Error, Level, PluginContext, Request, Response, Result,
    context::{parse, without_value},
    router::{Asynchronous, BoxedFuture},
};

/// What the handler of a job is called in the list that the host reads.
pub(crate) const HANDLER_PREFIX: &str = "job:";
/// What a job that was asked to stop answers.
const STOPPED: u16 = 202;

/// The handler of a job: `async fn(PluginContext, Job) -> Result<()>`, given to [`Router::job`](crate::Router::job).
///
/// Implemented by every such function and closure; not to be implemented by hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the handler of a job",
    note = "the handler of a job is `async fn(PluginContext, Job) -> cardinal_plugin::Result<()>`, and its future is `Send`"
)]
pub trait JobHandler: Send + Sync + 'static {
    /// Runs it.
    fn run(&self, ctx: PluginContext, job: Job) -> Pin<Box<dyn Future<Output = Result<()>> + Send>>;
}

impl<F, Fut> JobHandler for F
where
    F: Fn(PluginContext, Job) -> Fut + Send + Sync + 'static,
    Fut: Asynchronous + Future<Output = Result<()>> + Send + 'static,
{
    fn run(&self, ctx: PluginContext, job: Job) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> {
        Box::pin(self(ctx, job))
    }
}

/// A run of a job, as its handler has it.
///
/// The host queues jobs, runs one of a name at a time on one host, shows how far they are to whoever may see them, and
/// cancels them. The context is bound to the job: what the handler does is done for whoever started it, with the rights
/// that they have by then, and with those of the plugin's own user in a job of the schedule.
///
/// A job may be asked to stop: because somebody cancels it, because its time is over, or because the plugin or the host is
/// being replaced. [`save`](Self::save) fails then, and the handler passes the error on with `?`; one that does not stop
/// within five seconds is dropped at its next await. A replaced job goes on in the next instance from what it saved, and
/// is `interrupted` when it never saved anything. After the death of its process it goes on only when the manifest says
/// `"resumable": true`. Work since the last [`save`](Self::save) is done twice then.
///
/// ```
/// use cardinal_plugin::{Job, PluginContext, Request, Response, Result, Router, json};
/// use serde::Deserialize;
///
/// pub fn routes(_: &PluginContext) -> Router {
///     Router::new().post("/refresh", begin).job("refresh", refresh) // and in backend.jobs of manifest.json
/// }
///
/// async fn begin(ctx: PluginContext, _: Request) -> Result<Response> {
///     let id = ctx.start_job("refresh", &json!({ "pages": 40 })).await?;
///     Ok(Response::json(&json!({ "job": id })).status(202)) // GET /v1/admin/jobs/{id} says how far it is
/// }
///
/// #[derive(Deserialize)]
/// struct Refresh {
///     pages: u64,
/// }
///
/// async fn refresh(ctx: PluginContext, job: Job) -> Result<()> {
///     let Refresh { pages } = job.args()?;
///     let first = job.checkpoint::<u64>()?.unwrap_or(0);
///     for page in first..pages {
///         if let Err(error) = read(&ctx, page).await {
///             job.fail("unreadable", &error, &json!({ "page": page }));
///         }
///         job.progress(page + 1, Some(pages), "Reading pages");
///         job.save(&(page + 1)).await?; // a later run goes on here; an error when the job is to stop
///     }
///     Ok(())
/// }
/// # async fn read(_: &PluginContext, _: u64) -> Result<()> { Ok(()) }
/// ```
#[derive(Debug)]
pub struct Job {
    ctx: PluginContext,
    id: Uuid,
    args: Bytes,
    checkpoint: Bytes,
    /// The host has said so at a checkpoint.
    is_told_to_stop: Arc<AtomicBool>,
}

impl Job {
    async fn receive(ctx: PluginContext, req: Request) -> Result<Self> {
        let (id, checkpoint) =
            req.job().ok_or_else(|| Error::internal("the handler of a job was called without one"))?;
        Ok(Self { ctx, id, checkpoint, args: req.body().await?, is_told_to_stop: Arc::default() })
    }

    /// Its id: `GET /v1/admin/jobs/{id}`.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Its arguments. The host has held them against `args_schema`.
    ///
    /// # Errors
    /// When they do not fit `T`.
    pub fn args<T: DeserializeOwned>(&self) -> Result<T> {
        read(&self.args, "arguments")
    }

    /// What the run before has [saved](Self::save), in this version of the plugin or an earlier one; `None` in the first.
    ///
    /// # Errors
    /// When it does not fit `T`.
    pub fn checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        if self.checkpoint.is_empty() { Ok(None) } else { read(&self.checkpoint, "checkpoint").map(Some) }
    }

    /// Says how far it is: `done` of `total` items, where that is known, and a few words. Costs next to nothing: the host
    /// writes the latest down every two seconds.
    pub fn progress(&self, done: u64, total: Option<u64>, text: impl AsRef<str>) {
        let (done, total) = (done.to_string(), total.map(|total| total.to_string()).unwrap_or_default());
        let text = text.as_ref();
        self.report(&[(job_report::DONE, &done), (job_report::TOTAL, &total), (job_report::TEXT, text)]);
    }

    /// Notes an item that failed; the job goes on. `code` is for programs, `detail` for people, and the members of `about`
    /// say which item it is: `id` of a card, `line` of a file. The first 10,000 of a job are kept, all are counted.
    pub fn fail(&self, code: &str, detail: impl Display, about: &Value) {
        let mut error = about.as_object().cloned().unwrap_or_default();
        error.insert("code".to_owned(), code.into());
        error.insert("detail".to_owned(), detail.to_string().into());
        self.report(&[(job_report::ERROR, &Value::Object(error).to_string())]);
    }

    fn report(&self, fields: &[(u32, &str)]) {
        if let Some(jobs) = self.ctx.core.host.jobs() {
            let report = record_of(fields);
            (jobs.report)(self.ctx.core.ctx, self.ctx.call_id(), Slice::new(&report));
        }
    }

    /// Keeps where a later run may go on, at most 64 KiB as JSON, together with what was reported so far.
    ///
    /// # Errors
    /// When the job is to stop ([`Error::is_cancelled`]): it is kept, and the handler ends with the error. When the host
    /// has no database just then.
    pub async fn save(&self, checkpoint: &(impl Serialize + ?Sized)) -> Result<()> {
        let checkpoint = serde_json::to_string(checkpoint)?;
        let report = record_of(&[(job_report::CHECKPOINT, &checkpoint)]);
        let jobs = host_jobs(&self.ctx)?;
        let saved = (jobs.save)(self.ctx.core.ctx, self.ctx.call_id(), Slice::new(&report));
        match saved.await.map_err(Error::of_host)?.number {
            0 => Ok(()),
            _ => {
                self.is_told_to_stop.store(true, Ordering::Relaxed);
                Err(Error::over("the job is to stop"))
            }
        }
    }

    /// Whether the job is to stop: for loops without an await. The handler ends with any error then, or with `Ok` when it
    /// is done all the same.
    pub fn is_stopping(&self) -> bool {
        self.ctx.cancelled()
    }
}

fn read<T: DeserializeOwned>(json: &[u8], what: &str) -> Result<T> {
    serde_json::from_slice(json)
        .map_err(|error| Error::internal(format!("the job's {what} do not fit: {}", without_value(&error.to_string()))))
}

fn record_of(fields: &[(u32, &str)]) -> Vec<u8> {
    let fields: Vec<_> = fields.iter().map(|(number, text)| (*number, text.as_bytes())).collect();
    record::write(&fields)
}

fn host_jobs(ctx: &PluginContext) -> Result<&'static Jobs> {
    ctx.core.host.jobs().ok_or_else(|| Error::internal("this host has no jobs; say \"requires\": [\"backend.jobs\"]"))
}

/// The handler of a job as that of a call.
pub(crate) fn as_handler<H: JobHandler>(handler: H) -> impl Fn(PluginContext, Request) -> BoxedFuture + Send + Sync {
    let handler = Arc::new(handler);
    move |ctx, req| {
        let handler = handler.clone();
        Box::pin(async move {
            let job = Job::receive(ctx.clone(), req).await?;
            let is_told_to_stop = Arc::clone(&job.is_told_to_stop);
            match handler.run(ctx.clone(), job).await {
                Ok(()) => Ok(Response::empty()),
                Err(error) if is_told_to_stop.load(Ordering::Relaxed) || ctx.cancelled() => {
                    if !error.is_cancelled() {
                        ctx.log(Level::Warn, format!("the job failed as it was to stop: {error:?}"));
                    }
                    Ok(Response::empty().status(STOPPED))
                }
                Err(error) => Err(error),
            }
        })
    }
}

impl PluginContext {
    /// Queues one of the plugin's [jobs](crate::Job), for the user of the call, who needs the job's scope; outside of a call
    /// for the plugin itself. Gives the job's id. `args` is an object, of at most 64 KiB as JSON.
    ///
    /// # Errors
    /// When the manifest has no such job, or it takes no such arguments. When 50 of the plugin's jobs wait or run already
    /// ([`Error::is_retryable`]).
    pub fn start_job<A: Serialize + ?Sized>(
        &self,
        name: &str,
        args: &A,
    ) -> impl Future<Output = Result<Uuid>> + Send + use<A> {
        #[derive(Deserialize)]
        struct NewJob {
            id: Uuid,
        }
        let started = serde_json::to_string(args).map_err(Error::from).and_then(|args| {
            let request = record_of(&[(job_start::NAME, name), (job_start::ARGS, &args)]);
            Ok((host_jobs(self)?.start)(self.core.ctx, self.call_id(), Slice::new(&request)))
        });
        async move { parse::<NewJob>(started?.await, "started job").map(|job| job.id) }
    }
}
