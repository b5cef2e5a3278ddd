//! Work outside of calls, which the host keeps a record of: [`Job`], and how a plugin starts one.

mod handler;

use std::{
    fmt::Display,
    future::Future,
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

pub use self::handler::JobHandler;
pub(crate) use self::handler::{HANDLER_PREFIX, as_handler};
use crate::{
    Error, PluginContext, Request, Result,
    context::{parse, without_value},
};
/// A run of a job, as its handler has it.
///
/// The host queues jobs, runs one of a name at a time on one host of the database, shows how far they are to whoever
/// may see them, and cancels them. A plugin may have 50 jobs that wait or run, of which 4 run. The context is bound to
/// the job: what the handler does is done for whoever started it, with the rights that they have by then, and with
/// those of the plugin's own user in a job of the schedule.
///
/// **Stopping.** A job is asked to stop when somebody cancels it, when its time is over (`timeout_minutes` of the
/// manifest, 60 unless it says otherwise), and when the plugin or the host is being replaced. [`save`](Self::save)
/// fails then, and the handler passes the error on with `?`. A handler that has not stopped within five seconds is
/// dropped at its next await.
///
/// **Going on.** A replaced job goes on in the next instance from what it saved. It is `interrupted` when it never
/// saved anything. After the death of its process it goes on only when the manifest says `"resumable": true`, at most
/// five times. Work since the last [`save`](Self::save) is done twice then, so make it repeatable.
///
/// ```
/// use cardinal_plugin::testing::{JobEnd, TestHost, TestJob, TestRequest};
/// use cardinal_plugin::{Job, PluginContext, Request, Response, Result, Router, block_on, json};
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
///
/// let manifest = r#"{ "name": "reader", "version": "1.0.0", "backend": { "jobs": [{ "name": "refresh" }] } }"#;
/// let host = TestHost::new(manifest, routes);
/// assert_eq!(block_on(host.send(TestRequest::post("/refresh"))).status(), 202);
/// assert_eq!(host.started_jobs()[0].args, json!({ "pages": 40 }));
///
/// let mut run = host.begin_job(TestJob::new("refresh").args(&json!({ "pages": 40 })).checkpoint(&38));
/// assert!(matches!(block_on(&mut run), JobEnd::Done));
/// assert_eq!((run.done(), run.total()), (40, Some(40)));
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

    /// Returns the job's id, as in `GET /v1/admin/jobs/{id}`. All runs of a job have the same one.
    ///
    /// ```
    /// use cardinal_plugin::Job;
    ///
    /// /// A key that is the same in all runs of the job, so that the shop takes the order once.
    /// fn order_key(job: &Job) -> String {
    ///     format!("order-{}", job.id())
    /// }
    /// ```
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Reads the arguments as the author's type. The host has validated them against `args_schema` of the manifest.
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Import {
    ///     supplier: String,
    /// }
    ///
    /// async fn import(ctx: PluginContext, job: Job) -> Result<()> {
    ///     let Import { supplier } = job.args()?;
    ///     ctx.log(cardinal_plugin::Level::Info, format!("reading the prices of {supplier}"));
    ///     Ok(())
    /// }
    /// # use cardinal_plugin::{Router, block_on, json, testing::{TestHost, TestJob}};
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// # block_on(host.begin_job(TestJob::new("import").args(&json!({ "supplier": "oak-and-co" }))));
    /// # assert_eq!(host.log()[0].message, "reading the prices of oak-and-co");
    /// ```
    ///
    /// # Errors
    /// An internal error when they do not fit `T`. It names the fault without the value.
    pub fn args<T: DeserializeOwned>(&self) -> Result<T> {
        read(&self.args, "arguments")
    }

    /// Reads what the run before has [saved](Self::save); `None` in the first run.
    ///
    /// An earlier version of the plugin may have saved it: accept its form, or start from the beginning.
    ///
    /// ```
    /// use cardinal_plugin::{Job, Result};
    ///
    /// /// The row to go on with. A checkpoint of an older form counts as none.
    /// fn first_row(job: &Job) -> u64 {
    ///     job.checkpoint().ok().flatten().unwrap_or(0)
    /// }
    /// # use cardinal_plugin::{PluginContext, Router, block_on, testing::{TestHost, TestJob}};
    /// # async fn import(_: PluginContext, job: Job) -> Result<()> {
    /// #     job.progress(first_row(&job), None, "");
    /// #     Ok(())
    /// # }
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// # let mut run = host.begin_job(TestJob::new("import").checkpoint(&7));
    /// # block_on(&mut run);
    /// # assert_eq!(run.done(), 7);
    /// ```
    ///
    /// # Errors
    /// An internal error when it does not fit `T`.
    pub fn checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        if self.checkpoint.is_empty() { Ok(None) } else { read(&self.checkpoint, "checkpoint").map(Some) }
    }

    /// Reports how far the job is: `done` of `total` items, where the total is known, and a few words, cut after 1 KiB.
    ///
    /// It costs next to nothing and never waits, so call it for each item: the host records the latest report every two
    /// seconds.
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result};
    ///
    /// async fn count(_: PluginContext, job: Job) -> Result<()> {
    ///     let suppliers = ["oak-and-co", "lamps-inc"];
    ///     for (done, supplier) in (1..).zip(suppliers) {
    ///         job.progress(done, Some(suppliers.len() as u64), supplier);
    ///     }
    ///     Ok(())
    /// }
    /// # use cardinal_plugin::{Router, block_on, testing::{TestHost, TestJob}};
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "count" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("count", count));
    /// # let mut run = host.begin_job(TestJob::new("count"));
    /// # block_on(&mut run);
    /// # assert_eq!((run.done(), run.total(), run.text().as_str()), (2, Some(2), "lamps-inc"));
    /// ```
    pub fn progress(&self, done: u64, total: Option<u64>, text: impl AsRef<str>) {
        let (done, total) = (done.to_string(), total.map(|total| total.to_string()).unwrap_or_default());
        let text = text.as_ref();
        self.report(&[(job_report::DONE, &done), (job_report::TOTAL, &total), (job_report::TEXT, text)]);
    }

    /// Reports an item that failed; the job goes on.
    ///
    /// `code` is for programs (at most 64 characters), `detail` for people (at most 1,000), and the members of `about`
    /// say which item it is: `id` of a card, `line` of a file. `about` counts only when it is an object; of a report
    /// over 4 KiB of JSON only code and detail are kept. The first 10,000 failures of a job are kept, all are counted;
    /// a burst of more than 1,000 in two seconds is counted from there on.
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result, json};
    ///
    /// async fn import(_: PluginContext, job: Job) -> Result<()> {
    ///     for (line, cents) in (2..).zip(["990", "cheap"]) {
    ///         if let Err(error) = cents.parse::<i64>() {
    ///             job.fail("price-invalid", error, &json!({ "line": line }));
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// # use cardinal_plugin::{Router, block_on, testing::{TestHost, TestJob}};
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// # let mut run = host.begin_job(TestJob::new("import"));
    /// # block_on(&mut run);
    /// # assert_eq!((run.failures().len(), &run.failures()[0]["line"]), (1, &json!(3)));
    /// ```
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

    /// Records where a later run may go on, together with what was reported so far. The checkpoint has at most 64 KiB
    /// as JSON.
    ///
    /// It is in the database when the future is ready. Each call is a write, so save every few seconds of work, not for
    /// each item. The newest checkpoint replaces the one before.
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result};
    ///
    /// async fn import(_: PluginContext, job: Job) -> Result<()> {
    ///     for batch in job.checkpoint::<u64>()?.unwrap_or(0)..10 {
    ///         // reads a batch of prices
    ///         job.save(&(batch + 1)).await?; // ends here when the job is to stop
    ///     }
    ///     Ok(())
    /// }
    /// # use cardinal_plugin::{Router, block_on, json, testing::{TestHost, TestJob}};
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// # let mut run = host.begin_job(TestJob::new("import").checkpoint(&4));
    /// # run.stop();
    /// # block_on(&mut run);
    /// # assert_eq!(run.checkpoint(), Some(json!(5)));
    /// ```
    ///
    /// # Errors
    /// * [`Error::is_cancelled`] when the job is to stop. The checkpoint is recorded; pass the error on with `?`.
    /// * [`Error::is_retryable`] when the host has no database at the moment.
    /// * An internal error for a checkpoint over the limit, and outside of a job.
    pub async fn save(&self, checkpoint: &(impl Serialize + ?Sized)) -> Result<()> {
        let checkpoint = serde_json::to_string(checkpoint)?;
        let report = record_of(&[(job_report::CHECKPOINT, &checkpoint)]);
        let jobs = host_jobs(&self.ctx)?;
        let saved = (jobs.save)(self.ctx.core.ctx, self.ctx.call_id(), Slice::new(&report));
        match saved.await.map_err(Error::from_host)?.number {
            0 => Ok(()),
            _ => {
                self.is_told_to_stop.store(true, Ordering::Relaxed);
                Err(Error::over("the job is to stop"))
            }
        }
    }

    /// Returns whether the job is to stop, for loops without an await.
    ///
    /// The handler ends with any error then, best that of [`save`](Self::save), or with `Ok` when it is done all the
    /// same.
    ///
    /// ```
    /// use cardinal_plugin::{Error, Job, Result};
    ///
    /// fn checksum(job: &Job, rows: &[u64]) -> Result<u64> {
    ///     let mut sum = 0_u64;
    ///     for rows in rows.chunks(100_000) {
    ///         if job.is_stopping() {
    ///             return Err(Error::unavailable("The job is to stop."));
    ///         }
    ///         sum = rows.iter().fold(sum, |sum, row| sum.rotate_left(5) ^ row);
    ///     }
    ///     Ok(sum)
    /// }
    /// ```
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

impl PluginContext {
    /// Queues one of the plugin's [jobs](crate::Job) and returns its id. The job runs later, on any host of the
    /// database.
    ///
    /// It is started for the user of the call, who needs the job's scope; outside of a call for the plugin itself.
    /// `args` is an object of at most 64 KiB as JSON.
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result, Router, block_on, json, testing::TestHost};
    ///
    /// async fn import(_: PluginContext, _: Job) -> Result<()> {
    ///     Ok(())
    /// }
    ///
    /// let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// let id = block_on(host.context().start_job("import", &json!({ "supplier": "oak-and-co" }))).unwrap();
    /// assert_eq!(host.started_jobs()[0].id, id);
    /// assert!(block_on(host.context().start_job("imports", &json!({}))).unwrap_err().is_not_found());
    /// ```
    ///
    /// # Errors
    /// * [`Error::is_not_found`] when the manifest declares no such job
    /// * 403 `insufficient-scope` for a call without the job's scope (`plugin:<name>:write` unless the manifest says
    ///   otherwise)
    /// * [`Error::is_retryable`] when 50 of the plugin's jobs wait or run already
    /// * an internal error for arguments that are not an object, are too large, or do not fit `args_schema`, and on a
    ///   host without jobs (`"requires": ["backend.jobs"]`)
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
