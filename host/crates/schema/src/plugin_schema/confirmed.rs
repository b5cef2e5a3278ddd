//! What an operator has agreed to lose: `plugin_confirmations`, written by the core, believed for one step of the
//! package that it was given for.

use anyhow::Context as _;
use tokio_postgres::Transaction;

use super::Step;

impl Step<'_> {
    /// The losses that were agreed to for this package and have not happened yet.
    pub(super) async fn agreed_losses(&self, step_tx: &Transaction<'_>) -> anyhow::Result<Vec<String>> {
        let sql = "SELECT losses FROM public.plugin_confirmations
                     WHERE plugin = $1 AND sha256 = $2 AND used_at IS NULL";
        let row = step_tx.query_opt(sql, &[&self.plugin, &self.package]).await;
        let row = row.context("asking what an operator has confirmed")?;
        Ok(row.map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
    }

    /// Good once: whoever makes the losses possible again has to ask again.
    pub(super) async fn use_up(&self, step_tx: &Transaction<'_>) -> anyhow::Result<()> {
        let used = "UPDATE public.plugin_confirmations SET used_at = now()
                    WHERE plugin = $1 AND sha256 = $2 AND used_at IS NULL";
        step_tx.execute(used, &[&self.plugin, &self.package]).await.context("noting that a confirmation was used")?;
        Ok(())
    }
}
