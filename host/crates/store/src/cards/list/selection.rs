//! Lists whose rows have to be looked at one by one: by a search, or by the time of changes in another order. What is
//! quickest depends on how many fit. Figures are PostgreSQL's time for a million cards, with all that is read in
//! memory.

use super::{
    Count, FoundCards, GroupsChange, PageQuery, Reading, base, beginnings,
    bounded::Statement,
    conditions::is_short,
    first_words, has_card, planned_rows, ranges,
    statements::{self, GatheringIndex},
};
use crate::error::StoreError;
use cardinal_cards::filter::{Column, Filter};

/// Steps that find out how frequent a word is: 0.8 ms.
pub(super) const PROBE: u32 = 4_000;
/// Up to so many, words that are not among the first cards are gathered: they lie anywhere.
pub(super) const MANY_GATHERED: i64 = 20_000;
/// Where this few cards fit, gathering them by their words takes less than a walk: 1.4 µs each.
const MAX_GATHERED: i64 = 2_500;
/// From here on a walk to the end of the list takes less than gathering by words, and by time.
pub(super) const MIN_WALKED: i64 = 100_000;
const MIN_WALKED_BY_TIME: i64 = 400_000;
/// The most that are gathered by time before a walk is tried: 0.25 µs each with their number, so that it pays as long
/// as they are fewer than the square root of a few times the page's rows times all rows that a walk may meet.
const MAX_CHANGED: i64 = 20_000;
const WALK_STEP_BY_CHANGED: f64 = 10.0;
/// The planner may think that so many times fewer have changed than have: to gather them still takes less.
const CHANGED_BY_EXPECTED: i64 = 2;
/// A card that is gathered by its words, with a look at its time, costs as much as so many that are gathered by time.
const CHANGED_BY_HIT: i64 = 8;
/// From so many cards on that have the words, most of these are not looked up in the times.
const MIN_THEN_TIMES: i64 = 1_000;
/// Up to this many that groups hold, they are counted: 0.05 µs each.
const COUNTED_WHOLE: i64 = 20_000;

impl Reading<'_> {
    /// A page of what is picked card by card.
    pub(super) async fn selected(&self, known: Count) -> Result<Option<(FoundCards, Count)>, StoreError> {
        let can_gather = statements::can_gather(self.wanted.filter);
        if !can_gather || !known.exact || known.cards > MAX_GATHERED {
            match self.met(known).await? {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(GroupsChange) => return Ok(None),
            }
        }
        if let Some(index) = self.gathering_index(known).await? {
            match self.gather(index, None).await? {
                Ok(Some((found, cards))) => {
                    let cards = cards.or_else(|| self.whole(&found));
                    return Ok(Some((found, cards.map_or(known, |cards| Count { cards, exact: true }))));
                }
                Ok(None) => {}
                Err(GroupsChange) => return Ok(None),
            }
        }
        let walked = self.walk(self.wanted, None, 0).await?;
        Ok(walked.ok().map(|walked| (walked, known)))
    }

    /// How many cards a list has that ends on its first page.
    fn whole(&self, found: &FoundCards) -> Option<i64> {
        let is_whole = self.wanted.place.is_none() && !found.is_cut && found.cards.len() <= self.wanted.limit as usize;
        i64::try_from(found.cards.len()).ok().filter(|_| is_whole)
    }

    /// The page of a search along the order of what begins with its text; none where this is not the list's order, or
    /// many cards are found by something else.
    pub(super) async fn beginnings(
        &self,
        known: Count,
    ) -> Result<Result<Option<(FoundCards, Count)>, GroupsChange>, StoreError> {
        let filter = self.wanted.filter;
        let Some(text) = filter.q.as_deref() else { return Ok(Ok(None)) };
        if !matches!(self.wanted.sort.column, Column::Title | Column::Sku)
            || filter.updated_since.is_some()
            || self.groups.may_be_mixed(filter)
        {
            return Ok(Ok(None));
        }
        if !is_short(text) {
            return self.first_words(text, known).await;
        }
        let Some(ranges) = self.knowledge.letters.get(self.client).await?.ranges(text) else { return Ok(Ok(None)) };
        let statement = beginnings::page(self.wanted, self.groups, text, ranges, MAX_GATHERED + 1)?;
        let gathered = self.gathered(statement, Some(MAX_GATHERED), 0).await?;
        Ok(gathered.map(|found| found.map(|(found, _)| (found, known))))
    }

    /// The same of three characters or more, where enough cards begin with them.
    async fn first_words(
        &self,
        text: &str,
        known: Count,
    ) -> Result<Result<Option<(FoundCards, Count)>, GroupsChange>, StoreError> {
        let spellings = self.knowledge.letters.get(self.client).await?.spellings(text, first_words::MAX_LETTERS);
        let Some(spellings) = spellings else { return Ok(Ok(None)) };
        let &Self { wanted, groups, .. } = self;
        let search = first_words::Search { wanted, groups, text, spellings, max_found: MAX_GATHERED + 1 };
        if !search.is_possible() {
            return Ok(Ok(None));
        }
        let frequencies = self.knowledge.key_frequencies.get(self.client, self.now).await?;
        let gathered = self.gathered(search.page(&frequencies)?, None, 0).await?;
        Ok(gathered.map(|found| {
            let (found, cards) = found?;
            let cards = cards?;
            let cards = match wanted.place {
                None if cards < first_words::COUNTED => cards,
                None => known.cards.max(cards).max(self.that_begin(text)),
                Some(_) => known.cards,
            };
            // Never said to be exact: where few are picked of many that have the text, the next page would gather
            // these.
            Some((found, Count { cards, exact: false }))
        }))
    }

    /// About how many cards begin with the text, by the histograms.
    fn that_begin(&self, text: &str) -> i64 {
        let share = self.groups.places.share_beginning(self.wanted.sort.column, text);
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "an estimate")]
        let cards = (share * self.groups.estimate(self.wanted.filter) as f64) as i64;
        cards
    }

    /// How many of the first rows fit, of [`PROBE`].
    pub(super) async fn probe(&self, wanted: &PageQuery<'_>) -> Result<usize, StoreError> {
        let found = ranges::probe(wanted, self.groups, PROBE)?.rows(self.client).await?;
        let found: i64 = found.and_then(|found| found.rows.first().map(|row| row.get(0))).unwrap_or_default();
        Ok(usize::try_from(found).unwrap_or_default())
    }

    /// The page of what few cards have changed since the time that is asked for, gathered at once, whatever else the
    /// filter asks; none where they are many.
    pub(super) async fn few_changed(
        &self,
        known: Option<Count>,
    ) -> Result<Result<Option<(FoundCards, Count)>, GroupsChange>, StoreError> {
        let filter = self.wanted.filter;
        if filter.updated_since.is_none() || base::is_by_time(self.wanted) || self.groups.may_be_mixed(filter) {
            return Ok(Ok(None));
        }
        let max = self.max_changed();
        let cards = match known {
            Some(known) if filter.q.is_none() => known.cards,
            _ => self.changed().await?,
        };
        if cards > max {
            return Ok(Ok(None));
        }
        let gathered = self.gather(GatheringIndex::Times, Some(max * CHANGED_BY_EXPECTED)).await?;
        Ok(gathered
            .map(|found| found.map(|(found, cards)| (found, Count { cards: cards.unwrap_or_default(), exact: true }))))
    }

    fn max_changed(&self) -> i64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a figure of thousands")]
        let max = (WALK_STEP_BY_CHANGED * self.wanted.rows() as f64 * self.groups.estimate(self.wanted.filter) as f64)
            .sqrt() as i64;
        max.clamp(MAX_GATHERED, MAX_CHANGED)
    }

    /// What a gathering had better go by; none where a walk to the end of the list takes less than any.
    async fn gathering_index(&self, known: Count) -> Result<Option<GatheringIndex>, StoreError> {
        let filter = self.wanted.filter;
        let by_time = match (&filter.q, filter.updated_since) {
            (None, None) => return Ok(None),
            (None, Some(_)) => known.cards < MIN_WALKED_BY_TIME,
            (Some(_), None) => false,
            (Some(_), Some(_)) => {
                let changed = self.changed().await?;
                changed < MIN_WALKED_BY_TIME
                    && (known.cards >= MIN_WALKED || changed < self.hits().await?.max(known.cards) * CHANGED_BY_HIT)
            }
        };
        if by_time {
            return Ok(Some(GatheringIndex::Times));
        }
        if filter.q.is_none() || known.cards >= MIN_WALKED {
            return Ok(None);
        }
        let frequencies = self.knowledge.key_frequencies.get(self.client, self.now).await?;
        if filter.updated_since.is_some() && !base::is_by_time(self.wanted) && self.has_many_hits(known).await? {
            return Ok(Some(GatheringIndex::WordsThenTimes(frequencies)));
        }
        Ok(Some(GatheringIndex::Words { frequencies, until: None }))
    }

    /// Whether so many cards should have the words that their times are looked up in the list's order.
    async fn has_many_hits(&self, known: Count) -> Result<bool, StoreError> {
        let Some(text) = &self.wanted.filter.q else { return Ok(false) };
        Ok(self.hits().await?.max(known.cards) >= MIN_THEN_TIMES || self.worded(text).await? >= MIN_THEN_TIMES)
    }

    /// About how many cards have the words, by the first ones of the list, looked at once a page.
    async fn hits(&self) -> Result<i64, StoreError> {
        self.hits.get_or_try_init(async || self.hits_of_first().await).await.copied()
    }

    async fn hits_of_first(&self) -> Result<i64, StoreError> {
        let filter = Filter { updated_since: None, ..self.wanted.filter.clone() };
        let &PageQuery { sort, place, limit, with_attributes, .. } = self.wanted;
        let found = self.probe(&PageQuery { filter: &filter, sort, place, limit, with_attributes }).await?;
        let all = self.groups.estimate(&filter).max(1);
        Ok(all.saturating_mul(i64::try_from(found).unwrap_or(i64::MAX).max(1)) / i64::from(PROBE))
    }

    async fn planned(&self, explain: Statement) -> Result<i64, StoreError> {
        let plan = explain.rows(self.client).await?;
        let plan: Option<serde_json::Value> = plan.and_then(|found| found.rows.first().map(|row| row.get(0)));
        Ok(plan.as_ref().map_or(0, planned_rows))
    }

    pub(super) async fn gather(
        &self,
        index: GatheringIndex,
        max: Option<i64>,
    ) -> Result<Result<Option<(FoundCards, Option<i64>)>, GroupsChange>, StoreError> {
        let statement = statements::gathering(self.wanted, self.groups, index, max.map(|max| max + 1))?;
        self.gathered(statement, max, 0).await
    }

    /// The page, and how many were gathered for it; none when that takes too long, or was more than `max`. So many
    /// `bytes` of the page have been read before.
    pub(super) async fn gathered(
        &self,
        statement: Statement,
        max: Option<i64>,
        bytes: usize,
    ) -> Result<Result<Option<(FoundCards, Option<i64>)>, GroupsChange>, StoreError> {
        let Some(mut found) = statement.rows_behind(bytes, self.client).await? else { return Ok(Ok(None)) };
        if found.rows.first().is_some_and(|row| self.is_outdated(row)) {
            return Ok(Err(GroupsChange));
        }
        let gathered: Option<i64> = found.rows.first().and_then(|row| row.get(super::ENDING));
        if max.zip(gathered).is_some_and(|(max, gathered)| gathered > max) {
            return Ok(Ok(None));
        }
        found.rows.retain(has_card);
        Ok(Ok(Some((FoundCards::all(found), gathered))))
    }

    /// How many cards the filter picks, as well as can be known quickly.
    pub(super) async fn expected(&self) -> Result<Count, StoreError> {
        let (filter, held) = (self.wanted.filter, self.groups.estimate(self.wanted.filter));
        if filter.q.is_none() && filter.updated_since.is_none() && held > 2 * COUNTED_WHOLE {
            return Ok(Count { cards: held, exact: false });
        }
        if !base::is_selective(self.wanted, self.groups)
            && let Some(cards) = self.counted().await?
        {
            return Ok(Count { cards, exact: !self.groups.may_be_mixed(filter) });
        }
        let cards = match (&filter.q, filter.updated_since) {
            (None, Some(_)) => self.changed().await?,
            // As the planner does, for what the groups are of all cards.
            (Some(text), None) if held > 0 => {
                (self.worded(text).await?.saturating_mul(held) / self.groups.all()).max(1)
            }
            _ => self.planned(statements::plan(filter, self.groups)).await?,
        };
        Ok(Count { cards, exact: false })
    }

    /// How many the groups hold of a filter without a search; none where they are more than are counted.
    async fn counted(&self) -> Result<Option<i64>, StoreError> {
        let counting = statements::count_up_to(self.wanted.filter, self.groups, COUNTED_WHOLE + 1);
        let counted = counting.rows(self.client).await?;
        Ok(counted.and_then(|found| found.rows.first().map(|row| row.get(0))).filter(|cards| *cards <= COUNTED_WHOLE))
    }

    /// What the planner expects of the words alone, asked once a page.
    pub(super) async fn worded(&self, text: &str) -> Result<i64, StoreError> {
        let plan = async || self.planned(statements::plan_of_words(text)).await;
        self.worded.get_or_try_init(plan).await.copied()
    }

    /// Asked of the planner once a page.
    pub(super) async fn changed(&self) -> Result<i64, StoreError> {
        let changed = || Filter { q: None, ..self.wanted.filter.clone() };
        let plan = async || self.planned(statements::plan(&changed(), self.groups)).await;
        self.changed.get_or_try_init(plan).await.copied()
    }
}
