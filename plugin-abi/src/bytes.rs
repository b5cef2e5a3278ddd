//! Bytes that are lent ([`Slice`]) and bytes that change hands ([`Bytes`]), both without copying.
//!
//! Neither says what the bytes are: text is UTF-8 where a function says that it takes text, and the receiver checks it.
//! Both may be sent to and read from any thread.
//!
//! ```
//! use cardinal_plugin_abi::{Bytes, Slice};
//!
//! /// A function of one side: it reads what is lent, and gives bytes that its caller owns.
//! extern "C" fn shout(text: Slice<'_>) -> Bytes {
//!     text.as_text().unwrap_or_default().to_uppercase().into()
//! }
//!
//! let answer = shout(Slice::text("lamp"));
//! assert_eq!(answer.as_text(), Some("LAMP"));
//! drop(answer); // runs `free` of the side that made it
//! ```

use std::{marker::PhantomData, ptr};

use abi_stable::StableAbi;

/// Bytes lent for the duration of one call. The receiver copies what it wants to keep.
///
/// The lender keeps them alive and unchanged until that call returns; nobody frees anything. An argument of a
/// future-returning function is read before the function returns: the future never borrows it.
///
/// ```
/// use cardinal_plugin_abi::Slice;
///
/// /// A function of the other side, which keeps nothing of what is lent.
/// extern "C" fn count_lines(csv: Slice<'_>) -> usize {
///     csv.get().split(|byte| *byte == b'\n').count()
/// }
/// assert_eq!(count_lines(Slice::text("sku,cents\nL1,990")), 2);
/// ```
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Slice<'a> {
    ptr: *const u8,
    len: usize,
    lifetime: PhantomData<&'a u8>,
}

// SAFETY: a `Slice` is a shared borrow of plain bytes, which are `Send + Sync`.
unsafe impl Send for Slice<'_> {}
// SAFETY: as above.
unsafe impl Sync for Slice<'_> {}

impl<'a> Slice<'a> {
    /// Lends `bytes`, which are not copied.
    ///
    /// ```
    /// use cardinal_plugin_abi::Slice;
    ///
    /// let picture = vec![0x47, 0x49, 0x46];
    /// assert_eq!(Slice::new(&picture).get().as_ptr(), picture.as_ptr()); // the same bytes
    /// ```
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { ptr: bytes.as_ptr(), len: bytes.len(), lifetime: PhantomData }
    }

    /// Lends the bytes of `text`, without an end mark.
    ///
    /// ```
    /// use cardinal_plugin_abi::Slice;
    ///
    /// assert_eq!(Slice::text("9.90 €").get(), "9.90 €".as_bytes());
    /// ```
    pub const fn text(text: &'a str) -> Self {
        Self::new(text.as_bytes())
    }

    /// Returns the lent bytes; none for a null pointer.
    ///
    /// They live as long as the call that lends them, not as long as this value.
    ///
    /// ```
    /// use cardinal_plugin_abi::Slice;
    ///
    /// assert_eq!(Slice::new(b"990").get(), b"990");
    /// assert_eq!(Slice::default().get(), b"");
    /// ```
    pub const fn get(&self) -> &'a [u8] {
        if self.ptr.is_null() {
            return &[];
        }
        // SAFETY: `new` took pointer and length from a `&'a [u8]`, and the fields are private.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }

    /// Returns the lent bytes as text, `None` when they are not UTF-8.
    ///
    /// It takes time in proportion to the length: the other side's word is not enough.
    ///
    /// ```
    /// use cardinal_plugin_abi::Slice;
    ///
    /// assert_eq!(Slice::text("Lamp").as_text(), Some("Lamp"));
    /// assert_eq!(Slice::new(b"\xff").as_text(), None);
    /// ```
    pub fn as_text(&self) -> Option<&'a str> {
        std::str::from_utf8(self.get()).ok()
    }
}

impl Default for Slice<'_> {
    fn default() -> Self {
        Self::new(&[])
    }
}

/// Bytes that the receiver owns. Dropping them calls back into the side that made them, from whichever thread drops
/// them.
///
/// They never change. They may be kept after the call that gave them, and after the plugin has stopped: the library of
/// either side stays loaded. A panic of their owner's drop is contained on its own side.
///
/// ```
/// use cardinal_plugin_abi::Bytes;
///
/// let answer = Bytes::from(String::from(r#"{"title":"Lamp"}"#));
/// let kept = std::thread::spawn(move || answer).join().unwrap(); // any thread may hold it, and drop it
/// assert_eq!(kept.get(), br#"{"title":"Lamp"}"#);
/// ```
#[repr(C)]
#[derive(StableAbi)]
pub struct Bytes {
    ptr: *const u8,
    len: usize,
    owner: *mut (),
    free: Option<unsafe extern "C" fn(owner: *mut (), ptr: *const u8, len: usize)>,
}

// SAFETY: the bytes are immutable, and every `free` of this module may run on any thread:
// the constructors ask for `Send + Sync` owners.
unsafe impl Send for Bytes {}
// SAFETY: as above; no method mutates through a shared reference.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// No bytes; nothing to free.
    pub const EMPTY: Self = Self::from_static(&[]);

    /// Wraps bytes that live as long as the program (the libraries are never unloaded). Nothing is copied, and nothing
    /// freed.
    ///
    /// ```
    /// use cardinal_plugin_abi::Bytes;
    ///
    /// static EMPTY_LIST: Bytes = Bytes::from_static(b"[]");
    /// assert_eq!(EMPTY_LIST.as_text(), Some("[]"));
    /// ```
    pub const fn from_static(bytes: &'static [u8]) -> Self {
        Self { ptr: bytes.as_ptr(), len: bytes.len(), owner: ptr::null_mut(), free: None }
    }

    /// Hands over a vector without copying it, except that spare capacity is shrunk away.
    ///
    /// It is freed in this library, by the allocator that it came from.
    ///
    /// ```
    /// use cardinal_plugin_abi::Bytes;
    ///
    /// let prices = Bytes::from_vec(b"sku,cents\n".to_vec());
    /// assert_eq!(prices.get().len(), 10);
    /// ```
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        if bytes.is_empty() {
            return Self::EMPTY;
        }
        let len = bytes.len();
        let ptr = Box::into_raw(bytes.into_boxed_slice()).cast::<u8>();
        Self { ptr, len, owner: ptr::null_mut(), free: Some(free_boxed_slice) }
    }

    /// Hands over bytes that `owner` keeps alive, without copying them: a `bytes::Bytes`, an `Arc`.
    ///
    /// `owner` is boxed before its bytes are asked for, once. It is not touched again until they are freed, so that
    /// they may also lie in `owner` itself.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use cardinal_plugin_abi::Bytes;
    ///
    /// let page: Arc<[u8]> = Arc::from(*b"<p>Lamp</p>");
    /// let bytes = Bytes::from_owner(page.clone());
    /// assert_eq!((bytes.get(), Arc::strong_count(&page)), (&b"<p>Lamp</p>"[..], 2));
    /// drop(bytes);
    /// assert_eq!(Arc::strong_count(&page), 1);
    /// ```
    ///
    /// # Panics
    /// When `as_ref` of `owner` panics; `owner` is leaked then.
    pub fn from_owner<O: AsRef<[u8]> + Send + Sync + 'static>(owner: O) -> Self {
        // A raw pointer from here on: moving a `Box` would claim its contents for itself alone.
        let owner = Box::into_raw(Box::new(owner));
        // SAFETY: just made, and only shared until `free_owner` takes it back. Should `as_ref`
        // panic, the box leaks, which is safe.
        let bytes = unsafe { &*owner }.as_ref();
        Self { ptr: bytes.as_ptr(), len: bytes.len(), owner: owner.cast(), free: Some(free_owner::<O>) }
    }

    /// Returns the bytes, for as long as this value lives.
    ///
    /// ```
    /// use cardinal_plugin_abi::Bytes;
    ///
    /// let price = Bytes::from_static(b"990");
    /// assert_eq!(price.get(), b"990");
    /// ```
    pub fn get(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the constructors took pointer and length from a slice that `owner` (or the
        // program) keeps alive and unchanged until `free` runs in `drop`.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }

    /// Returns the bytes as text, `None` when they are not UTF-8. They are checked by each call.
    ///
    /// ```
    /// use cardinal_plugin_abi::Bytes;
    ///
    /// assert_eq!(Bytes::from("Lamp".to_owned()).as_text(), Some("Lamp"));
    /// assert_eq!(Bytes::from_static(b"\xff").as_text(), None);
    /// ```
    pub fn as_text(&self) -> Option<&str> {
        std::str::from_utf8(self.get()).ok()
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self.get()
    }
}

impl Default for Bytes {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from_vec(bytes)
    }
}

impl From<String> for Bytes {
    fn from(text: String) -> Self {
        Self::from_vec(text.into_bytes())
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bytes({})", self.len)
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Some(free) = self.free {
            // SAFETY: `free` was stored together with exactly these three values and runs once.
            unsafe { free(self.owner, self.ptr, self.len) }
        }
    }
}

/// Frees what [`Bytes::from_vec`] handed over. The pointer is that of the allocation itself.
unsafe extern "C" fn free_boxed_slice(_: *mut (), ptr: *const u8, len: usize) {
    let slice = ptr::slice_from_raw_parts_mut(ptr.cast_mut(), len);
    // SAFETY: `from_vec` made this very slice with `Box::into_raw`, in this library.
    drop(unsafe { Box::from_raw(slice) });
}

/// Drops the owner of [`Bytes::from_owner`], and contains its panic.
unsafe extern "C" fn free_owner<O>(owner: *mut (), _: *const u8, _: usize) {
    crate::door::contain(|| {
        // SAFETY: `from_owner` made this pointer from a `Box<O>`, in this library.
        drop(unsafe { Box::from_raw(owner.cast::<O>()) });
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct Counted<const N: usize>([u8; N], #[allow(dead_code)] Arc<()>);

    impl<const N: usize> AsRef<[u8]> for Counted<N> {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    #[test]
    fn an_owner_lives_as_long_as_its_bytes_and_is_dropped_once() {
        let count = Arc::new(());
        let bytes = Bytes::from_owner(Counted(*b"inline", count.clone()));
        let empty = Bytes::from_owner(Counted([], count.clone()));
        let moved = std::thread::spawn(move || (bytes.as_text() == Some("inline")).then_some(bytes)).join().unwrap();
        assert!(moved.is_some() && empty.get().is_empty());
        assert_eq!(Arc::strong_count(&count), 3);
        drop((moved, empty));
        assert_eq!(Arc::strong_count(&count), 1);
    }

    #[test]
    fn a_vector_with_spare_room_is_handed_over_whole() {
        let mut vec = Vec::with_capacity(100);
        vec.extend_from_slice(b"abc");
        assert_eq!(Bytes::from_vec(vec).get(), b"abc");
        assert_eq!(Bytes::from_vec(Vec::with_capacity(9)).get(), b"");
        assert_eq!(Slice::default().get(), b"");
    }

    #[test]
    fn an_owner_that_panics_in_its_drop_is_contained() {
        struct Bad;
        impl AsRef<[u8]> for Bad {
            fn as_ref(&self) -> &[u8] {
                b"x"
            }
        }
        impl Drop for Bad {
            fn drop(&mut self) {
                panic!("expected by the test");
            }
        }
        drop(Bytes::from_owner(Bad));
    }
}
