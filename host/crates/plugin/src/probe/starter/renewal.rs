//! The starter is a process that waits and its copy, which takes the requests. A copy that was killed or stopped, by
//! the system for want of memory or by somebody, is made again, on the same socket.

use std::{
    io::{self, Write as _},
    os::fd::OwnedFd,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    net::SendFlags,
    process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, wait},
};

use super::{READY, fork::OneThread, limits::Limits, process::serve_by};

/// A copy is made at most once in this time.
const INTERVAL: Duration = Duration::from_secs(1);

/// Says that it is ready, and has `probe` run in a process of its own for each request, with the number of its parent
/// and the settings, until the worker's end is closed.
///
/// # Errors
/// This process has more than one thread, there is no room for another process, or the socket can't be written to.
pub fn serve(socket: &OwnedFd, probe: impl Fn(u32, String) -> io::Result<()>) -> io::Result<()> {
    let this = OneThread::check()?;
    let limits = Limits::of_this_machine();
    // Probes end with the copy that made them. Somebody has to take note of their end.
    set_child_subreaper(Some(getpid()))?;
    let make = || this.fork(|| serve_by(&this, socket, limits, &probe));
    let mut made = Ok(make()?);
    rustix::net::send(socket, &[READY], SendFlags::NOSIGNAL)?;
    loop {
        let since = Instant::now();
        let why = match made.and_then(end_of) {
            Ok(status) if status.exit_status() == Some(0) => return Ok(()),
            Ok(status) => format!("{status:?}"),
            Err(error) => error.to_string(),
        };
        // Standard error is the worker's, whose lines the host logs.
        let _ = writeln!(io::stderr(), "the process that starts probes has ended and is made again: {why}");
        thread::sleep(INTERVAL.saturating_sub(since.elapsed()));
        made = make();
    }
}

/// Waits for the end of the child, and takes note of the ends of others that have become children of this process.
fn end_of(child: Pid) -> io::Result<WaitStatus> {
    loop {
        match wait(WaitOptions::UNTRACED) {
            // Stopped, it takes no requests.
            Ok(Some((pid, status))) if pid == child && status.stopped() => kill_process(child, Signal::KILL)?,
            Ok(Some((pid, status))) if pid == child => return Ok(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
