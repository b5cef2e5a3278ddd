//! Who is calling, once a credential has been accepted.

use std::{collections::HashSet, sync::Arc};

use serde_json::{Value, json};
use time::OffsetDateTime;
use uuid::Uuid;

use super::oidc::LEEWAY;
use crate::error::AuthError;
use crate::limit::Allowance;
use cardinal_base::scope::{self, ScopeSet};

/// What kind of principal acts; `updated_by.kind` of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerKind {
    User,
    ApiKey,
    Oidc,
    Plugin,
    /// A user of this machine's system at the socket in `DATA_DIR`.
    Local {
        uid: u32,
    },
}

impl CallerKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::ApiKey => "api_key",
            Self::Oidc => "oidc",
            Self::Plugin => "plugin",
            Self::Local { .. } => "local",
        }
    }
}

/// The user behind a credential and what the credential may do.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The user: of a session itself, of a key its owner.
    pub user_id: Uuid,
    pub username: String,
    /// `user`, `oidc` or `plugin`: the kind of the user record, not of the credential.
    pub user_kind: String,
    pub role: Option<String>,
    pub kind: CallerKind,
    /// The key's id and name when a key was shown.
    pub key: Option<(Uuid, String)>,
    /// The keys that this key was made with, its maker first.
    pub makers: Vec<Uuid>,
    pub session_id: Option<Uuid>,
    pub scopes: ScopeSet,
    pub expires_at: Option<OffsetDateTime>,
    /// How often it may call, and where that is counted: its own limit, then those of its makers. Empty is no limit.
    pub allowances: Vec<Allowance>,
    /// A key that is good at the MCP endpoint alone.
    pub is_mcp_only: bool,
}

impl Caller {
    /// A user by itself: no key, no session, no end and no limit. The credential adds what it has.
    pub fn new(user_id: Uuid, username: &str, scopes: ScopeSet) -> Self {
        Self {
            user_id,
            username: username.to_owned(),
            user_kind: "user".to_owned(),
            role: None,
            kind: CallerKind::User,
            key: None,
            makers: Vec::new(),
            session_id: None,
            scopes,
            expires_at: None,
            allowances: Vec::new(),
            is_mcp_only: false,
        }
    }

    /// Whoever may act as the host's own user on its machine. It holds what a key with `*` of the owner `behind` it
    /// holds, in whose name it makes what needs an owner.
    pub fn local(uid: u32, behind: Uuid) -> Self {
        let kind = CallerKind::Local { uid };
        let role = Some("owner".to_owned());
        Self { kind, role, ..Self::new(behind, &local_name(uid), ScopeSet::all()) }
    }

    /// A plugin at work by itself: it may read cards and write its own declared kinds, as outside of calls.
    pub fn plugin(user_id: Uuid, name: &str) -> Self {
        let scopes = ScopeSet::lenient([format!("plugin:{name}:read"), format!("plugin:{name}:write")]);
        let kind = CallerKind::Plugin;
        Self { kind, user_kind: kind.name().to_owned(), ..Self::new(user_id, name, scopes) }
    }

    /// Whether the call may do what `scope` names. Some rights are never a credential's of another kind, `*` included.
    pub fn holds(&self, scope: &str) -> bool {
        let of_its_kind = match scope {
            scope::APPROVE => self.session_id.is_some(),
            scope::UNATTENDED => self.kind == CallerKind::ApiKey && self.scopes.names(scope::UNATTENDED),
            _ => true,
        };
        of_its_kind && self.scopes.holds(scope)
    }

    /// 403 naming the scope when it is not held.
    pub fn require(&self, scope: &str) -> Result<(), AuthError> {
        if self.holds(scope) {
            return Ok(());
        }
        Err(insufficient(scope))
    }

    /// 403 for a key that is good at the MCP endpoint alone: what a client confirms there could be called by another
    /// way.
    pub fn require_more_than_mcp(&self) -> Result<(), AuthError> {
        if !self.is_mcp_only {
            return Ok(());
        }
        Err(AuthError::Forbidden("This key is for MCP only: it works at /api and nowhere else."))
    }

    /// Whether it shows one of these keys, or one that was made with one of them.
    pub(crate) fn comes_from_key(&self, ids: &HashSet<Uuid>) -> bool {
        self.key.iter().map(|(own, _)| own).chain(&self.makers).any(|id| ids.contains(id))
    }

    /// Whether its credential has ended. A provider's clock may differ from ours a little; our own doesn't.
    pub(crate) fn has_expired(&self, now: OffsetDateTime) -> bool {
        let leeway = if self.kind == CallerKind::Oidc { LEEWAY } else { time::Duration::ZERO };
        self.expires_at.is_some_and(|end| end.saturating_add(leeway) <= now)
    }

    /// `hmac`, `api_key`, `jwt` or `local`.
    pub const fn auth_method(&self) -> &'static str {
        match self.kind {
            CallerKind::ApiKey => "api_key",
            CallerKind::Oidc => "jwt",
            CallerKind::User | CallerKind::Plugin => "hmac",
            CallerKind::Local { .. } => "local",
        }
    }

    /// `{kind, id, name}` for history, audit and `updated_by`.
    pub fn actor(&self) -> Value {
        if let CallerKind::Local { uid } = self.kind {
            return local_actor(uid);
        }
        let (id, name) = match &self.key {
            Some((id, name)) => (*id, name.as_str()),
            None => (self.user_id, self.username.as_str()),
        };
        json!({"kind": self.kind.name(), "id": id, "name": name})
    }
}

/// A user of this machine's system in history and audit.
pub fn local_actor(uid: u32) -> Value {
    json!({"kind": CallerKind::Local { uid }.name(), "id": null, "name": local_name(uid)})
}

fn local_name(uid: u32) -> String {
    format!("uid {uid}")
}

/// 403 for a missing scope, with the challenge that tells an OAuth client what to ask for.
pub fn insufficient(scope: &str) -> AuthError {
    let challenge = format!(r#"Bearer error="insufficient_scope", scope="{scope}""#);
    AuthError::InsufficientScope { scope: scope.to_owned(), challenge }
}

/// A caller behind one pointer: it is looked up once and shared by the call's parts.
pub type SharedCaller = Arc<Caller>;

#[cfg(test)]
mod tests {
    use super::*;

    fn everything(kind: CallerKind, session_id: Option<Uuid>) -> Caller {
        Caller {
            user_id: Uuid::nil(),
            username: String::new(),
            user_kind: String::new(),
            role: None,
            kind,
            key: None,
            makers: Vec::new(),
            session_id,
            scopes: ScopeSet::all(),
            expires_at: Some(OffsetDateTime::UNIX_EPOCH),
            allowances: Vec::new(),
            is_mcp_only: false,
        }
    }

    #[test]
    fn a_star_does_not_cover_what_is_another_kinds() {
        let (person, key) = (everything(CallerKind::User, Some(Uuid::nil())), everything(CallerKind::ApiKey, None));
        let jwt = everything(CallerKind::Oidc, None);
        assert!(person.holds(scope::APPROVE) && !key.holds(scope::APPROVE) && !jwt.holds(scope::APPROVE));
        for caller in [&person, &key, &jwt] {
            assert!(!caller.holds(scope::UNATTENDED), "{caller:?}");
            let naming = Caller { scopes: ScopeSet::lenient(["*", scope::UNATTENDED]), ..caller.clone() };
            assert_eq!(naming.holds(scope::UNATTENDED), naming.kind == CallerKind::ApiKey, "{naming:?}");
        }
        assert!(jwt.holds("users:write"));
        let local = Caller::local(0, Uuid::nil());
        assert!(!local.holds(scope::UNATTENDED) && !local.holds(scope::APPROVE) && local.holds("users:write"));
        assert_eq!(local.actor(), json!({"kind": "local", "id": null, "name": "uid 0"}));
    }

    #[test]
    fn only_a_providers_clock_may_differ() {
        let at = |seconds| OffsetDateTime::UNIX_EPOCH + time::Duration::seconds(seconds);
        let (key, jwt) = (everything(CallerKind::ApiKey, None), everything(CallerKind::Oidc, None));
        assert!(key.has_expired(at(0)) && !key.has_expired(at(-1)));
        assert!(jwt.has_expired(at(30)) && !jwt.has_expired(at(29)));
    }
}
