//! The machine below the host: room on its disks, limits of its processes, who can read its secrets.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

use super::finding::Finding;
use cardinal_base::{
    config::Config,
    secret_file::{self, OWN_SECRETS, Readers},
};
use cardinal_control::{local_socket, sandbox};

/// With less than this, PostgreSQL soon cannot write.
const LOW_DISK_BYTES: u64 = 1 << 30;
const MIN_DISK_BYTES: u64 = 128 << 20;
const MIN_FREE_INODES: u64 = 10_000;
/// A listener takes 10,000 connections; a proxied one is two descriptors.
const MIN_FILES: u64 = 4_096;
const MIN_USABLE_FILES: u64 = 256;
const MIN_PROCESSES: u64 = 512;
const OTHERS: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;
/// Files of `DATA_DIR` that nobody else may read.
fn private_files() -> impl Iterator<Item = &'static str> {
    OWN_SECRETS.into_iter().chain([local_socket::FILE, local_socket::TOKEN_FILE])
}

/// Whose process looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The command, as the user who would run a host.
    Command,
    /// The worker: a host that root started gave it a user of its own, to whom the secrets do not belong.
    Worker,
}

pub fn check(config: &Config, asker: Asker) -> Vec<Finding> {
    let data_dir = &config.paths.data_dir;
    let mut found = disks(config);
    found.extend(limits());
    found.extend(folder(data_dir, asker));
    found.extend(secrets(config, asker));
    found.extend(config.secret_files().into_iter().filter_map(|(setting, file)| open_secret(setting, file)));
    found.push(landlock(sandbox::is_supported(), is_roots_host(data_dir, asker)));
    found
}

fn is_roots_host(data_dir: &Path, asker: Asker) -> bool {
    match asker {
        Asker::Command => rustix::process::geteuid().is_root(),
        Asker::Worker => fs::metadata(data_dir).is_ok_and(|found| found.uid() == 0),
    }
}

fn open_secret(setting: &str, file: &Path) -> Option<Finding> {
    let found = match secret_file::readers(file) {
        Readers::Nobody => return None,
        Readers::Group => Finding::warning(
            "secret-file-open",
            setting,
            "The file with the secret is readable by \
            its group.",
        ),
        Readers::Everybody => {
            let message = "The file with the secret is readable by every user; the host refuses to start.";
            Finding::error("secret-file-open", setting, message)
        }
    };
    let fix = format!("Run: chmod 0600 '{}', and change the secret if someone may have read it.", file.display());
    Some(found.found(file.display().to_string()).expected("mode 0600, or 0400").fix(fix))
}

/// A host that root starts keeps its secrets from plugins by users of the system, too.
fn landlock(is_supported: bool, is_root: bool) -> Finding {
    if is_supported {
        return Finding::ok("landlock", "kernel", "Landlock keeps plugins from the host's secrets.");
    }
    let message = "Without Landlock a plugin's code can read and change the files of the user that it runs as.";
    if is_root {
        return Finding::ok("landlock-missing", "kernel", message);
    }
    Finding::warning("landlock-missing", "kernel", message).expected("Linux 5.19 or newer with Landlock").fix(
        "Start the host as root, which gives the worker a user of its own, or switch Landlock on (lsm=landlock,...).",
    )
}

fn disks(config: &Config) -> Vec<Finding> {
    let folders = [("DATA_DIR", &config.paths.data_dir), ("PLUGINS_DIR", &config.paths.plugins_dir)];
    folders.into_iter().filter_map(|(setting, folder)| disk(setting, folder)).collect()
}

/// Of the disk that the folder is on, or will be when it is made.
fn disk(setting: &str, folder: &Path) -> Option<Finding> {
    let there = folder.ancestors().find(|it| it.exists())?;
    let stat = match rustix::fs::statvfs(there) {
        Ok(stat) => stat,
        Err(error) => {
            let finding = Finding::warning("disk-unknown", setting, "The free disk space cannot be determined.");
            return Some(finding.found(format!("{}: {error}", there.display())));
        }
    };
    Some(room(setting, folder, stat.f_bavail.saturating_mul(stat.f_frsize), stat.f_favail, stat.f_files))
}

fn room(setting: &str, folder: &Path, free: u64, inodes: u64, all_inodes: u64) -> Finding {
    let (found, place) = (format!("{} MiB free", free >> 20), folder.display());
    let fix = format!("Free space on the disk of {place}, or choose another {setting}.");
    // Some file systems have no fixed number of inodes and say 0.
    if free < MIN_DISK_BYTES || (all_inodes > 0 && inodes < MIN_FREE_INODES / 10) {
        let finding = Finding::error("disk-full", setting, format!("No space is left in {place}."));
        return finding
            .found(format!("{found}, {inodes} inodes"))
            .expected(format!("{} MiB", LOW_DISK_BYTES >> 20))
            .fix(fix);
    }
    if free < LOW_DISK_BYTES || (all_inodes > 0 && inodes < MIN_FREE_INODES) {
        let finding = Finding::warning("disk-nearly-full", setting, format!("Little space is left in {place}."));
        return finding
            .found(format!("{found}, {inodes} inodes"))
            .expected(format!("{} MiB", LOW_DISK_BYTES >> 20))
            .fix(fix);
    }
    Finding::ok("disk-space", setting, format!("{place}: {found}."))
}

fn limits() -> Vec<Finding> {
    // The host takes all the open files that it may have.
    let (files, processes) = (getrlimit(Resource::Nofile).maximum, getrlimit(Resource::Nproc).current);
    let mut found = vec![file_limit(files)];
    if let Some(limit) = processes.filter(|limit| *limit < MIN_PROCESSES) {
        found.push(
            Finding::warning(
                "process-limit-low",
                "ulimit -u",
                "The host may not be able to start threads and processes.",
            )
            .found(limit.to_string())
            .expected(format!("{MIN_PROCESSES} or more"))
            .fix("Raise it: `ulimit -u`, or TasksMax and LimitNPROC of the service."),
        );
    }
    found
}

fn file_limit(files: Option<u64>) -> Finding {
    let finding = match files {
        None => return Finding::ok("file-limit", "ulimit -Hn", "Open files are not limited."),
        Some(limit) if limit >= MIN_FILES => {
            return Finding::ok("file-limit", "ulimit -Hn", format!("{limit} files may be open at the same time."));
        }
        Some(limit) if limit < MIN_USABLE_FILES => {
            Finding::error("file-limit-low", "ulimit -Hn", "The host cannot serve with so few open files.")
                .found(limit.to_string())
        }
        Some(limit) => {
            let message = "Each connection takes an open file, a proxied one two; beyond the limit clients wait.";
            Finding::warning("file-limit-low", "ulimit -Hn", message).found(limit.to_string())
        }
    };
    finding
        .expected(format!("{MIN_FILES} or more"))
        .fix("Raise it: `ulimit -Hn 65536`, or LimitNOFILE=65536 of the service.")
}

fn folder(data_dir: &Path, asker: Asker) -> Option<Finding> {
    let Ok(found) = fs::metadata(data_dir) else {
        return Some(Finding::ok("data-dir-new", "DATA_DIR", format!("{} will be created.", data_dir.display())));
    };
    if found.mode() & OTHERS_WRITE != 0 {
        let finding = Finding::error(
            "data-dir-writable",
            "DATA_DIR",
            "DATA_DIR is writable by other users; the host refuses to start.",
        );
        return Some(
            finding
                .found(format!("{} has mode {:04o}", data_dir.display(), found.mode() & 0o7777))
                .expected("mode 0700")
                .fix(format!("Run: chmod 0700 '{}'", data_dir.display())),
        );
    }
    owner(data_dir, found.uid(), asker)
}

/// A host that runs as another user than the one whose file this is cannot use it.
fn owner(path: &Path, uid: u32, asker: Asker) -> Option<Finding> {
    let me = rustix::process::geteuid().as_raw();
    (asker == Asker::Command && uid != me && me != 0).then(|| {
        Finding::error("owned-by-another", path.display().to_string(), "It belongs to another user.")
            .found(format!("uid {uid}"))
            .expected(format!("uid {me}, who runs this check"))
            .fix("Run the check, and the host, as the user that owns DATA_DIR.")
    })
}

fn secrets(config: &Config, asker: Asker) -> Vec<Finding> {
    let in_data_dir = private_files().map(|name| config.paths.data_dir.join(name));
    let files: Vec<PathBuf> = in_data_dir.filter(|it| it.exists()).collect();
    let mut found: Vec<Finding> = files.iter().filter_map(|file| secret(file, asker)).collect();
    if found.is_empty() && !files.is_empty() {
        let message = format!("{} files with secrets are readable only by their owner.", files.len());
        found.push(Finding::ok("secrets-private", "secrets", message));
    }
    found
}

fn secret(file: &Path, asker: Asker) -> Option<Finding> {
    let stat = fs::symlink_metadata(file).ok()?;
    if stat.mode() & OTHERS == 0 || stat.is_symlink() {
        return owner(file, stat.uid(), asker);
    }
    let finding =
        Finding::error("secret-readable", file.display().to_string(), "Other users may read or change a secret.");
    Some(
        finding
            .found(format!("mode {:04o}", stat.mode() & 0o7777))
            .expected("mode 0600")
            .fix(format!("Run: chmod 0600 '{}', and change the secret if someone may have read it.", file.display())),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::check::finding::Severity;

    #[test]
    fn room_is_judged_by_bytes_and_inodes() {
        let code = |free, inodes, all| room("DATA_DIR", Path::new("/d"), free, inodes, all).code;
        assert_eq!(code(LOW_DISK_BYTES, 1 << 20, 1 << 20), "disk-space");
        assert_eq!(code(LOW_DISK_BYTES - 1, 1 << 20, 1 << 20), "disk-nearly-full");
        assert_eq!(code(MIN_DISK_BYTES - 1, 1 << 20, 1 << 20), "disk-full");
        assert_eq!(code(LOW_DISK_BYTES, 50, 1 << 20), "disk-full");
        assert_eq!(code(LOW_DISK_BYTES, 0, 0), "disk-space", "a file system without a number of inodes");
    }

    #[test]
    fn few_open_files_are_warned_about_and_hardly_any_is_an_error() {
        let severity = |files| file_limit(files).severity;
        assert_eq!(severity(None), Severity::Ok);
        assert_eq!(severity(Some(65_536)), Severity::Ok);
        assert_eq!(severity(Some(1_024)), Severity::Warning);
        assert_eq!(severity(Some(64)), Severity::Error);
    }

    #[test]
    fn an_ordinary_users_host_is_warned_about_a_system_without_landlock() {
        let severity = |supported, root| landlock(supported, root).severity;
        assert_eq!(severity(true, false), Severity::Ok);
        assert_eq!(severity(false, true), Severity::Ok);
        assert_eq!(severity(false, false), Severity::Warning);
    }

    #[test]
    fn a_secret_that_others_may_read_is_named_with_what_to_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token-secret");
        fs::write(&file, "s").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let found = secret(&file, Asker::Command).unwrap();
        assert_eq!((found.code, found.found.as_deref()), ("secret-readable", Some("mode 0640")));
        assert!(found.fix.unwrap().starts_with("Run: chmod 0600"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(secret(&file, Asker::Command), None);
    }
}
