//! How large a card may be.

/// Bytes of a card.
pub const CARD_LIMIT: usize = 8 << 20;

/// Why a card of so many `bytes` is refused.
pub fn describe_excess(bytes: &str) -> String {
    format!("The card would have {bytes} bytes; a card may have {CARD_LIMIT}.")
}
