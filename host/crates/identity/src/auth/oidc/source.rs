//! Where the provider's keys come from, and how often they are asked for.
//!
//! One task does all the fetching ([`Source::keep`]). Requests only read what it found; a token whose
//! key is unknown may ask for one fetch more, which everybody in the same need waits for, and the next
//! such fetch is half a minute away whatever is thrown at the host. What a client does, hanging up
//! included, neither starts a second fetch nor ends one.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, anyhow, ensure};
use futures_util::FutureExt;
use rand::RngExt;
use time::OffsetDateTime;
use tokio::sync::{Notify, watch};
use url::Url;

use super::{
    discovery::{self, ProviderMetadata},
    fetch::Fetcher,
    jwks::KeySet,
};
use cardinal_base::clock::Clock;

/// How old the keys get while all is well; each host adds a random part of a tenth.
const REFRESH_INTERVAL: Duration = Duration::from_secs(300);
/// The longest wait after a failure.
const RETRY: Duration = Duration::from_secs(30);
/// Between two fetches that tokens asked for.
const MIN_REQUEST_INTERVAL: time::Duration = time::Duration::seconds(30);
/// How long a request waits for a fetch that it needs.
const WAIT: Duration = Duration::from_secs(6);

/// The provider as it was configured.
#[derive(Clone, Debug)]
pub(super) struct Provider {
    /// Below which discovery looks.
    pub base: Option<String>,
    pub issuer: Option<String>,
    pub keys_at: Option<Url>,
}

/// What tokens are judged by.
pub(super) struct IssuerKeys {
    pub issuer: String,
    pub keys: KeySet,
    keys_at: Url,
}

/// What the fetching has come to.
#[derive(Clone, Default)]
pub(super) struct State {
    /// Kept while the provider is away, however long that is: nobody is logged out by its outage.
    pub trusted: Option<Arc<IssuerKeys>>,
    /// The last fetch failed.
    pub failed: bool,
    /// Fetches that have ended.
    pub round: u64,
    fetching: bool,
    requested_at: Option<OffsetDateTime>,
    next: Option<OffsetDateTime>,
}

impl State {
    /// Whole seconds until it is worth asking again.
    pub(super) fn retry_after(&self, now: OffsetDateTime) -> u32 {
        let wait = self.next.map_or(1, |next| (next - now).whole_seconds() + 1);
        u32::try_from(wait.clamp(1, RETRY.as_secs() as i64)).unwrap_or(1)
    }

    fn may_be_requested(&self, now: OffsetDateTime) -> bool {
        // The absolute distance: a clock that was set back must not silence the host for as long.
        self.requested_at.is_none_or(|requested_at| (now - requested_at).abs() >= MIN_REQUEST_INTERVAL)
    }
}

/// What a request that needs fresher keys comes to.
pub(super) enum RefreshOutcome {
    State(State),
    /// A fetch is under way and takes longer than a request may wait.
    NotYet,
    /// None is to be had now: too soon after the last that was asked for.
    No,
}

/// The one place that fetches.
pub(super) struct Source {
    provider: Provider,
    fetcher: Fetcher,
    clock: Clock,
    state: watch::Sender<State>,
    fetch_requested: Notify,
    /// How long a request waits.
    pub(super) refresh_timeout: Duration,
}

impl Source {
    pub(super) fn new(provider: Provider, clock: Clock) -> anyhow::Result<Self> {
        let (state, _) = watch::channel(State::default());
        Ok(Self {
            provider,
            fetcher: Fetcher::new()?,
            clock,
            state,
            fetch_requested: Notify::new(),
            refresh_timeout: WAIT,
        })
    }

    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// The issuer as far as it is known: set, discovered, or else the address that was configured.
    pub(super) fn issuer(&self) -> Option<String> {
        let known = self.state.borrow().trusted.as_ref().map(|trusted| trusted.issuer.clone());
        self.provider.issuer.clone().or(known).or_else(|| self.provider.base.clone())
    }

    /// The state after a fetch that ended later than round `seen`, waited for.
    pub(super) async fn later_than(&self, seen: u64) -> RefreshOutcome {
        let mut updates = self.state.subscribe();
        let state = updates.borrow_and_update().clone();
        if state.round > seen {
            return RefreshOutcome::State(state);
        }
        if !state.fetching {
            if !state.may_be_requested(self.clock.now()) {
                return RefreshOutcome::No;
            }
            self.fetch_requested.notify_one();
        }
        match tokio::time::timeout(self.refresh_timeout, updates.wait_for(|state| state.round > seen)).await {
            Ok(Ok(state)) => RefreshOutcome::State(state.clone()),
            _ => RefreshOutcome::NotYet,
        }
    }

    /// Fetches now, then in intervals and when asked, for ever. `changed` hears of every set that was read.
    pub(super) async fn keep(&self, mut changed: impl FnMut(&KeySet)) {
        let mut failures = 0_u32;
        let mut is_requested = false;
        loop {
            let outcome = self.fetch(is_requested).await;
            failures = if outcome.is_ok() { 0 } else { failures.saturating_add(1) };
            let pause = pause(failures, self.state.borrow().trusted.is_some());
            if let Ok(trusted) = &outcome {
                changed(&trusted.keys);
            }
            self.publish(outcome, pause);
            is_requested = self.rest(pause).await;
        }
    }

    async fn fetch(&self, is_requested: bool) -> anyhow::Result<Arc<IssuerKeys>> {
        let now = self.clock.now();
        self.state.send_modify(|state| {
            state.fetching = true;
            state.requested_at = if is_requested { Some(now) } else { state.requested_at };
        });
        let known = self.state.borrow().trusted.clone();
        if is_requested && let Some(known) = known {
            // A rollover moves keys, not addresses: one document will do, unless it is gone.
            let found = ProviderMetadata { issuer: known.issuer.clone(), keys_at: known.keys_at.clone() };
            if let Ok(trusted) = self.keys(found).await {
                return Ok(trusted);
            }
        }
        self.keys(self.discover().await?).await
    }

    /// What a fetch would find now; nothing is kept of it.
    pub(super) async fn try_once(&self) -> anyhow::Result<(String, usize)> {
        let trusted = self.keys(self.discover().await?).await?;
        Ok((trusted.issuer.clone(), trusted.keys.len()))
    }

    async fn discover(&self) -> anyhow::Result<ProviderMetadata> {
        let Provider { base, issuer, keys_at } = &self.provider;
        if let (Some(issuer), Some(keys_at)) = (issuer, keys_at) {
            return Ok(ProviderMetadata { issuer: issuer.clone(), keys_at: keys_at.clone() });
        }
        // Without an address of its own the provider is where its issuer says.
        let base = base.as_ref().or(issuer.as_ref()).context("no address of a provider is set")?;
        let mut failures = Vec::new();
        for at in discovery::addresses(base) {
            let at = at?;
            // Nobody there: nobody is at the next place of the same host either.
            let answer = self.fetcher.get(&at).await?;
            let read = |document: bytes::Bytes| discovery::read(&document, &at, base, issuer.as_deref());
            match answer.document().and_then(read) {
                Ok(found) => {
                    let keys_at = keys_at.clone().unwrap_or(found.keys_at);
                    return Ok(ProviderMetadata { issuer: found.issuer, keys_at });
                }
                Err(error) => failures.push(format!("discovery at {at}: {error:#}")),
            }
        }
        Err(anyhow!(failures.join("; ")))
    }

    async fn keys(&self, found: ProviderMetadata) -> anyhow::Result<Arc<IssuerKeys>> {
        let ProviderMetadata { issuer, keys_at } = found;
        let document = self.fetcher.get(&keys_at).await?.document();
        let keys =
            document.and_then(|document| KeySet::read(&document)).with_context(|| format!("keys at {keys_at}"))?;
        ensure!(!keys.is_empty(), "keys at {keys_at}: none of them is for ES384 signatures");
        Ok(Arc::new(IssuerKeys { issuer, keys, keys_at }))
    }

    fn publish(&self, outcome: anyhow::Result<Arc<IssuerKeys>>, pause: Duration) {
        let next = self.clock.now() + pause;
        let (was_failed, before) = {
            let state = self.state.borrow();
            (state.failed, state.trusted.clone())
        };
        match &outcome {
            Ok(now) => {
                let same = |before: &Arc<IssuerKeys>| {
                    before.keys.len() == now.keys.len() && before.keys.prints().all(|print| now.keys.has(print))
                };
                if was_failed || !before.as_ref().is_some_and(same) {
                    tracing::info!(issuer = now.issuer, keys = now.keys.len(), "loaded the identity provider's keys");
                }
            }
            Err(error) => {
                let kept = before.as_ref().map_or(0, |trusted| trusted.keys.len());
                tracing::warn!(error = format!("{error:#}"), kept, "failed to load the identity provider's keys");
            }
        }
        // Whoever asked before this has its answer now.
        let _ = self.fetch_requested.notified().now_or_never();
        self.state.send_modify(|state| {
            state.round += 1;
            state.fetching = false;
            state.next = Some(next);
            state.failed = outcome.is_err();
            state.trusted = outcome.ok().or_else(|| state.trusted.take());
        });
    }

    /// Waits for the next fetch; whether a token asked for it.
    async fn rest(&self, pause: Duration) -> bool {
        let due = tokio::time::sleep(pause);
        tokio::pin!(due);
        loop {
            tokio::select! {
                () = &mut due => return false,
                () = self.fetch_requested.notified() => {
                    if self.state.borrow().may_be_requested(self.clock.now()) {
                        return true;
                    }
                }
            }
        }
    }
}

/// Until the next fetch that nobody asked for. While there are no keys at all it comes sooner: the provider may be
/// starting beside us.
fn pause(failures: u32, keys_known: bool) -> Duration {
    match failures {
        0 => REFRESH_INTERVAL + REFRESH_INTERVAL.mul_f64(rand::rng().random_range(0.0..0.1)),
        _ if keys_known => RETRY,
        _ => RETRY.min(Duration::from_secs(1 << (failures - 1).min(5))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_asked_again_soon_only_while_it_was_never_reached() {
        let seconds = |failures, known| pause(failures, known).as_secs();
        assert_eq!([1, 2, 3, 4, 5, 6, 7, u32::MAX].map(|n| seconds(n, false)), [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!([1, 2, u32::MAX].map(|n| seconds(n, true)), [30, 30, 30]);
        for known in [true, false] {
            assert!((300..=330).contains(&seconds(0, known)));
        }
    }
}
