//! Events of the code, as tracing hands them over.

use std::{
    cell::Cell,
    fmt::{self, Write as _},
};

use serde_json::{Map, Value};
use time::OffsetDateTime;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
    subscriber::Interest,
};

use super::{
    Log,
    line::Line,
    mask::mask,
    tail::{Source, TailEntry},
    targets::{self, PLUGIN_TARGET},
};

/// Room for a line that a thread keeps; what a very long one took is given back.
const MAX_SCRATCH_KEPT: usize = 64 << 10;

/// Runs `write` with an empty text to write a line into, without an allocation as a rule.
pub(super) fn with_scratch(write: impl FnOnce(&mut String)) {
    thread_local! {
        static SCRATCH: Cell<String> = const { Cell::new(String::new()) };
    }
    // Taken out while it is in use: a value's own Debug may log, too.
    let mut scratch = SCRATCH.try_with(Cell::take).unwrap_or_default();
    scratch.clear();
    write(&mut scratch);
    if scratch.capacity() <= MAX_SCRATCH_KEPT {
        let _ = SCRATCH.try_with(|kept| kept.set(scratch));
    }
}

impl Subscriber for Log {
    fn register_callsite(&self, place: &'static Metadata<'static>) -> Interest {
        if self.enabled(place) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0.levels.max_level())
    }

    fn enabled(&self, place: &Metadata<'_>) -> bool {
        place.is_event() && self.0.levels.may_write(place)
    }

    fn event(&self, event: &Event<'_>) {
        let (place, at) = (event.metadata(), self.0.clock.now());
        let mut first = LineFields::default();
        event.record(&mut first);
        let is_own = place.target() == PLUGIN_TARGET && !first.plugin.is_empty();
        if is_own && !self.0.levels.writes(&format!("{PLUGIN_TARGET}::{}", first.plugin), *place.level()) {
            return;
        }
        let tail = if first.plugin.is_empty() { None } else { self.0.tails.for_plugin(&first.plugin, at) };
        let size = first.message.len() + first.fields.len();
        if let Some(tail) = tail.as_ref().filter(|_| is_own)
            && !self.0.tails.admits(tail, at, size)
        {
            return;
        }
        let message = mask(&first.message);
        with_scratch(|out| {
            let target = if is_own { ["plugin::", &first.plugin] } else { targets::parts(place.target()) };
            let mut line = Line::begin(out, self.0.style, at, *place.level(), target, &message);
            event.record(&mut Fields(&mut line));
            line.end();
            self.0.writer.write(at, *place.level(), out.as_bytes());
        });
        if let Some(tail) = tail {
            let source = if is_own { Source::Plugin } else { Source::Host };
            let mut kept = EventFields { source, fields: first.own_fields(), ..EventFields::default() };
            event.record(&mut kept);
            tail.add(&kept.entry(at, *place.level(), &message));
        }
    }

    // Spans are never enabled, so that nothing is made of them.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

const MESSAGE: &str = "message";
const PLUGIN: &str = "plugin";
/// Who says it, when that is not the host.
const SOURCE: &str = "source";
/// A plugin's own fields, as JSON.
const PLUGIN_FIELDS: &str = "fields";

/// What stands at the beginning of a line.
#[derive(Default)]
struct LineFields {
    message: String,
    plugin: String,
    fields: String,
}

impl LineFields {
    /// The plugin's own fields; what is no object stays a text.
    fn own_fields(&self) -> Map<String, Value> {
        let as_text = || Map::from_iter([(PLUGIN_FIELDS.to_owned(), Value::from(self.fields.as_str()))]);
        if self.fields.is_empty() {
            Map::new()
        } else {
            serde_json::from_str(&self.fields).unwrap_or_else(|_| as_text())
        }
    }
}

impl Visit for LineFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            MESSAGE => value.clone_into(&mut self.message),
            PLUGIN => value.clone_into(&mut self.plugin),
            PLUGIN_FIELDS => value.clone_into(&mut self.fields),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == MESSAGE {
            let _ = write!(self.message, "{value:?}");
        }
    }
}

/// Everything else, for the plugin's readers.
struct EventFields {
    source: Source,
    fields: Map<String, Value>,
    request_id: Option<String>,
    trace_id: Option<String>,
}

impl Default for EventFields {
    fn default() -> Self {
        Self { source: Source::Host, fields: Map::new(), request_id: None, trace_id: None }
    }
}

impl EventFields {
    fn entry<'a>(&'a self, at: OffsetDateTime, level: Level, message: &'a str) -> TailEntry<'a> {
        let (request_id, trace_id) = (self.request_id.as_deref(), self.trace_id.as_deref());
        TailEntry { at, level, source: self.source, message, fields: self.fields.clone(), request_id, trace_id }
    }

    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.fields.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for EventFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            MESSAGE | PLUGIN | PLUGIN_FIELDS | "span_id" => {}
            "request_id" => self.request_id = Some(value.to_owned()),
            "trace_id" => self.trace_id = Some(value.to_owned()),
            SOURCE if value == Source::Browser.name() => self.source = Source::Browser,
            _ => self.put(field, value),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != MESSAGE {
            self.put(field, format!("{value:?}"));
        }
    }
}

/// Everything else.
struct Fields<'l, 'b>(&'l mut Line<'b>);

impl Visit for Fields<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            MESSAGE => {}
            PLUGIN_FIELDS => self.0.json(PLUGIN_FIELDS, value),
            name => self.0.foreign(name, value),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.number(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.number(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.number(field.name(), value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no other floating point numbers than finite ones.
        if value.is_finite() { self.0.number(field.name(), value) } else { self.record_debug(field, &value) }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != MESSAGE {
            self.0.foreign(field.name(), &format!("{value:?}"));
        }
    }
}
