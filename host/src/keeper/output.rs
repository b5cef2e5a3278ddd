//! What a worker writes, on its way to the keeper's standard error. The worker has neither that descriptor (as a file it
//! could be cut short, as a terminal it could be read) nor the terminal behind it.
//!
//! There are two pipes. One is the worker's log, which goes on as it is but for control characters. The other is its
//! standard output and error, where nothing but a plugin's native code and the runtime's last words appear: their lines
//! become lines of the keeper's log, and a flood is dropped and counted. Both are read to their end whatever happens, so
//! that nobody in the worker waits for a reader.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::lines::{Bucket, Lines, Rate};

/// Of standard output and error together.
const RATE: Rate = Rate { burst: 200.0, per_second: 50.0 };
const REPORT_EVERY: Duration = Duration::from_secs(5);
/// What is asked for; the kernel may give less.
const PIPE_BYTES: usize = 1 << 20;
const CHUNK_BYTES: usize = 64 << 10;
/// A longer line of the log is broken.
const MAX_LOG_LINE_BYTES: usize = 1 << 20;
/// What a worker that has ended still had in its pipes is there by then. A process that a plugin left behind may hold
/// them open for ever.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(1);

/// The readers of one worker's pipes.
#[derive(Debug)]
pub struct Output {
    log: Option<oneshot::Receiver<()>>,
    printed: Option<JoinHandle<()>>,
}

/// The worker's ends.
#[derive(Debug)]
pub struct Ends {
    pub log: OwnedFd,
    pub stdout: Stdio,
    pub stderr: Stdio,
}

impl Output {
    /// Begins to read. `colours` are let through to a terminal.
    ///
    /// # Errors
    /// The system has no pipes or threads left.
    pub fn start(colours: bool) -> io::Result<(Self, Ends)> {
        let (log_reader, log_writer) = pipe_pair()?;
        let (printed_reader, printed_writer) = pipe_pair()?;
        let (done, log) = oneshot::channel();
        // A thread, because standard error may make it wait.
        std::thread::Builder::new().name("worker-log".to_owned()).spawn(move || {
            pass_on(log_reader, io::stderr, colours);
            let _ = done.send(());
        })?;
        let printed = pipe::Receiver::from_owned_fd(printed_reader.into())?;
        let printed = tokio::spawn(log_lines(Lines::new(printed)));
        let stdout = Stdio::from(printed_writer.try_clone()?);
        let ends = Ends { log: log_writer.into(), stdout, stderr: Stdio::from(printed_writer) };
        Ok((Self { log: Some(log), printed: Some(printed) }, ends))
    }

    /// Waits until the last lines of a worker that has ended are written.
    pub async fn finish(&mut self) {
        let (Some(log), Some(printed)) = (self.log.take(), self.printed.take()) else { return };
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
    let mut report = tokio::time::interval(REPORT_EVERY);
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

/// Whole lines only, so that none of the keeper's own comes between. Ends with the last writer.
fn pass_on<W: Write>(mut from: impl Read, to: impl Fn() -> W, colours: bool) {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut waiting = Vec::new();
    loop {
        let read = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        waiting.extend_from_slice(&chunk[..read]);
        let end = match waiting.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if waiting.len() > MAX_LOG_LINE_BYTES => {
                waiting.push(b'\n');
                waiting.len()
            }
            None => continue,
        };
        clean(&mut waiting[..end], colours);
        // A closed standard error is no reason to let the worker wait.
        let _ = to().write_all(&waiting[..end]);
        waiting.drain(..end);
    }
    if !waiting.is_empty() {
        waiting.push(b'\n');
        clean(&mut waiting, colours);
        let _ = to().write_all(&waiting);
    }
}

/// What stands for a byte that could command a terminal.
const REPLACEMENT: u8 = b'?';

fn clean(lines: &mut [u8], colours: bool) {
    let is_control = |byte: u8| (byte < b' ' && byte != b'\n' && byte != b'\t') || byte == 0x7f || byte == 0xc2;
    if !lines.iter().any(|byte| is_control(*byte)) {
        return;
    }
    let mut at = 0;
    while at < lines.len() {
        let rest = &mut lines[at..];
        let used = match rest[0] {
            0x1b if colours => colour_length(rest).unwrap_or(0),
            // The controls from U+0080 on; what else begins so is text.
            0xc2 if !rest.get(1).is_some_and(|next| (0x80..0xa0).contains(next)) => 1,
            byte if !is_control(byte) => 1,
            _ => 0,
        };
        if used == 0 {
            rest[0] = REPLACEMENT;
        }
        at += used.max(1);
    }
}

/// Of `ESC [ 1 ; 31 m`, which changes nothing but how text looks.
fn colour_length(text: &[u8]) -> Option<usize> {
    let parameters = text.strip_prefix(b"\x1b[")?;
    let end = parameters.iter().position(|byte| !byte.is_ascii_digit() && *byte != b';')?;
    (parameters[end] == b'm').then_some(end + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &str, colours: bool) -> String {
        let mut bytes = text.as_bytes().to_vec();
        clean(&mut bytes, colours);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn terminals_are_not_commanded() {
        let colour = "\x1b[2m10:00\x1b[0m \x1b[1;31mERROR\x1b[0m caf\u{e9}\tx\n";
        assert_eq!(cleaned(colour, true), colour);
        assert!(!cleaned(colour, false).contains('\x1b'));
        for command in ["\x1b]0;title\x07", "\x1b[2J", "\x1bc", "\x1b[6n", "\x1b", "\x1b[31", "\x08", "\r", "\x7f"] {
            let cleaned = cleaned(command, true);
            assert!(!cleaned.chars().any(char::is_control), "{command:?}: {cleaned:?}");
        }
        assert!(!cleaned("\u{9b}2J", true).contains('\u{9b}'));
        assert_eq!(cleaned("\u{a9} \u{e9} \u{4e2d}\n", true), "\u{a9} \u{e9} \u{4e2d}\n");
    }

    #[test]
    fn lines_come_out_whole_and_one_without_end_is_broken() {
        let written = std::cell::RefCell::new(Vec::<Vec<u8>>::new());
        struct To<'a>(&'a std::cell::RefCell<Vec<Vec<u8>>>);
        impl Write for To<'_> {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.borrow_mut().push(bytes.to_vec());
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let text = format!("{}\nlast", "x".repeat(3 * MAX_LOG_LINE_BYTES));
        pass_on(text.as_bytes(), || To(&written), false);
        let written = written.into_inner();
        assert!(written.len() > 2 && written.iter().all(|part| part.ends_with(b"\n")));
        assert!(written.iter().all(|part| part.len() <= MAX_LOG_LINE_BYTES + CHUNK_BYTES + 1));
        assert_eq!(written.last().unwrap(), b"last\n");
        let all: usize = written.iter().flatten().filter(|byte| **byte == b'x').count();
        assert_eq!(all, 3 * MAX_LOG_LINE_BYTES);
    }

    #[tokio::test]
    async fn a_flood_does_not_wait_for_a_reader() {
        let (mut output, ends) = Output::start(false).unwrap();
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
