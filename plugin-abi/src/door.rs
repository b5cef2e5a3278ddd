//! The one way to run our code when the other side calls: nothing unwinds out of it.
//!
//! Unwinding into code of another compilation is undefined behaviour, so every `extern "C"` function of this crate and
//! of the SDK runs its body through [`guard`] or [`contain`], except the clone of a waker, which aborts. It works with
//! `panic
//! = "unwind"` alone; a library that aborts instead is refused before it is opened ([`crate::section::PANIC_ABORT`]).
//!
//! The constants are the tags that functions of the contract answer. A reader treats a tag that it does not know as an
//! error.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::Error;

/// Not done yet. The waker has been cloned and will be woken.
pub const PENDING: u8 = 0;
/// Done. The out value has been written and is the caller's.
pub const READY: u8 = 1;
/// Failed. The error has been written and is the caller's.
pub const FAILED: u8 = 2;
/// Panicked. The error has been written ([`crate::error::PANICKED`], with the panic's message).
pub const PANICKED: u8 = 3;
/// The end of a stream. Nothing has been written.
pub const END: u8 = 4;

/// Runs `body`, writes its value to `out` or its error to `err`, and answers which, as a tag of this module. A panic of
/// `body` becomes [`PANICKED`].
///
/// Exactly one of `out` and `err` is written. It then belongs to the caller, who drops it.
///
/// ```
/// use std::mem::MaybeUninit;
/// use cardinal_plugin_abi::{Error, door};
///
/// let (mut out, mut err) = (MaybeUninit::<u32>::uninit(), MaybeUninit::<Error>::uninit());
/// // SAFETY: both are valid for a write.
/// let tag = unsafe { door::guard(out.as_mut_ptr(), err.as_mut_ptr(), || panic!("no number")) };
/// assert_eq!(tag, door::PANICKED);
/// // SAFETY: the tag says that the error was written.
/// assert_eq!(unsafe { err.assume_init() }.text(), "no number");
/// ```
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

/// Runs `body` and drops whatever it panics with. Returns whether it came through.
///
/// It is for functions that have no place to report to: drops, wakers, log lines. The panic hook of this side has
/// reported the panic by then.
///
/// ```
/// use cardinal_plugin_abi::door;
///
/// /// A drop that the other side calls, which has no place for an error.
/// extern "C" fn free() -> u8 {
///     if door::contain(|| panic!("on purpose")) { door::READY } else { door::PANICKED }
/// }
/// assert_eq!(free(), door::PANICKED);
/// ```
pub fn contain(body: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(()) => true,
        Err(payload) => {
            drop_payload(payload);
            false
        }
    }
}

/// Returns the text of a panic's payload, and drops the payload safely: its own drop may panic.
///
/// ```
/// use cardinal_plugin_abi::door;
///
/// let payload = std::panic::catch_unwind(|| panic!("no price for {}", "L1")).unwrap_err();
/// assert_eq!(door::payload_message(payload), "no price for L1");
/// ```
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
