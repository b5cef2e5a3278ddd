//! What is recorded of a plugin's schema: whose turn it is, which schema.sql ran last, and all of them for backups.

use std::time::Instant;

use anyhow::Context as _;
use tokio_postgres::{Client, Transaction};

use super::{STEP_LOCK_TIMEOUT, Step};

/// Of the last step.
pub(super) struct StepRecord {
    pub hash: Option<Vec<u8>>,
    pub version: Option<String>,
    pub first_time: bool,
}

impl Step<'_> {
    /// Makes the plugin's row, for good: whoever closes a schema role that a first step left open finds it by this row.
    pub(super) async fn make_row(&self, session: &Client) -> anyhow::Result<()> {
        session.batch_execute(&format!("SET lock_timeout = '{STEP_LOCK_TIMEOUT}'")).await?;
        let insert = "INSERT INTO public.plugin_schema_state (plugin) VALUES ($1) ON CONFLICT DO NOTHING";
        session.execute(insert, &[&self.plugin]).await.context("making the plugin's row")?;
        Ok(())
    }

    /// Waits until no other host is at this plugin, and keeps others waiting until the transaction ends.
    pub(super) async fn lock_step(&self, step_tx: &Transaction<'_>) -> anyhow::Result<StepRecord> {
        let row = step_tx
            .query_one(
                "SELECT schema_sha256, plugin_version FROM public.plugin_schema_state WHERE plugin = $1 FOR UPDATE",
                &[&self.plugin],
            )
            .await
            .context("waiting for another host that is at this plugin")?;
        let hash: Option<Vec<u8>> = row.try_get("schema_sha256").context("reading the recorded hash")?;
        // The row stays when the plugin's data is dropped, and when its first step fails.
        let version = row.try_get("plugin_version").context("reading the recorded version")?;
        Ok(StepRecord { first_time: hash.is_none(), hash, version })
    }

    pub(super) async fn record(
        &self,
        step_tx: &Transaction<'_>,
        hash: &[u8],
        started: Instant,
        lost: &[String],
    ) -> anyhow::Result<()> {
        let took = i32::try_from(started.elapsed().as_millis()).unwrap_or(i32::MAX);
        step_tx
            .execute(
                "UPDATE public.plugin_schema_state
             SET schema_sha256 = $2, plugin_version = $3, applied_at = now(), duration_ms = $4 WHERE plugin = $1",
                &[&self.plugin, &hash, &self.version, &took],
            )
            .await
            .context("recording the step")?;
        if !lost.is_empty() {
            self.use_up(step_tx).await?;
        }
        self.record_step(step_tx, hash, Some(lost)).await
    }

    /// For restores. A database that older versions worked on gets what was run last when it meets it again.
    pub(super) async fn record_step(
        &self,
        step_tx: &Transaction<'_>,
        hash: &[u8],
        lost: Option<&[String]>,
    ) -> anyhow::Result<()> {
        let (made, lost) = (lost.is_some(), lost.unwrap_or_default());
        step_tx
            .execute(
                "INSERT INTO public.plugin_schema_steps (plugin, number, sha256, plugin_version, schema_sql, losses)
             SELECT $1, coalesce(max(number), 0) + 1, $2, $3, $4, $6 FROM public.plugin_schema_steps WHERE plugin = $1
             HAVING $5 OR count(*) = 0",
                &[&self.plugin, &hash, &self.version, &self.schema_sql, &made, &lost],
            )
            .await
            .context("recording the step for backups")?;
        Ok(())
    }
}
