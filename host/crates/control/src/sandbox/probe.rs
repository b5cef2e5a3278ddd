//! The walls of a process that tries a library, around those of the process that it is a copy of: it writes nothing,
//! reaches nobody, and has bounds of its own.

use anyhow::Context as _;
use landlock::{Access as _, AccessFs, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, Scope, path_beneath_rules};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{NEWEST, probe_calls};

/// Seconds of a processor: more than its time limits leave it.
const MAX_CPU_SECONDS: u64 = 60;
/// Bytes that are its own. Whole regions are counted that an allocator has reserved.
const MAX_MEMORY: u64 = 4 << 30;
/// Descriptors that it has open, or sends to itself.
const MAX_DESCRIPTORS: u64 = 256;
/// Of the threads that its user may have, those that are left to the worker.
const RESERVED_THREADS: u64 = 256;
/// What programs write to when they write for nobody.
const NOWHERE: &str = "/dev/null";

/// Restricts this process for good. To be called while there is no other thread.
///
/// # Errors
/// The system refuses a limit, or has no filter for system calls.
pub fn restrict() -> anyhow::Result<()> {
    limit().context("limiting a probe")?;
    if let Err(error) = keep_apart() {
        tracing::debug!(%error, "this system has no Landlock for probes");
    }
    probe_calls::restrict()
}

/// Hard limits: the process cannot lift them.
fn limit() -> rustix::io::Result<()> {
    // A library that crashes is an answer, not something to keep a memory image of.
    for (resource, limit) in [
        (Resource::Core, 0),
        (Resource::Cpu, MAX_CPU_SECONDS),
        (Resource::Data, MAX_MEMORY),
        (Resource::Nofile, MAX_DESCRIPTORS),
    ] {
        lower(resource, limit)?;
    }
    // They count for the user: a probe that starts as many as there may be leaves the worker some.
    match getrlimit(Resource::Nproc).current {
        Some(all) => lower(Resource::Nproc, all.saturating_sub(RESERVED_THREADS.min(all / 2))),
        None => Ok(()),
    }
}

fn lower(resource: Resource, limit: u64) -> rustix::io::Result<()> {
    let known = getrlimit(resource);
    let limit = [known.current, known.maximum].into_iter().flatten().fold(limit, u64::min);
    setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })
}

/// A Landlock domain of its own, in which nothing may be written, and from which no signal leaves.
fn keep_apart() -> anyhow::Result<()> {
    let ruleset = Ruleset::default().handle_access(AccessFs::from_write(NEWEST))?.scope(Scope::from_all(NEWEST))?;
    let writing = AccessFs::WriteFile | AccessFs::Truncate;
    let ruleset = ruleset.create()?.add_rules(path_beneath_rules([NOWHERE], writing))?;
    ruleset.restrict_self()?;
    Ok(())
}
