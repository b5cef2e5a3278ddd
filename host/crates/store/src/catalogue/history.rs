//! Who changed a card: pages of its history.

use uuid::Uuid;

use super::Catalogue;
use crate::cards::{self, history::HistoryEntry};
use crate::error::StoreError;
use cardinal_base::page;

/// A page of a card's history, newest first.
pub struct History {
    pub lines: Vec<HistoryEntry>,
    card: Uuid,
    has_more: bool,
}

impl Catalogue {
    /// A page of the history of a card, deleted or not; 404 when there was never such a card.
    pub async fn history(&self, card: Uuid, limit: Option<i64>, cursor: Option<&str>) -> Result<History, StoreError> {
        let limit = page::limit(limit)?;
        let before = cursor.map(|cursor| self.cursors.open(&list_name(card), cursor)).transpose()?;
        cards::check_known(&self.pool, card).await?;
        let (mut lines, is_cut) = cards::history::page(&self.pool, card, before, limit + 1).await?;
        let limit = usize::try_from(limit).unwrap_or_default();
        let has_more = is_cut || lines.len() > limit;
        lines.truncate(limit);
        Ok(History { lines, card, has_more })
    }

    /// The cursor of what follows the first `shown` lines of a page; none at the end.
    pub fn history_cursor(&self, history: &History, shown: usize) -> Result<Option<String>, StoreError> {
        let follows = history.has_more || shown < history.lines.len();
        let last = shown.checked_sub(1).and_then(|at| history.lines.get(at)).filter(|_| follows);
        Ok(last.map(|line| self.cursors.seal(&list_name(history.card), &line.id)).transpose()?)
    }
}

fn list_name(card: Uuid) -> (&'static str, Uuid) {
    ("card history", card)
}
