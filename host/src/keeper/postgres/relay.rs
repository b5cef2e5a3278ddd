//! The private server's log on its way into the host's: each line with the role whose session wrote it, within bounds.
//! A plugin's SQL can make the server log as fast as it runs (`RAISE LOG`, errors in a loop).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::process::ChildStderr;

use crate::db::roles;
use crate::keeper::lines::{Bucket, Lines, Rate};

/// What the server puts before each message, as [`parse`] reads it: process, role of the session (none for the server
/// itself).
pub const LINE_PREFIX: &str = "%p %u|";
/// Lines of one role at once, and in a second from then on.
const RATE: Rate = Rate { burst: 100.0, per_second: 10.0 };
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
    let mut lines = Lines::new(stderr);
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

/// A token bucket for each role.
#[derive(Debug, Default)]
struct Bounds {
    buckets: HashMap<String, Bucket>,
}

/// Under which roles beyond [`MAX_ROLES`] are counted; no role has this name.
const OTHERS: &str = "other roles";

impl Bounds {
    /// Whether this line is logged; one that is not is counted.
    fn admit(&mut self, role: &str, now: Instant) -> bool {
        let is_new = !self.buckets.contains_key(role);
        let name = if is_new && self.buckets.len() >= MAX_ROLES { OTHERS } else { role };
        self.buckets.entry(name.to_owned()).or_insert_with(|| Bucket::new(RATE, now)).admit(now)
    }

    fn report(&mut self) {
        let dropped = self.buckets.iter_mut().map(|(role, bucket)| (role, bucket.take_dropped()));
        for (role, lines) in dropped.filter(|(_, lines)| *lines > 0) {
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
        assert_eq!(admitted, RATE.burst as usize);
        assert!(bounds.admit("other", start));
        assert_eq!(bounds.buckets.get_mut("flood").unwrap().take_dropped(), 10_000 - RATE.burst as u64);
        let later = start + Duration::from_secs(1);
        assert_eq!((0..100).filter(|_| bounds.admit("flood", later)).count(), RATE.per_second as usize);
        for n in 0..2 * MAX_ROLES {
            bounds.admit(&format!("role {n}"), start);
        }
        assert!(bounds.buckets.len() <= MAX_ROLES + 1);
    }
}
