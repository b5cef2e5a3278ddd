//! Reading an archive back. It is checked to its last byte before anything is touched; then an empty database is
//! filled, or a new one is filled beside the one in use and put in its place when it is complete.

mod fill;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tokio_postgres::Client;

use self::fill::step;
use super::{
    LOCK_MEMBER, LeftOut, Progress, SEALING_KEY_MEMBER, SETTINGS_MEMBER, Summary, TOKEN_SECRET_MEMBER,
    archive::{Members, OnExisting, VerifiedArchive},
};
use cardinal_base::{
    config::{Config, Secret},
    seal::SealingKey,
    secret_file::{self, TOKEN_SECRET_FILE},
};
use cardinal_database::connect::{self, ConnectParams};
use cardinal_schema::{
    dump, migrate,
    prepare::{self, Preparation, PreparedDatabase, SecretSource},
    sealed_settings,
};
use cardinal_supervisor::access::{Access, MissingDatabase};

const RESTORED_SETTINGS_FILE: &str = "restored-settings.json";
/// Databases that a server usually has, to stand on while ours is exchanged.
const STANDPOINTS: [&str; 2] = ["postgres", "template1"];
const HEAD_PREFIX: &str = super::HEAD;

/// Restores `file` into the database and `DATA_DIR` of these settings.
///
/// # Errors
/// In words for an operator; then the database holds what it held before.
pub async fn restore(
    config: &Config,
    file: &Path,
    existing: OnExisting,
    without_plugins: &[String],
    progress: &mut dyn Progress,
) -> anyhow::Result<Summary> {
    let archive = VerifiedArchive::open(file)?;
    if !migrate::knows(&archive.head.migrations) {
        bail!(
            "{} was made by Cardinal {}, which has tables that this version ({}) does not know: use that version or \
             a newer one",
            file.display(),
            archive.head.core,
            env!("CARGO_PKG_VERSION")
        );
    }
    let (plugins, left_out) = (&archive.manifest.plugins, &archive.manifest.left_out);
    let is_there = |name: &String| {
        plugins.iter().any(|plugin| plugin.name == *name) || left_out.iter().any(|it| it.plugin == *name)
    };
    if let Some(name) = without_plugins.iter().find(|name| !is_there(name)) {
        bail!("--without-plugin {name}: the backup has no tables of a plugin with this name");
    }
    progress.done("checked the backup");
    let access = Access::open(config, MissingDatabase::Made).await?;
    let restored = Restore {
        config,
        access: &access,
        archive: &archive,
        existing,
        without_plugins,
        progress,
        without: missing(left_out, without_plugins),
    }
    .run()
    .await;
    access.close().await;
    restored
}

/// What the backup had to leave out.
fn missing(left_out: &[LeftOut], excluded: &[String]) -> Vec<LeftOut> {
    let why = |it: &LeftOut| format!("the backup has none of them: {}", it.why);
    let of = |it: &LeftOut| LeftOut { why: why(it), is_asked: excluded.contains(&it.plugin), ..it.clone() };
    left_out.iter().map(of).collect()
}

struct Restore<'a> {
    config: &'a Config,
    access: &'a Access,
    archive: &'a VerifiedArchive,
    existing: OnExisting,
    /// Whose tables the operator leaves out.
    without_plugins: &'a [String],
    progress: &'a mut dyn Progress,
    without: Vec<LeftOut>,
}

impl Restore<'_> {
    async fn run(&mut self) -> anyhow::Result<Summary> {
        let preparation = self.access.preparation();
        // As whoever can get in: the owner, where the login is good for nothing.
        let client = preparation.session().await?;
        let files = if !dump::is_used(&client).await? {
            drop(client);
            self.fill_empty(&preparation).await?
        } else if self.existing == OnExisting::Refuse {
            bail!(
                "the database {:?} is in use: restore into an empty one (another DATA_DIR or DATABASE_URL), or pass \
                 --replace to replace it with the backup",
                preparation.login.dbname
            );
        } else {
            self.replace(&preparation, client).await?
        };
        self.put_files(files)
    }

    /// What was there before was nothing, and is nothing again when this fails.
    async fn fill_empty(&mut self, preparation: &Preparation) -> anyhow::Result<Files> {
        match self.fill(preparation).await {
            Ok(files) => Ok(files),
            Err(error) => {
                if let Err(cleanup_error) = self.empty(preparation).await {
                    let message = format!("failed to empty the database again ({cleanup_error:#}): create a new one");
                    return Err(error.context(message));
                }
                Err(error)
            }
        }
    }

    async fn empty(&self, preparation: &Preparation) -> anyhow::Result<()> {
        let owner = preparation.owner_session().await?;
        let prepared = PreparedDatabase { names: preparation.names.clone(), passwords: self.passwords(&owner).await? };
        let provision = prepared.names.provision();
        let provisioner = preparation.login.with_login(&provision, prepared.passwords.for_role(&provision));
        for plugin in &self.archive.manifest.plugins {
            // It may not have been made yet.
            if let Err(error) = step(&plugin.name, "", "", &provisioner, &prepared).drop_all().await {
                tracing::debug!(plugin = plugin.name, error = format!("{error:#}"), "nothing to remove");
            }
        }
        dump::drop_core(&owner).await
    }

    async fn passwords(&self, owner: &Client) -> anyhow::Result<cardinal_database::roles::RolePasswords> {
        let secret = match &self.access.secret {
            SecretSource::Known(secret) => secret.clone(),
            SecretSource::InDatabase => prepare::secret_in(owner).await?.context("no secret for the role passwords")?,
        };
        Ok(cardinal_database::roles::RolePasswords::from_secret(secret))
    }

    /// A new database is filled beside the one in use, which serves on until the last moment.
    async fn replace(&mut self, preparation: &Preparation, client: Client) -> anyhow::Result<Files> {
        if !dump::may_replace(&client).await? {
            bail!(
                "the login {:?} may not create databases, so it cannot replace {:?}: have an administrator recreate \
                 it empty, then restore",
                preparation.login.user,
                preparation.login.dbname
            );
        }
        drop(client);
        let current = preparation.login.dbname.clone();
        let (new, old) = (format!("{current}_restoring"), format!("{current}_replaced"));
        let standpoint = standpoint(&preparation.login).await?;
        dump::create_database(&standpoint, &new, &current).await?;
        let filled = self.fill_beside(preparation, &new).await;
        let files = match filled {
            Ok(files) => files,
            Err(error) => {
                dump::drop_database(&standpoint, &new).await?;
                return Err(error);
            }
        };
        dump::drop_database(&standpoint, &old).await?;
        if let Err(error) = dump::exchange(&standpoint, &current, &new, &old).await {
            dump::drop_database(&standpoint, &new).await?;
            return Err(error);
        }
        dump::drop_database(&standpoint, &old).await?;
        self.progress.done("put the restored database in its place");
        Ok(files)
    }

    async fn fill_beside(&mut self, preparation: &Preparation, new: &str) -> anyhow::Result<Files> {
        let mut beside = Preparation {
            login: ConnectParams { dbname: new.to_owned(), ..preparation.login.clone() },
            is_beside: true,
            ..preparation.clone()
        };
        // Role passwords are one for the whole server: hosts at work must not lose theirs.
        let mut shared = None;
        if matches!(preparation.secret, SecretSource::InDatabase) {
            shared = prepare::secret_in(&preparation.owner_session().await?).await?;
        }
        if let Some(secret) = &shared {
            beside.secret = SecretSource::Known(secret.clone());
        }
        let files = self.fill(&beside).await?;
        if let Some(secret) = &shared {
            prepare::keep_secret(&mut beside.owner_session().await?, secret).await?;
        }
        Ok(files)
    }

    async fn fill(&mut self, preparation: &Preparation) -> anyhow::Result<Files> {
        let mut tar = self.archive.tar()?;
        let mut members = Members::new(&mut tar, &self.archive.manifest)?;
        members.next(HEAD_PREFIX)?;
        let mut files = Files::read(&mut members)?;
        // The core's tables as they were when the backup was made; they are brought up to date with their rows in them.
        let then = Preparation { migrations: self.archive.head.migrations.len(), ..preparation.clone() };
        then.make().await?;
        let owner = then.owner_session().await?;
        self.fill_schema(&owner, &mut members, "public").await?;
        drop(owner);
        let prepared = preparation.make().await?;
        let owner = preparation.owner_session().await?;
        let before = files.sealing_key.take().and_then(|text| SealingKey::import(&Secret::new(text)));
        files.unreadable = sealed_settings::reseal(&owner, before.as_ref(), &prepared.passwords.sealing_key()).await?;
        drop(owner);
        let provision = prepared.names.provision();
        let provisioner = preparation.login.with_login(&provision, prepared.passwords.for_role(&provision));
        for plugin in &self.archive.manifest.plugins {
            if self.without_plugins.contains(&plugin.name) {
                self.skip_plugin(plugin, &mut members)?;
                continue;
            }
            let filled = self.fill_plugin(plugin, &mut members, &provisioner, &prepared).await;
            let Err(error) = filled else { continue };
            if !dump::is_of_the_tables(&error) {
                let name = &plugin.name;
                let message =
                    format!("restoring plugin {name}; to restore everything else, add --without-plugin {name}");
                return Err(error.context(message));
            }
            self.skip_members(plugin, &mut members)?;
            step(&plugin.name, "", "", &provisioner, &prepared).drop_all().await?;
            self.leave_out(LeftOut::failed(&plugin.name, &error));
        }
        Ok(files)
    }

    fn leave_out(&mut self, left_out: LeftOut) {
        left_out.note(self.progress);
        self.without.push(left_out);
    }

    fn put_files(&self, files: Files) -> anyhow::Result<Summary> {
        let without = self.without.clone();
        let mut summary =
            Summary { unreadable: files.unreadable, without, ..Summary::from_manifest(&self.archive.manifest) };
        let data_dir = &self.config.paths.data_dir;
        let own_secret = self.config.auth.token_secret.is_none();
        std::fs::create_dir_all(data_dir).with_context(|| format!("making {}", data_dir.display()))?;
        let places = [
            (files.lock, Some(self.config.plugins.lock_file.clone())),
            (files.settings, Some(data_dir.join(RESTORED_SETTINGS_FILE))),
            (files.token_secret, own_secret.then(|| data_dir.join(TOKEN_SECRET_FILE))),
        ];
        for (content, place) in places {
            let (Some(content), Some(place)) = (content, place) else { continue };
            self.put(content, place, &mut summary)?;
        }
        Ok(summary)
    }

    fn put(&self, content: String, place: PathBuf, summary: &mut Summary) -> anyhow::Result<()> {
        if place.exists() && self.existing == OnExisting::Refuse {
            summary.kept.push(place);
            return Ok(());
        }
        secret_file::write(&place, content.trim_end()).with_context(|| format!("writing {}", place.display()))?;
        summary.files.push(place);
        Ok(())
    }
}

/// What belongs beside the database.
#[derive(Default)]
struct Files {
    lock: Option<String>,
    settings: Option<String>,
    token_secret: Option<String>,
    sealing_key: Option<String>,
    /// Plugins whose secret settings do not open here.
    unreadable: Vec<String>,
}

impl Files {
    fn read(members: &mut Members<'_>) -> anyhow::Result<Self> {
        let mut files = Self::default();
        for (name, place) in [
            (LOCK_MEMBER, &mut files.lock),
            (SETTINGS_MEMBER, &mut files.settings),
            (TOKEN_SECRET_MEMBER, &mut files.token_secret),
            (SEALING_KEY_MEMBER, &mut files.sealing_key),
        ] {
            if let Some((_, content)) = members.next(name)? {
                *place = Some(String::from_utf8(content).with_context(|| format!("{name} is not UTF-8"))?);
            }
        }
        Ok(files)
    }
}

async fn standpoint(login: &ConnectParams) -> anyhow::Result<Client> {
    let mut cleanup_error = None;
    for dbname in STANDPOINTS {
        let elsewhere = ConnectParams { dbname: dbname.to_owned(), ..login.clone() };
        match connect::connect(&elsewhere).await {
            Ok(client) => {
                client.batch_execute("SET search_path = pg_catalog, pg_temp").await.context("preparing a session")?;
                return Ok(client);
            }
            Err(error) => cleanup_error = Some(error),
        }
    }
    let message = "no other database to connect to while this one is replaced";
    Err(cleanup_error.map_or_else(|| anyhow::anyhow!(message), |error| anyhow::Error::new(error).context(message)))
}
