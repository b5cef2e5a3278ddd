//! Where a list goes on, as clients see it.
//!
//! Opaque on purpose: a client that could read it would build its own, and then its form could never
//! change again.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// Of the form. A cursor of another one is refused, not misread.
const VERSION: u8 = 1;

/// The cursor behind the row with this id.
pub fn write(id: i64) -> String {
    let mut bytes = vec![VERSION];
    bytes.extend(id.to_be_bytes());
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

pub fn read(cursor: &str) -> Option<i64> {
    // The longest that can be one has 12 characters.
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor.get(..12).filter(|start| *start == cursor)?).ok()?;
    let (&[VERSION], id) = bytes.split_first_chunk()? else {
        return None;
    };
    Some(i64::from_be_bytes(id.try_into().ok()?)).filter(|id| *id > 0)
}

#[cfg(test)]
mod tests {
    use super::{read, write};

    #[test]
    fn what_was_written_is_read() {
        for id in [1, 42, i64::MAX] {
            assert_eq!(read(&write(id)), Some(id));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let long = "A".repeat(1 << 20);
        for cursor in
            ["", "1", "42", "-1", "AQAAAAAAAAA", "AQAAAAAAAAAA", "AgAAAAAAAAAB", "AQ//////////", "äöüäöü", &long]
        {
            assert_eq!(read(cursor), None, "{cursor}");
        }
        assert_eq!(read(&write(0)), None);
        assert_eq!(read(&write(-7)), None);
    }
}
