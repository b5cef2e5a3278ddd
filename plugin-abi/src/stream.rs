//! The one stream that crosses, either way: request bodies, reply bodies, rows, COPY data.
//!
//! A stream is made of pieces of bytes. How they are cut carries no meaning, except where a function says so (rows come
//! in whole rows, see [`crate::values`]).
//!
//! ```
//! use std::{pin::Pin, task::{Context, Poll, Waker}};
//! use cardinal_plugin_abi::{Bytes, Error, Stream, stream::Source};
//!
//! struct Pieces(std::vec::IntoIter<&'static str>);
//!
//! impl Source for Pieces {
//!     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
//!         Poll::Ready(self.0.next().map(|piece| Ok(Bytes::from_static(piece.as_bytes()))))
//!     }
//! }
//!
//! let mut stream = Stream::new(Pieces(vec!["a", "b"].into_iter()));
//! let mut cx = Context::from_waker(Waker::noop());
//! let mut next = || match stream.poll_next(&mut cx) {
//!     Poll::Ready(Some(Ok(piece))) => piece.as_text().map(str::to_owned),
//!     _ => None,
//! };
//! assert_eq!((next().as_deref(), next().as_deref(), next()), (Some("a"), Some("b"), None));
//! ```

use std::{
    mem::MaybeUninit,
    pin::Pin,
    ptr,
    task::{Context, Poll},
};

use abi_stable::StableAbi;

use crate::{
    Bytes, Error,
    door::{self, END, FAILED, PANICKED, PENDING, READY},
    waker::{RawWaker, with_waker},
};

/// What a side implements to give a stream away. (The `Stream` of the `futures` crates, which this crate does not
/// depend on.)
///
/// The other side polls and drops it, by one thread at a time but not always the same.
///
/// ```
/// use std::{pin::Pin, task::{Context, Poll, Waker}};
/// use cardinal_plugin_abi::{Bytes, Error, Stream, stream::Source};
///
/// struct Countdown(u8);
///
/// impl Source for Countdown {
///     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
///         let piece = (self.0 > 0).then(|| Ok(self.0.to_string().into()));
///         self.0 = self.0.saturating_sub(1);
///         Poll::Ready(piece)
///     }
/// }
///
/// let mut stream = Stream::new(Countdown(2));
/// let mut next = || stream.poll_next(&mut Context::from_waker(Waker::noop()));
/// assert!(matches!(next(), Poll::Ready(Some(Ok(piece))) if piece.get() == b"2"));
/// ```
pub trait Source: Send {
    /// Returns the next piece; `None` ends the stream. It is not called again after an end or an error.
    ///
    /// A piece may be empty and may have any size: the receiver bounds what it keeps. A panic ends the stream like an
    /// error, with [`crate::error::PANICKED`].
    ///
    /// ```
    /// use std::{pin::Pin, task::{Context, Poll}};
    /// use cardinal_plugin_abi::{Bytes, Error, error, stream::Source};
    ///
    /// /// Fails with what kept it from beginning.
    /// struct BrokenSource(Option<Error>);
    ///
    /// impl Source for BrokenSource {
    ///     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
    ///         Poll::Ready(self.0.take().map(Err))
    ///     }
    /// }
    /// # let mut source = BrokenSource(Some(Error::new(error::DATABASE, "the table is gone")));
    /// # let polled = Pin::new(&mut source).poll_next(&mut Context::from_waker(std::task::Waker::noop()));
    /// # assert!(matches!(polled, Poll::Ready(Some(Err(error))) if error.code == error::DATABASE));
    /// ```
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>>;
}

/// A stream of byte pieces of the other side. Dropping it cancels what feeds it. Pieces are pulled
/// one at a time, which is the back-pressure: nothing is made before it is asked for.
///
/// Whoever holds it owns it, and may read and drop it on any thread. Its source is freed as soon as it has ended or
/// failed, else with the stream.
///
/// ```
/// use cardinal_plugin_abi::{Error, Stream};
///
/// /// Reads a body of at most 1 MiB.
/// async fn collect(mut body: Stream) -> Result<Vec<u8>, Error> {
///     let mut whole = Vec::new();
///     while let Some(piece) = body.next().await {
///         whole.extend_from_slice(piece?.get());
///         if whole.len() > 1 << 20 {
///             break; // dropping the stream cancels the rest
///         }
///     }
///     Ok(whole)
/// }
/// ```
#[repr(C)]
#[derive(StableAbi)]
pub struct Stream {
    data: *mut (),
    poll: Option<unsafe extern "C" fn(*mut (), *const RawWaker, *mut Bytes, *mut Error) -> u8>,
    drop: Option<unsafe extern "C" fn(*mut ()) -> u8>,
}

// SAFETY: `new`, the only constructor with data, takes `Send` sources alone.
unsafe impl Send for Stream {}

impl Stream {
    /// No stream: it ends at once.
    pub const NONE: Self = Self { data: ptr::null_mut(), poll: None, drop: None };

    /// Hands `source` over, boxed. The other side polls and drops it: hence `Send` and `'static`.
    ///
    /// ```
    /// use std::{pin::Pin, task::{Context, Poll, Waker}};
    /// use cardinal_plugin_abi::{Bytes, Error, Stream, stream::Source};
    ///
    /// # struct Countdown(u8);
    /// #
    /// # impl Source for Countdown {
    /// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
    /// #         let piece = (self.0 > 0).then(|| Ok(self.0.to_string().into()));
    /// #         self.0 = self.0.saturating_sub(1);
    /// #         Poll::Ready(piece)
    /// #     }
    /// # }
    /// let body = Stream::new(Countdown(3));
    /// assert!(!body.is_none());
    /// ```
    pub fn new<S: Source + 'static>(source: S) -> Self {
        let cell: Box<Cell<S>> = Box::new(Some(source));
        Self { data: Box::into_raw(cell).cast(), poll: Some(poll_cell::<S>), drop: Some(drop_cell::<S>) }
    }

    /// Returns whether this is [`Stream::NONE`]. A stream that has ended is not.
    ///
    /// ```
    /// use cardinal_plugin_abi::{Reply, Stream};
    ///
    /// assert!(Reply::default().stream.is_none() && Stream::NONE.is_none());
    /// ```
    pub fn is_none(&self) -> bool {
        self.poll.is_none()
    }

    /// Polls for the next piece; `None` at the end, and for ever after. An error is the last thing that comes before
    /// that.
    ///
    /// While it is pending, the waker of the last poll is woken when there is something to fetch.
    ///
    /// ```
    /// use std::{pin::Pin, task::{Context, Poll, Waker}};
    /// use cardinal_plugin_abi::{Bytes, Error, Stream, stream::Source};
    ///
    /// # struct Countdown(u8);
    /// #
    /// # impl Source for Countdown {
    /// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
    /// #         let piece = (self.0 > 0).then(|| Ok(self.0.to_string().into()));
    /// #         self.0 = self.0.saturating_sub(1);
    /// #         Poll::Ready(piece)
    /// #     }
    /// # }
    /// let (mut stream, mut cx) = (Stream::new(Countdown(1)), Context::from_waker(Waker::noop()));
    /// assert!(matches!(stream.poll_next(&mut cx), Poll::Ready(Some(Ok(_)))));
    /// assert!(matches!(stream.poll_next(&mut cx), Poll::Ready(None)));
    /// ```
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let Some(poll) = self.poll else { return Poll::Ready(None) };
        let mut out = MaybeUninit::uninit();
        let mut err = MaybeUninit::uninit();
        let tag = RawWaker::lend(cx.waker(), |waker| {
            // SAFETY: `poll` belongs to `data`; both out pointers are valid for a write.
            unsafe { poll(self.data, waker, out.as_mut_ptr(), err.as_mut_ptr()) }
        });
        Poll::Ready(match tag {
            PENDING => return Poll::Pending,
            // SAFETY: the contract of `poll`: READY means that `out` was written.
            READY => Some(Ok(unsafe { out.assume_init() })),
            END => None,
            // SAFETY: the contract of `poll`: FAILED and PANICKED mean that `err` was written.
            FAILED | PANICKED => Some(Err(unsafe { err.assume_init() })),
            tag => Some(Err(Error::new(crate::error::INTERNAL, format!("a stream answered the unknown tag {tag}")))),
        })
    }

    /// Returns the next piece. A future that is dropped loses no piece.
    ///
    /// ```
    /// use std::{pin::Pin, task::{Context, Poll, Waker}};
    /// use cardinal_plugin_abi::{Bytes, Error, Stream, stream::Source};
    ///
    /// # struct Countdown(u8);
    /// #
    /// # impl Source for Countdown {
    /// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
    /// #         let piece = (self.0 > 0).then(|| Ok(self.0.to_string().into()));
    /// #         self.0 = self.0.saturating_sub(1);
    /// #         Poll::Ready(piece)
    /// #     }
    /// # }
    /// let count = async {
    ///     let (mut stream, mut count) = (Stream::new(Countdown(3)), 0);
    ///     while let Some(piece) = stream.next().await {
    ///         count += piece?.get().len();
    ///     }
    ///     Ok::<usize, Error>(count)
    /// };
    /// # let polled = std::pin::pin!(count).poll(&mut Context::from_waker(Waker::noop()));
    /// # assert!(matches!(polled, Poll::Ready(Ok(3))));
    /// ```
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_none() { "Stream(none)" } else { "Stream" })
    }
}

impl Default for Stream {
    fn default() -> Self {
        Self::NONE
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: `drop` belongs to `data` and runs once.
            unsafe { drop(self.data) };
        }
    }
}

/// `None` once the source has ended, failed or panicked. It stays where it was boxed until it is
/// dropped there, so that the source in it is pinned.
type Cell<S> = Option<S>;

unsafe extern "C" fn poll_cell<S: Source>(
    data: *mut (),
    waker: *const RawWaker,
    out: *mut Bytes,
    err: *mut Error,
) -> u8 {
    // SAFETY: `Stream::new` made `data` from this type, and a stream is polled through `&mut` alone.
    // The cell is never moved out of its box: see `Cell`.
    let mut cell = unsafe { Pin::new_unchecked(&mut *data.cast::<Cell<S>>()) };
    let mut next = MaybeUninit::<Poll<Option<Bytes>>>::uninit();
    let poll = || {
        let Some(source) = cell.as_mut().as_pin_mut() else { return Ok(Poll::Ready(None)) };
        // SAFETY: the other side lends its waker for this call.
        match unsafe { with_waker(waker, |cx| source.poll_next(cx)) } {
            Poll::Ready(Some(Err(error))) => Err(error),
            Poll::Ready(Some(Ok(bytes))) => Ok(Poll::Ready(Some(bytes))),
            Poll::Ready(None) => Ok(Poll::Ready(None)),
            Poll::Pending => Ok(Poll::Pending),
        }
    };
    // SAFETY: `next` is ours, and the other side gives an `err` that is valid for a write.
    let tag = unsafe { door::guard(next.as_mut_ptr(), err, poll) };
    let tag = if tag == READY {
        // SAFETY: `guard` wrote `next` when it says so.
        match unsafe { next.assume_init() } {
            Poll::Pending => return PENDING,
            Poll::Ready(Some(bytes)) => {
                // SAFETY: the other side gives an `out` that is valid for a write.
                unsafe { out.write(bytes) };
                return READY;
            }
            Poll::Ready(None) => END,
        }
    } else {
        tag
    };
    door::contain(|| cell.set(None));
    tag
}

unsafe extern "C" fn drop_cell<S>(data: *mut ()) -> u8 {
    let done = door::contain(|| {
        // SAFETY: `Stream::new` boxed this very type; `Stream`'s drop runs once.
        drop(unsafe { Box::from_raw(data.cast::<Cell<S>>()) });
    });
    if done { READY } else { PANICKED }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, task::Waker};

    use super::*;
    use crate::error;

    enum Step {
        Piece(&'static [u8]),
        Wait,
        Fail,
        Panic,
    }

    /// Plays its steps, then ends.
    struct Script(std::vec::IntoIter<Step>, #[allow(dead_code)] Arc<()>);

    impl Source for Script {
        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
            match self.0.next() {
                None => Poll::Ready(None),
                Some(Step::Piece(bytes)) => Poll::Ready(Some(Ok(Bytes::from_static(bytes)))),
                Some(Step::Wait) => Poll::Pending,
                Some(Step::Fail) => Poll::Ready(Some(Err(Error::new(error::DATABASE, "no")))),
                Some(Step::Panic) => panic!("expected by the test"),
            }
        }
    }

    fn play(steps: Vec<Step>) -> (Stream, Arc<()>) {
        let held = Arc::new(());
        (Stream::new(Script(steps.into_iter(), held.clone())), held)
    }

    fn next(stream: &mut Stream) -> Poll<Option<Result<Vec<u8>, u32>>> {
        let piece = stream.poll_next(&mut Context::from_waker(Waker::noop()));
        piece.map(|piece| piece.map(|piece| piece.map(|bytes| bytes.get().to_vec()).map_err(|error| error.code)))
    }

    #[test]
    fn pieces_come_in_order_and_the_end_stays_the_end() {
        let (mut stream, held) = play(vec![Step::Piece(b"a"), Step::Wait, Step::Piece(b"")]);
        assert_eq!(next(&mut stream), Poll::Ready(Some(Ok(b"a".to_vec()))));
        assert_eq!(next(&mut stream), Poll::Pending);
        assert_eq!(next(&mut stream), Poll::Ready(Some(Ok(Vec::new()))));
        assert_eq!(next(&mut stream), Poll::Ready(None));
        assert_eq!(Arc::strong_count(&held), 1, "an ended source is freed at once");
        assert_eq!(next(&mut stream), Poll::Ready(None));
        assert_eq!(next(&mut Stream::default()), Poll::Ready(None));
    }

    #[test]
    fn an_error_and_a_panic_end_it() {
        for (step, code) in [(Step::Fail, error::DATABASE), (Step::Panic, error::PANICKED)] {
            let (mut stream, held) = play(vec![Step::Piece(b"a"), step, Step::Piece(b"never")]);
            assert!(next(&mut stream).is_ready());
            assert_eq!(next(&mut stream), Poll::Ready(Some(Err(code))));
            assert_eq!(Arc::strong_count(&held), 1);
            assert_eq!(next(&mut stream), Poll::Ready(None));
        }
    }

    #[test]
    fn dropping_it_drops_the_source() {
        let (mut stream, held) = play(vec![Step::Wait, Step::Piece(b"never")]);
        assert_eq!(next(&mut stream), Poll::Pending);
        drop(stream);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
