//! An instance that serves no call. It is made for the list of its handlers alone, in a process that may die of it.

use std::mem::MaybeUninit;

use cardinal_plugin_abi::{Bytes, CtxId, Error, HostApiRef, Slice, door};
use serde::Deserialize;

use super::{Library, about, raw_instance::CreateError};

/// The context's number in a process that has one context.
const ONLY: CtxId = 1;
/// Bytes of an error's details that are read, and how many of the fields that it names are kept.
const DETAILS_LIMIT: usize = 64 << 10;
const MAX_FIELDS: usize = 64;

/// Why `routes` gave no router.
pub struct TrialError {
    pub reason: CreateError,
    /// Which settings it says are wrong: a JSON pointer and what is wrong with it.
    pub fields: Vec<(String, String)>,
}

/// What an error says of fields.
#[derive(Deserialize, Default)]
struct Details {
    #[serde(default)]
    errors: Vec<WrongField>,
}

#[derive(Deserialize)]
struct WrongField {
    pointer: String,
    detail: String,
}

impl TrialError {
    fn failed(error: &Error) -> Self {
        let details = Some(error.details.get()).filter(|text| text.len() <= DETAILS_LIMIT);
        let Details { errors } = details.and_then(|text| serde_json::from_slice(text).ok()).unwrap_or_default();
        let fields = errors.into_iter().take(MAX_FIELDS).map(|field| (field.pointer, field.detail)).collect();
        Self { reason: CreateError::Failed(error.text()), fields }
    }

    fn other(reason: CreateError) -> Self {
        Self { reason, fields: Vec::new() }
    }
}

/// Runs the author's `routes` and gives the list of handlers. The instance stays: the process ends soon.
pub fn exports(library: &Library, host: HostApiRef) -> Result<Bytes, TrialError> {
    let about = about::record(0);
    let (mut instance, mut failure) = (std::ptr::null(), MaybeUninit::uninit());
    // SAFETY: a `Library` has a checked table; both out pointers are valid for a write.
    let tag =
        unsafe { (library.module.create())(host, ONLY, Slice::new(&about), &raw mut instance, failure.as_mut_ptr()) };
    match tag {
        // SAFETY: `create` has just given this instance, and nothing destroys it.
        door::READY if !instance.is_null() => Ok(unsafe { (library.module.exports())(instance) }),
        // SAFETY: the contract of `create`: these tags mean that `err` was written.
        door::FAILED => Err(TrialError::failed(&unsafe { failure.assume_init() })),
        // SAFETY: as above.
        door::PANICKED => Err(TrialError::other(CreateError::Panicked(unsafe { failure.assume_init() }.text()))),
        tag => Err(TrialError::other(CreateError::Failed(format!("`create` answered the tag {tag}")))),
    }
}
