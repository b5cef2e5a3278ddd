//! PostgreSQL values across the border, in PostgreSQL's own binary formats.
//!
//! * **Parameters** of a statement: `{length: i32, bytes}` for each, length -1 for NULL.
//! * **Rows**, one batch per stream piece: `{column_count: u16}` and the columns as above, row after row to the end of
//!   the piece. A piece never ends inside a row.
//!
//! All integers are in network byte order, as in PostgreSQL's protocol. The type of a parameter or column, which the
//! host says when it prepares the statement, gives the bytes their meaning.
//!
//! ```
//! use cardinal_plugin_abi::values::{Reader, push, push_row};
//!
//! let mut batch = Vec::new();
//! push_row(&mut batch, 2);
//! assert!(push(&mut batch, Some(b"Lamp")) && push(&mut batch, None));
//!
//! let mut reader = Reader::new(&batch);
//! assert_eq!(reader.row(), Some(2));
//! assert_eq!((reader.next(), reader.next()), (Some(Some(&b"Lamp"[..])), Some(None)));
//! assert!(reader.row().is_none() && reader.is_done());
//! ```

/// Appends one value; `None` is NULL. An empty value is not NULL: of a text it is the empty one.
///
/// Returns `false` for a value over 2 GiB, which cannot be written; `out` is as it was then.
///
/// ```
/// use cardinal_plugin_abi::values;
///
/// let mut params = Vec::new();
/// assert!(values::push(&mut params, Some(&990_i64.to_be_bytes())) && values::push(&mut params, None));
/// assert_eq!(params.len(), 4 + 8 + 4);
/// ```
pub fn push(out: &mut Vec<u8>, value: Option<&[u8]>) -> bool {
    match value {
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
        Some(bytes) => {
            let Ok(length) = i32::try_from(bytes.len()) else { return false };
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(bytes);
        }
    }
    true
}

/// Begins a row of `columns` columns. [`push`] its values after it, as many as that.
///
/// ```
/// use cardinal_plugin_abi::values::{push, push_row};
///
/// let mut batch = Vec::new();
/// for cents in [990_i32, 1250] {
///     push_row(&mut batch, 1);
///     assert!(push(&mut batch, Some(&cents.to_be_bytes())));
/// }
/// assert_eq!(batch.len(), 2 * (2 + 4 + 4));
/// ```
pub fn push_row(out: &mut Vec<u8>, columns: u16) {
    out.extend_from_slice(&columns.to_be_bytes());
}

/// Reads values one by one, without copying them. Any bytes may be given. After `None` nothing more can be read.
///
/// ```
/// use cardinal_plugin_abi::values::{Reader, push};
///
/// let mut params = Vec::new();
/// assert!(push(&mut params, Some(b"L1")));
/// let mut reader = Reader::new(&params);
/// assert_eq!((reader.next(), reader.next()), (Some(Some(&b"L1"[..])), None));
/// ```
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from their beginning.
    ///
    /// ```
    /// use cardinal_plugin_abi::values::Reader;
    ///
    /// assert!(Reader::new(&[]).is_done());
    /// ```
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns whether everything has been read: it tells the end from a malformed buffer after [`next`](Self::next)
    /// returned `None`.
    ///
    /// ```
    /// use cardinal_plugin_abi::values::Reader;
    ///
    /// let mut cut_off = Reader::new(&[0, 0, 0]);
    /// assert!(cut_off.next().is_none() && !cut_off.is_done());
    /// ```
    pub fn is_done(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns how many bytes have not been read.
    ///
    /// ```
    /// use cardinal_plugin_abi::values::{Reader, push_row};
    ///
    /// let mut batch = Vec::new();
    /// push_row(&mut batch, 0);
    /// push_row(&mut batch, 0);
    /// let mut reader = Reader::new(&batch);
    /// assert_eq!((reader.row(), reader.left()), (Some(0), 2)); // where the next row begins, from the end
    /// ```
    pub fn left(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the next value: `Some(None)` is NULL, `None` means that the buffer is malformed or at its end.
    ///
    /// ```
    /// use cardinal_plugin_abi::values::{Reader, push};
    ///
    /// let mut values = Vec::new();
    /// assert!(push(&mut values, None) && push(&mut values, Some(b"")));
    /// let mut reader = Reader::new(&values);
    /// assert_eq!((reader.next(), reader.next()), (Some(None), Some(Some(&b""[..])))); // NULL, and an empty text
    /// ```
    #[allow(clippy::should_implement_trait)] // a malformed buffer and its end are the same to an iterator, not to us
    pub fn next(&mut self) -> Option<Option<&'a [u8]>> {
        let (length, rest) = self.bytes.split_first_chunk::<4>()?;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            self.bytes = rest;
            return Some(None);
        };
        let value = rest.get(..length)?;
        self.bytes = &rest[length..];
        Some(Some(value))
    }

    /// Returns the column count of the next row; its values follow. `None` at the end, or for a buffer that is cut off.
    ///
    /// ```
    /// use cardinal_plugin_abi::values::{Reader, push_row};
    ///
    /// let mut batch = Vec::new();
    /// push_row(&mut batch, 2);
    /// assert_eq!(Reader::new(&batch).row(), Some(2));
    /// ```
    pub fn row(&mut self) -> Option<u16> {
        let (count, rest) = self.bytes.split_first_chunk::<2>()?;
        self.bytes = rest;
        Some(u16::from_be_bytes(*count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_nulls_come_back() {
        let mut buffer = Vec::new();
        push_row(&mut buffer, 3);
        for value in [Some(&b"x"[..]), None, Some(&b""[..])] {
            assert!(push(&mut buffer, value));
        }
        let mut reader = Reader::new(&buffer);
        assert_eq!(reader.row(), Some(3));
        assert_eq!(reader.next(), Some(Some(&b"x"[..])));
        assert_eq!(reader.next(), Some(None));
        assert_eq!(reader.next(), Some(Some(&b""[..])));
        assert!(reader.is_done());
    }

    #[test]
    fn a_cut_buffer_is_not_read_past_its_end() {
        let mut buffer = Vec::new();
        push(&mut buffer, Some(b"hello"));
        assert_eq!(Reader::new(&buffer[..6]).next(), None);
        assert_eq!(Reader::new(&[0, 0]).next(), None);
    }
}
