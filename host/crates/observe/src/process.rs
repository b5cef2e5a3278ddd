//! What the operating system says of this process.

/// One reading; what the system does not tell is absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    pub cpu_seconds: Option<f64>,
    pub resident_bytes: Option<u64>,
    pub virtual_bytes: Option<u64>,
    pub threads: Option<u64>,
    pub open_fds: Option<u64>,
    pub max_fds: Option<u64>,
}

#[cfg(target_os = "linux")]
pub fn read() -> Reading {
    use rustix::{process, time};

    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line?.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    let cpu = time::clock_gettime(time::ClockId::ProcessCPUTime);
    #[allow(clippy::cast_precision_loss)]
    let cpu_seconds = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    Reading {
        cpu_seconds: Some(cpu_seconds),
        resident_bytes: field("VmRSS").map(|kib| kib * 1024),
        virtual_bytes: field("VmSize").map(|kib| kib * 1024),
        threads: field("Threads"),
        open_fds: descriptors().map(|(open, _)| open),
        max_fds: process::getrlimit(process::Resource::Nofile).current,
    }
}

/// Open descriptors, and the most that there may be.
#[cfg(target_os = "linux")]
pub fn descriptors() -> Option<(u64, u64)> {
    const FOLDER: &str = "/proc/self/fd";
    // Since Linux 6.2 the folder's size is their number; before it is 0, and they have to be counted.
    let open = match std::fs::metadata(FOLDER).ok()?.len() {
        // The folder itself is open while it is read.
        0 => std::fs::read_dir(FOLDER).ok()?.count().saturating_sub(1) as u64,
        open => open,
    };
    Some((open, rustix::process::getrlimit(rustix::process::Resource::Nofile).current?))
}

#[cfg(not(target_os = "linux"))]
pub fn descriptors() -> Option<(u64, u64)> {
    None
}

#[cfg(not(target_os = "linux"))]
pub fn read() -> Reading {
    Reading::default()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn linux_tells_everything() {
        let reading = super::read();
        assert!(reading.cpu_seconds.is_some_and(|seconds| seconds > 0.0), "{reading:?}");
        assert!(
            reading.resident_bytes < reading.virtual_bytes && reading.resident_bytes > Some(1 << 20),
            "{reading:?}"
        );
        assert!(reading.threads >= Some(1) && reading.open_fds > Some(0) && reading.max_fds > reading.open_fds);
    }
}
