//! Tables filled with the rows of an archive, those of plugins after their schema steps were made again.

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::SinkExt as _;
use tokio_postgres::Client;

use super::Restore;
use crate::backup::{LeftOut, Manifest, Plugin, Rows, archive::Members};
use cardinal_control::link::ProvisionFault;
use cardinal_database::{connect::ConnectParams, roles::plugin_schema_name};
use cardinal_schema::{
    dump,
    plugin_schema::{LockLimits, SCHEMA_TIMEOUT, Step, StepError},
    prepare::PreparedDatabase,
};

/// How long the rows of a plugin may be held against its own checks; what is not done then stays NOT VALID.
const CHECKS_LIMIT: Duration = Duration::from_secs(60);

/// Connections of a plugin until a host makes the step with its package. More would leave a server without room for all
/// plugins that it served.
const STEP_CONNECTIONS: u32 = 1;

impl Restore<'_> {
    pub(super) async fn fill_plugin(
        &mut self,
        plugin: &Plugin,
        members: &mut Members<'_>,
        provisioner: &ConnectParams,
        prepared: &PreparedDatabase,
    ) -> anyhow::Result<()> {
        let mut refused = None;
        for (index, version) in plugin.steps.iter().enumerate() {
            let (_, text) = members
                .next(&format!("schema/{}/{}.sql", plugin.name, index + 1))?
                .context("one of its schema.sql files is missing")?;
            let schema_sql = String::from_utf8(text).context("its schema.sql is not UTF-8")?;
            let step = step(&plugin.name, version, &schema_sql, provisioner, prepared);
            let mut made = step.make().await;
            if let Err(StepError::Refused(fault)) = &made
                && is_about_rows(fault)
            {
                // What an earlier file put in may have been gone when this one ran.
                empty(&step).await?;
                made = step.make().await;
            }
            match made {
                Ok(_) => {}
                // An older version's, with what no schema.sql may say any more: later ones may make all of it.
                Err(StepError::Refused(fault)) => refused = Some((version, fault)),
                Err(StepError::Failed(error)) => return Err(error),
            }
        }
        let step = step(&plugin.name, "", "", provisioner, prepared);
        let (writer, closer) = step.writer().await?;
        let schema = plugin_schema_name(&plugin.name);
        let filled = match (self.is_complete(&writer, &schema).await, refused) {
            (Err(lacks), Some((version, fault))) => {
                let why = format!("schema.sql of version {version} is refused ({fault}), and {lacks:#}");
                self.leave_out(LeftOut { plugin: plugin.name.clone(), why, is_asked: false });
                self.skip_members(plugin, members)?;
                drop(writer);
                step.close_writer(&closer).await?;
                return step.drop_all().await;
            }
            (Err(lacks), None) => Err(lacks),
            (Ok(()), _) => self.fill_schema(&writer, members, &schema).await,
        };
        drop(writer);
        step.close_writer(&closer).await?;
        filled
    }

    async fn is_complete(&self, client: &Client, schema: &str) -> anyhow::Result<()> {
        compare(&dump::tables(client, schema).await?, &self.archive.manifest, schema)
    }

    /// What the operator has left out.
    pub(super) fn skip_plugin(&mut self, plugin: &Plugin, members: &mut Members<'_>) -> anyhow::Result<()> {
        self.skip_members(plugin, members)?;
        let why = "left out by --without-plugin".to_owned();
        self.without.push(LeftOut { plugin: plugin.name.clone(), why, is_asked: true });
        Ok(())
    }

    /// What is left in the archive of a plugin that has no tables for it.
    pub(super) fn skip_members(&self, plugin: &Plugin, members: &mut Members<'_>) -> anyhow::Result<()> {
        while members.next(&format!("schema/{}/", plugin.name))?.is_some() {}
        let schema = plugin_schema_name(&plugin.name);
        for rows in self.archive.manifest.tables.iter().filter(|rows| rows.table.schema == schema) {
            while members.next(&format!("data/{}/", rows.number))?.is_some() {}
        }
        Ok(())
    }

    pub(super) async fn fill_schema(
        &mut self,
        client: &Client,
        members: &mut Members<'_>,
        schema: &str,
    ) -> anyhow::Result<()> {
        let manifest: &Manifest = &self.archive.manifest;
        dump::begin_writing(client, schema).await?;
        let back = dump::stand_aside(client, schema).await?;
        let mut checks = Vec::new();
        if schema != "public" {
            checks = dump::checks_aside(client, schema).await?;
            dump::empty(client, schema).await?;
        }
        for rows in manifest.tables.iter().filter(|rows| rows.table.schema == schema) {
            self.fill_table(client, members, rows).await?;
        }
        for sequence in manifest.sequences.iter().filter(|sequence| sequence.schema == schema) {
            dump::set_sequence(client, sequence).await?;
        }
        for open in dump::checks_again(client, &checks, CHECKS_LIMIT).await? {
            self.progress.note(&format!("{schema}: a check holds for new rows alone: {open}"));
        }
        dump::stand_again(client, &back).await?;
        if schema == "public" {
            dump::fill_card_lists(client).await?;
        }
        dump::commit(client).await
    }

    async fn fill_table(&mut self, client: &Client, members: &mut Members<'_>, rows: &Rows) -> anyhow::Result<()> {
        let what = format!("{}.{}", rows.table.schema, rows.table.name);
        // A constraint of a plugin's may take its time with each row: one sees whose.
        self.progress.rows(&what, 0);
        let mut sink = std::pin::pin!(dump::copy_in(client, &rows.table).await?);
        while let Some((_, part)) = members.next(&format!("data/{}/", rows.number))? {
            sink.send(part.into()).await.with_context(|| format!("writing {what}"))?;
        }
        let written = sink.finish().await.with_context(|| format!("writing {what}"))?;
        if written != rows.rows {
            bail!("{what} took {written} rows of {}", rows.rows);
        }
        self.progress.rows(&what, written);
        self.progress.done(&what);
        Ok(())
    }
}

pub(super) fn step<'a>(
    plugin: &'a str,
    version: &'a str,
    schema_sql: &'a str,
    provisioner: &'a ConnectParams,
    prepared: &'a PreparedDatabase,
) -> Step<'a> {
    Step {
        plugin,
        version,
        package: "",
        schema_sql,
        connections: STEP_CONNECTIONS,
        provisioner,
        names: &prepared.names,
        passwords: &prepared.passwords,
        start_options: false,
        schema_timeout: SCHEMA_TIMEOUT,
        lock_limits: LockLimits::default(),
        is_kept: false,
        replay: true,
    }
}

/// Whether rows break a rule that schema.sql makes.
fn is_about_rows(fault: &ProvisionFault) -> bool {
    matches!(fault, ProvisionFault::Refused { found, .. } if found.starts_with("22") || found.starts_with("23"))
}

async fn empty(step: &Step<'_>) -> anyhow::Result<()> {
    let schema = plugin_schema_name(step.plugin);
    let (writer, closer) = step.writer().await?;
    dump::begin_writing(&writer, &schema).await?;
    dump::empty(&writer, &schema).await?;
    dump::commit(&writer).await?;
    drop(writer);
    step.close_writer(&closer).await
}

/// Rows must find the columns that they come from: else something would be lost without a word.
fn compare(found: &[dump::Table], manifest: &Manifest, schema: &str) -> anyhow::Result<()> {
    for rows in manifest.tables.iter().filter(|rows| rows.table.schema == schema) {
        let made = found.iter().find(|table| table.name == rows.table.name);
        let Some(made) = made else {
            bail!("the backup has rows of {schema}.{}, a table that schema.sql does not make", rows.table.name);
        };
        let lost: Vec<&String> = rows.table.columns.iter().filter(|column| !made.columns.contains(column)).collect();
        if !lost.is_empty() {
            bail!("the backup has columns of {schema}.{} that schema.sql does not make: {lost:?}", rows.table.name);
        }
    }
    Ok(())
}
