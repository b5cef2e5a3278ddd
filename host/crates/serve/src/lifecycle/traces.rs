//! Sends the spans of requests to the collector of `OTEL_EXPORTER_OTLP_ENDPOINT`, a batch at a time.
//!
//! No request waits for it: spans are queued (`observe/src/spans.rs`), and those that the collector does not take are
//! dropped and counted.

mod collector;

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use self::collector::{Collector, SendError};
use crate::app::App;
use cardinal_base::causes::with_causes;
use cardinal_observe::{
    Telemetry,
    spans::{DropReason, Span, otlp::Resource},
};

/// What a stop waits for the collector to take what is queued. Less than the supervisor adds to the grace period.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest pause that a collector can ask for.
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// The task that sends spans.
pub(super) struct TraceExport {
    flush: CancellationToken,
    task: JoinHandle<()>,
}

impl TraceExport {
    /// Starts it, where there is a collector.
    pub(super) fn start(app: &App) -> anyhow::Result<Option<Self>> {
        let Some(endpoint) = &app.config.observe.otlp_endpoint else { return Ok(None) };
        let collector = Collector::new(endpoint, app.http.clone(), app.clock.clone());
        let collector = collector.context("reading OTEL_EXPORTER_OTLP_ENDPOINT")?;
        tracing::info!(collector = collector.origin(), "sending traces");
        let flush = CancellationToken::new();
        let sender = Sender {
            collector,
            resource: Resource::new(env!("CARGO_PKG_VERSION"), &app.host_id.to_string(), host_name().as_deref()),
            telemetry: Arc::clone(&app.telemetry),
            flush: flush.clone(),
            outage: Outage::default(),
        };
        Ok(Some(Self { flush, task: tokio::spawn(sender.run()) }))
    }

    /// Sends what is queued, for as long as that may take, and ends.
    pub(super) async fn flush(mut self) {
        self.flush.cancel();
        if timeout(FLUSH_TIMEOUT, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::warn!("the collector did not take the last traces in time; they are lost");
        }
    }
}

/// The machine's, as the kernel has it.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

struct Sender {
    collector: Collector,
    resource: Resource,
    telemetry: Arc<Telemetry>,
    /// Cancelled when the host stops: what is queued is sent without further waits.
    flush: CancellationToken,
    outage: Outage,
}

impl Sender {
    async fn run(mut self) {
        loop {
            tokio::select! {
                () = self.telemetry.spans.batch_due() => {}
                () = self.flush.cancelled() => break,
            }
            let batch = self.telemetry.spans.take_batch();
            if let Err(error) = self.send(batch).await
                && let Some(pause) = error.retry_after()
            {
                self.wait(pause.min(MAX_PAUSE)).await;
            }
        }
        loop {
            let batch = self.telemetry.spans.take_batch();
            if batch.is_empty() {
                return;
            }
            if self.send(batch).await.is_err() {
                return; // the rest would fare no better
            }
        }
    }

    /// Sends a batch, and once more when the collector may take it then.
    async fn send(&mut self, batch: Vec<Span>) -> Result<(), SendError> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut sent = self.attempt(&batch).await;
        if let Err(error) = &sent
            && let Some(wait) = error.retry_wait(rand::random())
        {
            self.wait(wait).await;
            sent = self.attempt(&batch).await;
        }
        let spans = &self.telemetry.spans;
        let rejected = match &sent {
            Ok(rejected) => batch.len().min(*rejected),
            Err(_) => batch.len(),
        };
        spans.count_sent(batch.len() - rejected);
        spans.count_dropped(DropReason::Collector, rejected);
        self.outage.note(self.collector.origin(), sent.as_ref().err(), rejected, Instant::now());
        sent.map(drop)
    }

    /// How many spans the collector has rejected of a batch that it took.
    async fn attempt(&self, batch: &[Span]) -> Result<usize, SendError> {
        let body = self.resource.encode(batch).map_err(SendError::Encoding)?;
        self.collector.send(body).await
    }

    /// Waits, but not when the host stops.
    async fn wait(&self, time: Duration) {
        tokio::select! {
            () = sleep(time) => {}
            () = self.flush.cancelled() => {}
        }
    }
}

/// While the collector takes nothing: a line when that begins and one when it ends, not one for each batch.
#[derive(Default)]
struct Outage(Option<OpenOutage>);

struct OpenOutage {
    since: Instant,
    dropped: usize,
}

impl Outage {
    fn note(&mut self, collector: &str, error: Option<&SendError>, dropped: usize, now: Instant) {
        match (&mut self.0, error) {
            (None, Some(error)) => {
                tracing::warn!(
                    collector,
                    error = with_causes(error),
                    "failed to send traces; they are dropped meanwhile"
                );
                self.0 = Some(OpenOutage { since: now, dropped });
            }
            (Some(outage), Some(_)) => outage.dropped += dropped,
            (Some(outage), None) => {
                let seconds = now.saturating_duration_since(outage.since).as_secs();
                tracing::info!(collector, seconds, spans = outage.dropped, "traces are sent again; spans were dropped");
                self.0 = None;
            }
            (None, None) => {}
        }
    }
}
