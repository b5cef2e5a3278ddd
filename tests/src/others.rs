//! Everybody else: clients that go on asking while a plugin does its worst.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Method;

use crate::{Client, Host, eventually};

/// How often each client asks: often enough to meet every hold-up, and without taking a core from what is tested.
const PACE: Duration = Duration::from_millis(20);

/// Clients of the core and of another plugin, `quick`, each asking one thing after the other.
pub struct Others {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    took: Vec<Duration>,
    wrong: Vec<String>,
}

impl Others {
    /// Begins to ask; returns once all of them had an answer.
    pub async fn start(host: &Host) -> Others {
        let client = host.owner().await.unlimited().await;
        let mut others = Others { seen: Arc::default(), stop: Arc::default(), tasks: Vec::new() };
        for target in [
            "/healthz",
            "/v1/admin/auth/me",
            "/v1/admin/master-cards?limit=1",
            "/v1/admin/plugins/quick/hello",
            "/v1/admin/plugins/quick/query",
        ] {
            others.tasks.push(tokio::spawn(ask(
                client.clone(),
                target,
                Arc::clone(&others.seen),
                Arc::clone(&others.stop),
            )));
        }
        others.go_on(5).await;
        others
    }

    /// Waits until so many more were answered.
    pub async fn go_on(&self, more: usize) {
        let answered = || self.seen.lock().unwrap().took.len();
        let enough = answered() + more;
        eventually("others are answered", async || (answered() >= enough).then_some(())).await;
    }

    /// Ends it. Nobody may have lost a request; gives how long the slowest one took, and how many there were.
    #[track_caller]
    pub fn unharmed(self) -> (Duration, usize) {
        self.stop.store(true, Ordering::SeqCst);
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
        let seen = self.seen.lock().unwrap();
        assert!(seen.wrong.is_empty(), "others lost requests: {:#?}", seen.wrong);
        (seen.took.iter().max().copied().unwrap_or_default(), seen.took.len())
    }
}

async fn ask(client: Client, target: &'static str, seen: Arc<Mutex<Seen>>, stop: Arc<AtomicBool>) {
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !stop.load(Ordering::SeqCst) {
        pace.tick().await;
        let begun = Instant::now();
        let answer = client.call(Method::GET, target).try_send().await;
        let mut seen = seen.lock().unwrap();
        seen.took.push(begun.elapsed());
        match answer {
            Ok(answer) if answer.status == 200 => {}
            Ok(answer) => seen.wrong.push(answer.to_string()),
            Err(error) => seen.wrong.push(format!("{target}: {error:#}")),
        }
    }
}
