//! An instance that serves no call. It is made for the list of its handlers alone, in a process that may die of it.

use std::mem::MaybeUninit;

use cardinal_plugin_abi::{Bytes, CtxId, HostApiRef, Slice, door};

use super::{Library, about, raw_instance::CreateError};

/// The context's number in a process that has one context.
const ONLY: CtxId = 1;

/// Runs the author's `routes` and gives the list of handlers. The instance stays: the process ends soon.
pub fn exports(library: &Library, host: HostApiRef) -> Result<Bytes, CreateError> {
    let about = about::record(0);
    let (mut instance, mut failure) = (std::ptr::null(), MaybeUninit::uninit());
    // SAFETY: a `Library` has a checked table; both out pointers are valid for a write.
    let tag =
        unsafe { (library.module.create())(host, ONLY, Slice::new(&about), &raw mut instance, failure.as_mut_ptr()) };
    match tag {
        // SAFETY: `create` has just given this instance, and nothing destroys it.
        door::READY if !instance.is_null() => Ok(unsafe { (library.module.exports())(instance) }),
        // SAFETY: the contract of `create`: these tags mean that `err` was written.
        door::FAILED => Err(CreateError::Failed(unsafe { failure.assume_init() }.text())),
        // SAFETY: as above.
        door::PANICKED => Err(CreateError::Panicked(unsafe { failure.assume_init() }.text())),
        tag => Err(CreateError::Failed(format!("`create` answered the tag {tag}"))),
    }
}
