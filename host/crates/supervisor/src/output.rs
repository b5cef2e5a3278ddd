//! What a worker writes, on its way to the supervisor's standard error. The worker has neither that descriptor (as a
//! file it could be cut short, as a terminal it could be read) nor the terminal behind it.
//!
//! There are two ways. One is the worker's log (`worker_log.rs`). The other is a pipe, its standard output and error,
//! where nothing but a plugin's native code and the runtime's last words appear: their lines become lines of the
//! supervisor's log, and a flood is dropped and counted. Both are read to their end whatever happens, so that no code
//! in the worker waits for a reader.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::{
    lines::{Bucket, Lines, Rate},
    worker_log,
};
use cardinal_base::config::Observe;
use cardinal_observe::log::{LineCheck, channel};

/// Of standard output and error together.
const RATE: Rate = Rate { burst: 200.0, per_second: 50.0 };
const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// What is asked for; the kernel may give less.
const PIPE_BYTES: usize = 1 << 20;
/// What a worker that has ended still had in its pipes is there by then. A process that a plugin left behind may hold
/// them open for ever.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(1);

/// The readers of one worker's pipes.
#[derive(Debug)]
pub(crate) struct Output {
    log: Option<oneshot::Receiver<()>>,
    printed: Option<JoinHandle<()>>,
}

/// The worker's ends.
#[derive(Debug)]
pub(crate) struct Ends {
    pub log: OwnedFd,
    pub stdout: Stdio,
    pub stderr: Stdio,
}

impl Output {
    /// Begins to read.
    ///
    /// # Errors
    /// The system has no sockets, pipes or threads left.
    pub(crate) fn start(observe: &Observe) -> io::Result<(Self, Ends)> {
        let (log_reader, log_writer) = channel::channel()?;
        let check = LineCheck::new(observe);
        let (printed_reader, printed_writer) = pipe_pair()?;
        let (done, log) = oneshot::channel();
        // A thread, because standard error may make it wait.
        std::thread::Builder::new().name("worker-log".to_owned()).spawn(move || {
            if let Err(error) = worker_log::pass_on(&log_reader, io::stderr, check) {
                tracing::error!(%error, "the worker's log cannot be read");
            }
            let _ = done.send(());
        })?;
        let printed = pipe::Receiver::from_owned_fd(printed_reader.into())?;
        let printed = tokio::spawn(log_lines(Lines::new(printed)));
        let stdout = Stdio::from(printed_writer.try_clone()?);
        let ends = Ends { log: log_writer, stdout, stderr: Stdio::from(printed_writer) };
        Ok((Self { log: Some(log), printed: Some(printed) }, ends))
    }

    /// Resolves, once, when the worker has closed its log.
    pub(crate) async fn log_closed(&mut self) {
        let Some(log) = &mut self.log else { return std::future::pending().await };
        let _ = log.await;
        self.log = None;
    }

    /// Waits until the last lines of a worker that has ended are written.
    pub(crate) async fn finish(&mut self) {
        let (log, printed) = (self.log.take(), self.printed.take());
        let log = async {
            if let Some(log) = log {
                let _ = log.await;
            }
        };
        let printed = async {
            if let Some(printed) = printed {
                let _ = printed.await;
            }
        };
        let both = async { tokio::join!(log, printed) };
        if tokio::time::timeout(LAST_LINES_TIMEOUT, both).await.is_err() {
            tracing::debug!("something still holds the output of a worker that has ended");
        }
    }
}

fn pipe_pair() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    if let Err(error) = rustix::pipe::fcntl_setpipe_size(&writer, PIPE_BYTES) {
        tracing::debug!(%error, "a pipe keeps its size");
    }
    Ok((reader, writer))
}

async fn log_lines(mut lines: Lines<pipe::Receiver>) {
    let mut bucket = Bucket::new(RATE, Instant::now());
    let mut report = tokio::time::interval(REPORT_INTERVAL);
    loop {
        tokio::select! {
            line = lines.next() => {
                let Some(line) = line else { break };
                if !line.is_empty() && bucket.admit(Instant::now()) {
                    tracing::warn!(target: "worker", "{line}");
                }
            }
            _ = report.tick() => report_dropped(&mut bucket),
        }
    }
    report_dropped(&mut bucket);
}

fn report_dropped(bucket: &mut Bucket) {
    let lines = bucket.take_dropped();
    if lines > 0 {
        tracing::warn!(target: "worker", lines, "the worker printed more than is kept; lines were dropped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cardinal_base::config::{LogFormat, LogLevels};

    #[tokio::test]
    async fn a_flood_does_not_wait_for_a_reader() {
        let observe = Observe {
            log_format: LogFormat::Json,
            colours: false,
            log_level: LogLevels::default(),
            metrics_addr: None,
            otlp_endpoint: None,
        };
        let (mut output, ends) = Output::start(&observe).unwrap();
        drop(ends.log);
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", "yes '\u{1b}[2J' | head -c 20000000; yes | head -c 20000000 >&2"]);
        let mut child = command.stdout(ends.stdout).stderr(ends.stderr).spawn().unwrap();
        drop(command);
        let ended = tokio::task::spawn_blocking(move || child.wait().unwrap());
        assert!(tokio::time::timeout(Duration::from_secs(60), ended).await.unwrap().unwrap().success());
        let printed = output.printed.take().unwrap();
        assert!(tokio::time::timeout(Duration::from_secs(60), printed).await.unwrap().is_ok());
    }
}
