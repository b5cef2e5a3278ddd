//! A probe that no starter made, as `plugin check --open` has it: a process of its own counts what it has.

use std::{
    fs::File,
    io,
    process::{self, ExitCode},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{
        PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_process, pidfd_open, pidfd_send_signal, waitpid,
    },
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};

use super::{
    fork::OneThread,
    limits::{COUNT_INTERVAL, Limits, Usage},
};

/// Has a copy of this process run the probe, with the number of its parent, and ends as that does.
///
/// # Errors
/// This process has more than one thread, or there is no room for another one.
pub fn watch(probe: impl FnOnce(u32) -> io::Result<()>) -> io::Result<ExitCode> {
    let this = OneThread::check()?;
    let limits = Limits::of_this_machine();
    let parent = process::id();
    let child = this.fork(|| probe(parent))?;
    let handle = pidfd_open(child, PidfdFlags::empty())?;
    // Who reads what the probe writes sees when that closes it.
    let nothing = File::open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    dup2_stderr(&nothing)?;
    let interval = Timespec::try_from(COUNT_INTERVAL).map_err(io::Error::other)?;
    loop {
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&interval)) {
            Ok(0) if limits.are_exceeded_by(&Usage::read_of(child)) => pidfd_send_signal(&handle, Signal::KILL)?,
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => break,
            Err(error) => return Err(error.into()),
        }
    }
    end_like(waitpid(Some(child), WaitOptions::empty())?.map(|(_, status)| status))
}

fn end_like(status: Option<WaitStatus>) -> io::Result<ExitCode> {
    if let Some(signal) = status.and_then(WaitStatus::terminating_signal).and_then(Signal::from_named_raw) {
        // The first SIGSEGV that no instruction is behind ends no Rust program, but its handler.
        kill_process(getpid(), signal)?;
        kill_process(getpid(), signal)?;
    }
    let code = status.and_then(WaitStatus::exit_status).and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}
