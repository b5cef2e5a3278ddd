//! With what a caller came, remembered without any secret, so that work which outlives the request can ask again
//! what its starter may do now.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    Auth, OIDC,
    caller::{Caller, CallerKind, SharedCaller},
    role_scopes,
};
use crate::error::AuthError;
use cardinal_base::{codes, scope::ScopeSet};

/// Whose rights, and through what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Credential {
    user_id: Uuid,
    #[serde(flatten)]
    means: CredentialKind,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "means", rename_all = "snake_case")]
enum CredentialKind {
    /// A login; what was begun in it goes on when it has ended.
    Session {
        id: Option<Uuid>,
    },
    Key {
        id: Uuid,
    },
    /// A JWT is seen once; what it granted is kept.
    Jwt {
        scopes: Vec<String>,
    },
    /// The socket in `DATA_DIR`; good as long as the owner behind it is one.
    Local {
        uid: u32,
    },
    /// The plugin itself.
    Plugin,
}

impl Credential {
    pub fn from_caller(caller: &Caller) -> Self {
        let means = match (&caller.key, caller.kind) {
            (Some((id, _)), _) => CredentialKind::Key { id: *id },
            (None, CallerKind::Local { uid }) => CredentialKind::Local { uid },
            (None, CallerKind::Plugin) => CredentialKind::Plugin,
            (None, CallerKind::Oidc) => CredentialKind::Jwt { scopes: caller.scopes.to_strings() },
            (None, _) => CredentialKind::Session { id: caller.session_id },
        };
        Self { user_id: caller.user_id, means }
    }
}

impl Auth {
    /// The caller with the rights that it has by now; 401 or 403 when it has none any more.
    pub async fn again(&self, credential: &Credential) -> Result<SharedCaller, AuthError> {
        let user = cardinal_store::users::by_id(&self.pool, credential.user_id).await?;
        let user = user.filter(|user| user.disabled_at.is_none());
        let user = user.ok_or(AuthError::Disabled { detail: None })?;
        let caller = Caller {
            user_kind: user.kind.clone(),
            role: user.role.clone(),
            ..Caller::new(user.id, &user.username, ScopeSet::default())
        };
        let rights = self.user_rights(&user);
        Ok(Arc::new(match &credential.means {
            CredentialKind::Session { id } => Caller { session_id: *id, scopes: role_scopes(&user), ..caller },
            CredentialKind::Jwt { scopes } if user.kind == OIDC => {
                Caller { kind: CallerKind::Oidc, scopes: ScopeSet::lenient(scopes).intersect(&rights), ..caller }
            }
            CredentialKind::Local { uid } if user.role.as_deref() == Some("owner") => Caller::local(*uid, user.id),
            CredentialKind::Plugin if user.kind == CallerKind::Plugin.name() => Caller::plugin(user.id, &user.username),
            CredentialKind::Local { .. } | CredentialKind::Jwt { .. } | CredentialKind::Plugin => {
                return Err(AuthError::unauthorized(&codes::INVALID_TOKEN));
            }
            CredentialKind::Key { id } => {
                let record = cardinal_store::api_keys::get(&self.pool, *id).await?;
                let record = record.ok_or(AuthError::unauthorized(&codes::INVALID_TOKEN))?;
                let now = self.clock.now();
                if record.revoked_at.is_some_and(|at| at <= now) {
                    return Err(AuthError::unauthorized(&codes::REVOKED_TOKEN));
                }
                if record.expires_at.is_some_and(|at| at <= now) {
                    return Err(AuthError::unauthorized(&codes::EXPIRED_TOKEN));
                }
                Caller {
                    kind: CallerKind::ApiKey,
                    scopes: ScopeSet::lenient(&record.scopes).intersect(&rights),
                    key: Some((record.id, record.name)),
                    ..caller
                }
            }
        }))
    }
}
