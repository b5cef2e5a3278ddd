//! Making a process without starting a program in it. A program that is started is open to others of its user until it
//! has closed itself; a copy of a closed process is closed from the beginning.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    process,
};

use rustix::{
    process::{Pid, setpgid},
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};

use crate::probe::child::read_whole;

/// Behind standard input, output and error.
const FIRST_OTHER: i32 = 3;

/// The process has one thread. A copy of one with several has the locks that the others held, and nobody who frees
/// them.
pub(super) struct OneThread(());

/// What a probe gets.
pub(super) struct Input {
    pub(super) library: OwnedFd,
    pub(super) settings: File,
    pub(super) output: OwnedFd,
    pub(super) errors: OwnedFd,
}

impl OneThread {
    /// # Errors
    /// There are others.
    pub(super) fn check() -> io::Result<Self> {
        match std::fs::read_dir("/proc/self/task")?.count() {
            1 => Ok(Self(())),
            threads => Err(io::Error::other(format!("this process has {threads} threads"))),
        }
    }

    /// For children that start a program at once.
    #[cfg(test)]
    pub(super) fn assume() -> Self {
        Self(())
    }

    /// Has a child run this, which ends with it.
    ///
    /// # Errors
    /// The system has no room for another process.
    pub(super) fn fork(&self, run: impl FnOnce() -> io::Result<()>) -> io::Result<Pid> {
        // SAFETY: there is no other thread (`check`), so the child finds no lock held.
        let forked = unsafe { libc::fork() };
        if forked == 0 {
            let done = run();
            if let Err(error) = &done {
                let _ = writeln!(io::stderr(), "{error}");
            }
            process::exit(i32::from(done.is_err()));
        }
        Pid::from_raw(forked).filter(|_| forked > 0).ok_or_else(io::Error::last_os_error)
    }

    /// Has a child run `probe` with the settings and nothing else that this process has open. It leads a group of its
    /// own.
    ///
    /// # Errors
    /// The system has no room for another process.
    pub(super) fn fork_probe(&self, input: Input, probe: impl FnOnce(String) -> io::Result<()>) -> io::Result<Pid> {
        let child = self.fork(|| take(input).and_then(probe))?;
        // The child does it too, and whoever comes second has nothing to do. From here on it can be ended by its group.
        let _ = setpgid(Some(child), Some(child));
        Ok(child)
    }
}

/// In a child: makes its own what it is given, and gives the settings.
fn take(input: Input) -> io::Result<String> {
    let _ = setpgid(None, None);
    let settings = String::from_utf8(read_whole(&input.settings)?).map_err(io::Error::other)?;
    dup2_stdin(&input.library)?;
    dup2_stdout(&input.output)?;
    dup2_stderr(&input.errors)?;
    drop(input);
    close_others()?;
    Ok(settings)
}

/// In a child: keeps the socket and standard error, and nothing else that the parent has open.
pub(super) fn keep(socket: OwnedFd) -> io::Result<OwnedFd> {
    dup2_stdout(File::open("/dev/null")?)?;
    dup2_stdin(&socket)?;
    drop(socket);
    close_others()?;
    io::stdin().as_fd().try_clone_to_owned()
}

/// Closes every descriptor but standard input, output and error.
fn close_others() -> io::Result<()> {
    // SAFETY: the child ends without coming back to whoever owns these (`fork`), so nobody uses or closes them again.
    if unsafe { libc::close_range(FIRST_OTHER.unsigned_abs(), libc::c_uint::MAX, 0) } == 0 {
        return Ok(());
    }
    // Before Linux 5.9, and in containers that refuse what they do not know.
    let numbers =
        std::fs::read_dir("/proc/self/fd")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let numbers: Vec<i32> = numbers.filter(|number| *number >= FIRST_OTHER).collect();
    for number in numbers {
        // SAFETY: as above. The one by which they were listed is closed already, and its number no one else's.
        unsafe { libc::close(number) };
    }
    Ok(())
}
