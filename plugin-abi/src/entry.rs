//! How a host gets from a library's file to its root table: one symbol of the contract's own. Looking it up runs what
//! the library does when it is opened, and nothing else.
//!
//! A host checks `size`, `api` and `layout_hash`, compares the layouts where it can, and calls [`Entry::open`] last.

use abi_stable::{
    StableAbi,
    prefix_type::{PrefixRef, PrefixRefTrait},
};

use crate::{API_MINOR, API_VERSION, Error, LAYOUT_HASH, PluginModuleRef};

/// The name under which a library exports its [`Entry`]. API 2 has another.
pub const ENTRY_SYMBOL: &str = "cardinal_plugin_1";
/// [`Entry::checker`]: [`Entry::layouts`] is null; the hash has to do.
pub const NO_CHECKER: u32 = 0;
/// [`Entry::checker`]: [`Entry::layouts`] returns a `TypeLayout` of abi_stable 0.11.
pub const ABI_STABLE_0_11: u32 = 11;

/// What a library exports as [`ENTRY_SYMBOL`]: a static, read before any of its functions is called.
///
/// Nothing in it is abi_stable's: a library in another language writes it by hand, with [`NO_CHECKER`].
///
/// ```
/// use cardinal_plugin_abi::{API_VERSION, Entry, LAYOUT_HASH};
///
/// /// What a host looks at before it calls anything.
/// fn is_ours(entry: &Entry) -> bool {
///     entry.size as usize >= size_of::<Entry>() && entry.api == API_VERSION && entry.layout_hash == LAYOUT_HASH
/// }
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct Entry {
    /// The bytes of this struct as the library knows it; a later minor version may add fields at its end.
    pub size: u32,
    /// [`crate::API_VERSION`].
    pub api: u32,
    /// [`crate::API_MINOR`].
    pub minor: u32,
    /// What [`layouts`](Self::layouts) gives. A host that does not know it, or has it no more, does not call that.
    pub checker: u32,
    /// [`crate::LAYOUT_HASH`], in the library's own byte order.
    pub layout_hash: u64,
    /// A description of the layouts, to be compared with the host's. Null with [`NO_CHECKER`].
    pub layouts: Option<extern "C" fn() -> *const ()>,
    /// Writes the root table ([`crate::PluginModule`] in its frame: see README.md, "Tables") to `out` and answers
    /// [`crate::door::READY`], or writes `err` and answers `FAILED` or `PANICKED`. The table is static. Called once, on
    /// a thread that may block.
    pub open: unsafe extern "C" fn(out: *mut *const (), err: *mut Error) -> u8,
    /// Zeros.
    pub reserved: [u64; 4],
}

impl Entry {
    /// Makes the entry of a library that is built with this crate. `open` has to keep what [`Entry::open`] says, and
    /// must not unwind.
    ///
    /// ```
    /// use cardinal_plugin_abi::{API_VERSION, Entry, Error, LAYOUT_HASH, door};
    ///
    /// unsafe extern "C" fn open(_out: *mut *const (), err: *mut Error) -> u8 {
    ///     // SAFETY: the host gives an `err` that is valid for a write.
    ///     unsafe { err.write(Error::new(cardinal_plugin_abi::error::UNSUPPORTED, "there is nothing in here")) };
    ///     door::FAILED
    /// }
    ///
    /// // In a library: `#[unsafe(export_name = "cardinal_plugin_1")]`.
    /// static ENTRY: Entry = Entry::new(open);
    /// assert_eq!((ENTRY.size, ENTRY.api, ENTRY.layout_hash), (72, API_VERSION, LAYOUT_HASH));
    /// ```
    pub const fn new(open: unsafe extern "C" fn(out: *mut *const (), err: *mut Error) -> u8) -> Self {
        Self {
            size: size_of::<Self>() as u32,
            api: API_VERSION,
            minor: API_MINOR,
            checker: ABI_STABLE_0_11,
            layout_hash: LAYOUT_HASH,
            layouts: Some(layouts),
            open,
            reserved: [0; 4],
        }
    }
}

extern "C" fn layouts() -> *const () {
    (&raw const *<PluginModuleRef as StableAbi>::LAYOUT).cast()
}

impl PluginModuleRef {
    /// Returns the table as [`Entry::open`] gives it: the address of a static, which is never freed.
    ///
    /// ```
    /// use cardinal_plugin_abi::{Error, PluginModuleRef, door};
    ///
    /// /// What the `open` of an entry does with the library's table.
    /// ///
    /// /// # Safety
    /// /// Both pointers are valid for a write.
    /// unsafe fn give(table: PluginModuleRef, out: *mut *const (), err: *mut Error) -> u8 {
    ///     // SAFETY: as the caller promises.
    ///     unsafe { door::guard(out, err, || Ok(table.into_raw())) }
    /// }
    /// ```
    pub fn into_raw(self) -> *const () {
        self.to_prefix_ref().to_raw_ptr().cast()
    }

    /// Returns the table that [`Entry::open`] gave; `None` for a null pointer.
    ///
    /// ```
    /// use cardinal_plugin_abi::PluginModuleRef;
    ///
    /// // SAFETY: a null pointer is allowed.
    /// assert!(unsafe { PluginModuleRef::from_raw(std::ptr::null()) }.is_none());
    /// ```
    ///
    /// # Safety
    /// `table` is null, or a static root table of this API whose layouts were found to be these.
    pub unsafe fn from_raw(table: *const ()) -> Option<Self> {
        if table.is_null() {
            return None;
        }
        // SAFETY: the caller promises what stands there; a frame begins as `WithMetadata_` does.
        Some(Self::from_prefix_ref(unsafe { PrefixRef::from_raw(table.cast::<Frame>()) }))
    }
}

type Frame =
    abi_stable::prefix_type::WithMetadata_<crate::module::PluginModulePrefix, crate::module::PluginModulePrefix>;
