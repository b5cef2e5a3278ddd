//! The crate `tracing`: events, and the spans that they are in.
//!
//! A line has the fields of its event and of the spans around it, the inner ones over the outer, and `spans`, the names
//! of these spans from the outermost to the innermost, joined by `:`.

use std::{
    cell::RefCell,
    collections::HashMap,
    fmt::Debug,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::{Map, Value};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span::{Attributes, Id, Record},
    subscriber::Interest,
};
use tracing_core::span::Current;

use super::{filter, write};
use crate::{
    Level,
    scope::{Origin, Scope},
};

/// Spans deeper than this are left out of a line.
const DEPTH: usize = 16;

/// Stateless: which instance a line goes to is found when it is written.
pub(super) struct Bridge;

struct Span {
    metadata: &'static Metadata<'static>,
    fields: Mutex<Map<String, Value>>,
    parent: Option<Arc<Span>>,
    /// Where it was made: lines in it go there from threads that belong to no instance.
    origin: Origin,
}

/// Spans that somebody holds, with how many do.
type Spans = HashMap<u64, (Arc<Span>, usize)>;

static SPANS: LazyLock<Mutex<Spans>> = LazyLock::new(Mutex::default);
static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The spans that this thread is in, outermost first.
    static ENTERED: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
}

fn spans() -> MutexGuard<'static, Spans> {
    SPANS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn span(id: &Id) -> Option<Arc<Span>> {
    spans().get(&id.into_u64()).map(|(span, _)| span.clone())
}

fn current() -> Option<Id> {
    ENTERED.with_borrow(|entered| entered.last().cloned())
}

fn level_of(metadata: &Metadata<'_>) -> Level {
    match *metadata.level() {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::INFO => Level::Info,
        tracing::Level::DEBUG => Level::Debug,
        tracing::Level::TRACE => Level::Trace,
    }
}

impl Subscriber for Bridge {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        filter::passes(metadata.target(), level_of(metadata) as u32)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let levels = [LevelFilter::OFF, LevelFilter::ERROR, LevelFilter::WARN, LevelFilter::INFO, LevelFilter::DEBUG];
        let most = usize::try_from(filter::most()).ok();
        Some(most.and_then(|most| levels.get(most)).copied().unwrap_or(LevelFilter::TRACE))
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let parent = match attributes.is_contextual() {
            true => current(),
            false => attributes.parent().cloned(),
        };
        let parent = parent.and_then(|id| span(&id));
        let origin = match (Scope::current(), &parent) {
            (Origin { ctx: 0, .. }, Some(parent)) => parent.origin,
            (here, _) => here,
        };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let made = Span { metadata: attributes.metadata(), fields: Mutex::new(fields.all()), parent, origin };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        spans().insert(number, (Arc::new(made), 1));
        Id::from_u64(number)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let Some(span) = span(id) else { return };
        let mut fields = Fields::default();
        values.record(&mut fields);
        span.fields.lock().unwrap_or_else(PoisonError::into_inner).extend(fields.all());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let inside = if event.is_contextual() { current() } else { event.parent().cloned() };
        let inside = inside.and_then(|id| span(&id));
        let mut own = Fields::default();
        event.record(&mut own);
        let mut fields = Map::from_iter([("target".to_owned(), event.metadata().target().into())]);
        fields.extend(around(inside.as_deref()));
        fields.extend(own.fields);
        let origin = inside.map_or_else(Origin::default, |span| span.origin);
        write(origin, level_of(event.metadata()), &own.message, fields);
    }

    fn enter(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.clone()));
    }

    fn exit(&self, id: &Id) {
        // Guards may be dropped in any order.
        ENTERED.with_borrow_mut(|entered| {
            if let Some(at) = entered.iter().rposition(|own| own == id) {
                entered.remove(at);
            }
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some((_, holders)) = spans().get_mut(&id.into_u64()) {
            *holders += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut spans = spans();
        let Some((_, holders)) = spans.get_mut(&id.into_u64()) else { return false };
        *holders -= 1;
        if *holders > 0 {
            return false;
        }
        let closed = spans.remove(&id.into_u64());
        drop(spans); // dropping a span may drop its parents
        drop(closed);
        true
    }

    fn current_span(&self) -> Current {
        let Some(id) = current() else { return Current::none() };
        match span(&id) {
            Some(span) => Current::new(id, span.metadata),
            None => Current::none(),
        }
    }
}

/// The fields of the spans around a line, an inner one's over an outer one's, and `spans`: their names, outermost
/// first.
fn around(inside: Option<&Span>) -> Map<String, Value> {
    let chain: Vec<&Span> = std::iter::successors(inside, |span| span.parent.as_deref()).take(DEPTH).collect();
    let mut fields = Map::new();
    for span in chain.iter().rev() {
        fields.extend(span.fields.lock().unwrap_or_else(PoisonError::into_inner).clone());
    }
    if !chain.is_empty() {
        let names: Vec<_> = chain.iter().rev().map(|span| span.metadata.name()).collect();
        fields.insert("spans".to_owned(), names.join(":").into());
    }
    fields
}

/// What an event or a span carries.
#[derive(Default)]
struct Fields {
    message: String,
    fields: Map<String, Value>,
}

impl Fields {
    /// The fields of a span, for which `message` is one as any other.
    fn all(self) -> Map<String, Value> {
        let mut fields = self.fields;
        if !self.message.is_empty() {
            fields.insert("message".to_owned(), self.message.into());
        }
        fields
    }

    fn set(&mut self, field: &Field, value: Value) {
        self.fields.insert(field.name().to_owned(), value);
    }

    fn text(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            _ => self.set(field, text.into()),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.text(field, crate::error::chain(value));
    }
}
