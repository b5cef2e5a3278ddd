//! Connections in about the order in which they became idle.

use std::{collections::VecDeque, sync::Arc};

use super::open_connection::OpenConnection;

/// Entries of ended connections that may lie here before they are removed.
const MAX_ENDED: usize = 64;

/// A queue with a second chance: whoever was used since it was last looked at goes to the back. Looking costs nothing
/// while a connection serves requests, and little when one has to be found.
#[derive(Default)]
pub(super) struct IdleQueue {
    /// With the wait in which each was when it was last looked at.
    connections: VecDeque<(Arc<OpenConnection>, Option<u64>)>,
    open: usize,
}

impl IdleQueue {
    /// Connections that have not ended.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    pub(super) fn push(&mut self, connection: Arc<OpenConnection>) {
        self.open += 1;
        let wait = connection.wait();
        self.connections.push_back((connection, wait));
        if self.connections.len() > 2 * self.open + MAX_ENDED {
            self.connections.retain(|(connection, _)| !connection.is_gone());
        }
    }

    /// One of them has ended.
    pub(super) fn left(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Asks the connection to close that has been idle longest. `false`: each of them has a request under way or
    /// closes already.
    pub(super) fn close_longest_idle(&mut self) -> bool {
        // Twice around: at the first look, a connection may just have been used.
        for _ in 0..2 * self.connections.len() {
            let Some((connection, seen)) = self.connections.pop_front() else { break };
            if connection.is_gone() {
                continue;
            }
            let wait = connection.wait();
            let found = wait.is_some() && wait == seen && !connection.is_asked_to_close();
            if found {
                connection.ask_to_close();
            }
            self.connections.push_back((connection, wait));
            if found {
                return true;
            }
        }
        false
    }
}
