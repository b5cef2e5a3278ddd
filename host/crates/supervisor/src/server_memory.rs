//! How much memory the processes of the private server share, and how much one of them may have for itself. A statement
//! of a plugin can ask for any amount (views that double a text, read through one another); without a bound the system
//! kills one of the server's processes, and then every session is gone.

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
/// What all processes share, which holds what was read last. Lists of a million cards read some 700 mebibytes.
const MIN_SHARED: u64 = 128 * MEBIBYTE;
const MAX_SHARED: u64 = 1024 * MEBIBYTE;
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

/// How many mebibytes the server's processes share.
pub(super) fn shared_mebibytes() -> u64 {
    shared(machine_memory::installed()) / MEBIBYTE
}

fn limit(installed: Option<u64>) -> u64 {
    share(installed, MIN_MEMORY, MAX_MEMORY)
}

fn shared(installed: Option<u64>) -> u64 {
    share(installed, MIN_SHARED, MAX_SHARED)
}

fn share(installed: Option<u64>, min: u64, max: u64) -> u64 {
    installed.map_or(min, |bytes| (bytes / SHARE).clamp(min, max))
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
    fn what_is_shared_follows_the_machine() {
        let gibibytes = |count: u64| Some(count * 1024 * MEBIBYTE);
        assert_eq!([2, 4, 8, 16].map(|count| shared(gibibytes(count)) / MEBIBYTE), [128, 256, 512, 1024]);
        assert_eq!((shared(gibibytes(1)), shared(None), shared(gibibytes(500))), (MIN_SHARED, MIN_SHARED, MAX_SHARED));
    }
}
