//! The one future that crosses, either way.

use std::{
    future::Future,
    mem::MaybeUninit,
    panic::AssertUnwindSafe,
    pin::Pin,
    task::{Context, Poll},
};

use abi_stable::StableAbi;

use crate::{
    Error,
    door::{self, FAILED, PANICKED, PENDING, READY},
    waker::{RawWaker, with_waker},
};

/// A future of the other side. Dropping it cancels the work; it may be polled and dropped on any
/// thread, with or without an async runtime there.
///
/// A panic in a poll is its result ([`crate::error::PANICKED`]); a panic in its drop is swallowed.
/// Polling it again after it was ready gives [`crate::error::BAD_HANDLE`].
#[repr(C)]
#[derive(StableAbi)]
pub struct Fut<T> {
    data: *mut (),
    poll: unsafe extern "C" fn(*mut (), *const RawWaker, *mut T, *mut Error) -> u8,
    drop: unsafe extern "C" fn(*mut ()) -> u8,
}

// SAFETY: `new`, the only constructor, takes `Send` futures alone.
unsafe impl<T> Send for Fut<T> {}

impl<T> Unpin for Fut<T> {}

impl<T> Fut<T> {
    /// Hands `future` over.
    pub fn new<F>(future: F) -> Self
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let cell = Box::new(Some(Box::pin(future)));
        Self { data: Box::into_raw(cell).cast(), poll: poll_cell::<T, F>, drop: drop_cell::<F> }
    }

    /// A future that is ready.
    pub fn ready(outcome: Result<T, Error>) -> Self
    where
        T: Send + 'static,
    {
        Self::new(std::future::ready(outcome))
    }

    /// Runs the synchronous part that makes a future; its panic becomes the future's result.
    pub fn guarded<F>(make: impl FnOnce() -> F) -> Self
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        match std::panic::catch_unwind(AssertUnwindSafe(make)) {
            Ok(future) => Self::new(future),
            Err(payload) => Self::ready(Err(Error::panicked(door::payload_message(payload)))),
        }
    }
}

type Cell<F> = Option<Pin<Box<F>>>;

unsafe extern "C" fn poll_cell<T, F>(data: *mut (), waker: *const RawWaker, out: *mut T, err: *mut Error) -> u8
where
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    // SAFETY: `Fut::new` made `data` from this type, and a `Fut` is polled through `&mut` alone.
    let cell = unsafe { &mut *data.cast::<Cell<F>>() };
    let mut pending = false;
    let poll = || {
        let Some(future) = cell.as_mut() else {
            return Err(Error::new(crate::error::BAD_HANDLE, "a future was polled after it had ended"));
        };
        // SAFETY: the other side lends its waker for this call.
        match unsafe { with_waker(waker, |cx| future.as_mut().poll(cx)) } {
            Poll::Ready(outcome) => outcome.map(Some),
            Poll::Pending => Ok(None),
        }
    };
    let mut value = MaybeUninit::<Option<T>>::uninit();
    // SAFETY: `value` is ours, and the other side gives an `err` that is valid for a write.
    let tag = unsafe { door::guard(value.as_mut_ptr(), err, poll) };
    if tag == READY {
        // SAFETY: `guard` wrote `value` when it says so.
        match unsafe { value.assume_init() } {
            // SAFETY: the other side gives an `out` that is valid for a write.
            Some(value) => unsafe { out.write(value) },
            None => pending = true,
        }
    }
    if pending {
        return PENDING;
    }
    // Ended one way or another: free what it held now, not when the other side gets round to it.
    door::contain(|| *cell = None);
    tag
}

unsafe extern "C" fn drop_cell<F>(data: *mut ()) -> u8 {
    let done = door::contain(|| {
        // SAFETY: `Fut::new` boxed this very type; `Fut`'s drop runs once.
        drop(unsafe { Box::from_raw(data.cast::<Cell<F>>()) });
    });
    if done { READY } else { PANICKED }
}

impl<T> Future for Fut<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut out = MaybeUninit::uninit();
        let mut err = MaybeUninit::uninit();
        let tag = RawWaker::lend(cx.waker(), |waker| {
            // SAFETY: `poll` belongs to `data`; both out pointers are valid for a write.
            unsafe { (this.poll)(this.data, waker, out.as_mut_ptr(), err.as_mut_ptr()) }
        });
        match tag {
            PENDING => Poll::Pending,
            // SAFETY: the contract of `poll`: READY means that `out` was written.
            READY => Poll::Ready(Ok(unsafe { out.assume_init() })),
            // SAFETY: the contract of `poll`: FAILED and PANICKED mean that `err` was written.
            FAILED | PANICKED => Poll::Ready(Err(unsafe { err.assume_init() })),
            tag => {
                Poll::Ready(Err(Error::new(crate::error::INTERNAL, format!("a future answered the unknown tag {tag}"))))
            }
        }
    }
}

impl<T> std::fmt::Debug for Fut<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fut")
    }
}

impl<T> Drop for Fut<T> {
    fn drop(&mut self) {
        // SAFETY: `drop` belongs to `data` and runs once. Its status is for nobody: the panic
        // hook of its side has already reported a panic.
        unsafe { (self.drop)(self.data) };
    }
}
