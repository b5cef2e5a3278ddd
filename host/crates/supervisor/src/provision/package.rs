//! The package that a schema step was asked for, found among the plugins by its content. It is read and judged here
//! again: the worker, which asks, runs plugins and is not believed.

use std::ffi::OsStr;
use std::path::Path;

use cardinal_base::config::{Paths, Plugins, Trust};
use cardinal_control::link::{ProvisionFault, ProvisionRequest};
use cardinal_package::{
    kept,
    manifest::hints,
    owners::Owners,
    package,
    refusal::Refusal,
    signature::Keys,
    stages::{Examined, Scanned, Trusted},
    trust::{Lock, TrustRule},
};

/// What of a package matters to the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    pub version: String,
    pub schema_sql: String,
    /// Of its pool on each host.
    pub connections: u32,
    /// It does not lie in the plugins folder any more, but among those that the worker has kept.
    pub is_kept: bool,
}

/// # Errors
/// No package of that plugin has this content (any more), or it is not trusted.
pub fn find(paths: &Paths, plugins: &Plugins, request: &ProvisionRequest) -> Result<Package, ProvisionFault> {
    let plugins_dir = &paths.plugins_dir;
    let unreadable = |error: std::io::Error| {
        ProvisionFault::Unavailable(format!("the folder {} cannot be read: {error}", plugins_dir.display()))
    };
    let folder = Owners::current().check_folder(plugins_dir).map_err(fault)?;
    let kept = kept::find(&paths.data_dir, &request.plugin, &request.sha256);
    let mut packages = package::find(&folder).map_err(unreadable)?;
    // A package mostly has its plugin's name, and reading one whole takes long.
    packages.sort_by_key(|path| path.file_stem() != Some(OsStr::new(&request.plugin)));
    let keys = Keys::load(&plugins.trust_keys);
    let packages = packages.into_iter().map(|path| (path, false)).chain(kept.map(|path| (path, true)));
    for (path, is_kept) in packages.filter(|(path, _)| is_manifest_for(path, &request.plugin)) {
        // One that cannot be read is another plugin's, or has changed since.
        let Ok(found) = Scanned::new(path, Ok(())).examine(&keys) else { continue };
        if found.package().sha256 == request.sha256 && found.hints().name.as_deref() == Some(&request.plugin) {
            return Ok(Package { is_kept, ..read(found, plugins)? });
        }
    }
    Err(ProvisionFault::refused(
        "package-changed",
        format!("plugin {} with content {}", request.plugin, request.sha256),
        "no such package in the plugins folder",
        "load the plugin again",
    ))
}

/// Whether any package in the plugins folder says that it is this plugin, sound or not.
///
/// # Errors
/// The folder cannot be read.
pub fn is_there(plugins_dir: &Path, plugin: &str) -> Result<bool, ProvisionFault> {
    if !plugins_dir.exists() {
        return Ok(false);
    }
    let paths = package::find(plugins_dir).map_err(|error| {
        ProvisionFault::Unavailable(format!("the folder {} cannot be read: {error}", plugins_dir.display()))
    })?;
    Ok(paths.iter().any(|path| is_manifest_for(path, plugin)))
}

/// Whether a package's manifest says that it is this plugin.
fn is_manifest_for(path: &Path, plugin: &str) -> bool {
    package::read_manifest(path).and_then(|manifest| hints(&manifest).name).as_deref() == Some(plugin)
}

fn read(found: Examined, plugins: &Plugins) -> Result<Package, ProvisionFault> {
    let lock = match plugins.trust {
        Trust::Record => None,
        Trust::Lock | Trust::Signed => Some(
            Lock::load(&plugins.lock_file)
                .map_err(|error| ProvisionFault::Unavailable(format!("the lock file cannot be read: {error}")))?,
        ),
    };
    let rule = TrustRule::new(plugins.trust, lock, &plugins.lock_file);
    let described = found.trust(&rule).and_then(Trusted::parse_manifest).map_err(fault)?;
    let (manifest, package) = described.into_parts();
    Ok(Package {
        version: manifest.version.to_string(),
        schema_sql: package.schema_sql.unwrap_or_default(),
        connections: manifest.limits.db_connections,
        is_kept: false,
    })
}

fn fault(refusal: Refusal) -> ProvisionFault {
    let found = refusal.found.unwrap_or(refusal.reason);
    ProvisionFault::refused(refusal.code.as_str(), refusal.expected.unwrap_or_default(), found, refusal.fix)
}
