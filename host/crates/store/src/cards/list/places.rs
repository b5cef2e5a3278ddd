//! About where in the orders of title, SKU and age so many cards lie, by the histograms of the last ANALYZE. Old ones
//! make lists slower, never wrong.

use tokio_postgres::Client;
use uuid::Uuid;

use super::PageQuery;
use crate::error::StoreError;
use cardinal_cards::{filter::Column, page::Place};

const HISTOGRAMS: &str = "
SELECT attname::text AS name, histogram_bounds::text::text[] AS bounds
  FROM pg_catalog.pg_stats
 WHERE schemaname = 'public' AND tablename = 'card_list_index' AND attname IN ('title', 'sku', 'card_id')
   AND histogram_bounds IS NOT NULL";

/// Between each and the next lie about as many cards.
#[derive(Default)]
pub(super) struct Places {
    titles: Vec<String>,
    skus: Vec<String>,
    ids: Vec<Uuid>,
}

/// A value of the column that a list is sorted by.
#[derive(Debug, PartialEq)]
pub(super) enum Key {
    Text(String),
    Id(Uuid),
}

impl Key {
    /// The last place of the list that has this key: behind all ids that share it.
    pub(super) fn last_place(&self, wanted: &PageQuery<'_>) -> Place {
        let back = wanted.back();
        match self {
            Self::Id(id) => Place { value: String::new(), id: *id, back },
            Self::Text(value) => {
                let id = if wanted.descending() { Uuid::nil() } else { Uuid::max() };
                Place { value: value.clone(), id, back }
            }
        }
    }
}

impl Places {
    pub(super) async fn read(client: &Client) -> Result<Self, StoreError> {
        let mut places = Self::default();
        for row in client.query(HISTOGRAMS, &[]).await? {
            let bounds: Vec<String> = row.try_get("bounds")?;
            match row.try_get("name")? {
                "title" => places.titles = bounds,
                "sku" => places.skus = bounds,
                _ => places.ids = bounds.iter().filter_map(|id| id.parse().ok()).collect(),
            }
        }
        Ok(places)
    }

    /// About what share of all cards has a title or an SKU that begins with `text`.
    pub(super) fn share_beginning(&self, column: Column, text: &str) -> f64 {
        let bounds = if column == Column::Title { &self.titles } else { &self.skus };
        let text = text.to_lowercase();
        let number = bounds.iter().filter(|bound| bound.to_lowercase().starts_with(&text)).count();
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let [number, all] = [number, bounds.len().max(1)].map(|bounds| bounds as f64);
        number / all
    }

    /// What has `share` of all cards between itself and `place`, or more; none when fewer follow. It is never nearer: a
    /// list that ended there would look as if little fitted.
    pub(super) fn behind(&self, column: Column, place: Option<&Place>, descending: bool, share: f64) -> Option<Key> {
        let value = place.map(|place| &place.value);
        match column {
            Column::Title => behind(&self.titles, value, descending, share).cloned().map(Key::Text),
            Column::Sku => behind(&self.skus, value, descending, share).cloned().map(Key::Text),
            Column::CreatedAt => {
                behind(&self.ids, place.map(|place| &place.id), descending, share).copied().map(Key::Id)
            }
            Column::UpdatedAt => None,
        }
    }
}

fn behind<'a, T: Ord>(bounds: &'a [T], place: Option<&T>, descending: bool, share: f64) -> Option<&'a T> {
    let last = bounds.len().checked_sub(1)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of bounds")]
    let steps = ((share * last as f64).ceil() as usize).max(1);
    // Where the place lies between two of them is not known: counted from the further one.
    let at = match place {
        None if descending => last.checked_sub(steps)?,
        None => steps,
        Some(place) if descending => bounds.partition_point(|bound| bound < place).checked_sub(1 + steps)?,
        Some(place) => bounds.partition_point(|bound| bound <= place).saturating_add(steps),
    };
    bounds.get(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Places {
            titles: texts(&["Anvil", "Chair", "Lamp", "Sofa", "Zither"]),
            skus: texts(&["S-1", "S-2"]),
            ids: [0, 1_000, 3_000].map(Uuid::from_u128).to_vec(),
        }
    }

    fn title(place: Option<&str>, descending: bool, share: f64) -> Option<Key> {
        let place = place.map(|title| Place { value: title.to_owned(), id: Uuid::nil(), back: false });
        places().behind(Column::Title, place.as_ref(), descending, share)
    }

    fn text(text: &str) -> Option<Key> {
        Some(Key::Text(text.to_owned()))
    }

    #[test]
    fn a_share_of_the_cards_lies_behind_the_beginning_and_the_end() {
        assert_eq!((title(None, false, 0.5), title(None, true, 0.5)), (text("Lamp"), text("Lamp")));
        assert_eq!((title(None, false, 0.01), title(None, true, 0.01)), (text("Chair"), text("Sofa")), "never nearer");
        assert_eq!((title(None, false, 1.5), title(None, true, 1.5)), (None, None), "there are no more");
        let id = |descending| places().behind(Column::CreatedAt, None, descending, 0.5);
        assert_eq!(
            (id(false), id(true)),
            (Some(Key::Id(Uuid::from_u128(1_000))), Some(Key::Id(Uuid::from_u128(1_000))))
        );
        assert_eq!(places().behind(Column::UpdatedAt, None, false, 0.5), None);
    }

    #[test]
    fn behind_a_place_it_is_counted_from_the_next_bound() {
        assert_eq!(
            (title(Some("Drill"), false, 0.25), title(Some("Drill"), true, 0.25)),
            (text("Sofa"), text("Anvil"))
        );
        assert_eq!(
            (title(Some("Lamp"), false, 0.25), title(Some("Lamp"), true, 0.25)),
            (text("Zither"), text("Anvil"))
        );
        assert_eq!((title(Some("Tap"), false, 0.25), title(Some("Bench"), true, 0.25)), (None, None));
    }

    #[test]
    fn bounds_say_how_many_begin_with_a_text() {
        let share = |column, text: &str| places().share_beginning(column, text);
        let shares = [share(Column::Title, "la"), share(Column::Title, "amp"), share(Column::Sku, "s-1")];
        assert_eq!(shares.map(|share| format!("{share:.1}")), ["0.2", "0.0", "0.5"]);
    }

    #[test]
    fn nothing_is_known_before_an_analysis() {
        assert!(Places::default().share_beginning(Column::Title, "a") < 0.1);
        assert_eq!(Places::default().behind(Column::Sku, None, false, 0.1), None);
        assert_eq!(Places::default().behind(Column::CreatedAt, None, true, 0.1), None);
    }
}
