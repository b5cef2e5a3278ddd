//! Writing an archive: everything in the database as it is at one moment, whoever else is at work.

use std::cell::Cell;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::TryStreamExt as _;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio_postgres::{Client, CopyOutStream, error::SqlState};

use super::{
    FORMAT, HEAD, Head, LOCK_MEMBER, LeftOut, Manifest, PRODUCT, Plugin, Progress, Rows, SEALING_KEY_MEMBER,
    SETTINGS_MEMBER, Summary, TOKEN_SECRET_MEMBER,
    archive::{OnExisting, Writer},
};
use cardinal_base::{config::Config, secret_file::TOKEN_SECRET_FILE};
use cardinal_database::{
    connect,
    roles::{RolePasswords, plugin_schema_name},
};
use cardinal_package::manifest::CONNECTIONS_DEFAULT;
use cardinal_schema::{
    dump, migrate,
    plugin_schema::{LockLimits, SCHEMA_TIMEOUT, Step},
    prepare::{self, SecretSource},
};
use cardinal_supervisor::access::{Access, MissingDatabase};

/// Rows are written in members of about this size, so that memory stays the same however large a table is.
const PART: usize = 8 << 20;

/// How long a table may stay locked by its plugin (`LOCK TABLE`) before the sessions that hold or want the lock are
/// ended.
const LOCK_WAIT: Duration = Duration::from_secs(3);
/// The same for a plugin that has kept a table so long before.
const FURTHER_LOCK_WAIT: Duration = Duration::from_millis(100);

/// A session that reads a plugin's tables.
struct PluginReader<'a> {
    client: Client,
    backend: i32,
    step: Step<'a>,
    lock_wait: Cell<Duration>,
}

/// What goes into the archive beyond the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrets {
    LeftOut,
    Included,
}

/// Backs the host of these settings up into `file`, running or stopped.
///
/// # Errors
/// In words for an operator; then there is no such file, or still the former one.
pub async fn make(
    config: &Config,
    file: &Path,
    existing: OnExisting,
    secrets: Secrets,
    progress: &mut dyn Progress,
) -> anyhow::Result<Summary> {
    let writer = Writer::create(file, existing)?;
    let access = Access::open(config, MissingDatabase::Refused).await?;
    let made = Backup {
        config,
        access: &access,
        writer,
        tables: Vec::new(),
        sequences: Vec::new(),
        left_out: Vec::new(),
        progress,
    }
    .write(secrets)
    .await;
    access.close().await;
    made
}

struct Backup<'a> {
    config: &'a Config,
    access: &'a Access,
    writer: Writer,
    tables: Vec<Rows>,
    sequences: Vec<dump::Sequence>,
    left_out: Vec<LeftOut>,
    progress: &'a mut dyn Progress,
}

impl Backup<'_> {
    async fn write(mut self, secrets: Secrets) -> anyhow::Result<Summary> {
        let owner = self.access.preparation().owner_session().await?;
        let migrations = migrate::applied(&owner).await?;
        if migrations.is_empty() {
            bail!("the database is empty: no host has used it yet");
        }
        if !migrate::knows(&migrations) {
            bail!("the database was migrated by a newer Cardinal than this ({})", env!("CARGO_PKG_VERSION"));
        }
        let passwords = self.passwords(&owner).await?;
        let holder = self.access.preparation().owner_session().await?;
        dump::hold_steps(&holder).await?;
        let moment = dump::begin_reading(&owner).await?;
        drop(holder);
        self.head(migrations)?;
        self.files(secrets, &passwords)?;
        for table in dump::tables(&owner, "public").await? {
            let lines = dump::copy_out(&owner, &table).await?;
            self.table(table, lines).await?;
        }
        self.sequences.extend(dump::sequences(&owner, "public").await?);
        let plugins = self.plugins(&owner, &passwords, &moment).await?;
        let manifest = Manifest {
            members: Vec::new(),
            tables: self.tables,
            sequences: self.sequences,
            plugins,
            left_out: self.left_out,
            secrets: secrets == Secrets::Included,
        };
        let manifest = self.writer.finish(manifest)?;
        Ok(Summary::from_manifest(&manifest))
    }

    async fn passwords(&self, owner: &Client) -> anyhow::Result<RolePasswords> {
        let secret = match &self.access.secret {
            SecretSource::Known(secret) => secret.clone(),
            SecretSource::InDatabase => prepare::secret_in(owner)
                .await?
                .context("the secret for the role passwords is missing: start the host once")?,
        };
        Ok(RolePasswords::from_secret(secret))
    }

    fn head(&mut self, migrations: Vec<String>) -> anyhow::Result<()> {
        let head = Head {
            product: PRODUCT.to_owned(),
            format: FORMAT,
            core: env!("CARGO_PKG_VERSION").to_owned(),
            made_at: OffsetDateTime::now_utc().format(&Rfc3339)?,
            migrations,
        };
        self.writer.add(HEAD, &serde_json::to_vec_pretty(&head)?)
    }

    fn files(&mut self, secrets: Secrets, passwords: &RolePasswords) -> anyhow::Result<()> {
        if let Some(lock) = read_if_there(&self.config.plugins.lock_file)? {
            self.writer.add(LOCK_MEMBER, &lock)?;
        }
        self.writer.add(SETTINGS_MEMBER, &serde_json::to_vec_pretty(&self.config.without_secrets())?)?;
        let token_secret = self.config.paths.data_dir.join(TOKEN_SECRET_FILE);
        if secrets == Secrets::Included
            && let Some(secret) = read_if_there(&token_secret)?
        {
            self.writer.add(TOKEN_SECRET_MEMBER, &secret)?;
        }
        if secrets == Secrets::Included {
            self.writer.add(SEALING_KEY_MEMBER, passwords.sealing_key().export().expose().as_bytes())?;
        }
        Ok(())
    }

    async fn plugins(
        &mut self,
        owner: &Client,
        passwords: &RolePasswords,
        moment: &str,
    ) -> anyhow::Result<Vec<Plugin>> {
        let preparation = self.access.preparation();
        let provision = preparation.names.provision();
        let provisioner = preparation.login.with_login(&provision, passwords.for_role(&provision));
        for plugin in dump::unrecorded(owner).await? {
            let why = anyhow::anyhow!(
                "it is not recorded how its tables were made: start this version of the host once with that plugin, and \
                 back up then"
            );
            self.leave_out(&plugin, &why);
        }
        let mut plugins: Vec<Plugin> = Vec::new();
        let steps = dump::schema_steps(owner).await?;
        for plugin_steps in steps.chunk_by(|one, other| one.plugin == other.plugin) {
            let name = &plugin_steps[0].plugin;
            let step = Step {
                plugin: name,
                version: "",
                package: "",
                schema_sql: "",
                connections: CONNECTIONS_DEFAULT,
                provisioner: &provisioner,
                names: &preparation.names,
                passwords,
                start_options: false,
                schema_timeout: SCHEMA_TIMEOUT,
                lock_limits: LockLimits::default(),
                is_kept: false,
                replay: true,
            };
            let before = (self.writer.savepoint()?, self.tables.len(), self.sequences.len());
            let Err(error) = self.plugin(step, plugin_steps, moment).await else {
                let versions = plugin_steps.iter().map(|step| step.version.clone()).collect();
                plugins.push(Plugin { name: name.clone(), steps: versions });
                continue;
            };
            if !dump::is_of_the_tables(&error) {
                return Err(error);
            }
            // A server that is gone is nobody's fault.
            dump::look_at_server(owner).await?;
            let (savepoint, tables, sequences) = before;
            self.writer.roll_back_to(&savepoint)?;
            self.tables.truncate(tables);
            self.sequences.truncate(sequences);
            self.leave_out(name, &error);
        }
        Ok(plugins)
    }

    fn leave_out(&mut self, plugin: &str, error: &anyhow::Error) {
        let left_out = LeftOut::failed(plugin, error);
        left_out.note(self.progress);
        self.left_out.push(left_out);
    }

    async fn plugin(&mut self, step: Step<'_>, steps: &[dump::SchemaStep], moment: &str) -> anyhow::Result<()> {
        for (index, made) in steps.iter().enumerate() {
            self.writer.add(&format!("schema/{}/{}.sql", step.plugin, index + 1), made.schema_sql.as_bytes())?;
        }
        let reader = PluginReader::open(step, moment).await?;
        self.plugin_schema(&reader).await
    }

    async fn plugin_schema(&mut self, reader: &PluginReader<'_>) -> anyhow::Result<()> {
        let schema = plugin_schema_name(reader.step.plugin);
        for table in dump::tables(&reader.client, &schema).await? {
            let lines = reader.copy_out(&table, self.progress).await?;
            self.table(table, lines).await?;
        }
        self.sequences.extend(dump::sequences(&reader.client, &schema).await?);
        Ok(())
    }

    async fn table(&mut self, table: dump::Table, lines: CopyOutStream) -> anyhow::Result<()> {
        let what = format!("{}.{}", table.schema, table.name);
        let number = self.tables.len();
        let mut lines = pin!(lines);
        let (mut rows, mut parts, mut part) = (0, 0, Vec::new());
        while let Some(line) = lines.try_next().await.with_context(|| format!("reading {what}"))? {
            part.extend_from_slice(&line);
            rows += 1;
            if part.len() >= PART {
                self.writer.add(&format!("data/{number}/{parts}.copy"), &part)?;
                self.progress.rows(&what, rows);
                parts += 1;
                part.clear();
            }
        }
        if !part.is_empty() {
            self.writer.add(&format!("data/{number}/{parts}.copy"), &part)?;
        }
        self.progress.rows(&what, rows);
        self.progress.done(&what);
        self.tables.push(Rows { table, number, rows });
        Ok(())
    }
}

impl<'a> PluginReader<'a> {
    async fn open(step: Step<'a>, moment: &str) -> anyhow::Result<Self> {
        let mut client = step.reader().await?;
        // The plugin may have given its login time-outs that end the session at once.
        if dump::read_at(&client, moment).await.is_err() {
            client = step.reader_anew().await?;
            dump::read_at(&client, moment).await?;
        }
        let backend = connect::backend_pid(&client).await.context("asking which session it is")?;
        Ok(Self { client, backend, step, lock_wait: Cell::new(LOCK_WAIT) })
    }

    /// Begins to read a table, once no session of the plugin has it locked whole.
    async fn copy_out(&self, table: &dump::Table, progress: &mut dyn Progress) -> anyhow::Result<CopyOutStream> {
        let note = |ended| {
            // It may have locked hundreds of tables.
            self.lock_wait.set(FURTHER_LOCK_WAIT);
            let (plugin, name) = (self.step.plugin, &table.name);
            progress.note(&format!("plugin {plugin} has locked its table {name}: ended {ended} of its sessions"));
        };
        let copied = self
            .step
            .past_blockers(self.backend, self.lock_wait.get(), dump::copy_out(&self.client, table), note)
            .await?;
        copied.map_err(|error| self.explain(error))
    }

    fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let cause = error.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::code);
        if cause != Some(&SqlState::LOCK_NOT_AVAILABLE) {
            return error;
        }
        let plugin = self.step.plugin;
        error.context(format!("plugin {plugin} keeps a table locked: disable the plugin and back up again"))
    }
}

fn read_if_there(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}
