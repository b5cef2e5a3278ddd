//! How far walks go that look at rows one by one: a short one first, which shows how frequent is what is picked, and
//! from where it has ended as far as the page should need, as long as that takes less than to gather all that fits.
//!
//! Each leg of a walk sees the cards as they are then, as each page does: a card that moves in the list meanwhile may
//! be passed over, and is never there twice.

use std::collections::HashSet;

use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    Count, ENDING, FoundCards, GroupsChange, PageQuery, Reading, base,
    bounded::too_long,
    has_card, ranges,
    selection::{MANY_GATHERED, MIN_WALKED, PROBE},
    statements,
};
use crate::error::StoreError;
use cardinal_cards::{filter::Column, page::Place};

/// No walk is shorter: what is frequent need not lie at the beginning.
const MIN_STEPS: u32 = 1_000;
/// The longest walk that is begun where a gathering may be quicker: a step takes 0.2 µs.
pub(super) const STEPS: u32 = 32_000;
/// The same where gathering takes a look at another table for each card found.
const STEPS_BY_TIME: u32 = 45_000;
/// The same where each step looks at another table, 1 µs.
const STEPS_ELSEWHERE: u32 = 4_000;
/// What a card costs that is gathered by its words, in steps; with a look at its time; and the gathering itself.
const STEPS_BY_GATHERED: f64 = 7.0;
const STEPS_BY_GATHERED_WITH_TIME: f64 = 16.0;
const STEPS_BY_GATHERING: f64 = 2_000.0;
/// So many cards that have changed are gathered in the time of a step.
const CHANGED_BY_STEP: f64 = 2.0;
/// The longest walk where words lie together, or words are sought in what has changed; and how many steps are worth a
/// try for each card that would be gathered.
const MAX_STEPS: u32 = 150_000;
const STEPS_BY_HIT: i64 = 2;
/// A walk is planned for more steps than it should take, by so many times what chance adds to the number found.
const MARGIN: f64 = 1.5;
/// Where it goes on if that is too few, so many steps more at most: they cost as much as to go on.
const MARGIN_ONWARD: f64 = 1_000.0;

impl Reading<'_> {
    /// The page by walks as long as one is likely to find it; none when gathering takes less.
    pub(super) async fn met(
        &self,
        known: Count,
    ) -> Result<Result<Option<(FoundCards, Count)>, GroupsChange>, StoreError> {
        let (mut steps, mut sample) = self.first_steps(known).await?;
        let (mut so_far, mut is_begun) = (None, false);
        loop {
            let known = known.at_least(i64::try_from(sample.found).unwrap_or(i64::MAX));
            if !is_begun && steps.is_none_or(|steps| steps > STEPS / 2) {
                is_begun = true;
                match self.beginnings(known).await? {
                    Ok(None) => {}
                    found => return Ok(found),
                }
            }
            let Some(max_steps) = steps else { return Ok(Ok(None)) };
            let Ok(found) = self.onward(so_far, max_steps).await? else { return Ok(Err(GroupsChange)) };
            if found.is_complete {
                return Ok(Ok(Some((found, known))));
            }
            // Rows that were few because many of one group lay there say less than the first ones of all.
            if found.steps >= sample.steps {
                sample = Sample { steps: found.steps, found: found.cards.len() };
            }
            steps = self.further_steps(found.steps, sample, found.reached.is_some()).await?;
            so_far = Some(found);
        }
    }

    /// So many steps of the list in all, from where the first ones have ended, or from the beginning where that is not
    /// known.
    async fn onward(
        &self,
        so_far: Option<FoundCards>,
        steps: u32,
    ) -> Result<Result<FoundCards, GroupsChange>, StoreError> {
        let Some((first, reached)) = so_far.and_then(FoundCards::split) else {
            return self.leg(self.wanted, steps, 0).await;
        };
        let rest = self.wanted.rest(&reached, first.cards.len());
        let further = steps.saturating_sub(first.steps).max(MIN_STEPS);
        let found = self.leg(&rest, further, first.bytes).await?;
        Ok(found.map(|found| found.behind(first)))
    }

    /// So many steps by whatever takes less: by parts of the list, or row by row. So many bytes of the page have been
    /// read before.
    async fn leg(
        &self,
        wanted: &PageQuery<'_>,
        steps: u32,
        bytes: usize,
    ) -> Result<Result<FoundCards, GroupsChange>, StoreError> {
        match self.part(wanted, steps, bytes).await? {
            Ok(Some(found)) => Ok(Ok(found)),
            Ok(None) => self.walk(wanted, Some(steps), bytes).await,
            Err(change) => Ok(Err(change)),
        }
    }

    pub(super) async fn walk(
        &self,
        wanted: &PageQuery<'_>,
        steps: Option<u32>,
        bytes: usize,
    ) -> Result<Result<FoundCards, GroupsChange>, StoreError> {
        let statement = statements::walk(wanted, self.groups, steps)?;
        let mut found = FoundCards::all(statement.rows_behind(bytes, self.client).await?.ok_or_else(too_long)?);
        if found.cards.first().is_some_and(|row| self.is_outdated(row)) {
            return Ok(Err(GroupsChange));
        }
        let has_ended = found.cards.last().is_some_and(|row| row.get(ENDING));
        let reached = found.cards.first().and_then(|row| reached(row, wanted));
        found.steps = found.cards.first().and_then(steps_taken).or(steps).unwrap_or_default();
        found.cards.retain(has_card);
        let is_full = found.is_cut || found.cards.len() > wanted.limit as usize;
        found.is_complete = steps.is_none() || is_full || has_ended;
        found.reached = reached.filter(|_| !found.is_complete);
        Ok(Ok(found))
    }

    /// A walk that should find the page if the estimate is right, or else one that finds out; and what is known by
    /// then.
    async fn first_steps(&self, known: Count) -> Result<(Option<u32>, Sample), StoreError> {
        let (filter, held) = (self.wanted.filter, self.groups.estimate(self.wanted.filter));
        let is_known = filter.q.is_none() || filter.updated_since.is_none() && known.cards >= MIN_WALKED;
        if is_known {
            let steps = u32::try_from(held).unwrap_or(u32::MAX);
            let all = Sample { steps, found: usize::try_from(known.cards).unwrap_or_default() };
            let needed = self.needed_steps(all, f64::INFINITY).filter(|needed| *needed <= self.max_steps());
            return Ok((needed.or_else(|| (held == 0).then(|| self.max_steps())), Sample::default()));
        }
        // Few cards are walked to the end.
        if held <= i64::from(PROBE) || self.groups.may_be_mixed(filter) || !ranges::is_probed(self.wanted, self.groups)
        {
            return Ok((Some(PROBE), Sample::default()));
        }
        let sample = Sample { steps: PROBE, found: self.probe(self.wanted).await? };
        Ok((self.further_steps(0, sample, true).await?, sample))
    }

    /// A longer walk than one that found too little; none where a gathering is quicker than that.
    async fn further_steps(&self, walked: u32, sample: Sample, goes_on: bool) -> Result<Option<u32>, StoreError> {
        let (most, margin) = (self.max_steps(), if goes_on { MARGIN_ONWARD } else { f64::INFINITY });
        if walked < most
            && let Some(needed) = self.needed_steps(sample, margin)
            && needed <= most
            && self.is_worthwhile(walked, sample).await?
        {
            let least = walked.saturating_add(if goes_on { MIN_STEPS } else { walked });
            return Ok(Some(needed.max(least).min(most)));
        }
        let Some(text) = self.wanted.filter.q.as_deref().filter(|_| self.wanted.filter.updated_since.is_none()) else {
            return Ok(None);
        };
        // Words that lie together, as the first ones of titles do.
        let hits = self.worded(text).await?;
        if hits <= MANY_GATHERED {
            return Ok(None);
        }
        let worthwhile = u32::try_from(hits.saturating_mul(STEPS_BY_HIT)).unwrap_or(u32::MAX).min(MAX_STEPS);
        let further = if walked < most { most } else { worthwhile };
        Ok((further >= walked.max(sample.steps).saturating_mul(2)).then_some(further))
    }

    /// The longest walk that is begun at all.
    fn max_steps(&self) -> u32 {
        match base::looks_elsewhere(self.wanted, self.groups) {
            true => STEPS_ELSEWHERE,
            false if base::is_by_time(self.wanted) => STEPS_BY_TIME,
            false if self.wanted.filter.updated_since.is_some() => MAX_STEPS,
            false => STEPS,
        }
    }

    /// Whether the page should be found by a walk that takes less, from where it is, than to gather what has the words.
    async fn is_worthwhile(&self, walked: u32, sample: Sample) -> Result<bool, StoreError> {
        let filter = self.wanted.filter;
        if filter.q.is_none() || self.groups.may_be_mixed(filter) {
            return Ok(true);
        }
        let (share, is_by_time) = (sample.share(), base::is_by_time(self.wanted));
        let by_hit = if is_by_time { STEPS_BY_GATHERED_WITH_TIME } else { STEPS_BY_GATHERED };
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let gathering = if filter.updated_since.is_some() && !is_by_time {
            self.changed().await? as f64 / CHANGED_BY_STEP
        } else {
            share * self.groups.all() as f64 * by_hit + STEPS_BY_GATHERING
        };
        Ok(f64::from(self.wanted.limit + 1) / share <= f64::from(walked) + gathering)
    }

    /// The steps that should find the page, of which up to `margin` are for chance; none where too few were found to
    /// say.
    fn needed_steps(&self, sample: Sample, margin: f64) -> Option<u32> {
        if sample.found < 2 {
            return None;
        }
        let (rows, found) = (f64::from(self.wanted.limit + 1), sample.share() * f64::from(sample.steps));
        let expected = rows / sample.share();
        let needed = expected + (expected * MARGIN * (1.0 / found + 1.0 / rows).sqrt()).min(margin);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; too large is u32::MAX")]
        Some((needed as u32).max(MIN_STEPS))
    }
}

/// How many rows that fit were found among so many.
#[derive(Clone, Copy, Default)]
struct Sample {
    steps: u32,
    found: usize,
}

impl Sample {
    fn share(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let found = self.found as f64;
        found / f64::from(self.steps.max(1))
    }
}

impl FoundCards {
    /// These and the place behind which a walk goes on, where it can.
    fn split(mut self) -> Option<(Self, Place)> {
        let reached = self.reached.take()?;
        Some((self, reached))
    }

    /// These behind `first`. Where a card has moved from there to here meanwhile, the page is not complete, and is read
    /// from its beginning again.
    fn behind(mut self, first: Self) -> Self {
        let ids: HashSet<Uuid> = self.cards.iter().map(|row| row.get(0)).collect();
        let found = first.cards.len();
        let mut cards = first.cards;
        cards.retain(|row| !ids.contains(&row.get::<_, Uuid>(0)));
        let has_moved = cards.len() < found;
        cards.append(&mut self.cards);
        Self {
            cards,
            max_row_bytes: self.max_row_bytes.max(first.max_row_bytes),
            steps: self.steps.saturating_add(first.steps),
            // Behind a cut nothing can be read any more.
            is_complete: self.is_complete && (!has_moved || self.is_cut),
            reached: self.reached.filter(|_| !has_moved),
            ..self
        }
    }
}

/// How many rows a walk has looked at, if it says so.
fn steps_taken(row: &Row) -> Option<u32> {
    let steps: i64 = row.try_get::<_, Option<i64>>("steps").ok()??;
    Some(u32::try_from(steps).unwrap_or(u32::MAX).max(1))
}

/// Where a walk has ended, if it says so.
fn reached(row: &Row, wanted: &PageQuery<'_>) -> Option<Place> {
    let id = row.try_get("reached_id").ok()?;
    let value = match wanted.sort.column {
        Column::CreatedAt => String::new(),
        Column::UpdatedAt => row.try_get::<_, OffsetDateTime>("reached_key").ok()?.format(&Rfc3339).ok()?,
        Column::Title | Column::Sku => row.try_get("reached_key").ok()?,
    };
    Some(Place { value, id, back: wanted.back() })
}
