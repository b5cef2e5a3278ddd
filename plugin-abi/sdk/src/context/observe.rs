//! What the plugin lets others see of its work: log, metrics, progress.

use cardinal_plugin_abi::Slice;
use serde_json::Value;

use super::PluginContext;
use crate::{Level, Metrics};

impl PluginContext {
    /// Writes a line to the plugin's log, with the request id of the call.
    ///
    /// The line is in the host's log and in `GET /v1/admin/plugin-registry/<name>/logs`. The message is cut after 8
    /// KiB. A plugin may write 500 lines and 1 MiB a second; the host drops the lines above that, and counts and
    /// reports them. Credentials that can be recognised are masked, but log none all the same.
    ///
    /// Never waits, never fails; after the plugin has been stopped the line is dropped. With the features `tracing` and
    /// `log` the macros of these crates do the same.
    ///
    /// ```
    /// use cardinal_plugin::{Level, PluginContext, Router, json};
    /// use cardinal_plugin::testing::TestHost;
    ///
    /// let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// let ctx = host.context();
    /// ctx.log(Level::Info, "The feed was read.");
    /// ctx.log_with(Level::Warn, "The feed has no prices.", &json!({ "feed": "spring", "rows": 1200 }));
    ///
    /// let lines = host.log();
    /// assert!(lines[0].is(Level::Info) && lines[0].message == "The feed was read.");
    /// assert_eq!(lines[1].field("rows"), json!(1200));
    /// ```
    pub fn log(&self, level: Level, message: impl AsRef<str>) {
        self.log_with(level, message, &Value::Null);
    }

    /// Writes a line like [`log`](Self::log), with fields: a JSON object, cut after 16 KiB of text.
    ///
    /// Any other JSON value is ignored. Put what differs from line to line into fields and keep the message constant,
    /// so that lines can be found and counted.
    ///
    /// ```
    /// use cardinal_plugin::{Level, json};
    ///
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// ctx.log_with(Level::Warn, "A supplier sent no prices.", &json!({ "supplier": "oak-and-co", "rows": 1200 }));
    /// assert_eq!(host.log()[0].field("supplier"), "oak-and-co");
    /// ```
    pub fn log_with(&self, level: Level, message: impl AsRef<str>, fields: &Value) {
        let fields = if fields.is_object() { fields.to_string() } else { String::new() };
        let (message, fields) = (Slice::text(message.as_ref()), Slice::text(&fields));
        (self.core.host.log())(self.core.ctx, self.call_id(), level as u32, message, fields, Slice::default());
    }

    /// Reports how far the call is: `done` of `total`, where the total is known, and a few words.
    ///
    /// An MCP client that has asked for progress gets the latest report, at most ten a second. In any other call, and
    /// outside one, nothing happens. Never waits, and does not extend the call's deadline. A `done` below 0 counts as
    /// 0, a `total` of 0 or less as unknown, and the text is cut after 1 KiB. A job reports with
    /// [`Job::progress`](crate::Job::progress) instead.
    ///
    /// ```
    /// # fn f(ctx: &cardinal_plugin::PluginContext) {
    /// ctx.progress(3.0, Some(10.0), "3 of 10 pages read");
    /// ctx.progress(4.0, None, "Reading another page");
    /// # }
    /// ```
    pub fn progress(&self, done: f64, total: Option<f64>, text: impl AsRef<str>) {
        if let Some(call) = &self.call {
            (self.core.host.progress())(
                self.core.ctx,
                call.id,
                done,
                total.unwrap_or(f64::NAN),
                Slice::text(text.as_ref()),
            );
        }
    }

    /// Returns the plugin's metrics, which are part of the host's `/metrics`. See [`Metrics`] for names and bounds.
    ///
    /// ```
    /// # use cardinal_plugin::{PluginContext, Router, testing::TestHost};
    /// # let host = TestHost::new(r#"{ "name": "feeds", "version": "1.0.0" }"#, |_: &PluginContext| Router::new());
    /// # let ctx = host.context();
    /// ctx.metrics().count("prices_read", 3);
    /// assert_eq!((host.metrics()[0].name.as_str(), host.metrics()[0].value), ("prices_read", 3.0));
    /// ```
    pub fn metrics(&self) -> Metrics<'_> {
        Metrics::new(&self.core, self.call_id())
    }
}
