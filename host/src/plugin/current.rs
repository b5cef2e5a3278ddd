//! Which plugin this thread is running right now. A crash handler reads it to name the culprit, so
//! it is a plain thread-local cell: two stores a poll, no allocation, no lock.

use std::cell::Cell;

use cardinal_plugin_abi::CtxId;

thread_local! {
    static CURRENT: Cell<CtxId> = const { Cell::new(0) };
}

/// The context whose code is running on this thread; 0 when it is the host's own.
pub fn context() -> CtxId {
    CURRENT.get()
}

/// Marks this thread as running code of `ctx` until the mark is dropped.
#[must_use]
pub fn enter(ctx: CtxId) -> Entered {
    Entered { before: CURRENT.replace(ctx) }
}

/// See [`enter`]. Marks nest: a plugin's future may poll a host's future that polls another's.
pub struct Entered {
    before: CtxId,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn marks_nest() {
        let outer = super::enter(7);
        {
            let _inner = super::enter(9);
            assert_eq!(super::context(), 9);
        }
        assert_eq!(super::context(), 7);
        drop(outer);
        assert_eq!(super::context(), 0);
    }
}
