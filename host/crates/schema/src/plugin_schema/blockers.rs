//! The plugin's own sessions in the way of work on it.

use std::pin::pin;
use std::time::Duration;

use anyhow::Context as _;

use super::Step;
use cardinal_database::connect;

impl Step<'_> {
    /// What `work` in the session `backend` gives. Whenever it has taken `timeout` once more, the sessions of the
    /// run-time role that keep it from a lock are ended, and `ended` gets how many.
    ///
    /// # Errors
    /// As the server reports them, when sessions cannot be ended.
    pub async fn past_blockers<T>(
        &self,
        backend: i32,
        timeout: Duration,
        work: impl Future<Output = T>,
        mut ended: impl FnMut(i32),
    ) -> anyhow::Result<T> {
        let mut work = pin!(work);
        loop {
            match tokio::time::timeout(timeout, &mut work).await {
                Ok(result) => return Ok(result),
                Err(_) => ended(self.end_blockers(backend).await?),
            }
        }
    }

    async fn end_blockers(&self, backend: i32) -> anyhow::Result<i32> {
        let provisioner = connect::connect(self.provisioner).await.context("logging in as the provisioner")?;
        let end = "SELECT cardinal.end_plugin_sessions($1, pg_catalog.pg_blocking_pids($2))";
        let ended = provisioner.query_one(end, &[&self.plugin, &backend]).await.context("ending sessions")?;
        Ok(ended.try_get(0)?)
    }
}
