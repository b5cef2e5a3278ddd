//! Writers that go on whatever happens to the host, and remember what it has said yes to.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cardinal_tests::{Answer, Client, unique};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{Dice, PAUSE};

const CARDS: &str = "/v1/admin/master-cards";

/// What the host has said yes to.
#[derive(Debug, Clone)]
pub(super) enum Done {
    Created { card: String },
    Titled { card: String, version: i64, title: String },
    Deleted { card: String },
    Restored { card: String, version: i64 },
    Enriched { card: String, version: i64, key: String, note: String },
    Noted { text: String },
    MadeKey { name: String },
    StartedJob { id: String },
}

/// The host under test, wherever it is now, and all that it has said yes to.
pub(super) struct Ground {
    address: Mutex<SocketAddr>,
    token: String,
    done: Mutex<Vec<Done>>,
    stop: AtomicBool,
    /// Of each writer.
    counts: Vec<AtomicUsize>,
}

impl Ground {
    pub(super) fn new(address: SocketAddr, token: String) -> Arc<Ground> {
        let counts = WRITERS.iter().map(|_| AtomicUsize::default()).collect();
        let (address, done, stop) = (Mutex::new(address), Mutex::default(), AtomicBool::new(false));
        Arc::new(Ground { address, token, done, stop, counts })
    }

    pub(super) fn moved_to(&self, address: SocketAddr) {
        *self.address.lock().unwrap() = address;
    }

    pub(super) fn client(&self) -> Client {
        Client::new(*self.address.lock().unwrap()).bearer(self.token.clone())
    }

    pub(super) fn done(&self) -> Vec<Done> {
        self.done.lock().unwrap().clone()
    }

    /// How much each writer has got through.
    pub(super) fn counts(&self) -> Vec<usize> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Starts a writer of each kind, with the round's chances.
    pub(super) fn write(self: &Arc<Ground>, dice: &mut Dice) -> Vec<JoinHandle<()>> {
        self.stop.store(false, Ordering::Relaxed);
        let start = |number: usize| {
            let writer = Writer { ground: Arc::clone(self), number, dice: Dice::new(dice.next()) };
            tokio::spawn(writer.run())
        };
        (0..WRITERS.len()).map(start).collect()
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Cards,
    Sources,
    Notes,
    Keys,
    Jobs,
}

const WRITERS: [Kind; 7] =
    [Kind::Cards, Kind::Cards, Kind::Sources, Kind::Sources, Kind::Notes, Kind::Keys, Kind::Jobs];

struct Writer {
    ground: Arc<Ground>,
    number: usize,
    dice: Dice,
}

impl Writer {
    async fn run(mut self) {
        let mut card = None;
        while !self.ground.is_stopped() {
            let Some(own) = &card else {
                card = self.create().await;
                continue;
            };
            let own: String = String::clone(own);
            match WRITERS[self.number] {
                Kind::Cards => self.change(&own).await,
                Kind::Sources => self.enrich(&own).await,
                Kind::Notes => self.note().await,
                Kind::Keys => self.make_key().await,
                Kind::Jobs => self.start_job().await,
            }
            if self.dice.below(20) == 0 {
                card = None;
            }
        }
    }

    /// The answer when it is a yes. A host that is in trouble says 503 or nothing; never that something is wrong with
    /// the caller or with itself.
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Option<Answer> {
        let call = self.ground.client().call(method, path);
        let call = match body {
            Some(body) => call.json(body),
            None => call,
        };
        let answer = call.try_send().await;
        match answer {
            Ok(answer) if answer.status.is_success() => return Some(answer),
            Ok(answer) => {
                // 404: a card whose deletion was not answered.
                assert!([404, 503].contains(&answer.status.as_u16()), "{answer}");
                answer.problem();
            }
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
        None
    }

    fn remember(&self, done: Done) {
        self.ground.done.lock().unwrap().push(done);
        self.ground.counts[self.number].fetch_add(1, Ordering::Relaxed);
    }

    async fn create(&mut self) -> Option<String> {
        let wanted = json!({"title": "Card", "sku": unique("KILL")});
        let answer = self.call(Method::POST, CARDS, Some(&wanted)).await?;
        let card = answer.json()["item"]["id"].as_str().unwrap().to_owned();
        self.remember(Done::Created { card: card.clone() });
        Some(card)
    }

    async fn change(&mut self, card: &str) {
        let (path, card) = (format!("{CARDS}/{card}"), card.to_owned());
        let version = |answer: Answer| answer.json()["item"]["version"].as_i64().unwrap();
        match self.dice.below(4) {
            0 => {
                if self.call(Method::DELETE, &path, None).await.is_some() {
                    self.remember(Done::Deleted { card });
                }
            }
            1 => {
                if let Some(answer) = self.call(Method::POST, &format!("{path}/restore"), None).await {
                    self.remember(Done::Restored { card, version: version(answer) });
                }
            }
            _ => {
                let title = unique("title");
                if let Some(answer) = self.call(Method::PATCH, &path, Some(&json!({"title": title}))).await {
                    self.remember(Done::Titled { card, version: version(answer), title });
                }
            }
        }
    }

    async fn enrich(&mut self, card: &str) {
        let (name, note) = (format!("k{}", self.dice.below(3)), unique("note"));
        let body = json!({"note": note, "key": name});
        let path = format!("/v1/admin/plugins/echo/enrich/{card}");
        if let Some(answer) = self.call(Method::POST, &path, Some(&body)).await {
            let version = answer.json()["version"].as_i64().unwrap();
            self.remember(Done::Enriched { card: card.to_owned(), version, key: format!("echo:{name}"), note });
        }
    }

    /// In the plugin's own table.
    async fn note(&mut self) {
        let text = unique("note");
        let body = json!({"text": text});
        if self.call(Method::POST, "/v1/admin/plugins/echo/db/notes", Some(&body)).await.is_some() {
            self.remember(Done::Noted { text });
        }
    }

    async fn make_key(&mut self) {
        let name = unique("key");
        let body = json!({"name": name, "scopes": ["cards:read"]});
        if self.call(Method::POST, "/v1/admin/api-keys", Some(&body)).await.is_some() {
            self.remember(Done::MadeKey { name });
        }
    }

    async fn start_job(&mut self) {
        let mut cards = Vec::new();
        while cards.len() < 3 && !self.ground.is_stopped() {
            cards.extend(self.create().await);
        }
        let body = json!({"action": "archive", "ids": cards});
        if let Some(answer) = self.call(Method::POST, "/v1/admin/jobs", Some(&body)).await {
            self.remember(Done::StartedJob { id: answer.json()["item"]["id"].as_str().unwrap().to_owned() });
        }
    }
}
