//! The newest of something numbered that many may read along, kept once for all of them. A reader keeps no more than
//! its place in it: it needs no buffer, and falls out when it is too slow.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Bytes that a reader takes at once, rounded up to whole entries.
const PORTION: usize = 64 << 10;

/// One of them.
pub trait Entry {
    fn id(&self) -> i64;
    /// Bytes that it takes.
    fn size(&self) -> usize;
    /// As a reader gets it.
    fn write(&self, out: &mut BytesMut);
}

/// A run of entries without a gap.
#[derive(Debug)]
pub struct Recent<E> {
    entries: VecDeque<E>,
    /// The number of the last one, or where the run begins.
    head: i64,
    bytes: usize,
    bounds: Bounds,
}

/// How much is kept; who is further behind is too slow.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub entries: usize,
    pub bytes: usize,
}

/// What there is for a reader after its place.
#[derive(Debug, PartialEq, Eq)]
pub enum Portion {
    /// What it wants to read, perhaps nothing, up to this place.
    Some(Bytes, i64),
    /// Nothing yet.
    Nothing,
    /// What comes next for it is not here any more.
    Gone,
}

impl<E: Entry> Recent<E> {
    /// None yet.
    pub const fn new(bounds: Bounds) -> Self {
        Self { entries: VecDeque::new(), head: 0, bytes: 0, bounds }
    }

    pub fn head(&self) -> i64 {
        self.head
    }

    /// Forgets everything; the next entry is the one after `head`.
    pub fn restart(&mut self, head: i64) {
        *self = Self { head, ..Self::new(self.bounds) };
    }

    /// Adds what comes after the head. What does not follow it without a gap makes the run begin anew.
    pub fn add(&mut self, entry: E) {
        if entry.id() != self.head + 1 {
            self.restart(entry.id() - 1);
        }
        self.head = entry.id();
        self.bytes += entry.size();
        self.entries.push_back(entry);
        while self.entries.len() > self.bounds.entries || self.bytes > self.bounds.bytes {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= oldest.size();
        }
    }

    /// All that is kept, the newest first.
    pub fn newest(&self) -> impl Iterator<Item = &E> {
        self.entries.iter().rev()
    }

    /// The place right before the oldest that is kept.
    pub fn begin(&self) -> i64 {
        self.entries.front().map_or(self.head, |first| first.id() - 1)
    }

    pub fn portion(&self, place: i64, wanted: impl Fn(&E) -> bool) -> Portion {
        if place >= self.head {
            return Portion::Nothing;
        }
        let Some(missing) = self.entries.front().map(|first| place + 1 - first.id()) else { return Portion::Gone };
        match usize::try_from(missing) {
            Ok(from) => portion(self.entries.range(from..), place, wanted),
            Err(_) => Portion::Gone,
        }
    }
}

/// Those of the entries that are wanted, as many as go at once.
pub fn portion<'e, E: Entry + 'e>(
    entries: impl Iterator<Item = &'e E>,
    mut place: i64,
    wanted: impl Fn(&E) -> bool,
) -> Portion {
    let mut text = BytesMut::new();
    for entry in entries {
        if wanted(entry) {
            entry.write(&mut text);
        }
        place = entry.id();
        if text.len() >= PORTION {
            break;
        }
    }
    Portion::Some(text.freeze(), place)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_ENTRIES: usize = 4_096;

    impl Entry for (i64, char) {
        fn id(&self) -> i64 {
            self.0
        }

        fn size(&self) -> usize {
            1
        }

        fn write(&self, out: &mut BytesMut) {
            out.extend_from_slice(format!("{}{} ", self.0, self.1).as_bytes());
        }
    }

    fn recent(ids: std::ops::RangeInclusive<i64>) -> Recent<(i64, char)> {
        let mut recent = Recent::new(Bounds { entries: MAX_ENTRIES, bytes: 1 << 20 });
        recent.restart(ids.start() - 1);
        ids.for_each(|id| recent.add((id, 'c')));
        recent
    }

    #[test]
    fn a_reader_gets_what_comes_after_its_place() {
        let recent = recent(11..=13);
        assert_eq!(recent.portion(11, |_| true), Portion::Some("12c 13c ".into(), 13));
        assert_eq!(recent.portion(13, |_| true), Portion::Nothing);
        assert_eq!(recent.portion(99, |_| true), Portion::Nothing);
        assert_eq!(recent.portion(9, |_| true), Portion::Gone);
        assert_eq!((recent.begin(), recent.newest().next()), (10, Some(&(13, 'c'))));
    }

    #[test]
    fn what_is_not_wanted_is_passed_over() {
        assert_eq!(recent(1..=3).portion(0, |entry| entry.1 == 'x'), Portion::Some(Bytes::new(), 3));
    }

    #[test]
    fn it_is_bounded_and_takes_no_gap() {
        let mut full = recent(1..=5_000);
        assert_eq!(full.entries.len(), MAX_ENTRIES);
        assert_eq!(full.portion(5_000 - MAX_ENTRIES as i64 - 1, |_| true), Portion::Gone);
        full.add((6_000, 'c'));
        assert_eq!((full.entries.len(), full.head()), (1, 6_000));
        assert_eq!(full.portion(5_000, |_| true), Portion::Gone);
    }
}
