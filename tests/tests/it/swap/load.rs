//! Clients that ask all the time, and what became of their requests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cardinal_tests::{Host, eventually};
use http::Method;
use tokio::task::JoinHandle;

/// Answers that are kept for the message of a test that fails.
const KEPT: usize = 20;

/// What became of the requests for one target.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub sent: usize,
    /// Answers that were not 200, or no answers.
    pub failed: Vec<String>,
    pub failures: usize,
    /// How often each version answered.
    pub versions: BTreeMap<String, usize>,
}

/// Clients that ask until they are stopped.
pub(super) struct Load {
    tallies: Arc<Vec<(String, Mutex<Tally>)>>,
    sent: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// So many clients of a host for each target.
    pub(super) async fn start(host: &Host, targets: &[&str], each: usize) -> Load {
        let client = host.owner().await.unlimited().await;
        let tallies: Arc<Vec<(String, Mutex<Tally>)>> =
            Arc::new(targets.iter().map(|target| ((*target).to_owned(), Mutex::default())).collect());
        let (sent, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let clients = (0..targets.len() * each)
            .map(|number| {
                let (client, tallies) = (client.clone(), Arc::clone(&tallies));
                let (sent, stop) = (Arc::clone(&sent), Arc::clone(&stop));
                tokio::spawn(async move {
                    let (target, tally) = &tallies[number % tallies.len()];
                    while !stop.load(Ordering::SeqCst) {
                        let answer = client.call(Method::GET, target).try_send().await;
                        sent.fetch_add(1, Ordering::SeqCst);
                        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                        tally.sent += 1;
                        match answer {
                            Ok(answer) if answer.status == 200 => {
                                let version = answer.json()["version"].as_str().unwrap_or("-").to_owned();
                                *tally.versions.entry(version).or_default() += 1;
                            }
                            Ok(answer) => tally.fail(answer.to_string()),
                            Err(error) => tally.fail(format!("{error:#}")),
                        }
                    }
                })
            })
            .collect();
        Load { tallies, sent, stop, clients }
    }

    pub(super) fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    /// Waits until so many more requests were answered.
    pub(super) async fn more(&self, requests: usize) {
        let goal = self.sent() + requests;
        eventually("requests are answered", async || (self.sent() >= goal).then_some(())).await;
    }

    /// What the clients saw, in the order of the targets.
    pub(super) async fn stop(self) -> Vec<(String, Tally)> {
        self.stop.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.await.unwrap();
        }
        let tallies = Arc::into_inner(self.tallies).unwrap();
        tallies.into_iter().map(|(target, tally)| (target, tally.into_inner().unwrap())).collect()
    }

    /// The same, none of which may have failed.
    pub(super) async fn stop_without_failure(self) -> Vec<(String, Tally)> {
        let tallies = self.stop().await;
        for (target, tally) in &tallies {
            assert_eq!(tally.failures, 0, "{target}: {} of {} failed: {:#?}", tally.failures, tally.sent, tally.failed);
            assert!(tally.sent > 0, "{target} was never asked for");
        }
        tallies
    }
}

impl Tally {
    fn fail(&mut self, how: String) {
        self.failures += 1;
        if self.failed.len() < KEPT {
            self.failed.push(how);
        }
    }
}
