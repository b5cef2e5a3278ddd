//! Groups of cards that filters by deletion, status, kind and plugin cannot tell apart: `card_groups`.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;
use time::{Duration, OffsetDateTime};

use super::{Conditions, places::Places};
use crate::error::StoreError;
use cardinal_cards::filter::Filter;
use cardinal_database::pool::Connection;

/// From so many groups on, triggers put cards that would need another one into the mixed groups.
const MAX_GROUPS: i64 = 2_000;

/// How long sizes of groups are taken for what they were. Old ones make lists slower, never wrong.
const RENEW_AFTER: Duration = Duration::minutes(10);

/// The sizes of the largest groups, by the last ANALYZE.
const SIZES: &str = "
SELECT m.card_group, (m.share * greatest(c.reltuples, 0))::bigint AS cards
  FROM pg_catalog.pg_stats s, pg_catalog.pg_class c,
       unnest(s.most_common_vals::text::integer[], s.most_common_freqs) m (card_group, share)
 WHERE s.schemaname = 'public' AND s.tablename = 'card_list_index' AND s.attname = 'card_group'
   AND c.oid = 'public.card_list_index'::regclass";

/// True of rows `w` in a group whose cards have sources in common.
pub(super) const IS_NOT_MIXED: &str = "w.card_group NOT BETWEEN 11 AND 16";

/// A column by which every statement says how many groups there were when it ran: none is ever removed, so that the
/// same number means the same groups.
pub(super) const NUMBER_NOW: &str = "(SELECT count(*) FROM public.card_groups)";

/// What never changes about a group. `kinds` and `plugins` are none where they differ from card to card.
struct Group {
    id: i32,
    deleted: bool,
    status: String,
    kinds: Option<Vec<String>>,
    plugins: Option<Vec<String>>,
    /// About how many cards it has, as the last ANALYZE saw it; 0 for a small group.
    cards: i64,
}

/// All groups at some moment.
#[derive(Default)]
pub(super) struct GroupList {
    pub(super) number: i64,
    groups: Vec<Group>,
    pub(super) places: Places,
    read_at: Option<OffsetDateTime>,
}

/// The groups as they were read last. A page that finds another number of them is read again.
#[derive(Default)]
pub(super) struct Groups(ArcSwap<GroupList>);

impl Groups {
    /// None when they have not been read, or so long ago that their sizes may be others.
    pub(super) fn known(&self, now: OffsetDateTime) -> Option<Arc<GroupList>> {
        let list = self.0.load_full();
        // Both ways: the clock may have been set back.
        list.read_at.is_some_and(|read_at| (now - read_at).abs() < RENEW_AFTER).then_some(list)
    }

    pub(super) async fn renew(&self, client: &Connection, now: OffsetDateTime) -> Result<Arc<GroupList>, StoreError> {
        let sizes: HashMap<i32, i64> = client
            .query(&client.prepare_cached(SIZES).await?, &[])
            .await?
            .iter()
            .map(|row| Ok((row.try_get("card_group")?, row.try_get("cards")?)))
            .collect::<Result<_, tokio_postgres::Error>>()?;
        let sql = "SELECT id, deleted, status, kinds, plugins FROM public.card_groups ORDER BY id";
        let rows = client.query(&client.prepare_cached(sql).await?, &[]).await?;
        let groups = rows.iter().map(|row| Group::from_row(row, &sizes)).collect::<Result<Vec<_>, _>>()?;
        let number = i64::try_from(groups.len()).unwrap_or(i64::MAX);
        let places = Places::read(client).await?;
        let list = Arc::new(GroupList { number, groups, places, read_at: Some(now) });
        self.0.store(Arc::clone(&list));
        Ok(list)
    }
}

impl GroupList {
    /// The groups whose cards a filter may pick. All of their cards are picked by what groups tell apart, but for those
    /// of the mixed ones.
    pub(super) fn picked(&self, filter: &Filter) -> Vec<i32> {
        self.groups.iter().filter(|group| group.may_have(filter)).map(|group| group.id).collect()
    }

    /// About how many cards the groups have that a filter may pick from.
    pub(super) fn estimate(&self, filter: &Filter) -> i64 {
        self.groups.iter().filter(|group| group.may_have(filter)).map(|group| group.cards).sum()
    }

    /// About how many cards all groups have, or 1.
    pub(super) fn all(&self) -> i64 {
        self.groups.iter().map(|group| group.cards).sum::<i64>().max(1)
    }

    /// The groups whose cards a filter may pick, and about how many these are, the largest first.
    pub(super) fn by_size(&self, filter: &Filter) -> impl Iterator<Item = (i32, i64)> {
        let picked = self.groups.iter().filter(|group| group.may_have(filter));
        let mut picked: Vec<_> = picked.map(|group| (group.id, group.cards)).collect();
        picked.sort_unstable_by_key(|(id, cards)| (-cards, *id));
        picked.into_iter()
    }

    /// As many of them as are known to be large.
    pub(super) fn largest(&self, filter: &Filter, max: usize) -> Vec<(i32, i64)> {
        self.by_size(filter).take_while(|(_, cards)| *cards > 0).take(max).collect()
    }

    /// Whether cards in mixed groups have to be looked at one by one.
    pub(super) fn may_be_mixed(&self, filter: &Filter) -> bool {
        self.number >= MAX_GROUPS && (filter.kind.is_some() || filter.plugin.is_some() || filter.missing_kind.is_some())
    }
}

impl Group {
    fn from_row(row: &tokio_postgres::Row, sizes: &HashMap<i32, i64>) -> Result<Self, tokio_postgres::Error> {
        let id = row.try_get("id")?;
        Ok(Self {
            id,
            cards: sizes.get(&id).copied().unwrap_or_default(),
            deleted: row.try_get("deleted")?,
            status: row.try_get("status")?,
            kinds: row.try_get("kinds")?,
            plugins: row.try_get("plugins")?,
        })
    }

    fn may_have(&self, filter: &Filter) -> bool {
        let has = |list: &Option<Vec<String>>, wanted: &Option<String>| match (list, wanted) {
            (Some(list), Some(wanted)) => list.contains(wanted),
            _ => true,
        };
        let lacks = |list: &Option<Vec<String>>, wanted: &Option<String>| match (list, wanted) {
            (Some(list), Some(wanted)) => !list.contains(wanted),
            _ => true,
        };
        self.deleted == filter.deleted
            && filter.status.is_none_or(|status| status == self.status)
            && has(&self.kinds, &filter.kind)
            && has(&self.plugins, &filter.plugin)
            && lacks(&self.kinds, &filter.missing_kind)
    }
}

/// The same in SQL, of groups `g`.
pub(super) fn picked_in_sql(query: &mut Conditions, filter: &Filter) -> String {
    let mut sql = format!("g.deleted = {}", filter.deleted);
    if let Some(status) = filter.status {
        sql.push_str(&format!(" AND g.status = ${}", query.bind(status)));
    }
    let lists = [("kinds", &filter.kind, "@>"), ("plugins", &filter.plugin, "@>")];
    for (column, wanted, compare) in lists {
        if let Some(wanted) = wanted {
            let at = query.bind(wanted.clone());
            sql.push_str(&format!(" AND (g.{column} IS NULL OR g.{column} {compare} ARRAY[${at}])"));
        }
    }
    if let Some(kind) = &filter.missing_kind {
        let at = query.bind(kind.clone());
        sql.push_str(&format!(" AND (g.kinds IS NULL OR NOT g.kinds @> ARRAY[${at}])"));
    }
    sql
}

/// What the filter asks of the sources of a card, of rows `w` with a `card_id`; for cards in mixed groups.
pub(super) fn source_conditions(query: &mut Conditions, filter: &Filter) -> String {
    let mut sql = "true".to_owned();
    let required = [("EXISTS", "kind", &filter.kind), ("EXISTS", "plugin", &filter.plugin)];
    for (exists, column, wanted) in required.into_iter().chain([("NOT EXISTS", "kind", &filter.missing_kind)]) {
        if let Some(wanted) = wanted {
            let at = query.bind(wanted.clone());
            sql.push_str(&format!(
                " AND {exists} (SELECT FROM public.card_source_index s WHERE s.card_id = w.card_id AND s.{column} = ${at})"
            ));
        }
    }
    sql
}
