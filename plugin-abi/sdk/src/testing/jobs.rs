//! Jobs in tests: started by hand, watched, asked to stop.

mod run;

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

pub use self::run::{JobEnd, TestJobRun};
use super::{
    TestHost, TestRequest,
    fake_host::{JobRecord, lock},
};
use crate::{User, jobs::HANDLER_PREFIX};

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

/// A job that the plugin has started ([`PluginContext::start_job`](crate::PluginContext::start_job)). A test host does
/// not run it; the test does, with [`TestHost::begin_job`].
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

impl TestHost {
    /// Begins a job of the plugin, as a host does whose turn it is. A schedule of the manifest is ignored: begin what
    /// it would begin.
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
        TestJobRun::new(call, record)
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
