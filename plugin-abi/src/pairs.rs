//! Name and value pairs in one buffer: headers and path parameters.
//!
//! Layout, native byte order: `count: u32`, then `count` times `{name_length: u32, value_length: u32}`, then all names
//! and values one after the other. Order is kept, a name may repeat.
//!
//! ```
//! use cardinal_plugin_abi::pairs;
//!
//! let buffer = pairs::write([(&b"vary"[..], &b"accept"[..]), (b"vary", b"cookie")]);
//! let pairs: Vec<_> = pairs::read(&buffer).expect("well-formed").collect();
//! assert_eq!(pairs, [(&b"vary"[..], &b"accept"[..]), (b"vary", b"cookie")]);
//! assert!(pairs::read(b"nonsense").is_none());
//! ```

use crate::record::word;

const HEAD: usize = 4;
const ENTRY: usize = 8;

/// Writes pairs, in their order. No pairs are an empty buffer.
///
/// Names and values are bytes as they are: the reader decides whether they are text. Each may have up to 4 GiB, which
/// nothing that is written here comes near.
///
/// ```
/// use cardinal_plugin_abi::pairs;
///
/// let buffer = pairs::write([(&b"sku"[..], &b"L1"[..])]);
/// assert_eq!(pairs::read(&buffer).unwrap().next(), Some((&b"sku"[..], &b"L1"[..])));
/// assert!(pairs::write([]).is_empty());
/// ```
pub fn write<'a, I>(pairs: I) -> Vec<u8>
where
    I: IntoIterator<Item = (&'a [u8], &'a [u8])>,
    I::IntoIter: Clone,
{
    let pairs = pairs.into_iter();
    let (count, bytes) =
        pairs.clone().fold((0, 0), |(n, size), (name, value)| (n + 1, size + name.len() + value.len()));
    if count == 0 {
        return Vec::new();
    }
    let mut out = Vec::with_capacity(HEAD + ENTRY * count + bytes);
    out.extend_from_slice(&(count as u32).to_ne_bytes());
    for (name, value) in pairs.clone() {
        out.extend_from_slice(&(name.len() as u32).to_ne_bytes());
        out.extend_from_slice(&(value.len() as u32).to_ne_bytes());
    }
    for (name, value) in pairs {
        out.extend_from_slice(name);
        out.extend_from_slice(value);
    }
    out
}

/// Checks `buffer` and returns its pairs; none when it is empty. `None` when it is malformed: cut off, too long, or
/// with lengths that do not add up.
///
/// Nothing is copied. All lengths are checked here, once, so any bytes may be given.
///
/// ```
/// use cardinal_plugin_abi::pairs;
///
/// assert_eq!(pairs::read(b"").unwrap().count(), 0);
/// assert!(pairs::read(&[0xff; 32]).is_none());
/// ```
pub fn read(buffer: &[u8]) -> Option<Pairs<'_>> {
    if buffer.is_empty() {
        return Some(Pairs { buffer, left: 0, entry: 0, at: 0 });
    }
    let count = word(buffer, 0)? as usize;
    let table = HEAD.checked_add(count.checked_mul(ENTRY)?)?;
    let mut end = table;
    for i in 0..count {
        end = end.checked_add(word(buffer, HEAD + i * ENTRY)? as usize)?;
        end = end.checked_add(word(buffer, HEAD + i * ENTRY + 4)? as usize)?;
    }
    (end == buffer.len()).then_some(Pairs { buffer, left: count, entry: HEAD, at: table })
}

/// The pairs of a buffer that [`read`] has checked, in their order; they borrow from it.
///
/// ```
/// use cardinal_plugin_abi::pairs::{self, Pairs};
///
/// fn find<'a>(mut pairs: Pairs<'a>, wanted: &[u8]) -> Option<&'a [u8]> {
///     pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value)
/// }
/// let headers = pairs::write([(&b"accept"[..], &b"text/csv"[..]), (b"etag", b"7")]);
/// assert_eq!(find(pairs::read(&headers).unwrap(), b"etag"), Some(&b"7"[..]));
/// ```
#[derive(Clone)]
pub struct Pairs<'a> {
    buffer: &'a [u8],
    left: usize,
    entry: usize,
    at: usize,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let name = word(self.buffer, self.entry)? as usize;
        let value = word(self.buffer, self.entry + 4)? as usize;
        let pair =
            (self.buffer.get(self.at..self.at + name)?, self.buffer.get(self.at + name..self.at + name + value)?);
        self.left -= 1;
        self.entry += ENTRY;
        self.at += name + value;
        Some(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_repeats() {
        let pairs: Vec<(&[u8], &[u8])> = vec![(b"a", b"1"), (b"b", b""), (b"a", b"2")];
        let buffer = write(pairs.iter().copied());
        assert_eq!(read(&buffer).unwrap().collect::<Vec<_>>(), pairs);
        assert_eq!(read(&[]).unwrap().count(), 0);
    }

    #[test]
    fn refuses_what_is_malformed() {
        let buffer = write([(&b"name"[..], &b"value"[..])]);
        for end in 1..buffer.len() {
            assert!(read(&buffer[..end]).is_none(), "cut at {end}");
        }
        assert!(read(&[0xff; 32]).is_none());
    }
}
