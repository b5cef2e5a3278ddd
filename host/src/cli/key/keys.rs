//! Where the keys are that a command works on: at a host's address, by its API, or in the database of a host on this
//! machine, which may be running or stopped.

use anyhow::{Context as _, bail};
use http::Method;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};
use uuid::Uuid;

use crate::cli::{
    KEY_PREFIX, KEY_WAS_SHOWN,
    client::{Client, query},
    direct::{self, Direct, explain},
};
use cardinal_base::config::{Config, DatabaseSettings, Remote, RemoteSettings};
use cardinal_identity::auth::api_key::PlainKey;
use cardinal_serve::{
    api::{
        api_keys as shown,
        api_keys::{CANNOT_ROTATE_ENDED, CHANGED_MEANWHILE, ROTATED_BEFORE},
    },
    audit::AuditAction,
};
use cardinal_store::api_keys::{self, KeyRecord, RotateOutcome, lineage::MAKER_REVOKED};

const PATH: &str = "/v1/admin/api-keys";
/// Keys that are asked for at once.
const PAGE: i64 = 200;
const REASON: &str = "revoked by an administrator";

/// What the commands on keys take.
#[derive(Debug, clap::Args)]
pub(super) struct KeySettings {
    #[command(flatten)]
    remote: RemoteSettings,
    #[command(flatten)]
    database: DatabaseSettings,
}

/// A place with keys.
pub(super) enum Keys {
    Remote(Remote),
    Direct(Box<Config>),
}

impl KeySettings {
    /// The host at an address, where one or a key is given; else that of this machine.
    pub(super) fn read(&self) -> anyhow::Result<Keys> {
        Ok(match self.remote.read()? {
            Some(remote) => Keys::Remote(remote),
            None => Keys::Direct(Box::new(direct::begin(&self.database)?)),
        })
    }
}

impl Keys {
    /// Every key, as the API shows it, newest first.
    pub(super) fn list(&self) -> anyhow::Result<Vec<Value>> {
        match self {
            Self::Remote(remote) => crate::cli::runtime()?.block_on(list_remote(&Client::new(remote)?)),
            Self::Direct(config) => Direct::run(config, async |direct| {
                let records = records(direct).await?;
                records.iter().map(|record| Ok(serde_json::to_value(shown::show(record))?)).collect()
            }),
        }
    }

    /// Revokes a key and, unless they are kept, those that were made with it.
    pub(super) fn revoke(&self, id: Uuid, keeps_children: bool) -> anyhow::Result<()> {
        match self {
            Self::Remote(remote) => crate::cli::runtime()?.block_on(async {
                let path = format!("{PATH}/{id}{}", query(&[("keep_children", keeps_children.then_some("true"))]));
                Client::new(remote)?.ask(Method::DELETE, &path, None).await?;
                Ok(())
            }),
            Self::Direct(config) => Direct::run(config, async |direct| revoke_direct(direct, id, keeps_children).await),
        }
    }

    /// Puts a new key in the place of one; gives its record and the key, as the API does.
    pub(super) fn rotate(&self, id: Uuid, overlap_seconds: u32) -> anyhow::Result<Value> {
        match self {
            Self::Remote(remote) => crate::cli::runtime()?.block_on(async {
                let body = json!({"overlap_seconds": overlap_seconds});
                Ok(Client::new(remote)?.ask(Method::POST, &format!("{PATH}/{id}/rotate"), Some(&body)).await?)
            }),
            Self::Direct(config) => {
                Direct::run(config, async |direct| rotate_direct(direct, id, overlap_seconds).await)
            }
        }
    }
}

async fn list_remote(client: &Client) -> anyhow::Result<Vec<Value>> {
    let (mut items, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let path = format!("{PATH}{}", query(&[("limit", Some(&PAGE.to_string())), ("cursor", cursor.as_deref())]));
        let mut page = client.get(&path).await?;
        if let Value::Array(more) = page["items"].take() {
            items.extend(more);
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(items);
        }
    }
}

async fn records(direct: &Direct) -> anyhow::Result<Vec<KeyRecord>> {
    let mut records = Vec::new();
    loop {
        let last = records.last().map(|record: &KeyRecord| record.id);
        let page = api_keys::list(&direct.pool, None, last, PAGE).await.map_err(explain)?;
        let is_last = page.len() < usize::try_from(PAGE)?;
        records.extend(page);
        if is_last {
            return Ok(records);
        }
    }
}

async fn get(direct: &Direct, id: Uuid) -> anyhow::Result<KeyRecord> {
    api_keys::get(&direct.pool, id).await.map_err(explain)?.context("the API key no longer exists")
}

async fn revoke_direct(direct: &Direct, id: Uuid, keeps_children: bool) -> anyhow::Result<()> {
    let record = get(direct, id).await?;
    let taken = api_keys::revoke(&direct.pool, &record, REASON, keeps_children).await.map_err(explain)?;
    let detail = shown::because(shown::audited(&record), REASON);
    direct.record(AuditAction::RevokeKey, id.to_string(), detail).await;
    for key in taken {
        let detail = shown::because(shown::audited(&key), MAKER_REVOKED);
        direct.record(AuditAction::RevokeKey, key.id.to_string(), detail).await;
    }
    Ok(())
}

async fn rotate_direct(direct: &Direct, id: Uuid, overlap_seconds: u32) -> anyhow::Result<Value> {
    let old = get(direct, id).await?;
    let key = PlainKey::generate(&mut rand::rng());
    let now = direct.clock.now();
    let mut new = shown::successor(&old, &key, now);
    let overlap = (overlap_seconds > 0).then(|| now + Duration::seconds(overlap_seconds.into()));
    match api_keys::rotate(&direct.pool, &mut new, &key.hash(), &old, overlap, None).await.map_err(explain)? {
        RotateOutcome::Done => {}
        RotateOutcome::Over => bail!(CANNOT_ROTATE_ENDED),
        RotateOutcome::Before => bail!(ROTATED_BEFORE),
        RotateOutcome::Changed => bail!(CHANGED_MEANWHILE),
        // No key has asked for it.
        RotateOutcome::ByItsDescendant | RotateOutcome::CallerOver => bail!("failed to rotate the key"),
    }
    direct.record(AuditAction::RotateKey, new.id.to_string(), shown::audited(&new)).await;
    Ok(json!({"item": shown::show(&new), "key": key.expose()}))
}

/// The id of the key that `wanted` names: an id, or the name of just one key that is not over.
pub(super) fn find(keys: &[Value], wanted: &str) -> anyhow::Result<Uuid> {
    if wanted.starts_with(KEY_PREFIX) {
        bail!("a key is never an argument: name it by its id or its name. {KEY_WAS_SHOWN}");
    }
    let id = |key: &Value| key["id"].as_str().and_then(|id| id.parse().ok());
    if let Ok(wanted) = wanted.parse::<Uuid>() {
        let found = keys.iter().find_map(|key| id(key).filter(|id| *id == wanted));
        return found.with_context(|| format!("there is no API key {wanted}: `cardinal key list` shows all"));
    }
    let named: Vec<&Value> = keys.iter().filter(|key| key["name"] == wanted && state(key) == "active").collect();
    match named[..] {
        [one] => id(one).context("the host returned a key without an id"),
        [] => bail!("there is no active API key {wanted:?}: `cardinal key list` shows names and ids"),
        _ => {
            bail!("{} active API keys are named {wanted:?}: give the id instead, see `cardinal key list`", named.len())
        }
    }
}

/// Whether a key still works.
pub(super) fn state(key: &Value) -> &'static str {
    let expiry = key["expires_at"].as_str().and_then(|at| OffsetDateTime::parse(at, &Rfc3339).ok());
    match (key["revoked_at"].is_null(), expiry) {
        (false, _) => "revoked",
        (true, Some(at)) if at <= OffsetDateTime::now_utc() => "expired",
        (true, _) => "active",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8, name: &str, revoked: bool) -> Value {
        let revoked_at = revoked.then_some("2026-01-01T00:00:00Z");
        json!({"id": Uuid::from_bytes([number; 16]), "name": name, "revoked_at": revoked_at, "expires_at": null})
    }

    #[test]
    fn a_key_is_found_by_its_id_or_by_a_name_that_it_alone_has() {
        let keys = [key(1, "ci", true), key(2, "ci", false), key(3, "shop", false), key(4, "shop", false)];
        assert_eq!(find(&keys, "ci").unwrap(), Uuid::from_bytes([2; 16]));
        assert_eq!(find(&keys, &Uuid::from_bytes([1; 16]).to_string()).unwrap(), Uuid::from_bytes([1; 16]));
        assert!(find(&keys, "shop").unwrap_err().to_string().contains("2 active API keys"));
        assert!(find(&keys, "none").is_err() && find(&keys, &Uuid::nil().to_string()).is_err());
    }

    #[test]
    fn a_key_ends_by_its_time_too() {
        let mut key = key(1, "ci", false);
        assert_eq!(state(&key), "active");
        key["expires_at"] = json!("2020-01-01T00:00:00.5Z");
        assert_eq!(state(&key), "expired");
    }
}
