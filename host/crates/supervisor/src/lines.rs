//! What other processes print, line by line and within bounds.

use std::time::Instant;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// More of one line is cut off.
const MAX_LINE_BYTES: usize = 4096;
const BUFFER_BYTES: usize = 64 << 10;

/// Lines of bounded length. A call that is cut short goes on where it was.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    from: BufReader<R>,
    line: Vec<u8>,
    cut: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(crate) fn new(from: R) -> Self {
        Self { from: BufReader::with_capacity(BUFFER_BYTES, from), line: Vec::new(), cut: false }
    }

    /// The next one, without its end; `None` once there is no more.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            let read = self.from.fill_buf().await.ok()?;
            if read.is_empty() {
                return if self.line.is_empty() { None } else { Some(self.take()) };
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let part = &read[..end.unwrap_or(read.len())];
            let room = MAX_LINE_BYTES - self.line.len();
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            self.cut |= part.len() > room;
            let used = end.map_or(read.len(), |end| end + 1);
            self.from.consume(used);
            if end.is_some() {
                return Some(self.take());
            }
        }
    }

    fn take(&mut self) -> String {
        let mut line = String::from_utf8_lossy(&self.line).trim_end().to_owned();
        if std::mem::take(&mut self.cut) {
            line.push_str(" … (cut)");
        }
        self.line.clear();
        line
    }
}

/// Lines at once, and in a second from then on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub burst: f64,
    pub per_second: f64,
}

/// A token bucket for lines.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: Rate,
    tokens: f64,
    filled: Instant,
    dropped: u64,
}

impl Bucket {
    pub(crate) fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, tokens: rate.burst, filled: now, dropped: 0 }
    }

    /// Whether this line is logged; one that is not is counted.
    pub(crate) fn admit(&mut self, now: Instant) -> bool {
        self.admit_many(1, now)
    }

    /// The same for a line that counts as several.
    pub(crate) fn admit_many(&mut self, tokens: usize, now: Instant) -> bool {
        let earned = now.saturating_duration_since(self.filled).as_secs_f64() * self.rate.per_second;
        self.tokens = (self.tokens + earned).min(self.rate.burst);
        self.filled = now;
        let wanted = tokens as f64;
        if self.tokens < wanted {
            self.dropped += 1;
            return false;
        }
        self.tokens -= wanted;
        true
    }

    /// Lines that were not admitted since this was asked last.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_long_line_is_cut_and_the_next_one_whole() {
        let text = format!("1 r|LOG:  {}\nnext\nlast", "x".repeat(1 << 20));
        let mut lines = Lines::new(text.as_bytes());
        let first = lines.next().await.unwrap();
        assert!(first.len() < MAX_LINE_BYTES + 20 && first.ends_with("… (cut)"));
        assert_eq!(lines.next().await.as_deref(), Some("next"));
        assert_eq!(lines.next().await.as_deref(), Some("last"));
        assert_eq!(lines.next().await, None);
    }
}
