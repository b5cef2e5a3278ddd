//! Pages of a list, and the opaque cursors between them.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Error, Result};

/// Of the form. A cursor of another one is refused, not misread.
const VERSION: u8 = 1;
/// Longer ones are refused before anything is made of them.
const MAX_LENGTH: usize = 4 << 10;

/// Where a list goes on, as clients see it: an opaque text, so that nobody builds one and its form can change.
///
/// A cursor is neither signed nor secret. Treat the key in one that comes back like any other input: check that the
/// caller may see what it points to.
///
/// ```
/// use cardinal_plugin::Cursor;
///
/// let cursor = Cursor::write(&7)?; // into `next_cursor` of the reply
/// assert_eq!(Cursor::read::<i64>(&cursor)?, 7); // back with the next request
/// # Ok::<(), cardinal_plugin::Error>(())
/// ```
#[derive(Debug)]
pub struct Cursor;

impl Cursor {
    /// Writes the cursor behind the row with this key: the values that the list is sorted by, unique among its rows.
    ///
    /// ```
    /// use cardinal_plugin::Cursor;
    ///
    /// # fn main() -> cardinal_plugin::Result<()> {
    /// let cursor = Cursor::write(&("2026-01-01", 7))?;
    /// let (day, id): (String, i64) = Cursor::read(&cursor)?;
    /// assert_eq!((day.as_str(), id), ("2026-01-01", 7));
    /// assert_eq!(Cursor::read::<i64>("nonsense").unwrap_err().code(), Some("invalid-cursor"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// An internal error when the key cannot be written as JSON.
    pub fn write(key: &(impl Serialize + ?Sized)) -> Result<String> {
        let mut bytes = vec![VERSION];
        serde_json::to_writer(&mut bytes, key)?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Reads the key in a cursor that [`write`](Self::write) made.
    ///
    /// ```
    /// use cardinal_plugin::Cursor;
    ///
    /// let (price, id): (u64, i64) = Cursor::read(&Cursor::write(&(990, 7))?)?;
    /// assert_eq!((price, id), (990, 7));
    /// assert_eq!(Cursor::read::<i64>("made up").unwrap_err().status(), Some(400));
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// ```
    ///
    /// # Errors
    /// 400 `invalid-cursor` for a text that is not a cursor, has a key of another type, or is longer than 4 KiB.
    pub fn read<K: DeserializeOwned>(cursor: &str) -> Result<K> {
        let invalid = || Error::with_code(400, "invalid-cursor", "This cursor is not one that `next_cursor` gave.");
        let bytes = (cursor.len() <= MAX_LENGTH).then(|| BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()).flatten();
        let key = bytes.as_deref().and_then(|bytes| bytes.strip_prefix(&[VERSION]));
        key.and_then(|key| serde_json::from_slice(key).ok()).ok_or_else(invalid)
    }
}

/// A page of a list. As JSON it is `{"items": [...], "next_cursor": "..." | null}`, like the pages of the host's own
/// API.
///
/// ```
/// use cardinal_plugin::{Page, json, serde_json};
///
/// let last = Page { items: vec!["Lamp", "Chair"], next_cursor: None };
/// assert_eq!(serde_json::to_value(last)?, json!({ "items": ["Lamp", "Chair"], "next_cursor": null }));
/// # Ok::<(), cardinal_plugin::Error>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Page<T> {
    /// The rows of the page, in the order of the list.
    pub items: Vec<T>,
    /// Where the next page begins; `None` at the end.
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// Makes the page of the first `limit` of `rows`.
    ///
    /// Ask the database for one row more than `limit`: that row shows whether there is a next page, and is left out.
    /// `key` gives the values that the list is sorted by, unique among its rows.
    ///
    /// ```
    /// use cardinal_plugin::{Cursor, Page, PluginContext, Request, Response, Result};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct List {
    ///     cursor: Option<String>,
    /// }
    ///
    /// async fn list(ctx: PluginContext, req: Request) -> Result<Response> {
    ///     let after = req.input::<List>().await?.cursor.map_or(Ok(0), |cursor| Cursor::read::<i64>(&cursor))?;
    ///     let conn = ctx.get_plugin_conn().await?;
    ///     let rows: Vec<(i64, String)> =
    ///         conn.query_as("SELECT id, text FROM notes WHERE id > $1 ORDER BY id LIMIT 51", &[&after]).await?;
    ///     Ok(Response::json(&Page::new(rows, 50, |row| row.0)?))
    /// }
    ///
    /// let page = Page::new(vec![(1, "a"), (2, "b"), (3, "c")], 2, |row| row.0)?;
    /// assert_eq!(page.items.len(), 2);
    /// assert_eq!(Cursor::read::<i64>(&page.next_cursor.unwrap())?, 2);
    /// # Ok::<(), cardinal_plugin::Error>(())
    /// ```
    ///
    /// # Errors
    /// An internal error when a key cannot be written as JSON.
    pub fn new<K: Serialize>(mut rows: Vec<T>, limit: usize, key: impl Fn(&T) -> K) -> Result<Self> {
        let is_last = rows.len() <= limit;
        rows.truncate(limit);
        let next_cursor = rows.last().filter(|_| !is_last).map(|row| Cursor::write(&key(row))).transpose()?;
        Ok(Self { items: rows, next_cursor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_with_a_cursor_unless_it_is_the_last() {
        let page = |rows: Vec<i64>| Page::new(rows, 2, |row| *row).unwrap();
        let first = page(vec![1, 2, 3]);
        assert_eq!((first.items, Cursor::read::<i64>(&first.next_cursor.unwrap()).unwrap()), (vec![1, 2], 2));
        assert_eq!(page(vec![1, 2]).next_cursor, None);
        assert_eq!(page(vec![]).next_cursor, None);
    }

    #[test]
    fn nonsense_is_refused() {
        let long = "A".repeat(MAX_LENGTH + 1);
        let other = Cursor::write("a text").unwrap();
        for cursor in ["", "1", "AjQy", "äöü", "AQ==", &long, &other] {
            assert_eq!(Cursor::read::<i64>(cursor).unwrap_err().status(), Some(400), "{cursor}");
        }
    }
}
