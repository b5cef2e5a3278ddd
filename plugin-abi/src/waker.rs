//! Wakers across the border, both ways.
//!
//! A [`RawWaker`] is lent for one poll; who wants to be woken later clones it. A clone may be
//! woken and dropped from any thread, after the future's drop and after the plugin's shutdown:
//! it owns the std waker that it was made from, which promises just that.

use std::{
    mem::ManuallyDrop,
    task::{self, RawWakerVTable, Waker},
};

use abi_stable::StableAbi;

/// A std [`Waker`] of the other side.
#[repr(C)]
#[derive(StableAbi)]
pub struct RawWaker {
    data: *const (),
    clone: unsafe extern "C" fn(*const ()) -> RawWaker,
    wake: unsafe extern "C" fn(*const ()),
    wake_by_ref: unsafe extern "C" fn(*const ()),
    drop: unsafe extern "C" fn(*const ()),
}

impl RawWaker {
    /// Lends `waker` for the duration of `poll`. No allocation.
    pub fn lend<R>(waker: &Waker, poll: impl FnOnce(*const RawWaker) -> R) -> R {
        let lent = RawWaker {
            data: std::ptr::from_ref(waker).cast(),
            clone: clone_lent,
            wake: ignore, // a lent waker is never owned, so never woken by value nor dropped
            wake_by_ref: wake_lent,
            drop: ignore,
        };
        poll(&lent)
    }
}

unsafe extern "C" fn ignore(_: *const ()) {}

unsafe extern "C" fn wake_lent(data: *const ()) {
    crate::door::contain(|| {
        // SAFETY: `lend` made `data` from a `&Waker` that outlives the poll, and the other side
        // calls this only during the poll.
        unsafe { &*data.cast::<Waker>() }.wake_by_ref();
    });
}

unsafe extern "C" fn clone_lent(data: *const ()) -> RawWaker {
    // SAFETY: as in `wake_lent`.
    let waker = unsafe { &*data.cast::<Waker>() };
    // A std waker's clone counts a reference up; the abort on its panic is the standard library's
    // own rule for wakers.
    owned(waker.clone())
}

fn owned(waker: Waker) -> RawWaker {
    RawWaker {
        data: Box::into_raw(Box::new(waker)).cast_const().cast(),
        clone: clone_owned,
        wake: wake_owned,
        wake_by_ref: wake_lent, // an owned waker is read the same way: `data` points to a `Waker`
        drop: drop_owned,
    }
}

unsafe extern "C" fn clone_owned(data: *const ()) -> RawWaker {
    // SAFETY: `owned` made `data` from a `Box<Waker>` that lives until `wake` or `drop`.
    owned(unsafe { &*data.cast::<Waker>() }.clone())
}

unsafe extern "C" fn wake_owned(data: *const ()) {
    crate::door::contain(|| {
        // SAFETY: `owned` made `data` from a `Box<Waker>`, and waking by value uses it up.
        unsafe { Box::from_raw(data.cast_mut().cast::<Waker>()) }.wake();
    });
}

unsafe extern "C" fn drop_owned(data: *const ()) {
    crate::door::contain(|| {
        // SAFETY: as in `wake_owned`.
        drop(unsafe { Box::from_raw(data.cast_mut().cast::<Waker>()) });
    });
}

/// Polls something of ours with a waker of the other side. The std waker that `poll` sees is
/// borrowed: it costs nothing until it is cloned.
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
    let clone = Box::new(unsafe { (raw.clone)(raw.data) });
    task::RawWaker::new(Box::into_raw(clone).cast_const().cast(), &OWNED)
}

unsafe fn wake_foreign_by_ref(data: *const ()) {
    // SAFETY: as in `clone_foreign`.
    let raw = unsafe { &*data.cast::<RawWaker>() };
    // SAFETY: `wake_by_ref` belongs to `data` of the same `RawWaker`.
    unsafe { (raw.wake_by_ref)(raw.data) }
}

unsafe fn wake_foreign(data: *const ()) {
    // SAFETY: only `OWNED` leads here, whose data `clone_foreign` boxed.
    let raw = unsafe { Box::from_raw(data.cast_mut().cast::<RawWaker>()) };
    // SAFETY: waking by value uses the foreign waker up, and the box is gone after it.
    unsafe { (raw.wake)(raw.data) }
}

unsafe fn drop_foreign(data: *const ()) {
    // SAFETY: as in `wake_foreign`.
    let raw = unsafe { Box::from_raw(data.cast_mut().cast::<RawWaker>()) };
    // SAFETY: dropping uses the foreign waker up.
    unsafe { (raw.drop)(raw.data) }
}
