//! Keeps the core awake while plugins run on its threads.
//!
//! A thread of the runtime that is blocked by a plugin may have been the one that waited for the
//! network; the others sleep, and nothing wakes them: the whole core stands still until the plugin
//! comes back. A task that is given to the runtime from outside wakes one of them. So while calls
//! of plugins are under way, one is given every few milliseconds. Measured without it: standstills
//! as long as the plugin blocks; with it: 12 ms at most.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use tokio::runtime::Handle;

/// How often the runtime is woken.
const TICK: Duration = Duration::from_millis(5);
/// Ticks without a call after which the watchdog sleeps until the next one. Waking it costs a call
/// a few microseconds, so it does not fall asleep between any two.
const IDLE_TICKS: u32 = 200;

/// The watchdog of one runtime. Dropping it ends it.
pub struct Watchdog {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Default)]
struct Shared {
    calls: AtomicUsize,
    asleep: AtomicBool,
    ended: AtomicBool,
}

impl Watchdog {
    /// Starts watching over `runtime`.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn start(runtime: Handle) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let watched = Arc::clone(&shared);
        let thread =
            thread::Builder::new().name("plugin-watchdog".to_owned()).spawn(move || watched.watch(&runtime))?;
        Ok(Self { shared, thread: thread.thread().clone() })
    }

    /// A call of a plugin is under way until what this gives is dropped.
    pub fn call(&self) -> UnderWay<'_> {
        // In one order with `sleep`: either it sees this call, or this sees it asleep.
        self.shared.calls.fetch_add(1, Ordering::SeqCst);
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        UnderWay(&self.shared)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// See [`Watchdog::call`].
pub struct UnderWay<'w>(&'w Shared);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    fn watch(&self, runtime: &Handle) {
        let mut idle = 0;
        while !self.ended.load(Ordering::SeqCst) {
            if self.calls.load(Ordering::SeqCst) > 0 {
                idle = 0;
                runtime.spawn(async {});
            } else {
                idle += 1;
            }
            if idle < IDLE_TICKS { thread::sleep(TICK) } else { self.sleep() }
        }
    }

    fn sleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        if self.calls.load(Ordering::SeqCst) == 0 && !self.ended.load(Ordering::SeqCst) {
            thread::park();
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        time::Instant,
    };

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    const BLOCKED: Duration = Duration::from_secs(2);

    /// A server that answers each byte, and blocks its thread for an `x` before it does.
    async fn serve(listener: TcpListener, watchdog: Arc<Watchdog>) -> io::Result<()> {
        loop {
            let (mut stream, _) = listener.accept().await?;
            let watchdog = Arc::clone(&watchdog);
            tokio::spawn(async move {
                while let Ok(byte) = stream.read_u8().await {
                    if byte == b'x' {
                        let _call = watchdog.call();
                        thread::sleep(BLOCKED);
                    }
                    stream.write_u8(byte).await?;
                }
                io::Result::Ok(())
            });
        }
    }

    /// What comes in wakes the thread that waits for the network; it blocks, and without the
    /// watchdog nobody waits for the network until it is back.
    #[test]
    fn a_blocked_thread_does_not_stop_the_others() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let watchdog = Arc::new(Watchdog::start(runtime.handle().clone()).unwrap());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(serve(listener, watchdog));
        let [mut blocking, mut quick] = [(); 2].map(|()| std::net::TcpStream::connect(address).unwrap());
        let ask = |stream: &mut std::net::TcpStream, byte: u8| {
            stream.write_all(&[byte]).unwrap();
            stream.read_exact(&mut [0]).unwrap();
        };
        ask(&mut blocking, b'a');
        ask(&mut quick, b'a');
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(50)); // until both threads have nothing to do
            blocking.write_all(b"x").unwrap();
            thread::sleep(Duration::from_millis(50)); // until one of them is blocked
            let started = Instant::now();
            ask(&mut quick, b'a');
            assert!(started.elapsed() < BLOCKED / 2, "{:?}", started.elapsed());
            blocking.read_exact(&mut [0]).unwrap();
        }
    }

    #[test]
    fn it_wakes_for_a_call_after_it_has_fallen_asleep() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let watchdog = Watchdog::start(runtime.handle().clone()).unwrap();
        let until = |asleep: bool| {
            while watchdog.shared.asleep.load(Ordering::SeqCst) != asleep {
                thread::yield_now();
            }
        };
        until(true);
        let call = watchdog.call();
        until(false);
        drop(call);
        until(true);
    }
}
