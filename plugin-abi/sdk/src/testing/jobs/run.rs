//! A job under way, and how it ends.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use serde_json::Value;

use crate::{
    Error,
    testing::{
        TestCall, TestReply,
        fake_host::{JobRecord, lock},
    },
};

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
    /// The handler returned an error after it was asked to stop. The host runs the job again from its checkpoint, or
    /// has cancelled it.
    Stopped,
    /// The handler returned an error, or panicked ([`Error::is_panic`]).
    Failed(Box<Error>),
}

/// A run of a job under way, from [`TestHost::begin_job`].
///
/// It runs when it is awaited or [asked](Self::is_waiting). Dropping it is what a host does with a job that does not
/// stop. Await it as `&mut run` to look at its reports afterwards.
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
///
/// [`TestHost::begin_job`]: crate::testing::TestHost::begin_job
#[derive(Debug)]
#[must_use = "a job runs only when it is awaited"]
pub struct TestJobRun {
    call: TestCall,
    record: Arc<JobRecord>,
}

impl TestJobRun {
    pub(super) fn new(call: TestCall, record: Arc<JobRecord>) -> Self {
        Self { call, record }
    }

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
