//! The walls of a process that tries a library, around those of the process that it is a copy of: it writes nothing,
//! reaches nobody, and has bounds of its own.

use std::num::NonZeroU64;

use anyhow::Context as _;
use landlock::{Access as _, AccessFs, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, Scope, path_beneath_rules};
use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::{
        CapabilitySet, CapabilitySets, disable_transparent_huge_pages, set_capabilities, set_current_timer_slack,
    },
};

use super::{NEWEST, probe_calls};

/// Its threads give way to those of whoever serves: all of them together get what some five of these get.
const NICENESS: i32 = 15;
/// Seconds of a processor: more than its time limits leave it.
const MAX_CPU_SECONDS: u64 = 60;
/// Bytes that are its own. Whole regions are counted that an allocator has reserved.
pub const MAX_MEMORY: u64 = 4 << 30;
/// Descriptors that it has open. Each epoll among them can watch each of them under each number, and the user's watches
/// are the worker's, too: the bound counts by its square.
const MAX_DESCRIPTORS: u64 = 64;
/// How late its timers may be: threads that do nothing but wait for moments would leave others no time.
const TIMER_SLACK: NonZeroU64 = NonZeroU64::new(10_000_000).unwrap();
/// Timers, and signals that wait. They count for the user: the rest of what there may be is left to others.
const MAX_PENDING: u64 = 1024;
/// Of the threads that its user may have, those that are left to the worker.
const RESERVED_THREADS: u64 = 256;
/// What programs write to when they write for nobody.
const NOWHERE: &str = "/dev/null";
/// What systems are made of. Other files have secrets of whoever runs a command, and of devices reading alone does
/// harm: of terminals, where it takes what is typed, of raw disks, of watchdogs that reset the machine.
const READABLE: [&str; 16] = [
    "/bin",
    "/etc",
    "/gnu",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix",
    "/opt",
    "/proc",
    "/sys",
    "/usr",
    NOWHERE,
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
];

/// Restricts this process for good. To be called while there is no other thread. One wall that the system lacks keeps
/// no other from being built.
///
/// # Errors
/// The system has no filter for system calls.
pub fn restrict() -> anyhow::Result<()> {
    let niceness = rustix::process::nice(NICENESS).context("giving way to others").map(drop);
    let walls = [limit().context("limiting a probe"), niceness, bound_uncounted(), give_up_rights(), keep_apart()];
    for error in walls.into_iter().filter_map(Result::err) {
        tracing::debug!(error = format!("{error:#}"), "a probe lacks a wall");
    }
    probe_calls::restrict()
}

/// What no limit counts. The filter of system calls keeps it so.
fn bound_uncounted() -> anyhow::Result<()> {
    set_current_timer_slack(Some(TIMER_SLACK)).context("making timers late")?;
    // Of a huge page whose mapping is gone but for one small page all is still there.
    disable_transparent_huge_pages(true).context("going without huge pages")
}

/// A command that tries a library may be root's. Whoever has no right loses none.
fn give_up_rights() -> anyhow::Result<()> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).context("giving up capabilities")
}

/// Hard limits: the process cannot lift them.
fn limit() -> rustix::io::Result<()> {
    // A library that crashes is an answer, not something to keep a memory image of.
    for (resource, limit) in [
        (Resource::Core, 0),
        (Resource::Cpu, MAX_CPU_SECONDS),
        (Resource::Data, MAX_MEMORY),
        (Resource::Nofile, MAX_DESCRIPTORS),
        (Resource::Sigpending, MAX_PENDING),
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

/// A Landlock domain of its own, in which nothing may be written and little read, and from which no signal leaves.
fn keep_apart() -> anyhow::Result<()> {
    let ruleset = Ruleset::default().handle_access(AccessFs::from_all(NEWEST))?.scope(Scope::from_all(NEWEST))?;
    let writing = AccessFs::WriteFile | AccessFs::Truncate;
    let ruleset = ruleset.create()?.add_rules(path_beneath_rules([NOWHERE], writing))?;
    let ruleset = ruleset.add_rules(path_beneath_rules(READABLE, AccessFs::from_read(NEWEST)))?;
    ruleset.restrict_self()?;
    Ok(())
}
