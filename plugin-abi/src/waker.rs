//! Wakers across the border, both ways.
//!
//! A [`RawWaker`] is lent for one poll; who wants to be woken later clones it. A clone may be woken and dropped from
//! any thread, after the future's drop and after the plugin's shutdown: it owns the std waker that it was made from,
//! which promises just that.
//!
//! ```
//! use std::{sync::{Arc, atomic::{AtomicBool, Ordering}}, task::{Wake, Waker}};
//! use cardinal_plugin_abi::waker::{RawWaker, with_waker};
//!
//! #[derive(Default)]
//! struct Flag(AtomicBool);
//!
//! impl Wake for Flag {
//!     fn wake(self: Arc<Self>) {
//!         self.0.store(true, Ordering::SeqCst);
//!     }
//! }
//!
//! let flag = Arc::new(Flag::default());
//! // One side lends its waker; the other one keeps a clone, and wakes it from another thread.
//! let kept = RawWaker::lend(&Waker::from(flag.clone()), |raw| {
//!     // SAFETY: `lend` keeps `raw` valid during the call.
//!     unsafe { with_waker(raw, |cx| cx.waker().clone()) }
//! });
//! std::thread::spawn(move || kept.wake()).join().unwrap();
//! assert!(flag.0.load(Ordering::SeqCst));
//! ```

use std::{
    mem::ManuallyDrop,
    task::{self, RawWakerVTable, Waker},
};

use abi_stable::StableAbi;

/// A std [`Waker`] of the other side, taken apart: its data, its vtable, and functions of its own side that put it
/// together again.
///
/// The functions contain the panics of the waker, except `clone`, which aborts the process: it has no place for an
/// error.
///
/// ```
/// use std::task::Waker;
/// use cardinal_plugin_abi::waker::{RawWaker, with_waker};
///
/// let woken = RawWaker::lend(Waker::noop(), |raw| {
///     // SAFETY: `lend` keeps `raw` valid during the call.
///     unsafe { with_waker(raw, |cx| cx.waker().wake_by_ref()) }
/// });
/// ```
#[repr(C)]
#[derive(StableAbi)]
pub struct RawWaker {
    data: *const (),
    vtable: *const (),
    clone: unsafe extern "C" fn(data: *const (), vtable: *const ()) -> RawWaker,
    wake: unsafe extern "C" fn(data: *const (), vtable: *const ()),
    wake_by_ref: unsafe extern "C" fn(data: *const (), vtable: *const ()),
    drop: unsafe extern "C" fn(data: *const (), vtable: *const ()),
}

impl RawWaker {
    /// Lends `waker` for the duration of `poll`, which runs at once and on this thread. It allocates nothing.
    ///
    /// The receiver clones it, or wakes it by reference during the poll; it does not drop it nor wake it by value. A
    /// waker that came over this very border goes back as what it was, so that the other side wakes its own directly.
    ///
    /// ```
    /// use std::task::Waker;
    /// use cardinal_plugin_abi::waker::RawWaker;
    ///
    /// assert!(RawWaker::lend(Waker::noop(), |raw| !raw.is_null()));
    /// ```
    pub fn lend<R>(waker: &Waker, poll: impl FnOnce(*const RawWaker) -> R) -> R {
        match Self::behind(waker) {
            Some(raw) => poll(raw),
            None => poll(&Self::apart(waker)),
        }
    }

    /// What `waker` stands for, when [`with_waker`] made it or its original.
    fn behind(waker: &Waker) -> Option<*const RawWaker> {
        let ours = std::ptr::eq(waker.vtable(), &BORROWED) || std::ptr::eq(waker.vtable(), &OWNED);
        ours.then(|| waker.data().cast())
    }

    /// The parts of `waker`, which stays its owner's.
    fn apart(waker: &Waker) -> Self {
        Self {
            data: waker.data(),
            vtable: std::ptr::from_ref(waker.vtable()).cast(),
            clone,
            wake,
            wake_by_ref,
            drop: drop_waker,
        }
    }
}

/// # Safety
/// `data` and `vtable` are those of a std waker of this side that is alive; whoever lets the
/// result be dropped gives that waker up.
unsafe fn whole(data: *const (), vtable: *const ()) -> ManuallyDrop<Waker> {
    // SAFETY: a std waker's vtable is `&'static`, and the two parts came from one waker.
    ManuallyDrop::new(unsafe { Waker::new(data, &*vtable.cast::<RawWakerVTable>()) })
}

// A std waker may panic in its clone (an executor's reference counter that overflows); then the
// process aborts at this border, as the standard library's own counters do.
unsafe extern "C" fn clone(data: *const (), vtable: *const ()) -> RawWaker {
    // SAFETY: the other side calls this while the waker is lent to it, or it owns a clone.
    let waker = unsafe { whole(data, vtable) };
    RawWaker::apart(&ManuallyDrop::new(Waker::clone(&waker)))
}

unsafe extern "C" fn wake(data: *const (), vtable: *const ()) {
    // SAFETY: the other side calls this with a clone that it owns, and gives it up with that.
    let waker = ManuallyDrop::into_inner(unsafe { whole(data, vtable) });
    crate::door::contain(|| waker.wake());
}

unsafe extern "C" fn wake_by_ref(data: *const (), vtable: *const ()) {
    // SAFETY: as in `clone`.
    let waker = unsafe { whole(data, vtable) };
    crate::door::contain(|| waker.wake_by_ref());
}

unsafe extern "C" fn drop_waker(data: *const (), vtable: *const ()) {
    // SAFETY: as in `wake`.
    let waker = ManuallyDrop::into_inner(unsafe { whole(data, vtable) });
    crate::door::contain(|| drop(waker));
}

/// Polls something of ours with a waker of the other side.
///
/// The std waker that `poll` sees is borrowed: it costs nothing until it is cloned. A clone is a box of this side
/// around a clone of the other, and may be kept as long as it is wanted.
///
/// ```
/// use std::{pin::pin, task::{Poll, Waker}};
/// use cardinal_plugin_abi::waker::{RawWaker, with_waker};
///
/// let polled = RawWaker::lend(Waker::noop(), |raw| {
///     // SAFETY: `lend` keeps `raw` valid during the call.
///     unsafe { with_waker(raw, |cx| pin!(async { 990 }).poll(cx)) }
/// });
/// assert_eq!(polled, Poll::Ready(990));
/// ```
///
/// # Safety
/// `raw` must point to a [`RawWaker`] that stays valid during this call.
pub unsafe fn with_waker<R>(raw: *const RawWaker, poll: impl FnOnce(&mut task::Context<'_>) -> R) -> R {
    // SAFETY: the vtable below treats `data` as `*const RawWaker`, which the caller keeps valid;
    // `ManuallyDrop` keeps the borrowed one from being dropped.
    let waker = ManuallyDrop::new(unsafe { Waker::from_raw(task::RawWaker::new(raw.cast(), &BORROWED)) });
    poll(&mut task::Context::from_waker(&waker))
}

static BORROWED: RawWakerVTable = RawWakerVTable::new(clone_foreign, |_| (), wake_foreign_by_ref, |_| ());
static OWNED: RawWakerVTable = RawWakerVTable::new(clone_foreign, wake_foreign, wake_foreign_by_ref, drop_foreign);

unsafe fn clone_foreign(data: *const ()) -> task::RawWaker {
    // SAFETY: both vtables keep a valid `RawWaker` behind `data`.
    let raw = unsafe { &*data.cast::<RawWaker>() };
    // SAFETY: `clone` belongs to `data` of the same `RawWaker`.
    let clone = Box::new(unsafe { (raw.clone)(raw.data, raw.vtable) });
    task::RawWaker::new(Box::into_raw(clone).cast_const().cast(), &OWNED)
}

unsafe fn wake_foreign_by_ref(data: *const ()) {
    // SAFETY: as in `clone_foreign`.
    let raw = unsafe { &*data.cast::<RawWaker>() };
    // SAFETY: `wake_by_ref` belongs to `data` of the same `RawWaker`.
    unsafe { (raw.wake_by_ref)(raw.data, raw.vtable) }
}

unsafe fn wake_foreign(data: *const ()) {
    // SAFETY: only `OWNED` leads here, whose data `clone_foreign` boxed.
    let raw = unsafe { Box::from_raw(data.cast_mut().cast::<RawWaker>()) };
    // SAFETY: waking by value uses the foreign waker up, and the box is gone after it.
    unsafe { (raw.wake)(raw.data, raw.vtable) }
}

unsafe fn drop_foreign(data: *const ()) {
    // SAFETY: as in `wake_foreign`.
    let raw = unsafe { Box::from_raw(data.cast_mut().cast::<RawWaker>()) };
    // SAFETY: dropping uses the foreign waker up.
    unsafe { (raw.drop)(raw.data, raw.vtable) }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::Wake,
    };

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A waker as the other side sees it, cloned during a poll.
    fn crossed(waker: &Waker) -> Waker {
        // SAFETY: `lend` keeps `raw` valid during the call.
        RawWaker::lend(waker, |raw| unsafe { with_waker(raw, |cx| cx.waker().clone()) })
    }

    #[test]
    fn a_clone_outlives_the_poll_and_its_original_and_goes_to_other_threads() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let (one, two) = (crossed(&waker), crossed(&waker));
        drop(waker);
        let three = two.clone();
        std::thread::spawn(move || {
            one.wake_by_ref();
            one.wake();
        })
        .join()
        .unwrap();
        two.wake_by_ref();
        three.wake();
        drop(two);
        assert_eq!(count.0.load(Ordering::SeqCst), 4);
        assert_eq!(Arc::strong_count(&count), 1, "every clone gave its reference back");
    }

    #[test]
    fn a_waker_that_comes_back_is_its_own_again() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let there = crossed(&waker);
        let back = crossed(&there);
        drop(there);
        back.wake_by_ref();
        drop(back);
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        drop(waker);
        assert_eq!(Arc::strong_count(&count), 1);
    }

    #[test]
    fn a_waker_that_panics_is_contained() {
        struct Panics;
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {
                panic!("expected by the test");
            }
        }
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("expected by the test");
            }
        }
        let waker = Waker::from(Arc::new(Panics));
        let there = crossed(&waker);
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(waker))); // not the last reference
        there.wake_by_ref();
        drop(there); // the last: what is dropped here panics
    }
}
