//! Pages of any list: how many at once, and cursors that are opaque, signed, and bound to the list,
//! filter and order that they came from.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::Mac;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use crate::codes::{self, Code};

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error("`limit` is 1 to {MAX_PAGE_SIZE}.")]
    Limit,
    #[error("The cursor does not belong to this list, filter and order.")]
    Cursor,
    #[error("a place in a list cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

impl PageError {
    /// How the contract calls it.
    pub fn code(&self) -> &'static Code {
        match self {
            Self::Limit => &codes::INVALID_REQUEST,
            Self::Cursor => &codes::INVALID_CURSOR,
            Self::Json(_) => &codes::INTERNAL_ERROR,
        }
    }

    /// Plain words for the client; none where the code says it all.
    pub fn detail(&self) -> Option<String> {
        (!matches!(self, Self::Json(_))).then(|| self.to_string())
    }
}

/// A page of a list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the next page begins; null is the end.
    pub next_cursor: Option<String>,
}

const MAC_LEN: usize = 16;
/// Entries of a page when nothing else is asked for, and at most.
const DEFAULT_PAGE_SIZE: i64 = 100;
const MAX_PAGE_SIZE: i64 = 200;

/// How many entries were asked for.
pub fn limit(asked: Option<i64>) -> Result<i64, PageError> {
    match asked.unwrap_or(DEFAULT_PAGE_SIZE) {
        limit @ 1..=MAX_PAGE_SIZE => Ok(limit),
        _ => Err(PageError::Limit),
    }
}

/// Signs and reads cursors.
#[derive(Clone)]
pub struct Cursors([u8; 32]);

impl Cursors {
    pub const fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The cursor for a place in `list`, which is whatever tells it from others: name, filter, order.
    pub fn seal(&self, list: &impl Serialize, place: &impl Serialize) -> Result<String, PageError> {
        let mut bytes = serde_json::to_vec(place)?;
        let mac = self.mac(list, &bytes)?;
        bytes.extend_from_slice(&mac);
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The place that a cursor stands for.
    pub fn open<P: DeserializeOwned>(&self, list: &impl Serialize, cursor: &str) -> Result<P, PageError> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| PageError::Cursor)?;
        let (place, mac) = bytes.split_at_checked(bytes.len().saturating_sub(MAC_LEN)).ok_or(PageError::Cursor)?;
        if !bool::from(subtle::ConstantTimeEq::ct_eq(&self.mac(list, place)?[..], mac)) {
            return Err(PageError::Cursor);
        }
        serde_json::from_slice(place).map_err(|_| PageError::Cursor)
    }

    /// Takes the one row too many off that tells whether there is more; gives the cursor of the next page.
    pub fn cut<T, P: Serialize>(
        &self,
        list: &impl Serialize,
        rows: &mut Vec<T>,
        limit: i64,
        place: impl Fn(&T) -> P,
    ) -> Result<Option<String>, PageError> {
        let limit = usize::try_from(limit).unwrap_or_default();
        if rows.len() <= limit {
            return Ok(None);
        }
        rows.truncate(limit);
        rows.last().map(|last| self.seal(list, &place(last))).transpose()
    }

    fn mac(&self, list: &impl Serialize, place: &[u8]) -> Result<[u8; MAC_LEN], PageError> {
        let list = serde_json::to_vec(list)?;
        let mut mac = crate::mac::keyed(&self.0);
        mac.update(&Sha256::digest(list));
        mac.update(place);
        let whole: [u8; 32] = mac.finalize().into_bytes().into();
        let mut start = [0; MAC_LEN];
        start.copy_from_slice(&whole[..MAC_LEN]);
        Ok(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_fits_its_own_list_only() {
        let cursors = Cursors::new([1; 32]);
        let list = ("users", Some("lamp"), false);
        let cursor = cursors.seal(&list, &7_i64).unwrap();
        assert_eq!(cursors.open::<i64>(&list, &cursor).unwrap(), 7);
        for other in [("keys", Some("lamp"), false), ("users", None, false), ("users", Some("lamp"), true)] {
            assert!(cursors.open::<i64>(&other, &cursor).is_err(), "{other:?}");
        }
        assert!(Cursors::new([2; 32]).open::<i64>(&list, &cursor).is_err());
        for bad in ["", "x", "AAAA", &cursor[1..], &format!("{cursor}A")] {
            assert!(matches!(cursors.open::<i64>(&list, bad), Err(PageError::Cursor)), "{bad}");
        }
    }

    #[test]
    fn a_page_has_a_next_one_when_a_row_too_many_was_read() {
        let cursors = Cursors::new([1; 32]);
        let mut rows = vec![9_i64, 8, 7];
        let next = cursors.cut(&"list", &mut rows, 2, |row| *row).unwrap().unwrap();
        assert_eq!((rows.as_slice(), cursors.open::<i64>(&"list", &next).unwrap()), (&[9, 8][..], 8));
        assert_eq!(cursors.cut(&"list", &mut rows, 2, |row| *row).unwrap(), None);
        assert!(limit(Some(0)).is_err() && limit(Some(201)).is_err() && limit(None).is_ok());
    }
}
