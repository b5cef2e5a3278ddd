//! An error of this crate as a standard one.

use std::fmt::{self, Display};

use super::Error;

/// An [`Error`] as a [`std::error::Error`], made by [`Error::into_std`].
///
/// `?` turns it into the same [`Error`] again, also when it is the source of another error.
///
/// ```
/// use cardinal_plugin::{Error, StdError};
///
/// let own: StdError = Error::conflict("This SKU is taken.").into_std();
/// let boxed: Box<dyn std::error::Error + Send + Sync> = own.into();
/// assert_eq!(boxed.to_string(), "This SKU is taken.");
/// assert_eq!(Error::from(boxed).status(), Some(409));
/// ```
pub struct StdError {
    /// What `source` leads to, so that it is found behind an `anyhow::Error`, which hides its outermost error.
    pub(super) inner: Inner,
}

pub(super) struct Inner(pub Error);

impl std::error::Error for StdError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.inner)
    }
}

impl std::error::Error for Inner {}

impl Display for StdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.inner.0, f)
    }
}

impl fmt::Debug for StdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.inner.0, f)
    }
}

impl Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
