//! The last lines of each plugin and of what the host says of it, kept in memory for whoever reads along. What a plugin
//! itself writes is bounded in a second, in the log as well as here: one that floods it costs nobody else a line.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use tokio::sync::{Notify, watch};
use tracing::Level;

use super::{line::Line, mask::mask};
use crate::{
    recent::{Bounds, Entry, Portion, Recent},
    shard::Counter,
};

/// Lines of a plugin that are kept, and bytes of them.
const TAIL_BOUNDS: Bounds = Bounds { entries: 2_000, bytes: 4 << 20 };
/// What a plugin may write in a second: lines, and bytes.
const LINES_A_SECOND: u32 = 500;
const BYTES_A_SECOND: usize = 1 << 20;
/// Plugins whose lines are kept, more than a folder holds.
const MAX_PLUGINS: usize = 1_000;
/// How long dropped lines are summed up before they are reported.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(1);

/// Who wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Plugin,
    Host,
    /// The plugin's frontend, somewhere.
    Browser,
}

impl Source {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Host => "host",
            Self::Browser => "browser",
        }
    }
}

/// The lines of all plugins, by name.
#[derive(Debug, Default)]
pub struct Tails {
    by_name: RwLock<BTreeMap<String, Arc<Tail>>>,
    /// Rings when a line was dropped.
    dropped: Notify,
}

impl Tails {
    /// Those of a plugin; `None` when there are too many plugins.
    pub fn for_plugin(&self, plugin: &str, now: OffsetDateTime) -> Option<Arc<Tail>> {
        if let Some(known) = self.by_name.read().get(plugin) {
            return Some(Arc::clone(known));
        }
        let mut by_name = self.by_name.write();
        if by_name.len() >= MAX_PLUGINS && !by_name.contains_key(plugin) {
            return None;
        }
        Some(Arc::clone(by_name.entry(plugin.to_owned()).or_insert_with(|| Arc::new(Tail::new(now)))))
    }

    /// Whether the plugin may write a line of this size now. If not, the line is counted.
    pub fn admits(&self, tail: &Tail, now: OffsetDateTime, size: usize) -> bool {
        let admitted = tail.admits(now.unix_timestamp(), size);
        if !admitted {
            self.dropped.notify_one();
        }
        admitted
    }

    /// Says in the log how many lines of which plugins were dropped, a while after the first one.
    pub async fn report_dropped(&self) {
        loop {
            self.dropped.notified().await;
            tokio::time::sleep(SUMMARY_INTERVAL).await;
            for (plugin, tail) in self.read() {
                let lines = tail.newly_dropped();
                if lines > 0 {
                    tracing::warn!(
                        plugin,
                        lines,
                        "lines of the plugin were dropped: it may write {LINES_A_SECOND} a second, and {BYTES_A_SECOND} bytes"
                    );
                }
            }
        }
    }

    /// All of them.
    pub fn read(&self) -> Vec<(String, Arc<Tail>)> {
        let by_name = self.by_name.read();
        by_name.iter().map(|(name, tail)| (name.clone(), Arc::clone(tail))).collect()
    }
}

/// The lines of one plugin.
#[derive(Debug)]
pub struct Tail {
    lines: Mutex<Recent<TailLine>>,
    /// The number of the last line.
    head: watch::Sender<i64>,
    second: Mutex<Second>,
    written: Counter,
    dropped: Counter,
    reported: Mutex<u64>,
}

/// What was written in one second.
#[derive(Debug, Default)]
struct Second {
    at: i64,
    lines: u32,
    bytes: usize,
}

/// A line as it is kept.
#[derive(Debug)]
struct TailLine {
    id: i64,
    level: Level,
    /// A JSON object on one line.
    json: Bytes,
}

/// Lines, the newest first, and the number of the last of them when there are more.
pub struct Page {
    pub items: Vec<Bytes>,
    pub more: Option<i64>,
}

impl Tail {
    /// Numbers begin at the time in microseconds: after a restart they go on above those of before.
    fn new(now: OffsetDateTime) -> Self {
        let begin = i64::try_from(now.unix_timestamp_nanos() / 1_000).unwrap_or_default();
        let mut lines = Recent::new(TAIL_BOUNDS);
        lines.restart(begin);
        Self {
            lines: Mutex::new(lines),
            head: watch::Sender::new(begin),
            second: Mutex::default(),
            written: Counter::default(),
            dropped: Counter::default(),
            reported: Mutex::default(),
        }
    }

    fn admits(&self, second: i64, size: usize) -> bool {
        let mut now = self.second.lock();
        if now.at != second {
            *now = Second { at: second, ..Second::default() };
        }
        if now.lines >= LINES_A_SECOND || now.bytes + size > BYTES_A_SECOND {
            self.dropped.count();
            return false;
        }
        (now.lines, now.bytes) = (now.lines + 1, now.bytes + size);
        drop(now);
        self.written.count();
        true
    }

    /// Lines that the plugin has written, and those that were dropped.
    pub fn counts(&self) -> (u64, u64) {
        (self.written.read(), self.dropped.read())
    }

    fn newly_dropped(&self) -> u64 {
        let mut reported = self.reported.lock();
        let dropped = self.dropped.read();
        dropped - std::mem::replace(&mut *reported, dropped)
    }

    /// Keeps a line, whose credentials are masked.
    pub fn add(&self, line: &TailEntry<'_>) {
        let rest = line.written();
        let mut lines = self.lines.lock();
        let id = lines.head() + 1;
        lines.add(TailLine { id, level: line.level, json: format!("{{\"id\":{id},{rest}").into() });
        self.head.send_replace(id);
    }

    /// The number of the last line; changes when there are new ones.
    pub fn head(&self) -> watch::Receiver<i64> {
        self.head.subscribe()
    }

    /// What there is for a reader at `place`, who wants lines of this level and graver ones.
    pub fn portion(&self, place: i64, min_level: Level) -> Portion {
        self.lines.lock().portion(place, |line| line.level <= min_level)
    }

    /// The place before the oldest line that is kept.
    pub fn begin(&self) -> i64 {
        self.lines.lock().begin()
    }

    /// The place from which on there are the last `count` lines of this level and graver ones.
    pub fn before_last(&self, count: usize, min_level: Level) -> i64 {
        let lines = self.lines.lock();
        let wanted = lines.newest().filter(|line| line.level <= min_level).nth(count);
        wanted.map_or_else(|| lines.begin(), |line| line.id)
    }

    /// The lines before number `before`, or the newest ones.
    pub fn page(&self, before: Option<i64>, limit: usize, min_level: Level) -> Page {
        let lines = self.lines.lock();
        let wanted = |line: &&TailLine| line.level <= min_level && before.is_none_or(|before| line.id < before);
        let mut found: Vec<&TailLine> = lines.newest().filter(wanted).take(limit + 1).collect();
        let more = found.len() > limit;
        found.truncate(limit);
        Page {
            more: found.last().filter(|_| more).map(|line| line.id),
            items: found.into_iter().map(|line| line.json.clone()).collect(),
        }
    }
}

impl Entry for TailLine {
    fn id(&self) -> i64 {
        self.id
    }

    fn size(&self) -> usize {
        self.json.len()
    }

    fn write(&self, out: &mut BytesMut) {
        out.extend_from_slice(format!("id: {}\nevent: line\ndata: ", self.id).as_bytes());
        out.extend_from_slice(&self.json);
        out.extend_from_slice(b"\n\n");
    }
}

/// A line that is to be kept.
#[derive(Debug)]
pub struct TailEntry<'a> {
    pub at: OffsetDateTime,
    pub level: Level,
    pub source: Source,
    pub message: &'a str,
    pub fields: Map<String, Value>,
    pub request_id: Option<&'a str>,
    pub trace_id: Option<&'a str>,
}

impl TailEntry<'_> {
    /// All of the object but its beginning.
    fn written(&self) -> String {
        let mut out = String::with_capacity(200 + self.message.len());
        let mut line = Line::kept(&mut out, self.at, self.level, self.source.name(), &mask(self.message));
        line.some_text("request_id", self.request_id);
        line.some_text("trace_id", self.trace_id);
        if !self.fields.is_empty() {
            line.json("fields", &Value::Object(self.fields.clone()).to_string());
        }
        line.end();
        out.truncate(out.trim_end().len());
        out
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-01-01 00:00 UTC);

    fn entry(level: Level, message: &str) -> TailEntry<'_> {
        let fields = Map::new();
        TailEntry { at: NOW, level, source: Source::Plugin, message, fields, request_id: None, trace_id: None }
    }

    fn parsed(page: &Page) -> Vec<Value> {
        page.items.iter().map(|item| serde_json::from_slice(item).unwrap()).collect()
    }

    #[test]
    fn lines_are_read_in_pages_from_the_newest() {
        let tail = Tail::new(NOW);
        (0..5).for_each(|n| tail.add(&entry(if n == 2 { Level::WARN } else { Level::INFO }, &format!("line {n}"))));
        let first = tail.page(None, 2, Level::TRACE);
        let items = parsed(&first);
        assert_eq!((&items[0]["message"], &items[1]["message"]), (&"line 4".into(), &"line 3".into()));
        assert_eq!((&items[0]["level"], &items[0]["source"]), (&"info".into(), &"plugin".into()));
        let rest = tail.page(first.more, 9, Level::TRACE);
        assert_eq!((rest.items.len(), rest.more), (3, None));
        assert_eq!(parsed(&tail.page(None, 9, Level::WARN))[0]["message"], "line 2");
        assert!(tail.page(None, 9, Level::ERROR).items.is_empty());
        assert_eq!(items[0]["id"], *tail.head().borrow());
    }

    #[test]
    fn a_reader_begins_before_the_last_lines_and_goes_on() {
        let tail = Tail::new(NOW);
        (0..5).for_each(|n| tail.add(&entry(Level::INFO, &format!("line {n}"))));
        let place = tail.before_last(2, Level::INFO);
        let Portion::Some(text, place) = tail.portion(place, Level::INFO) else { panic!() };
        let text = std::str::from_utf8(&text).unwrap();
        assert!(text.matches("event: line").count() == 2 && text.contains("line 3") && !text.contains("line 2"));
        assert_eq!(tail.portion(place, Level::INFO), Portion::Nothing);
        assert_eq!(tail.before_last(9, Level::INFO), tail.begin());
        assert_eq!(tail.before_last(9, Level::ERROR), tail.begin());
    }

    #[test]
    fn what_is_too_much_for_a_second_is_dropped_and_counted() {
        let (tails, second) = (Tails::default(), time::Duration::SECOND);
        let tail = tails.for_plugin("a", NOW).unwrap();
        let admitted = (0..LINES_A_SECOND + 7).filter(|_| tails.admits(&tail, NOW, 10)).count();
        assert_eq!((admitted, tail.counts()), (500, (500, 7)));
        assert!(tails.admits(&tail, NOW + second, BYTES_A_SECOND), "the next second is another");
        assert!(!tails.admits(&tail, NOW + second, 1));
        assert!(tails.admits(&tails.for_plugin("b", NOW).unwrap(), NOW, 10), "and another plugin has its own");
        assert_eq!((tail.newly_dropped(), tail.newly_dropped()), (8, 0));
    }

    #[test]
    fn nothing_that_a_line_holds_shows_a_credential_or_leaves_its_line() {
        let tail = Tail::new(NOW);
        let evil = "x\r\n\x1b[2J\u{202e} mpk_0123456789abcdef";
        let fields = Map::from_iter([("a\nb".to_owned(), Value::from(evil))]);
        tail.add(&TailEntry { fields, ..entry(Level::ERROR, evil) });
        let page = tail.page(None, 1, Level::TRACE);
        let text = std::str::from_utf8(&page.items[0]).unwrap();
        assert!(!text.chars().any(|c| c.is_control() || c == '\u{202e}'), "{text}");
        assert_eq!(parsed(&page)[0]["message"], "x\r\n\x1b[2J\u{202e} mpk_***");
        assert_eq!(parsed(&page)[0]["fields"]["a\nb"], "x\r\n\x1b[2J\u{202e} mpk_***");
    }
}
