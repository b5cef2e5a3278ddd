//! How far long work is: one line that changes on a terminal, plain lines otherwise.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use super::text::plain;
use crate::backup::Progress;

/// On standard error, so that standard output stays the command's result.
pub(super) struct Lines {
    terminal: bool,
    rows: u64,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { terminal: io::stderr().is_terminal(), rows: 0 }
    }
}

impl Progress for Lines {
    fn rows(&mut self, what: &str, rows: u64) {
        self.rows = rows;
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[K{}: {rows} rows", plain(what));
        }
    }

    fn done(&mut self, what: &str) {
        let rows = std::mem::take(&mut self.rows);
        let start = if self.terminal { "\r\x1b[K" } else { "" };
        let rows = if what.contains('.') { format!(": {rows} rows") } else { String::new() };
        let _ = writeln!(io::stderr(), "{start}{}{rows}", plain(what));
    }

    fn note(&mut self, text: &str) {
        let start = if self.terminal { "\r\x1b[K" } else { "" };
        let _ = writeln!(io::stderr(), "{start}{}", plain(text));
    }
}

/// How often a terminal's line changes, and how often there is a new line elsewhere.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);
const LINE_INTERVAL: Duration = Duration::from_secs(10);
const WIDTH: usize = 24;

/// Long work of known length, or of unknown: how far it is, how fast, and how long it will take yet.
pub(super) struct Bar {
    what: &'static str,
    terminal: bool,
    started: Instant,
    drawn_at: Instant,
    rows: u64,
    /// Of `of` there is to do, in rows or in bytes.
    moved: u64,
    of: Option<u64>,
    finished: bool,
}

impl Bar {
    /// `of` is how much there is to do, where that is known.
    pub(super) fn new(what: &'static str, of: Option<u64>) -> Self {
        let now = Instant::now();
        let of = of.filter(|of| *of > 0);
        Self {
            what,
            terminal: io::stderr().is_terminal(),
            started: now,
            drawn_at: now,
            rows: 0,
            moved: 0,
            of,
            finished: false,
        }
    }

    /// So many rows more, and so much of all there is to do.
    pub(super) fn moved(&mut self, rows: u64, part: u64) {
        self.rows += rows;
        self.moved += part;
        let every = if self.terminal { REDRAW_INTERVAL } else { LINE_INTERVAL };
        if self.drawn_at.elapsed() >= every {
            self.drawn_at = Instant::now();
            self.draw(self.started.elapsed());
        }
    }

    /// Leaves a terminal's line as it was before.
    pub(super) fn finish(&mut self) {
        if self.terminal && !std::mem::replace(&mut self.finished, true) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    fn draw(&self, elapsed: Duration) {
        let line = self.line(elapsed);
        let _ = if self.terminal { write!(io::stderr(), "\r\x1b[K{line}") } else { writeln!(io::stderr(), "{line}") };
    }

    fn line(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64().max(0.001);
        let rate =
            format!("{} {}, {} a second", grouped(self.rows), self.what, grouped((self.rows as f64 / seconds) as u64));
        let Some(of) = self.of else { return rate };
        // An estimate may turn out to be too low.
        let share = (self.moved as f64 / of as f64).min(1.0);
        let left = if share > 0.0 { seconds / share - seconds } else { 0.0 };
        let left = format!("{}:{:02} left", left as u64 / 60, left as u64 % 60);
        let percent = (share * 100.0) as u64;
        if !self.terminal {
            return format!("{percent} %: {rate}, {left}");
        }
        let full = (share * WIDTH as f64) as usize;
        format!("[{}{}] {percent} %  {rate}  {left}", "=".repeat(full), " ".repeat(WIDTH - full))
    }
}

/// 1234567 as 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long_yet() {
        let mut bar = Bar { terminal: false, ..Bar::new("cards", Some(4_000_000)) };
        (bar.rows, bar.moved) = (25_000, 1_000_000);
        assert_eq!(bar.line(Duration::from_secs(25)), "25 %: 25,000 cards, 1,000 a second, 1:15 left");
        bar.terminal = true;
        assert_eq!(
            bar.line(Duration::from_secs(25)),
            "[======                  ] 25 %  25,000 cards, 1,000 a second  1:15 left"
        );
        bar.of = None;
        assert_eq!(bar.line(Duration::from_secs(25)), "25,000 cards, 1,000 a second");
        assert_eq!((grouped(0), grouped(999), grouped(1_000)), ("0".into(), "999".into(), "1,000".into()));
    }

    #[test]
    fn more_than_was_expected_is_all_of_it() {
        let mut bar = Bar { terminal: false, ..Bar::new("cards", Some(10)) };
        (bar.rows, bar.moved) = (20, 20);
        assert!(bar.line(Duration::from_secs(1)).starts_with("100 %"));
    }
}
