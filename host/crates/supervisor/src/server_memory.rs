//! How much memory one process of the private server may have for itself. A statement of a plugin can ask for any
//! amount (views that double a text, read through one another); without a bound the system kills one of the server's
//! processes, and then every session is gone.

use anyhow::Context as _;
use cardinal_control::machine_memory;
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
    let bytes = limit(machine_memory::installed())
        .min(limit_in_force.maximum.unwrap_or(u64::MAX))
        .min(limit_in_force.current.unwrap_or(u64::MAX));
    let bytes = Some(bytes);
    setrlimit(Resource::Data, Rlimit { current: bytes, maximum: bytes }).context("bounding the server's memory")
}

fn limit(installed: Option<u64>) -> u64 {
    installed.map_or(MIN_MEMORY, |bytes| (bytes / SHARE).clamp(MIN_MEMORY, MAX_MEMORY))
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
}
