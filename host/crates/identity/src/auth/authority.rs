//! What a caller may do to others' accounts and give to others: never more than it holds itself.

use super::caller::{Caller, CallerKind, insufficient};
use crate::error::AuthError;
use cardinal_base::scope::{self, ScopeSet};

/// The roles, from the one that may most.
pub const ROLES: [&str; 4] = ["owner", "admin", "editor", "viewer"];
const OWNER: &str = "owner";

/// 403 unless `caller` holds everything that `role` gives. Owners' accounts are owners' business alone, though an
/// admin holds the same scopes.
pub fn over_role(caller: &Caller, role: Option<&str>) -> Result<(), AuthError> {
    let Some(role) = role else { return Ok(()) };
    over_owner(caller, Some(role))?;
    let scopes = scope::for_role(role).to_strings();
    match lacked(caller, &scopes) {
        Some(missing) => Err(insufficient(missing)),
        // Covered by `*` in the set, and yet held by a login alone.
        None if scope::for_role(role).holds(scope::APPROVE) => caller.require(scope::APPROVE),
        None => Ok(()),
    }
}

/// 403 when `role` is an owner's and the caller is none.
pub fn over_owner(caller: &Caller, role: Option<&str>) -> Result<(), AuthError> {
    if role == Some(OWNER) && caller.role.as_deref() != Some(OWNER) {
        return Err(AuthError::Forbidden("Only an owner may do this to an owner's account."));
    }
    Ok(())
}

/// 403 unless a person has logged in: keys and JWTs never set passwords.
pub fn person(caller: &Caller) -> Result<(), AuthError> {
    if caller.session_id.is_some() {
        return Ok(());
    }
    Err(AuthError::Forbidden("Only a logged-in person can set passwords, not a key or a JWT."))
}

/// The first of `scopes` that the caller does not hold.
pub fn lacked<'s>(caller: &Caller, scopes: &'s [String]) -> Option<&'s str> {
    let held = |scope: &&String| {
        let wanted = ScopeSet::lenient([scope]);
        let may_waive = match caller.kind {
            // Nobody but a key waives confirmations. A person who could change the key anyhow may make one that does, a
            // key that does so itself, a JWT none, nor one with a `*` under which it could be added later.
            CallerKind::Oidc => !wanted.holds(scope::UNATTENDED),
            CallerKind::ApiKey => !wanted.names(scope::UNATTENDED) || caller.holds(scope::UNATTENDED),
            CallerKind::User | CallerKind::Plugin | CallerKind::Local { .. } => true,
        };
        may_waive && caller.scopes.includes(&wanted)
    };
    scopes.iter().find(|scope| !held(scope)).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn caller(role: &str, session: bool, scopes: &[&str]) -> Caller {
        Caller {
            user_id: Uuid::nil(),
            username: "somebody".into(),
            user_kind: "user".into(),
            role: Some(role.into()),
            kind: if session { CallerKind::User } else { CallerKind::ApiKey },
            key: None,
            makers: Vec::new(),
            session_id: session.then(Uuid::nil),
            scopes: ScopeSet::lenient(scopes).intersect(&scope::for_role(role)),
            expires_at: None,
            allowances: Vec::new(),
            is_mcp_only: false,
        }
    }

    #[test]
    fn who_may_make_whom() {
        let may = |caller: &Caller| ROLES.map(|role| over_role(caller, Some(role)).is_ok());
        assert_eq!(may(&caller("owner", true, &["*"])), [true, true, true, true]);
        assert_eq!(may(&caller("admin", true, &["*"])), [false, true, true, true]);
        assert_eq!(may(&caller("editor", true, &["*"])), [false, false, true, false]);
        // A key never answers confirmations, so it can't make anybody who does.
        assert_eq!(may(&caller("owner", false, &["*"])), [false, false, false, true]);
        assert_eq!(may(&caller("owner", false, &["users:write"])), [false; 4]);
        assert!(over_role(&caller("viewer", true, &["*"]), None).is_ok());
    }

    #[test]
    fn a_jwt_gives_nothing_that_runs_unattended() {
        let mut jwt = caller("owner", false, &["*"]);
        jwt.kind = CallerKind::Oidc;
        for scope in ["*", "mcp:*", "mcp:unattended"] {
            assert_eq!(lacked(&jwt, &[scope.to_owned()]), Some(scope));
        }
        assert_eq!(lacked(&jwt, &["cards:write".to_owned(), "mcp:use".to_owned()]), None);
    }

    #[test]
    fn only_a_key_that_waives_confirmations_makes_another_that_does() {
        let lacks = |session, scopes: &[&str]| {
            lacked(&caller("owner", session, scopes), &[scope::UNATTENDED.to_owned()]).is_some()
        };
        assert!(lacks(false, &["*"]) && lacks(false, &["mcp:*"]));
        assert!(!lacks(false, &["*", scope::UNATTENDED]) && !lacks(true, &["*"]));
    }

    proptest! {
        #[test]
        fn nobody_without_every_scope_of_a_role_gives_it(
            of in proptest::sample::select(&ROLES[..]),
            to in proptest::sample::select(&ROLES[..]),
            scopes in proptest::collection::vec(proptest::sample::select(scope::KNOWN), 0..12),
            session: bool,
        ) {
            let caller = caller(of, session, &scopes);
            if over_role(&caller, Some(to)).is_ok() {
                prop_assert!(scope::KNOWN.iter().all(|scope| !scope::for_role(to).holds(scope) || caller.holds(scope)));
            }
        }
    }
}
