use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use minisign::{PublicKey, PublicKeyBox};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    paths::{self, Paths},
    per_plugin::{BreakerMode, Execution, PerPlugin},
    plugin_networks::PluginNetworks,
    reader::{Reader, read_secret, switch},
};
use crate::{exact, secret_file};

const SETTINGS_PREFIX: &str = "PLUGIN_SETTINGS_";
const FILE_SUFFIX: &str = "_FILE";

/// What makes a plugin trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// Owner and modes are checked; the hash is recorded on first sight and a changed one is warned about.
    Record,
    /// The hash must stand in the lock file.
    Lock,
    /// A signature by one of the trust keys is needed.
    Signed,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plugins {
    pub trust: Trust,
    pub lock_file: PathBuf,
    pub trust_keys: Vec<PathBuf>,
    pub upload: bool,
    /// Where each plugin's calls run.
    pub execution: PerPlugin<Execution>,
    /// What becomes of a plugin whose calls go wrong.
    pub breaker: PerPlugin<BreakerMode>,
    /// Private networks that plugins reach through the host.
    pub networks: PluginNetworks,
    /// From `PLUGIN_SETTINGS_<NAME>`: the key is the name as in the variable, lower-cased; the value a JSON object.
    pub settings: BTreeMap<String, Value>,
    /// Files that some of them were read from, each with its variable.
    pub settings_files: Vec<(String, PathBuf)>,
}

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Plugins")]
#[group(skip)]
pub(super) struct Args {
    /// What makes a plugin trusted: record, lock or signed, e.g. lock [default: record]
    #[arg(long, env, value_name = "MODE")]
    plugin_trust: Option<String>,
    /// File with the hashes of known plugins, in a folder that is there, e.g. /etc/cardinal/plugins.lock
    /// [default: DATA_DIR/plugins.lock]
    #[arg(long, env, value_name = "FILE")]
    plugin_lock_file: Option<String>,
    /// Files with minisign public keys, for PLUGIN_TRUST=signed, e.g. /etc/cardinal/vendor.pub
    #[arg(long, env, value_name = "FILES")]
    plugin_trust_keys: Option<String>,
    /// on or off: whether plugins may be uploaded through the admin API, e.g. on [default: off]
    #[arg(long, env, value_name = "SWITCH")]
    plugin_upload: Option<String>,
    /// Where plugins' calls run: auto, inline or lane, for all or by name, e.g. auto,price-watch=lane [default: auto]
    #[arg(long, env, value_name = "LIST")]
    plugin_execution: Option<String>,
    /// Whether a plugin whose calls fail again and again gets none for a while: on or observe, for all or by name,
    /// e.g. on,price-watch=observe [default: on]
    #[arg(long, env, value_name = "LIST")]
    plugin_breaker: Option<String>,
    /// Private networks that plugins may reach through the host, for all or by name,
    /// e.g. 10.20.0.0/16,price-watch=192.168.7.0/24 [default: none]
    #[arg(long, env, value_name = "LIST")]
    plugin_networks: Option<String>,
    /// Settings of one plugin, repeatable, e.g. 'supplier={"allow_private_addresses":true}' (as a variable:
    /// PLUGIN_SETTINGS_SUPPLIER='{"allow_private_addresses":true}', or
    /// PLUGIN_SETTINGS_SUPPLIER_FILE=/run/secrets/supplier); every user of this machine can read a flag in the list of
    /// processes
    #[arg(long, value_name = "NAME=JSON")]
    plugin_settings: Vec<String>,
}

impl Plugins {
    pub(super) fn read(
        args: &Args,
        paths: &Paths,
        environment: impl Iterator<Item = (OsString, OsString)>,
        reader: &mut Reader,
    ) -> Plugins {
        let (settings, settings_files) = settings(args, environment, reader);
        let plugins = Plugins {
            trust: reader.value("PLUGIN_TRUST", &args.plugin_trust, Trust::Record, trust),
            lock_file: reader
                .optional("PLUGIN_LOCK_FILE", &args.plugin_lock_file, |text| lock_file(text, &paths.data_dir))
                .unwrap_or_else(|| paths.data_dir.join("plugins.lock")),
            trust_keys: reader.list("PLUGIN_TRUST_KEYS", &args.plugin_trust_keys, public_key),
            upload: reader.value("PLUGIN_UPLOAD", &args.plugin_upload, false, switch),
            execution: PerPlugin::collect(reader.list("PLUGIN_EXECUTION", &args.plugin_execution, PerPlugin::item)),
            breaker: PerPlugin::collect(reader.list("PLUGIN_BREAKER", &args.plugin_breaker, PerPlugin::item)),
            networks: PluginNetworks::collect(reader.list(
                "PLUGIN_NETWORKS",
                &args.plugin_networks,
                PluginNetworks::item,
            )),
            settings,
            settings_files,
        };
        if plugins.trust == Trust::Signed && plugins.trust_keys.is_empty() {
            reader.fault("PLUGIN_TRUST_KEYS", "PLUGIN_TRUST=signed needs at least one file with a public key");
        }
        if plugins.upload && plugins.trust_keys.is_empty() {
            reader.fault(
                "PLUGIN_UPLOAD",
                "on needs a public key in PLUGIN_TRUST_KEYS, so that unsigned files are refused",
            );
        }
        plugins
    }
}

/// A public key as `minisign -G` writes it: with its comment line, or the one line alone.
pub fn parse_trust_key(text: &str) -> Result<PublicKey, String> {
    let boxed = PublicKeyBox::from_string(text).and_then(PublicKeyBox::into_public_key);
    boxed.or_else(|_| PublicKey::from_base64(text.trim())).map_err(|error| error.to_string())
}

/// A file that minisign, or `cardinal plugin sign --generate`, has written.
fn public_key(text: &str) -> Result<PathBuf, String> {
    let path = paths::existing_file(text)?;
    let key = secret_file::read_small(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    match parse_trust_key(&key) {
        Ok(_) => Ok(path),
        Err(_) => Err(format!("{} is not a minisign public key", path.display())),
    }
}

/// Its folder is there, or is the one that the host makes.
fn lock_file(text: &str, data_dir: &Path) -> Result<PathBuf, String> {
    let path = paths::absolute(text)?;
    match path.parent() {
        Some(folder) if folder == data_dir || folder.is_dir() => Ok(path),
        _ => Err(format!("{} is not in a folder that is there", path.display())),
    }
}

fn trust(text: &str) -> Result<Trust, String> {
    match text {
        "record" => Ok(Trust::Record),
        "lock" => Ok(Trust::Lock),
        "signed" => Ok(Trust::Signed),
        _ => Err(format!("{text:?} is not one of record, lock and signed")),
    }
}

/// The variables first, then the flags, which win as for every other setting. A variable whose name ends with `_FILE`
/// and whose value is not JSON names a file.
fn settings(
    args: &Args,
    environment: impl Iterator<Item = (OsString, OsString)>,
    reader: &mut Reader,
) -> (BTreeMap<String, Value>, Vec<(String, PathBuf)>) {
    let (mut settings, mut files) = (BTreeMap::new(), BTreeMap::new());
    for (variable, text) in environment {
        let Some(name) = variable.to_str().and_then(|name| name.strip_prefix(SETTINGS_PREFIX)) else {
            continue;
        };
        match text.to_str() {
            Some(text) if text.trim().is_empty() => {}
            Some(text) if name.ends_with(FILE_SUFFIX) && !text.trim_start().starts_with('{') => {
                let _ = files.insert(name[..name.len() - FILE_SUFFIX.len()].to_owned(), text.trim().to_owned());
            }
            Some(text) => insert(&mut settings, name, text, reader),
            None => reader.fault(format!("{SETTINGS_PREFIX}{name}"), "it is not UTF-8 text"),
        }
    }
    let files = files.into_iter().filter_map(|(name, file)| insert_file(&mut settings, &name, &file, reader)).collect();
    for flag in &args.plugin_settings {
        match flag.split_once('=') {
            Some((name, text)) => insert(&mut settings, name, text, reader),
            None => reader.fault(SETTINGS_PREFIX, "write the flag as NAME={...}"),
        }
    }
    (settings, files)
}

fn insert_file(
    settings: &mut BTreeMap<String, Value>,
    name: &str,
    file: &str,
    reader: &mut Reader,
) -> Option<(String, PathBuf)> {
    let setting = format!("{SETTINGS_PREFIX}{name}{FILE_SUFFIX}");
    if settings.contains_key(&name.to_ascii_lowercase()) {
        reader.fault(setting, format!("{SETTINGS_PREFIX}{name} is set, too: keep one of the two"));
        return None;
    }
    let read = paths::absolute(file).and_then(|path| match read_secret(&path) {
        Ok(text) => Ok((path, text)),
        Err(problem) => Err(format!("{} {problem}", path.display())),
    });
    match read {
        Ok((path, text)) => {
            insert(settings, name, &text, reader);
            Some((setting, path))
        }
        Err(problem) => {
            reader.fault(setting, problem);
            None
        }
    }
}

/// Values are not repeated in messages: a plugin's settings may hold credentials.
fn insert(settings: &mut BTreeMap<String, Value>, name: &str, text: &str, reader: &mut Reader) {
    let setting = format!("{SETTINGS_PREFIX}{}", name.to_ascii_uppercase().replace('-', "_"));
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') {
        reader.fault(setting, "its end is not a plugin's name in capitals with _ for -");
        return;
    }
    if let Some(pointer) = exact::first_inexact(text) {
        reader.fault(setting, format!("its number at {pointer} can't be kept with all its digits"));
        return;
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) => {
            settings.insert(name.to_ascii_lowercase().replace('-', "_"), value);
        }
        Ok(_) => reader.fault(setting, "it must be a JSON object, such as {\"key\": \"value\"}"),
        Err(error) => {
            reader.fault(setting, format!("it is not JSON (line {}, column {})", error.line(), error.column()))
        }
    }
}
