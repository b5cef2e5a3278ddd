//! CPU time of processes, from /proc.

use std::time::Duration;

/// What a process and all its threads have used so far.
pub(crate) fn cpu_time(pid: i32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let Some((_, fields)) = stat.rsplit_once(") ") else { return Duration::ZERO };
    // utime and stime are fields 14 and 15 of all, 12 and 13 after the name.
    let ticks: u64 = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// What the first thread of a process has used so far, by the nanosecond: all of one that has no other.
pub(crate) fn run_time(pid: i32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).unwrap_or_default())
}
