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

impl<T> Page<T> {
    /// The same page with its items as clients see them.
    pub fn show<'a, U>(&'a self, show: impl Fn(&'a T) -> U) -> Page<U> {
        Page { items: self.items.iter().map(show).collect(), next_cursor: self.next_cursor.clone() }
    }
}

/// Which page of `list` is to be read.
pub struct PageRequest<'c, L, P> {
    cursors: &'c Cursors,
    list: L,
    limit: i64,
    /// The place of the last item of the page before; none for the first page.
    pub before: Option<P>,
}

impl<L: Serialize, P: Serialize> PageRequest<'_, L, P> {
    /// How many rows to read: one too many, which tells whether there is more.
    pub const fn rows(&self) -> i64 {
        self.limit + 1
    }

    /// The page that these rows make.
    pub fn page<T>(&self, mut rows: Vec<T>, place: impl Fn(&T) -> P) -> Result<Page<T>, PageError> {
        let limit = usize::try_from(self.limit).unwrap_or_default();
        if rows.len() <= limit {
            return Ok(Page { items: rows, next_cursor: None });
        }
        rows.truncate(limit);
        let next_cursor = rows.last().map(|last| self.cursors.seal(&self.list, &place(last))).transpose()?;
        Ok(Page { items: rows, next_cursor })
    }
}

const MAC_LEN: usize = 16;
/// Entries of a page when nothing else is asked for, and at most.
pub const DEFAULT_PAGE_SIZE: i64 = 100;
pub const MAX_PAGE_SIZE: i64 = 200;

/// How many entries were asked for.
pub fn limit(requested: Option<i64>) -> Result<i64, PageError> {
    match requested.unwrap_or(DEFAULT_PAGE_SIZE) {
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

    /// The page of `list` that a query asks for by its `limit` and `cursor`.
    pub fn request<L: Serialize, P: Serialize + DeserializeOwned>(
        &self,
        list: L,
        requested: Option<i64>,
        cursor: Option<&str>,
    ) -> Result<PageRequest<'_, L, P>, PageError> {
        let limit = limit(requested)?;
        let before = cursor.map(|cursor| self.open(&list, cursor)).transpose()?;
        Ok(PageRequest { cursors: self, list, limit, before })
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
        let first = cursors.request::<_, i64>("list", Some(2), None).unwrap();
        assert_eq!((first.before, first.rows()), (None, 3));
        let page = first.page(vec![9_i64, 8, 7], |row| *row).unwrap();
        assert_eq!(page.items, [9, 8]);
        let second = cursors.request::<_, i64>("list", Some(2), page.next_cursor.as_deref()).unwrap();
        assert_eq!(second.before, Some(8));
        assert_eq!(second.page(vec![7], |row| *row).unwrap().show(|row| row * 2).items, [14]);
        assert!(second.page(vec![7, 6], |row| *row).unwrap().next_cursor.is_none());
        assert!(limit(Some(0)).is_err() && limit(Some(201)).is_err() && limit(None).is_ok());
    }
}
