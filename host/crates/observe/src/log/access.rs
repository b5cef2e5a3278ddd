//! The line of one request.

use std::{net::IpAddr, time::Duration};

use tracing::Level;

use super::{Log, line::Line, subscriber::with_scratch, targets::ACCESS_TARGET};
use crate::{request_timing::RequestTiming, trace::Trace};

/// The code of answers that wait for the database.
const DATABASE_UNAVAILABLE: &str = "database-unavailable";

/// The status of a request whose client has gone away before there was an answer, as nginx has it.
pub const CLIENT_CLOSED: u16 = 499;

/// What is said of a request. Never its query, its headers or its body: they may hold anything.
pub struct AccessLine<'a> {
    pub request_id: &'a str,
    pub trace: &'a Trace,
    pub peer: IpAddr,
    pub method: &'a str,
    pub path: &'a str,
    /// The route's template; empty when there is none.
    pub route: &'a str,
    pub status: u16,
    pub took: Duration,
    pub timing: &'a RequestTiming,
    pub user: Option<&'a str>,
    pub key_id: Option<uuid::Uuid>,
    pub code: Option<&'a str>,
    pub cause: Option<&'a str>,
    /// Asked for every few seconds by some machine.
    pub is_probe: bool,
}

impl AccessLine<'_> {
    fn level(&self) -> Level {
        match (self.status, self.cause) {
            // The outage has lines of its own.
            (500.., Some(_)) if self.is_probe && self.code == Some(DATABASE_UNAVAILABLE) => Level::DEBUG,
            (500.., Some(_)) => Level::ERROR,
            // Busy, draining, starting: the host means it.
            (500.., None) if !self.is_probe => Level::WARN,
            (..400, _) if self.is_probe => Level::DEBUG,
            _ => Level::INFO,
        }
    }
}

impl Log {
    /// Writes the line, if lines of its level are written. When they are not, this costs one load.
    pub fn access(&self, access: &AccessLine<'_>) {
        let level = access.level();
        let levels = &self.0.levels;
        let writes = if level == Level::INFO { levels.writes_access() } else { levels.writes(ACCESS_TARGET, level) };
        if writes {
            with_scratch(|out| {
                let at = self.0.clock.now();
                self.write_access(out, at, level, access);
                self.0.writer.write(at, level, out.as_bytes());
            });
        }
    }

    fn write_access(&self, out: &mut String, at: time::OffsetDateTime, level: Level, access: &AccessLine<'_>) {
        let message = if level <= Level::WARN { "request failed" } else { "request" };
        let mut line = Line::begin(out, self.0.style, at, level, [ACCESS_TARGET, ""], message);
        line.text("method", access.method);
        line.text("path", access.path);
        if !access.route.is_empty() && access.route != access.path {
            line.text("route", access.route);
        }
        line.number("status", access.status);
        let RequestTiming { plugin, database, .. } = *access.timing;
        line.us("us", access.took);
        line.us("us_host", access.timing.host(access.took));
        line.us("us_plugin", plugin);
        line.us("us_db", database);
        line.some_text("user", access.user);
        if let Some(key) = &access.key_id {
            line.ascii("key_id", key.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()).as_bytes());
        }
        line.some_text("code", access.code);
        if let Some(cause) = access.cause {
            line.foreign("cause", cause); // a driver's words, or a plugin's
        }
        peer(&mut line, access.peer);
        line.ascii("request_id", access.request_id);
        line.ascii("trace_id", access.trace.id());
        line.ascii("span_id", access.trace.span());
        line.end();
    }
}

fn peer(line: &mut Line<'_>, peer: IpAddr) {
    let mut text = [0; 45]; // the longest address
    let length = {
        let mut into = std::io::Cursor::new(&mut text[..]);
        let _ = std::io::Write::write_fmt(&mut into, format_args!("{peer}"));
        usize::try_from(into.position()).unwrap_or(0)
    };
    line.ascii("peer", &text[..length]);
}
