//! Log lines: human or JSON, a line an event, written by a thread of their own where requests must not wait.
//!
//! The log is tracing's one subscriber. Spans are not shown and so never made; what belongs to a request says its
//! `request_id` and `trace_id` itself. Access lines don't go through tracing at all: they are what is written most.

mod access;
pub mod channel;
mod check;
mod levels;
mod line;
mod mask;
mod subscriber;
pub mod tail;
mod targets;
mod writer;

use std::{
    io::{self, Write},
    sync::Arc,
};

use tracing::level_filters::LevelFilter;

pub use self::{
    access::{AccessLine, CLIENT_CLOSED},
    channel::LogSender,
    check::LineCheck,
    levels::{Override, TooManyOverridesError},
    writer::Flush,
};
use self::{
    levels::Levels,
    line::Style,
    tail::{Tail, Tails},
    writer::Writer,
};
use cardinal_base::{
    clock::Clock,
    config::{LogLevels, Observe},
};

/// The log of this process. Clones share it.
#[derive(Clone, Debug)]
pub struct Log(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    style: Style,
    levels: Levels,
    writer: Writer,
    tails: Tails,
    clock: Clock,
}

impl Log {
    /// Begins to log to standard error, each line before whoever wrote it goes on. To be called once.
    ///
    /// # Errors
    /// Something else has begun to log already.
    pub fn start(observe: &Observe) -> anyhow::Result<Self> {
        Self::begin(observe, Writer::direct(io::stderr()))
    }

    /// As [`start`](Self::start), for a command that tells by itself what it does: unless asked, only what goes wrong.
    ///
    /// # Errors
    /// As `start`.
    pub fn start_quiet(observe: &Observe) -> anyhow::Result<Self> {
        Self::start_unless_asked(observe, "warn")
    }

    /// As [`start_quiet`](Self::start_quiet), for a command that tells all that goes wrong by itself, too.
    ///
    /// # Errors
    /// As `start`.
    pub fn start_silent(observe: &Observe) -> anyhow::Result<Self> {
        Self::start_unless_asked(observe, "off")
    }

    fn start_unless_asked(observe: &Observe, level: &str) -> anyhow::Result<Self> {
        let is_set = observe.log_level != LogLevels::default();
        let log_level = if is_set { observe.log_level.clone() } else { level.parse().unwrap_or_default() };
        Self::start(&Observe { log_level, ..observe.clone() })
    }

    /// As [`start`](Self::start), to `out`, for a process with a line for each request: lines wait a few milliseconds
    /// and are written together. What waits is written when the second value is dropped.
    ///
    /// # Errors
    /// As `start`, or the thread can't be started.
    pub fn start_buffered(observe: &Observe, out: impl Write + Send + 'static) -> anyhow::Result<(Self, Flush)> {
        let (writer, flush) = Writer::buffered(out)?;
        Ok((Self::begin(observe, writer)?, flush))
    }

    fn begin(observe: &Observe, writer: Writer) -> anyhow::Result<Self> {
        let log = Self::new(observe, writer, Clock::System);
        tracing::subscriber::set_global_default(log.clone())?;
        Ok(log)
    }

    fn new(observe: &Observe, writer: Writer, clock: Clock) -> Self {
        let style = Style::new(observe.log_format, observe.colours);
        let levels = Levels::new(observe.log_level.clone());
        Self(Arc::new(Shared { style, levels, writer, tails: Tails::default(), clock }))
    }

    /// A log that writes nothing, for what needs one and is not asked for lines.
    pub fn silent() -> Self {
        let levels = Levels::new("off".parse().unwrap_or_default());
        let style = Style::new(cardinal_base::config::LogFormat::Json, false);
        let (writer, tails) = (Writer::direct(io::sink()), Tails::default());
        Self(Arc::new(Shared { style, levels, writer, tails, clock: Clock::System }))
    }

    /// Lines that were lost because standard error did not take them.
    pub fn dropped(&self) -> u64 {
        self.0.writer.dropped()
    }

    /// The lines of all plugins.
    pub fn tails(&self) -> &Tails {
        &self.0.tails
    }

    /// The lines of a plugin; `None` when there are too many plugins.
    pub fn tail(&self, plugin: &str) -> Option<Arc<Tail>> {
        self.0.tails.for_plugin(plugin, self.0.clock.now())
    }

    /// The levels in force and what was changed for a while.
    pub fn levels(&self) -> (String, Vec<Override>) {
        self.0.levels.report()
    }

    /// Changes the level of a module, of a plugin or (`None`) of everything, until a time; a time that has passed takes
    /// the change back.
    ///
    /// # Errors
    /// There are too many changes already.
    pub fn set_level(
        &self,
        target: Option<&str>,
        level: LevelFilter,
        until: time::OffsetDateTime,
    ) -> Result<(), TooManyOverridesError> {
        self.0.levels.set(target, level, until, self.0.clock.now())
    }

    /// Takes back the changes whose time has come; when the next one's does.
    pub fn revert_levels(&self) -> Option<time::OffsetDateTime> {
        self.0.levels.revert(self.0.clock.now())
    }

    /// Resolves when a change was made, so that somebody waits for its end.
    pub async fn level_changed(&self) {
        self.0.levels.changed().await;
    }
}
