//! Searches by parts of a list. What has the words and lies between two places is found by the index of searches and
//! one of the list's order together: a row that lies there takes less than half of a step along the list, and a card
//! that has the words and does not lie there takes next to nothing. By title a row takes as long as a step, since cards
//! of one part lie all over the table; with `updated_since`, most that have the words would be looked at in vain.

use super::{
    FoundCards, GroupsChange, PageQuery, Reading,
    conditions::is_short,
    places::Key,
    statements::{self, GatheringIndex},
};
use crate::error::StoreError;
use cardinal_cards::filter::Column;

/// A walk of so many steps takes less than any part.
const WALKED: u32 = 4_000;
/// A part has the cards of all groups: where the filter's have few of them, a walk along these takes less. It may take
/// much more than its steps, though, where the list's first cards are of many small groups.
const MAX_ROWS: f64 = 60_000.0;

impl Reading<'_> {
    /// What a walk of so many steps should find; none where that takes less itself, or the list ends before.
    pub(super) async fn part(
        &self,
        wanted: &PageQuery<'_>,
        steps: u32,
        bytes: usize,
    ) -> Result<Result<Option<FoundCards>, GroupsChange>, StoreError> {
        let Some(until) = self.end_of_part(wanted, steps) else { return Ok(Ok(None)) };
        let reached = until.last_place(wanted);
        let frequencies = self.knowledge.key_frequencies.get(self.client, self.now).await?;
        let index = GatheringIndex::Words { frequencies, until: Some(until) };
        let statement = statements::gathering(wanted, self.groups, index, None)?;
        let found = self.gathered(statement, None, bytes).await?;
        Ok(found.map(|found| {
            let (found, _) = found?;
            let is_complete = found.is_cut || found.cards.len() > wanted.limit as usize;
            Some(FoundCards { is_complete, reached: (!is_complete).then_some(reached), steps, ..found })
        }))
    }

    /// Where so many steps along the list should end, by the histograms.
    fn end_of_part(&self, wanted: &PageQuery<'_>, steps: u32) -> Option<Key> {
        let &PageQuery { filter, sort, place, .. } = wanted;
        let is_search = filter.q.as_deref().is_some_and(|text| !is_short(text)) && filter.updated_since.is_none();
        if steps <= WALKED || !is_search || !matches!(sort.column, Column::Sku | Column::CreatedAt) {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let [held, all] = [self.groups.estimate(filter).max(1), self.groups.all()].map(|cards| cards as f64);
        let share = f64::from(steps) / held;
        if share * all > MAX_ROWS {
            return None;
        }
        self.groups.places.behind(sort.column, place, wanted.descending(), share)
    }
}
