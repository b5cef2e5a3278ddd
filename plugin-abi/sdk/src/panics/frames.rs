//! Where a panic came from: the calls under way on this thread that lie in this library, as offsets into its file.
//!
//! No names are looked up here. A host runs a copy of the library without its symbols, and searching the host's own
//! debug information for the other frames has taken longer than a call's deadline.

use std::ffi::{c_int, c_void};

/// Frames that are kept, the innermost ones. A dozen of them are the panic's own.
const FRAMES: usize = 32;
/// What a walk's step answers to go on, and to end.
const GO_ON: c_int = 0;
const END: c_int = 5;

unsafe extern "C" {
    /// The first byte of this library in memory, and the one behind its last: every ELF linker knows them.
    safe static __ehdr_start: u8;
    safe static _end: u8;

    /// Of the platform's unwinder, which the standard library links. Calls `step` once for each frame of this thread.
    fn _Unwind_Backtrace(step: extern "C" fn(*mut c_void, *mut c_void) -> c_int, walk: *mut c_void) -> c_int;
    /// Where the frame goes on; `exact` becomes 0 when that is behind a call, as it mostly is.
    fn _Unwind_GetIPInfo(frame: *mut c_void, exact: *mut c_int) -> usize;
}

/// Up to [`FRAMES`] offsets as `addr2line` takes them, the innermost frame first.
pub(super) fn offsets() -> Vec<String> {
    let mut found: Vec<usize> = Vec::with_capacity(FRAMES);
    // SAFETY: the walk calls `step` on this thread with this vector, and has ended when it returns.
    unsafe { _Unwind_Backtrace(step, (&raw mut found).cast()) };
    found.iter().map(|offset| format!("{offset:#x}")).collect()
}

extern "C" fn step(frame: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: `walk` is the vector of `offsets`, which nobody else touches during the walk.
    let found = unsafe { &mut *walk.cast::<Vec<usize>>() };
    let mut exact: c_int = 0;
    // SAFETY: the unwinder's own frame, during its call of this function.
    let next = unsafe { _Unwind_GetIPInfo(frame, &raw mut exact) };
    // The instruction behind a call may belong to the next line already.
    let address = if exact == 0 { next.saturating_sub(1) } else { next };
    let (begin, end) = ((&raw const __ehdr_start).addr(), (&raw const _end).addr());
    if (begin..end).contains(&address) {
        found.push(address - begin);
    }
    if found.len() < FRAMES { GO_ON } else { END }
}

#[cfg(test)]
mod tests {
    use super::{__ehdr_start, FRAMES, offsets};

    #[inline(never)]
    fn dig(depth: usize) -> Vec<String> {
        let found = if depth == 0 { offsets() } else { dig(depth - 1) };
        std::hint::black_box(found)
    }

    #[test]
    fn the_frames_of_this_library_are_told_innermost_first_and_bounded() {
        let number = |offset: &String| usize::from_str_radix(offset.strip_prefix("0x").unwrap(), 16).unwrap();
        let dig_at = (dig as *const () as usize) - (&raw const __ehdr_start).addr();
        let is_dig = |offset: &String| (dig_at..dig_at + 0x400).contains(&number(offset));
        let (shallow, deep) = (dig(3), dig(5));
        assert!(shallow.iter().filter(|offset| is_dig(offset)).count() >= 4, "{shallow:?} {dig_at:#x}");
        assert_eq!(deep.len(), shallow.len() + 2, "{shallow:?} {deep:?}");
        let found = dig(100);
        assert_eq!(found.len(), FRAMES);
        assert!(is_dig(&found[FRAMES - 1]), "{found:?} {dig_at:#x}");
    }
}
