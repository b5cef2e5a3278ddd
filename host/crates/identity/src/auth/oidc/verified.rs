//! Tokens whose signature has been verified, until they expire: verifying costs a hundred times as
//! much as looking one up.

use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;
use time::{Duration, OffsetDateTime};

use super::{
    jwks::{KeySet, Print},
    token::LEEWAY,
};
use cardinal_base::scope::ScopeSet;

const SHARDS: usize = 16;
/// Tokens per shard; a full shard drops those that have expired, then everything.
const MAX_PER_SHARD: usize = 1_024;
/// How long a token still counts whose key the provider has withdrawn: as long as it may take until a
/// withdrawal is noticed at all. So a rollover fails nobody, and a stolen key is of no lasting use.
pub(super) const AFTER_WITHDRAWAL: Duration = Duration::minutes(5);

/// Who a verified token is about and what it grants.
#[derive(Debug)]
pub struct Identity {
    pub issuer: String,
    pub subject: String,
    pub name: String,
    pub scopes: ScopeSet,
    pub expires_at: OffsetDateTime,
    pub signed_by: Print,
}

struct Entry {
    identity: Arc<Identity>,
    good_until: OffsetDateTime,
}

/// Identities by the hash of their token.
#[derive(Default)]
pub(super) struct TokenCache([RwLock<HashMap<[u8; 32], Entry>>; SHARDS]);

impl TokenCache {
    pub(super) fn get(&self, token: &[u8; 32], now: OffsetDateTime) -> Option<Arc<Identity>> {
        let shard = self.shard(token).read();
        shard.get(token).filter(|entry| entry.good_until > now).map(|entry| Arc::clone(&entry.identity))
    }

    pub(super) fn keep(&self, token: &[u8; 32], identity: Arc<Identity>, now: OffsetDateTime) {
        let mut shard = self.shard(token).write();
        if shard.len() >= MAX_PER_SHARD {
            shard.retain(|_, entry| entry.good_until > now);
        }
        if shard.len() >= MAX_PER_SHARD {
            shard.clear();
        }
        let good_until = identity.expires_at.saturating_add(LEEWAY);
        shard.insert(*token, Entry { identity, good_until });
    }

    /// Ends what was signed by keys that are not in `keys`, after a while.
    pub(super) fn withdraw(&self, keys: &KeySet, now: OffsetDateTime) {
        let end = now.saturating_add(AFTER_WITHDRAWAL);
        for shard in &self.0 {
            let mut shard = shard.write();
            shard.retain(|_, entry| entry.good_until > now);
            for entry in shard.values_mut().filter(|entry| !keys.has(&entry.identity.signed_by)) {
                entry.good_until = entry.good_until.min(end);
            }
        }
    }

    fn shard(&self, token: &[u8; 32]) -> &RwLock<HashMap<[u8; 32], Entry>> {
        &self.0[usize::from(token[0]) % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::sample::{self, NOW},
        *,
    };

    fn identity(signed_by: Print, lasts: Duration) -> Arc<Identity> {
        let (issuer, subject, name) = (String::new(), String::new(), String::new());
        Arc::new(Identity { issuer, subject, name, scopes: ScopeSet::default(), expires_at: NOW + lasts, signed_by })
    }

    #[test]
    fn a_token_is_kept_until_it_expires() {
        let verified = TokenCache::default();
        verified.keep(&[1; 32], identity([0; 32], Duration::minutes(10)), NOW);
        assert!(verified.get(&[1; 32], NOW + Duration::minutes(10) + Duration::seconds(29)).is_some());
        assert!(verified.get(&[1; 32], NOW + Duration::minutes(10) + Duration::seconds(30)).is_none());
        assert!(verified.get(&[2; 32], NOW).is_none());
    }

    #[test]
    fn a_withdrawn_key_ends_its_tokens_after_five_minutes() {
        let (verified, keys) = (TokenCache::default(), sample::keys(&["a"]));
        verified.keep(&[1; 32], identity(*keys.prints().next().unwrap(), Duration::hours(9)), NOW);
        verified.keep(&[2; 32], identity([7; 32], Duration::hours(9)), NOW);
        verified.withdraw(&keys, NOW);
        verified.withdraw(&keys, NOW + Duration::minutes(4));
        let later = NOW + AFTER_WITHDRAWAL;
        assert!(verified.get(&[2; 32], later - Duration::seconds(1)).is_some());
        assert!(verified.get(&[2; 32], later).is_none());
        assert!(verified.get(&[1; 32], later).is_some());
    }

    #[test]
    fn it_is_bounded() {
        let verified = TokenCache::default();
        for i in 0..100_000_u32 {
            let mut token = [0; 32];
            token[..4].copy_from_slice(&i.to_le_bytes());
            verified.keep(&token, identity([0; 32], Duration::hours(1)), NOW);
        }
        let kept: usize = verified.0.iter().map(|shard| shard.read().len()).sum();
        assert!(kept <= SHARDS * MAX_PER_SHARD, "{kept}");
    }
}
