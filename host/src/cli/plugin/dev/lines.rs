//! What the plugin logs while it is developed: warnings and errors, as they happen.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::task::JoinHandle;

use super::super::{
    logs::{self, Reader},
    remote::{REGISTRY, escaped},
};
use crate::cli::{
    client::Client,
    text::{plain, print_line},
};

/// Before a host that knows no such plugin yet, or has broken off, is asked again.
const RETRY_INTERVAL: Duration = Duration::from_millis(300);
/// Of the lines that were logged before the first answer.
const PAST_LINES: u32 = 200;
/// Fields that the message has already, or that are for programs.
const LEFT_OUT: [&str; 9] = ["panic", "location", "thread", "backtrace", "during", "kind", "cause", "ms", "target"];

/// What the host says of a package, and this command says by itself: that it was edited is why it was loaded.
const SAID_ALREADY: [&str; 3] = [
    "a plugin was refused",
    "the version that was loaded before stays in service",
    "the plugin's files have changed since they were recorded",
];

/// Follows the log of one plugin beside the work; ends with its owner.
#[derive(Default)]
pub(super) struct Lines {
    following: Option<(String, JoinHandle<()>)>,
    swap: Arc<Mutex<Option<Swap>>>,
}

/// The newest swap: a version whose `routes` panics then is refused, with the panic's words and place.
struct Swap {
    begin: OffsetDateTime,
    /// None until the host has decided.
    end: Option<OffsetDateTime>,
    /// What the host found in a version that it refused. It may try the same version again.
    found: Option<String>,
}

impl Swap {
    /// Whether its refusal says this panic of `routes`.
    fn has_told(&self, at: OffsetDateTime, message: &str) -> bool {
        let panic = message.strip_prefix("panicked at ").and_then(|said| said.split_once(": "));
        let is_found = |(place, words): (&str, &str)| self.found.as_deref() == Some(&format!("{words} (at {place})"));
        at >= self.begin && (self.end.is_none_or(|end| at <= end) || panic.is_some_and(is_found))
    }
}

/// The swap ends with it, however that ends.
pub(super) struct SwapGuard(Arc<Mutex<Option<Swap>>>);

impl SwapGuard {
    /// With what the host found where it refused the version.
    pub(super) fn end(self, found: Option<&str>) {
        if let Some(swap) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            swap.found = found.map(str::to_owned);
        }
    }
}

impl Drop for SwapGuard {
    fn drop(&mut self) {
        if let Some(swap) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            swap.end = Some(OffsetDateTime::now_utc());
        }
    }
}

impl Lines {
    /// From here on this command says what becomes of a version.
    pub(super) fn begin_swap(&self) -> SwapGuard {
        let swap = Swap { begin: OffsetDateTime::now_utc(), end: None, found: None };
        *self.swap.lock().unwrap_or_else(PoisonError::into_inner) = Some(swap);
        SwapGuard(Arc::clone(&self.swap))
    }

    /// Prints what `name` logs from now on. Of another plugin than before after its name was edited.
    pub(super) fn follow(&mut self, client: &Arc<Client>, name: &str) {
        if self.following.as_ref().is_some_and(|(followed, _)| followed == name) {
            return;
        }
        self.stop();
        let (client, begin) = (Arc::clone(client), OffsetDateTime::now_utc());
        let path = format!("{REGISTRY}/{}/logs?level=warn&limit={PAST_LINES}", escaped(name));
        let printer = Printer { begin, panicked: None, swap: Arc::clone(&self.swap) };
        let task = tokio::spawn(async move { print_lines(&client, &path, printer).await });
        self.following = Some((name.to_owned(), task));
    }

    pub(super) fn stop(&mut self) {
        if let Some((_, task)) = self.following.take() {
            task.abort();
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Never ends by itself. What cannot be printed now is in the log all the same.
async fn print_lines(client: &Client, path: &str, mut printer: Printer) {
    let mut reader = Reader::default();
    loop {
        let _ = reader.read(client, path, |line| printer.shown(line).map_or(Ok(()), |text| print_line(&text))).await;
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

struct Printer {
    begin: OffsetDateTime,
    /// The request of the last panic.
    panicked: Option<String>,
    swap: Arc<Mutex<Option<Swap>>>,
}

impl Printer {
    /// A line as it is printed; none for one that says nothing new.
    fn shown(&mut self, line: &Value) -> Option<String> {
        let at = line["at"].as_str().and_then(|at| OffsetDateTime::parse(at, &Rfc3339).ok());
        // What a host that was there before has kept.
        if at.is_some_and(|at| at < self.begin) {
            return None;
        }
        let request = line["request_id"].as_str().map(str::to_owned);
        let (fields, is_panic) = (&line["fields"], line["fields"]["panic"] == true);
        // The panic's own line has the place; the host's line on the call that it ended adds nothing.
        if line["source"] == "host" && fields["kind"] == "panic" && request.is_some() && request == self.panicked {
            return None;
        }
        let message = line["message"].as_str().unwrap_or_default();
        if line["source"] == "host" && SAID_ALREADY.contains(&message) {
            return None;
        }
        if is_panic && fields["during"] == "routes" && at.is_some_and(|at| self.has_swap_told(at, message)) {
            return None;
        }
        if is_panic {
            self.panicked = request;
        }
        let mut shown = logs::head(line);
        let fields = fields.as_object().into_iter().flatten().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()));
        for (name, value) in fields {
            shown.push_str(&format!("  {}={}", plain(name), plain(&value.to_string())));
        }
        Some(shown)
    }

    fn has_swap_told(&self, at: OffsetDateTime, message: &str) -> bool {
        let swap = self.swap.lock().unwrap_or_else(PoisonError::into_inner);
        swap.as_ref().is_some_and(|swap| swap.has_told(at, message))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(at: &str, source: &str, message: &str, fields: &Value) -> Value {
        json!({"at": at, "level": "error", "source": source, "message": message, "fields": fields, "request_id": "r"})
    }

    #[test]
    fn a_panic_is_told_once_and_what_is_older_not_at_all() {
        let begin = OffsetDateTime::parse("2026-01-01T12:00:00Z", &Rfc3339).unwrap();
        let mut printer = Printer { begin, panicked: None, swap: Arc::default() };
        let (before, now) = ("2026-01-01T11:59:59.9Z", "2026-01-01T12:00:00.5Z");
        assert_eq!(printer.shown(&line(before, "plugin", "old", &json!({}))), None);
        let panic = json!({"panic": true, "location": "src/a.rs:1:2", "backtrace": ["0x1"], "thread": null});
        let shown = printer.shown(&line(now, "plugin", "panicked at src/a.rs:1:2: no", &panic)).unwrap();
        assert_eq!(shown, "12:00:00 ERROR panicked at src/a.rs:1:2: no");
        let ended = json!({"handler": "GET /a", "kind": "panic", "cause": "plugin", "ms": 1});
        assert_eq!(printer.shown(&line(now, "host", "a call failed: panic: no", &ended)), None);
        for said in SAID_ALREADY {
            let refused = line(now, "host", said, &json!({"refusal": "route-missing"}));
            assert_eq!(printer.shown(&refused), None, "this command says why by itself");
            let own = line(now, "plugin", said, &json!({}));
            assert!(printer.shown(&own).is_some(), "the plugin's own words are its author's");
        }
        let failed = json!({"handler": "GET /a", "kind": "error", "cause": "plugin", "ms": 1});
        let shown = printer.shown(&line(now, "host", "a call failed: error: no disk (at src/a.rs:3:4)", &failed));
        let expected = "12:00:00 ERROR a call failed: error: no disk (at src/a.rs:3:4)  (host)  handler=\"GET /a\"";
        assert_eq!(shown.as_deref(), Some(expected));
    }

    #[test]
    fn a_swap_that_comes_to_nothing_has_ended() {
        let lines = Lines::default();
        drop(lines.begin_swap());
        assert!(lines.swap.lock().unwrap().as_ref().unwrap().end.is_some());
        lines.begin_swap().end(Some("no"));
        let swap = lines.swap.lock().unwrap();
        assert!(swap.as_ref().is_some_and(|swap| swap.end.is_some() && swap.found.as_deref() == Some("no")));
    }

    #[test]
    fn a_panic_in_routes_is_told_by_the_refusal_of_the_swap_that_it_ends() {
        let at = |text: &str| OffsetDateTime::parse(text, &Rfc3339).unwrap();
        let mut printer = Printer { begin: at("2026-01-01T12:00:00Z"), panicked: None, swap: Arc::default() };
        let panic = json!({"panic": true, "location": "src/a.rs:1:2", "during": "routes"});
        let line = |time: &str, fields: &Value| line(time, "plugin", "panicked at src/a.rs:1:2: no", fields);
        let begin = at("2026-01-01T12:00:01Z");
        let (within, later) = ("2026-01-01T12:00:01.5Z", "2026-01-01T12:00:03Z");
        assert!(printer.shown(&line(within, &panic)).is_some(), "it is the host's own affair, as after a setting");
        *printer.swap.lock().unwrap() = Some(Swap { begin, end: None, found: None });
        assert_eq!(printer.shown(&line(within, &panic)), None);
        let end = Some(at("2026-01-01T12:00:02Z"));
        *printer.swap.lock().unwrap() = Some(Swap { begin, end, found: Some("no (at src/a.rs:1:2)".to_owned()) });
        assert_eq!(printer.shown(&line(within, &panic)), None, "it is read late");
        assert_eq!(printer.shown(&line(later, &panic)), None, "the host tries the version again");
        *printer.swap.lock().unwrap() =
            Some(Swap { begin, end, found: Some("other words (at src/a.rs:1:2)".to_owned()) });
        let shown = printer.shown(&line(later, &panic));
        assert_eq!(shown.as_deref(), Some("12:00:03 ERROR panicked at src/a.rs:1:2: no"));
        assert!(printer.shown(&line(within, &json!({"panic": true}))).is_some(), "a task panics meanwhile");
    }
}
