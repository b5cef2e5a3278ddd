//! What a confirmation is good for, as one number.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::mcp::sessions;
use cardinal_base::hex::hex;
use cardinal_identity::auth::caller::Caller;
use cardinal_store::approvals::Binding;

/// Whose tool it is, and which package would run.
#[derive(Clone, PartialEq, Eq)]
pub struct Plugin {
    pub name: String,
    pub version: String,
    pub sha256: String,
}

impl Plugin {
    pub fn to_json(&self) -> Value {
        json!({"name": self.name, "version": self.version, "sha256": self.sha256})
    }
}

/// SHA-256 over who calls, what, with which arguments, and what would run. Every part has its length before it, so that
/// no two calls are written the same.
pub(super) fn bind(caller: &Caller, tool: &str, arguments: &str, plugin: Option<&Plugin>) -> Binding {
    let owner = sessions::owner(caller);
    let (name, package) = plugin.map_or(("", env!("CARGO_PKG_VERSION")), |plugin| (&plugin.name, &plugin.sha256));
    let parts = [
        b"cardinal confirmation".as_slice(),
        caller.kind.name().as_bytes(),
        owner.as_bytes(),
        caller.user_id.as_bytes(),
        tool.as_bytes(),
        arguments.as_bytes(),
        name.as_bytes(),
        package.as_bytes(),
    ];
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// As the audit log shows arguments.
pub(super) fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use cardinal_base::scope::ScopeSet;
    use cardinal_identity::auth::caller::CallerKind;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn whatever_differs_is_another_call() {
        let user = Caller::new(Uuid::from_u128(1), "one", ScopeSet::all());
        let key = |id| Caller {
            kind: CallerKind::ApiKey,
            key: Some((Uuid::from_u128(id), "key".to_owned())),
            ..Caller::new(Uuid::from_u128(1), "one", ScopeSet::all())
        };
        let plugin = |sha256: &str| Plugin { name: "echo".into(), version: "1.0.0".into(), sha256: sha256.into() };
        let all = [
            bind(&user, "a", "{}", None),
            bind(&Caller::new(Uuid::from_u128(2), "one", ScopeSet::all()), "a", "{}", None),
            bind(&key(1), "a", "{}", None),
            bind(&key(2), "a", "{}", None),
            bind(&user, "a{", "}", None),
            bind(&user, "a", "{\"a\":1}", None),
            bind(&user, "a", "{\"a\":1.0}", None),
            bind(&user, "a", "{}", Some(&plugin("1"))),
            bind(&user, "a", "{}", Some(&plugin("2"))),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all[at + 1..].iter().all(|other| other != one), "{at}");
        }
        assert_eq!(bind(&user, "a", "{}", None), all[0]);
    }
}
