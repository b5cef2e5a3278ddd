use std::time::Duration;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use http::{HeaderValue, Request, header};
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::remote::{REGISTRY, block_on, escaped};
use crate::cli::{
    client::{
        Client, empty,
        events::{Event, Events},
        query,
    },
    text::{plain, print_line},
};
use cardinal_base::config::ClientSettings;

/// Before a stream that has ended is asked for again: the host's worker starts anew in about a second.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of one event; a line has at most a few KiB.
const EVENT_LIMIT: usize = 1 << 20;

/// Show what a plugin has logged, the newest line last
///
/// Of the host that answers: each keeps the last lines of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cardinal plugin logs notes
  cardinal plugin logs notes -f --level warn
  cardinal plugin logs notes --json | jq -r .message")]
pub(super) struct Args {
    /// Name of the plugin
    name: String,
    /// Follow new lines
    #[arg(long, short)]
    follow: bool,
    /// Number of past lines to show
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=200))]
    lines: u32,
    /// Minimum level
    #[arg(long, value_name = "LEVEL", default_value = "trace")]
    #[arg(value_parser = PossibleValuesParser::new(["error", "warn", "info", "debug", "trace"]))]
    level: String,
    /// Print each line as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    host: ClientSettings,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    block_on(async {
        let client = Client::new(&args.host.read()?)?;
        let lines = args.lines.to_string();
        let query = query(&[("level", Some(&args.level)), ("limit", Some(&lines))]);
        let path = format!("{REGISTRY}/{}/logs{query}", escaped(&args.name));
        if args.follow {
            return follow(args, &client, &path).await;
        }
        let page = client.get(&path).await?;
        page["items"].as_array().into_iter().flatten().rev().try_for_each(|line| print(args, line))
    })
}

/// Until the host is gone.
async fn follow(args: &Args, client: &Client, path: &str) -> anyhow::Result<()> {
    let mut reader = Reader::default();
    loop {
        reader.read(client, path, |line| print(args, line)).await?;
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Reads lines as they come, and each of them once, over as many streams as that takes.
#[derive(Default)]
pub(super) struct Reader {
    last_id: Option<String>,
}

impl Reader {
    /// Gives `take` each line until the stream ends.
    pub(super) async fn read(
        &mut self,
        client: &Client,
        path: &str,
        mut take: impl FnMut(&Value) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut request = Request::new(empty());
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(id) = &self.last_id {
            request.headers_mut().insert("last-event-id", HeaderValue::from_str(id).context("the line's number")?);
        }
        let mut body = client.send(path, request).await?.into_body();
        let mut events = Events::after(self.last_id.clone(), EVENT_LIMIT);
        while let Some(Ok(frame)) = body.frame().await {
            let read = events.take(frame.data_ref().map_or(&[][..], |data| data));
            let read = read.context("the host's answer is not an event stream")?;
            read.iter().filter_map(line_in).try_for_each(|line| take(&line))?;
            self.last_id.clone_from(&events.last_id);
        }
        Ok(())
    }
}

/// The line of an event that is one.
fn line_in(event: &Event) -> Option<Value> {
    (event.name == "line").then(|| serde_json::from_str(&event.data).ok()).flatten()
}

fn print(args: &Args, line: &Value) -> anyhow::Result<()> {
    let text = if args.json { line.to_string() } else { shown(line) };
    print_line(&text)
}

fn shown(line: &Value) -> String {
    let mut shown = beginning(line["at"].as_str().unwrap_or_default(), line);
    for (name, value) in line["fields"].as_object().into_iter().flatten() {
        shown.push_str(&format!("  {}={}", plain(name), plain(&value.to_string())));
    }
    if let Some(request) = line["request_id"].as_str() {
        shown.push_str(&format!("  request={}", plain(request)));
    }
    shown
}

fn beginning(at: &str, line: &Value) -> String {
    let text = |name: &str| plain(line[name].as_str().unwrap_or_default());
    let mut shown = format!("{} {:<5} {}", plain(at), text("level").to_uppercase(), text("message"));
    if line["source"] != "plugin" {
        shown.push_str(&format!("  ({})", text("source")));
    }
    shown
}

/// The beginning of a line that is shown as it comes: the time of the day is enough.
pub(super) fn head(line: &Value) -> String {
    let at = line["at"].as_str().unwrap_or_default();
    let (_, time) = at.split_once('T').unwrap_or(("", at));
    beginning(time.get(..8).unwrap_or(time), line)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_that_are_lines_are_read_and_others_left_out() {
        let mut events = Events::after(None, EVENT_LIMIT);
        let mut lines =
            |text: &str| -> Vec<Value> { events.take(text.as_bytes()).unwrap().iter().filter_map(line_in).collect() };
        let event = "id: 7\nevent: line\ndata: {\"message\": \"a: b\"}\n\n";
        assert_eq!(lines(event), [json!({"message": "a: b"})]);
        assert!(lines(": a sign of life\n\n").is_empty());
        assert!(lines("event: line\ndata: no JSON\n\n").is_empty());
        assert_eq!(events.last_id.as_deref(), Some("7"));
    }

    #[test]
    fn a_line_is_shown_with_all_that_finds_it_again() {
        let line = json!({"at": "2026-01-01T00:00:00Z", "level": "warn", "source": "host", "message": "a\u{7}",
            "fields": {"n": 1}, "request_id": "r1"});
        assert_eq!(shown(&line), "2026-01-01T00:00:00Z WARN  a\\u{7}  (host)  n=1  request=r1");
    }
}
