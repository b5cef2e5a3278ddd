//! The supervisor's journal: `DATA_DIR/crashes.json` holds the workers that ended on their own and the plugins that are
//! set aside for it. It is this host's alone, bounded, and holds neither requests nor anything that they carried.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitStatus,
};

use cardinal_control::crash::{
    history::{CrashHistory, QuarantinedPackage},
    record::{Cause, Crash},
};

const FILE: &str = "crashes.json";

/// How one life of the worker ended.
pub(crate) struct WorkerExit {
    pub status: Option<ExitStatus>,
    /// Nothing when it ended because it wanted to.
    pub crash: Option<Crash>,
}

/// The history, and where it is kept.
#[derive(Debug)]
pub struct Crashes {
    file: PathBuf,
    history: CrashHistory,
}

impl Crashes {
    /// What was remembered. A file that cannot be read is set aside and said: a host that does not start because of it
    /// would be worse than one that forgot.
    pub fn open(data_dir: &Path) -> Self {
        let file = data_dir.join(FILE);
        let history = read(&file).unwrap_or_else(|error| {
            let aside = file.with_extension("json.damaged");
            tracing::error!(file = %file.display(), aside = %aside.display(), %error, "failed to read the crash \
                history; plugins that were quarantined are loaded again");
            if let Err(error) = fs::rename(&file, &aside) {
                tracing::warn!(%error, "failed to set the damaged crash history aside");
            }
            CrashHistory::default()
        });
        Self { file, history }
    }

    /// What was remembered, for who only looks.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn peek(data_dir: &Path) -> io::Result<CrashHistory> {
        read(&data_dir.join(FILE))
    }

    pub fn history(&self) -> &CrashHistory {
        &self.history
    }

    /// Writes a crash down, and who is set aside for it.
    pub fn add(&mut self, crash: Crash) -> Option<QuarantinedPackage> {
        let culprit = crash.plugin.as_ref();
        tracing::error!(
            cause = crash.describe(),
            ended = crash.ended,
            plugin = culprit.map(|it| it.name.as_str()),
            version = culprit.map(|it| it.version.as_str()),
            sha256 = culprit.map(|it| it.sha256.as_str()),
            offset = culprit.and_then(|it| it.offset.as_deref()),
            thread = crash.thread,
            uptime_ms = crash.uptime_ms,
            "{}",
            if crash.cause == Cause::Blocked { "a plugin held all its threads" } else { "the worker crashed" }
        );
        if crash.is_unattributed() {
            let (running, calling) = (crash.seen_running(), crash.seen_calling());
            let [running, calling] = [running, calling].map(|it| it.map(|it| &*it.plugin).collect::<Vec<_>>());
            tracing::warn!(?running, ?calling, "it is not known which plugin, if any, ended the worker");
        }
        let aside = self.history.add(crash);
        if let Some(QuarantinedPackage { plugin, version, suspected, .. }) = &aside {
            tracing::error!(plugin, version, suspected, "the plugin is quarantined until an operator releases it");
        }
        self.save();
        aside
    }

    /// Lets a plugin back in; says whether it was set aside.
    pub fn release(&mut self, plugin: &str) -> bool {
        let released = self.history.release(plugin);
        if released {
            tracing::info!(plugin, "the plugin was released from quarantine");
            self.save();
        }
        released
    }

    /// Whole or not at all. What cannot be written still counts while this supervisor lives.
    fn save(&self) {
        if let Err(error) = self.try_save() {
            tracing::error!(file = %self.file.display(), %error, "failed to write the crash history");
        }
    }

    fn try_save(&self) -> io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new()
            .prefix(".crashes")
            .make_in(folder, |path| fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path))?;
        file.write_all(&serde_json::to_vec_pretty(&self.history)?)?;
        file.as_file().sync_all()?;
        file.persist(&self.file)?;
        Ok(())
    }
}

fn read(file: &Path) -> io::Result<CrashHistory> {
    match fs::read(file) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(CrashHistory::default()),
        Err(error) => Err(error),
    }
}
