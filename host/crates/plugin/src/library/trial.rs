//! An instance that serves no call. It is made for the list of its handlers alone, in a process that may die of it.

use cardinal_plugin_abi::{Bytes, CtxId, HostApiRef};

use super::{
    Library, about,
    raw_instance::{CreateError, create},
};

/// The context's number in a process that has one context.
const ONLY: CtxId = 1;

/// Runs the author's `routes` and gives the list of handlers. The instance stays: the process ends soon.
pub fn exports(library: &Library, host: HostApiRef) -> Result<Bytes, CreateError> {
    let instance = create(library, host, ONLY, &about::record(0))?;
    // SAFETY: `create` has just given this instance, and nothing destroys it.
    Ok(unsafe { (library.module.exports())(instance) })
}
