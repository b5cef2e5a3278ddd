//! The worker's log on its way to the supervisor's standard error. A plugin's native code has the worker's end, too, so
//! only whole lines with the shape of a log line go on, each marked as the worker's. Everything else is dropped and
//! counted: rubbish, what is too long, and what is more than a host can have to say.

use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg, sockopt};

use crate::lines::{Bucket, Rate};
use cardinal_observe::log::{
    LineCheck,
    channel::{BEGINS, CONTINUES, MESSAGE_BYTES},
};

const PROCESS: &str = "worker";
/// A longer line is none.
const MAX_LINE_BYTES: usize = 1 << 20;
/// Tokens of the bucket are KiB of lines begun, mostly one a line. A core answers fewer requests than that.
const TOKENS_PER_CORE: u32 = 100_000;
const TOKEN_BYTES: usize = 1 << 10;
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Reads until the last writer has ended, and waits for `to` as long as it takes.
///
/// # Errors
/// The descriptor is no socket.
pub(crate) fn pass_on<W: Write>(from: &OwnedFd, to: impl Fn() -> W, check: LineCheck) -> io::Result<()> {
    sockopt::set_socket_timeout(from, sockopt::Timeout::Recv, Some(REPORT_INTERVAL))?;
    let mut log = WorkerLog::new(check, rate(), Instant::now());
    let mut reported = Instant::now();
    // One more than a message has, by which a longer one is known.
    let mut message = vec![0; MESSAGE_BYTES + 2];
    loop {
        match receive(from, &mut message) {
            Ok(Some(length)) => log.take(&message[..length], Instant::now()),
            Ok(None) => break,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // A closed standard error is no reason to let the worker wait.
        let _ = to().write_all(&log.passed);
        log.passed.clear();
        if reported.elapsed() >= REPORT_INTERVAL {
            reported = Instant::now();
            log.report();
        }
    }
    log.report();
    Ok(())
}

/// The length of the next message; `None` at the end. Descriptors that come with one are closed.
fn receive(from: &OwnedFd, message: &mut [u8]) -> rustix::io::Result<Option<usize>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(from, &mut [IoSliceMut::new(message)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    // Also an empty message has a sender.
    let is_message = received.bytes > 0 || ancillary.drain().next().is_some();
    Ok(is_message.then_some(received.bytes))
}

fn rate() -> Rate {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let per_second = f64::from(TOKENS_PER_CORE) * cores as f64;
    Rate { burst: per_second, per_second }
}

struct WorkerLog {
    check: LineCheck,
    bucket: Bucket,
    /// The beginning of a line whose end comes with a later message.
    partial_line: Vec<u8>,
    is_within_line: bool,
    /// Lines for standard error.
    passed: Vec<u8>,
    /// Lines and messages that were none of the log.
    refused: u64,
}

impl WorkerLog {
    fn new(check: LineCheck, rate: Rate, now: Instant) -> Self {
        Self {
            check,
            bucket: Bucket::new(rate, now),
            partial_line: Vec::new(),
            is_within_line: false,
            passed: Vec::new(),
            refused: 0,
        }
    }

    fn take(&mut self, message: &[u8], now: Instant) {
        match message.split_first() {
            Some((_, lines)) if lines.len() > MESSAGE_BYTES => self.refused += 1,
            Some((&BEGINS, lines)) => {
                if std::mem::take(&mut self.is_within_line) {
                    self.refused += 1;
                    self.partial_line.clear();
                }
                self.split(lines, now);
            }
            Some((&CONTINUES, lines)) if self.is_within_line => self.split(lines, now),
            _ => self.refused += 1,
        }
    }

    fn split(&mut self, lines: &[u8], now: Instant) {
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            match line.strip_suffix(b"\n") {
                Some(line) if self.is_within_line => {
                    self.begin(line);
                    let whole = std::mem::take(&mut self.partial_line);
                    self.is_within_line = false;
                    self.line(&whole, now);
                }
                Some(line) => self.line(line, now),
                None => self.begin(line),
            }
        }
    }

    /// Of a line that is too long only so much is kept that it stays too long.
    fn begin(&mut self, part: &[u8]) {
        self.is_within_line = true;
        let room = (MAX_LINE_BYTES + 1).saturating_sub(self.partial_line.len());
        self.partial_line.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn line(&mut self, line: &[u8], now: Instant) {
        let before = self.passed.len();
        if line.len() > MAX_LINE_BYTES || !self.check.append(line, PROCESS, &mut self.passed) {
            self.refused += 1;
        } else if !self.bucket.admit_many(1 + line.len() / TOKEN_BYTES, now) {
            self.passed.truncate(before);
        }
    }

    fn report(&mut self) {
        let (refused, too_many) = (std::mem::take(&mut self.refused), self.bucket.take_dropped());
        if refused > 0 {
            tracing::warn!(
                target: PROCESS,
                lines = refused,
                "dropped lines that are not the host's: a plugin's native code writes to its log"
            );
        }
        if too_many > 0 {
            tracing::warn!(target: PROCESS, lines = too_many, "the worker logged more than is kept; lines were dropped");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use rustix::net::{SendFlags, send};

    use super::*;
    use cardinal_base::config::{LogFormat, LogLevels, Observe};
    use cardinal_observe::log::{LogSender, channel};

    #[derive(Clone, Default)]
    struct LogCapture(Arc<Mutex<Vec<u8>>>);

    impl Write for LogCapture {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn check() -> LineCheck {
        let log_level = LogLevels::default();
        let log_format = LogFormat::Json;
        LineCheck::new(&Observe { log_format, colours: false, log_level, metrics_addr: None, otlp_endpoint: None })
    }

    fn line(message: &str) -> String {
        let (time, level) = ("2026-11-21T07:05:09.000123Z", "INFO");
        format!(r#"{{"timestamp":"{time}","level":"{level}","target":"cardinal::access","message":"{message}"}}"#)
    }

    /// What gets through of all that `write` does with the worker's end.
    fn passed(write: impl FnOnce(OwnedFd) + Send + 'static) -> Vec<serde_json::Value> {
        let (reader, writer) = channel::channel().unwrap();
        let writing = std::thread::spawn(|| write(writer));
        let written = LogCapture::default();
        pass_on(&reader, || written.clone(), check()).unwrap();
        writing.join().unwrap();
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn lines_arrive_whole_however_long_and_marked() {
        let messages: Vec<String> = [10, MESSAGE_BYTES, 10, 5 * MESSAGE_BYTES, 10].map(|n| "m".repeat(n)).into();
        let text: String = messages.iter().map(|message| line(message) + "\n").collect();
        let passed = passed(move |writer| LogSender::new(writer).write_all(text.as_bytes()).unwrap());
        assert_eq!(passed.len(), messages.len());
        for (passed, message) in passed.iter().zip(&messages) {
            assert_eq!((passed["message"].as_str(), passed["process"].as_str()), (Some(&**message), Some("worker")));
        }
    }

    #[test]
    fn native_code_loses_its_own_lines_alone() {
        let own = |n: usize| line(&format!("own {n}")) + "\n";
        let passed = passed(move |writer| {
            let foreign = writer.try_clone().unwrap();
            let raw = |bytes: &[u8]| assert_eq!(send(&foreign, bytes, SendFlags::empty()), Ok(bytes.len()));
            let mut log = LogSender::new(writer);
            let mut write = |text: &str| log.write_all(text.as_bytes()).unwrap();
            write(&own(0));
            raw(b"");
            raw(b"rubbish\n\n\n");
            raw(&[0; 4096]);
            write(&own(1));
            raw(b"Lhalf a line");
            write(&own(2));
            raw(b"+the rest of nothing\n");
            for _ in 0..100 {
                raw(&[b'+'; 60_000]);
            }
            write(&own(3));
            raw(b"L");
            for _ in 0..40 {
                raw(&[b'+'; 60_000]);
            }
            write(&own(4));
            rustix::io::ioctl_fionbio(&foreign, true).unwrap();
            for n in 5..2_000 {
                write(&own(n));
            }
        });
        let messages: Vec<&str> = passed.iter().filter_map(|line| line["message"].as_str()).collect();
        let wanted: Vec<String> = (0..2_000).map(|n| format!("own {n}")).collect();
        assert_eq!(messages, wanted);
    }

    #[test]
    fn a_small_buffer_is_made_large_again() {
        let text: String = (0..1_000).map(|n| line(&format!("own {n}")) + "\n").collect();
        let passed = passed(move |writer| {
            sockopt::set_socket_send_buffer_size(&writer, 1).unwrap();
            LogSender::new(writer).write_all(text.as_bytes()).unwrap();
        });
        assert_eq!(passed.len(), 1_000);
    }

    #[test]
    fn a_flood_of_good_lines_is_bounded() {
        let start = Instant::now();
        let mut log = WorkerLog::new(check(), Rate { burst: 10.0, per_second: 10.0 }, start);
        log.take(&[b"L", (line("x") + "\n").repeat(400).as_bytes()].concat(), start);
        assert_eq!(log.passed.iter().filter(|byte| **byte == b'\n').count(), 10);
        assert_eq!((log.bucket.take_dropped(), log.refused), (390, 0));
        log.take(
            &[b"L", (line(&"x".repeat(5 * TOKEN_BYTES)) + "\n").as_bytes()].concat(),
            start + REPORT_INTERVAL / 10,
        );
        assert_eq!(log.bucket.take_dropped(), 1, "a long line counts as several");
    }
}
