//! What the whole file may have of what every removal of a card is planned with, by whomever: keys to the cards, and
//! the conditions of indexes, each of which PostgreSQL reads for each key. The catalog bounds the same over all
//! versions (`sql/plugin_actions.sql`).

use squawk_syntax::SyntaxKind::*;
use squawk_syntax::SyntaxNode;

use super::CardKey;
use super::error::SchemaError;

const MAX_CARD_KEYS: usize = 32;
/// Of the conditions of all indexes, as they are written. A condition has less than 128 times as much in the catalog.
const MAX_CONDITION_BYTES: usize = 8 * 1024;

const KEYS_FIX: &str = "Each removal of a card, whoever's it is, asks each of these keys. Keep the card's id in one table and \
    point to that table from the others.";
const CONDITIONS_FIX: &str = "PostgreSQL reads them for each removal of a card, whoever's it is. Write shorter conditions, or \
    index a column that says what they say.";

#[derive(Default)]
pub(super) struct Totals {
    card_keys: usize,
    condition_bytes: usize,
}

impl Totals {
    /// Takes a statement down, whose keys to the cards are these.
    pub(super) fn read<'a>(
        &mut self,
        text: &str,
        statement: &SyntaxNode,
        keys: impl Iterator<Item = &'a CardKey>,
    ) -> Result<(), SchemaError> {
        self.card_keys += keys.count();
        if self.card_keys > MAX_CARD_KEYS {
            let what = format!("more than {MAX_CARD_KEYS} keys to master_cards");
            return Err(SchemaError::node(text, statement, &what, KEYS_FIX));
        }
        let is_index = |it: &SyntaxNode| matches!(it.kind(), CREATE_INDEX | EXCLUDE_CONSTRAINT);
        let conditions =
            statement.descendants().filter(|it| matches!(it.kind(), WHERE_CLAUSE | WHERE_CONDITION_CLAUSE));
        for condition in conditions.filter(|it| it.parent().as_ref().is_some_and(is_index)) {
            self.condition_bytes += usize::from(condition.text_range().len());
            if self.condition_bytes > MAX_CONDITION_BYTES {
                let what = format!("conditions of indexes with more than {MAX_CONDITION_BYTES} bytes");
                return Err(SchemaError::node(text, &condition, &what, CONDITIONS_FIX));
            }
        }
        Ok(())
    }
}
