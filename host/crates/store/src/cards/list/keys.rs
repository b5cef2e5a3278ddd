//! The keys of searches: what `card_word_keys` makes of a card's lines, and what of it a search asks its index for. The
//! first three characters of a title and of an SKU have keys of their own, so that the index knows what has the text
//! elsewhere.

use super::{conditions::Conditions, conditions::is_short};
use cardinal_cards::filter::{ANYWHERE_FROM, Column};

/// Where in the lines the text may stand.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Anywhere,
    /// Not at the beginning of the title or the SKU alone.
    NotFirstIn(Column),
}

/// In some databases the only character that may be less than one in small letters.
const DOT_ABOVE: char = '\u{307}';

/// That rows `w` of the words have the keys of a search for `text`, which is not the same as having the text: apart
/// from `frequent` ones, as long as there are others.
pub(super) fn has_keys(query: &mut Conditions, text: &str, place: Place, frequent: Vec<String>) -> String {
    // In the index's collation, or it is not used.
    let keys = "public.card_word_keys(w.words)";
    let at = query.bind(text.to_owned());
    if is_short(text) {
        return format!(
            r#"{keys} @> (SELECT ARRAY[left(lower(E'\n' || ${at}::text COLLATE "default") COLLATE "C", {ANYWHERE_FROM})])"#
        );
    }
    if text.chars().filter(|letter| *letter != DOT_ABOVE).count() < ANYWHERE_FROM {
        return "true".to_owned();
    }
    let frequent = query.bind(frequent);
    let sought = format!(r#"(SELECT lower(${at}::text COLLATE "default") COLLATE "C" AS text) t"#);
    // Behind a line's end there may be one of the other keys.
    let others = format!(
        r"SELECT ARRAY(SELECT o.key FROM (SELECT substr(t.text, n, 3) AS key FROM generate_series(2, length(t.text) - 2) n WHERE substr(t.text, n - 1, 1) <> E'\n') o WHERE o.key <> ALL (${frequent})) AS keys"
    );
    let forms = match place {
        Place::Anywhere => r"three, E'\n' || three, E'\n\n' || three",
        Place::NotFirstIn(Column::Sku) => r"three, E'\n' || three",
        Place::NotFirstIn(_) => r"three, E'\n\n' || three",
    };
    let first = format!("SELECT ARRAY[{forms}] AS keys FROM (SELECT left(t.text, 3) AS three) l");
    format!(
        "{keys} @> (SELECT o.keys FROM {sought}, LATERAL ({others}) o) AND \
         {keys} && (SELECT CASE WHEN f.keys && ${frequent} AND o.keys <> '{{}}' THEN o.keys[1:1] ELSE f.keys END \
         FROM {sought}, LATERAL ({others}) o, LATERAL ({first}) f)"
    )
}
