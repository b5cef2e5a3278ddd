//! Jobs in tests: started by hand, watched, asked to stop.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    TestCall, TestHost, TestReply, TestRequest,
    fake_host::{JobRecord, lock},
};
use crate::{Error, User, jobs::HANDLER_PREFIX};

/// A job that a test starts, in the place of a host.
///
/// ```
/// use cardinal_plugin::{Job, PluginContext, Result, Router, block_on, json};
/// use cardinal_plugin::testing::{JobEnd, TestHost, TestJob};
///
/// fn routes(_: &PluginContext) -> Router {
///     Router::new().job("count", count)
/// }
///
/// async fn count(_: PluginContext, job: Job) -> Result<()> {
///     for at in job.checkpoint::<u64>()?.unwrap_or(0)..3 {
///         job.progress(at + 1, Some(3), "Counting");
///         job.save(&(at + 1)).await?;
///     }
///     Ok(())
/// }
///
/// let manifest = r#"{ "name": "counter", "version": "1.0.0", "backend": { "jobs": [{ "name": "count" }] } }"#;
/// let host = TestHost::new(manifest, routes);
/// let mut run = host.begin_job(TestJob::new("count").checkpoint(&2));
/// assert!(matches!(block_on(&mut run), JobEnd::Done));
/// assert_eq!((run.done(), run.checkpoint()), (3, Some(json!(3))));
///
/// let mut run = host.begin_job(TestJob::new("count"));
/// run.stop(); // what a host does that is being replaced, or for somebody who cancels
/// assert!(matches!(block_on(&mut run), JobEnd::Stopped));
/// assert_eq!(run.checkpoint(), Some(json!(1)));
/// ```
#[derive(Clone, Debug)]
pub struct TestJob {
    name: String,
    args: Value,
    checkpoint: Option<Value>,
    user: Option<User>,
}

impl TestJob {
    /// Makes a job of the manifest, without arguments, for a user who may do everything.
    ///
    /// ```
    /// use cardinal_plugin::{block_on, testing::{JobEnd, TestHost, TestJob}};
    ///
    /// # use cardinal_plugin::{Job, PluginContext, Result, Router};
    /// # async fn import(_: PluginContext, job: Job) -> Result<()> {
    /// #     Ok(())
    /// # }
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// let mut run = host.begin_job(TestJob::new("import"));
    /// assert!(matches!(block_on(&mut run), JobEnd::Done));
    /// ```
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), args: json!({}), checkpoint: None, user: None }
    }

    /// Sets the arguments. They are not validated against `args_schema`, which a host does before a handler runs.
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result, Router, block_on, json};
    /// use cardinal_plugin::testing::{JobEnd, TestHost, TestJob};
    ///
    /// async fn import(_: PluginContext, job: Job) -> Result<()> {
    ///     job.args::<std::collections::BTreeMap<String, String>>().map(drop)
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// let mut run = host.begin_job(TestJob::new("import").args(&json!({ "supplier": "oak-and-co" })));
    /// assert!(matches!(block_on(&mut run), JobEnd::Done));
    /// ```
    ///
    /// # Panics
    /// When they cannot be written as JSON.
    #[must_use]
    pub fn args(mut self, args: &(impl Serialize + ?Sized)) -> Self {
        self.args = as_json(args);
        self
    }

    /// Sets what an earlier run saved.
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result, Router, block_on};
    /// use cardinal_plugin::testing::{JobEnd, TestHost, TestJob};
    ///
    /// async fn import(_: PluginContext, job: Job) -> Result<()> {
    ///     let first = job.checkpoint::<u64>()?.unwrap_or(0);
    ///     (first..3).for_each(|at| job.fail("unreadable", at, &cardinal_plugin::json!({})));
    ///     Ok(())
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// let mut run = host.begin_job(TestJob::new("import").checkpoint(&2)); // two of three items are done
    /// assert!(matches!(block_on(&mut run), JobEnd::Done));
    /// # assert_eq!(run.failures().len(), 1);
    /// ```
    ///
    /// # Panics
    /// When it cannot be written as JSON.
    #[must_use]
    pub fn checkpoint(mut self, checkpoint: &(impl Serialize + ?Sized)) -> Self {
        self.checkpoint = Some(as_json(checkpoint));
        self
    }

    /// Sets who has started it.
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result, Router, block_on};
    /// use cardinal_plugin::testing::{JobEnd, TestHost, TestJob, test_user};
    ///
    /// async fn import(ctx: PluginContext, _: Job) -> Result<()> {
    ///     ctx.list_cards(Default::default()).await.map(drop)
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// let mut run = host.begin_job(TestJob::new("import").user(test_user("Bo", &[])));
    /// let JobEnd::Failed(error) = block_on(&mut run) else { panic!("Bo may not read cards") };
    /// assert_eq!(error.code(), Some("insufficient-scope"));
    /// ```
    #[must_use]
    pub fn user(mut self, user: User) -> Self {
        self.user = Some(user);
        self
    }
}

fn as_json(value: &(impl Serialize + ?Sized)) -> Value {
    match serde_json::to_value(value) {
        Ok(value) => value,
        Err(error) => panic!("it cannot be written as JSON: {error}"),
    }
}

/// A job that the plugin has started ([`PluginContext::start_job`](crate::PluginContext::start_job)). A test host does not
/// run it; the test does, with [`TestHost::begin_job`].
///
/// ```
/// use cardinal_plugin::{block_on, json, testing::TestHost};
///
/// # use cardinal_plugin::{Job, PluginContext, Result, Router};
/// # async fn import(_: PluginContext, job: Job) -> Result<()> {
/// #     Ok(())
/// # }
/// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
/// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
/// block_on(host.context().start_job("import", &json!({ "supplier": "oak-and-co" }))).unwrap();
/// let started = &host.started_jobs()[0];
/// assert_eq!((started.name.as_str(), &started.args["supplier"]), ("import", &json!("oak-and-co")));
/// assert_eq!(started.user_id, None); // by the plugin itself
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StartedJob {
    /// The id that the plugin got.
    pub id: Uuid,
    /// The job's name in the manifest.
    pub name: String,
    /// The arguments.
    pub args: Value,
    /// Who started it; `None` is the plugin itself.
    pub user_id: Option<Uuid>,
}

/// How a run of a job ended.
///
/// ```
/// use cardinal_plugin::{Error, Job, PluginContext, Result, Router, block_on};
/// use cardinal_plugin::testing::{JobEnd, TestHost, TestJob};
///
/// async fn import(_: PluginContext, job: Job) -> Result<()> {
///     Err(Error::bad_gateway("The shop's page has no price."))
/// }
///
/// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
/// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
/// match block_on(&mut host.begin_job(TestJob::new("import"))) {
///     JobEnd::Failed(error) => assert_eq!(error.status(), Some(502)),
///     end => panic!("the job did not fail: {end:?}"),
/// }
/// ```
#[derive(Debug)]
pub enum JobEnd {
    /// The handler returned `Ok`.
    Done,
    /// The handler returned an error after it was asked to stop. The host runs the job again from its checkpoint, or has
    /// cancelled it.
    Stopped,
    /// The handler returned an error, or panicked ([`Error::is_panic`]).
    Failed(Box<Error>),
}

/// A run of a job under way, from [`TestHost::begin_job`].
///
/// It runs when it is awaited or [asked](Self::is_waiting). Dropping it is what a host does with a job that does not stop.
/// Await it as `&mut run` to look at its reports afterwards.
///
/// ```
/// use cardinal_plugin::{Job, PluginContext, Result, Router, block_on};
/// use cardinal_plugin::testing::{JobEnd, TestHost, TestJob};
///
/// async fn import(_: PluginContext, job: Job) -> Result<()> {
///     job.progress(7, None, "Reading prices");
///     Ok(())
/// }
///
/// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
/// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
/// let mut run = host.begin_job(TestJob::new("import"));
/// assert!(matches!(block_on(&mut run), JobEnd::Done));
/// assert_eq!((run.done(), run.text().as_str()), (7, "Reading prices"));
/// ```
#[derive(Debug)]
#[must_use = "a job runs only when it is awaited"]
pub struct TestJobRun {
    call: TestCall,
    record: Arc<JobRecord>,
}

impl TestJobRun {
    /// Asks the job to stop: its next [`save`](crate::Job::save) fails, and [`is_stopping`](crate::Job::is_stopping) is
    /// true.
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result, Router, block_on};
    /// use cardinal_plugin::testing::{JobEnd, TestHost, TestJob};
    ///
    /// async fn import(_: PluginContext, job: Job) -> Result<()> {
    ///     job.save(&7).await
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// let mut run = host.begin_job(TestJob::new("import"));
    /// run.stop();
    /// assert!(matches!(block_on(&mut run), JobEnd::Stopped));
    /// ```
    pub fn stop(&self) {
        self.record.stop.send_replace(true);
    }

    /// Lets the handler go on as far as it can; returns whether it waits for something then.
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result, Router, block_on};
    /// use cardinal_plugin::testing::{JobEnd, TestHost, TestJob};
    ///
    /// async fn import(_: PluginContext, job: Job) -> Result<()> {
    ///     job.save(&7).await
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// host.hold("save_job"); // a database that takes its time
    /// let mut run = host.begin_job(TestJob::new("import"));
    /// assert!(run.is_waiting());
    /// host.release("save_job");
    /// assert!(!run.is_waiting());
    /// # assert!(matches!(block_on(&mut run), JobEnd::Done));
    /// ```
    pub fn is_waiting(&mut self) -> bool {
        self.call.is_waiting()
    }

    /// Returns the number of items that are done, by the latest report.
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result, Router, block_on};
    /// use cardinal_plugin::testing::{TestHost, TestJob};
    ///
    /// async fn import(_: PluginContext, job: Job) -> Result<()> {
    ///     job.progress(7, None, "Reading prices");
    ///     Ok(())
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// let mut run = host.begin_job(TestJob::new("import"));
    /// block_on(&mut run);
    /// assert_eq!(run.done(), 7);
    /// ```
    pub fn done(&self) -> u64 {
        *lock(&self.record.done)
    }

    /// Returns the number of items in all, by the latest report.
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result, Router, block_on};
    /// use cardinal_plugin::testing::{TestHost, TestJob};
    ///
    /// async fn import(_: PluginContext, job: Job) -> Result<()> {
    ///     job.progress(7, Some(40), "Reading prices");
    ///     Ok(())
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// let mut run = host.begin_job(TestJob::new("import"));
    /// assert_eq!(run.total(), None); // nothing has been reported
    /// block_on(&mut run);
    /// assert_eq!(run.total(), Some(40));
    /// ```
    pub fn total(&self) -> Option<u64> {
        *lock(&self.record.total)
    }

    /// Returns the words of the latest report.
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result, Router, block_on};
    /// use cardinal_plugin::testing::{TestHost, TestJob};
    ///
    /// async fn import(_: PluginContext, job: Job) -> Result<()> {
    ///     job.progress(7, None, "Reading prices");
    ///     Ok(())
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// let mut run = host.begin_job(TestJob::new("import"));
    /// block_on(&mut run);
    /// assert_eq!(run.text(), "Reading prices");
    /// ```
    pub fn text(&self) -> String {
        lock(&self.record.text).clone()
    }

    /// Returns the items that failed, each with its `code`, its `detail` and what else was said about it.
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result, Router, block_on, json};
    /// use cardinal_plugin::testing::{TestHost, TestJob};
    ///
    /// async fn import(_: PluginContext, job: Job) -> Result<()> {
    ///     job.fail("price-invalid", "is below 0", &json!({ "line": 3 }));
    ///     Ok(())
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// let mut run = host.begin_job(TestJob::new("import"));
    /// block_on(&mut run);
    /// assert_eq!(run.failures(), [json!({ "line": 3, "code": "price-invalid", "detail": "is below 0" })]);
    /// ```
    pub fn failures(&self) -> Vec<Value> {
        lock(&self.record.failures).clone()
    }

    /// Returns what was saved last, by this run or the one before.
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result, Router, block_on, json};
    /// use cardinal_plugin::testing::{TestHost, TestJob};
    ///
    /// async fn import(_: PluginContext, job: Job) -> Result<()> {
    ///     job.save(&7).await
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// let mut run = host.begin_job(TestJob::new("import").checkpoint(&2));
    /// assert_eq!(run.checkpoint(), Some(json!(2)));
    /// block_on(&mut run);
    /// assert_eq!(run.checkpoint(), Some(json!(7)));
    /// ```
    pub fn checkpoint(&self) -> Option<Value> {
        lock(&self.record.checkpoint).clone()
    }
}

impl Future for TestJobRun {
    type Output = JobEnd;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<JobEnd> {
        Pin::new(&mut self.call).poll(cx).map(end_of)
    }
}

fn end_of(reply: TestReply) -> JobEnd {
    match (reply.status(), reply.into_error()) {
        (202, None) => JobEnd::Stopped,
        (_, None) => JobEnd::Done,
        (_, Some(error)) => JobEnd::Failed(Box::new(error)),
    }
}

impl TestHost {
    /// Begins a job of the plugin, as a host does whose turn it is. A schedule of the manifest is ignored: begin what it
    /// would begin.
    ///
    /// ```
    /// use cardinal_plugin::{Job, PluginContext, Result, Router, block_on, json};
    /// use cardinal_plugin::testing::{JobEnd, TestHost, TestJob};
    ///
    /// async fn import(_: PluginContext, job: Job) -> Result<()> {
    ///     job.progress(job.args::<std::collections::BTreeMap<String, u64>>()?["most"], None, "");
    ///     Ok(())
    /// }
    ///
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// let mut run = host.begin_job(TestJob::new("import").args(&json!({ "most": 40 })));
    /// assert!(matches!(block_on(&mut run), JobEnd::Done));
    /// assert_eq!(run.done(), 40);
    /// ```
    ///
    /// # Panics
    /// When the router has no job of this name.
    pub fn begin_job(&self, job: TestJob) -> TestJobRun {
        let instance = self.running().instance;
        let handler = format!("{HANDLER_PREFIX}{}", job.name);
        let Some(at) = instance.entries.iter().position(|entry| entry.name == handler) else {
            panic!("the router has no job `{}`", job.name);
        };
        let checkpoint = job.checkpoint.as_ref().map(Value::to_string).unwrap_or_default();
        let mut request = TestRequest::post("/").json(&job.args).job(Uuid::new_v4(), checkpoint);
        if let Some(user) = job.user {
            request = request.user(user);
        }
        let record = Arc::new(JobRecord::new(job.checkpoint));
        let kept = Arc::clone(&record);
        let call = self.call_number_with(&instance, u32::try_from(at).unwrap_or(u32::MAX), request, |fake, call| {
            lock(&fake.jobs).insert(call, kept);
        });
        TestJobRun { call, record }
    }

    /// Returns the jobs that the plugin has started so far, in their order.
    ///
    /// ```
    /// use cardinal_plugin::{block_on, json, testing::TestHost};
    ///
    /// # use cardinal_plugin::{Job, PluginContext, Result, Router};
    /// # async fn import(_: PluginContext, job: Job) -> Result<()> {
    /// #     Ok(())
    /// # }
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", import));
    /// assert!(host.started_jobs().is_empty());
    /// block_on(host.context().start_job("import", &json!({}))).unwrap();
    /// assert_eq!(host.started_jobs()[0].name, "import");
    /// ```
    pub fn started_jobs(&self) -> Vec<StartedJob> {
        lock(&self.fake.started_jobs).clone()
    }
}
