//! The one way to run our code when the other side calls: nothing unwinds out of it.
//!
//! Unwinding into code of another compilation is undefined, so that every `extern "C"` function of this crate and of the
//! SDK runs its body through [`guard`] or [`contain`], but for the clone of a waker, which aborts. It works with `panic = "unwind"` alone; a library that aborts
//! instead is refused before it is opened ([`crate::section::PANIC_ABORT`]).

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::Error;

/// Not done yet; the waker has been kept and will be woken.
pub const PENDING: u8 = 0;
/// Done: the out value has been written and is the caller's.
pub const READY: u8 = 1;
/// Failed: the error has been written and is the caller's.
pub const FAILED: u8 = 2;
/// Panicked: the error has been written ([`crate::error::PANICKED`], the panic's message in it).
pub const PANICKED: u8 = 3;
/// The end of a stream: nothing has been written.
pub const END: u8 = 4;

/// Runs `body`, writes what it gives to `out` or its error to `err`, and says which, as a tag of
/// this module. A panic of `body` becomes [`PANICKED`].
///
/// Exactly one of `out` and `err` is written, and then belongs to the caller, who has to drop it.
///
/// # Safety
/// `out` and `err` must be valid for one write each of their types, and need not be initialised.
pub unsafe fn guard<T>(out: *mut T, err: *mut Error, body: impl FnOnce() -> Result<T, Error>) -> u8 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => {
            // SAFETY: the caller promises that `out` is valid for a write.
            unsafe { out.write(value) };
            READY
        }
        Ok(Err(error)) => {
            // SAFETY: the caller promises that `err` is valid for a write.
            unsafe { err.write(error) };
            FAILED
        }
        Err(payload) => {
            // SAFETY: as above.
            unsafe { err.write(Error::panicked(payload_message(payload))) };
            PANICKED
        }
    }
}

/// Runs `body` and drops whatever it panics with; says whether it came through. For doors that
/// have no place to report to: drops, wakers, log lines. The panic hook of this side has reported the panic by then.
pub fn contain(body: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(()) => true,
        Err(payload) => {
            drop_payload(payload);
            false
        }
    }
}

/// The text of a panic's payload, and its safe end: a payload may panic itself when it is dropped.
pub fn payload_message(payload: Box<dyn Any + Send>) -> String {
    let text = match payload.downcast_ref::<&'static str>() {
        Some(text) => (*text).to_owned(),
        None => match payload.downcast_ref::<String>() {
            Some(text) => text.clone(),
            None => "a panic without a message".to_owned(),
        },
    };
    drop_payload(payload);
    text
}

/// A payload's own `Drop` may panic too; its second payload is forgotten, a third can't come.
fn drop_payload(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}
