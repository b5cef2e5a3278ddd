//! Whose session is whose. rmcp binds sessions to nobody and keeps any number of them.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::auth::caller::Caller;

/// Sessions of everybody together.
const SESSIONS: usize = 1_000;
/// Sessions of one principal.
const PER_PRINCIPAL: usize = 20;

struct Owner {
    principal: Uuid,
    used: Instant,
}

/// The open sessions and their principals.
#[derive(Default)]
pub struct Owners(Mutex<HashMap<String, Owner>>);

impl Owners {
    /// Notes that `caller` opened the session `id`.
    pub fn open(&self, id: &str, caller: &Caller) {
        let owner = Owner { principal: principal(caller), used: Instant::now() };
        self.lock().insert(id.to_owned(), owner);
    }

    /// Whether the session is `caller`'s. One that is not known is rmcp's to refuse.
    pub fn belongs(&self, id: &str, caller: &Caller) -> bool {
        match self.lock().get_mut(id) {
            Some(owner) if owner.principal == principal(caller) => {
                owner.used = Instant::now();
                true
            }
            Some(_) => false,
            None => true,
        }
    }

    pub fn forget(&self, id: &str) {
        self.lock().remove(id);
    }

    /// Whether `caller` may open another session.
    pub fn has_room(&self, caller: &Caller) -> bool {
        let open = self.lock();
        let own = open.values().filter(|owner| owner.principal == principal(caller)).count();
        open.len() < SESSIONS && own < PER_PRINCIPAL
    }

    /// Forgets what was not used for `idle`; rmcp has ended it by then.
    pub fn sweep(&self, idle: Duration) {
        self.lock().retain(|_, owner| owner.used.elapsed() < idle);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Owner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key is a principal of its own; tokens of one user are the same one.
fn principal(caller: &Caller) -> Uuid {
    caller.key.as_ref().map_or(caller.user_id, |(id, _)| *id)
}
