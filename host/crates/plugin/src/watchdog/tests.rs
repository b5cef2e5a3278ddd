use std::io::{Read, Write};

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
                    let _poll = watchdog.poll_here(7, 3, false);
                    thread::sleep(BLOCKED);
                }
                stream.write_u8(byte).await?;
            }
            io::Result::Ok(())
        });
    }
}

fn runtime(workers: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
}

/// What comes in wakes the thread that waits for the network; it blocks, and without the
/// watchdog no thread waits for the network until it is back.
#[test]
fn a_blocked_thread_does_not_stop_the_others() {
    let runtime = runtime(2);
    let watchdog = Arc::new(Watchdog::start(runtime.handle().clone()).unwrap());
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(serve(listener, watchdog));

    let mut slow = std::net::TcpStream::connect(address).unwrap();
    let mut quick = std::net::TcpStream::connect(address).unwrap();
    let mut ask = |byte: u8| {
        quick.write_all(&[byte]).unwrap();
        quick.read_exact(&mut [0]).unwrap();
    };
    ask(b'a');
    thread::sleep(TICK * 20); // every thread of the runtime sleeps now
    slow.write_all(b"x").unwrap();
    let started = Instant::now();
    let mut longest = Duration::ZERO;
    while started.elapsed() < BLOCKED - TICK * 20 {
        let asked_at = Instant::now();
        ask(b'a');
        longest = longest.max(asked_at.elapsed());
        thread::sleep(Duration::from_millis(1));
    }
    assert!(longest < BLOCKED / 4, "the other connection stood still for {longest:?}");
    runtime.shutdown_background();
}

#[test]
fn a_thread_is_left_for_the_core() {
    let runtime = runtime(3);
    let watchdog = Watchdog::start(runtime.handle().clone()).unwrap();
    let outer = watchdog.poll_here(1, 0, false);
    assert!(outer.is_some());
    thread::scope(|scope| {
        let second = watchdog.poll_here(1, 0, false);
        assert!(second.is_some(), "two of three");
        let third = scope.spawn(|| watchdog.poll_here(1, 0, false).is_none());
        assert!(third.join().unwrap(), "the third is the core's"); // while the second still polls
    });
    drop(outer);
    assert!(watchdog.poll_here(1, 0, false).is_some(), "the place is free again");
    assert!(watchdog.shared.is_quiet());
}

#[derive(Default)]
struct Reports(Mutex<Vec<(u32, Place, bool)>>);

impl BlockObserver for Reports {
    fn blocks(&self, handler: u32, place: Place, _: Duration) {
        self.0.lock().push((handler, place, true));
    }

    fn still_blocks(&self, _: u32, _: Place, _: Duration, _: Duration) {}

    fn returned(&self, handler: u32, place: Place, _: Duration) {
        self.0.lock().push((handler, place, false));
    }
}

#[test]
fn who_blocks_is_told_once_and_again_when_it_is_over() {
    let runtime = runtime(2);
    let watchdog = Watchdog::start(runtime.handle().clone()).unwrap();
    let gone: Arc<dyn BlockObserver> = Arc::new(Reports::default());
    let seen = Arc::new(Reports::default());
    let observer: Arc<dyn BlockObserver> = seen.clone();
    watchdog.observe(7, Arc::downgrade(&observer));
    watchdog.observe(8, Arc::downgrade(&gone));
    let poll = watchdog.poll_here(7, 3, false);
    while watchdog.blocked() != [1, 0] {
        thread::sleep(TICK);
    }
    drop(poll);
    // The thread goes on with another handler before the watchdog looks.
    drop(watchdog.poll_here(7, 4, false));
    while watchdog.blocked() != [0, 0] {
        thread::sleep(TICK);
    }
    assert_eq!(*seen.0.lock(), [(3, Place::Core, true), (3, Place::Core, false)]);
}

#[test]
fn the_watchdog_sleeps_while_nothing_runs_and_wakes_for_the_next_poll() {
    let runtime = runtime(1);
    let watchdog = Watchdog::start(runtime.handle().clone()).unwrap();
    while !watchdog.shared.asleep.load(Ordering::SeqCst) {
        thread::sleep(TICK);
    }
    let _poll = watchdog.poll_here(1, 0, false);
    while watchdog.shared.asleep.load(Ordering::SeqCst) {
        thread::sleep(TICK);
    }
}
