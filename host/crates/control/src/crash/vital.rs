//! The numbers of descriptors. Those that the host lives by get numbers of a range of their own, which a filter of
//! system calls keeps from being closed and replaced (`crates/control/src/sandbox/descriptor_calls.rs`). The lowest
//! numbers, where code begins that closes all there is, are tripwires: nobody needs them, and it is seen when one goes.
//!
//! Low numbers themselves are not forbidden: code that opens and closes files of its own gets them, too.

use std::{
    fs::File,
    io,
    mem::MaybeUninit,
    ops::{Range, RangeInclusive},
    os::fd::{AsFd, AsRawFd, IntoRawFd as _, OwnedFd, RawFd},
    sync::OnceLock,
};

use rustix::{
    event::epoll,
    io::fcntl_dupfd_cloexec,
    pipe::{PipeFlags, pipe_with},
};

/// Beyond what shells use for themselves, and far below any limit.
pub const NUMBERS: Range<RawFd> = 256..320;
/// Beside standard input, output and error.
const TRIPWIRES: RangeInclusive<RawFd> = 3..=9;

static ALARM: OnceLock<OwnedFd> = OnceLock::new();

/// Takes all numbers below [`NUMBERS`] until it is dropped, so that whatever is opened meanwhile gets one of those.
pub struct LowNumbers(#[expect(dead_code, reason = "held until they are dropped")] Vec<OwnedFd>);

impl LowNumbers {
    /// # Errors
    /// There may not be as many descriptors.
    pub fn take() -> io::Result<Self> {
        let mut taken = vec![OwnedFd::from(File::open("/dev/null")?)];
        loop {
            let next = fcntl_dupfd_cloexec(&taken[0], *TRIPWIRES.start())?;
            if next.as_raw_fd() >= NUMBERS.start {
                return Ok(Self(taken)); // where the filter does not let this one go, it is one more filler
            }
            taken.push(next);
        }
    }
}

/// Lays the tripwires and takes what is left of [`NUMBERS`], so that nothing gets one that has to be closed again.
///
/// # Errors
/// The system gives no descriptors.
pub fn guard() -> io::Result<()> {
    let alarm = within(&epoll::create(epoll::CreateFlags::CLOEXEC)?)?;
    for number in TRIPWIRES {
        lay(number, &alarm)?;
    }
    ALARM.set(alarm).map_err(|_| io::Error::other("the tripwires are already open"))?;
    let nothing = File::open("/dev/null")?;
    loop {
        let filler = fcntl_dupfd_cloexec(&nothing, NUMBERS.start)?;
        if filler.as_raw_fd() >= NUMBERS.end {
            return Ok(());
        }
        let _for_good = filler.into_raw_fd();
    }
}

/// A copy with a number of the range.
fn within(descriptor: impl AsFd) -> io::Result<OwnedFd> {
    Ok(fcntl_dupfd_cloexec(descriptor, NUMBERS.start)?)
}

/// The only writing end of a pipe: when it is closed, replaced included, the reading end hears of it. A number that is
/// in use already is left alone.
fn lay(number: RawFd, alarm: &OwnedFd) -> io::Result<()> {
    let (reader, writer) = pipe_for_tripwire()?;
    let wire = fcntl_dupfd_cloexec(&writer, number)?;
    if wire.as_raw_fd() == number {
        let _for_good = wire.into_raw_fd();
        epoll::add(alarm, &reader, epoll::EventData::new_u64(0), epoll::EventFlags::empty())?;
    }
    let _for_good = reader.into_raw_fd();
    Ok(())
}

/// Its ends have none of the numbers that are laid. The writing end can be closed: it must not be a second one for
/// good.
fn pipe_for_tripwire() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((within(&reader)?, fcntl_dupfd_cloexec(&writer, NUMBERS.end)?))
}

/// Whether a tripwire was closed or replaced. One system call that does not wait; may be asked in a signal handler.
pub(crate) fn is_tripped() -> bool {
    let Some(alarm) = ALARM.get() else { return false };
    let mut event = MaybeUninit::<libc::epoll_event>::uninit();
    // SAFETY: there is room for one event, and the alarm stays open.
    unsafe { libc::epoll_wait(alarm.as_raw_fd(), event.as_mut_ptr(), 1, 0) > 0 }
}
