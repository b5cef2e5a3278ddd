//! How much memory the plugin holds, for the host to show.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU64, Ordering},
};

use cardinal_plugin_abi::extension::{Memory, MemoryUse};

/// Threads count in different places, so that they don't wait for each other's cache lines.
const SHARDS: usize = 16;
/// Threads' stacks are at least this far apart, as a rule.
const STACK_BITS: u32 = 20;

#[repr(align(128))]
struct Shard {
    allocated: AtomicU64,
    freed: AtomicU64,
}

static COUNTED: [Shard; SHARDS] = [const { Shard { allocated: AtomicU64::new(0), freed: AtomicU64::new(0) } }; SHARDS];

/// An allocator that counts what another one allocates and frees, so that the host can show how much memory the plugin
/// holds (`budgets.memory_bytes`). The host shows the number and limits nothing.
///
/// The SDK puts it around the system's allocator. A plugin with an allocator of its own depends on the SDK with
/// `default-features = false` and wraps that one:
///
/// ```
/// use std::alloc::System; // or another crate's
/// use cardinal_plugin::Counting;
///
/// // #[global_allocator]
/// static ALLOCATOR: Counting<System> = Counting::new(System);
/// ```
///
/// It counts the whole library: all instances, and all crates in it. An allocation costs one atomic addition on a cache
/// line that few threads share, and never locks or allocates.
#[derive(Debug)]
pub struct Counting<A = System>(A);

impl<A> Counting<A> {
    /// Wraps `allocator`, which does all the work. Only what passes through the wrapped one is counted.
    ///
    /// ```
    /// use std::alloc::System;
    ///
    /// const fn counted() -> cardinal_plugin::Counting {
    ///     cardinal_plugin::Counting::new(System) // of a static: it allocates nothing
    /// }
    /// ```
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

#[cfg(feature = "count-memory")]
#[global_allocator]
static ALLOCATOR: Counting = Counting::new(System);

/// The shard of this thread. A stack address tells threads apart without the cost of a thread-local, which an allocator
/// had better not have.
fn shard() -> &'static Shard {
    let here = 0_u8;
    &COUNTED[(((&raw const here).addr() >> STACK_BITS) ^ ((&raw const here).addr() >> (STACK_BITS + 3))) % SHARDS]
}

fn allocated(bytes: usize) {
    shard().allocated.fetch_add(bytes as u64, Ordering::Relaxed);
}

fn freed(bytes: usize) {
    shard().freed.fetch_add(bytes as u64, Ordering::Relaxed);
}

// SAFETY: all that is asked for is passed on to another allocator as it came, and all that it gives is passed back.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let given = unsafe { self.0.alloc(layout) };
        if !given.is_null() {
            allocated(layout.size());
        }
        given
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let given = unsafe { self.0.alloc_zeroed(layout) };
        if !given.is_null() {
            allocated(layout.size());
        }
        given
    }

    unsafe fn dealloc(&self, given: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.0.dealloc(given, layout) };
        freed(layout.size());
    }

    unsafe fn realloc(&self, given: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        let moved = unsafe { self.0.realloc(given, layout, size) };
        if !moved.is_null() {
            match size.checked_sub(layout.size()) {
                Some(more) => allocated(more),
                None => freed(layout.size() - size),
            }
        }
        moved
    }
}

/// Adds up the shards. The host calls it from any thread, at any time.
extern "C" fn read() -> MemoryUse {
    // What was freed first: what is allocated in between must not make it look like less than nothing.
    let sum = |of: fn(&Shard) -> &AtomicU64| COUNTED.iter().map(|shard| of(shard).load(Ordering::Relaxed)).sum();
    let freed = sum(|shard| &shard.freed);
    MemoryUse { allocated: sum(|shard| &shard.allocated), freed }
}

/// The extension's table; `None` when nothing counts.
pub(crate) fn extension() -> Option<&'static Memory> {
    static TABLE: Memory = Memory { read };
    (read().allocated > 0).then_some(&TABLE)
}

#[cfg(all(test, feature = "count-memory"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_and_given_back() {
        const MANY: usize = 64 << 20;
        let before = read();
        let mut held = vec![1_u8; MANY];
        assert!(read().allocated - before.allocated >= MANY as u64);
        held.truncate(MANY / 2);
        held.shrink_to_fit();
        let freed = read().freed - before.freed;
        assert!((MANY as u64 / 2..MANY as u64).contains(&freed), "{freed}");
        std::thread::spawn(move || drop(held)).join().unwrap();
        assert!(read().freed - before.freed >= MANY as u64, "another thread gives it back");
        assert!(extension().is_some());
    }
}
