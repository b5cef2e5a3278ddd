//! The package that a schema step was asked for, found among the plugins by its content. It is read and judged here
//! again: the worker, which asks, runs plugins and is not believed.

use std::ffi::OsStr;
use std::path::Path;

use cardinal_base::config::{Paths, Plugins, Trust};
use cardinal_control::link::{ProvisionFault, ProvisionRequest};
use cardinal_package::{
    kept,
    manifest::{Manifest, hints},
    package,
    signature::Keys,
    state::Refusal,
    trust::{Lock, Owners},
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
    let folder = Owners::of_this_process().check_folder(plugins_dir).map_err(fault)?;
    let kept = kept::find(&paths.data_dir, &request.plugin, &request.sha256);
    let mut lying = package::find(&folder).map_err(unreadable)?;
    // A package mostly has its plugin's name, and reading one whole takes long.
    lying.sort_by_key(|path| path.file_stem() != Some(OsStr::new(&request.plugin)));
    let lying = lying.into_iter().map(|path| (path, false)).chain(kept.map(|path| (path, true)));
    for (path, is_kept) in lying.filter(|(path, _)| is_manifest_of(path, &request.plugin)) {
        // What cannot be read is somebody else's trouble, or a package that has changed.
        let Ok(found) = package::read(&path) else { continue };
        if found.sha256 == request.sha256 && hints(&found.manifest).name.as_deref() == Some(&request.plugin) {
            return Ok(Package { is_kept, ..judge(found, plugins, request)? });
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
    Ok(paths.iter().any(|path| is_manifest_of(path, plugin)))
}

/// Whether a package's manifest says that it is this plugin.
fn is_manifest_of(path: &Path, plugin: &str) -> bool {
    package::manifest_of(path).and_then(|manifest| hints(&manifest).name).as_deref() == Some(plugin)
}

fn judge(found: package::Package, plugins: &Plugins, request: &ProvisionRequest) -> Result<Package, ProvisionFault> {
    let (manifest, _) = Manifest::read(&found.manifest).map_err(|problems| fault(problems.into()))?;
    let signed = Keys::load(&plugins.trust_keys).judge(found.signature.as_deref(), &found.signed_bytes());
    // What only records does not depend on what it has recorded.
    let lock = match plugins.trust {
        Trust::Record => Lock::default(),
        Trust::Lock | Trust::Signed => Lock::load(&plugins.lock_file)
            .map_err(|error| ProvisionFault::Unavailable(format!("the lock file cannot be read: {error}")))?,
    };
    lock.admit(plugins.trust, &request.plugin, &found.sha256, &signed).map_err(fault)?;
    let schema_sql = found.schema_sql.unwrap_or_default();
    let (version, connections) = (manifest.version.to_string(), manifest.limits.db_connections);
    Ok(Package { version, schema_sql, connections, is_kept: false })
}

fn fault(refusal: Refusal) -> ProvisionFault {
    let found = refusal.found.unwrap_or(refusal.reason);
    ProvisionFault::refused(refusal.code.as_str(), refusal.expected.unwrap_or_default(), found, refusal.fix)
}
