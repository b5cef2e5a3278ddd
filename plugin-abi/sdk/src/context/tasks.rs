//! Work beside the calls: tasks, threads of the plugin's own, and when either is to end.

use std::{
    future::Future,
    sync::PoisonError,
    task::{Context, Waker},
};

use futures_util::FutureExt;

use super::{Cancelled, PluginContext};
use crate::{Task, runtime::Register};

impl PluginContext {
    /// Tells the host that the current thread belongs to this plugin.
    ///
    /// Call it at the beginning of a thread that the plugin starts itself. A crash of the thread, a stack overflow
    /// included, is then attributed to this plugin and not to whoever has calls under way. The threads of the SDK and
    /// of its tokio (`spawn_blocking` included) are registered already; on the host's own threads the call does
    /// nothing.
    ///
    /// ```
    /// # fn f(ctx: &cardinal_plugin::PluginContext) {
    /// let own = ctx.as_plugin();
    /// std::thread::spawn(move || {
    ///     own.register_thread();
    ///     // reads a device, computes for long, ...
    /// });
    /// # }
    /// ```
    pub fn register_thread(&self) {
        Register::with(self.core.host, self.core.ctx).this_thread();
    }

    /// Returns whether the call has been cancelled or is past its deadline; outside a call, whether the plugin is being
    /// stopped.
    ///
    /// It is for loops that compute without an await. Code that awaits needs no check: its future is dropped at the
    /// await. Asking is cheap enough for each turn of a loop that takes a millisecond or more. Once it is true it stays
    /// true.
    ///
    /// ```
    /// use cardinal_plugin::{Error, PluginContext, Result, Router};
    /// use cardinal_plugin::testing::TestHost;
    ///
    /// fn checksum(ctx: &PluginContext, rows: &[u64]) -> Result<u64> {
    ///     let mut sum = 0_u64;
    ///     for rows in rows.chunks(10_000) {
    ///         if ctx.cancelled() {
    ///             return Err(Error::unavailable("Nobody waits for the checksum any more."));
    ///         }
    ///         sum = rows.iter().fold(sum, |sum, row| sum.rotate_left(5) ^ row);
    ///     }
    ///     Ok(sum)
    /// }
    ///
    /// let host = TestHost::new(r#"{ "name": "sums", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let own = host.context();
    /// assert!(checksum(&own, &[1, 2, 3]).is_ok());
    /// drop(host); // the plugin is stopped
    /// assert_eq!(checksum(&own, &[1, 2, 3]).unwrap_err().status(), Some(503));
    /// ```
    pub fn cancelled(&self) -> bool {
        let Some(call) = &self.call else { return self.core.runtime.is_stopped() };
        let mut state = call.cancelled.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, Cancelled::Unasked) {
            *state = Cancelled::Asked((self.core.host.cancelled())(self.core.ctx, call.id));
        }
        if let Cancelled::Asked(answer) = &mut *state
            && answer.poll_unpin(&mut Context::from_waker(Waker::noop())).is_ready()
        {
            *state = Cancelled::Yes;
        }
        matches!(*state, Cancelled::Yes)
    }

    /// Waits until [`cancelled`](Self::cancelled) becomes true.
    ///
    /// Outside a call it is ready when the plugin is to stop, which is the moment when tasks of [`spawn`](Self::spawn)
    /// are dropped, too: it is for threads that the plugin has started itself. In a call it is for code that the call
    /// does not own, such as a task that works for it.
    ///
    /// ```
    /// use std::thread::{JoinHandle, spawn};
    /// use cardinal_plugin::{PluginContext, Router, block_on};
    /// use cardinal_plugin::testing::TestHost;
    ///
    /// /// Keeps a device open on a thread of its own.
    /// fn hold_device(ctx: &PluginContext) -> JoinHandle<()> {
    ///     let own = ctx.as_plugin();
    ///     spawn(move || {
    ///         own.register_thread();
    ///         block_on(own.until_cancelled());
    ///         // closes the device
    ///     })
    /// }
    ///
    /// let host = TestHost::new(r#"{ "name": "device", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let device = hold_device(&host.context());
    /// drop(host); // the plugin is stopped
    /// device.join().unwrap();
    /// ```
    pub fn until_cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        let answer = (self.core.host.cancelled())(self.core.ctx, self.call_id());
        answer.map(|_| ())
    }

    /// Runs `future` on the plugin's own tokio, beside the calls, until it ends or the plugin is stopped.
    ///
    /// All tasks of the plugin share one thread (`<plugin>-io`): a task that blocks it holds up the others, and the
    /// timers and sockets of all handlers. Take `tokio::task::spawn_blocking` for what blocks or computes for long.
    ///
    /// The task goes on when the returned [`Task`] is dropped. When the plugin is stopped, or replaced by a new version
    /// or new settings, the task is dropped at its next await; the host waits up to 10 seconds for that. A panic ends
    /// the task alone and is logged. Pass the task a context made by [`as_plugin`](Self::as_plugin): one of a call is
    /// refused when the call is over.
    ///
    /// ```
    /// use std::time::Duration;
    /// use cardinal_plugin::{Level, PluginContext, tokio};
    ///
    /// fn keep_warm(ctx: &PluginContext) {
    ///     let own = ctx.as_plugin();
    ///     ctx.spawn(async move {
    ///         loop {
    ///             own.log(Level::Debug, "still here");
    ///             tokio::time::sleep(Duration::from_secs(60)).await;
    ///         }
    ///     });
    /// }
    /// ```
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.core.runtime.spawn(self.name(), self.core.scope(self.call_id()), future)
    }
}
