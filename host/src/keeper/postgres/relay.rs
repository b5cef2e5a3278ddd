//! The private server's log on its way into the host's: each line with the role whose session wrote it, within bounds.
//! A plugin's SQL can make the server log as fast as it runs (`RAISE LOG`, errors in a loop).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, BufReader};
use tokio::process::ChildStderr;

use crate::db::roles;

/// What the server puts before each message, as [`parse`] reads it: process, role of the session (none for the server
/// itself).
pub const LINE_PREFIX: &str = "%p %u|";
/// More of one line is cut off.
const MAX_LINE_BYTES: usize = 4096;
/// Lines of one role at once, and in a second from then on.
const BURST: f64 = 100.0;
const LINES_PER_SECOND: f64 = 10.0;
/// Roles that are counted by themselves; all others share one count. Far more than a host has.
const MAX_ROLES: usize = 1_000;
const REPORT_EVERY: Duration = Duration::from_secs(5);
const REMEMBERED_LINES: usize = 20;

/// What the server logged last, for the message of a start that failed.
#[derive(Clone, Debug, Default)]
pub struct LastWords(Arc<Mutex<VecDeque<String>>>);

impl LastWords {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == REMEMBERED_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    pub fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Writes the server's log into ours until the server has ended.
pub async fn relay(stderr: ChildStderr, last_words: LastWords) {
    let mut lines = Lines { from: BufReader::new(stderr), line: Vec::new(), cut: false };
    let mut bounds = Bounds::default();
    let mut session = Session::default();
    let mut report = tokio::time::interval(REPORT_EVERY);
    loop {
        tokio::select! {
            line = lines.next() => {
                let Some(line) = line else { break };
                let text = match parse(&line) {
                    Some((found, text)) => {
                        session = found;
                        text
                    }
                    // The rest of a message with several lines.
                    None => line.as_str(),
                };
                if bounds.admit(&session.role, Instant::now()) {
                    log(&session, text);
                    last_words.push(text.to_owned());
                }
            }
            _ = report.tick() => bounds.report(),
        }
    }
    bounds.report();
}

/// Who wrote a line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Session {
    pid: u32,
    /// Empty for the server itself.
    role: String,
}

fn parse(line: &str) -> Option<(Session, &str)> {
    let (prefix, text) = line.split_once('|')?;
    let (pid, role) = prefix.split_once(' ')?;
    let pid = pid.parse().ok()?;
    // The server writes this for a session that has not said yet who it is.
    let role = if role == "[unknown]" { "" } else { role };
    Some((Session { pid, role: role.to_owned() }, text))
}

fn log(session: &Session, text: &str) {
    let role = Some(session.role.as_str()).filter(|role| !role.is_empty());
    let plugin = role.and_then(roles::plugin_of);
    let (plugin, pid) = (plugin.as_deref(), session.pid);
    if is_news(text) {
        tracing::warn!(target: "postgres", role, plugin, pid, "{text}");
    } else {
        tracing::debug!(target: "postgres", role, plugin, pid, "{text}");
    }
}

/// An ERROR is its session's business, and whoever knocks while the server starts or stops is told FATAL.
fn is_news(line: &str) -> bool {
    match line.split_once(':') {
        Some(("PANIC" | "WARNING", _)) => true,
        Some(("FATAL", reason)) => !reason.trim_start().starts_with("the database system is"),
        _ => false,
    }
}

/// Lines of bounded length. A call that is cut short goes on where it was.
struct Lines<R> {
    from: R,
    line: Vec<u8>,
    cut: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    async fn next(&mut self) -> Option<String> {
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

/// A token bucket for each role.
#[derive(Debug, Default)]
struct Bounds {
    buckets: HashMap<String, Bucket>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
    dropped: u64,
}

/// Under which roles beyond [`MAX_ROLES`] are counted; no role has this name.
const OTHERS: &str = "other roles";

impl Bounds {
    /// Whether this line is logged; one that is not is counted.
    fn admit(&mut self, role: &str, now: Instant) -> bool {
        let is_new = !self.buckets.contains_key(role);
        let name = if is_new && self.buckets.len() >= MAX_ROLES { OTHERS } else { role };
        let bucket = self.buckets.entry(name.to_owned()).or_insert(Bucket { tokens: BURST, filled: now, dropped: 0 });
        let earned = now.saturating_duration_since(bucket.filled).as_secs_f64() * LINES_PER_SECOND;
        bucket.tokens = (bucket.tokens + earned).min(BURST);
        bucket.filled = now;
        if bucket.tokens < 1.0 {
            bucket.dropped += 1;
            return false;
        }
        bucket.tokens -= 1.0;
        true
    }

    fn report(&mut self) {
        for (role, bucket) in self.buckets.iter_mut().filter(|(_, bucket)| bucket.dropped > 0) {
            let lines = std::mem::take(&mut bucket.dropped);
            let plugin = roles::plugin_of(role);
            tracing::warn!(
                target: "postgres",
                role,
                plugin = plugin.as_deref(),
                lines,
                "PostgreSQL logged more for this role than is kept; lines were dropped"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_its_process_and_role() {
        let session = |pid, role: &str| Session { pid, role: role.to_owned() };
        assert_eq!(parse("12 r|ERROR:  no | x"), Some((session(12, "r"), "ERROR:  no | x")));
        assert_eq!(parse("12 |LOG:  ready"), Some((session(12, ""), "LOG:  ready")));
        assert_eq!(parse("7 [unknown]|LOG:  x"), Some((session(7, ""), "LOG:  x")));
        for rest in ["\tthe second line", "a b|c", ""] {
            assert_eq!(parse(rest), None, "{rest:?}");
        }
    }

    #[test]
    fn a_role_that_floods_is_bounded_and_others_are_not() {
        let (mut bounds, start) = (Bounds::default(), Instant::now());
        let admitted = (0..10_000).filter(|_| bounds.admit("flood", start)).count();
        assert_eq!(admitted, BURST as usize);
        assert!(bounds.admit("other", start));
        assert_eq!(bounds.buckets["flood"].dropped, 10_000 - BURST as u64);
        let later = start + Duration::from_secs(1);
        assert_eq!((0..100).filter(|_| bounds.admit("flood", later)).count(), LINES_PER_SECOND as usize);
        for n in 0..2 * MAX_ROLES {
            bounds.admit(&format!("role {n}"), start);
        }
        assert!(bounds.buckets.len() <= MAX_ROLES + 1);
    }

    #[tokio::test]
    async fn a_long_line_is_cut_and_the_next_one_whole() {
        let text = format!("1 r|LOG:  {}\nnext\nlast", "x".repeat(1 << 20));
        let mut lines = Lines { from: BufReader::new(text.as_bytes()), line: Vec::new(), cut: false };
        let first = lines.next().await.unwrap();
        assert!(first.len() < MAX_LINE_BYTES + 20 && first.ends_with("… (cut)"));
        assert_eq!(lines.next().await.as_deref(), Some("next"));
        assert_eq!(lines.next().await.as_deref(), Some("last"));
        assert_eq!(lines.next().await, None);
    }
}
