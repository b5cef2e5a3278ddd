//! A plugin that forks without exec. Only the forking thread lives on in the child, but with all of the worker's
//! sockets and the memory that it shares with the supervisor: were that thread to come back into the host, it would
//! answer a client a second time and count down what it never counted up. It ends instead.

use std::sync::{
    Once,
    atomic::{AtomicBool, Ordering},
};

static IS_CHILD: AtomicBool = AtomicBool::new(false);

extern "C" fn note_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// Has every later fork of this process noticed.
pub fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler stores to a static, which a child of any thread may do.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(note_child)) };
        if refused != 0 {
            tracing::warn!(refused, "forks of plugins are not noticed: the system has no room for the handler");
        }
    });
}

/// Ends this process when a plugin has made it by forking. To be called where a plugin's code gives the thread back.
pub(crate) fn end_child() {
    if IS_CHILD.load(Ordering::Relaxed) {
        // SAFETY: ends the process at once; destructors and exit handlers are the parent's to run.
        unsafe { libc::_exit(0) }
    }
}
