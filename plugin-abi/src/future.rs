//! The one future that crosses, either way.
//!
//! Every function that takes time returns one: host functions to plugins, handlers to the host. Neither side knows the
//! other's runtime, and needs none to poll: the waker crosses with each poll ([`crate::waker`]).
//!
//! ```
//! use std::{pin::pin, task::{Context, Poll, Waker}};
//! use cardinal_plugin_abi::{Error, Fut};
//!
//! let mut future = pin!(Fut::new(async { Ok::<u64, Error>(7) }));
//! let mut cx = Context::from_waker(Waker::noop());
//! assert!(matches!(std::future::Future::poll(future.as_mut(), &mut cx), Poll::Ready(Ok(7))));
//! ```

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

/// A future of the other side.
///
/// **Polling.** It may be polled on any thread, with or without an async runtime there, by one thread at a time. A
/// panic in a poll is its result ([`crate::error::PANICKED`]). Polling it again after it was ready gives
/// [`crate::error::BAD_HANDLE`].
///
/// **Dropping.** Whoever holds it owns it and drops it once, on any thread. Dropping it before it is ready cancels the
/// work. A panic in its drop is contained. It is freed by the side that made it.
///
/// ```
/// use std::{pin::Pin, task::{Context, Waker}};
/// use cardinal_plugin_abi::{Fut, error};
///
/// let mut price = Fut::new(async { Ok(990_u64) });
/// let mut poll = || Pin::new(&mut price).poll(&mut Context::from_waker(Waker::noop()));
/// assert!(poll().is_ready());
/// assert!(poll().map(|again| again.unwrap_err().code == error::BAD_HANDLE).is_ready());
/// ```
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
    /// Hands `future` over. It is boxed here, and polled and dropped by the other side, on threads of its choice: hence
    /// `Send` and `'static`.
    ///
    /// Its output `T` is written into memory of the other side as it is, so it must be a type of this crate or plain
    /// data. What the future holds is dropped as soon as it is ready.
    ///
    /// ```
    /// use cardinal_plugin_abi::{Answer, Fut};
    ///
    /// /// A function of a table: it says at once what the future stands for.
    /// extern "C" fn count_prices() -> Fut<Answer> {
    ///     Fut::new(async { Ok(1_200.into()) })
    /// }
    /// # use std::{pin::Pin, task::{Context, Poll, Waker}};
    /// # let polled = Pin::new(&mut count_prices()).poll(&mut Context::from_waker(Waker::noop()));
    /// # assert!(matches!(polled, Poll::Ready(Ok(Answer { number: 1_200, .. }))));
    /// ```
    pub fn new<F>(future: F) -> Self
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let cell: Box<Cell<F>> = Box::new(Some(future));
        Self { data: Box::into_raw(cell).cast(), poll: poll_cell::<T, F>, drop: drop_cell::<F> }
    }

    /// Makes a future that is ready: its first poll gives `outcome`.
    ///
    /// ```
    /// use std::{pin::Pin, task::{Context, Poll, Waker}};
    /// use cardinal_plugin_abi::{Error, Fut, error};
    ///
    /// let mut refused: Fut<u64> = Fut::ready(Err(Error::new(error::FORBIDDEN, "This needs the scope `cards:read`.")));
    /// let polled = Pin::new(&mut refused).poll(&mut Context::from_waker(Waker::noop()));
    /// assert!(matches!(polled, Poll::Ready(Err(error)) if error.code == error::FORBIDDEN));
    /// ```
    pub fn ready(outcome: Result<T, Error>) -> Self
    where
        T: Send + 'static,
    {
        Self::new(std::future::ready(outcome))
    }

    /// Runs the synchronous part that makes a future. A panic of it becomes the future's result
    /// ([`crate::error::PANICKED`]).
    ///
    /// It is for functions that read what the other side lends before they begin to wait.
    ///
    /// ```
    /// use cardinal_plugin_abi::{Answer, Fut, Slice};
    ///
    /// extern "C" fn count(skus: Slice<'_>) -> Fut<Answer> {
    ///     Fut::guarded(|| {
    ///         let count = skus.as_text().unwrap_or_default().split(',').count() as u64; // before it returns
    ///         async move { Ok(count.into()) }
    ///     })
    /// }
    /// # use std::{pin::Pin, task::{Context, Poll, Waker}};
    /// # let polled = Pin::new(&mut count(Slice::text("L1,L2"))).poll(&mut Context::from_waker(Waker::noop()));
    /// # assert!(matches!(polled, Poll::Ready(Ok(Answer { number: 2, .. }))));
    /// ```
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

/// `None` once the future has ended, failed or panicked. It stays where it was boxed until it is
/// dropped there, so that the future in it is pinned.
type Cell<F> = Option<F>;

unsafe extern "C" fn poll_cell<T, F>(data: *mut (), waker: *const RawWaker, out: *mut T, err: *mut Error) -> u8
where
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    // SAFETY: `Fut::new` made `data` from this type, and a `Fut` is polled through `&mut` alone.
    // The cell is never moved out of its box: see `Cell`.
    let mut cell = unsafe { Pin::new_unchecked(&mut *data.cast::<Cell<F>>()) };
    let mut pending = false;
    let poll = || {
        let Some(future) = cell.as_mut().as_pin_mut() else {
            return Err(Error::new(crate::error::BAD_HANDLE, "a future was polled after it had ended"));
        };
        // SAFETY: the other side lends its waker for this call.
        match unsafe { with_waker(waker, |cx| future.poll(cx)) } {
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
    door::contain(|| cell.set(None));
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

#[cfg(test)]
mod tests {
    use std::{
        marker::PhantomPinned,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::Waker,
    };

    use super::*;
    use crate::error;

    /// Pending `left` times; then ready with 7, or a panic. Counts its drops, and may panic in it.
    struct Script {
        left: u32,
        panics: bool,
        panics_in_drop: bool,
        drops: Arc<AtomicUsize>,
        /// Where it was first polled: it must stay there.
        at: usize,
        _pinned: PhantomPinned,
    }

    impl Script {
        fn new(left: u32) -> (Self, Arc<AtomicUsize>) {
            let drops = Arc::new(AtomicUsize::new(0));
            let (panics, panics_in_drop) = (false, false);
            (Self { left, panics, panics_in_drop, drops: drops.clone(), at: 0, _pinned: PhantomPinned }, drops)
        }
    }

    impl Future for Script {
        type Output = Result<u64, Error>;

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
            // SAFETY: nothing is moved out of it.
            let this = unsafe { self.get_unchecked_mut() };
            let here = std::ptr::from_ref(this) as usize;
            assert!(this.at == 0 || this.at == here, "a pinned future was moved");
            this.at = here;
            if this.left > 0 {
                this.left -= 1;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            assert!(!this.panics, "expected by the test");
            Poll::Ready(Ok(7))
        }
    }

    impl Drop for Script {
        fn drop(&mut self) {
            self.drops.fetch_add(1, Ordering::SeqCst);
            assert!(!self.panics_in_drop, "expected by the test");
        }
    }

    fn poll(future: &mut Fut<u64>) -> Poll<Result<u64, Error>> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn it_is_pending_then_ready_then_over() {
        let (script, drops) = Script::new(2);
        let mut future = Fut::new(script);
        assert!(poll(&mut future).is_pending());
        let mut moved = future;
        assert!(poll(&mut moved).is_pending());
        assert!(matches!(poll(&mut moved), Poll::Ready(Ok(7))));
        assert_eq!(drops.load(Ordering::SeqCst), 1, "what it held is freed as soon as it is ready");
        assert!(matches!(poll(&mut moved), Poll::Ready(Err(error)) if error.code == error::BAD_HANDLE));
        drop(moved);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn dropping_it_early_drops_what_is_behind_it_once() {
        let (script, drops) = Script::new(2);
        let mut future = Fut::new(script);
        assert!(poll(&mut future).is_pending());
        drop(future);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_panic_in_a_poll_is_its_result_and_frees_what_it_held() {
        let (mut script, drops) = Script::new(1);
        script.panics = true;
        let mut future = Fut::new(script);
        assert!(poll(&mut future).is_pending());
        let Poll::Ready(Err(error)) = poll(&mut future) else { panic!("it must have failed") };
        assert_eq!((error.code, error.text().as_str()), (error::PANICKED, "expected by the test"));
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_panic_in_its_drop_is_contained_whenever_that_comes() {
        for polls in 0..3 {
            let (mut script, drops) = Script::new(1);
            script.panics_in_drop = true;
            let mut future = Fut::new(script);
            let last = (0..polls).map(|_| poll(&mut future)).last();
            assert!(polls < 2 || matches!(last, Some(Poll::Ready(Ok(7)))), "the result stands");
            drop(future);
            assert_eq!(drops.load(Ordering::SeqCst), 1);
        }
    }

    #[test]
    fn a_panic_of_the_sync_part_is_the_result() {
        let mut future = Fut::<u64>::guarded(|| -> std::future::Ready<_> { panic!("no {}", "future") });
        let Poll::Ready(Err(error)) = poll(&mut future) else { panic!("it must have failed") };
        assert_eq!((error.code, error.text().as_str()), (error::PANICKED, "no future"));
    }

    // The second payload is leaked on purpose, for its drop could panic as well; Miri would call that a fault.
    #[test]
    #[cfg_attr(miri, ignore = "leaks")]
    fn a_payload_that_panics_in_its_drop_is_contained() {
        struct Bad;
        impl Drop for Bad {
            fn drop(&mut self) {
                panic!("expected by the test");
            }
        }
        let mut future = Fut::<u64>::new(async { std::panic::panic_any(Bad) });
        assert!(matches!(poll(&mut future), Poll::Ready(Err(error)) if error.code == error::PANICKED));
    }

    #[test]
    fn an_unknown_tag_is_an_error() {
        unsafe extern "C" fn wild(_: *mut (), _: *const RawWaker, _: *mut u64, _: *mut Error) -> u8 {
            200
        }
        unsafe extern "C" fn fine(_: *mut ()) -> u8 {
            READY
        }
        let mut future = Fut { data: std::ptr::null_mut(), poll: wild, drop: fine };
        assert!(matches!(poll(&mut future), Poll::Ready(Err(error)) if error.code == error::INTERNAL));
    }
}
