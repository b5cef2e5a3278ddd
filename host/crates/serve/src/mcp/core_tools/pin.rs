//! What a person looks at who is asked about a call, where its arguments leave that open. The call runs on that or not
//! at all.

use std::fmt;

use cardinal_store::cards::list::Digest;

/// The answer to a call whose cards are not those that a person was asked about.
pub(in crate::mcp) const OUTDATED: &str = "confirmation_void: the cards have changed since a person was asked, and nothing was done. Make the call again to ask \
     once more.";

/// What was pinned is not what there is: nothing was done.
#[derive(Debug)]
pub(in crate::mcp) struct PinMismatch;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::mcp) enum Pin {
    /// The card's version.
    Version(i64),
    /// The cards that a filter picks.
    Cards(Digest),
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "version {version}"),
            Self::Cards(digest) => write!(f, "cards {digest}"),
        }
    }
}
