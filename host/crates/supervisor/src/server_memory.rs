//! How much memory one process of the private server may have for itself. A statement of a plugin can ask for any
//! amount (views that double a text, read through one another); without a bound the system kills one of the server's
//! processes, and then every session is gone.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Of the machine's memory, or of the container's: a plugin with its usual four sessions cannot take more than a
/// quarter.
const SHARE: u64 = 16;
/// With less, a backup could not be read back that has a value of 32 mebibytes: a line of COPY is held several times.
const MIN_MEMORY: u64 = 512 * MEBIBYTE;
/// PostgreSQL itself handles no value beyond one gibibyte.
const MAX_MEMORY: u64 = 2048 * MEBIBYTE;
const MEBIBYTE: u64 = 1024 * 1024;

/// Bounds this process and those that it starts. Memory that processes share does not count, and each parallel worker
/// has a bound of its own.
///
/// # Errors
/// As the system reports them.
pub(super) fn bound() -> anyhow::Result<()> {
    let limit_in_force = getrlimit(Resource::Data);
    let bytes = limit(installed())
        .min(limit_in_force.maximum.unwrap_or(u64::MAX))
        .min(limit_in_force.current.unwrap_or(u64::MAX));
    let bytes = Some(bytes);
    setrlimit(Resource::Data, Rlimit { current: bytes, maximum: bytes }).context("bounding the server's memory")
}

fn limit(installed: Option<u64>) -> u64 {
    installed.map_or(MIN_MEMORY, |bytes| (bytes / SHARE).clamp(MIN_MEMORY, MAX_MEMORY))
}

/// The machine's memory, or what the groups of this process may have of it.
fn installed() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").map(|text| group_files(&text)).unwrap_or_default();
    let bounds = groups.iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    machine.into_iter().chain(bounds).min()
}

fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The files with the bounds of the process's own control group and of those above it.
fn group_files(groups: &str) -> Vec<PathBuf> {
    let files = |line: &str| -> Option<Vec<PathBuf>> {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        let own = Path::new(path.trim_start_matches('/'));
        Some(own.ancestors().map(|group| Path::new(root).join(group).join(file)).collect())
    };
    groups.lines().filter_map(files).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_follows_the_machine() {
        let gibibytes = |count: u64| Some(count * 1024 * MEBIBYTE);
        assert_eq!(limit(gibibytes(24)), 1536 * MEBIBYTE);
        assert_eq!((limit(gibibytes(1)), limit(None), limit(gibibytes(500))), (MIN_MEMORY, MIN_MEMORY, MAX_MEMORY));
    }

    #[test]
    fn what_the_system_says_is_read() {
        assert_eq!(total("MemTotal:       24689764 kB\nMemFree: 1 kB\n"), Some(24_689_764 * 1024));
        assert_eq!((total(""), total("MemTotal: x kB")), (None, None));
        let files = group_files("5:cpu:/x\n4:memory:/docker/a\n0::/system.slice/cardinal.service\n");
        let files: Vec<_> = files.iter().filter_map(|file| file.to_str()).collect();
        assert_eq!(
            files,
            [
                "/sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/system.slice/cardinal.service/memory.max",
                "/sys/fs/cgroup/system.slice/memory.max",
                "/sys/fs/cgroup/memory.max",
            ]
        );
    }
}
