//! Where lines go. In the worker each thread puts them into a buffer of its own, and one thread writes what has come
//! together, in the order of the times: a request neither waits for standard error nor wakes anybody for its line.

use std::{
    io::{self, Write},
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle, Thread},
    time::Duration,
};

use parking_lot::Mutex;
use time::OffsetDateTime;
use tracing::Level;

use crate::shard::{CachePadded, Counter, SHARDS, shard_index};

/// How long lines come together before they are written.
const TICK: Duration = Duration::from_millis(10);
/// Ticks without a line after which the thread sleeps until the next one.
const IDLE_TICKS: u32 = 100;
/// Bytes that wait in one buffer, when standard error takes none. What comes then is dropped and counted.
const BUFFER_LIMIT: usize = 2 << 20;
/// Capacity that a buffer keeps once it was written.
const MAX_BUFFER_KEPT: usize = 256 << 10;

/// The end of the log's way.
pub(super) enum Writer {
    Direct { out: Mutex<Box<dyn Write + Send>>, dropped: AtomicU64 },
    Buffered { buffers: Arc<Buffers>, thread: Thread },
}

impl Writer {
    /// One that writes at once.
    pub(super) fn direct(out: impl Write + Send + 'static) -> Self {
        Self::Direct { out: Mutex::new(Box::new(out)), dropped: AtomicU64::new(0) }
    }

    /// One that writes from a thread of its own, until the second value is dropped.
    ///
    /// # Errors
    /// The thread can't be started.
    pub(super) fn buffered(out: impl Write + Send + 'static) -> io::Result<(Self, Flush)> {
        let buffers = Arc::new(Buffers::default());
        let emptied = Arc::clone(&buffers);
        let running = thread::Builder::new().name("log".to_owned()).spawn(move || emptied.empty_into(out))?;
        let thread = running.thread().clone();
        Ok((Self::Buffered { buffers: Arc::clone(&buffers), thread }, Flush { buffers, running: Some(running) }))
    }

    /// Writes a line, its end included.
    pub(super) fn write(&self, at: OffsetDateTime, level: Level, line: &[u8]) {
        match self {
            Self::Direct { out, dropped } => {
                let mut out = out.lock();
                if out.write_all(line).and_then(|()| out.flush()).is_err() {
                    dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
            Self::Buffered { buffers, thread } => {
                buffers.put(at.unix_timestamp_nanos(), line);
                // What may be the last words of this process goes out at once.
                if level <= Level::WARN || buffers.asleep.load(Ordering::SeqCst) {
                    thread.unpark();
                }
            }
        }
    }

    /// Lines that nobody took.
    pub(super) fn dropped(&self) -> u64 {
        match self {
            Self::Direct { dropped, .. } => dropped.load(Ordering::Relaxed),
            Self::Buffered { buffers, .. } => buffers.dropped.read(),
        }
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writer")
    }
}

/// Writes what waits and ends the thread when it is dropped.
pub struct Flush {
    buffers: Arc<Buffers>,
    running: Option<JoinHandle<()>>,
}

impl Drop for Flush {
    fn drop(&mut self) {
        self.buffers.ended.store(true, Ordering::SeqCst);
        if let Some(running) = self.running.take() {
            running.thread().unpark();
            // A thread that panicked has told so itself.
            let _ = running.join();
        }
    }
}

/// Lines one after another, and where each begins in time and ends in the bytes.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    lines: Vec<(i128, usize)>,
}

#[derive(Default)]
pub(super) struct Buffers {
    shards: [CachePadded<Mutex<Buffer>>; SHARDS],
    dropped: Counter,
    asleep: AtomicBool,
    ended: AtomicBool,
}

impl Buffers {
    fn put(&self, at: i128, line: &[u8]) {
        let mut buffer = self.shards[shard_index(SHARDS)].0.lock();
        if buffer.bytes.len() + line.len() > BUFFER_LIMIT {
            drop(buffer);
            self.dropped.count();
            return;
        }
        buffer.bytes.extend_from_slice(line);
        let end = buffer.bytes.len();
        buffer.lines.push((at, end));
    }

    fn empty_into(&self, mut out: impl Write) {
        let mut taken: [Buffer; SHARDS] = Default::default();
        let (mut text, mut idle, mut reported) = (Vec::new(), 0, 0);
        loop {
            let is_last = self.ended.load(Ordering::SeqCst);
            if self.take(&mut taken, &mut text) {
                idle = 0;
                if out.write_all(&text).and_then(|()| out.flush()).is_err() {
                    self.dropped.add(text.iter().filter(|byte| **byte == b'\n').count() as u64);
                }
                reported = self.report_dropped(reported);
            } else {
                idle += 1;
            }
            if is_last {
                return;
            }
            if idle < IDLE_TICKS { thread::park_timeout(TICK) } else { self.sleep() }
        }
    }

    /// Takes what has come together, in the order of the times; `false` when that is nothing.
    fn take(&self, taken: &mut [Buffer; SHARDS], text: &mut Vec<u8>) -> bool {
        for (CachePadded(shard), buffer) in self.shards.iter().zip(taken.iter_mut()) {
            mem::swap(&mut *shard.lock(), buffer);
        }
        let mut order: Vec<(i128, usize, usize, usize)> = Vec::new();
        for (shard, buffer) in taken.iter().enumerate() {
            let mut begin = 0;
            for (at, end) in &buffer.lines {
                order.push((*at, shard, begin, *end));
                begin = *end;
            }
        }
        order.sort_unstable(); // of one time and thread, by their place
        text.clear();
        text.shrink_to(MAX_BUFFER_KEPT);
        for (_, shard, begin, end) in &order {
            text.extend_from_slice(&taken[*shard].bytes[*begin..*end]);
        }
        for buffer in taken {
            buffer.bytes.clear();
            buffer.bytes.shrink_to(MAX_BUFFER_KEPT);
            buffer.lines.clear();
        }
        !order.is_empty()
    }

    /// Says in the log itself that lines were lost, once there is room again.
    fn report_dropped(&self, reported: u64) -> u64 {
        let dropped = self.dropped.read();
        if dropped > reported {
            tracing::warn!(lines = dropped - reported, "log lines were dropped: standard error was too slow");
        }
        dropped
    }

    fn sleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        let is_empty = |CachePadded(shard): &CachePadded<Mutex<Buffer>>| shard.lock().lines.is_empty();
        // In one order with `write`: either this sees the line, or that sees it asleep.
        if self.shards.iter().all(is_empty) && !self.ended.load(Ordering::SeqCst) {
            thread::park();
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Gives on what is written, and waits before each write until it may.
    struct Slow {
        permits: mpsc::Receiver<()>,
        out: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.permits.recv();
            self.out.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (Writer, Flush, mpsc::Sender<()>, Arc<Mutex<Vec<u8>>>) {
        let (permit, permits) = mpsc::channel();
        let out = Arc::new(Mutex::new(Vec::new()));
        let (writer, flush) = Writer::buffered(Slow { permits, out: Arc::clone(&out) }).unwrap();
        (writer, flush, permit, out)
    }

    fn at(micros: i64) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + time::Duration::microseconds(micros)
    }

    #[test]
    fn lines_of_many_threads_come_out_whole_and_in_order() {
        let (writer, flush, permit, out) = slow();
        writer.write(at(0), Level::ERROR, b"0\n"); // the thread is now busy with it
        let next = std::sync::atomic::AtomicI64::new(1);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let n = next.fetch_add(1, Ordering::SeqCst);
                        writer.write(at(n), Level::INFO, format!("{n}\n").as_bytes());
                    }
                });
            }
        });
        drop(permit);
        drop(flush);
        let out = String::from_utf8(out.lock().clone()).unwrap();
        let mut numbers: Vec<i64> = out.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(numbers.len(), 2_001);
        // The first batch was taken while the others were still writing; within each all is in order.
        let breaks = numbers.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!(breaks <= 2, "{breaks}");
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 2_001);
    }

    #[test]
    fn what_nobody_takes_is_dropped_and_counted() {
        let (writer, flush, permit, out) = slow();
        let line = [b'x'; 1023].into_iter().chain([b'\n']).collect::<Vec<_>>();
        let lines = 2 * BUFFER_LIMIT / line.len() + 100;
        for n in 0..lines {
            writer.write(at(n as i64), Level::INFO, &line);
        }
        let dropped = writer.dropped();
        assert!(dropped > 0);
        drop(permit);
        drop(flush);
        let written = out.lock().len() / line.len();
        assert_eq!(written as u64 + dropped, lines as u64);
    }

    #[test]
    fn a_closed_standard_error_is_no_reason_to_stop() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (writer, flush) = Writer::buffered(Closed).unwrap();
        writer.write(at(1), Level::INFO, b"a\n");
        writer.write(at(2), Level::INFO, b"b\n");
        drop(flush);
        assert_eq!(writer.dropped(), 2);
    }
}
