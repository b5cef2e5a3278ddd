//! How much memory there is for the host's processes: that of the machine, or of the container.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The machine's memory, or what the groups of this process may have of it.
pub fn installed() -> Option<u64> {
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
