//! Ids of a session's calls that are under way. The protocol library answers one alone of several calls with the same
//! id, and the clients of the others would wait for ever.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;

use super::Session;

#[derive(Default)]
pub(super) struct CallIds(Mutex<HashSet<String>>);

/// The id of a call, which no other call of its session has until this is dropped.
pub(in crate::mcp) struct CallId {
    session: Arc<Session>,
    id: String,
}

impl Session {
    /// None while another call of the session has the id.
    pub(in crate::mcp) fn begin_call(self: &Arc<Self>, id: &Value) -> Option<CallId> {
        let id = id.to_string();
        let is_free = self.call_ids.0.lock().insert(id.clone());
        is_free.then(|| CallId { session: Arc::clone(self), id })
    }
}

impl Drop for CallId {
    fn drop(&mut self) {
        self.session.call_ids.0.lock().remove(&self.id);
    }
}
