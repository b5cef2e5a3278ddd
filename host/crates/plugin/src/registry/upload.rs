//! A package that comes over the network: one library that carries everything, and its signature. Until it is known to
//! be good it lies in a hidden folder of the plugins folder, which no scan reads and which is removed in every case.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tempfile::TempDir;
use tokio::{sync::MutexGuard, task::spawn_blocking};

use super::{
    Registry,
    candidate::{Candidate, PackageSummary},
    report::PluginReport,
};
use crate::error::RegistryError;
use cardinal_base::secret_file::sync_folder;
use cardinal_package::{
    package::{self, LIBRARY_LIMIT, Package},
    signature::{Keys, SUFFIX, SignatureState, signer_number},
    stages::Examined,
    state::State,
    trust::check_owner,
};
use cardinal_store::plugins;

const DRAFT_PREFIX: &str = ".upload-";
/// What a host that was killed left behind is removed when it is older.
const STALE: Duration = Duration::from_secs(60 * 60);
/// Under which the library lies until its manifest is read.
const UNNAMED: &str = "package.so";

/// A library on its way; gone with everything that was written of it when it is dropped.
pub struct Draft<'r> {
    registry: &'r Registry,
    folder: TempDir,
    /// One at a time: an upload may take a library's size of disk and memory.
    _lock: MutexGuard<'r, ()>,
}

/// What an upload put into the plugins folder.
pub struct UploadReport {
    pub name: String,
    pub version: String,
    pub sha256: String,
    pub signed_by: Option<String>,
}

/// What was found out about a draft by itself.
struct UploadedPackage {
    package: Package,
    name: String,
    version: String,
    signed: SignatureState,
}

impl Registry {
    /// A place for a library that is being sent, and the file to write it to.
    pub async fn draft(&self) -> Result<(Draft<'_>, File), RegistryError> {
        let raw = self.uploading.try_lock().map_err(|_| RegistryError::UploadBusy { retry_after: RETRY_SECONDS })?;
        let plugins_dir = self.watcher.folder().to_owned();
        let made = spawn_blocking(move || begin(&plugins_dir)).await.map_err(RegistryError::internal)?;
        let (folder, file) = made.map_err(not_written)?;
        Ok((Draft { registry: self, folder, _lock: raw }, file))
    }

    /// Whether a package of this plugin lies in the plugins folder as an upload puts it there.
    pub fn has_upload(&self, plugin: &str) -> bool {
        self.uploaded(plugin).is_some()
    }

    /// Takes the package of a plugin that does not serve out of the plugins folder.
    pub async fn remove_upload(&self, plugin: &str) -> Result<PluginReport, RegistryError> {
        let removed = {
            let _alone = self.scanning.lock().await;
            let report = self.uploaded(plugin).ok_or(RegistryError::NotFound("package"))?;
            if !matches!(report.state, State::Disabled | State::Refused | State::Failed | State::Quarantined) {
                let detail = format!("{plugin} is in service. Disable it first, or roll it back.");
                return Err(RegistryError::Conflict(detail));
            }
            let place = self.watcher.folder().join(&report.package);
            let taken = spawn_blocking(move || take_out(&place)).await.map_err(RegistryError::internal)?;
            taken.map_err(not_written)?;
            report
        };
        self.scan_for(plugin).await;
        Ok(removed)
    }

    fn uploaded(&self, plugin: &str) -> Option<PluginReport> {
        let package = format!("{plugin}.so");
        self.reports().into_iter().find(|report| report.name == plugin && report.package == package)
    }
}

impl Draft<'_> {
    /// Judges the library, gives it its name and has it loaded. Nothing of it is parsed before its signature is known
    /// to be one of the operator's keys.
    pub async fn install(self, file: File, signature: Vec<u8>) -> Result<UploadReport, RegistryError> {
        let (folder, keys) = (self.folder.path().to_owned(), self.registry.policy.keys.clone());
        let examined = spawn_blocking(move || examine_upload(&folder, &file, &signature, &keys)).await;
        let examined = examined.map_err(RegistryError::internal)??;
        let origin = format!("{}.so", examined.name);
        self.may_have_name(&examined, &origin).await?;
        {
            // No scan sees the library without its signature.
            let _alone = self.registry.scanning.lock().await;
            let (from, to) = (self.folder.path().to_owned(), self.registry.watcher.folder().to_owned());
            let moved = spawn_blocking(move || put(&from, &to, &origin)).await.map_err(RegistryError::internal)?;
            moved.map_err(not_written)?;
        }
        let UploadedPackage { package, name, version, signed } = examined;
        let registry = self.registry;
        // The next one need not wait for this library, which may take its time to open.
        drop(self);
        registry.scan_for(&name).await;
        Ok(UploadReport { name, version, sha256: package.sha256, signed_by: signed.signer().map(signer_number) })
    }

    /// Another plugin's file is not overwritten, a folder is not put beside its own file, a name stays whose it is.
    async fn may_have_name(&self, examined: &UploadedPackage, origin: &str) -> Result<(), RegistryError> {
        let conflict = |detail: String| Err(RegistryError::Conflict(detail));
        for report in self.registry.reports() {
            // One that is known and lies nowhere has no package's name.
            let here = !report.package.is_empty() && self.registry.watcher.folder().join(&report.package).exists();
            if here && report.name == examined.name && report.package != origin {
                let what = if report.package.ends_with(".so") { "file" } else { "folder" };
                let detail = format!("Already installed in the {what} `{}`. Remove that {what} first.", report.package);
                return conflict(detail);
            }
            if here && report.package == origin && report.name != examined.name {
                return conflict(format!("{origin} is another plugin's file, of {}.", report.name));
            }
        }
        match fs::symlink_metadata(self.registry.watcher.folder().join(origin)) {
            Ok(found) if !found.is_file() => return conflict(format!("{origin} exists and is not a file.")),
            _ => {}
        }
        let owners = plugins::owners::all(&self.registry.activation.loader.services.core).await?;
        check_owner(owners.get(&examined.name), &examined.signed)
            .map_err(|refusal| RegistryError::from(refusal.for_plugin(&examined.name)))?;
        let (_, rule) = self.registry.policy.trust_rule().await;
        rule.admit(&examined.name, &examined.package.sha256, &examined.signed).map_err(RegistryError::from)
    }
}

fn begin(plugins_dir: &Path) -> io::Result<(TempDir, File)> {
    for entry in fs::read_dir(plugins_dir)?.flatten() {
        let is_old = |at: SystemTime| at.elapsed().is_ok_and(|age| age > STALE);
        let is_draft = entry.file_name().to_string_lossy().starts_with(DRAFT_PREFIX);
        if is_draft && entry.metadata().and_then(|found| found.modified()).is_ok_and(is_old) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let private = Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().prefix(DRAFT_PREFIX).permissions(private).tempdir_in(plugins_dir)?;
    let file = File::options().read(true).write(true).create_new(true).open(folder.path().join(UNNAMED))?;
    Ok((folder, file))
}

fn examine_upload(
    folder: &Path,
    file: &File,
    signature: &[u8],
    keys: &[PathBuf],
) -> Result<UploadedPackage, RegistryError> {
    let unnamed = folder.join(UNNAMED);
    file.sync_all().map_err(not_written)?;
    let bytes = fs::read(&unnamed).map_err(RegistryError::internal)?;
    let keys = Keys::load(keys);
    let signed = keys.check(Some(signature), &bytes);
    signed.demand().map_err(RegistryError::from)?; // before a byte of it is parsed
    drop(bytes);
    set_mode(&unnamed).map_err(not_written)?;
    let package = package::read(&unnamed).map_err(RegistryError::from)?;
    let mut about = PackageSummary::from_package(&package, signed.clone());
    let trusted = Examined::new(package, Some(signature), &keys).trust_signer();
    let candidate = trusted.and_then(|trusted| Candidate::from_trusted(trusted, &mut about));
    let candidate = candidate.map_err(RegistryError::from)?;
    let manifest = candidate.manifest();
    // The content hash is over the files with their names, so the library gets its own first.
    let named = folder.join(format!("{}.so", manifest.name));
    let written = fs::rename(&unnamed, &named).and_then(|()| write_signature(&named, signature));
    written.map_err(not_written)?;
    let package = package::read(&named).map_err(RegistryError::from)?;
    Ok(UploadedPackage { package, name: manifest.name.clone(), version: manifest.version.to_string(), signed })
}

fn write_signature(library: &Path, signature: &[u8]) -> io::Result<()> {
    let path = signature_path(library);
    fs::write(&path, signature)?;
    set_mode(&path)?;
    File::open(&path)?.sync_all()
}

fn signature_path(library: &Path) -> PathBuf {
    let mut path = library.as_os_str().to_owned();
    path.push(SUFFIX);
    path.into()
}

fn set_mode(path: &Path) -> io::Result<()> {
    // The worker may change the mode of an open file alone.
    File::open(path)?.set_permissions(Permissions::from_mode(0o644))
}

/// The signature first: a host that is killed in between has an old library with a signature that does not fit, which
/// it refuses, and never a new one without.
fn put(from: &Path, plugins_dir: &Path, origin: &str) -> io::Result<()> {
    let (library, place) = (from.join(origin), plugins_dir.join(origin));
    fs::rename(signature_path(&library), signature_path(&place))?;
    fs::rename(&library, &place)?;
    sync_folder(&place)
}

/// The library first: a host that is killed in between has a signature of nothing, and never a library without one.
fn take_out(library: &Path) -> io::Result<()> {
    fs::remove_file(library)?;
    match fs::remove_file(signature_path(library)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => sync_folder(library),
    }
}

/// What the plugins folder did not take.
pub fn not_written(error: io::Error) -> RegistryError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            RegistryError::StorageFull(error)
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => {
            RegistryError::NotWritable(error)
        }
        _ => RegistryError::internal(anyhow::Error::new(error).context("writing an upload into PLUGINS_DIR")),
    }
}

/// When one who came while another uploads may ask again.
const RETRY_SECONDS: u32 = 10;
/// The largest upload.
pub const UPLOAD_LIMIT: u64 = LIBRARY_LIMIT;
