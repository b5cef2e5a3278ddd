//! Lines of JSON.

use crate::error::CardError;

/// A line that is too long, in words.
pub(super) fn too_long(limit: usize) -> CardError {
    CardError::RowTooLong { limit }
}

/// Cuts what comes into lines.
pub(super) struct Lines {
    /// A line that has begun.
    rest: Vec<u8>,
    /// The rest of this line is passed over.
    too_long: bool,
    number: i64,
    limit: usize,
}

impl Lines {
    pub(super) fn new(limit: usize) -> Self {
        Self { rest: Vec::new(), too_long: false, number: 0, limit }
    }

    /// Gives each line that has something in it, with its number.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(i64, Result<&[u8], CardError>)) {
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = bytes.split_at(at);
            bytes = &rest[1..];
            if self.rest.is_empty() && !self.too_long && line.len() <= self.limit {
                self.give(line, &mut each);
            } else {
                self.keep(line);
                self.finish(&mut each);
            }
        }
        self.keep(bytes);
    }

    /// Gives what has begun.
    pub(super) fn finish(&mut self, mut each: impl FnMut(i64, Result<&[u8], CardError>)) {
        let line = std::mem::take(&mut self.rest);
        if std::mem::take(&mut self.too_long) {
            self.number += 1;
            each(self.number, Err(too_long(self.limit)));
        } else {
            self.give(&line, &mut each);
        }
    }

    fn give(&mut self, line: &[u8], each: &mut impl FnMut(i64, Result<&[u8], CardError>)) {
        self.number += 1;
        if !line.trim_ascii().is_empty() {
            each(self.number, Ok(line));
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.rest.len() + bytes.len() > self.limit {
            self.too_long = true;
            self.rest = Vec::new();
        }
        if !self.too_long {
            self.rest.extend_from_slice(bytes);
        }
    }
}
