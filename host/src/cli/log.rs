//! Where this process's log lines go: standard error, as text or JSON.

use std::io::{self, IsTerminal};

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

use crate::config::{LogFormat, Observe};

/// Lines that wait for standard error; beyond it they are dropped rather than hold requests up.
const WAITING_LINES: usize = 64 * 1024;

/// To be called once, before anything is logged.
///
/// # Errors
/// The level is no level; [`crate::config::Config::read`] has checked that.
pub fn start(observe: &Observe) -> anyhow::Result<()> {
    write_to(io::stderr, observe)
}

/// As [`start`], for a process with a line for each request: they are written by a thread of their
/// own. What waits is written when the guard is dropped.
///
/// # Errors
/// As [`start`].
pub fn start_buffered(observe: &Observe) -> anyhow::Result<WorkerGuard> {
    let (writer, guard) =
        NonBlockingBuilder::default().lossy(true).buffered_lines_limit(WAITING_LINES).finish(io::stderr());
    write_to(writer, observe)?;
    Ok(guard)
}

fn write_to<W>(writer: W, observe: &Observe) -> anyhow::Result<()>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(&observe.log_level)?;
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(io::stderr().is_terminal()).with_writer(writer);
    match observe.log_format {
        LogFormat::Text => subscriber.init(),
        LogFormat::Json => subscriber.json().flatten_event(true).init(),
    }
    Ok(())
}
