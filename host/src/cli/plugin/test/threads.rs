//! No handler blocks the thread that it runs on.
//!
//! The host's watchdog sees polls that do not return. Of a busy machine it sees short ones, too: those are told and are
//! no failure.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde_json::Value;

use super::{Outcome, requests::Subject, some};
use crate::cli::plugin::remote::REGISTRY;

/// From here on a poll has blocked its thread, on a machine however busy.
const BLOCKED_MS: u64 = 2_000;
const TO_DO: &str = "what blocks or computes for long goes into `tokio::task::spawn_blocking`";

/// The longest time that each handler has held a thread.
#[derive(Default)]
pub(super) struct Blocking(BTreeMap<String, u64>);

impl Blocking {
    /// Adds what the host has seen of the generation that serves.
    pub(super) async fn look(&mut self, subject: &Subject) -> anyhow::Result<()> {
        let answer = subject.client.get(&format!("{REGISTRY}/{}", subject.name())).await;
        self.add(&answer.context("asking the host which handlers block")?["item"]["counters"]["execution"]);
        Ok(())
    }

    fn add(&mut self, execution: &Value) {
        let lists = [&execution["blocking"], &execution["held_threads"]];
        for entry in lists.into_iter().filter_map(Value::as_array).flatten() {
            let (Some(handler), Some(ms)) = (entry["handler"].as_str(), entry["longest_ms"].as_u64()) else { continue };
            let longest = self.0.entry(handler.to_owned()).or_default();
            *longest = ms.max(*longest);
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        let describe = |(handler, ms): (&String, &u64)| format!("{handler} has held its thread for {ms} ms: {TO_DO}");
        let blocked: Vec<String> = self.0.iter().filter(|(_, ms)| **ms >= BLOCKED_MS).map(describe).collect();
        if !blocked.is_empty() {
            return Outcome::Bad(some(&blocked));
        }
        Outcome::Good(match self.0.iter().max_by_key(|(_, ms)| **ms) {
            Some((handler, ms)) => format!("none was held for two seconds; {handler} held its own for {ms} ms"),
            None => "no handler has held its own".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_has_blocked_a_thread_is_named_also_after_a_reload() {
        let mut blocking = Blocking::default();
        assert!(matches!(blocking.outcome(), Outcome::Good(_)));
        blocking.add(&json!({"blocking": [{"handler": "GET /a", "longest_ms": 52}], "held_threads": []}));
        assert!(matches!(blocking.outcome(), Outcome::Good(text) if text.contains("GET /a held its own for 52 ms")));
        blocking.add(&json!({"blocking": [{"handler": "GET /b", "longest_ms": 2_300}]}));
        blocking.add(&json!({"blocking": [], "held_threads": [{"handler": "GET /a", "longest_ms": 9}]}));
        let Outcome::Bad(text) = blocking.outcome() else { panic!("GET /b has blocked") };
        assert!(text.starts_with("GET /b has held its thread for 2300 ms: ") && !text.contains("GET /a"), "{text}");
    }
}
