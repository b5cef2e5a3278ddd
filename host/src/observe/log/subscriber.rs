//! Events of the code, as tracing hands them over.

use std::{
    cell::Cell,
    fmt::{self, Write as _},
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
    subscriber::Interest,
};

use super::{Log, levels::PLUGIN_TARGET, line::Line};

/// Room for a line that a thread keeps; what a very long one took is given back.
const SCRATCH_KEPT: usize = 64 << 10;

/// Runs `write` with an empty text to write a line into, without an allocation as a rule.
pub fn with_scratch(write: impl FnOnce(&mut String)) {
    thread_local! {
        static SCRATCH: Cell<String> = const { Cell::new(String::new()) };
    }
    // Taken out while it is in use: a value's own Debug may log, too.
    let mut scratch = SCRATCH.try_with(Cell::take).unwrap_or_default();
    scratch.clear();
    write(&mut scratch);
    if scratch.capacity() <= SCRATCH_KEPT {
        let _ = SCRATCH.try_with(|kept| kept.set(scratch));
    }
}

impl Subscriber for Log {
    fn register_callsite(&self, place: &'static Metadata<'static>) -> Interest {
        if self.enabled(place) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0.levels.most())
    }

    fn enabled(&self, place: &Metadata<'_>) -> bool {
        place.is_event() && self.0.levels.may_write(place)
    }

    fn event(&self, event: &Event<'_>) {
        let place = event.metadata();
        let mut first = Known::default();
        event.record(&mut first);
        let target = match (place.target(), first.plugin.as_str()) {
            (PLUGIN_TARGET, name) if !name.is_empty() => {
                if !self.0.levels.writes(&format!("{PLUGIN_TARGET}::{name}"), *place.level()) {
                    return;
                }
                ["plugin::", name]
            }
            (target, _) => [target, ""],
        };
        with_scratch(|out| {
            let at = self.0.clock.now();
            let mut line = Line::begin(out, self.0.style, at, *place.level(), target, &first.message);
            event.record(&mut Fields(&mut line));
            line.end();
            self.0.writer.write(at, *place.level(), out.as_bytes());
        });
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
/// A plugin's own fields, as JSON.
const PLUGIN_FIELDS: &str = "fields";

/// What stands at the beginning of a line.
#[derive(Default)]
struct Known {
    message: String,
    plugin: String,
}

impl Visit for Known {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            MESSAGE => value.clone_into(&mut self.message),
            "plugin" => value.clone_into(&mut self.plugin),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == MESSAGE {
            let _ = write!(self.message, "{value:?}");
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
            name => self.0.text(name, value),
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
            self.0.text(field.name(), &format!("{value:?}"));
        }
    }
}
