//! The plugin is loaded anew several times while it is asked without a pause: no request may be lost.

use std::cell::Cell;

use anyhow::ensure;
use futures_util::future::join_all;
use http::{Method, StatusCode};

use super::{
    Outcome,
    requests::{Subject, Target},
    some,
};
use crate::cli::plugin::remote::REGISTRY;

/// Requests at a time, and how often the plugin is loaded meanwhile.
const CLIENTS: usize = 8;
const SWAPS: usize = 3;
/// Before the first swap, and after each.
const REQUESTS_BETWEEN: usize = 50;

pub(super) async fn check(subject: &Subject) -> anyhow::Result<Outcome> {
    let Some((target, usual)) = sound_route(subject).await? else {
        return Ok(Outcome::Skipped(
            "the plugin has no GET route to ask meanwhile that answers without an error".to_owned(),
        ));
    };
    let load = Load { subject, target: &target, usual, requests: Cell::new(0), over: Cell::new(false) };
    let clients = join_all((0..CLIENTS).map(|_| load.ask_on()));
    let (swapped, lost) = tokio::join!(load.swap(), clients);
    swapped?;
    let lost: Vec<String> = lost.into_iter().flatten().collect();
    let requests = load.requests.get();
    Ok(match lost.is_empty() {
        true => Outcome::Good(format!("{SWAPS} swaps under {CLIENTS} clients, {requests} requests, none lost")),
        false => Outcome::Bad(format!("{} of {requests} requests lost in {SWAPS} swaps:\n{}", lost.len(), some(&lost))),
    })
}

/// A route to ask, with what it answers in peace; one that breaks would open the plugin's breaker.
async fn sound_route(subject: &Subject) -> anyhow::Result<Option<(Target, StatusCode)>> {
    for target in subject.targets().into_iter().filter(|target| target.method == Method::GET) {
        let answer = subject.ask(&target).await?;
        if !answer.status.is_server_error() {
            return Ok(Some((target, answer.status)));
        }
    }
    Ok(None)
}

struct Load<'a> {
    subject: &'a Subject,
    target: &'a Target,
    /// What the route answers in peace.
    usual: StatusCode,
    requests: Cell<usize>,
    over: Cell<bool>,
}

impl Load<'_> {
    /// Those that were lost, with what they got.
    async fn ask_on(&self) -> Vec<String> {
        let mut lost = Vec::new();
        while !self.over.get() {
            match self.subject.ask(self.target).await {
                Ok(answer) if answer.status == self.usual => {}
                Ok(answer) => lost.push(format!("{}: {} {}", self.target.name, answer.status, answer.code)),
                Err(error) => lost.push(format!("{}: {error:#}", self.target.name)),
            }
            self.requests.set(self.requests.get() + 1);
        }
        lost
    }

    async fn swap(&self) -> anyhow::Result<()> {
        let swapped = async {
            self.until_asked().await;
            for _ in 0..SWAPS {
                let path = format!("{REGISTRY}/{}/reload", self.subject.name());
                let answer = self.subject.client.ask(Method::POST, &path, None).await?;
                let item = &answer["item"];
                ensure!(item["state"] == "active" && item["refusal"].is_null(), "it is not loaded again: {item}");
                self.until_asked().await;
            }
            anyhow::Ok(())
        };
        let outcome = swapped.await;
        self.over.set(true);
        outcome
    }

    async fn until_asked(&self) {
        let enough = self.requests.get() + REQUESTS_BETWEEN;
        while self.requests.get() < enough {
            tokio::task::yield_now().await;
        }
    }
}
