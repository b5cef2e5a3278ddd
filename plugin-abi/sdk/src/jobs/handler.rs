//! The function that does the work of a job, called as the handlers of routes are.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
};

use super::Job;
use crate::{
    Level, PluginContext, Request, Response, Result,
    handler::{Asynchronous, BoxedFuture},
};

/// What the handler of a job is called in the list that the host reads.
pub(crate) const HANDLER_PREFIX: &str = "job:";
/// What a job that was asked to stop answers.
const STOPPED: u16 = 202;

/// The handler of a job: `async fn(PluginContext, Job) -> Result<()>`, given to [`Router::job`](crate::Router::job).
///
/// Every such function and closure implements it; don't implement it by hand. It runs on the same threads as a
/// [`Handler`](crate::Handler), and must not block them either. `Ok` means that the job is done, an error that it
/// failed: the error's text is for the operator.
///
/// ```
/// use cardinal_plugin::{Job, JobHandler, PluginContext, Result};
///
/// async fn refresh(ctx: PluginContext, job: Job) -> Result<()> {
///     ctx.log(cardinal_plugin::Level::Info, format!("job {} has nothing to do", job.id()));
///     Ok(())
/// }
///
/// /// Compiles for what `Router::job` takes.
/// fn is_handler(_: impl JobHandler) {}
/// is_handler(refresh);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the handler of a job",
    note = "the handler of a job is `async fn(PluginContext, Job) -> cardinal_plugin::Result<()>`, and its future is `Send`"
)]
pub trait JobHandler: Send + Sync + 'static {
    /// Runs the handler up to its future, which the host polls.
    ///
    /// The SDK calls it. An author may, too, to do something around a handler:
    ///
    /// ```
    /// use cardinal_plugin::{Job, JobHandler, Level, PluginContext, Result};
    ///
    /// /// Logs how the handler has ended.
    /// fn logged<H: JobHandler + Clone>(handler: H) -> impl JobHandler {
    ///     move |ctx: PluginContext, job: Job| {
    ///         let handler = handler.clone();
    ///         async move {
    ///             let outcome: Result<()> = handler.run(ctx.clone(), job).await;
    ///             ctx.log(Level::Info, format!("the job has ended: {outcome:?}"));
    ///             outcome
    ///         }
    ///     }
    /// }
    /// # use cardinal_plugin::{Router, block_on, testing::{JobEnd, TestHost, TestJob}};
    /// # async fn import(_: PluginContext, _: Job) -> Result<()> {
    /// #     Ok(())
    /// # }
    /// # let manifest = r#"{ "name": "prices", "version": "1.0.0", "backend": { "jobs": [{ "name": "import" }] } }"#;
    /// # let host = TestHost::new(manifest, |_: &PluginContext| Router::new().job("import", logged(import)));
    /// # assert!(matches!(block_on(host.begin_job(TestJob::new("import"))), JobEnd::Done));
    /// # assert_eq!(host.log()[0].message, "the job has ended: Ok(())");
    /// ```
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
